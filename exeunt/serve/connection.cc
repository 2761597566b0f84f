// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/connection.h"

#include <algorithm>
#include <cerrno>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exeunt/serve/http_message.h"

namespace exeunt::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Bytes of a refused request that are still read, so that the client can read the response.
constexpr size_t kMaxLinger = 1 << 20;
// Between reads from such a client: without it refusing a fast one would cost more than serving it.
constexpr auto kLingerPause = std::chrono::milliseconds(20);
// Between looks whether a client that has sent more than its request is still there.
constexpr auto kWatchPause = std::chrono::milliseconds(20);
// Small until a request's head has been accepted; then it reads in larger pieces.
constexpr size_t kHeadBuffer = 4096, kBodyBuffer = 16384;
// A client that has read nothing for this long may be closed for another.
constexpr auto kStalled = std::chrono::milliseconds(200);

// Is the client at fault (header, framing)? Overload (429, 503) is not its fault.
bool is_client_fault(const HttpResponse& response) {
  const int status = response.status;
  if (status == 401 || status == 403) return true;
  return response.close && status >= 400 && status < 500 && status != 408 && status != 429;
}

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Discards what the kernel holds for a socket; returns as recv(). TCP does so without copying it.
ssize_t discard(int socket) {
  int domain = AF_UNIX;
  socklen_t size = sizeof domain;
  (void)::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (domain == AF_UNIX) {
    std::array<char, 65536> dropped;
    return ::recv(socket, dropped.data(), dropped.size(), MSG_DONTWAIT);
  }
  // Not recv(): sanitizers would take its buffer, which is not written to, for too small.
  return ::syscall(SYS_recvfrom, socket, nullptr, kMaxLinger, MSG_TRUNC | MSG_DONTWAIT, nullptr, nullptr);
}

}  // namespace

Connection::Connection(Socket socket, std::shared_ptr<asio::ssl::context> tls, ConnectionHost& host, std::string peer)
    : socket_(std::move(socket)),
      context_(std::move(tls)),
      timer_(socket_.get_executor()),
      pause_(socket_.get_executor()),
      host_(host),
      reader_(host.options.framing),
      peer_(std::move(peer)),
      buffer_(kHeadBuffer),
      since_(Clock::now()) {
  if (context_) tls_.emplace(socket_, context_->native_handle(), *host.handshakes);
}

template <class Step>
void Connection::guarded(const Step& step) {
  try {
    step();
  } catch (const std::exception&) {
    close();
  }
}

void Connection::start() {
  guarded([&] {
    if (!tls_) {
      set_wait(Wait::idle);
      return read();
    }
    set_wait(Wait::handshake);
    tls_->handshake(HandshakeThread::address_of(peer_), [self = shared_from_this()](const error_code& error, size_t) {
      self->guarded([&] {
        if (error || !self->open_) return self->close();
        self->set_wait(Wait::idle);
        self->read();
      });
    });
  });
}

std::optional<Clock::time_point> Connection::waiting_since() const {
  if (wait_ == Wait::answer || (wait_ == Wait::write && Clock::now() - since_ < kStalled)) return std::nullopt;
  if (wait_ == Wait::handshake && tls_->is_in_handshake()) return std::nullopt;
  return since_;
}

std::optional<Clock::time_point> Connection::holds_bytes_since() const {
  if (wait_ == Wait::body) return since_;
  if (wait_ == Wait::write && response_ && Clock::now() - sending_since_ >= kStalled) return sending_since_;
  return std::nullopt;
}

void Connection::set_wait(Wait wait) {
  const ListenerOptions& options = host_.options;
  wait_ = wait;
  since_ = Clock::now();
  const uint64_t round = ++timer_round_;
  if (wait == Wait::answer || wait == Wait::refusal) {  // bounded by the request's deadline and the limiter
    timer_.cancel();
    return;
  }
  const auto limit = wait == Wait::idle     ? options.idle_timeout
                     : wait == Wait::body   ? options.body_timeout
                     : wait == Wait::write  ? options.write_timeout
                     : wait == Wait::linger ? options.linger_time
                                            : options.head_timeout;
  timer_.expires_after(limit);
  timer_.async_wait([self = shared_from_this(), round](const error_code& error) {
    self->guarded([&] {
      if (!error && round == self->timer_round_) self->on_timeout();
    });
  });
}

void Connection::on_timeout() {
  // One that takes not even "100 Continue" would not take more beside it.
  if ((wait_ == Wait::head || wait_ == Wait::body) && !sending_continue_) {
    return respond(host_.service.refuse(Refusal(408, ErrorType::validation, "the request arrived too slowly",
                                                "send header and body without long pauses"),
                                        peer_));
  }
  close();
}

