// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/command.h"
#include "apps/exeunt/launch.h"
#include "apps/exeunt/serve.h"
#include "apps/exeunt/trainer.h"

namespace exeunt::apps {

void add_all_verbs(CommandLine& line) {
  add_info(line);
  add_convert(line);
  add_tokenize(line);
  add_data(line);
  add_prepare(line);
  add_train(line);
  add_launch(line);
  add_trace(line);
  add_eval(line);
  add_sweep(line);
  add_calibrate(line);
  add_policy(line);
  add_report(line);
  add_submit(line);
  add_serve(line);
  add_predict(line);
  add_merge(line);
  add_bench(line);
  add_quantize(line);
}

}  // namespace exeunt::apps
