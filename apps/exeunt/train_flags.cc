// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/train_flags.h"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt/field_flags.h"

namespace exeunt::apps {
namespace {

// A flag whose text becomes a number as it is parsed: nothing behind the flags reads texts.
template <class T, class Read>
CLI::Option* add_read_option(CLI::App& verb, const char* name, T& into, Read read, const std::string& help) {
  return verb.add_option_function<std::string>(
      name, [&into, name, read](const std::string& text) { into = read(text, name); }, help);
}

double share_or_none(const std::string& text, const char* flag) {
  return text == "0" ? 0 : share_of(text, flag);
}

void add_data_part(CLI::App& verb, TrainDataFlags& flags) {
  const OptionGroup group(verb, kDataGroup);
  verb.add_option("--task", flags.task, "GLUE or ELUE task: trains on its train split, evaluates on its dev split");
  verb.add_option("--data", flags.data, "With --task the data folder, else a CSV, TSV or JSONL file");
  verb.add_option("--eval-data", flags.eval_data, "Your file to evaluate on");
  add_read_option(
      verb, "--hold-out", flags.hold_out, share_or_none,
      "Your file without --eval-data: share of its rows that are not trained on; a third of it is the validation "
      "split, the rest the certification split for 'exeunt calibrate'; 0 = none")
      ->default_str("30%");
  add_column_flags(verb, flags.columns);
  add_cluster_flag(verb, flags.columns);
  verb.add_option("--train-features", flags.train_features, "File of 'exeunt prepare' instead of texts");
  verb.add_option("--eval-features", flags.eval_features, "The same, for evaluation");
  verb.add_option("--also", flags.also, "More features to evaluate on at the end, under this name");
  verb.add_option("--limit", flags.limit, "Use only the first N training rows")->check(positive());
  verb.add_option("--max-length", flags.max_length, "Maximum tokens per text; longer texts are truncated")
      ->check(number_in(1, 1 << 16))
      ->default_str("128; for your own file more where its texts are longer");
}

void add_recipe_part(CLI::App& verb, PlanRequest& flags) {
  const OptionGroup group(verb, "Recipe (default: the recipe's own value)");
  add_change_flags<StageSpec>(verb, flags.changes.stage);
  add_change_flags<ObjectiveSpec>(verb, flags.changes.objective);
  add_change_flags<Recipe>(verb, flags.changes.recipe);
  verb.add_option("--set", flags.changes.set, "Any field of the recipe, e.g. heads.pooler=shared");
  verb.add_option("--preset", flags.preset, "'reference': the same settings for all recipes, for comparisons")
      ->check(one_of({"reference"}));
  verb.add_flag("--as-written", flags.as_written,
                "Use the recipe's own values, without defaults for the model and the data");
}

}  // namespace

void add_train_flags(CLI::App& verb, TrainFlags& flags) {
  add_data_part(verb, flags.rows);
  verb.add_option("--recipe", flags.plan.recipe,
                  fmt::format("One of {}, or a JSON file", fmt::join(recipe_names(), ", ")))
      ->capture_default_str();
  verb.add_option(
      "--model", flags.model,
      "Model to start from: a folder, or org/name in the local Hugging Face cache (default: $EXEUNT_MODEL, else MiniLM "
      "if 'make demo' has fetched it, else the bundled tiny-en)");
  verb.add_option("--out", flags.out,
                  "Folder of the run and of the trained model (default: runs/ and the data's name)");
  verb.add_option("--layers", flags.layers, "Train only the first N layers of the model")->check(positive());
  add_read_option(verb, "--time-limit", flags.plan.time_limit, seconds_of,
                  "Time to train, e.g. 90s, 5min or 1h: fewer epochs if all of them would take longer on this machine");
  add_read_option(
      verb, "--max-drop", flags.certify.max_drop,
      [](const std::string& text, const char* flag) { return share_of(text, flag); },
      "Loss to certify at the end, on the certification split (default 2% or 5%, as its rows suffice)");
  verb.add_flag("--no-calibrate", flags.certify.no_calibrate, "Do not certify the model at the end");
  verb.add_flag("--no-exit0", flags.certify.no_exit_0, "Leave out the exit before the first layer");
  add_thresholds_flag(verb, flags.certify.thresholds)
      ->description(
          fmt::format("Several labels, as 'exeunt calibrate' takes it at the end: fit, or {}", kThresholdForms))
      ->default_str("0.5")
      ->excludes(verb.get_option("--no-calibrate"));
  verb.add_flag("--dry-run", flags.dry_run, "Print what would be trained and the estimated time, and stop");
  add_field_flags<TrainSettings>(verb, flags.plan);
  add_recipe_part(verb, flags.plan);
}

void add_train_verb(CommandLine& line, std::function<void(const TrainFlags&)> run) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* verb =
      add_verb(line, "train", "Train a model with a recipe, ours or a paper's",
               {"exeunt train --data my.csv --text-column body --label-column topic",
                "exeunt train --model bert-base --task SST-2 --data glue_data --out runs/sst2",
                "exeunt train --recipe pabee --model albert-base --task RTE --data glue_data --out runs/rte --epochs 5",
                "exeunt train --model bert-base --data mine.csv --eval-data dev.csv --out runs/mine",
                "exeunt train --model bert-base --task SST-2 --data glue_data --out runs/sst2 --resume"},
               [flags, run = std::move(run)] { run(*flags); });
  add_train_flags(*verb, *flags);
}

}  // namespace exeunt::apps