void Connection::close() {
  if (!open_) return;
  open_ = false;
  error_code ignored;
  timer_.cancel();
  pause_.cancel();
  if (!tls_ || tls_->cancel_handshake()) {
    socket_.close(ignored);
  } else {
    socket_.shutdown(Socket::shutdown_both, ignored);  // closed with this object, when its handshake has ended
  }
  arriving_body_.reset();
  response_.reset();
  if (active_) host_.service.abandon(active_);
  active_.reset();
  host_.on_close(this);
}

void Connection::close_if_idle() {
  if (wait_ != Wait::idle || begin_ != end_) return;
  error_code ignored;
  if (socket_.available(ignored) == 0) close();  // else a request has arrived, and is about to be read
}

void Connection::read() {
  if (reading_ || !open_) return;
  reading_ = true;
  const auto handler = [self = shared_from_this()](const error_code& error, size_t bytes) {
    self->guarded([&] { self->on_read(error, bytes); });
  };
  if (tls_) {
    tls_->read_some(asio::buffer(buffer_), handler);
  } else {
    socket_.async_read_some(asio::buffer(buffer_), handler);
  }
}

void Connection::on_read(const error_code& error, size_t bytes) {
  reading_ = false;
  if (!open_) return;
  if (wait_ == Wait::linger) {
    lingered_ += bytes;
    return;
  }
  // A disconnect cancels the client's work; a client that has only stopped sending may still read its response.
  if (error == asio::error::eof && (wait_ == Wait::refusal || wait_ == Wait::write)) {
    keep_alive_ = false;
    return;
  }
  if (error) return close();
  begin_ = 0;
  end_ = bytes;
  // One read stays open while a request runs, to notice a disconnect; its bytes are parsed later.
  if (wait_ == Wait::answer) return watch_disconnect();
  if (wait_ == Wait::refusal || wait_ == Wait::write || sending_continue_) return;
  consume();
}

void Connection::consume() {
  using Stage = RequestReader::Stage;
  try {
    while (begin_ < end_ && reader_.stage() != Stage::complete) {
      begin_ += reader_.feed({buffer_.data() + begin_, end_ - begin_});
      if (HttpRequest* head = reader_.take_head(); head != nullptr && !begin_body(*head)) return;
      if (!charge_body()) throw host_.service.no_room_for_body();
    }
  } catch (const Refusal& refusal) {
    return respond(host_.service.refuse(refusal, peer_));
  } catch (const std::bad_alloc&) {
    return refuse_out_of_memory();
  }
  if (reader_.stage() == Stage::complete) return dispatch();
  const Wait wait = reader_.stage() == Stage::idle   ? Wait::idle
                    : reader_.stage() == Stage::head ? Wait::head
                                                     : Wait::body;
  if (wait != wait_) set_wait(wait);
  if (reader_.take_expect_continue()) {
    sending_continue_ = true;
    write({kContinue, {}}, [self = shared_from_this()](const error_code& error) {
      self->guarded([&] {
        self->sending_continue_ = false;
        if (error) return self->close();
        self->consume();
      });
    });
    return;
  }
  read();
}

// Answers at once, and returns false, if the body will not be read.
bool Connection::begin_body(HttpRequest& head) {
  head.peer = peer_;
  if (auto refusal = host_.service.refuse_body(head, reader_.declared_bytes())) {
    respond(std::move(*refusal));
    return false;
  }
  has_key_ = has_key_ || host_.service.has_key(head);
  arriving_body_ = host_.service.begin_body();
  buffer_.resize(kBodyBuffer);
  return true;
}

// Charges what has arrived, and closes the slowest bodies to make room. False if that is not enough.
bool Connection::charge_body() {
  if (!arriving_body_) return true;
  const size_t more = reader_.body_bytes() - arriving_body_->bytes();
  while (!arriving_body_->add(more)) {
    if (!host_.close_slowest(this)) return false;
  }
  return true;
}

void Connection::dispatch() {
  set_wait(Wait::answer);
  arriving_body_.reset();
  HttpRequest request = reader_.take();
  request.peer = peer_;
  keep_alive_ = request.keep_alive;
  has_key_ = has_key_ || host_.service.has_key(request);
  try {
    active_ = host_.service.handle(std::move(request), [self = shared_from_this()](HttpResponse&& response) {
      self->guarded([&] {
        self->active_.reset();
        if (self->open_) self->respond(std::move(response));
      });
    });
  } catch (const std::bad_alloc&) {
    if (wait_ == Wait::answer) return refuse_out_of_memory();
    throw;
  }
  if (wait_ == Wait::answer) host_.arm();
  if (begin_ == end_) return read();
  if (wait_ == Wait::answer) watch_disconnect();
}

