// SPDX-License-Identifier: Apache-2.0
// One connection: bytes in, requests to the service, responses out, in order. Includes Boost, so only listener.cc and
// connection.cc include it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "exeunt/serve/admission.h"
#include "exeunt/serve/framing.h"
#include "exeunt/serve/listener.h"
#include "exeunt/serve/service.h"
#include "exeunt/serve/tls_stream.h"

namespace exeunt::serve {

class Connection;

// What a connection shares with the others.
struct ConnectionHost {
  Service& service;
  const ListenerOptions& options;
  std::function<void()> arm;                  // the service's wake-up time may have changed
  std::function<void(Connection*)> on_close;  // remove it from the list
  std::function<RefusalLimiter::Slot()> next_refusal_slot;
  // Closes the connection, other than this one, that has held bytes of a body or a response for longest; false if
  // there is none.
  std::function<bool(const Connection*)> close_slowest;
  HandshakeThread* handshakes = nullptr;  // with TLS
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  Connection(Socket socket, std::shared_ptr<boost::asio::ssl::context> tls, ConnectionHost& host, std::string peer);
  void start();
  void close();
  void close_if_idle();  // no request has begun
  // Since when it has waited for its client, be it for a complete request or for the client to read on; nothing while
  // it is busy.
  [[nodiscard]] std::optional<Clock::time_point> waiting_since() const;
  // While a body arrives, or a response is read slowly.
  [[nodiscard]] std::optional<Clock::time_point> holds_bytes_since() const;
  [[nodiscard]] bool has_key() const noexcept { return has_key_; }  // a request has shown a valid one

 private:
  enum class Wait { handshake, idle, head, body, answer, refusal, write, linger };

  // A step that runs out of memory ends this connection and nothing else.
  template <class Step>
  void guarded(const Step& step);
  void refuse_out_of_memory();
  void read();
  void on_read(const boost::system::error_code& error, size_t bytes);
  void consume();
  bool begin_body(HttpRequest& head);
  bool charge_body();
  void dispatch();
  void watch_disconnect();
  void respond(HttpResponse&& response);
  void send_refusal(std::string_view body);
  void send(std::string_view body);
  void on_written(const boost::system::error_code& error);
  void linger();
  void discard_input();
  void set_wait(Wait wait);
  void on_timeout();
  using WriteHandler = std::function<void(const boost::system::error_code&)>;
  using Parts = std::array<std::string_view, 2>;
  void write(Parts parts, WriteHandler done);

  Socket socket_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::optional<TlsStream> tls_;
  boost::asio::steady_timer timer_, pause_;
  ConnectionHost& host_;
  RequestReader reader_;
  std::string peer_;
  std::vector<char> buffer_;
  std::unique_ptr<HeldBytes> arriving_body_;  // while one is arriving
  std::shared_ptr<HeldBytes> response_;       // while one is sent
  size_t begin_ = 0, end_ = 0;                // of the bytes read and not yet consumed
  bool reading_ = false, open_ = true, keep_alive_ = true, sending_continue_ = false, has_key_ = false;
  size_t lingered_ = 0;
  Wait wait_ = Wait::idle;
  Clock::time_point since_, sending_since_;
  uint64_t timer_round_ = 0;
  std::shared_ptr<ActiveRequest> active_;
  std::string head_, body_;
};

}  // namespace exeunt::serve
