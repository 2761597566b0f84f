// SPDX-License-Identifier: Apache-2.0
// The server behind TLS: who computes handshakes, and what a client that leaves in the middle costs.
#include <algorithm>
#include <ctime>

#include <boost/asio/executor_work_guard.hpp>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "exeunt/serve/tls_stream.h"
#include "tests/unit/serve/running_server.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Free<SSL_free>>;

// A key whose signature takes long, with a certificate that it signed itself, as files.
class Identity {
 public:
  explicit Identity(unsigned bits = 4096) : key_(EVP_RSA_gen(bits)) {
    const std::unique_ptr<X509, Free<X509_free>> certificate(X509_new());
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86'400);
    X509_set_pubkey(certificate.get(), key_.get());
    X509_sign(certificate.get(), key_.get(), EVP_sha256());
    FILE* file = std::fopen(certificate_file().c_str(), "w");
    PEM_write_X509(file, certificate.get());
    std::fclose(file);
    file = std::fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(file, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }
  [[nodiscard]] std::string certificate_file() const { return scratch_.path() / "certificate.pem"; }
  [[nodiscard]] std::string key_file() const { return scratch_.path() / "key.pem"; }
  [[nodiscard]] ListenerOptions options() const {
    return {.tls_certificate = certificate_file(), .tls_key = key_file()};
  }
  // Processor time of so many signatures.
  [[nodiscard]] double seconds_to_sign(int count) const {
    const auto now = [] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double begun = now();
    for (int i = 0; i < count; ++i) {
      const std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
      const std::array<unsigned char, 64> text = {};
      std::array<unsigned char, 1024> signature;
      size_t size = signature.size();
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get());
      EXPECT_EQ(EVP_DigestSign(context.get(), signature.data(), &size, text.data(), text.size()), 1);
    }
    return now() - begun;
  }

 private:
  Scratch scratch_;
  Key key_;
};

class TlsClient {
 public:
  explicit TlsClient(const auto& address) : socket_(address), session_(SSL_new(context_.get())) {
    SSL_set_fd(session_.get(), socket_.descriptor());
  }
  [[nodiscard]] bool handshake() { return SSL_connect(session_.get()) == 1; }
  [[nodiscard]] bool send(const std::string& bytes) {
    return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  [[nodiscard]] bool hung_up() const { return socket_.hung_up(); }
  // All that came until the connection ended.
  [[nodiscard]] std::string rest() {
    std::string all;
    std::array<char, 4096> bytes;
    for (int got; (got = SSL_read(session_.get(), bytes.data(), static_cast<int>(bytes.size()))) > 0;)
      all.append(bytes.data(), static_cast<size_t>(got));
    return all;
  }
  // The status of the next response, which ends in `end`; 0 if the connection ends.
  [[nodiscard]] int status(std::string_view end) {
    std::string all;
    while (!all.ends_with(end)) {
      std::array<char, 4096> bytes;
      const int got = SSL_read(session_.get(), bytes.data(), static_cast<int>(bytes.size()));
      if (got <= 0) return 0;
      all.append(bytes.data(), static_cast<size_t>(got));
    }
    return std::stoi(all.substr(9, 3));
  }

 private:
  RawClient socket_;
  Context context_{SSL_CTX_new(TLS_client_method())};
  Session session_;
};

// The first message of a client's handshake.
std::string client_hello() {
  const Context context(SSL_CTX_new(TLS_client_method()));
  const Session session(SSL_new(context.get()));
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(session.get(), BIO_new(BIO_s_mem()), out);
  (void)SSL_connect(session.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

// Whoever connects makes the server sign; the thread that serves everybody must not.
TEST(TlsTest, NetworkThreadComputesNoHandshakes) {
  constexpr int kClients = 10;
  const Identity identity;
  RunningServer server({.listener = identity.options()});
  const double before = server.network_seconds();
  for (int i = 0; i < kClients; ++i) {
    TlsClient client(server.port());
    ASSERT_TRUE(client.handshake());
  }
  EXPECT_LT(server.network_seconds() - before, 0.5 * identity.seconds_to_sign(kClients));
}

TEST(TlsTest, AnswersClientBesideUnfinishedHandshakes) {
  const Identity identity(2048);
  ListenerOptions options = identity.options();
  options.head_timeout = 1h;
  RunningServer server({.listener = options});
  const std::string hello = client_hello();
  std::vector<std::unique_ptr<RawClient>> others;
  for (size_t i = 0; i < 60; ++i) {
    others.push_back(std::make_unique<RawClient>(server.port()));
    others.back()->send_some(hello.substr(0, i % 3 == 0 ? 0 : i % 3 == 1 ? 100 : hello.size()));
  }
  TlsClient client(server.port());
  ASSERT_TRUE(client.handshake());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(post_text("/predict", kBody)));
    EXPECT_EQ(client.status("}]"), 200);
  }
}

// Closed by their clients, by the server's limits and at its end, while their handshakes wait and run.
TEST(TlsTest, ClosesConnectionsInHandshake) {
  const Identity identity(2048);
  ListenerOptions options = identity.options();
  options.head_timeout = 20ms;
  options.max_connections = 16;
  const std::string hello = client_hello();
  for (int round = 0; round < 3; ++round) {
    RunningServer server({.listener = options});
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 100; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      clients.back()->send_some(hello);
      if (i % 3 == 0) clients.back()->close();
    }
    if (round == 0) {
      for (size_t i = 1; i < clients.size(); i += 3) EXPECT_TRUE(clients[i]->ends());
      const auto open = [&] { return server.ask<size_t>([](Service& s) { return s.metrics().connections_open; }); };
      for (int i = 0; i < 60'000 && open() > 0; ++i) std::this_thread::sleep_for(1ms);
      EXPECT_EQ(open(), 0U);
    }
    EXPECT_TRUE(server.stop());
  }
}

TEST(TlsTest, ComparesAddressesByWhatClientsCannotChoose) {
  const auto address = HandshakeThread::address_of;
  EXPECT_EQ(address("10.0.0.1:80"), address("10.0.0.1:81"));
  EXPECT_NE(address("10.0.0.1:80"), address("10.0.0.2:80"));
  EXPECT_EQ(address("[2001:db8:1:2::1]:80"), address("[2001:db8:1:2:ffff::7]:81"));
  EXPECT_NE(address("[2001:db8:1:2::1]:80"), address("[2001:db8:1:3::1]:80"));
  EXPECT_NE(address("[::ffff:10.0.0.1]:80"), address("[::ffff:10.0.0.2]:80"));
  EXPECT_EQ(address("unix"), "unix");
}

TEST(TlsTest, RunsHandshakeOfRarestAddressThenNewest) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  std::vector<Session> sessions;
  std::vector<int> ended;
  boost::asio::io_context network;
  const auto work = boost::asio::make_work_guard(network);
  HandshakeThread thread(network);
  for (const char* address : {"a", "a", "b", "a", "b", "a", "a"}) {
    const auto i = static_cast<int>(sessions.size());
    sessions.emplace_back(SSL_new(context.get()));
    SSL* ssl = sessions.back().get();
    SSL_set_accept_state(ssl);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    thread.advance(ssl, address, [&, i](int error) {
      EXPECT_EQ(error, SSL_ERROR_WANT_READ);
      ended.push_back(i);
    });
  }
  EXPECT_TRUE(thread.runs(sessions[0].get()));  // it had nobody to wait for
  EXPECT_FALSE(thread.cancel(sessions[0].get()));
  EXPECT_TRUE(thread.cancel(sessions[5].get()));
  while (ended.size() < 6 && network.run_one_for(60s) > 0) {
  }
  EXPECT_EQ(ended, (std::vector{0, 4, 2, 6, 3, 1}));
}

