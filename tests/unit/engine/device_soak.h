// SPDX-License-Identifier: Apache-2.0
// Random models, lengths and policies on a device, against the CPU in fp32 and against the device itself:
//   1. every logit is that of the CPU up to the drift of the precision;
//   2. whatever the company, the order and the size of a batch, a text has the same bits;
//   3. live answers are those that the device's trace replays, bit for bit.
// As exits follow from logits alone, nothing can then differ from the CPU beyond that drift.
#pragma once

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "exeunt/engine/engine.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {

struct SoakReport {
  int64_t models = 0, texts = 0, answers = 0, early = 0;
  double worst_fp32 = 0, worst_bf16 = 0;                    // differences of logits from the CPU's
  int64_t other_exits = 0, other_labels = 0, replayed = 0;  // than the CPU's in fp32, of so many answers
  std::vector<std::string> failures = {};

  [[nodiscard]] std::string text() const {
    return fmt::format(
        "{} models, {} texts, {} answers ({} early); logits differ from the CPU's by at most {:.2g} in fp32 and {:.2g} "
        "in "
        "bf16; of {} answers {} leave elsewhere and {} have another label; {} failures",
        models, texts, answers, early, worst_fp32, worst_bf16, replayed, other_exits, other_labels, failures.size());
  }
};

class DeviceSoak {
 public:
  // What may come of rounding in models with random weights, which enlarge it.
  static constexpr double kDriftFp32 = 1e-3, kDriftBf16 = 0.5;

  DeviceSoak(const Device& device, uint32_t seed) : device_(device), random_(seed) {}

  // One model with its texts and policies.
  void run_case() {
    const ModelSpec spec = draw_spec();
    const ExitLayout layout = draw_exits(spec);
    const Checkpoint model = make_model(spec, layout, {}, random_());
    const EngineTraits traits = engine_traits(device_);
    const Precision precision = traits.bf16 && pick(0, 2) > 0 ? Precision::bf16 : Precision::fp32;
    where_ = fmt::format("case {} ({}, {} layers, hidden {}, {})", report_.models, name_of(spec.family), spec.layers,
                         spec.hidden, name_of(precision));
    Engine cpu(model, {.precision = Precision::fp32, .threads = 2});
    Engine engine(model, {.device = device_, .precision = precision, .threads = 2, .pack_rows = draw_rows()});
    const std::vector<Encoding> texts = draw_texts(spec);
    ++report_.models;
    report_.texts += static_cast<int64_t>(texts.size());
    ExitTrace want = cpu.trace(texts), got = engine.trace(texts);
    compare_logits(want, got, precision);
    compare_company(engine, texts, got);
    want.gold.assign(want.rows, NAN);
    got.gold.assign(got.rows, NAN);
    for (int n = 0; n < 4; ++n) compare_answers(engine, texts, draw_policy(spec), want, got);
  }

  [[nodiscard]] const SoakReport& report() const noexcept { return report_; }

