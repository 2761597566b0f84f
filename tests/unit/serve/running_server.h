// SPDX-License-Identifier: Apache-2.0
// A server over real sockets, with a fake engine.
#pragma once

#include <future>

#include <pthread.h>

#include "exeunt/serve/listener.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/fake_engine.h"
#include "tests/unit/serve/raw_client.h"

namespace exeunt::serve {

struct TestOptions {
  ListenerOptions listener = {};
  ServiceOptions service = {};
  int threads = 2;
  std::chrono::microseconds work{0};
};

// A server on a thread of its own, drained at the end.
class RunningServer {
 public:
  explicit RunningServer(TestOptions options = {})
      : engine_(std::make_unique<FakeEngine>(options.threads, options.work)),
        log_(false, {}),
        listener_(quiet(std::move(options.listener))),
        service_({fake_model(), engine_->runner(),
                  [this](std::function<void()> work) { listener_.post(std::move(work)); }, log_},
                 {}, std::move(options.service)),
        thread_([this] { clean_ = listener_.run(service_, log_, {}); }) {}
  ~RunningServer() { stop(); }

  bool stop() {
    if (thread_.joinable()) {
      listener_.stop();
      thread_.join();
      engine_.reset();
    }
    return clean_;
  }
  void begin_stop() { listener_.stop(); }
  uint16_t port() const { return port_; }
  FakeEngine& engine() { return *engine_; }
  // Processor time of the network thread so far.
  double network_seconds() {
    clockid_t clock{};
    timespec time{};
    EXPECT_EQ(::pthread_getcpuclockid(thread_.native_handle(), &clock), 0);
    EXPECT_EQ(::clock_gettime(clock, &time), 0);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  // Asks the network thread.
  template <class Value>
  Value ask(Value (*question)(Service&)) {
    std::promise<Value> answer;
    listener_.post([&] { answer.set_value(question(service_)); });
    return answer.get_future().get();
  }

 private:
  static ListenerOptions quiet(ListenerOptions options) {
    options.port = 0;
    options.signals = false;
    return options;
  }
  std::unique_ptr<FakeEngine> engine_;
  Log log_;
  Listener listener_;
  uint16_t port_ = listener_.port();
  Service service_;
  bool clean_ = false;
  std::thread thread_;
};

inline constexpr std::string_view kBody = R"({"inputs":"hello there"})";
// A well-formed request must be answered at any time.
inline void expect_alive(uint16_t port) {
  RawClient client(port);
  ASSERT_TRUE(client.send(post_text("/predict", kBody)));
  const auto response = client.receive();
  ASSERT_TRUE(response.has_value());
  EXPECT_EQ(response->status, 200) << response->body;
}

}  // namespace exeunt::serve
