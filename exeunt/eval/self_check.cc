// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/self_check.h"

#include <algorithm>
#include <cmath>

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/reference.h"
#include "exeunt/eval/bench.h"

namespace exeunt {
namespace {

// Small, but with more than one panel, block of rows and head.
constexpr int kTokens = 37;
constexpr ModelSpec kSmall{
    .layers = 2, .hidden = 96, .heads = 3, .inner = 200, .vocab = 500, .positions = 64, .embedding = 96};

// Shares of the largest logit that rounding may cost; a wrong kernel is off by about 1.
double tolerance(Precision precision) {
  return precision == Precision::fp32 ? 1e-4 : precision == Precision::bf16 ? 0.1 : 0.15;
}

Encoding some_text() {
  Encoding text;
  for (int i = 0; i < kTokens; ++i) text.ids.push_back((i * 131 + 7) % kSmall.vocab);
  text.types.assign(text.ids.size(), 0);
  text.offsets.resize(text.ids.size());
  return text;
}

}  // namespace

std::vector<SelfCheck> check_engine(const Kernels& kernels) {
  const Checkpoint model = random_model(kSmall, BenchHeads::reader);
  const Encoding text = some_text();
  const std::vector<float> wanted = Reference(model).trace(text).logits;
  float largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  std::vector<SelfCheck> out;
  for (const Precision precision : kPrecisions) {
    if (precision == Precision::bf16 && !kernels.bf16) continue;
    Engine engine(model, {.precision = precision, .threads = 1, .kernels = &kernels});
    const std::vector<float> got = engine.full_pass(text).logits;
    double worst = got.size() == wanted.size() ? 0 : INFINITY;
    for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
      const double off = std::abs(static_cast<double>(got[i]) - wanted[i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
    const double share = worst / largest;
    out.push_back({precision, share, share <= tolerance(precision)});
  }
  return out;
}

}  // namespace exeunt
