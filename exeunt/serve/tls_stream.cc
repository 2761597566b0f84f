// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/tls_stream.h"

#include <algorithm>
#include <climits>
#include <new>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <openssl/err.h>

namespace exeunt::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

}  // namespace

void TlsStream::prepare(SSL_CTX* context) noexcept {
  SSL_CTX_set_mode(context,
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

TlsStream::TlsStream(Socket& socket, SSL_CTX* context) : socket_(socket), ssl_(SSL_new(context)) {
  if (!ssl_ || SSL_set_fd(ssl_.get(), socket_.native_handle()) != 1) throw std::bad_alloc();
  SSL_set_accept_state(ssl_.get());
}

TlsStream::~TlsStream() = default;

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

void TlsStream::handshake(Handler done) {
  attempt_after(
      Wait::wait_read, [this] { return SSL_do_handshake(ssl_.get()); }, std::move(done));
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
