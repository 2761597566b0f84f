// SPDX-License-Identifier: Apache-2.0
#include "exeunt/originals/flags.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

enum class OldFlag { renamed, bare, dropped, refused };  // bare: renamed, and takes no value now
using enum OldFlag;

struct OldFlagRow {
  std::string_view name;
  OldFlag kind;
  bool takes_value;
  std::string_view text;  // the current flags, or the reason
};

struct RenamedFlag {
  std::string_view old_name, new_name;
};
constexpr std::array<RenamedFlag, 7> kMeasuringFlags{{{"--form", "--output-format"},  // ours, until the next version
                                                      {"--task-name", "--task"},
                                                      {"--data-dir", "--data"},
                                                      {"--max-seq-length", "--max-length"},
                                                      {"--eval-all-checkpoints", "--all-checkpoints"},
                                                      {"--eval-each-highway", "--each-exit"},
                                                      {"--output-dir", "--out"}}};

constexpr std::string_view kAtTheEnd = "all exits are always evaluated at the end";
constexpr std::string_view kByFolder = "the model's folder says it";
constexpr std::string_view kNoHub = "no connection is opened; the trained model lies in --out";
constexpr std::string_view kTestSplit = "answer a test split with 'exeunt predict' or 'exeunt submit'";
constexpr std::string_view kWhen = "use --eval-every, --save-every and --log-every; all exits are evaluated at the end";
constexpr std::string_view kMeasure =
    "training does not exit early: measure policies with 'exeunt sweep' on the trained model";

// A flag's value, which may be the next word, or "True" or "False" after a flag that takes none. Goes on to that word.
std::string value_of(const OldFlagRow& row, const std::vector<std::string>& words, size_t& place) {
  const std::string& word = words[place];
  const size_t end = word.find('=');
  if (end != std::string::npos) return word.substr(end + 1);
  if (place + 1 == words.size()) return {};
  const std::string& next = words[place + 1];
  const bool truth = next == "True" || next == "true" || next == "False" || next == "false";
  return row.takes_value || truth ? words[++place] : std::string{};
}

bool is_false(const std::string& value) {
  return value == "False" || value == "false";
}

