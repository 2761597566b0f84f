// SPDX-License-Identifier: Apache-2.0
// `exeunt tensorboard`: the log of a run as TensorBoard's event file.
#include "lab/tensorflow/tensorboard.h"

#include <memory>

#include "apps/exeunt/output.h"
#include "lab/cli/verbs.h"

namespace exeunt::apps {

void add_tensorboard(CommandLine& line) {
  const auto runs = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = add_verb(line, "tensorboard", "Write the log of training runs as TensorBoard's event files",
                            {"exeunt tensorboard runs/my && tensorboard --logdir runs"}, [runs, &common = line.common] {
                              OrderedJson written = OrderedJson::array();
                              for (const std::string& run : *runs) {
                                written.push_back(write_events(run).string());
                                if (!common.json) fmt::print("wrote {}\n", written.back().get<std::string>());
                              }
                              if (common.json) print_json({{"out", written}});
                            });
  verb->add_option("RUN", *runs, "Folder of a run, finished or not: its log.jsonl is read")->required();
}

}  // namespace exeunt::apps
