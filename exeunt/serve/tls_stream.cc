// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/tls_stream.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <new>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

namespace exeunt::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// OpenSSL's BIO of a socket, but for two things: a client that has left raises no SIGPIPE, and a descriptor that was
// closed is never used, though its number may be another connection's by then.
int transferred(BIO* bio, ssize_t bytes) {
  BIO_clear_retry_flags(bio);
  if (bytes >= 0) return static_cast<int>(bytes);
  if (errno == EAGAIN || errno == EINTR) BIO_set_flags(bio, BIO_FLAGS_SHOULD_RETRY);
  return -1;
}

int descriptor_of(BIO* bio) {
  return static_cast<TlsStream::Socket*>(BIO_get_data(bio))->native_handle();
}

int receive(BIO* bio, char* data, int size) {
  const int got = transferred(bio, ::recv(descriptor_of(bio), data, static_cast<size_t>(size), 0));
  if (BIO_should_retry(bio)) BIO_set_retry_read(bio);
  return got;
}

int send(BIO* bio, const char* data, int size) {
  const int sent = transferred(bio, ::send(descriptor_of(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL));
  if (BIO_should_retry(bio)) BIO_set_retry_write(bio);
  return sent;
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* out = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (out == nullptr) throw std::bad_alloc();
    BIO_meth_set_read(out, receive);
    BIO_meth_set_write(out, send);
    BIO_meth_set_ctrl(out, control);
    return out;
  }();
  return method;
}

}  // namespace

void TlsStream::prepare(SSL_CTX* context) noexcept {
  SSL_CTX_set_mode(context,
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

TlsStream::TlsStream(Socket& socket, SSL_CTX* context) : socket_(socket), ssl_(SSL_new(context)) {
  BIO* bio = ssl_ ? BIO_new(socket_method()) : nullptr;
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, &socket_);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
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

void TlsStream::say_goodbye() noexcept {
  ERR_clear_error();
  (void)SSL_shutdown(ssl_.get());
}

}  // namespace exeunt::serve
