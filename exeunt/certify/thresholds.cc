// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/thresholds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

struct LabelRow {
  float logit;
  bool has;
};

double f1_of(int64_t hits, int64_t given, int64_t texts) noexcept {
  return given + texts == 0 ? 0 : 2 * static_cast<double>(hits) / static_cast<double>(given + texts);
}

FittedThreshold fit_threshold(const ExitTrace& trace, size_t label) {
  std::vector<LabelRow> rows;
  for (size_t row = 0; row < trace.rows; ++row) {
    const float gold = trace.gold[row * trace.gold_width() + label];
    if (!std::isnan(gold)) rows.push_back({trace.full_depth(row)[label], gold == 1});
  }
  std::sort(rows.begin(), rows.end(), [](const LabelRow& a, const LabelRow& b) { return a.logit > b.logit; });
  FittedThreshold out{.logit = trace.info.logit_thresholds.empty() ? 0 : trace.info.logit_thresholds[label]};
  int64_t hits = 0, given = 0;
  for (const LabelRow& row : rows) {
    out.texts += row.has ? 1 : 0;
    given += row.logit > out.logit ? 1 : 0;
    hits += row.has && row.logit > out.logit ? 1 : 0;
  }
  out.without = static_cast<int64_t>(rows.size()) - out.texts;
  out.before = out.after = f1_of(hits, given, out.texts);
  out.fitted = std::min(out.texts, out.without) >= kFewestToFit;
  if (!out.fitted) return out;
  hits = given = 0;
  for (size_t i = 0; i < rows.size();
       ++i) {  // a threshold between this row and the next gives the label to those up to here
    hits += rows[i].has ? 1 : 0;
    ++given;
    const float above = rows[i].logit, below = i + 1 < rows.size() ? rows[i + 1].logit : above - 1;
    const float logit = logit_of(threshold_of(below + (above - below) / 2));  // as files write it
    const bool apart = logit >= below && logit < above;
    const double f1 = f1_of(hits, given, out.texts);
    if (!apart || f1 <= out.after) continue;
    out.after = f1;
    out.logit = logit;
  }
  return out;
}

// Rounded to the six digits that files write, so that what is read back is what was meant.
float threshold_named(std::string_view text) {
  const auto value = number_of<double>(text);
  const double threshold = value ? std::round(*value * 1e6) / 1e6 : 0;
  if (!(threshold > 0 && threshold < 1)) {
    throw Error(Code::usage,
                fmt::format("thresholds: got '{}', want a number from 0.000001 to 0.999999", text.substr(0, 64)),
                "a probability above which a label is given: 0.3 for all, 0.3,0.5 for each, or rude=0.3");
  }
  return logit_of(threshold);
}

}  // namespace

std::vector<FittedThreshold> fit_thresholds(const ExitTrace& trace) {
  check(trace.info.problem == Problem::multi_label, "thresholds are those of a multi-label model");
  std::vector<FittedThreshold> out;
  for (size_t label = 0; label < static_cast<size_t>(trace.width); ++label) out.push_back(fit_threshold(trace, label));
  return out;
}

std::vector<float> parse_thresholds(std::string_view text, const std::vector<std::string>& labels,
                                    const std::vector<float>& present) {
  std::vector<float> logit_thresholds = present.empty() ? std::vector<float>(labels.size(), 0.0F) : present;
  const std::vector<std::string_view> parts = split(text, ',');
  if (text.find('=') != std::string_view::npos) {
    for (const std::string_view part : parts) {
      const size_t equals = std::min(part.rfind('='), part.size());
      const std::string name(part.substr(0, equals));
      const auto found = std::find(labels.begin(), labels.end(), name);
      if (found == labels.end())
        throw Error(Code::usage, fmt::format("thresholds: the model has no label '{}'", name.substr(0, 64)),
                    suggestion(name, labels));
      logit_thresholds[static_cast<size_t>(found - labels.begin())] =
          threshold_named(part.substr(std::min(equals + 1, part.size())));
    }
  } else if (parts.size() == 1) {
    logit_thresholds.assign(labels.size(), threshold_named(text));
  } else {
    if (parts.size() != labels.size())
      throw Error(Code::usage,
                  fmt::format("thresholds: got {}, want one for each of {} labels", parts.size(), labels.size()),
                  "or one number for all of them, or NAME=NUMBER for some");
    for (size_t i = 0; i < parts.size(); ++i) logit_thresholds[i] = threshold_named(parts[i]);
  }
  if (std::all_of(logit_thresholds.begin(), logit_thresholds.end(), [](float logit) { return logit == 0; }))
    logit_thresholds.clear();
  return logit_thresholds;
}

std::string thresholds_by_label(const std::vector<std::string>& labels, const std::vector<float>& logit_thresholds) {
  std::string out;
  for (size_t i = 0; i < labels.size(); ++i)
    out += fmt::format("{}{} {:g}", i == 0 ? "" : ", ", labels[i],
                       logit_thresholds.empty() ? 0.5 : threshold_of(logit_thresholds[i]));
  return out;
}

Checkpoint with_logit_thresholds(const Checkpoint& model, std::vector<float> logit_thresholds) {
  ExitLayout exits = model.exits();
  exits.logit_thresholds = std::move(logit_thresholds);
  return model.with_exits(std::move(exits));
}

Checkpoint with_thresholds(const Checkpoint& model, std::string_view text) {
  if (text.empty()) return model;
  if (model.exits().problem != Problem::multi_label) {
    throw Error(Code::usage, "--thresholds: the model gives one answer to a text",
                "thresholds are for models that give several labels at once");
  }
  if (text == "fit") {
    throw Error(Code::usage, "--thresholds fit: takes labelled rows, and these are fitted where a policy is chosen",
                "exeunt calibrate MODEL --data FILE --thresholds fit");
  }
  return with_logit_thresholds(model, parse_thresholds(text, model.exits().labels, model.exits().logit_thresholds));
}

}  // namespace exeunt
