// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/train_flags.h"

#include <map>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/train/recipe.h"

namespace exeunt::apps {
namespace {

void add_data_part(CLI::App& verb, TrainFlags& flags) {
  constexpr const char* kGroup = "Data";
  verb.add_option("--task", flags.task, "GLUE or ELUE task; its train split is learned, its dev split evaluated")
      ->group(kGroup);
  verb.add_option("--data", flags.data, "With --task the data folder, else a CSV, TSV or JSONL file")->group(kGroup);
  verb.add_option("--eval-data", flags.eval_data, "Own file to evaluate on")->group(kGroup);
  verb.add_option("--text-column", flags.columns.text, "Own file: column of the text")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--pair-column", flags.columns.pair, "Own file: column of the second text")->group(kGroup);
  verb.add_option("--label-column", flags.columns.label, "Own file: column of the label")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--labels", flags.labels, "Own file: label names in index order, with commas")->group(kGroup);
  verb.add_flag("--regression", flags.regression, "Own file: labels are numbers to predict")->group(kGroup);
  verb.add_option("--train-features", flags.train_features, "File of 'exeunt prepare' instead of texts")->group(kGroup);
  verb.add_option("--eval-features", flags.eval_features, "The same for evaluation")->group(kGroup);
  verb.add_option("--also", flags.also, "NAME=FILE: more features to evaluate at the end, under this name")
      ->group(kGroup);
  verb.add_option("--limit", flags.limit, "Take the first N training rows")->check(CLI::PositiveNumber)->group(kGroup);
  verb.add_option("--max-length", flags.max_length, "Most tokens of a text; longer ones are cut")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->group(kGroup);
}

void add_recipe_part(CLI::App& verb, TrainFlags& flags) {
  constexpr const char* kGroup = "Recipe (left out: the recipe's own)";
  verb.add_option("--lr", flags.lr, "Learning rate")->group(kGroup);
  verb.add_option("--head-lr", flags.head_lr, "Rate of the heads, times --lr")->group(kGroup);
  verb.add_option("--epochs", flags.epochs, "Epochs of each stage")->group(kGroup);
  verb.add_option("--batch", flags.batch, "Texts in a batch")->group(kGroup);
  verb.add_option("--weight-decay", flags.weight_decay, "Weight decay")->group(kGroup);
  verb.add_option("--warmup", flags.warmup, "Share of the steps in which the rate rises")->group(kGroup);
  verb.add_option("--clip", flags.clip, "Largest norm of the gradients; 0 = no limit")->group(kGroup);
  verb.add_option("--temperature", flags.temperature, "Temperature of a distillation")->group(kGroup);
  verb.add_option("--learned-lr", flags.learned_lr, "Rate of learned loss weights")->group(kGroup);
  verb.add_option("--learned-init", flags.learned_init, "Start of learned loss weights")->group(kGroup);
  verb.add_option("--eval-every", flags.eval_every, "Evaluate all exits each N steps; 0 = at the end")->group(kGroup);
  verb.add_option("--early-stop", flags.early_stop, "End a stage after N evaluations without a better score")
      ->group(kGroup);
  verb.add_option("--keep-best", flags.keep_best, "Keep the weights of the best evaluation: last exit, or mean of all")
      ->check(CLI::IsMember({"last", "mean"}))
      ->group(kGroup);
  verb.add_option("--set", flags.set, "Any field of the recipe, e.g. heads.pooler=shared")->group(kGroup);
  verb.add_option("--preset", flags.preset, "'reference': one setting for all recipes, for comparisons")
      ->check(CLI::IsMember({"reference"}))
      ->group(kGroup);
}

void add_run_part(CLI::App& verb, TrainFlags& flags) {
  verb.add_option("--layers", flags.layers, "Train the first K layers of the model alone")->check(CLI::PositiveNumber);
  verb.add_option("--seed", flags.seed, "Seed; left out: the recipe's");
  verb.add_option("--max-steps", flags.max_steps, "Steps of each stage, instead of epochs");
  verb.add_option("--warmup-steps", flags.warmup_steps, "Steps in which the rate rises, instead of a share");
  verb.add_option("--adam-epsilon", flags.adam_epsilon, "AdamW's epsilon")->capture_default_str();
  verb.add_option("--accumulation", flags.accumulation, "Batches gathered for one step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb.add_option("--window", flags.window, "Batches sorted by length together; 0 = plain shuffling")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb.add_option("--log-every", flags.log_every, "Steps between two lines of log.jsonl")->capture_default_str();
  verb.add_option("--save-every", flags.save_every, "Steps between two checkpoints; 0 = none")->capture_default_str();
  verb.add_option("--keep-checkpoints", flags.keep_checkpoints, "Checkpoints to keep; 0 = all")->capture_default_str();
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
  verb.add_option("--threads", flags.threads, "Threads on the CPU; 0 = as many as the machine has")
      ->capture_default_str();
}

// A value as JSON if it reads as JSON, else as a string: --set heads.lte=true, --set policy=full.
Json value_of(const std::string& text) {
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

// "stages.0.objective.gamma=0.5". What the path names need not exist: reading the recipe judges the result.
void set_field(Json& recipe, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Code::usage, fmt::format("--set: got '{}', want FIELD=VALUE, e.g. heads.pooler=shared", assignment));
  }
  std::string pointer = "/";
  for (const char c : assignment.substr(0, equals)) pointer += c == '.' ? std::string("/") : std::string(1, c);
  try {
    recipe[Json::json_pointer(pointer)] = value_of(assignment.substr(equals + 1));
  } catch (const Json::exception&) {
    throw Error(Code::usage, fmt::format("--set: the recipe has no place '{}'", assignment.substr(0, equals)));
  }
}

}  // namespace

void add_train_flags(CLI::App& verb, TrainFlags& flags) {
  verb.add_option("--recipe", flags.recipe, fmt::format("One of {}, or a JSON file", fmt::join(recipe_names(), ", ")))
      ->capture_default_str();
  verb.add_option("--model", flags.model, "Model to start from: a folder, or org/name in the local Hugging Face cache")
      ->required();
  verb.add_option("--out", flags.out, "Folder of the run; the trained model lies in it at the end")->required();
  add_data_part(verb, flags);
  add_recipe_part(verb, flags);
  add_run_part(verb, flags);
}

void apply_preset(TrainFlags& flags, const std::string& task, bool regression) {
  if (flags.preset.empty()) return;
  static const std::map<std::string, double> epochs{{"RTE", 8}, {"MRPC", 6}, {"CoLA", 5}, {"STS-B", 5}, {"SST-2", 2}};
  const auto found = epochs.find(task);
  const auto or_else = [](auto& flag, auto value) {
    if (!flag) flag = value;
  };
  if (found != epochs.end()) or_else(flags.epochs, found->second);
  or_else(flags.batch, 32);
  or_else(flags.lr, regression ? 2e-5 : 5e-5);
  or_else(flags.warmup, 0.06);
  or_else(flags.weight_decay, 0.0);
  or_else(flags.clip, 1.0);
  flags.set.insert(flags.set.begin(), {"compat.adamw=torch", "compat.dyn_grad=fresh"});
}

Json effective_recipe(const TrainFlags& flags, const std::string& task) {
  Json recipe = find_recipe(flags.recipe);
  const std::string where = task.empty() ? flags.recipe : fmt::format("{} on {}", flags.recipe, task);
  (void)parse_recipe(recipe, flags.recipe);  // judged before flags touch it, so that errors name the file's own slips
  for (Json& stage : recipe["stages"]) {
    const auto put = [&](const char* name, const auto& flag) {
      if (flag) stage[name] = *flag;
    };
    put("lr", flags.lr);
    put("head_lr", flags.head_lr);
    put("epochs", flags.epochs);
    put("batch", flags.batch);
    put("weight_decay", flags.weight_decay);
    put("warmup", flags.warmup);
    put("clip", flags.clip);
    put("eval_every", flags.eval_every);
    put("early_stop", flags.early_stop);
    put("keep_best", flags.keep_best);
    Json& objective = stage["objective"];
    const std::string kind = objective["kind"];
    if (flags.temperature && kind.starts_with("distill")) objective["temperature"] = *flags.temperature;
    if (flags.learned_lr && kind == "learned") objective["lr"] = *flags.learned_lr;
    if (flags.learned_init && kind == "learned") objective["init"] = *flags.learned_init;
  }
  for (const std::string& assignment : flags.set) set_field(recipe, assignment);
  (void)parse_recipe(recipe, where);
  return recipe;
}

}  // namespace exeunt::apps
