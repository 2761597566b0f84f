// SPDX-License-Identifier: Apache-2.0
// What an engine runs on. Engine (engine.h) checks its input, waits and collects results; a backend holds the
// weights and computes: on the CPU (cpu/cpu_backend.cc) or a GPU (cuda/). What backends share on the way from an Ask to
// an Answer is here, too.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exeunt/engine/device.h"
#include "exeunt/engine/engine.h"

namespace exeunt {

// What a submitted text is: its tokens, or how to make them.
struct TextSource {
  Encoding own = {};
  const Encoding* borrowed = nullptr;  // outlives the run
  Engine::MakeEncoding make = {};      // its tokens are not yet checked: check_text
};

// A text that waits for its answer. The ask fits the model.
struct AnswerJob {
  TextSource source = {};
  Ask ask = {};
  Engine::Done done = {};
  std::shared_ptr<const std::atomic<bool>> cancelled = {};  // never null
};

// Texts that pass `depth` layers whatever their exits say. `done` is called once for each, on a thread of the backend,
// with its result or why it failed.
struct PassRequest {
  int depth = 0;
  bool row_0 = false;          // kept after every layer
  bool alone = false;          // no other text runs beside it
  Engine::TakeRows take = {};  // as Engine::layer_rows has it: of the exits, only the last is evaluated then
  std::function<void(size_t text, Engine::FullPass&& pass, const std::exception_ptr& failure)> done = {};
};

// Every call may come from several threads at once.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;  // cancels waiting texts, finishes running ones

  // All texts are queued, in this order, before the first can run; or none, if it throws.
  virtual void submit(std::span<AnswerJob> jobs) = 0;  // moves from them
  // The texts are valid and live until they are done.
  virtual void run_passes(std::span<const Encoding> texts, const std::shared_ptr<const PassRequest>& request) = 0;
  [[nodiscard]] virtual size_t waiting() const noexcept = 0;

  [[nodiscard]] const EngineInfo& info() const noexcept { return info_; }

 protected:
  EngineInfo info_ = {};  // complete when the constructor ends
};

// The CPU's; a GPU's is make_cuda_backend (cuda/cuda.h). Throws Error.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(const Checkpoint& checkpoint, const EngineOptions& options);

// Throws Error (bad_file) if a text is empty, too long, or has an id or type that the model lacks.
void check_text(const ModelSpec& spec, std::span<const int32_t> ids, std::span<const uint8_t> types);

// How many layers have weights of their own: those that spec.weights_of() names.
[[nodiscard]] size_t distinct_layers(const ModelSpec& spec);
// Throws Error (bad_file) for a value of a tensor that is not finite; `first` is the number of the first.
void check_finite(const std::string& tensor, std::span<const float> values, size_t first = 0);

// The site after `layer`, from 1; -1: there is none.
[[nodiscard]] int site_after(const ExitLayout& exits, int layer) noexcept;
// The deepest exit that sits after at most `max_layers` layers; -1: there is none.
[[nodiscard]] int deepest_exit(const ExitLayout& exits, int max_layers) noexcept;
// The last site that may answer `ask`.
[[nodiscard]] int stop_site(const ExitLayout& exits, const Ask& ask) noexcept;
// Whether a text evaluates `site`. With a deadline, every exit may have to answer.
[[nodiscard]] bool evaluates_exit(const Ask& ask, int site, int stop) noexcept;
// Why a text stops that answers at `site`: `leaves` by its policy, or at the last site that may answer.
[[nodiscard]] StopReason stop_reason_at(const ExitLayout& exits, const Ask& ask, int site, bool leaves) noexcept;
// Evaluates the exits of one text in order: the evidence of each, and whether the policy lets the text leave there.
class ExitEvaluator {
 public:
  // Both outlive it. Allocates all it needs.
  ExitEvaluator(const ExitLayout& exits, const Ask& ask);

  struct Exit {
    int site = 0;
    const float* logits = nullptr;  // [outputs]
    float lte = 0;
  };
  // The logits of the last layer's ramp; called only where the policy needs them.
  using Ramp = std::function<const float*()>;
  // The next exit, which becomes the one that answers. Returns whether the policy lets the text leave.
  bool evaluate(const Exit& exit, const Ramp& ramp);

  [[nodiscard]] int site() const noexcept { return site_; }          // evaluated last; -1: none yet
  [[nodiscard]] float* logits() noexcept { return logits_.data(); }  // [outputs] where those of the next may be written
  // What that exit answers. Once, after evaluate().
  void answer(Answer& out);

 private:
  const ExitLayout& exits_;
  const Ask& ask_;
  std::vector<float> state_ = {}, state_before_ = {};  // of the policy, and at the previous exit
  int site_ = -1;
  Evidence evidence_ = {};
  std::vector<float> logits_ = {};
  std::vector<ExitDetail> details_ = {};
};
// The answer of a text that failed.
[[nodiscard]] Answer failed_answer(const std::exception_ptr& why);

}  // namespace exeunt
