// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/model_flags.h"

#include "apps/exeunt/option_table.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/number.h"
#include "exeunt/eval/report.h"
#include "exeunt/originals/policy_flags.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/policy/policy_grid.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt::apps {
namespace {

// What an old flag says today: "patience:3|4|5" for settings of one rule, else one --policy each.
std::string new_form(const std::vector<PolicySpec>& policies) {
  std::string listed = str(policies.front());
  std::string apart = fmt::format("--policy '{}'", listed);
  bool one_rule = true;
  for (size_t i = 1; i < policies.size(); ++i) {
    const std::string text = str(policies[i]);
    const size_t colon = text.find(':');
    one_rule = one_rule && policies[i].rule == policies[0].rule && colon != std::string::npos &&
               text.find(',') == std::string::npos;
    if (one_rule) listed += "|" + text.substr(colon + 1);
    apart += fmt::format(" --policy '{}'", text);
  }
  return one_rule ? fmt::format("--policy '{}'", listed) : apart;
}

void add_old(const Common& common, std::string_view flag, std::vector<PolicySpec> policies,
             std::vector<PolicySpec>& out) {
  notice(common, fmt::format("{} is an old name; use {}", flag, new_form(policies)));
  for (PolicySpec& policy : policies) out.push_back(std::move(policy));
}

std::optional<float> threshold_of(const SettingFlags& flags) {
  if (flags.regression_threshold.empty()) return std::nullopt;
  if (flags.patience.empty())
    throw Error(Code::usage, "--regression-threshold goes with --patience", "use --policy 'patience:6,tol=0.1'");
  const auto value = number_of<float>(flags.regression_threshold);
  if (!value || *value < 0) {
    throw Error(Code::usage,
                fmt::format("--regression-threshold: got '{}', want 0 or more", flags.regression_threshold));
  }
  return value;
}

void use_exits(const SettingFlags& flags, std::vector<PolicySpec>& policies) {
  const std::vector<int> exits = layer_list(flags.exits, "--exits");
  for (PolicySpec& policy : policies) policy.exits = exits;
}

}  // namespace

Observer observer(const Common& common) {
  return {.notice = [common](const std::string& text) { notice(common, text); },
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
      ->check(CLI::IsMember({"spiece", "tokenizers"}));
}

void add_length_flag(CLI::App& verb, int& max_length) {
  verb.add_option("--max-length", max_length, "Maximum tokens per text; longer texts are truncated")
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N")
      ->default_str("the certificate's, else the training's, else 128");
}

void add_threads_flag(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "Threads; 0 = one per processor it may use")
      ->check(CLI::Range(0, 4096))
      ->type_name("N")
      ->capture_default_str();
}

CLI::Option* add_device_flag(CLI::App& verb, Device& device) {
  return verb
      .add_option_function<std::string>(
          "--device", [&device](const std::string& text) { device = parse_device(text); },
          "Where the model runs: cpu, cuda, cuda:N, or auto: the first GPU if there is one, else the CPU")
      ->type_name("DEVICE")
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
  verb.add_option("--trace", options.trace, "Existing trace of this model, to be used instead of running it")
      ->type_name("FILE");
  add_precision_flags(verb, options);
}

void add_precision_flags(CLI::App& verb, MeasureOptions& options) {
  verb.add_option("--precision", options.precision, "fp32, bf16, int8, or external for imported arrays")
      ->check(CLI::IsMember(policy_precisions()))
      ->default_str("the trace's, else that of policy.json, else bf16 where the device supports it")
      ->type_name("P");
  add_device_flag(verb, options.device);
  verb.add_option_function<std::string>(
          "--engine", [&options](const std::string& name) { options.reference = name == "reference"; },
          "cpu, or reference: a plain fp32 implementation, exact and slow")
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->type_name("NAME")
      ->default_str("that of --device");
}

