// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/listener.h"

#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exeunt/serve/connection.h"

namespace exeunt::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;
using namespace std::chrono_literals;

// What the kernel holds of a connection: of what came before we read it, which costs us when we drop it, and of
// responses that the client has not read, each of which has cost us. By default it would be up to 6 and 4 MiB. These
// are enough for 2.5 MB a second from a client 50 ms away, and half of that to it.
constexpr int kReceiveBuffer = 128 << 10, kSendBuffer = 64 << 10;
constexpr int kBacklog = 1024;  // connections that wait to be accepted

std::shared_ptr<asio::ssl::context> load_tls(const ListenerOptions& options) {
  if (options.tls_certificate.empty()) return nullptr;
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                       asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1);
  TlsStream::prepare(context->native_handle());
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets whose clients have left without MSG_NOSIGNAL
  const auto need = [](const error_code& error, const std::string& file) {
    if (error) {
      throw Error(Code::bad_file, fmt::format("{}: cannot be used for TLS: {}", file, error.message()),
                  "want a certificate chain and its private key, both PEM");
    }
  };
  error_code error;
  context->use_certificate_chain_file(options.tls_certificate, error);
  need(error, options.tls_certificate);
  context->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  need(error, options.tls_key);
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    throw Error(Code::bad_file, fmt::format("{}: does not match {}", options.tls_key, options.tls_certificate));
  }
  return context;
}

}  // namespace

bool is_ip_address(const std::string& text) {
  error_code error;
  (void)asio::ip::make_address(text, error);
  return !error;
}

bool is_loopback(const std::string& hostname) {
  if (hostname == "localhost") return true;
  error_code error;
  const auto address = asio::ip::make_address(hostname, error);
  return !error && address.is_loopback();
}

DescriptorPlan plan_descriptors(size_t connections, uint64_t limit, uint64_t highest) noexcept {
  constexpr uint64_t kOthers = 64;  // the model's files, the log, the engine's
  const uint64_t wanted = connections + kOthers;
  const uint64_t got = std::max(limit, std::min(wanted, highest));
  const uint64_t room = got > kOthers ? got - kOthers : 1;
  return {.connections = static_cast<size_t>(std::min<uint64_t>(connections, room)), .limit = got};
}

namespace {

// Raises the limit of open files as far as needed and allowed; how many connections fit.
size_t raise_descriptor_limit(size_t wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
  DescriptorPlan plan = plan_descriptors(wanted, files.rlim_cur, files.rlim_max);
  if (plan.limit > files.rlim_cur) {
    const rlimit raised{plan.limit, files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) plan = plan_descriptors(wanted, files.rlim_cur, files.rlim_cur);
  }
  return plan.connections;
}

std::string text_of(const Tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + host + "]" : host, endpoint.port());
}

// "127.0.0.1:40312"; "unix" for a client of a Unix socket.
std::string peer_of(const Connection::Socket& socket) {
  error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return {};
  if (peer.protocol().family() == AF_UNIX) return "unix";
  Tcp::endpoint out;
  out.resize(peer.size());
  std::memcpy(out.data(), peer.data(), peer.size());
  return text_of(out);
}

}  // namespace

struct Listener::State {
  explicit State(ListenerOptions o)
      : options(std::move(o)),
        wanted_connections(options.max_connections),
        tls(load_tls(options)),
        refusals(options.refusals_per_second, options.refusal_burst) {
    options.max_connections = raise_descriptor_limit(wanted_connections);
    if (tls) handshakes.emplace(io);
  }

  ListenerOptions options;
  size_t wanted_connections;
  asio::io_context io{1};
  std::optional<HandshakeThread> handshakes;
  std::shared_ptr<asio::ssl::context> tls;
  RefusalLimiter refusals;
  std::optional<Tcp::acceptor> tcp;
  std::optional<Local::acceptor> local;
  asio::steady_timer wake_timer{io}, drain_timer{io}, retry_timer{io};
  asio::signal_set signals{io};
  std::set<std::shared_ptr<Connection>> connections;
  std::optional<ConnectionHost> host;
  Service* service = nullptr;
  const Log* log = nullptr;
  std::function<void()> reload;
  Clock::time_point armed = Clock::time_point::max(), accept_until = {}, drain_until = {};
  bool accepting = false, stopping = false, has_unanswered = false;
  bool ended = false;
  // Alive as long as their handlers, which a failure may destroy before they are called.
  std::weak_ptr<Connection::Socket> pending_accept = {};
  std::weak_ptr<bool> pending_signal = {};

  void bind_tcp();
  void bind_local();
  void accept();
  void accepted(Connection::Socket socket);
  bool evict_longest_waiting();
  bool close_slowest(const Connection* except);
  void arm();
  void await_signal();
  void begin_drain();
  void stop_accepting();
  void watch_drain();
  void end();
  void rearm_waits();
  void run();
};

Listener::Listener(ListenerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  if (state_->options.unix_socket.empty()) {
    state_->bind_tcp();
  } else {
    state_->bind_local();
  }
}

Listener::~Listener() = default;

