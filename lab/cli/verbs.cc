// SPDX-License-Identifier: Apache-2.0
#include "lab/cli/verbs.h"

#include "apps/exeunt/model_flags.h"
#include "exeunt/base/error.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/policy/policy_text.h"
#include "lab/cli/auto_flags.h"
#include "lab/papers/policy_flags.h"
#include "lab/tensorflow/tf_names.h"

namespace exeunt::apps {
namespace {

void add_compat_flag(CLI::App& verb, MeasureOptions& run) {
  verb.add_option_function<std::string>(
          "--compat", [&run](const std::string&) { run.last_ramp = true; },
          "deebert-last-ramp: answer from the last layer's untrained ramp, as DeeBERT's code does")
      ->check(one_of({"deebert-last-ramp"}));
}

// ELBERT's keys change what the model runs now; where that is no policy of ELBERT's, they start from its defaults.
ConfigRule elbert_start(const Checkpoint& model, const PolicyEntry* entry) {
  if (entry != nullptr) return elbert_rule_of(entry->policy).value_or(ConfigRule{});
  if (!model.native_policy()) return {};
  return elbert_rule_of(parse_policy(*model.native_policy())).value_or(ConfigRule{});
}

PolicySpec policy_of_keys(const std::vector<std::string>& words, const Checkpoint& model, const PolicyEntry* entry) {
  ConfigRule rule = elbert_start(model, entry);
  for (const std::string& word : words) {
    const size_t end = word.find('=');
    if (end == std::string::npos) throw Error(Code::usage, fmt::format("got '{}' among keys, want KEY=VALUE", word));
    set_elbert_key(rule, word.substr(0, end), word.substr(end + 1));
  }
  return parse_policy(config_policy(rule, model.exits().outputs));
}

void replace(CommandLine& line, const char* name, void (*add)(CommandLine&)) {
  CLI::App* verb = line.app.get_subcommand(name);
  const std::string group = verb->get_group();
  line.app.remove_subcommand(verb);
  add(line);
  line.app.get_subcommand(name)->group(group);
}

}  // namespace

Extensions lab_extensions() {
  return {.read_tensorflow = read_tf_model,
          .add_score_flags = add_compat_flag,
          .policy_of_keys = policy_of_keys,
          .keys_help = "; or ELBERT's keys: thres_name=, exit_thres=, cnt_thres=, margin=, range_tmp=",
          .check_folder = check_task_folder};
}

void add_lab_verbs(CommandLine& line) {
  add_all_verbs(line);
  replace(line, "trace", add_lab_trace);
  add_auto_flags(*line.app.get_subcommand("train"));
  add_recommend(line);
  add_sweep(line);
  add_report(line);
  add_submit(line);
  add_reproduce(line);
  add_pretrain_verb(line, [](const PretrainFlags&) {});
  add_tensorboard(line);
  for (const char* name : {"recommend", "sweep"}) line.app.get_subcommand(name)->group("More verbs");
  for (const char* name : {"report", "submit", "reproduce", "pretrain", "tensorboard"})
    line.app.get_subcommand(name)->group("Papers and benchmarks");
}

}  // namespace exeunt::apps
