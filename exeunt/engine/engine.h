// SPDX-License-Identifier: Apache-2.0
// The engine: texts in, answers out, each exiting at the layer that its policy selects. `submit` is for the server;
// `answer` and `trace` are loops over it.
//
// On the CPU a thread takes one text, or a pack of those that wait, whose rows pass through a layer together, without
// padding. Label, exit and logits of a text are bit-equal whatever the pack, the order, the load, the number of
// threads, and CLS first; so replaying an engine's trace gives its live answers bit for bit (in one precision, on one
// instruction set).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/engine/device.h"
#include "exeunt/engine/precision.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/policy/policy.h"
#include "exeunt/policy/trace.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

class Backend;
struct TextSource;

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();
inline constexpr int kAllLayers = std::numeric_limits<int>::max();

// CLS first: at an exit that reads row 0 only, compute that row, and the others only if the text continues.
enum class ClsFirst : uint8_t {
  automatic,  // at the last layer, and earlier if the cost model says that it pays
  never,
  always,  // at every exit that allows it
};

// EngineTraits of the CPU: raised whenever the kernels of an instruction set compute other bits than before: a
// certificate of other bits does not hold.
inline constexpr int kNumerics = 2;                             // 2: evidence takes exp and log of our own
[[nodiscard]] std::string engine_name(const Kernels& kernels);  // "cpu/avx512"

struct EngineOptions {
  Device device = {};
  std::optional<Precision> precision = {};                        // none: bf16 where the device has it, else fp32
  std::map<std::string, Precision, std::less<>> exceptions = {};  // "layer.3.ffn2" → bf16: precision.json
  int threads = 0;                                                // 0 = as many as this process may use
  bool split = true;                                              // idle threads help with a text
  int pack_rows = 0;  // texts that wait run together up to so many rows; 1 = each alone, 0 = what suits the kernels
  ClsFirst cls_first = ClsFirst::automatic;
  const Kernels* kernels = nullptr;          // null: choose_kernels()
  Clock::time_point (*now)() = &Clock::now;  // the clock of deadlines
};

// What an engine is, known when it is made.
struct EngineInfo {
  ModelSpec spec = {};
  ExitLayout exits = {};
  Precision precision = Precision::fp32;
  EngineTraits traits = {};
  const Kernels* kernels = nullptr;  // the CPU's, wherever the model runs
  int threads = 0, pack_rows = 0;
  size_t weight_bytes = 0;  // packed
};

// Numbers of texts that reached each evaluated exit and left there, counted live.
struct ExitCounts {
  std::array<std::atomic<uint32_t>, kMaxExits> reached{}, left{};
};

// A policy bound to a model. Shared by all texts that use it.
struct BoundPolicy {
  PolicySpec spec = {};
  Policy bound = {};
  std::vector<float> exit_rates = {};  // [evaluated exits] share of texts that leave there, from calibration; or empty
  std::shared_ptr<ExitCounts> counts = {};  // live counts, preferred once there are enough; from Engine::bind
};

struct Ask {
  std::shared_ptr<const BoundPolicy> policy = {};  // null: full depth
  int max_layers = kAllLayers;                     // the deepest exit up to here answers; usage error if there is none
  Deadline deadline = kNoDeadline;                 // then the deepest answer so far
  bool details = false;
};

enum class StopReason : uint8_t { policy, last_exit, max_layers, deadline, cancelled, failed };
[[nodiscard]] std::string_view name_of(StopReason reason) noexcept;
// Whether the answer was taken before the policy gave one. No certificate covers it.
[[nodiscard]] constexpr bool was_forced(StopReason reason) noexcept {
  return reason == StopReason::max_layers || reason == StopReason::deadline;
}

struct ExitDetail {
  int exit = 0, layer = 0;
  std::vector<float> logits = {};
  Evidence evidence = {};
};

struct Answer {
  StopReason stop_reason = StopReason::failed;
  int exit = -1;  // which of the model's exits answered, from 0; -1: none was reached (deadline, cancelled, failed)
  int layer = 0;  // after which layer that exit sits
  int layers_run = 0;  // layers begun
  int tokens = 0;
  Evidence evidence = {};                 // of that exit: label, value, confidence …
  std::vector<float> logits = {};         // raw, [outputs]
  std::vector<float> probabilities = {};  // softmax at the policy's score temperature; empty for a regression
  std::vector<ExitDetail> details = {};   // every exit evaluated, if asked for
  std::string error = {};                 // `failed`: why
  Code code = Code::failure;              // and of what kind: `resources` for memory or a device that is gone
};