void Listener::State::bind_tcp() {
  error_code error;
  Tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.hostname, std::to_string(options.port), Tcp::resolver::passive, error);
  if (error || found.empty()) {
    throw Error(Code::usage, fmt::format("--hostname: cannot resolve '{}'", options.hostname),
                "e.g. 127.0.0.1 or 0.0.0.0");
  }
  const Tcp::endpoint endpoint = found.begin()->endpoint();
  tcp.emplace(io);
  tcp->open(endpoint.protocol());
  tcp->set_option(asio::socket_base::reuse_address(true));
  tcp->set_option(asio::socket_base::receive_buffer_size(kReceiveBuffer), error);  // connections inherit both
  tcp->set_option(asio::socket_base::send_buffer_size(kSendBuffer), error);
  tcp->bind(endpoint, error);
  if (!error) tcp->listen(kBacklog, error);
  if (error) {
    throw Error(Code::resources,
                fmt::format("cannot listen on {}:{}: {}", options.hostname, options.port, error.message()),
                "choose another --port, or stop the process that holds it");
  }
  tcp->non_blocking(true);
}

void Listener::State::bind_local() {
  const std::string& path = options.unix_socket;
  error_code error;
  // Remove a socket left by a dead server, but never that of a living one or any other file.
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0) {
    Local::socket probe(io);
    probe.connect(Local::endpoint(path), error);
    if (!S_ISSOCK(found.st_mode) || !error) {
      throw Error(Code::resources, fmt::format("{}: already in use", path), "choose another --unix-socket");
    }
    ::unlink(path.c_str());
  }
  if (path.size() > 100)
    throw Error(Code::usage, fmt::format("--unix-socket: {} bytes, want at most 100", path.size()));
  local.emplace(io);
  local->open(Local());
  const mode_t mask = ::umask(0077);  // the owner decides who may use it
  local->bind(Local::endpoint(path), error);
  ::umask(mask);
  if (!error) local->listen(kBacklog, error);
  if (error) throw Error(Code::resources, fmt::format("{}: cannot listen: {}", path, error.message()));
  local->non_blocking(true);
}

std::string Listener::address() const {
  if (state_->local) return state_->options.unix_socket;
  return text_of(state_->tcp->local_endpoint());
}

uint16_t Listener::port() const {
  return state_->tcp ? state_->tcp->local_endpoint().port() : uint16_t{0};
}

void Listener::post(std::function<void()> work) {
  asio::post(state_->io, [state = state_.get(), work = std::move(work)] {
    work();
    if (state->service != nullptr) state->arm();  // it may have brought an earlier deadline
  });
}

void Listener::State::accept() {
  if (!accepting || !pending_accept.expired()) return;
  const auto socket = std::make_shared<Connection::Socket>(io);
  const auto handler = [this, socket](const error_code& error) {
    pending_accept.reset();
    if (!error) {
      accepted(std::move(*socket));
      return accept();
    }
    if (error == asio::error::operation_aborted) return;
    // Out of descriptors, most likely because of the rest of the process: the new client replaces a waiting one.
    if (error == asio::error::no_descriptors && evict_longest_waiting()) return accept();
    retry_timer.expires_after(50ms);
    retry_timer.async_wait([this](const error_code& cancelled) {
      if (!cancelled) accept();
    });
  };
  if (tcp) {
    tcp->async_accept(*socket, handler);
  } else {
    local->async_accept(*socket, handler);
  }
  pending_accept = socket;
}

void Listener::State::accepted(Connection::Socket socket) {
  ++service->metrics().connections;
  error_code ignored;
  if (connections.size() >= options.max_connections && !evict_longest_waiting()) {
    ++service->metrics().connections_refused;
    socket.close(ignored);
    return;
  }
  if (tcp) socket.set_option(Tcp::no_delay(true), ignored);
  socket.non_blocking(true, ignored);
  const std::string peer = peer_of(socket);
  const auto connection = std::make_shared<Connection>(std::move(socket), tls, *host, peer);
  connections.insert(connection);
  service->metrics().connections_open = connections.size();
  connection->start();
}

// Closes the connection with the earliest time; false if none has one.
template <class Since>
bool close_oldest(const std::set<std::shared_ptr<Connection>>& connections, const Since& since_of) {
  std::shared_ptr<Connection> oldest;
  std::optional<Clock::time_point> since;
  for (const auto& connection : connections) {
    const std::optional<Clock::time_point> waiting = since_of(*connection);
    if (waiting && (!since || *waiting < *since)) {
      since = waiting;
      oldest = connection;
    }
  }
  if (oldest) oldest->close();
  return oldest != nullptr;
}

// Closes the connection that has waited longest for its client, those that have shown a key last; false if all are
// busy.
bool Listener::State::evict_longest_waiting() {
  const auto since = [](const Connection& connection) { return connection.waiting_since(); };
  const auto keyless = [](const Connection& connection) {
    return connection.has_key() ? std::nullopt : connection.waiting_since();
  };
  return close_oldest(connections, keyless) || close_oldest(connections, since);
}

