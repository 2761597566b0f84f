// SPDX-License-Identifier: Apache-2.0
// TLS on a non-blocking socket that OpenSSL reads and writes itself: asio::ssl::stream holds 68 KiB of buffers for
// every connection, before it has shown a key (decision 0028). Includes Boost, so only connection.h includes it.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <openssl/ssl.h>

namespace exeunt::serve {

class TlsStream {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Handler = std::function<void(const boost::system::error_code&, size_t)>;

  // What every context for such streams needs: buffers are freed while they are empty, and no session is kept.
  static void prepare(SSL_CTX* context) noexcept;

  TlsStream(Socket& socket, SSL_CTX* context);  // the server's side; both must outlive it. Throws bad_alloc.
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Their handlers are called later, never before they return, and must keep the stream alive. One reads and one writes
  // at a time; the two may overlap.
  void handshake(Handler done);
  void read_some(boost::asio::mutable_buffer buffer, Handler done);
  void write_some(std::string_view bytes, Handler done);
  // If that can be done at once.
  void send_close_notify() noexcept;

 private:
  using Step = std::function<int()>;
  using Wait = boost::asio::socket_base::wait_type;
  void attempt(const Step& step, const Handler& done);
  void attempt_after(Wait wait, Step step, Handler done);
  void attempt_later(Step step, Handler done);

  struct Free {
    void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
  };
  Socket& socket_;
  std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace exeunt::serve
