// SPDX-License-Identifier: Apache-2.0
// Answers as lines of text: a table, JSON, or what the servers of GLUE and ELUE read.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/predict/predict.h"

namespace exeunt {

//   tsv    index, label, score (its probability), exit_layer, layers_run; regression: value for label and score;
//          several labels: labels and their scores, with | between them
//   csv    the same, separated by commas
//   jsonl  {"index", "label", "scores": {label: probability}, "exit_layer", "layers_run"}; regression: "value"; several
//          labels: "labels": [label, …]
//   glue   index, prediction
//   elue   index, pred, modules: what each text ran, with input shapes
// Columns of the source that are kept stand behind the index in the first three; one with the name of an answer's
// column becomes input_NAME. A text that was blank has empty columns, null in JSON.
enum class AnswerForm { tsv, csv, jsonl, glue, elue };
constexpr std::array<std::string_view, 5> names_of(AnswerForm) noexcept {
  return {"tsv", "csv", "jsonl", "glue", "elue"};
}
// What a file's ending asks for: .csv, .tsv, .jsonl or .ndjson; nothing for others.
[[nodiscard]] std::optional<AnswerForm> answer_form_of(std::string_view path) noexcept;

// An evaluated exit: after which layer (0: before the first), and whether it reads all rows (a reader, a mean or max
// pool) or row 0.
struct ExitModule {
  int after = 0;
  bool reads_all_rows = false;
};

// What a text of `tokens` ran that left after `layer`, one of the exits, which ascend; each module with its input
// shape: "(10),emb; (10,768),layer_1; (768),exit_1". An exit that reads all rows is "(10,768),exit_1", one
// before the first layer, which reads the tokens, "(10),exit_0" before all others.
[[nodiscard]] std::string modules_run(const std::vector<ExitModule>& exits, int hidden, int tokens, int layer);

class AnswerLines {
 public:
  // `policy` names the exits that are evaluated, `labels` the outputs, `keep` columns of the source. The checkpoint
  // need not outlive the constructor.
  AnswerLines(AnswerForm form, const Checkpoint& model, const Policy& policy, std::vector<std::string> labels,
              std::vector<std::string> keep = {});

  [[nodiscard]] std::string head() const;                        // the first line with its end; empty: none
  [[nodiscard]] std::string line(const Prediction& text) const;  // one line with its end

 private:
  [[nodiscard]] std::string label_of(const Prediction& text) const;
  [[nodiscard]] std::string json_line(const Prediction& text) const;
  [[nodiscard]] std::vector<std::string> columns() const;  // of a table
  [[nodiscard]] std::vector<std::string> fields_of(const Prediction& text) const;
  [[nodiscard]] std::string joined(const std::vector<std::string>& fields) const;

  AnswerForm form_;
  std::vector<std::string> keep_;  // the names under which columns are handed on
  ExitLayout exits_;
  std::vector<ExitModule> modules_ = {};  // the evaluated exits
  int hidden_ = 0;
};

}  // namespace exeunt
