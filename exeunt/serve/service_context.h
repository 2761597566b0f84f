// SPDX-License-Identifier: Apache-2.0
// What the parts of the service share: the model, the engine, the way back to the network thread, log and counters.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/serve/access_log.h"
#include "exeunt/serve/protocols.h"
#include "exeunt/serve/server_metrics.h"

namespace exeunt::serve {

// What runs texts: an Engine, or a stand-in in tests.
struct Runner {
  std::function<Ticket(std::span<Engine::LazyText>, const Ask&)> submit;  // as Engine::submit
  // A policy, and its exit rates from calibration or none. Throws Error.
  std::function<std::shared_ptr<const BoundPolicy>(const PolicySpec&, std::vector<float>)> bind;
  const Tokenizer* tokenizer = nullptr;
  std::string compute = "cpu";  // x-compute-type
};

// For what must not get lost for lack of memory, such as an answer: waits for some.
template <class Work>
void until_there_is_memory(const Work& work) noexcept {
  while (true) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

struct ServiceContext {
  ModelFacts model;
  Runner runner;
  std::function<void(std::function<void()>)> post;  // runs it on the network thread; callable from any thread
  Log log;
  std::function<bool()> enough_memory = {};  // none: always
  Metrics metrics = {};                      // the network thread's

  // Posts from any other thread.
  template <class Work>
  void post_or_wait(const Work& work) const noexcept {
    until_there_is_memory([&] { post(work); });
  }
};

// For counting and logging, which are skipped when out of memory.
template <class Work>
void best_effort(const Work& work) noexcept {
  try {
    work();
  } catch (const std::exception&) {
  }
}

}  // namespace exeunt::serve
