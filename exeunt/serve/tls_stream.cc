// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/tls_stream.h"

#include <algorithm>
#include <climits>
#include <ctime>
#include <new>
#include <thread>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/asio/post.hpp>
#include <openssl/err.h>
#include <sys/resource.h>

#include "exeunt/serve/service_context.h"

namespace exeunt::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kNice = 10;

// Processor time of this thread.
std::chrono::nanoseconds thread_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

std::string HandshakeThread::address_of(const std::string& peer) {
  const std::string host = peer.substr(0, peer.rfind(':'));
  error_code error;
  const auto address = host.starts_with('[') ? asio::ip::make_address_v6(host.substr(1, host.size() - 2), error)
                                             : asio::ip::address_v6();
  if (error || address.is_unspecified() || address.is_v4_mapped()) return host;
  return asio::ip::network_v6(address, 64).canonical().to_string();
}

HandshakeThread::HandshakeThread(asio::io_context& network) : network_(network) {
  asio::post(thread_, [] { (void)::setpriority(PRIO_PROCESS, 0, kNice); });  // on Linux, 0 is this thread alone
}

void HandshakeThread::advance(SSL* ssl, const std::string& address, Done done) {
  size_t& count = waiting_from_[address];
  waiting_.push_back({ssl, address, std::move(done)});
  ++count;
  start_next();
}

HandshakeThread::Handshake HandshakeThread::take(Waiting::iterator handshake) noexcept {
  Handshake out = std::move(*handshake);
  waiting_.erase(handshake);
  if (const auto count = waiting_from_.find(out.address); --count->second == 0) waiting_from_.erase(count);
  return out;
}

bool HandshakeThread::cancel(const SSL* ssl) noexcept {
  const auto found = std::ranges::find(waiting_, ssl, &Handshake::ssl);
  if (found != waiting_.end()) (void)take(found);
  return !runs(ssl);
}

void HandshakeThread::start_next() {
  if (running_.ssl != nullptr || waiting_.empty()) return;
  const auto count = [this](const Handshake& handshake) { return waiting_from_.at(handshake.address); };
  const auto next = std::ranges::min_element(waiting_.rbegin(), waiting_.rend(), {}, count).base() - 1;
  asio::post(thread_, [this, ssl = next->ssl] { run(ssl); });
  running_ = take(next);
}

void HandshakeThread::run(SSL* ssl) noexcept {
  std::this_thread::sleep_until(rest_until_);
  const auto begun = thread_time();
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl);
  const int error = SSL_get_error(ssl, result);
  const auto rest = std::chrono::duration_cast<Clock::duration>((thread_time() - begun) / kShare);
  rest_until_ = std::max(rest_until_, Clock::now() - kBurst) + rest;
  until_there_is_memory([this, error] {
    asio::post(network_, [this, error] {
      const Done done = std::exchange(running_, {}).done;
      best_effort([&] { start_next(); });
      done(error);
    });
  });
}

void TlsStream::prepare(SSL_CTX* context) noexcept {
  SSL_CTX_set_mode(context,
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

TlsStream::TlsStream(Socket& socket, SSL_CTX* context, HandshakeThread& handshakes)
    : socket_(socket), handshakes_(handshakes), ssl_(SSL_new(context)) {
  if (!ssl_ || SSL_set_fd(ssl_.get(), socket_.native_handle()) != 1) throw std::bad_alloc();
  SSL_set_accept_state(ssl_.get());
}

TlsStream::~TlsStream() = default;

bool TlsStream::cancel_handshake() noexcept {
  cancelled_ = true;
  return handshakes_.cancel(ssl_.get());
}

void TlsStream::handshake(const std::string& address, Handler done) {
  continue_handshake(Wait::wait_read, address, std::move(done));
}

void TlsStream::continue_handshake(Wait wait, const std::string& address, Handler done) {
  socket_.async_wait(wait, [this, address, done = std::move(done)](const error_code& error) {
    if (error) return done(error, 0);
    handshakes_.advance(ssl_.get(), address, [this, address, done](int outcome) {
      if (cancelled_) return done(asio::error::operation_aborted, 0);
      if (outcome == SSL_ERROR_NONE) return done({}, 0);
      if (outcome == SSL_ERROR_WANT_READ) return continue_handshake(Wait::wait_read, address, done);
      if (outcome == SSL_ERROR_WANT_WRITE) return continue_handshake(Wait::wait_write, address, done);
      done(asio::error::connection_reset, 0);
    });
  });
}

void TlsStream::attempt(const Step& step, const Handler& done) {
  if (!socket_.is_open()) return done(asio::error::operation_aborted, 0);
  ERR_clear_error();
  const int result = step();
  if (result > 0) return done({}, static_cast<size_t>(result));
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return attempt_after(Wait::wait_read, step, done);
    case SSL_ERROR_WANT_WRITE:
      return attempt_after(Wait::wait_write, step, done);
    case SSL_ERROR_ZERO_RETURN:
      return done(asio::error::eof, 0);
    default:
      return done(asio::error::connection_reset, 0);
  }
}

void TlsStream::attempt_after(Wait wait, Step step, Handler done) {
  socket_.async_wait(wait, [this, step = std::move(step), done = std::move(done)](const error_code& error) {
    if (error) return done(error, 0);
    attempt(step, done);
  });
}

void TlsStream::attempt_later(Step step, Handler done) {
  asio::post(socket_.get_executor(), [this, step = std::move(step), done = std::move(done)] { attempt(step, done); });
}

void TlsStream::read_some(asio::mutable_buffer buffer, Handler done) {
  Step step = [this, buffer] {
    return SSL_read(ssl_.get(), buffer.data(), static_cast<int>(std::min<size_t>(buffer.size(), INT_MAX)));
  };
  // What OpenSSL has decrypted already makes no socket readable.
  if (SSL_pending(ssl_.get()) > 0) return attempt_later(std::move(step), std::move(done));
  attempt_after(Wait::wait_read, std::move(step), std::move(done));
}

void TlsStream::write_some(std::string_view bytes, Handler done) {
  attempt_later(
      [this, bytes] {
        return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
      },
      std::move(done));
}

void TlsStream::send_close_notify() noexcept {
  ERR_clear_error();
  (void)SSL_shutdown(ssl_.get());
}

}  // namespace exeunt::serve