// Notices a disconnect behind bytes of the next request, which are not read yet.
void Connection::watch_disconnect() {
  pollfd hangup{socket_.native_handle(), POLLRDHUP, 0};
  if (::poll(&hangup, 1, 0) > 0) return close();
  pause_.expires_after(kWatchPause);
  pause_.async_wait([self = shared_from_this()](const error_code& cancelled) {
    if (cancelled || !self->open_ || self->wait_ != Wait::answer) return;
    self->guarded([&] { self->watch_disconnect(); });
  });
}

void Connection::refuse_out_of_memory() {
  respond(host_.service.refuse(Refusal(503, ErrorType::overloaded, "out of memory", "retry after a moment"), peer_));
}

// Writes all of the first part, then all of the second.
void Connection::write(Parts parts, WriteHandler done) {
  if (parts[0].empty()) std::swap(parts[0], parts[1]);
  const std::array<asio::const_buffer, 2> buffers = {asio::buffer(parts[0]), asio::buffer(parts[1])};
  auto handler = [self = shared_from_this(), parts, done = std::move(done)](const error_code& error,
                                                                            size_t bytes) mutable {
    self->since_ = Clock::now();  // the client reads
    const size_t of_first = std::min(bytes, parts[0].size());
    parts[0].remove_prefix(of_first);
    parts[1].remove_prefix(bytes - of_first);
    if (error || (parts[0].empty() && parts[1].empty())) return done(error);
    self->guarded([&] { self->write(parts, std::move(done)); });
  };
  if (tls_) return tls_->write_some(parts[0], std::move(handler));
  socket_.async_write_some(buffers, std::move(handler));
}

void Connection::respond(HttpResponse&& response) {
  arriving_body_.reset();
  keep_alive_ = keep_alive_ && !response.close && !host_.service.draining();
  head_ = head_text(response, keep_alive_);
  response_ = std::move(response.held);
  const bool no_body = response.head_only || response.status == 304 || response.status == 204;
  body_ = no_body ? std::string() : std::move(response.body);
  const std::string_view body = no_body || response.page.empty() ? std::string_view(body_) : response.page;
  if (is_client_fault(response) && !host_.service.draining()) return send_refusal(body);
  send(body);
}

// Nothing is read meanwhile, so that what the client goes on sending fills its own buffers.
void Connection::send_refusal(std::string_view body) {
  const RefusalLimiter::Slot slot = host_.next_refusal_slot();
  if (slot.at <= Clock::now()) return send(body);
  set_wait(Wait::refusal);
  pause_.expires_at(slot.at);
  pause_.async_wait([self = shared_from_this(), body, answered = slot.answered](const error_code& cancelled) {
    if (cancelled || !self->open_) return;
    self->guarded([&] { answered ? self->send(body) : self->close(); });
  });
}

void Connection::send(std::string_view body) {
  set_wait(Wait::write);
  sending_since_ = since_;
  write({head_, body},
        [self = shared_from_this()](const error_code& error) { self->guarded([&] { self->on_written(error); }); });
}

void Connection::on_written(const error_code& error) {
  if (!open_) return;
  if (error) return close();
  body_ = {};
  response_.reset();
  if (!keep_alive_) return linger();
  set_wait(Wait::idle);
  if (begin_ < end_) return consume();  // a pipelined request
  read();
}

void Connection::linger() {
  set_wait(Wait::linger);
  error_code ignored;
  if (tls_) {
    tls_->send_close_notify();
    if (!reading_) tls_.reset();  // the largest part of a connection, and no longer needed
  }
  socket_.shutdown(Socket::shutdown_send, ignored);
  begin_ = end_ = 0;
  discard_input();
}

// Discards what the client still sends, at intervals, however fast it sends.
void Connection::discard_input() {
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->guarded([&] {
      if (error || !self->open_) return self->close();
      const ssize_t dropped = discard(self->socket_.native_handle());
      if (dropped == 0 || (dropped < 0 && errno != EAGAIN && errno != EINTR)) return self->close();
      if (dropped > 0) self->lingered_ += static_cast<size_t>(dropped);
      if (self->lingered_ > kMaxLinger) return self->close();
      self->pause_.expires_after(kLingerPause);
      self->pause_.async_wait([self](const error_code& cancelled) {
        if (!cancelled) self->guarded([&] { self->discard_input(); });
      });
    });
  });
}

}  // namespace exeunt::serve
