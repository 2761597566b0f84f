// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/flags.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/data/task.h"

namespace exeunt {
namespace {

// bare: renamed, and takes no value now; joined: the value goes to the end of the current flag
enum class OldFlag { renamed, bare, joined, dropped, refused };
using enum OldFlag;

struct OldFlags {
  OldFlag kind = {};
  std::span<const std::string_view> names = {};  // one that takes a value ends in '='
  std::string_view text = {};                    // the current flags, or the reason
};
using Table = std::span<const OldFlags>;

#include "old_flags.inc"  // made from old_flags.json

struct OldFlagRow {
  OldFlag kind;
  bool takes_value;
  std::string_view text;
};

// Of the first table that has it.
std::optional<OldFlagRow> find_row(std::span<const Table> tables, std::string_view name) {
  for (const Table table : tables) {
    for (const OldFlags& row : table) {
      for (const std::string_view known : row.names) {
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

// Takes a flag, under the name with dashes, and its value out of the words; empty if it is not there.
std::string take(std::vector<std::string>& words, std::string_view name) {
  const auto found = std::find_if(words.begin(), words.end(), [&](std::string word) { return dashed(word) == name; });
  if (found == words.end()) return {};
  const size_t end = found->find('=');
  const bool apart = end == std::string::npos && found + 1 != words.end();
  std::string value = apart ? found[1] : end == std::string::npos ? std::string() : found->substr(end + 1);
  words.erase(found, found + (apart ? 2 : 1));
  return value;
}

// Takes a flag without a value, which True or False may follow, out of the words; nothing if it is not there.
std::optional<bool> take_switch(std::vector<std::string>& words, std::string_view name) {
  const auto found = std::find_if(words.begin(), words.end(), [&](std::string word) { return dashed(word) == name; });
  if (found == words.end()) return std::nullopt;
  size_t last = static_cast<size_t>(found - words.begin());
  const bool on = !is_false(value_of(false, words, last));
  words.erase(found, words.begin() + static_cast<ptrdiff_t>(last) + 1);
  return on;
}

// Gives a flag that has one another value.
void replace_value(std::vector<std::string>& words, std::string_view name, const std::string& value) {
  const auto found = std::find_if(words.begin(), words.end(), [&](std::string word) { return dashed(word) == name; });
  const size_t end = found->find('=');
  if (end == std::string::npos) {
    found[1] = value;
  } else {
    found->replace(end + 1, std::string::npos, value);
  }
}

// ELUE's programs called its tasks as GLUE's are called; the folder of the data tells which are meant.
void name_elue_task(std::vector<std::string>& words, Arguments& out) {
  const std::string task = given(words, {"--task-name"}), data = given(words, {"--data-dir"});
  const size_t elue = lower(data).rfind("elue"), glue = lower(data).rfind("glue");
  if (elue == std::string::npos || (glue != std::string::npos && glue > elue)) return;
  if (find_task_or_null("elue/" + task) == nullptr) return;
  replace_value(words, "--task-name", "elue/" + task);
  out.notices.push_back(fmt::format("{} in {} is ELUE's: --task elue/{}", task, data, task));
}

// The originals evaluated whenever they logged.
void evaluate_when_logging(std::vector<std::string>& words, Arguments& out) {
  if (!take_switch(words, "--evaluate-during-training").value_or(false)) return;
  if (!given(words, {"--eval-every", "--eval-steps"}).empty()) return;
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
  replace_value(words, "--model-name-or-path", trained);
  out.notices.push_back(fmt::format("{} is evaluated: the trained model lies in --output_dir", trained));
}

// Their programs ran in fp32, and kept the arrays for plots apart by the model's path.
void evaluate_as_originals(const std::string& verb, std::vector<std::string>& words, Arguments& out) {
  const std::string model = given(words, {"--model-name-or-path"});
  if (model.empty()) return;
  if (given(words, {"--precision"}).empty() && !model.ends_with(".safetensors")) {  // a trace has its own
    words.emplace_back("--precision=fp32");
    out.notices.emplace_back("evaluated in fp32, as by the original: --precision=fp32");
  }
  if (verb != "sweep" || given(words, {"--plot-data-dir"}).empty()) return;
  const std::filesystem::path plots = given(words, {"--plot-data-dir"});
  const std::string folder = (plots / std::filesystem::path(model).relative_path()).lexically_normal().string();
  replace_value(words, "--plot-data-dir", folder);
  out.notices.push_back(fmt::format("the arrays go to {}, by the model's path", folder));
}

// Settings in the originals' flags, or their output, are a sweep's, of one setting or of several.
void sweep_settings(std::string& verb, std::vector<std::string>& words, Arguments& out) {
  for (const char* flag : {"--view", "--patience", "--early-exit-entropy", "--lte-th"}) {
    if (verb != "eval" || given(words, {flag}).empty()) continue;
    verb = "sweep";
    *std::find(words.begin(), words.end(), "eval") = verb;
    out.notices.push_back(fmt::format("eval with {} is 'exeunt sweep'", flag));
  }
}

// What the originals' programs took and did not use.
void leave_out_unused(std::vector<std::string>& words, Arguments& out) {
  if (given(words, {"--max-steps"}) == "-1") {
    (void)take(words, "--max-steps");
    out.notices.emplace_back("--max_steps -1 is not needed: left out it means the same");
  }
}

// RomeBERT's programs took the parameters of all losses, in any order. An objective has its own alone, and those once
// its variant is named, which a recipe of the user's or --set may do.
void name_one_loss(std::vector<std::string>& words, Arguments& out) {
  const bool moco = take_switch(words, "--moco").value_or(false);
  const std::string typed = take(words, "--kd-loss-type");
  const bool group = !moco && typed == "group";
  const bool elsewhere = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.ends_with(".json") || word.find("objective.variant=") != std::string::npos;
  });
  if (!moco && typed.empty() && elsewhere) return;
  const std::string loss = moco ? "--moco" : "--kd_loss_type " + (typed.empty() ? "raw, the default," : typed);
  for (const auto& [flag, used] :
       {std::pair{"--beta", group}, std::pair{"--irange", group}, std::pair{"--momentum", moco}})
    if (!used && !take(words, flag).empty())
      out.notices.push_back(fmt::format("{} is not needed: {} has none", flag, loss));
  if (moco && !typed.empty()) out.notices.emplace_back("--kd_loss_type is not needed: --moco is another loss");
  const auto first = std::find_if(words.begin(), words.end(), [](const auto& word) { return word.starts_with('-'); });
  if (moco || !typed.empty()) words.insert(first, moco ? loss : "--kd_loss_type=" + typed);
}

// ELBERT's change_config.py: --key K --value V is K=V of `policy set`.
void join_key_and_value(std::vector<std::string>& words, Arguments& out) {
  if (given(words, {"--key"}).empty() || given(words, {"--value"}).empty()) return;
  const std::string key = take(words, "--key");
  words.push_back(key + "=" + take(words, "--value"));
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
  std::string verb = found == words.end() ? "" : *found;
  if (verb == "policy") join_key_and_value(words, out);
  std::vector<Table> tables{kMeasuring};
  sweep_settings(verb, words, out);
  if (verb == "eval" || verb == "sweep") {
    name_elue_task(words, out);
    evaluate_output_folder(words, out);
    evaluate_as_originals(verb, words, out);
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
  name_elue_task(words, out);
  leave_out_unused(words, out);
  name_one_loss(words, out);
  const bool on_cpu =
      std::any_of(words.begin(), words.end(), [](std::string word) { return dashed(word) == "--no-cuda"; });
  if (!on_cpu && !given(words, {"--model-name-or-path"}).empty() && given(words, {"--precision"}).empty())
    out.notices.emplace_back("where a GPU has bf16, it is trained in; --precision fp32 is the original's");
  const std::array<Table, 1> tables{kTraining};
  translate(std::move(words), tables, out);
  return out;
}

}  // namespace exeunt
