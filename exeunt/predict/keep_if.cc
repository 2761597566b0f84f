// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/keep_if.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"

namespace exeunt {

KeepIf::KeepIf(std::string_view text, OutputSpec outputs) : outputs_(std::move(outputs)) {
  const bool given = text.starts_with("label=");
  const size_t sign = given ? 0 : std::min(text.rfind(">="), text.size());
  if (!given) least_ = number_of<double>(text.substr(std::min(sign + 2, text.size())));
  if (!given && !least_) {
    throw Error(Code::usage, fmt::format("--keep-if: got '{}', want 'label=NAME', 'NAME>=T' or '>=T'", text),
                "for example 'label=spam', 'spam>=0.9' for the score of a label, '>=3.5' for a value");
  }
  const std::string_view name = given ? text.substr(6) : text.substr(0, sign);
  const bool numbers = outputs_.problem == Problem::regression;
  if (name.empty() && !given && (numbers || outputs_.labels.size() == 1)) return;
  const auto found = std::find(outputs_.labels.begin(), outputs_.labels.end(), name);
  if (numbers || found == outputs_.labels.end()) {
    throw Error(Code::usage, fmt::format("--keep-if: the model has no label '{}'", name),
                numbers ? "it predicts one value: '>=T'" : suggestion(name, outputs_.labels));
  }
  label_ = static_cast<int>(found - outputs_.labels.begin());
  if (least_ && !(*least_ > 0 && *least_ < 1)) {
    throw Error(Code::usage, fmt::format("--keep-if: got '{}', and the score of a label is between 0 and 1", text));
  }
}

bool KeepIf::operator()(const Answer& answer) const {
  if (outputs_.problem == Problem::regression) return answer.evidence.value >= static_cast<float>(*least_);
  if (least_) return answer.probabilities.at(static_cast<size_t>(label_)) >= static_cast<float>(*least_);
  const std::vector<int> labels = labels_of(outputs_, answer.logits);
  return std::find(labels.begin(), labels.end(), label_) != labels.end();
}

}  // namespace exeunt
