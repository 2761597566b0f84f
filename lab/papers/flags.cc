// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/flags.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"

namespace exeunt {
namespace {

// bare: renamed, and takes no value now; joined: the value goes to the end of the current flag
enum class OldFlag { renamed, bare, joined, dropped, refused };
using enum OldFlag;

struct OldFlags {
  OldFlag kind;
  std::string_view names;  // separated by blanks; one that takes a value ends in '='
  std::string_view text;   // the current flags, or the reason
};
using Table = std::span<const OldFlags>;

constexpr std::string_view kByFolder = "the model's folder says it";
constexpr std::string_view kByTokenizer = "the tokenizer's files say it";
constexpr std::string_view kNoDownload = "nothing is downloaded";
constexpr std::string_view kAnyBatch = "the batch does not change what is measured";
constexpr std::string_view kPlots = "'exeunt sweep --npy' writes these arrays";
constexpr std::string_view kTestSplit = "answer a test split with 'exeunt predict' or 'exeunt submit'";

// Of every verb but train.
constexpr OldFlags kMeasuring[]{{renamed, "--task-name=", "--task"},
                                {renamed, "--data-dir=", "--data"},
                                {renamed, "--max-seq-length=", "--max-length"},
                                {renamed, "--eval-all-checkpoints", "--all-checkpoints"},
                                {renamed, "--eval-each-highway", "--each-exit"},
                                {renamed, "--output-dir=", "--out"}};

// Of `eval` alone.
constexpr OldFlags kEval[]{{dropped, "--plot-data-dir=", kPlots}};

// Of `eval` and `sweep`, in addition: the originals' one program took all flags in every mode.
constexpr OldFlags kEvaluation[]{
    {bare, "--model-name-or-path=", ""},  // MODEL itself
    {dropped, "--output-dir=", "results are printed; --view-files and --npy write the originals' files"},
    {renamed, "--plot-data-dir=", "--npy"},
    {dropped, "--do-eval --eval-highway", "the verb says it"},
    {dropped, "--do-lower-case", kByTokenizer},
    {dropped, "--model-type= --config-name= --tokenizer-name= --num-hidden-layers= --num-output-layers=", kByFolder},
    {dropped, "--cache-dir=", kNoDownload},
    {dropped, "--overwrite-output-dir", "files are written anew"},
    {dropped, "--overwrite-cache", "there is no cache"},
    {dropped, "--per-gpu-eval-batch-size=", kAnyBatch},
    {dropped, "--no-cuda", "it runs on the processor"},
    {dropped, "--log-dir=", "no log is written"},
    {dropped, "--local-rank=", "there is one process"},
    {dropped, "--fp16", "use --precision bf16"},
    {dropped,
     "--evaluate-during-training --per-gpu-train-batch-size= --gradient-accumulation-steps= --learning-rate= "
     "--weight-decay= --adam-epsilon= --max-grad-norm= --num-train-epochs= --max-steps= --warmup-steps= "
     "--warmup-rate= --logging-steps= --save-steps= --seed= --gamma= --temper= --kd-loss-type= --gp --ge --w-lr= "
     "--w-init=",
     "it changes nothing that is measured"},
    {dropped, "--out-mode=", "name one threshold, or several: --policy 'window:0.1|0.5|0.9,8,bias_1'"}};

constexpr OldFlags kTraining[]{
    {renamed, "--model-name-or-path=", "--model"},
    {renamed, "--task-name=", "--task"},
    {renamed, "--data-dir= --train-file=", "--data"},
    {renamed, "--output-dir=", "--out"},
    {renamed, "--validation-file=", "--eval-data"},
    {renamed, "--max-train-samples=", "--limit"},
    {renamed, "--max-seq-length=", "--max-length"},
    {renamed, "--per-gpu-train-batch-size= --per-device-train-batch-size=", "--batch"},
    {renamed, "--gradient-accumulation-steps=", "--accumulation"},
    {renamed, "--learning-rate=", "--lr"},
    {renamed, "--max-grad-norm=", "--clip"},
    {renamed, "--num-train-epochs=", "--epochs"},
    {renamed, "--warmup-rate= --warmup-ratio=", "--warmup"},
    {renamed, "--logging-steps=", "--log-every"},
    {renamed, "--save-steps=", "--save-every"},
    {renamed, "--save-total-limit=", "--keep-checkpoints"},
    {renamed, "--eval-steps=", "--eval-every"},
    {renamed, "--early-stop-steps=", "--early-stop"},
    {renamed, "--num-hidden-layers=", "--layers"},
    {renamed, "--temper=", "--temperature"},
    {renamed, "--w-lr=", "--learned-lr"},
    {renamed, "--w-init=", "--learned-init"},
    {bare, "--resume-from-checkpoint=", "--resume"},
    {bare, "--load-best-model-at-end", "--keep-best=last"},
    {bare, "--overwrite-output-dir", "--overwrite"},
    {bare, "--no-cuda --use-cpu", "--device=cpu"},
    {bare, "--bf16 --fp16", "--precision=bf16"},
    {bare, "--moco", "--set=stages.0.objective.variant=ema"},
    {bare, "--ge", "--set=gradient.rule=logit_scale"},
    {bare, "--gp", "--set=gradient.rule=project"},
    {joined, "--gamma=", "--set=stages.0.objective.gamma="},
    {joined, "--beta=", "--set=stages.0.objective.beta="},
    {joined, "--irange=", "--set=stages.0.objective.range="},
    {joined, "--kd-loss-type=", "--set=stages.0.objective.variant="},
    {joined, "--momentum=", "--set=stages.0.objective.momentum="},
    {joined, "--num-output-layers=", "--set=exits=last:"},
    {dropped, "--do-train", "'exeunt train' always trains"},
    {dropped, "--do-eval --eval-each-highway --eval-highway", "all exits are always evaluated at the end"},
    {dropped, "--eval-after-first-stage", "every stage is evaluated at its end"},
    {dropped, "--eval-all-checkpoints", "the log holds every evaluation"},
    {dropped, "--per-gpu-eval-batch-size= --per-device-eval-batch-size=", kAnyBatch},
    {dropped, "--do-lower-case", kByTokenizer},
    {dropped, "--model-type= --config-name= --tokenizer-name=", kByFolder},
    {dropped, "--cache-dir=", kNoDownload},
    {dropped, "--pad-to-max-length", "batches are padded to their longest text"},
    {dropped, "--use-fast-tokenizer", "there is one tokenizer"},
    {dropped, "--ignore-mismatched-sizes", "heads that do not fit the labels are replaced"},
    {dropped, "--eval-strategy= --evaluation-strategy= --save-strategy= --logging-strategy=",
     "use --eval-every, --save-every and --log-every; all exits are evaluated at the end"},
    {dropped, "--logging-dir=", "'exeunt tensorboard' writes TensorBoard's file into --out"},
    {dropped, "--report-to=", "no connection is opened; 'exeunt tensorboard' writes TensorBoard's file"},
    {dropped, "--run-name=", "a run is called as its folder, --out"},
    {dropped,
     "--push-to-hub --hub-model-id= --hub-token= --token=", "no connection is opened; the trained model lies in --out"},
    {dropped, "--dataloader-num-workers=", "texts are prepared before the first step"},
    {dropped, "--overwrite-cache", "features are bound to their data by hashes"},
    {dropped, "--plot-data-dir=", kPlots},
    {dropped, "--log-dir=", "logs lie in --out"},
    {dropped, "--fp16-opt-level=", "there is one kind of mixed precision, --precision bf16"},
    {dropped, "--local-rank=", "the environment says it"},
    {dropped, "--debug", "it has no effect"},
    {dropped, "--do-infer", kTestSplit},
    {dropped, "--early-exit-entropy= --patience= --regression-threshold= --lte-th= --out-mode=",
     "training does not exit early: measure policies with 'exeunt sweep' on the trained model"},
    {refused, "--dataset-name=", "nothing is downloaded: name a task's folder or a file with --data"},
    {refused, "--max-eval-samples=", "all rows are evaluated: name a shorter file with --eval-data"},
    {refused, "--test-file=", "answer a file of texts with 'exeunt predict'"},
    {refused, "--do-predict --testset", kTestSplit},
    {refused, "--not-save-model", "a trained model is always written"},
    {refused, "--load=", "use --resume, which finds the newest whole checkpoint in --out"},
    {refused, "--train-routine=",
     "name a recipe: plain (raw), deebert (two_stage), berxit (alternate, alternate-lte), pabee (weight-linear)"},
    {refused, "--limit-layer=", "use --set stages.0.objective.kind=limit --set stages.0.objective.layer=K"}};

struct OldFlagRow {
  OldFlag kind;
  bool takes_value;
  std::string_view text;
};

// Of the first table that has it.
std::optional<OldFlagRow> find_row(std::span<const Table> tables, std::string_view name) {
  for (const Table table : tables) {
    for (const OldFlags& row : table) {
      for (const std::string_view known : split(row.names, ' ')) {
        const bool takes_value = known.ends_with('=');
        if (known.substr(0, known.size() - (takes_value ? 1 : 0)) == name)
          return OldFlagRow{row.kind, takes_value, row.text};
      }
    }
  }
  return std::nullopt;
}

// A flag's value, which may be the next word, or "True" or "False" after a flag that takes none. Goes on to that word.
std::string value_of(bool takes_value, const std::vector<std::string>& words, size_t& place) {
  const std::string& word = words[place];
  const size_t end = word.find('=');
  if (end != std::string::npos) return word.substr(end + 1);
  if (place + 1 == words.size()) return {};
  const std::string next = lower(words[place + 1]);
  return takes_value || next == "true" || next == "false" ? words[++place] : std::string{};
}

// RomeBERT's names of its losses. "other" is what its evaluation scripts pass, which compute none.
std::string_view current_variant(std::string_view old) {
  return old == "raw" || old == "other" ? "last" : old == "ta" ? "chain" : old;
}

bool is_false(const std::string& value) {
  return value == "False" || value == "false";
}

// Underscores made dashes; returns the name without a value.
std::string dashed(std::string& word) {
  const size_t end = std::min(word.find('='), word.size());
  if (word.starts_with("--")) std::replace(word.begin(), word.begin() + static_cast<ptrdiff_t>(end), '_', '-');
  return word.substr(0, end);
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
  const bool off = is_false(value_of(false, words, place));
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

// Words with the flags of `tables` under their current names.
void translate(std::vector<std::string> words, std::span<const Table> tables, Arguments& out) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      out.words.insert(out.words.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
      return;
    }
    std::string& word = words[i];
    const std::string typed = word.substr(0, word.find('=')), name = dashed(word);
    const std::optional<OldFlagRow> row = find_row(tables, name);
    if (!row) {
      out.words.push_back(word);
      continue;
    }
    const auto use = [&](std::string now, std::string_view remark = "") {
      out.notices.push_back(fmt::format("{} is an old name; use {}{}", typed, now, remark));
      out.words.push_back(std::move(now));
    };
    if (row->kind == renamed) {
      use(std::string(row->text));
      out.words.back() += word.substr(name.size());
      continue;
    }
    const std::string value = value_of(row->takes_value, words, i);
    if (row->kind == joined) {
      use(fmt::format("{}{}", row->text, name == "--kd-loss-type" ? current_variant(value) : std::string_view(value)));
    } else if (is_false(value)) {
      out.notices.push_back(fmt::format("{} is not needed: left out it means the same", typed));
    } else if (row->kind == refused) {
      throw Error(Code::usage, fmt::format("{} is not a flag of 'exeunt train'", name), std::string(row->text));
    } else if (row->kind == dropped) {
      out.notices.push_back(fmt::format("{} is not needed: {}", typed, row->text));
    } else if (row->text.empty()) {
      out.notices.push_back(fmt::format("{} is not needed: MODEL follows without a flag", typed));
      out.words.push_back(value);
    } else {
      use(std::string(row->text), row->takes_value ? ", without a value" : "");
    }
  }
}

}  // namespace

Arguments with_current_names(std::vector<std::string> words) {
  Arguments out;
  const auto found =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return !word.starts_with('-'); });
  const std::string verb = found == words.end() ? "" : *found;
  if (verb == "policy") join_key_and_value(words, out);
  std::vector<Table> tables{kMeasuring};
  if (verb == "eval" || verb == "sweep") {
    evaluate_output_folder(words, out);
    tables.insert(tables.begin(), kEvaluation);
  }
  if (verb == "eval") tables.insert(tables.begin(), kEval);
  translate(std::move(words), tables, out);
  return out;
}

Arguments with_current_training_names(std::vector<std::string> words) {
  Arguments out;
  evaluate_when_logging(words, out);
  keep_all_checkpoints(words, out);
  const std::array<Table, 1> tables{kTraining};
  translate(std::move(words), tables, out);
  return out;
}

}  // namespace exeunt
