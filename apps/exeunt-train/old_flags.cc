// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/old_flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt::apps {
namespace {

using enum OldFlag;

constexpr std::string_view kAtTheEnd = "all exits are always evaluated at the end";
constexpr std::string_view kByFolder = "the model's folder says it";
constexpr std::string_view kMeasure =
    "training does not exit early: measure policies with 'exeunt sweep' on the trained model";

}  // namespace

const std::vector<OldFlagRow>& old_flags() {
  static const std::vector<OldFlagRow> rows{
      {"--model-name-or-path", renamed, true, "--model"},
      {"--task-name", renamed, true, "--task"},
      {"--data-dir", renamed, true, "--data"},
      {"--output-dir", renamed, true, "--out"},
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
      {"--overwrite-output-dir", renamed, false, "--overwrite"},
      {"--no-cuda", renamed, false, "--device=cpu"},
      {"--bf16", renamed, false, "--precision=bf16"},
      {"--num-hidden-layers", renamed, true, "--layers"},
      {"--temper", renamed, true, "--temperature"},
      {"--ge", renamed, false, "--set=gradient.rule=logit_scale"},
      {"--gp", renamed, false, "--set=gradient.rule=project"},
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
      {"--overwrite-cache", dropped, false, "features are bound to their data by hashes"},
      {"--plot-data-dir", dropped, true, "'exeunt sweep --npy' writes these arrays"},
      {"--log-dir", dropped, true, "logs lie in --out"},
      {"--num-output-layers", dropped, true, "the recipe says where exits are"},
      {"--fp16-opt-level", dropped, true, "there is one kind of mixed precision, --precision bf16"},
      {"--local-rank", dropped, true, "the environment says it"},
      {"--debug", dropped, false, "it has no effect"},
      {"--fp16", refused, false, "fp16 needs loss scaling; use --precision bf16"},
      {"--do-infer", refused, false, "answer a test split with 'exeunt submit'"},
      {"--testset", refused, false, "answer a test split with 'exeunt submit'"},
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

Arguments with_todays_names(std::vector<std::string> words) {
  Arguments out;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    const size_t end = std::min(word.find('='), word.size());
    if (word.starts_with("--")) std::replace(word.begin(), word.begin() + static_cast<ptrdiff_t>(end), '_', '-');
    const std::string name = word.substr(0, end);
    const auto& rows = old_flags();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const OldFlagRow& flag) { return flag.name == name; });
    if (row == rows.end()) {
      out.words.push_back(word);
    } else if (row->kind == refused) {
      throw Error(Code::usage, fmt::format("{} is not a flag of 'exeunt train'", name), std::string(row->text));
    } else if (row->kind == dropped) {
      out.notices.push_back(fmt::format("{} is not needed: {}", name, row->text));
      if (row->takes_value && end == word.size() && i + 1 < words.size()) ++i;
    } else {
      out.notices.push_back(fmt::format("{} is an old name; today: {}", name, row->text));
      out.words.push_back(std::string(row->text) + word.substr(end));
    }
  }
  return out;
}

}  // namespace exeunt::apps
