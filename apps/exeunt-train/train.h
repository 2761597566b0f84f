// SPDX-License-Identifier: Apache-2.0
// `exeunt train`: flags become a job and a plan; the rest is exeunt/train.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "apps/exeunt-train/certify_trained.h"
#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/train/run.h"

namespace exeunt::apps {

// Settings that the config.json of a model names for a recipe, and notices on those it names in vain.
struct ModelSettings {
  std::vector<std::string> set = {};  // FIELD=VALUE of the recipe, as for --set
  std::vector<std::string> notices = {};
};
using ModelSettingsOf = std::function<ModelSettings(const std::string& recipe, const Checkpoint& model)>;

void add_train_verbs(CommandLine& line, const ModelSettingsOf& settings_of);

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

}  // namespace exeunt::apps
