// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/command.h"
#include "apps/exeunt/launch.h"
#include "apps/exeunt/trainer.h"

namespace exeunt::apps {
namespace {

// Puts the verbs added since the last call under this title in the list of verbs.
void end_group(CommandLine& line, const char* title) {
  for (CLI::App* verb : line.app.get_subcommands([](CLI::App*) { return true; })) {
    if (verb->get_group() == "Subcommands") verb->group(title);
  }
}

}  // namespace

void add_all_verbs(CommandLine& line) {
  add_attach(line);
  add_info(line);
  add_convert(line);
  add_export(line);
  add_tokenize(line);
  end_group(line, "Models");
  add_data(line);
  add_prepare(line);
  add_train(line);
  add_launch(line);
  end_group(line, "Training");
  add_trace(line);
  add_eval(line);
  add_sweep(line);
  end_group(line, "Evaluation");
  add_recommend(line);
  add_calibrate(line);
  add_policy(line);
  add_quantize(line);
  end_group(line, "Exit policies");
  add_predict(line);
  add_merge(line);
  add_serve(line);
  end_group(line, "Inference");
  add_doctor(line);
  add_bench(line);
  add_completion(line);
  add_help(line);
  end_group(line, "Utilities");
}

}  // namespace exeunt::apps
