// SPDX-License-Identifier: Apache-2.0
// `exeunt quantize`: which matrices can run in int8, judged on texts of the task, and a certified policy for the
// result.
#include "exeunt/certify/quantize.h"

#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"

namespace exeunt::apps {
namespace {

struct QuantizeFlags {
  QuantizeOptions quantize;
  std::string precision = "int8", max_drift = "2%", max_accuracy_drop = "0.5%", max_drop = "1%";
};

void add_row(const std::string& what, const Change& change, std::vector<std::vector<std::string>>& rows) {
  rows.push_back(
      {what, percent(change.drift.labels), percent(change.drift.exits), percent(change.before), percent(change.after)});
}

OrderedJson change_json(const Change& change) {
  return {{"labels_changed", change.drift.labels},
          {"exits_changed", change.drift.exits},
          {"changed", change.changed},
          {"quality_before", change.before},
          {"quality_after", change.after}};
}

void run(const Common& common, const QuantizeFlags& flags) {
  QuantizeOptions options = flags.quantize;
  options.precision = *precision_named(flags.precision);
  options.max_changed = share_of(flags.max_drift, "--max-drift");
  options.max_accuracy_drop = share_of(flags.max_accuracy_drop, "--max-accuracy-drop");
  options.max_drop = share_of(flags.max_drop, "--max-drop");
  const Quantized done = quantize_model(options, observer(common));
  const QuantizeOutcome& outcome = done.outcome;
  const std::string policy = done.calibration ? str(done.calibration->entry.policy) : "";

  if (common.json) {
    OrderedJson out;
    out["out"] = done.out.string();
    out["precision"] = flags.precision;
    out["exceptions"] = OrderedJson::object();
    for (const auto& [name, kept] : outcome.exceptions) out["exceptions"][name] = std::string(name_of(kept));
    out["within"] = outcome.within;
    out["trials"] = outcome.trials;
    out["plain"] = change_json(outcome.plain);
    out["chosen"] = change_json(outcome.chosen);
    out["report"] = change_json(done.reported);
    out["policy"] = policy.empty() ? OrderedJson(nullptr) : OrderedJson(policy);
    return print_json(out);
  }
  std::vector<std::vector<std::string>> table;
  add_row("all in " + flags.precision, outcome.plain, table);
  add_row(fmt::format("{} kept higher", outcome.exceptions.size()), outcome.chosen, table);
  add_row("the same, fresh rows", done.reported, table);
  print_table({"", "labels changed %", "exits changed %", "quality before", "after"}, table);
  if (!policy.empty()) {
    fmt::print("\n{} runs {}: {}\n", flags.precision, policy, promise_of(done.calibration->entry));
  }
  fmt::print("wrote {} ({} of {} matrices kept in a higher precision, {} trials)\n", done.out.string(),
             outcome.exceptions.size(), done.matrices, outcome.trials);
}

}  // namespace

void add_quantize(CommandLine& line) {
  const auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* verb =
      add_verb(line, "quantize", "Quantize a model: choose which matrices run in int8, and certify a policy",
               {"exeunt quantize runs/my", "exeunt quantize models/sst2 --precision int8 --task SST-2 --data glue_data",
                "exeunt quantize models/topics --data my.csv --policy entropy:0.2 --max-drift 1%"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL", flags->quantize.run.model, "Model folder in Exeunt's format")->required();
  add_text_flags(*verb, flags->quantize.run);
  add_new_rows_flag(*verb, flags->quantize.run);
  verb->add_option("--precision", flags->precision, "int8 or bf16")
      ->check(one_of({"int8", "bf16"}))
      ->capture_default_str();
  verb->add_option("--policy", flags->quantize.policy, "Exit policy under which exits are compared")
      ->default_str("fp32's own");
  verb->add_option("--max-drift", flags->max_drift, "Maximum share of texts whose label or exit differs from fp32")
      ->capture_default_str();
  verb->add_option("--max-accuracy-drop", flags->max_accuracy_drop, "Maximum loss of accuracy against fp32")
      ->capture_default_str();
  verb->add_option("--max-drop", flags->max_drop, "Loss budget of the certified policy, against fp32 at full depth")
      ->capture_default_str();
  add_confidence_flag(*verb, flags->quantize.confidence, "Confidence of the certified policy");
  verb->add_option("--trials", flags->quantize.trials, "Maximum passes over the texts")
      ->check(number_in(1, 100000))
      ->capture_default_str();
  verb->add_option("--seed", flags->quantize.seed, "Seed of the split into rows that choose, certify and report")
      ->capture_default_str();
}

}  // namespace exeunt::apps
