// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"

namespace exeunt {

namespace {

double other_side(const LossOf& of, const AnswerPair& pair) {
  return of.yes(pair.given) == of.yes(pair.reference) ? 0 : 1;
}

}  // namespace

const std::array<LossInfo, 6> kLosses{{
    {.name = "disagreement",
     .help = "changed answers",
     .promise = "at most {share:g} % of {answers} differ from {model}",
     .figure = "of answers differ",
     .labels = true,
     .numbers = false,
     .of = [](const LossOf& of,
              const AnswerPair& pair) { return same_answer(of.outputs, pair.given, pair.reference) ? 0.0 : 1.0; }},
    {.name = "zero_one_drop",
     .help = "lost accuracy; needs labels",
     .promise = "at most {share:g} % fewer {answers} are correct than those of {model}",
     .figure = "fewer answers are correct",
     .labels = true,
     .numbers = false,
     .gold = true,
     .least = -1,
     .of = [](const LossOf&, const AnswerPair& pair) { return 1.0 * pair.reference_right - 1.0 * pair.given_right; }},
    {.name = "abs_diff",
     .help = "differences of values",
     .promise =
         "{answers} differ from {model} by at most {share:g} % of the range on average (at most the range counts)",
     .figure = "mean difference",
     .labels = false,
     .numbers = true,
     .counts = false,
     .of =
         [](const LossOf& of, const AnswerPair& pair) {
           return std::min(1.0, std::abs(static_cast<double>(pair.given[0]) - pair.reference[0]) / of.width);
         }},
    {.name = "missed",
     .of_what = ":LABEL",
     .help = "texts that full depth calls so, and this not",
     .promise = "at most {share:g} % of the {texts} that {model} calls '{what}' are not called so",
     .figure = "missed",
     .labels = true,
     .numbers = false,
     .conditional = true,
     .of = other_side},
    {.name = "decision",
     .of_what = ":[LABEL]>=T",
     .help = "as --decide",
     .promise = "at most {share:g} % of {answers} are on the other side of '{what}' than those of {model}",
     .figure = "of decisions differ",
     .labels = true,
     .numbers = true,
     .of = other_side},
    {.name = "top",
     .of_what = ":K",
     .help = "as --keep-top",
     .promise = "at most {share:g} % of {units} get another top {what} than by {model}",
     .figure = "got another top",
     .labels = false,
     .numbers = true,
     .questions = true,
     .of = [](const LossOf&, const AnswerPair& pair) { return 1.0 * pair.given[0]; }},
}};

const LossInfo& info_of(const RiskLoss& loss) noexcept {
  return kLosses[static_cast<size_t>(loss.kind)];
}

namespace {

constexpr std::string_view kMaxFalse = ",max_false=";

// "toxic>=0.8" or ">=3.5" into a loss.
void read_decision(std::string_view text, RiskLoss& loss) {
  const size_t sign = text.rfind(">=");
  const auto value = sign == std::string_view::npos ? std::nullopt : number_of<double>(text.substr(sign + 2));
  if (!value || !std::isfinite(*value)) {
    throw Error(Code::usage, fmt::format("decision: got '{}', want '>=T' or 'LABEL>=T'", text.substr(0, 64)),
                "for example '>=3.5' for a value, 'toxic>=0.8' for the score of a label");
  }
  loss.label = text.substr(0, sign);
  loss.at_least = *value;
}

}  // namespace

bool of_one_text(const RiskLoss& loss) noexcept {
  return !info_of(loss).gold && !info_of(loss).questions;
}

std::string what_of(const RiskLoss& loss) {
  if (loss.kind == RiskLoss::top) return fmt::format("{}", loss.best);
  return loss.kind == RiskLoss::decision ? fmt::format("{}>={}", loss.label, loss.at_least) : loss.label;
}

std::string name_of(const RiskLoss& loss) {
  const std::string what = what_of(loss);
  return fmt::format("{}{}{}{}", info_of(loss).name, what.empty() ? "" : ":", what,
                     loss.max_false ? fmt::format("{}{}", kMaxFalse, *loss.max_false) : "");
}

RiskLoss loss_named(std::string_view name) {
  std::vector<std::string> known;
  const size_t colon = std::min(name.find(':'), name.size());
  for (size_t i = 0; i < kLosses.size(); ++i) {
    known.push_back(fmt::format("{}{}", kLosses[i].name, kLosses[i].of_what));
    if (kLosses[i].name != name.substr(0, colon) || kLosses[i].of_what.empty() != (colon == name.size())) continue;
    RiskLoss loss = static_cast<LossKind>(i);
    if (loss.kind == RiskLoss::decision) {
      read_decision(name.substr(colon + 1), loss);
    } else if (loss.kind == RiskLoss::top) {
      loss.best = number_of<int>(name.substr(colon + 1)).value_or(0);
      if (loss.best < 1)
        throw Error(Code::usage, fmt::format("top: got '{}', want a whole number of at least 1", name.substr(4, 64)),
                    "'top:3' keeps the best three of every question");
    } else if (colon < name.size()) {
      const size_t side = std::min(name.rfind(kMaxFalse), name.size());
      loss.max_false = number_of<double>(name.substr(std::min(side + kMaxFalse.size(), name.size())));
      loss.label = name.substr(colon + 1, loss.max_false ? side - colon - 1 : std::string_view::npos);
      if (loss.max_false && !(*loss.max_false > 0 && *loss.max_false < 1))
        throw Error(Code::usage, fmt::format("max_false: got {}, want a share above 0 and below 1", *loss.max_false));
    }
    return loss;
  }
  throw Error(Code::usage, fmt::format("unknown loss '{}'", name.substr(0, 64)), suggestion(name, known));
}

std::string loss_forms() {
  std::vector<std::string> all;
  for (const LossInfo& info : kLosses) all.push_back(fmt::format("{}{}", info.name, info.of_what));
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string loss_help() {
  std::vector<std::string> all;
  for (const LossInfo& info : kLosses) all.push_back(fmt::format("{}{} ({})", info.name, info.of_what, info.help));
  return fmt::format("Loss function: {}", fmt::join(all, ", "));
}

RiskLoss default_loss(Problem problem) noexcept {
  switch (problem) {
    case Problem::classification:
    case Problem::multi_label:
      return RiskLoss::disagreement;
    case Problem::regression:
      return RiskLoss::abs_diff;
  }
  return RiskLoss::disagreement;
}

LossOf::LossOf(const RiskLoss& which, const OutputSpec& of, double range) : loss(which), outputs(of), width(range) {
  const bool numbers = outputs.problem == Problem::regression;
  if (numbers ? !info_of(loss).numbers : !info_of(loss).labels) {
    std::vector<std::string_view> others;
    for (const LossInfo& info : kLosses)
      if ((numbers ? info.numbers : info.labels) && info.of_what.empty()) others.push_back(info.name);
    throw Error(Code::usage,
                fmt::format("loss '{}' does not suit {}", name_of(loss),
                            numbers ? "a model that predicts numbers" : "a model that predicts classes"),
                fmt::format("use {}", fmt::join(others, " or ")));
  }
  if (info_of(loss).of_what.empty() || (numbers && loss.label.empty())) return;
  const auto found = std::find(outputs.labels.begin(), outputs.labels.end(), loss.label);
  label = static_cast<int>(found - outputs.labels.begin());
  if (loss.label.empty() && outputs.labels.size() == 1) {
    label = 0;
  } else if (found == outputs.labels.end()) {
    throw Error(Code::usage,
                fmt::format("loss '{}': the model has no label '{}'", name_of(loss), loss.label.substr(0, 64)),
                numbers ? "it predicts one value: '>=T'" : suggestion(loss.label, outputs.labels));
  }
  if (loss.kind == RiskLoss::decision && !(loss.at_least > 0 && loss.at_least < 1)) {
    throw Error(Code::usage,
                fmt::format("decision: got '{}', and the score of a label is between 0 and 1", what_of(loss)),
                "for example 'LABEL>=0.8'");
  }
}

bool LossOf::yes(std::span<const float> logits) const {
  if (loss.kind == RiskLoss::missed) {
    if (outputs.problem == Problem::multi_label) return has_label(outputs.exit_logits(logits), label);
    return best_label(outputs, logits) == label;
  }
  const auto least = static_cast<float>(loss.at_least);
  if (outputs.problem == Problem::regression) return logits[0] >= least;
  std::vector<float> scores(logits.size());
  probabilities(outputs.exit_logits(logits), scores.data());
  return scores[static_cast<size_t>(label)] >= least;
}

}  // namespace exeunt