const std::vector<OldFlagRow>& training_flags() {
  static const std::vector<OldFlagRow> rows{
      {"--model-name-or-path", renamed, true, "--model"},
      {"--task-name", renamed, true, "--task"},
      {"--data-dir", renamed, true, "--data"},
      {"--output-dir", renamed, true, "--out"},
      {"--train-file", renamed, true, "--data"},
      {"--validation-file", renamed, true, "--eval-data"},
      {"--max-train-samples", renamed, true, "--limit"},
      {"--max-seq-length", renamed, true, "--max-length"},
      {"--per-gpu-train-batch-size", renamed, true, "--batch"},
      {"--per-device-train-batch-size", renamed, true, "--batch"},
      {"--gradient-accumulation-steps", renamed, true, "--accumulation"},
      {"--learning-rate", renamed, true, "--lr"},
      {"--max-grad-norm", renamed, true, "--clip"},
      {"--num-train-epochs", renamed, true, "--epochs"},
      {"--warmup-rate", renamed, true, "--warmup"},
      {"--warmup-ratio", renamed, true, "--warmup"},
      {"--logging-steps", renamed, true, "--log-every"},
      {"--save-steps", renamed, true, "--save-every"},
      {"--save-total-limit", renamed, true, "--keep-checkpoints"},
      {"--eval-steps", renamed, true, "--eval-every"},
      {"--early-stop-steps", renamed, true, "--early-stop"},
      {"--resume-from-checkpoint", bare, true, "--resume"},
      {"--load-best-model-at-end", bare, false, "--keep-best=last"},
      {"--overwrite-output-dir", bare, false, "--overwrite"},
      {"--no-cuda", bare, false, "--device=cpu"},
      {"--use-cpu", bare, false, "--device=cpu"},
      {"--bf16", bare, false, "--precision=bf16"},
      {"--num-hidden-layers", renamed, true, "--layers"},
      {"--temper", renamed, true, "--temperature"},
      {"--ge", bare, false, "--set=gradient.rule=logit_scale"},
      {"--gp", bare, false, "--set=gradient.rule=project"},
      {"--w-lr", renamed, true, "--learned-lr"},
      {"--w-init", renamed, true, "--learned-init"},
      {"--do-train", dropped, false, "'exeunt train' always trains"},
      {"--do-eval", dropped, false, kAtTheEnd},
      {"--evaluate-during-training", dropped, false, "use --eval-every N"},
      {"--eval-each-highway", dropped, false, kAtTheEnd},
      {"--eval-after-first-stage", dropped, false, "every stage is evaluated at its end"},
      {"--eval-highway", dropped, false, kAtTheEnd},
      {"--eval-all-checkpoints", dropped, false, "the log holds every evaluation"},
      {"--per-gpu-eval-batch-size", dropped, true, "the batch does not change what is measured"},
      {"--per-device-eval-batch-size", dropped, true, "the batch does not change what is measured"},
      {"--do-lower-case", dropped, false, "the tokenizer's files say it"},
      {"--model-type", dropped, true, kByFolder},
      {"--config-name", dropped, true, kByFolder},
      {"--tokenizer-name", dropped, true, kByFolder},
      {"--cache-dir", dropped, true, "nothing is downloaded"},
      {"--pad-to-max-length", dropped, false, "batches are padded to their longest text"},
      {"--use-fast-tokenizer", dropped, false, "there is one tokenizer"},
      {"--ignore-mismatched-sizes", dropped, false, "heads that do not fit the labels are replaced"},
      {"--eval-strategy", dropped, true, kWhen},
      {"--evaluation-strategy", dropped, true, kWhen},
      {"--save-strategy", dropped, true, kWhen},
      {"--logging-strategy", dropped, true, kWhen},
      {"--logging-dir", dropped, true, "TensorBoard's file lies in --out"},
      {"--report-to", dropped, true, "no connection is opened, and TensorBoard's file is always written"},
      {"--run-name", dropped, true, "a run is called as its folder, --out"},
      {"--push-to-hub", dropped, false, kNoHub},
      {"--hub-model-id", dropped, true, kNoHub},
      {"--hub-token", dropped, true, kNoHub},
      {"--token", dropped, true, kNoHub},
      {"--dataloader-num-workers", dropped, true, "texts are prepared before the first step"},
      {"--overwrite-cache", dropped, false, "features are bound to their data by hashes"},
      {"--plot-data-dir", dropped, true, "'exeunt sweep --npy' writes these arrays"},
      {"--log-dir", dropped, true, "logs lie in --out"},
      {"--num-output-layers", dropped, true, "the recipe says where exits are"},
      {"--fp16-opt-level", dropped, true, "there is one kind of mixed precision, --precision bf16"},
      {"--local-rank", dropped, true, "the environment says it"},
      {"--debug", dropped, false, "it has no effect"},
      {"--fp16", refused, false, "fp16 needs loss scaling; use --precision bf16"},
      {"--dataset-name", refused, true, "nothing is downloaded: name a task's folder or a file with --data"},
      {"--max-eval-samples", refused, true, "all rows are evaluated: name a shorter file with --eval-data"},
      {"--test-file", refused, true, "answer a file of texts with 'exeunt predict'"},
      {"--do-predict", refused, false, kTestSplit},
      {"--do-infer", refused, false, kTestSplit},
      {"--testset", refused, false, kTestSplit},
      {"--not-save-model", refused, false, "a trained model is always written"},
      {"--load", refused, true, "use --resume, which finds the newest whole checkpoint in --out"},
      {"--kd-loss-type", refused, true,
       "name the variant: --set stages.0.objective.variant=last (raw), chain (ta), group or bidir"},
      {"--irange", refused, true, "use --set stages.0.objective.range=N with the variant group"},
      {"--moco", refused, false, "use --set stages.0.objective.variant=ema"},
      {"--momentum", refused, true, "use --set stages.0.objective.momentum=M with the variant ema"},
      {"--gamma", refused, true, "use --set stages.0.objective.gamma=G"},
      {"--beta", refused, true, "use --set stages.0.objective.beta=B with the variant group"},
      {"--train-routine", refused, true,
       "name a recipe: plain (raw), deebert (two_stage), berxit (alternate, alternate-lte), pabee (weight-linear)"},
      {"--limit-layer", refused, true, "use --set stages.0.objective.kind=limit --set stages.0.objective.layer=K"},
      {"--early-exit-entropy", refused, true, kMeasure},
      {"--patience", refused, true, kMeasure},
      {"--regression-threshold", refused, true, kMeasure},
      {"--lte-th", refused, true, kMeasure},
      {"--out-mode", refused, true, kMeasure},
  };
  return rows;
}

// Underscores made dashes; returns the name without a value.
std::string dashed(std::string& word) {
  const size_t end = std::min(word.find('='), word.size());
  if (word.starts_with("--")) std::replace(word.begin(), word.begin() + static_cast<ptrdiff_t>(end), '_', '-');
  return word.substr(0, end);
}

}  // namespace

Arguments with_current_names(std::vector<std::string> words) {
  Arguments out{std::move(words), {}};
  for (std::string& word : out.words) {
    if (word == "--") break;
    const std::string typed = word.substr(0, word.find('=')), name = dashed(word);
    const auto row = std::find_if(kMeasuringFlags.begin(), kMeasuringFlags.end(),
                                  [&](const RenamedFlag& flag) { return flag.old_name == name; });
    if (row == kMeasuringFlags.end()) continue;
    out.notices.push_back(fmt::format("{} is an old name; use {}", typed, row->new_name));
    word.replace(0, name.size(), row->new_name);
  }
  return out;
}

Arguments with_current_training_names(std::vector<std::string> words) {
  Arguments out;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    const std::string name = dashed(word);
    const auto& rows = training_flags();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const OldFlagRow& flag) { return flag.name == name; });
    if (row == rows.end()) {
      out.words.push_back(word);
    } else if (row->kind == renamed) {
      out.notices.push_back(fmt::format("{} is an old name; use {}", name, row->text));
      out.words.push_back(std::string(row->text) + word.substr(name.size()));
    } else if (is_false(value_of(*row, words, i))) {
      out.notices.push_back(fmt::format("{} is not needed: left out it means the same", name));
    } else if (row->kind == refused) {
      throw Error(Code::usage, fmt::format("{} is not a flag of 'exeunt train'", name), std::string(row->text));
    } else if (row->kind == dropped) {
      out.notices.push_back(fmt::format("{} is not needed: {}", name, row->text));
    } else {
      out.notices.push_back(
          fmt::format("{} is an old name; use {}{}", name, row->text, row->takes_value ? ", without a value" : ""));
      out.words.emplace_back(row->text);
    }
  }
  return out;
}

}  // namespace exeunt
