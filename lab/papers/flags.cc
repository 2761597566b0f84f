// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/flags.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// bare: renamed, and takes no value now; joined: the value goes to the end of the current flag
enum class OldFlag { renamed, bare, joined, dropped, refused };
using enum OldFlag;

struct OldFlagRow {
  std::string_view name;
  OldFlag kind;
  bool takes_value;
  std::string_view text;  // the current flags, or the reason
};

constexpr std::string_view kTrainingOnly = "it changes nothing that is measured";
constexpr std::string_view kAtTheEnd = "all exits are always evaluated at the end";
constexpr std::string_view kPlots = "'exeunt sweep --npy' writes these arrays";
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

// RomeBERT's names of its losses. "other" is what its evaluation scripts pass, which compute none.
std::string_view current_variant(std::string_view old) {
  return old == "raw" || old == "other" ? "last" : old == "ta" ? "chain" : old;
}

bool is_false(const std::string& value) {
  return value == "False" || value == "false";
}

// Of every verb but train.
const std::vector<OldFlagRow>& measuring_flags() {
  static const std::vector<OldFlagRow> rows{
      {"--task-name", renamed, true, "--task"},
      {"--data-dir", renamed, true, "--data"},
      {"--max-seq-length", renamed, true, "--max-length"},
      {"--eval-all-checkpoints", renamed, false, "--all-checkpoints"},
      {"--eval-each-highway", renamed, false, "--each-exit"},
      {"--output-dir", renamed, true, "--out"},
  };
  return rows;
}

// Of `eval` alone.
const std::vector<OldFlagRow>& eval_flags() {
  static const std::vector<OldFlagRow> rows{{"--plot-data-dir", dropped, true, kPlots}};
  return rows;
}