 private:
  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low)); }
  template <class T, size_t N>
  T one_of(const T (&choices)[N]) {
    return choices[pick(0, static_cast<int>(N))];
  }
  void fail(const std::string& what) { report_.failures.push_back(where_ + ": " + what); }

  ModelSpec draw_spec() {
    ModelSpec spec = small_spec(one_of({Family::bert, Family::roberta, Family::albert, Family::elasticbert}));
    spec.layers = pick(1, 7);
    spec.hidden = spec.embedding = one_of({12, 64, 128, 192, 256, 384});
    spec.heads = spec.hidden == 12 ? 3 : spec.hidden / one_of({32, 64});
    spec.inner = spec.hidden * pick(1, 5);
    spec.vocab = pick(30, 500);
    spec.positions = one_of({24, 130, 300, 512});
    if (spec.embedding_projection) spec.embedding = spec.hidden / 2;
    return spec;
  }

  ExitLayout draw_exits(const ModelSpec& spec) {
    ExitLayout layout = own_exits(spec, pick(2, 6));
    layout.input = one_of({PoolInput::cls, PoolInput::cls, PoolInput::mean, PoolInput::max, PoolInput::cls_mean});
    if (pick(0, 4) == 0) {
      for (size_t i = 0; i < layout.sites.size(); ++i) layout.sites[i].reader = static_cast<int>(i);
    }
    return layout;
  }

  int draw_rows() { return one_of({0, 0, 256, 512, 2048}); }

  std::vector<Encoding> draw_texts(const ModelSpec& spec) {
    std::vector<Encoding> texts;
    const int longest = one_of({8, 40, spec.max_tokens()});
    for (int count = pick(1, one_of({4, 40, 200})); count > 0; --count)
      texts.push_back(random_text(spec, pick(1, std::min(longest, spec.max_tokens()) + 1), random_()));
    return texts;
  }

  PolicySpec draw_policy(const ModelSpec& spec) {
    const double x = static_cast<double>(pick(1, 20)) / 20;
    switch (pick(0, 7)) {
      case 0:
        return parse_policy(fmt::format("entropy:{:.2f}", x * 1.5));
      case 1:
        return parse_policy(fmt::format("confidence:{:.2f}", 0.3 + 0.65 * x));
      case 2:
        return parse_policy(fmt::format("margin:{:.2f}", x));
      case 3:
        return parse_policy(fmt::format("patience:{}", pick(1, 4)));
      case 4:
        return parse_policy(fmt::format("layer:{}", pick(1, spec.layers + 1)));
      case 5:
        return parse_policy(fmt::format("gini:{:.2f}", x * 0.8));
      default:
        return parse_policy("full");
    }
  }

  void compare_logits(const ExitTrace& want, const ExitTrace& got, Precision precision) {
    double worst = 0;
    for (size_t i = 0; i < want.logits.size(); ++i) {
      const double off = std::abs(static_cast<double>(want.logits[i]) - got.logits[i]);
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
    double& most = precision == Precision::fp32 ? report_.worst_fp32 : report_.worst_bf16;
    most = std::max(most, worst);
    const double drift = precision == Precision::fp32 ? kDriftFp32 : kDriftBf16;
    if (!(worst <= drift)) fail(fmt::format("logits differ from the CPU's by {:.3g}, want at most {:g}", worst, drift));
  }

  // Some of the texts, in another order.
  void compare_company(Engine& engine, const std::vector<Encoding>& texts, const ExitTrace& trace) {
    std::vector<size_t> places(texts.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = i;
    std::shuffle(places.begin(), places.end(), random_);
    places.resize(static_cast<size_t>(pick(1, static_cast<int>(places.size()) + 1)));
    std::vector<Encoding> some;
    for (const size_t place : places) some.push_back(texts[place]);
    const ExitTrace again = engine.trace(some);
    const size_t each = static_cast<size_t>(trace.exits) * static_cast<size_t>(trace.width);
    for (size_t i = 0; i < places.size(); ++i) {
      const auto one = again.logits.begin() + static_cast<ptrdiff_t>(i * each);
      const auto other = trace.logits.begin() + static_cast<ptrdiff_t>(places[i] * each);
      if (!std::equal(one, one + static_cast<ptrdiff_t>(each), other))
        return fail(fmt::format("text {} of {} tokens has other bits among {} texts than among {}", places[i],
                                texts[places[i]].ids.size(), some.size(), texts.size()));
    }
  }

  void compare_answers(Engine& engine, const std::vector<Encoding>& texts, const PolicySpec& policy,
                       const ExitTrace& want, const ExitTrace& got) {
    Replayer device(got), cpu(want);
    const Departures there = device.run(policy), here = cpu.run(policy);
    const std::vector<Answer> answers = engine.answer(texts, {.policy = engine.bind(policy)});
    report_.answers += static_cast<int64_t>(answers.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      const std::span<const float> replayed = device.answer(there, i);
      const Answer& answer = answers[i];
      if (answer.exit != static_cast<int>(there.exit[i]) ||
          !std::equal(replayed.begin(), replayed.end(), answer.logits.begin(), answer.logits.end()))
        return fail(fmt::format("{}: text {} left at exit {}, its trace at {}", str(policy), i, answer.exit,
                                static_cast<int>(there.exit[i])));
      report_.early += answer.layer < engine.spec().layers ? 1 : 0;
      ++report_.replayed;
      report_.other_exits += there.exit[i] != here.exit[i] ? 1 : 0;
      const std::span<const float> reference = cpu.answer(here, i);
      const auto best = [](std::span<const float> v) { return std::max_element(v.begin(), v.end()) - v.begin(); };
      report_.other_labels += best(replayed) != best(reference) ? 1 : 0;
    }
  }

  Device device_;
  std::mt19937 random_;
  SoakReport report_ = {};
  std::string where_ = {};
};

}  // namespace exeunt