void add_new_rows_flag(CLI::App& verb, MeasureOptions& options) {
  verb.add_flag("--strict-new", options.strict_new,
                "Also leave out texts that contain one the model learned, or are part of one");
}

void add_profile_flag(CLI::App& verb, MeasureOptions& options) {
  verb.add_option("--profile", options.profile, "Profile to predict latency from")
      ->default_str("the model's profile.json")
      ->type_name("FILE");
}

void add_score_flags(CLI::App& verb, MeasureOptions& options) {
  add_profile_flag(verb, options);
  verb.add_option_function<std::string>(
          "--compat", [&options](const std::string&) { options.last_ramp = true; },
          "deebert-last-ramp: answer from the last layer's untrained ramp, as DeeBERT's code does")
      ->check(CLI::IsMember({"deebert-last-ramp"}))
      ->type_name("NAME");
}

void add_engine_flags(CLI::App& verb, EngineOptions& options) {
  verb.add_option_function<std::string>(
          "--precision", [&options](const std::string& name) { options.precision = precision_named(name); },
          "fp32, bf16 or int8")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}))
      ->default_str("the model's, else bf16 where the device supports it");
  add_device_flag(verb, options.device);
  add_threads_flag(verb, options.threads);
}

void add_setting_flags(CLI::App& verb, SettingFlags& flags, const std::string& name) {
  verb.add_option(name, flags.policies,
                  "Policies to sweep: ranges (entropy:0..0.7/0.05) and lists (patience:3|4|5); repeatable")
      ->allow_extra_args(false)
      ->default_str("a standard set")
      ->type_name("POLICY");
  verb.add_option("--exits", flags.exits, "Comma-separated layers whose exits are used")
      ->default_str("all")
      ->type_name("LAYERS");
  constexpr const char* kGroup = kOriginals;
  verb.add_option("--patience", flags.patience, "PABEE: 3,4,5 is --policy 'patience:3|4|5'")
      ->type_name("LIST")
      ->group(kGroup);
  verb.add_option("--regression-threshold", flags.regression_threshold, "PABEE: the tolerance of a regression")
      ->type_name("X")
      ->group(kGroup);
  verb.add_option("--early-exit-entropy", flags.entropy, "DeeBERT, ElasticBERT: 0.1,0.2 is --policy 'entropy:0.1|0.2'")
      ->type_name("LIST")
      ->group(kGroup);
  verb.add_option("--lte-th", flags.lte, "BERxiT: 0.2, or value,repeat groups as in '0.3,4;0.2,8'")
      ->type_name("GROUPS")
      ->group(kGroup);
}

std::vector<PolicySpec> named_settings(const Common& common, const SettingFlags& flags) {
  std::vector<PolicySpec> out;
  for (const std::string& text : flags.policies) {
    for (PolicySpec& policy : parse_sweep(text)) out.push_back(std::move(policy));
  }
  const std::optional<float> tolerance = threshold_of(flags);
  if (!flags.patience.empty()) add_old(common, "--patience", patience_list(flags.patience, tolerance), out);
  if (!flags.entropy.empty()) add_old(common, "--early-exit-entropy", entropy_list(flags.entropy), out);
  if (!flags.lte.empty()) add_old(common, "--lte-th", {lte_groups(flags.lte)}, out);
  use_exits(flags, out);
  return out;
}

std::vector<PolicySpec> settings_or_default(const Common& common, const std::vector<PolicySpec>& named,
                                            const SettingFlags& flags, const ExitTrace& trace) {
  std::vector<PolicySpec> out = named;
  if (!flags.regression_threshold.empty() && !trace.info.regression) {
    notice(common, "--regression-threshold is ignored: the model predicts classes");
    for (PolicySpec& policy : out)
      if (policy.rule == rule_of<PatienceRule>) policy.params[1] = PatienceRule::kNoTolerance;
  }
  if (!out.empty()) return out;
  out = default_settings(trace);
  use_exits(flags, out);
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
