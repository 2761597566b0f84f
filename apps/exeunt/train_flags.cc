// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/train_flags.h"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace exeunt::apps {
namespace {

void add_data_part(CLI::App& verb, TrainFlags& flags) {
  constexpr const char* kGroup = kDataGroup;
  verb.add_option("--task", flags.task, "GLUE or ELUE task; its train split is learned, its dev split evaluated")
      ->group(kGroup);
  verb.add_option("--data", flags.data, "With --task the data folder, else a CSV, TSV or JSONL file")->group(kGroup);
  verb.add_option("--eval-data", flags.eval_data, "Own file to evaluate on")->group(kGroup);
  verb.add_option(
          "--hold-out", flags.hold_out,
          "Own file without --eval-data: share of its rows that are not learned; a third is evaluated, the rest "
          "kept in the run for 'exeunt calibrate'; 0 = none")
      ->type_name("SHARE")
      ->capture_default_str()
      ->group(kGroup);
  add_column_flags(verb, flags.columns);
  verb.add_option("--train-features", flags.train_features, "File of 'exeunt prepare' instead of texts")->group(kGroup);
  verb.add_option("--eval-features", flags.eval_features, "The same for evaluation")->group(kGroup);
  verb.add_option("--also", flags.also, "More features to evaluate at the end, under this name")->group(kGroup);
  verb.add_option("--limit", flags.limit, "Take the first N training rows")->check(CLI::PositiveNumber)->group(kGroup);
  verb.add_option("--max-length", flags.max_length, "Most tokens of a text; longer ones are cut")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->group(kGroup);
}

void add_recipe_part(CLI::App& verb, TrainFlags& flags) {
  constexpr const char* kGroup = "Recipe (left out: the recipe's own)";
  verb.add_option("--lr", flags.lr, "Learning rate")->check(CLI::NonNegativeNumber)->group(kGroup);
  verb.add_option("--head-lr", flags.head_lr, "Rate of the heads, times --lr")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup);
  verb.add_option("--layer-lr", flags.layer_lr, "Rate of a layer over that of the layer above it")
      ->check(CLI::PositiveNumber)
      ->group(kGroup);
  verb.add_option("--epochs", flags.epochs, "Epochs of each stage")->check(CLI::NonNegativeNumber)->group(kGroup);
  verb.add_option("--batch", flags.batch, "Texts in a batch")->check(CLI::Range(1, 1 << 20))->group(kGroup);
  verb.add_option("--weight-decay", flags.weight_decay, "Weight decay")->check(CLI::NonNegativeNumber)->group(kGroup);
  verb.add_option("--warmup", flags.warmup, "Share of the steps in which the rate rises, 0 to 1")
      ->check(CLI::Range(0.0, 1.0))
      ->group(kGroup);
  verb.add_option("--clip", flags.clip, "Largest norm of the gradients; 0 = no limit")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup);
  verb.add_option("--temperature", flags.temperature, "Temperature of a distillation")
      ->check(CLI::PositiveNumber)
      ->group(kGroup);
  verb.add_option("--learned-lr", flags.learned_lr, "Rate of learned loss weights")->group(kGroup);
  verb.add_option("--learned-init", flags.learned_init, "Start of learned loss weights")->group(kGroup);
  verb.add_option("--eval-every", flags.eval_every, "Evaluate all exits each N steps; 0 = at the end")
      ->check(CLI::NonNegativeNumber)
      ->group(kGroup);
  verb.add_option("--early-stop", flags.early_stop, "End a stage after N evaluations without a better score")
      ->check(CLI::PositiveNumber)
      ->group(kGroup);
  verb.add_option("--keep-best", flags.keep_best, "Keep the weights of the best evaluation: last exit, or mean of all")
      ->check(CLI::IsMember({"last", "mean"}))
      ->group(kGroup);
  verb.add_option("--set", flags.set, "Any field of the recipe, e.g. heads.pooler=shared")->group(kGroup);
  verb.add_option("--preset", flags.preset, "'reference': one setting for all recipes, for comparisons")
      ->check(CLI::IsMember({"reference"}))
      ->group(kGroup);
  verb.add_flag("--as-written", flags.as_written,
                "Keep the recipe's rates and epochs on a model less than 256 wide, which else learns faster and longer")
      ->group(kGroup);
}

