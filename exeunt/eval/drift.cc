// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/drift.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"

namespace exeunt {
namespace {

void require_pair(const ExitTrace& before, const ExitTrace& after) {
  const bool same_model = before.info.weights == after.info.weights && before.info.layers == after.info.layers &&
                          before.width == after.width && before.info.labels == after.info.labels;
  const bool same_texts = before.rows == after.rows && before.index == after.index && before.lengths == after.lengths;
  if (same_model && same_texts) return;
  throw Error(Code::bad_file, fmt::format("the traces to compare are of different {}", same_model ? "texts" : "models"),
              "record both traces with the same model and data");
}

}  // namespace

Drift drift(const ExitTrace& before, const ExitTrace& after, const PolicySpec& policy) {
  require_pair(before, after);
  Drift out{.rows = before.rows};
  if (before.rows == 0) return out;
  Replayer first(before), second(after);
  const Departures left = first.run(policy), right = second.run(policy);
  const int last = before.exits - 1;
  const bool classes = before.info.problem != Problem::regression;
  for (size_t row = 0; row < before.rows; ++row) {
    out.exits += left.exit[row] != right.exit[row];
    const auto differ = [&](std::span<const float> a, std::span<const float> b) {
      return classes && answer_of(before.info, a) != answer_of(after.info, b);
    };
    out.labels += differ(first.answer(left, row), second.answer(right, row));
    out.full_labels += differ(before.at(row, last), after.at(row, last));
    out.average_layers_before += before.info.layers[left.exit[row]];
    out.average_layers_after += before.info.layers[right.exit[row]];
  }
  const auto rows = static_cast<double>(before.rows);
  for (double* share :
       {&out.exits, &out.labels, &out.full_labels, &out.average_layers_before, &out.average_layers_after})
    *share /= rows;
  for (size_t i = 0; i < before.logits.size(); ++i) {
    const double difference = std::abs(static_cast<double>(before.logits[i]) - static_cast<double>(after.logits[i]));
    out.largest_logit = std::max(out.largest_logit, difference);
    out.mean_logit += difference / static_cast<double>(before.logits.size());
  }
  return out;
}

std::string drift_line(const ExitTrace& before, const ExitTrace& after, const PolicySpec& policy) {
  const Drift d = drift(before, after, policy);
  return fmt::format(
      "{} {} → {} {}: {:.2f} % of labels and {:.2f} % of exits change ({}, {} texts);\n"
      "at full depth {:.2f} % of labels; logits by {:.2g} on average, {:.2g} at most",
      before.info.engine, before.info.precision, after.info.engine, after.info.precision, 100 * d.labels, 100 * d.exits,
      str(policy), d.rows, 100 * d.full_labels, d.mean_logit, d.largest_logit);
}

}  // namespace exeunt