// Of `eval` and `sweep`, in addition: the originals' one program took all flags in every mode.
const std::vector<OldFlagRow>& evaluation_flags() {
  static const std::vector<OldFlagRow> rows{
      {"--model-name-or-path", bare, true, ""},  // MODEL itself
      {"--output-dir", dropped, true, "results are printed; --view-files and --npy write the originals' files"},
      {"--plot-data-dir", renamed, true, "--npy"},
      {"--do-eval", dropped, false, "the verb says it"},
      {"--eval-highway", dropped, false, "the verb says it"},
      {"--evaluate-during-training", dropped, false, kTrainingOnly},
      {"--do-lower-case", dropped, false, "the tokenizer's files say it"},
      {"--model-type", dropped, true, kByFolder},
      {"--config-name", dropped, true, kByFolder},
      {"--tokenizer-name", dropped, true, kByFolder},
      {"--num-hidden-layers", dropped, true, kByFolder},
      {"--num-output-layers", dropped, true, kByFolder},
      {"--cache-dir", dropped, true, "nothing is downloaded"},
      {"--overwrite-output-dir", dropped, false, "files are written anew"},
      {"--overwrite-cache", dropped, false, "there is no cache"},
      {"--per-gpu-eval-batch-size", dropped, true, "the batch does not change what is measured"},
      {"--no-cuda", dropped, false, "it runs on the processor"},
      {"--log-dir", dropped, true, "no log is written"},
      {"--local-rank", dropped, true, "there is one process"},
      {"--fp16", dropped, false, "use --precision bf16"},
      {"--per-gpu-train-batch-size", dropped, true, kTrainingOnly},
      {"--gradient-accumulation-steps", dropped, true, kTrainingOnly},
      {"--learning-rate", dropped, true, kTrainingOnly},
      {"--weight-decay", dropped, true, kTrainingOnly},
      {"--adam-epsilon", dropped, true, kTrainingOnly},
      {"--max-grad-norm", dropped, true, kTrainingOnly},
      {"--num-train-epochs", dropped, true, kTrainingOnly},
      {"--max-steps", dropped, true, kTrainingOnly},
      {"--warmup-steps", dropped, true, kTrainingOnly},
      {"--warmup-rate", dropped, true, kTrainingOnly},
      {"--logging-steps", dropped, true, kTrainingOnly},
      {"--save-steps", dropped, true, kTrainingOnly},
      {"--seed", dropped, true, kTrainingOnly},
      {"--gamma", dropped, true, kTrainingOnly},
      {"--temper", dropped, true, kTrainingOnly},
      {"--kd-loss-type", dropped, true, kTrainingOnly},
      {"--gp", dropped, false, kTrainingOnly},
      {"--ge", dropped, false, kTrainingOnly},
      {"--w-lr", dropped, true, kTrainingOnly},
      {"--w-init", dropped, true, kTrainingOnly},
      {"--out-mode", dropped, true, "name one threshold, or several: --policy 'window:0.1|0.5|0.9,8,bias_1'"},
  };
  return rows;
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
      {"--gamma", joined, true, "--set=stages.0.objective.gamma="},
      {"--beta", joined, true, "--set=stages.0.objective.beta="},
      {"--irange", joined, true, "--set=stages.0.objective.range="},
      {"--kd-loss-type", joined, true, "--set=stages.0.objective.variant="},
      {"--moco", bare, false, "--set=stages.0.objective.variant=ema"},
      {"--momentum", joined, true, "--set=stages.0.objective.momentum="},
      {"--num-output-layers", joined, true, "--set=exits=last:"},
      {"--fp16", bare, false, "--precision=bf16"},
      {"--ge", bare, false, "--set=gradient.rule=logit_scale"},
      {"--gp", bare, false, "--set=gradient.rule=project"},
      {"--w-lr", renamed, true, "--learned-lr"},
      {"--w-init", renamed, true, "--learned-init"},
      {"--do-train", dropped, false, "'exeunt train' always trains"},
      {"--do-eval", dropped, false, kAtTheEnd},
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
      {"--logging-dir", dropped, true, "'exeunt tensorboard' writes TensorBoard's file into --out"},
      {"--report-to", dropped, true, "no connection is opened; 'exeunt tensorboard' writes TensorBoard's file"},
      {"--run-name", dropped, true, "a run is called as its folder, --out"},
      {"--push-to-hub", dropped, false, kNoHub},
      {"--hub-model-id", dropped, true, kNoHub},
      {"--hub-token", dropped, true, kNoHub},
      {"--token", dropped, true, kNoHub},
      {"--dataloader-num-workers", dropped, true, "texts are prepared before the first step"},
      {"--overwrite-cache", dropped, false, "features are bound to their data by hashes"},
      {"--plot-data-dir", dropped, true, kPlots},
      {"--log-dir", dropped, true, "logs lie in --out"},
      {"--fp16-opt-level", dropped, true, "there is one kind of mixed precision, --precision bf16"},
      {"--local-rank", dropped, true, "the environment says it"},
      {"--debug", dropped, false, "it has no effect"},
      {"--dataset-name", refused, true, "nothing is downloaded: name a task's folder or a file with --data"},
      {"--max-eval-samples", refused, true, "all rows are evaluated: name a shorter file with --eval-data"},
      {"--test-file", refused, true, "answer a file of texts with 'exeunt predict'"},
      {"--do-predict", refused, false, kTestSplit},
      {"--do-infer", dropped, false, kTestSplit},
      {"--testset", refused, false, kTestSplit},
      {"--not-save-model", refused, false, "a trained model is always written"},
      {"--load", refused, true, "use --resume, which finds the newest whole checkpoint in --out"},
      {"--train-routine", refused, true,
       "name a recipe: plain (raw), deebert (two_stage), berxit (alternate, alternate-lte), pabee (weight-linear)"},
      {"--limit-layer", refused, true, "use --set stages.0.objective.kind=limit --set stages.0.objective.layer=K"},
      {"--early-exit-entropy", dropped, true, kMeasure},
      {"--patience", dropped, true, kMeasure},
      {"--regression-threshold", dropped, true, kMeasure},
      {"--lte-th", dropped, true, kMeasure},
      {"--out-mode", dropped, true, kMeasure},
  };
  return rows;
}

// Underscores made dashes; returns the name without a value.
std::string dashed(std::string& word) {
  const size_t end = std::min(word.find('='), word.size());
  if (word.starts_with("--")) std::replace(word.begin(), word.begin() + static_cast<ptrdiff_t>(end), '_', '-');
  return word.substr(0, end);
}

const OldFlagRow* find_row(const std::vector<OldFlagRow>& rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const OldFlagRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

// The value of a flag, under its old name or its current one; empty if it is not there.
std::string given(const std::vector<std::string>& words, std::initializer_list<std::string_view> names) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    const std::string name = dashed(word);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (word.size() > name.size()) return word.substr(name.size() + 1);
    return i + 1 < words.size() ? words[i + 1] : std::string{};
  }
  return {};
}

// The originals evaluated whenever they logged.
void evaluate_when_logging(std::vector<std::string>& words, Arguments& out) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [](std::string word) { return dashed(word) == "--evaluate-during-training"; });
  if (found == words.end()) return;
  size_t place = static_cast<size_t>(found - words.begin());
  const size_t begin = place;
  const bool off = is_false(value_of({"", bare, false, ""}, words, place));
  words.erase(words.begin() + static_cast<ptrdiff_t>(begin), words.begin() + static_cast<ptrdiff_t>(place) + 1);
  if (off || !given(words, {"--eval-every", "--eval-steps"}).empty()) return;
  const std::string steps = given(words, {"--logging-steps", "--log-every"});
  words.push_back("--eval-every=" + (steps.empty() ? "50" : steps));
  out.notices.push_back(fmt::format("--evaluate-during-training is an old name; use {}", words.back()));
}