void add_run_part(CLI::App& verb, TrainFlags& flags) {
  verb.add_option("--layers", flags.layers, "Train the first N layers of the model alone")->check(CLI::PositiveNumber);
  verb.add_option("--seed", flags.seed, "Seed; left out: the recipe's");
  verb.add_option("--max-steps", flags.max_steps, "Steps of each stage, instead of epochs")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--warmup-steps", flags.warmup_steps, "Steps in which the rate rises, instead of a share")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--adam-epsilon", flags.adam_epsilon, "AdamW's epsilon")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb.add_option("--accumulation", flags.accumulation, "Batches gathered for one step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb.add_option("--window", flags.window, "Batches sorted by length together; 0 = plain shuffling")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--log-every", flags.log_every, "Steps between two lines of log.jsonl; 0 = none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--save-every", flags.save_every, "Steps between two checkpoints; 0 = none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--keep-checkpoints", flags.keep_checkpoints, "Checkpoints to keep; 0 = all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_flag("--trace", flags.trace,
                "Keep every exit's logits on what is evaluated at the end: trace-NAME.safetensors");
  verb.add_flag("--resume", flags.resume, "Go on from the newest whole checkpoint in --out");
  verb.add_flag("--overwrite", flags.overwrite, "Replace an earlier run in --out");
  verb.add_option("--device", flags.device, "Where to train")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  verb.add_option("--precision", flags.precision, "fp32, or bf16 on CUDA")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  verb.add_flag("--no-cuda-graphs", flags.no_graphs, "On CUDA: launch each operation by itself, for comparison");
  verb.add_option("--threads", flags.threads, "Threads on the CPU; 0 = as many as LibTorch chooses")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

void add_auto_part(CLI::App& verb, TrainFlags& flags) {
  constexpr const char* kGroup = "With --recipe auto";
  verb.add_option("--try", flags.try_recipes, fmt::format("Recipes to compare, with commas (default {})", kAutoRecipes))
      ->type_name("LIST")
      ->group(kGroup);
  verb.add_option("--target-speedup", flags.target_speedup, "Keep the best at this many times fewer layers")
      ->type_name("3x")
      ->group(kGroup);
  verb.add_option("--max-drop", flags.max_drop,
                  fmt::format("Keep the fastest that loses at most this share (default {})", kAutoDrop))
      ->type_name("SHARE")
      ->group(kGroup);
  verb.add_flag("--dry-run", flags.dry_run, "Say what would be trained and how long it takes, and end")->group(kGroup);
}

}  // namespace

const std::vector<std::string>& shipped_recipes() {
  static const std::vector<std::string> names{
      "berxit",       "deebert", "deebert-sd", "elasticbert", "elasticbert-static", "elbert",
      "elbert-equal", "exeunt",  "pabee",      "plain",       "romebert",           "romebert-sd"};
  return names;
}

void add_train_flags(CLI::App& verb, TrainFlags& flags) {
  add_data_part(verb, flags);
  verb.add_option(
          "--recipe", flags.recipe,
          fmt::format("One of {}, auto to compare some of them, or a JSON file", fmt::join(shipped_recipes(), ", ")))
      ->capture_default_str();
  verb.add_option(
      "--model", flags.model,
      "Model to start from: a folder, or org/name in the local Hugging Face cache; left out: "
      "$EXEUNT_MODEL, else MiniLM where 'make demo' has brought it, else tiny-en, which comes with the program");
  verb.add_option("--out", flags.out,
                  "Folder of the run; the trained model lies in it at the end; left out: runs/ and the data's name");
  add_run_part(verb, flags);
  add_recipe_part(verb, flags);
  add_auto_part(verb, flags);
}

void add_train_verb(CommandLine& line, std::function<void(const TrainFlags&)> run) {
  const auto flags = std::make_shared<TrainFlags>();
  CLI::App* verb =
      add_verb(line, "train", "Train a model with a recipe, ours or a paper's",
               {"exeunt train --data my.csv --text-column body --label-column topic",
                "exeunt train --model bert-base --task SST-2 --data glue_data --out runs/sst2",
                "exeunt train --recipe pabee --model albert-base --task RTE --data glue_data --out runs/rte --epochs 5",
                "exeunt train --model bert-base --data mine.csv --eval-data dev.csv --out runs/mine",
                "exeunt train --recipe auto --model bert-base --data mine.csv --out runs/mine --target-speedup 3x",
                "exeunt train --model bert-base --task SST-2 --data glue_data --out runs/sst2 --resume"},
               [flags, run = std::move(run)] { run(*flags); });
  add_train_flags(*verb, *flags);
}

}  // namespace exeunt::apps
