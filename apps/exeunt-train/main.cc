// SPDX-License-Identifier: Apache-2.0
// The trainer `exeunt-train`, which `exeunt train` starts.
#include <cstdlib>

#include "apps/exeunt-train/train.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/program.h"
#include "exeunt/base/files.h"
#include "exeunt/model/locate.h"

namespace exeunt::apps {
namespace {

// The config.json of some models names loss weights and exit rules to train with. The lab follows it.
bool names_settings(const std::filesystem::path& model) {
  const Json config = json_in(model, "config.json");
  return config.is_object() && (config.contains("weight_name") || config.contains("thres_name"));
}

void add_verbs(CommandLine& line) {
  // Asked by 'exeunt doctor'; people need not know it.
  add_verb(line, "about", "What this trainer was built with, as JSON", {}, [] {
    const TrainerAbout about = about_trainer();
    print_json({{"torch", about.torch}, {"gpus", about.gpus}, {"gloo", about.gloo}, {"nccl", about.nccl}});
  })->group("");
  add_train_verb(line, [&common = line.common, argv = line.argv](const TrainFlags& flags) {
    if (std::getenv(kStartedByLab) == nullptr && !flags.model.empty() && names_settings(model_folder(flags.model))) {
      become_lab(argv);
      notice(common, "config.json names settings of training, which only exeunt-lab follows");
    }
    train_by_flags(common, requested_recipe(flags.plan), flags, {});
  });
}

}  // namespace
}  // namespace exeunt::apps

int main(int argc, char** argv) {
  using namespace exeunt::apps;
  return guarded([&] {
    return run_program({.name = "exeunt",
                        .summary = "The part of Exeunt that trains models, with LibTorch.",
                        .add_verbs = add_verbs,
                        .argv = argv},
                       {argv + (argc > 0 ? 1 : 0), argv + argc});
  });
}
