// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/shadow_engine.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <thread>

#include <sys/resource.h>

#include "exeunt/base/error.h"

namespace exeunt::serve {
namespace {

// Runs `work` on a new thread of low priority, which the threads that it starts inherit. Waits for it,
// and throws what it throws.
template <class Work>
void run_at_low_priority(const Work& work) {
  std::exception_ptr failure;
  std::thread([&] {
    (void)::setpriority(PRIO_PROCESS, 0, 19);  // on Linux, 0 is this thread alone
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

std::vector<float> last_exit(const Engine::FullPass& pass, int outputs) {
  return {pass.logits.end() - outputs, pass.logits.end()};
}

void require_finite(const Engine::FullPass& pass) {
  for (const auto* values : {&pass.logits, &pass.lte, &pass.ramp}) {
    const auto finite = [](float value) { return std::isfinite(value); };
    if (!std::all_of(values->begin(), values->end(), finite))
      throw Error(Code::failure, "the model's outputs are not finite");
  }
}

}  // namespace

double loss_range(const Certificate* certificate, const ModelFacts& model) {
  if (model.problem != Problem::regression) return 0;
  const bool certified = certificate != nullptr && certificate->range.size() == 2;
  const double range = certified ? certificate->range[1] - certificate->range[0] : model.range_width();
  if (range > 0) return range;
  throw Error(Code::usage, "--shadow: neither the certificate nor the model has a range of values to measure losses by",
              "certify the model with 'exeunt calibrate' first (its --range LOW,HIGH names the range), or leave "
              "--shadow out");
}

ShadowEngine::ShadowEngine(const Checkpoint& model, Engine& served, const ShadowEngineOptions& options)
    : served_(served), reference_is_fp32_(options.reference == LossReference::fp32) {
  if (!options.log.empty()) log_.emplace(options.log, options.log_head);
  if (served.precision() == Precision::fp32 || !(reference_is_fp32_ || log_)) return;
  run_at_low_priority([&] {  // its thread inherits that
    fp32_ = std::make_unique<Engine>(
        model, EngineOptions{
                   .device = options.device, .precision = Precision::fp32, .threads = 1, .kernels = options.kernels});
  });
}

ShadowPass ShadowEngine::pass(const Encoding& text, uint64_t dropped) {
  const Engine::FullPass fp32 = fp32_ ? fp32_->full_pass(text) : Engine::FullPass{};
  const Engine::FullPass served = runs_served() ? served_.full_pass(text) : Engine::FullPass{};
  require_finite(fp32);
  require_finite(served);
  const int outputs = served_.exits().outputs;
  ShadowPass out{.logits = last_exit(fp32_ && reference_is_fp32_ ? fp32 : served, outputs),
                 .processor_seconds = fp32.processor_seconds + served.processor_seconds};
  if (!log_) return out;
  out.kept = log_->write({.row_hash = hash_text(row_hash_of(text.ids)),
                          .tokens = static_cast<int>(text.ids.size()),
                          .logits = served.logits,
                          .lte = served.lte,
                          .ramp = served.ramp,
                          .reference = last_exit(fp32_ ? fp32 : served, outputs),
                          .dropped = dropped});
  return out;
}

double ShadowEngine::relative_cost(const Encoding& text) {
  const auto cost = [&](Engine& engine) {
    (void)engine.full_pass(text);  // the first one also fills caches
    const double before = processor_seconds();
    (void)engine.full_pass(text);
    return std::max(processor_seconds() - before, 1e-6);
  };
  return (fp32_ ? cost(*fp32_) / cost(served_) : 0) + (runs_served() ? 1 : 0);
}

}  // namespace exeunt::serve