// And they kept every checkpoint they saved.
void keep_all_checkpoints(std::vector<std::string>& words, Arguments& out) {
  if (given(words, {"--save-steps"}).empty() || !given(words, {"--save-total-limit", "--keep-checkpoints"}).empty())
    return;
  words.emplace_back("--keep-checkpoints=0");
  out.notices.emplace_back("--save-steps keeps all checkpoints: --keep-checkpoints=0");
}

// And what they evaluated lay in --output_dir; --model_name_or_path was what it had been trained from. Today's
// run_glue, which evaluates the latter, has none of the flags that tell the originals' programs.
void evaluate_output_folder(std::vector<std::string>& words, Arguments& out) {
  constexpr std::array<std::string_view, 3> kOriginals{"--per-gpu-eval-batch-size", "--eval-all-checkpoints",
                                                       "--out-mode"};
  const bool original = std::any_of(words.begin(), words.end(), [&](std::string word) {
    return std::find(kOriginals.begin(), kOriginals.end(), dashed(word)) != kOriginals.end();
  });
  const std::string model = given(words, {"--model-name-or-path"}), trained = given(words, {"--output-dir"});
  if (!original || model.empty() || trained.empty() || model == trained) return;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (dashed(word) != "--model-name-or-path") continue;
    const bool joined_by_sign = word.find('=') != std::string::npos;
    words[joined_by_sign ? i : i + 1] = joined_by_sign ? "--model-name-or-path=" + trained : trained;
    break;
  }
  out.notices.push_back(fmt::format("{} is evaluated: the trained model lies in --output_dir", trained));
}

// ELBERT's change_config.py: --key K --value V is K=V of `policy set`.
void join_key_and_value(std::vector<std::string>& words, Arguments& out) {
  const auto take = [&](const std::string& flag) {
    const auto found = std::find(words.begin(), words.end(), flag);
    if (found == words.end() || found + 1 == words.end()) return std::string{};
    const std::string value = found[1];
    words.erase(found, found + 2);
    return value;
  };
  if (given(words, {"--key"}).empty() || given(words, {"--value"}).empty()) return;
  const std::string key = take("--key");
  words.push_back(key + "=" + take("--value"));
  out.notices.push_back(fmt::format("--key and --value are old names; use {}", words.back()));
}

}  // namespace

Arguments with_current_names(std::vector<std::string> words) {
  Arguments out;
  const auto verb =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return !word.starts_with('-'); });
  const bool evaluates = verb != words.end() && (*verb == "eval" || *verb == "sweep");
  const bool eval = evaluates && *verb == "eval";
  if (evaluates) evaluate_output_folder(words, out);
  if (verb != words.end() && *verb == "policy") join_key_and_value(words, out);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      out.words.insert(out.words.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
    std::string& word = words[i];
    const std::string typed = word.substr(0, word.find('=')), name = dashed(word);
    const OldFlagRow* row = eval ? find_row(eval_flags(), name) : nullptr;
    if (row == nullptr && evaluates) row = find_row(evaluation_flags(), name);
    if (row == nullptr) row = find_row(measuring_flags(), name);
    if (row == nullptr) {
      out.words.push_back(std::move(word));
    } else if (row->kind == renamed) {
      out.notices.push_back(fmt::format("{} is an old name; use {}", typed, row->text));
      out.words.push_back(std::string(row->text) + word.substr(name.size()));
    } else if (row->kind == bare) {
      out.notices.push_back(fmt::format("{} is not needed: MODEL follows without a flag", typed));
      out.words.push_back(value_of(*row, words, i));
    } else {
      (void)value_of(*row, words, i);
      out.notices.push_back(fmt::format("{} is not needed: {}", typed, row->text));
    }
  }
  return out;
}

Arguments with_current_training_names(std::vector<std::string> words) {
  Arguments out;
  evaluate_when_logging(words, out);
  keep_all_checkpoints(words, out);
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& word = words[i];
    const std::string name = dashed(word);
    const OldFlagRow* row = find_row(training_flags(), name);
    if (row == nullptr) {
      out.words.push_back(word);
    } else if (row->kind == renamed) {
      out.notices.push_back(fmt::format("{} is an old name; use {}", name, row->text));
      out.words.push_back(std::string(row->text) + word.substr(name.size()));
    } else if (row->kind == joined) {
      const std::string value = value_of(*row, words, i);
      const std::string now =
          fmt::format("{}{}", row->text, name == "--kd-loss-type" ? current_variant(value) : std::string_view(value));
      out.notices.push_back(fmt::format("{} is an old name; use {}", name, now));
      out.words.push_back(now);
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
