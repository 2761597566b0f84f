// SPDX-License-Identifier: Apache-2.0
#include "lab/cli/auto_flags.h"

#include <memory>

#include <fmt/format.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/field_flags.h"
#include "exeunt/model/spec.h"

namespace exeunt::apps {

std::shared_ptr<const AutoFlags> add_auto_flags(CLI::App& verb) {
  const OptionGroup group(verb, "With --recipe auto, which compares recipes and keeps the best");
  const auto flags = std::make_shared<AutoFlags>();
  verb.add_option_function<std::string>(
      "--try", [flags](const std::string& text) { flags->try_recipes = text; },
      fmt::format("Recipes to compare, comma-separated (default {})", kAutoRecipes));
  verb.add_option_function<std::string>(
      "--target-speedup", [flags](const std::string& text) { flags->target_speedup = text; },
      fmt::format("Keep the most accurate at this speed-up in layers; else --max-drop (default {}) is the loss to "
                  "compare by",
                  kAutoDrop));
  return flags;
}

void add_pretrain_verb(CommandLine& line, std::function<void(const PretrainFlags&)> run) {
  const auto flags = std::make_shared<PretrainFlags>();
  CLI::App* verb =
      add_verb(line, "pretrain", "Pretrain a backbone on plain text, with two tasks at every exit, as ElasticBERT was",
               {"exeunt pretrain --model bert-base --data wiki.txt --out runs/wiki --precision bf16",
                "exeunt pretrain --model bert-base --scratch --layers 6 --hidden 384 --heads 6 --inner 1536 --data "
                "wiki.txt --out runs/small",
                "exeunt pretrain --model bert-base --data wiki.txt --out runs/wiki --precision bf16 --resume"},
               [flags, run = std::move(run)] { run(*flags); });
  verb->add_option("--model", flags->model,
                   "Model to continue from: a folder, or org/name in the local Hugging Face cache")
      ->required();
  verb->add_option("--data", flags->data,
                   "Text files: a paragraph per line, a blank line between documents; repeatable")
      ->required();
  verb->add_option("--out", flags->out, "Folder of the run; the backbone is written to its subfolder model")
      ->required();
  verb->add_flag("--scratch", flags->scratch, "Random weights: of the model only shape and tokenizer are used");
  const auto size = [&](const char* name, int& value, const char* help, int most) {
    verb->add_option(name, value, help)->check(number_in(1, most))->group("With --scratch (default: the model's)");
  };
  size("--layers", flags->layers, "Layers", kMaxLayers);
  size("--hidden", flags->hidden, "Hidden size", kMaxHidden);
  size("--heads", flags->heads, "Attention heads", kMaxHidden);
  size("--inner", flags->inner, "Feed-forward size", kMaxInner);
  add_field_flags<PretrainSettings>(*verb, *flags);
}

}  // namespace exeunt::apps