// A text that waits or runs, or several that were submitted together. Destroying the ticket does not cancel them.
class Ticket {
 public:
  Ticket() = default;
  explicit Ticket(std::shared_ptr<std::atomic<bool>> cancelled) : cancelled_(std::move(cancelled)) {}
  void cancel() const noexcept {
    if (cancelled_) cancelled_->store(true, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<std::atomic<bool>> cancelled_ = {};
};

// Refuses a backbone without heads (bad_file).
void require_heads(const Checkpoint& model);

// The exits of a model as policies see them.
[[nodiscard]] ExitSites exit_sites(const ExitLayout& layout);

class Engine {
 public:
  using Done = std::function<void(Answer&&)>;      // called once, on a thread of the engine; must not throw
  using MakeEncoding = std::function<Encoding()>;  // tokenises on the thread that runs the text

  explicit Engine(const Checkpoint& checkpoint, const EngineOptions& options = {});  // throws Error
  explicit Engine(std::unique_ptr<Backend> backend);
  ~Engine();  // cancels waiting texts, finishes running ones
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Binds a policy to this model; throws Error (usage) where it does not fit.
  [[nodiscard]] std::shared_ptr<const BoundPolicy> bind(const PolicySpec& policy,
                                                        std::vector<float> exit_rates = {}) const;

  // Throws Error for an invalid text (empty, too long, unknown id) and for max_layers below the first exit. The lazy
  // form reports the former as StopReason::failed.
  Ticket submit(Encoding text, const Ask& ask, Done done);
  Ticket submit(MakeEncoding text, const Ask& ask, Done done);
  // Several texts: all are queued, or none, if it throws. The ticket cancels them all.
  struct LazyText {
    MakeEncoding make = {};
    Done done = {};
  };
  Ticket submit(std::span<LazyText> texts, const Ask& ask);  // moves from them

  // Throws Error, also for a text that failed: a lost GPU, no memory.
  [[nodiscard]] std::vector<Answer> answer(std::span<const Encoding> texts, const Ask& ask = {});
  // The same for texts that the engine's threads tokenize. One that failed has StopReason::failed.
  [[nodiscard]] std::vector<Answer> answer(std::span<MakeEncoding> texts, const Ask& ask);  // moves from them
  // Every exit of every text at full depth. Gold and index are left empty; info has engine, precision, labels, layers.
  // `advance` is called after every text, one call at a time.
  [[nodiscard]] ExitTrace trace(std::span<const Encoding> texts, const std::function<void(int64_t)>& advance = {});
  // One text through every layer, exits and row 0 kept (row_0: [layers + 1, hidden]): for tests and for `trace`.
  struct FullPass {
    std::vector<float> logits = {};  // [exits, outputs]
    std::vector<float> lte = {}, ramp = {}, row_0 = {};
    double processor_seconds = 0;  // of the thread that ran it, without helpers
  };
  [[nodiscard]] FullPass full_pass(const Encoding& text);
  // Every text through the first `depth` layers. `take` gets its rows [tokens, hidden] after each of them (`layer` from
  // 1), on the thread that runs the text; it must not throw. Returns the logits of the last exit [texts, outputs] if
  // `depth` is all layers, else nothing. Rows are bit-equal for any number of threads.
  using TakeRows = std::function<void(size_t text, int layer, std::span<const float> rows)>;
  [[nodiscard]] std::vector<float> layer_rows(std::span<const Encoding> texts, int depth, const TakeRows& take,
                                              const std::function<void(int64_t)>& advance = {});

  [[nodiscard]] const ModelSpec& spec() const noexcept { return info_.spec; }
  [[nodiscard]] const ExitLayout& exits() const noexcept { return info_.exits; }
  [[nodiscard]] Precision precision() const noexcept { return info_.precision; }
  [[nodiscard]] const Kernels& kernels() const noexcept { return *info_.kernels; }
  [[nodiscard]] const EngineTraits& traits() const noexcept { return info_.traits; }
  [[nodiscard]] const std::string& name() const noexcept { return traits().name; }  // "cpu/avx512"
  [[nodiscard]] int threads() const noexcept { return info_.threads; }
  [[nodiscard]] int pack_rows() const noexcept { return info_.pack_rows; }
  [[nodiscard]] size_t weight_bytes() const noexcept { return info_.weight_bytes; }
  [[nodiscard]] size_t waiting() const noexcept;  // texts submitted and not begun

 private:
  Ticket enqueue(TextSource source, const Ask& ask, Done done);
  [[nodiscard]] std::vector<Answer> answer_all(std::vector<TextSource> sources, const Ask& ask);

  std::unique_ptr<Backend> backend_;
  const EngineInfo& info_;  // the backend's
};

// Before they are submitted together: `act` is called once, after the last of them is done, on the same thread.
void when_all_done(std::span<Engine::LazyText> texts, std::function<void()> act);

}  // namespace exeunt
