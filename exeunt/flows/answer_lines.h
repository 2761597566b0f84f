// SPDX-License-Identifier: Apache-2.0
// Answers as lines of text: a table, JSON, or what the servers of GLUE and ELUE read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/flows/predict.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/tasks/submission.h"

namespace exeunt {

//   tsv    index, label, score (its probability), exit_layer, layers_run; regression: value for label and score
//   jsonl  {"index", "label", "scores": {label: probability}, "exit_layer", "layers_run"}; regression: "value"
//   glue   index, prediction
//   elue   index, pred, modules: what each text ran, with input shapes
enum class AnswerForm { tsv, jsonl, glue, elue };
[[nodiscard]] std::optional<AnswerForm> answer_form_named(std::string_view name) noexcept;
[[nodiscard]] std::string_view name_of(AnswerForm form) noexcept;

class AnswerLines {
 public:
  // `policy` names the exits that are evaluated, `labels` the outputs. The checkpoint need not outlive the constructor.
  AnswerLines(AnswerForm form, const Checkpoint& model, const Policy& policy, std::vector<std::string> labels);

  [[nodiscard]] std::string head() const;                        // the first line with its end; empty: none
  [[nodiscard]] std::string line(const Prediction& text) const;  // one line with its end

 private:
  [[nodiscard]] std::string label_of(const Prediction& text) const;
  [[nodiscard]] std::string json_line(const Prediction& text) const;

  AnswerForm form_;
  ExitLayout exits_;
  ElueRun run_ = {};  // without texts: what elue_modules() must know of the model
};

}  // namespace exeunt
