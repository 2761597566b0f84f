// SPDX-License-Identifier: Apache-2.0
// TLS on a non-blocking socket that OpenSSL reads and writes itself: asio::ssl::stream holds 68 KiB of buffers for
// every connection, before it has shown a key (decision 0028). Includes Boost, so only connection.h includes it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <openssl/ssl.h>

namespace exeunt::serve {

// Runs TLS handshakes for the network thread, which alone calls everything here. Anybody can ask for one, and it costs
// us a signature: they run one at a time, on a thread that gives way to others, for at most kShare of a processor. The
// address from which fewest wait comes first, and of these the newest: where more clients come than that allows, those
// that have waited for long are likely to have left.
class HandshakeThread {
 public:
  using Done = std::function<void(int)>;  // with what SSL_get_error() says

  static constexpr double kShare = 0.25;
  static constexpr std::chrono::milliseconds kBurst{200};  // this much unused time may be made up for

  // "10.0.0.1:80", "[2001:db8::1]:80": without the port, and of IPv6 only the half that a client cannot choose.
  [[nodiscard]] static std::string address_of(const std::string& peer);

  explicit HandshakeThread(boost::asio::io_context& network);
  // Goes as far as the bytes that have come allow, then has the network thread call `done`.
  void advance(SSL* ssl, const std::string& address, Done done);
  // Forgets one that waits. False if it runs: `ssl` and its descriptor must stay until `done` is called.
  [[nodiscard]] bool cancel(const SSL* ssl) noexcept;
  [[nodiscard]] bool runs(const SSL* ssl) const noexcept { return running_.ssl == ssl; }

 private:
  struct Handshake {
    SSL* ssl = nullptr;
    std::string address = {};
    Done done = {};
  };
  using Waiting = std::vector<Handshake>;
  Handshake take(Waiting::iterator handshake) noexcept;
  void start_next();
  void run(SSL* ssl) noexcept;

  boost::asio::io_context& network_;
  Waiting waiting_ = {};
  std::unordered_map<std::string, size_t> waiting_from_ = {};  // of each address, how many
  Handshake running_ = {};
  std::chrono::steady_clock::time_point rest_until_ = {};  // the thread's
  boost::asio::thread_pool thread_{1};                     // last, so that it ends before what it uses
};

class TlsStream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Handler = std::function<void(const boost::system::error_code&, size_t)>;

  // What every context for such streams needs: buffers are freed while they are empty, and no session is kept.
  static void prepare(SSL_CTX* context) noexcept;

  // The server's side; all must outlive it. Throws bad_alloc.
  TlsStream(Socket& socket, SSL_CTX* context, HandshakeThread& handshakes);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Their handlers are called later, never before they return, and must keep the stream alive. One reads and one writes
  // at a time; the two may overlap.
  void handshake(const std::string& address, Handler done);  // the client's
  // Before the socket is closed. False if it must stay open, as it is used on another thread until `done` is called.
  [[nodiscard]] bool cancel_handshake() noexcept;
  [[nodiscard]] bool is_in_handshake() const noexcept { return handshakes_.runs(ssl_.get()); }
  void read_some(boost::asio::mutable_buffer buffer, Handler done);
  void write_some(std::string_view bytes, Handler done);
  // If that can be done at once.
  void send_close_notify() noexcept;

 private:
  using Step = std::function<int()>;
  using Wait = boost::asio::socket_base::wait_type;
  void continue_handshake(Wait wait, const std::string& address, Handler done);
  void attempt(const Step& step, const Handler& done);
  void attempt_after(Wait wait, Step step, Handler done);
  void attempt_later(Step step, Handler done);

  struct Free {
    void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
  };
  Socket& socket_;
  HandshakeThread& handshakes_;
  std::unique_ptr<SSL, Free> ssl_;
  bool cancelled_ = false;
};

}  // namespace exeunt::serve
