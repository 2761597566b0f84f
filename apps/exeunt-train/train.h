// SPDX-License-Identifier: Apache-2.0
// `exeunt train`: flags become a job and a plan; the rest is exeunt/train.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/base/json.h"
#include "exeunt/train/inputs.h"
#include "exeunt/train/run.h"
#include "exeunt/train/stage_plan.h"

namespace exeunt::apps {

// Settings that the config.json of a model names for a recipe, and notices on those it names in vain.
struct ModelSettings {
  std::vector<std::string> set = {};  // FIELD=VALUE of the recipe, as for --set
  std::vector<std::string> notices = {};
};
using ModelSettingsOf = std::function<ModelSettings(const std::string& recipe, const Checkpoint& model)>;

// `recipe` is requested_recipe() of the flags, whose mistakes are found before any file is read. `settings_of` may be
// empty.
void train_by_flags(const Common& common, const Recipe& recipe, const TrainFlags& flags,
                    const ModelSettingsOf& settings_of);

// How a training ends: the trained model is certified on the engine that will serve it, as `exeunt calibrate` does
// it, on the certification split.
struct Certification {
  std::string model = {};               // the folder that was trained
  std::optional<double> max_drop = {};  // none: the smaller of 2 and 5 % that the rows suffice for
  bool skip = false;                    // leave it to the user
  std::string thresholds = {};          // of several labels: "fit", or as parse_thresholds() takes them
  bool exit_0 = true;                   // an exit before the first layer, where it pays
  int threads = 0;
  std::string data = {};     // the file that was trained on,
  UserColumns columns = {};  // and its columns, for the commands that are named to the user
  size_t rows = 0;           // of the certification split
  double split = 0;          // its share of all rows
};

// Refuses --thresholds, before anything is trained, that 'exeunt calibrate' would not take. Throws Error (usage).
void require_thresholds_fit(const Certification& what, const OutputSpec& outcome);

// The trained model with an exit before the first layer, where the evaluation rows say that it pays; as it is where it
// has one exit: certify_trained() attaches others to it.
[[nodiscard]] Checkpoint with_exit_0(const Certification& what, const Checkpoint& trained, const TracedRows& train,
                                     const TracedRows& eval);

// Certifies, and says what is next; where rows are too few, only that. Prints as `exeunt calibrate` does, or with
// --json returns what that prints. A certificate that fails is a notice: the model is trained all the same.
OrderedJson certify_trained(const Common& common, const Certification& what);

// What a training works on. Made from the flags, which nothing behind it reads.
struct TrainJob {
  std::string model_name, data_name, out;
  Checkpoint model;
  LoadedData loaded;
  Certification certification;
  bool dry_run = false;
};
// Model and folder that the flags leave open are filled in. Throws Error.
[[nodiscard]] TrainJob open_job(const Common& common, const TrainFlags& flags);

// Set by SIGTERM and the first Ctrl-C, for a run to save a checkpoint and end; a second Ctrl-C ends it at once.
[[nodiscard]] const std::atomic<bool>* stop_on_signals();

// How a plan is run. SIGTERM and the first Ctrl-C end it at the next step. `common` outlives the options.
[[nodiscard]] TrainOptions options_for(const Common& common, const TrainJob& job, const TrainPlan& plan);

// What a run is about to do, in a few lines for the user.

// "2280 train, 300 validation, 600 certification (held-out.csv)".
[[nodiscard]] std::string split_text(const LoadedData& loaded);

// A line for each source of values, what the user chose first: "values", "flag: lr 0.0005, epochs 8".
using NamesAndTexts = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] NamesAndTexts value_rows(const TrainPlan& plan);

// "data default for a narrow model (hidden size 16): lr 0.0005, epochs 8"; empty where no value follows model and data.
[[nodiscard]] std::string data_defaults_text(const TrainPlan& plan);

// Model, data, recipe, values, steps, device and where it all goes.
[[nodiscard]] NamesAndTexts summary_of(const TrainJob& job, const TrainPlan& plan, const RunStart& start);

}  // namespace exeunt::apps
