// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/answer_lines.h"

#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/data/rows.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 8> kOurs = {"index",  "label",      "labels",     "score",
                                                   "scores", "exit_layer", "layers_run", "value"};

// A label in a table whose fields have no quoting.
std::string plain_field(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

std::optional<AnswerForm> answer_form_of(std::string_view path) noexcept {
  if (path.ends_with(".csv")) return AnswerForm::csv;
  if (path.ends_with(".tsv")) return AnswerForm::tsv;
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return AnswerForm::jsonl;
  return std::nullopt;
}

std::string modules_run(const std::vector<ExitModule>& exits, int hidden, int tokens, int layer) {
  std::string out;
  auto exit = exits.begin();
  if (exit != exits.end() && exit->after == 0) {
    out = fmt::format("({}),exit_0", tokens);
    ++exit;
  }
  if (layer > 0) out += fmt::format("{}({}),emb", out.empty() ? "" : "; ", tokens);
  for (int after = 1; after <= layer; ++after) {
    fmt::format_to(std::back_inserter(out), "; ({},{}),layer_{}", tokens, hidden, after);
    if (exit == exits.end() || exit->after != after) continue;
    const std::string shape =
        exit->reads_all_rows ? fmt::format("({},{})", tokens, hidden) : fmt::format("({})", hidden);
    fmt::format_to(std::back_inserter(out), "; {},exit_{}", shape, after);
    ++exit;
  }
  check(exit != exits.begin() && std::prev(exit)->after == layer, "a text leaves at an evaluated exit");
  return out;
}

AnswerLines::AnswerLines(AnswerForm form, const Checkpoint& model, const Policy& policy,
                         std::vector<std::string> labels, std::vector<std::string> keep)
    : form_(form), keep_(std::move(keep)), exits_(model.exits()) {
  exits_.labels = std::move(labels);
  for (std::string& name : keep_) {
    if (std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end()) name = "input_" + name;
  }
  hidden_ = model.spec().hidden;
  for (int i = 0; i < policy.count; ++i) {
    const ExitSite& site = exits_.sites[static_cast<size_t>(policy.site[i])];
    modules_.push_back(
        {.after = site.after, .reads_all_rows = site.reader.has_value() || exits_.input != PoolInput::cls});
  }
}

// One line of a table. A TSV has no quoting: what would break it becomes a blank.
std::string AnswerLines::joined(const std::vector<std::string>& fields) const {
  std::string out;
  for (const std::string& field : fields) {
    if (!out.empty()) out += form_ == AnswerForm::csv ? ',' : '\t';
    out += form_ == AnswerForm::csv ? csv_field(field) : plain_field(field);
  }
  return out + "\n";
}

std::vector<std::string> AnswerLines::columns() const {
  std::vector<std::string> names{"index"};
  names.insert(names.end(), keep_.begin(), keep_.end());
  switch (exits_.problem) {
    case Problem::classification:
      names.insert(names.end(), {"label", "score"});
      break;
    case Problem::multi_label:
      names.insert(names.end(), {"labels", "scores"});
      break;
    case Problem::regression:
      names.emplace_back("value");
      break;
  }
  names.insert(names.end(), {"exit_layer", "layers_run"});
  return names;
}

std::string AnswerLines::head() const {
  switch (form_) {
    case AnswerForm::tsv:
    case AnswerForm::csv:
      return joined(columns());
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
  std::vector<float> logits = text.answer.logits;
  if (exits_.range)
    logits[0] =
        std::clamp(logits[0], static_cast<float>(exits_.range->first), static_cast<float>(exits_.range->second));
  return plain_field(answer_text(exits_, logits, {.separator = "|", .value = "{:.3f}"}));
}

std::string AnswerLines::json_line(const Prediction& text) const {
  OrderedJson out;
  out["index"] = text.index;
  for (size_t i = 0; i < keep_.size(); ++i) out[keep_[i]] = text.kept.at(i);
  OrderedJson& answer = out[columns().at(1 + keep_.size())];
  if (text.blank) return out.dump() + "\n";
  switch (exits_.problem) {
    case Problem::classification:
      answer = answer_text(exits_, text.answer.logits);
      break;
    case Problem::multi_label:
      answer = OrderedJson::array();
      for (const int label : labels_of(exits_, text.answer.logits)) answer.push_back(exits_.label(label));
      break;
    case Problem::regression:
      answer = text.answer.evidence.value;
      break;
  }
  for (size_t i = 0; i < exits_.labels.size(); ++i) out["scores"][exits_.labels[i]] = text.answer.probabilities.at(i);
  out["exit_layer"] = text.answer.layer;
  out["layers_run"] = text.answer.layers_run;
  if (was_forced(text.answer.stop_reason)) out["covered"] = false;  // by the promise
  return out.dump() + "\n";
}

std::vector<std::string> AnswerLines::fields_of(const Prediction& text) const {
  const Answer& answer = text.answer;
  std::vector<std::string> fields{fmt::format("{}", text.index)};
  fields.insert(fields.end(), text.kept.begin(), text.kept.end());
  if (text.blank) {
    fields.resize(columns().size());
    return fields;
  }
  fields.push_back(answer_text(exits_, answer.logits, {.separator = "|", .value = "{:.6g}"}));
  if (exits_.problem != Problem::regression) {
    std::vector<std::string> scores;
    for (const int label : labels_of(exits_, answer.logits))
      scores.push_back(fmt::format("{:.6f}", answer.probabilities.at(static_cast<size_t>(label))));
    fields.push_back(fmt::format("{}", fmt::join(scores, "|")));
  }
  fields.push_back(fmt::format("{}", answer.layer));
  fields.push_back(fmt::format("{}", answer.layers_run));
  return fields;
}

std::string AnswerLines::line(const Prediction& text) const {
  switch (form_) {
    case AnswerForm::jsonl:
      return json_line(text);
    case AnswerForm::glue:
      return fmt::format("{}\t{}\n", text.index, label_of(text));
    case AnswerForm::elue:
      return fmt::format("{}\t{}\t{}\n", text.index, label_of(text),
                         modules_run(modules_, hidden_, text.answer.tokens, text.answer.layer));
    case AnswerForm::tsv:
    case AnswerForm::csv:
      break;
  }
  return joined(fields_of(text));
}

}  // namespace exeunt
