// SPDX-License-Identifier: Apache-2.0
// How ELBERT's config.json steers training, and the statistics of its DataWriter: loss, entropy, class-0 probability
// and correctness of every text at every exit, as arrays and as summary tables, for all texts and for those that exited
// there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/policy/policy.h"
#include "exeunt/policy/replay.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// Writes, per quantity Q of loss, entropy, logits, is_right and per M of all, exit: Q_M_eval.npy [rows, exits] and
// Q_info_M_eval.csv; cnt_info__exit_eval.csv and info__exit_eval.json. In the "exit" arrays a text has a number only
// where it left, and NaN elsewhere. For a window also cnt_info__stage_eval.csv: how many texts left by which of its two
// stages. Throws Error (usage) if the trace has no gold or is of a multi-label model.
void write_elbert_stats(const std::filesystem::path& folder, const ExitTrace& trace, const PolicySpec& policy,
                        const Departures& departures);

// Texts that left by the entropy, by the window, and by neither at the last exit.
struct StageCounts {
  int64_t entropy = 0, window = 0, last = 0;
};
[[nodiscard]] StageCounts stage_counts(const ExitTrace& trace, const PolicySpec& window, const Departures& departures);

// count, mean, sample deviation, minimum, quartiles and maximum of the numbers among `values`, as pandas' describe();
// NaN if there are none.
struct Summary {
  double count = 0, mean = 0, deviation = 0, low = 0, first = 0, middle = 0, third = 0, high = 0;
};
[[nodiscard]] Summary summarise(std::vector<double> values);

struct ElbertTraining {
  std::vector<std::string> set = {};      // FIELD=VALUE of the recipe, as for --set
  std::vector<std::string> notices = {};  // one line for each field that is not followed
};

// Of a config.json without ELBERT's fields: nothing. Throws Error (bad_file) for a value that ELBERT could not use.
[[nodiscard]] ElbertTraining elbert_training(const Json& config, const std::string& where);

// What the config.json of a model folder changes in a recipe: one of ELBERT's, and its objective in `elbert` alone.
[[nodiscard]] ElbertTraining elbert_settings(const std::string& recipe, const std::filesystem::path& folder);

}  // namespace exeunt
