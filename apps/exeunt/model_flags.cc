// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/model_flags.h"

#include <algorithm>

#include "apps/exeunt/output.h"
#include "exeunt/base/number.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt::apps {

Observer observer(const Common& common) {
  return {.notice = [common](const std::string& text) { notice(common, text); },
          .warning = [](const std::string& text) { notice({}, text); },
          .progress = progress_on_stderr(common.quiet)};
}

void add_run_flags(CLI::App& verb, MeasureOptions& options, Takes takes) {
  CLI::Option* model =
      verb.add_option("MODEL", options.model,
                      takes == Takes::model_or_trace ? "Model folder, trace file, or org/name in the Hugging Face cache"
                                                     : "Model folder, or org/name in the local Hugging Face cache");
  if (takes == Takes::model_or_trace) model->required();
  add_text_flags(verb, options);
}

void add_tokenizer_flag(CLI::App& verb, std::string& reader) {
  verb.add_option("--tokenizer", reader,
                  "How to read a spiece.model without tokenizer.json: as SentencePiece does, or as Hugging Face's "
                  "tokenizers do (default as its tokenizer_config.json says, else spiece)")
      ->check(one_of({"spiece", "tokenizers"}));
}

void add_length_flag(CLI::App& verb, int& max_length) {
  verb.add_option("--max-length", max_length, "Maximum tokens per text; longer texts are truncated")
      ->check(number_in(1, 1 << 16))
      ->type_name("N")
      ->default_str("the certificate's, else the training's, else the model's");
}

void add_threads_flag(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "Threads; 0 = one per processor it may use")
      ->check(number_in(0, 4096))
      ->type_name("N")
      ->capture_default_str();
}

CLI::Option* add_device_flag(CLI::App& verb, Device& device) {
  return verb
      .add_option_function<std::string>(
          "--device", [&device](const std::string& text) { device = parse_device(text); },
          "Where the model runs: cpu, cuda, cuda:N, or auto: the first GPU if there is one, else the CPU")
      ->default_str("cpu");
}

void add_text_flags(CLI::App& verb, MeasureOptions& options) {
  add_data_flags(verb, options.data);
  CLI::Option* data = verb.get_option("--data");
  data->default_str("the rows that training held out");
  add_length_flag(verb, options.max_length);
  add_threads_flag(verb, options.threads);
}

void add_trace_flags(CLI::App& verb, MeasureOptions& options) {
  verb.add_option("--trace", options.trace, "Existing trace of this model, to be used instead of running it");
  add_precision_flags(verb, options);
}

void add_precision_flags(CLI::App& verb, MeasureOptions& options) {
  verb.add_option("--precision", options.precision, "fp32, bf16, int8, or external for imported arrays")
      ->check(one_of(policy_precisions()))
      ->default_str("the trace's, else that of policy.json, else bf16 where the device supports it");
  add_device_flag(verb, options.device);
}

void add_new_rows_flag(CLI::App& verb, MeasureOptions& options) {
  verb.add_flag("--strict-new", options.strict_new,
                "Also leave out texts that contain a training text of the model, or are part of one");
}

void add_profile_flag(CLI::App& verb, MeasureOptions& options) {
  verb.add_option("--profile", options.profile, "Profile to predict latency from")
      ->default_str("the model's profile.json");
}

void add_score_flags(const CommandLine& line, CLI::App& verb, MeasureOptions& options) {
  add_profile_flag(verb, options);
  if (line.more.add_score_flags != nullptr) line.more.add_score_flags(verb, options);
}

void add_engine_flags(CLI::App& verb, EngineOptions& options) {
  verb.add_option_function<std::string>(
          "--precision", [&options](const std::string& name) { options.precision = precision_named(name); },
          "fp32, bf16 or int8")
      ->check(one_of({"fp32", "bf16", "int8"}))
      ->default_str("the model's, else bf16 where the device supports it");
  add_device_flag(verb, options.device);
  add_threads_flag(verb, options.threads);
}

void add_confidence_flag(CLI::App& verb, double& confidence, const std::string& help) {
  verb.add_option("--confidence", confidence, help)->check(number_in(0.5, 0.999999))->capture_default_str();
}

void add_budget_flags(CLI::App& verb, BudgetFlags& flags, const std::string& max_drop_help) {
  verb.add_option("--max-drop", flags.budgets, max_drop_help)->allow_extra_args(false)->capture_default_str();
  add_confidence_flag(verb, flags.confidence, "Confidence of the certificate, over the draw of the data");
  verb.add_option("--tries", flags.tries, "Earlier uses of these texts to certify that were on other machines")
      ->check(number_in(0, 1000))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--range", flags.range, "Least and greatest value of a regression, as in 0,5")
      ->default_str("the model's, else that of its answers");
}

void BudgetFlags::put_into(CalibrationPlan& plan) const {
  plan.max_drops.clear();
  for (const std::string& text : budgets) {
    for (const std::string& one : comma_list(text)) plan.max_drops.push_back(share_of(one, "--max-drop"));
  }
  std::sort(plan.max_drops.begin(), plan.max_drops.end());
  plan.delta = delta_of(confidence);
  plan.tries_elsewhere = tries;
}

void add_setting_flags(CLI::App& verb, SettingFlags& flags, const std::string& name) {
  verb.add_option(name, flags.policies,
                  "Policies to sweep: ranges (entropy:0..0.7/0.05) and lists (patience:3|4|5); repeatable")
      ->allow_extra_args(false)
      ->default_str("a standard set")
      ->type_name("POLICY");
  verb.add_option("--exits", flags.exits, "Comma-separated layers whose exits are used")->default_str("all");
}

std::vector<PolicySpec> named_settings(const SettingFlags& flags) {
  std::vector<PolicySpec> out;
  for (const std::string& text : flags.policies) {
    for (PolicySpec& policy : parse_sweep(text)) out.push_back(std::move(policy));
  }
  for (PolicySpec& policy : out) policy.exits = layer_list(flags.exits, "--exits");
  return out;
}

int whole_number(const std::string& text, std::string_view flag) {
  const auto value = number_of<int>(text);
  if (!value) throw Error(Code::usage, fmt::format("{}: got '{}', want a whole number", flag, text));
  return *value;
}

std::vector<int> layer_list(const std::string& text, std::string_view flag) {
  std::vector<int> layers;
  for (const std::string& layer : comma_list(text)) layers.push_back(whole_number(layer, flag));
  return layers;
}

}  // namespace exeunt::apps
