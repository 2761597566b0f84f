// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/answer_lines.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/eval/sweep_table.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 5> kForms = {"tsv", "csv", "jsonl", "glue", "elue"};
constexpr std::array<std::string_view, 8> kOurs = {"index",  "label",      "labels",     "score",
                                                   "scores", "exit_layer", "layers_run", "value"};

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

std::optional<AnswerForm> answer_form_of(std::string_view path) noexcept {
  if (path.ends_with(".csv")) return AnswerForm::csv;
  if (path.ends_with(".tsv")) return AnswerForm::tsv;
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return AnswerForm::jsonl;
  return std::nullopt;
}

std::string modules_run(const std::vector<ExitModule>& exits, int hidden, int tokens, int layer) {
  std::string out = fmt::format("({}),emb", tokens);
  auto exit = exits.begin();
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
  if (exits_.problem == Problem::regression) {
    names.emplace_back("value");
  } else if (exits_.problem == Problem::multi_label) {
    names.insert(names.end(), {"labels", "scores"});
  } else {
    names.insert(names.end(), {"label", "score"});
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

template <class TextOf>
std::string AnswerLines::given(const Answer& answer, TextOf&& text_of) const {
  std::string out;
  for (const int label : labels_of(exits_, answer.logits)) {
    if (!out.empty()) out += '|';
    out += text_of(static_cast<size_t>(label));
  }
  return out;
}

// The label's name; for a regression its value, held to the range of the labels where that is known.
std::string AnswerLines::label_of(const Prediction& text) const {
  const Evidence& evidence = text.answer.evidence;
  if (exits_.problem != Problem::regression)
    return plain_field(given(text.answer, [&](size_t label) { return exits_.labels.at(label); }));
  double value = evidence.value;
  if (exits_.range) value = std::clamp(value, exits_.range->first, exits_.range->second);
  return fmt::format("{:.3f}", value);
}

std::string AnswerLines::json_line(const Prediction& text) const {
  OrderedJson out;
  out["index"] = text.index;
  for (size_t i = 0; i < keep_.size(); ++i) out[keep_[i]] = text.kept.at(i);
  if (text.blank) {
    out[exits_.problem == Problem::regression    ? "value"
        : exits_.problem == Problem::multi_label ? "labels"
                                                 : "label"] = nullptr;
    return out.dump() + "\n";
  }
  if (exits_.problem == Problem::regression) {
    out["value"] = text.answer.evidence.value;
  } else {
    if (exits_.problem == Problem::multi_label) {
      out["labels"] = OrderedJson::array();
      for (const int label : labels_of(exits_, text.answer.logits))
        out["labels"].push_back(exits_.labels.at(static_cast<size_t>(label)));
    } else {
      out["label"] = exits_.labels.at(static_cast<size_t>(text.answer.evidence.label));
    }
    out["scores"] = OrderedJson::object();
    for (size_t i = 0; i < exits_.labels.size(); ++i) out["scores"][exits_.labels[i]] = text.answer.probabilities.at(i);
  }
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
  if (exits_.problem == Problem::regression) {
    fields.push_back(fmt::format("{:.6g}", answer.evidence.value));
  } else {
    fields.push_back(given(answer, [&](size_t label) { return exits_.labels.at(label); }));
    fields.push_back(
        given(answer, [&](size_t label) { return fmt::format("{:.6f}", answer.probabilities.at(label)); }));
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
