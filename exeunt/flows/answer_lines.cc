// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/answer_lines.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "exeunt/base/json.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 4> kForms = {"tsv", "jsonl", "glue", "elue"};

// A label in a table whose fields have no quoting.
std::string plain_field(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

std::optional<AnswerForm> answer_form_named(std::string_view name) noexcept {
  const auto* found = std::find(kForms.begin(), kForms.end(), name);
  if (found == kForms.end()) return std::nullopt;
  return static_cast<AnswerForm>(found - kForms.begin());
}

std::string_view name_of(AnswerForm form) noexcept {
  return kForms[static_cast<size_t>(form)];
}

AnswerLines::AnswerLines(AnswerForm form, const Checkpoint& model, const Policy& policy,
                         std::vector<std::string> labels)
    : form_(form), exits_(model.exits()) {
  exits_.labels = std::move(labels);
  run_.hidden = model.spec().hidden;
  for (int i = 0; i < policy.count; ++i) {
    const ExitSite& site = exits_.sites[static_cast<size_t>(policy.site[i])];
    run_.exits.push_back(
        {.after = site.after, .reads_all_rows = site.reader.has_value() || exits_.input != PoolInput::cls});
  }
}

std::string AnswerLines::head() const {
  const bool regression = exits_.problem == Problem::regression;
  switch (form_) {
    case AnswerForm::tsv:
      return regression ? "index\tvalue\texit_layer\tlayers_run\n" : "index\tlabel\tscore\texit_layer\tlayers_run\n";
    case AnswerForm::glue:
      return "index\tprediction\n";
    case AnswerForm::elue:
      return "index\tpred\tmodules\n";
    case AnswerForm::jsonl:
      break;
  }
  return {};
}

// The label's name; for a regression its value, held to the range of the labels where that is known.
std::string AnswerLines::label_of(const Prediction& text) const {
  const Evidence& evidence = text.answer.evidence;
  if (exits_.problem == Problem::classification) {
    return plain_field(exits_.labels.at(static_cast<size_t>(evidence.label)));
  }
  double value = evidence.value;
  if (exits_.range) value = std::clamp(value, exits_.range->first, exits_.range->second);
  return fmt::format("{:.3f}", value);
}

std::string AnswerLines::json_line(const Prediction& text) const {
  OrderedJson out;
  out["index"] = text.index;
  if (exits_.problem == Problem::regression) {
    out["value"] = text.answer.evidence.value;
  } else {
    out["label"] = exits_.labels.at(static_cast<size_t>(text.answer.evidence.label));
    out["scores"] = OrderedJson::object();
    for (size_t i = 0; i < exits_.labels.size(); ++i) out["scores"][exits_.labels[i]] = text.answer.probabilities.at(i);
  }
  out["exit_layer"] = text.answer.layer;
  out["layers_run"] = text.answer.layers_run;
  if (was_cut(text.answer.ended)) out["covered"] = false;  // by the promise
  return out.dump() + "\n";
}

std::string AnswerLines::line(const Prediction& text) const {
  const Answer& answer = text.answer;
  switch (form_) {
    case AnswerForm::jsonl:
      return json_line(text);
    case AnswerForm::glue:
      return fmt::format("{}\t{}\n", text.index, label_of(text));
    case AnswerForm::elue: {
      ElueRun run = run_;
      run.tokens = {answer.tokens};
      run.layers = {answer.layer};
      return fmt::format("{}\t{}\t{}\n", text.index, label_of(text), elue_modules(run, 0));
    }
    case AnswerForm::tsv:
      break;
  }
  if (exits_.problem == Problem::regression) {
    return fmt::format("{}\t{:.6g}\t{}\t{}\n", text.index, answer.evidence.value, answer.layer, answer.layers_run);
  }
  return fmt::format("{}\t{}\t{:.6f}\t{}\t{}\n", text.index, label_of(text),
                     answer.probabilities.at(static_cast<size_t>(answer.evidence.label)), answer.layer,
                     answer.layers_run);
}

}  // namespace exeunt
