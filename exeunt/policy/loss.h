// SPDX-License-Identifier: Apache-2.0
// What an early answer can lose against full depth: one table (kLosses) of every loss that can be promised, with what
// it is for one text, what is said of it, and how it is tested.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "exeunt/outputs/output_spec.h"

namespace exeunt {

enum class LossKind : uint8_t { disagreement, zero_one_drop, abs_diff, missed, decision, top };

struct RiskLoss {
  using enum LossKind;

  LossKind kind = disagreement;
  std::string label = {};  // missed, decision: whose; empty: a decision about a model's only output
  double at_least = 0;     // decision: yes from this value or score on
  std::optional<double> max_false =
      {};        // missed: the largest share of the other texts that get the label, promised, too
  int best = 0;  // top: how many

  RiskLoss(LossKind which = disagreement) : kind(which) {}  // NOLINT(google-explicit-constructor): a kind is a loss
  bool operator==(const RiskLoss&) const = default;
  bool operator==(LossKind which) const { return kind == which; }
};

// Two answers to a text. Whether they are the gold one is looked at by losses that need labels alone.
struct AnswerPair {
  std::span<const float> given, reference;  // logits
  bool given_right = true, reference_right = true;
};

class LossOf;

struct LossInfo {
  std::string_view name;
  std::string_view of_what = {};  // after the name: ":LABEL"
  std::string_view help;          // what it is, for --loss
  std::string_view
      promise;  // the sentence: {share} in percent, {answers}, {texts}, {units}, {model} at full depth, {what}
  std::string_view figure;   // what a measured share in percent is
  bool labels, numbers;      // of models that predict these
  bool gold = false;         // needs the gold label of every text
  bool counts = true;        // a text loses 1 or nothing, so that the exact binomial tests it; else a betting bound
  bool conditional = false;  // its mean is over the texts that full depth gives the label
  bool questions = false;    // a cluster of texts loses: `of` is the value that ranks its texts
  double least = 0;          // a text's least loss; the largest is 1
  double (*of)(const LossOf&, const AnswerPair&);
};
extern const std::array<LossInfo, 6> kLosses;  // by kind

[[nodiscard]] const LossInfo& info_of(const RiskLoss& loss) noexcept;
// Whether one text and its answers tell what is lost: shadow runs have no more.
[[nodiscard]] bool of_one_text(const RiskLoss& loss) noexcept;
[[nodiscard]] std::string what_of(const RiskLoss& loss);   // the label, "toxic>=0.8" or "3"; empty for others
[[nodiscard]] std::string name_of(const RiskLoss& loss);   // "missed:toxic,max_false=0.02"
[[nodiscard]] RiskLoss loss_named(std::string_view name);  // throws Error (usage) with the nearest name
[[nodiscard]] std::string loss_forms();                    // "disagreement, …, missed:LABEL"
[[nodiscard]] std::string loss_help();                     // all of them, for --loss
// What is certified where nobody names a loss.
[[nodiscard]] RiskLoss default_loss(Problem problem) noexcept;

// A loss between answers of one model.
class LossOf {
 public:
  // `width` is that of the range of a regression. `outputs` must outlive it. Throws Error (usage) if the loss does not
  // suit the model.
  LossOf(const RiskLoss& loss, const OutputSpec& outputs, double width);

  [[nodiscard]] double operator()(const AnswerPair& answers) const { return info_of(loss).of(*this, answers); }
  // Whether a text that the reference answers so is one that the loss is about.
  [[nodiscard]] bool counts(std::span<const float> reference) const {
    return !info_of(loss).conditional || yes(reference);
  }
  // missed: whether the label is given; decision: whether the value or score is large enough.
  [[nodiscard]] bool yes(std::span<const float> logits) const;

  RiskLoss loss;
  const OutputSpec& outputs;
  double width;
  int label = 0;  // by index
};

}  // namespace exeunt
