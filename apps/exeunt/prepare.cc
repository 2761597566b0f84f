// SPDX-License-Identifier: Apache-2.0
// `exeunt prepare`: a dataset as token ids in one file, so that a training machine needs neither texts nor tokenizer.
#include <algorithm>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/data/features.h"
#include "exeunt/data/inspect.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::apps {
namespace {

struct PrepareFlags {
  std::string model, out;
  DataSource data;
  int max_length = 128, threads = 0;
};

void run(const Common& common, const PrepareFlags& flags) {
  const Dataset data = load_data(flags.data);
  const Checkpoint model = Checkpoint::open(flags.model);
  for (const std::string& text : data.notices) notice(common, text);
  if (flags.data.task.empty())
    for (const std::string& text : warnings_of(inspect(data), data, DataUse::learn)) notice(common, text);
  const auto tokenizer = load_tokenizer(model.folder());
  const Features features = make_features(data, *tokenizer,
                                          {.max_length = std::min(flags.max_length, model.spec().max_tokens()),
                                           .threads = flags.threads,
                                           .tokenizer = tokenizer_sha256(model.folder())});
  write_features(flags.out, features);
  if (common.json) {
    OrderedJson out;
    out["out"] = flags.out;
    out["rows"] = features.rows();
    out["tokens"] = features.ids.size();
    out["truncated"] = features.truncated;
    return print_json(out);
  }
  fmt::print("wrote {}: {} texts, {} tokens, {} texts truncated to {} tokens\n", flags.out, features.rows(),
             features.ids.size(), features.truncated, features.info.max_length);
}

}  // namespace

void add_prepare(CommandLine& line) {
  const auto flags = std::make_shared<PrepareFlags>();
  CLI::App* verb =
      add_verb(line, "prepare", "Tokenize a dataset into a feature file for training",
               {"exeunt prepare models/bert --task SST-2 --data glue_data --split train --out train.safetensors",
                "exeunt train --model models/bert --train-features train.safetensors --out runs/sst2"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL", flags->model, "Model folder; its tokenizer is used")->required();
  add_data_flags(*verb, flags->data);
  verb->add_option("--out", flags->out, "Output feature file (safetensors)")->required();
  add_length_flag(*verb, flags->max_length);
  verb->get_option("--max-length")->capture_default_str();
  add_threads_flag(*verb, flags->threads);
}

}  // namespace exeunt::apps