// As on a plain socket (ListenerTest): the stream goes while "100 Continue" is being written to it.
TEST(TlsTest, ClosesClientThatDoesNotTake100ContinueInTime) {
  const Identity identity(2048);
  const Scratch scratch;
  ListenerOptions options = identity.options();
  options.unix_socket = scratch.path() / "s";
  options.body_timeout = 20ms;
  options.write_timeout = 1h;
  RunningServer server({.listener = options});
  std::vector<std::unique_ptr<TlsClient>> clients;
  std::string gets;
  for (int i = 0; i < 150; ++i) {
    clients.push_back(std::make_unique<TlsClient>(options.unix_socket));
    ASSERT_TRUE(clients.back()->handshake());
    gets += "GET /playground.css HTTP/1.1\r\nHost: x\r\n\r\n";
    ASSERT_TRUE(clients.back()->send(
        gets + "POST /predict HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"));
  }
  bool closed = false;
  for (const auto limit = Clock::now() + 60s; !closed && Clock::now() < limit; std::this_thread::sleep_for(1ms)) {
    for (const auto& client : clients) {
      if (!client->hung_up()) continue;
      const std::string got = client->rest();
      if (got.empty() || got.find(" 408 ") != std::string::npos) continue;
      closed = true;
      EXPECT_EQ(got.find(" 100 Continue"), std::string::npos);
    }
  }
  EXPECT_TRUE(closed);
}

// Whatever else it has sent, with its request or after it.
TEST(TlsTest, CancelsWorkOfDisconnectedClient) {
  const Identity identity(2048);
  RunningServer server({.listener = identity.options(), .threads = 1});
  server.engine().hold(true);
  size_t clients = 0;
  for (const auto& [with, after] : {std::pair<size_t, size_t>{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 60'000}}) {
    {
      TlsClient client(server.port());
      ASSERT_TRUE(client.handshake());
      ASSERT_TRUE(client.send(post_text("/predict", kBody) + std::string(with, 'P')));
      ++clients;
      while (server.ask<size_t>([](Service& s) { return s.in_flight(); }) < clients) std::this_thread::sleep_for(1ms);
      ASSERT_TRUE(after == 0 || client.send(std::string(after, 'P')));
    }
    const auto abandoned = [&] { return server.ask<uint64_t>([](Service& s) { return s.metrics().abandoned; }); };
    for (int i = 0; i < 5000 && abandoned() < clients; ++i) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(abandoned(), clients) << with << " " << after;
  }
  server.engine().hold(false);
  server.stop();
}

}  // namespace
}  // namespace exeunt::serve
