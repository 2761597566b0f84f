// SPDX-License-Identifier: Apache-2.0
// A whole job of `exeunt predict`: the texts of a file or of a task's split, answered and written as lines.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/data/text_stream.h"
#include "exeunt/engine/classifier.h"
#include "exeunt/eval/measure.h"
#include "exeunt/predict/answer_lines.h"
#include "exeunt/predict/predict.h"

namespace exeunt {

struct PredictJob {
  std::string model = {};
  ClassifierOptions classifier = {};
  std::string file = "-";               // texts; - = standard input
  std::vector<std::string> texts = {};  // these instead of the file
  TextColumns columns = {};
  DataSource data = {};  // with a task: its split instead of the file; its list of labels renames the model's outputs
  bool strict = false;   // reject texts that are too long or blank instead of truncating them or passing them over
  AnswerForm form = AnswerForm::tsv;
  std::string keep_if = {};         // writes answers that are so (keep_if.h) alone; empty: all
  std::optional<Shard> shard = {};  // this part of the rows, in the format that merge_shards() reads
};

struct PredictSummary {
  PredictCounts counts = {};
  int64_t written = 0;  // answers, and blanks where all are
  int layers = 0;       // of the model
  int max_length = 0;
};

// Hands out nothing before the first text is answered. Throws Error.
PredictSummary run_predict_job(const PredictJob& job, const std::function<void(std::string_view)>& sink,
                               const Observer& observer);

}  // namespace exeunt