bool Listener::State::close_slowest(const Connection* except) {
  return close_oldest(connections, [except](const Connection& connection) {
    return &connection == except ? std::nullopt : connection.holds_bytes_since();
  });
}

// Sets the timer to the service's next wake-up.
void Listener::State::arm() {
  const auto wanted = service->wake_at();
  if (wanted >= armed) return;
  armed = wanted;
  wake_timer.expires_at(wanted);
  wake_timer.async_wait([this](const error_code& error) {
    if (error) return;  // re-armed for an earlier time
    armed = Clock::time_point::max();
    service->wake(Clock::now());
    arm();
  });
}

void Listener::State::await_signal() {
  if (!pending_signal.expired()) return;
  const auto alive = std::make_shared<bool>(true);
  signals.async_wait([this, alive](const error_code& error, int number) {
    pending_signal.reset();
    if (error) return;
    if (number == SIGHUP) {
      try {
        tls = load_tls(options);
        if (reload) reload();
        (*log)({.message = "reloaded certificates and keys", .fields = {}});
      } catch (const std::exception& failure) {
        (*log)(
            {.level = "error", .message = "reload failed; keeping the old ones", .fields = {{"why", failure.what()}}});
      }
    } else if (stopping) {
      return end();
    } else {
      begin_drain();
    }
    await_signal();
  });
  pending_signal = alive;
}

void Listener::State::begin_drain() {
  if (stopping) return;
  stopping = true;
  service->drain();
  accept_until = Clock::now() + options.drain_delay;
  drain_until = accept_until + options.drain_timeout;
  (*log)({.message = "draining", .fields = {{"in_flight", fmt::format("{}", service->in_flight())}}});
  watch_drain();
}

// Accepts the connections already completed by the kernel, then closes the listening socket.
void Listener::State::stop_accepting() {
  accepting = false;
  if (local) ::unlink(options.unix_socket.c_str());
  error_code error;
  for (int i = 0; i <= kBacklog && !error; ++i) {  // no more than have waited: others may connect as fast as we accept
    Connection::Socket socket(io);
    if (tcp) {
      tcp->accept(socket, error);
    } else {
      local->accept(socket, error);
    }
    if (!error) accepted(std::move(socket));
  }
  if (tcp) tcp->close(error);
  if (local) local->close(error);
}

// The next step of a drain, every 5 ms.
void Listener::State::watch_drain() {
  const auto now = Clock::now();
  if (now >= accept_until) {
    if (accepting) stop_accepting();
    if (now >= accept_until + options.idle_grace) {
      const auto all = connections;  // closing removes them
      for (const auto& connection : all) connection->close_if_idle();
    }
    if (connections.empty() || now >= drain_until) return end();
  }
  drain_timer.expires_after(5ms);
  drain_timer.async_wait([this](const error_code& error) {
    if (!error) watch_drain();
  });
}

void Listener::State::end() {
  has_unanswered = service->unanswered() > 0;
  const auto all = connections;
  for (const auto& connection : all) connection->close();
  ended = true;
  io.stop();
}

// Restarts every wait that a failure may have interrupted.
void Listener::State::rearm_waits() {
  if (options.signals) await_signal();
  if (stopping) watch_drain();
  armed = Clock::time_point::max();
  arm();
  accept();
}

// Out of memory ends one request or connection; the others continue.
void Listener::State::run() {
  while (!ended) {
    try {
      rearm_waits();
      io.run();
      return;
    } catch (const std::exception& failure) {
      service->note_interruption(failure.what());
      std::this_thread::sleep_for(1ms);
    }
  }
}

void Listener::install_signal_handlers() {
  if (!state_->options.signals) return;
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) state_->signals.add(number);
}

bool Listener::run(Service& service, const Log& log, const std::function<void()>& reload) {
  State& state = *state_;
  state.service = &service;
  state.log = &log;
  state.reload = reload;
  state.host.emplace(ConnectionHost{service, state.options, [&state] { state.arm(); },
                                    [&state](Connection* connection) {
                                      state.connections.erase(connection->shared_from_this());
                                      state.service->metrics().connections_open = state.connections.size();
                                    },
                                    [&state] { return state.refusals.next(Clock::now()); },
                                    [&state](const Connection* except) { return state.close_slowest(except); },
                                    state.handshakes ? &*state.handshakes : nullptr});
  service.make_room_by([&state] { return state.close_slowest(nullptr); });
  if (state.options.max_connections < state.wanted_connections) {
    log({.level = "warn",
         .message = "fewer connections than --max-connections: the limit of open files is too low",
         .fields = {{"connections", fmt::format("{}", state.options.max_connections)},
                    {"wanted", fmt::format("{}", state.wanted_connections)},
                    {"hint", "raise it, e.g. with 'ulimit -n' or LimitNOFILE"}}});
  }
  state.accepting = true;
  const auto work = asio::make_work_guard(state.io);
  state.run();
  return !state.has_unanswered;
}

void Listener::stop() {
  post([this] { state_->begin_drain(); });
}

}  // namespace exeunt::serve
