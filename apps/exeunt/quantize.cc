// SPDX-License-Identifier: Apache-2.0
// `exeunt quantize`: which matrices bear int8, judged on texts of the task, and a policy certified for what comes out.
#include "exeunt/flows/quantize.h"

#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/clock.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/exits/calibrate.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/flows/make_trace.h"
#include "exeunt/model/own_folder.h"
#include "exeunt/runtime/cpu/kernels.h"
#include "exeunt/runtime/engine.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct QuantizeFlags {
  RunFlags run;
  std::string precision = "int8", policy, max_drift = "2%", max_loss = "0.5%", budget = "1%";
  double confidence = 0.95;
  int trials = 64;
  uint64_t seed = 42;
};

// The map is chosen on these shares of the rows and certified on the others, so that the promise stays one.
constexpr SplitShares kShares{.fit = 0.3, .certify = 0.5};
constexpr size_t kFew = 64;  // texts that rank the matrices

// A part of the data, traced again and again with different exceptions.
class Texts {
 public:
  Texts(const Checkpoint& model, const QuantizeFlags& flags, Dataset data)
      : model_(model), flags_(flags), tokenizer_(load_tokenizer(model.folder())), data_(std::move(data)) {}

  [[nodiscard]] ExitTrace trace(Precision precision, const Exceptions& exceptions, std::span<const size_t> rows) const {
    Dataset part = data_;
    part.examples.clear();
    for (const size_t row : rows) part.examples.push_back(data_.examples[row]);
    return make_trace(model_, *tokenizer_, std::move(part),
                      {.max_length = flags_.run.max_length,
                       .threads = flags_.run.threads,
                       .precision = precision,
                       .exceptions = exceptions});
  }
  [[nodiscard]] size_t size() const noexcept { return data_.examples.size(); }

 private:
  const Checkpoint& model_;
  const QuantizeFlags& flags_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  Dataset data_;
};

std::vector<size_t> rows_of(const ExitTrace& trace) {
  std::vector<size_t> rows;
  for (const int64_t index : trace.index) rows.push_back(static_cast<size_t>(index));
  return rows;
}

// The rows of the three parts, by splitting a trace that holds nothing but row numbers.
CalibrationData split_rows(size_t count, uint64_t seed) {
  ExitTrace numbers;
  numbers.rows = count;
  numbers.exits = 1;
  numbers.width = 2;
  numbers.info.labels = {"a", "b"};
  numbers.info.layers = {1};
  numbers.logits.resize(2 * count);
  numbers.gold.resize(count);
  numbers.lengths.resize(count);
  for (size_t i = 0; i < count; ++i) numbers.index.push_back(static_cast<int64_t>(i));
  return split_for_calibration(numbers, seed, kShares);
}

PolicySpec policy_for(const Common& common, const QuantizeFlags& flags, const Checkpoint& model) {
  if (!flags.policy.empty()) return parse_policy(flags.policy);
  const fs::path path = model.folder() / "policy.json";
  if (path_exists(path)) {
    const PolicyFile file = read_policy_file(path);
    const auto entry = file.entries.find("fp32");
    if (file.weights == weights_sha256(model) && entry != file.entries.end()) {
      notice(common, fmt::format("exits are compared under fp32's policy {}", str(entry->second.policy)));
      return entry->second.complete();
    }
  }
  notice(common, "the model has no fp32 policy; answers are compared at full depth (see --policy)");
  return parse_policy("full");
}

void add_row(const std::string& what, const Change& change, std::vector<std::vector<std::string>>& rows) {
  rows.push_back({what, fmt::format("{:.2f}", 100 * change.drift.labels),
                  fmt::format("{:.2f}", 100 * change.drift.exits), fmt::format("{:.2f}", 100 * change.before),
                  fmt::format("{:.2f}", 100 * change.after)});
}

OrderedJson change_json(const Change& change) {
  return {{"labels_changed", change.drift.labels},
          {"exits_changed", change.drift.exits},
          {"changed", change.changed},
          {"quality_before", change.before},
          {"quality_after", change.after}};
}

// The certified entry of this precision, or nothing where the rows are too few; then why not.
struct Certified {
  std::optional<Calibration> calibration = {};
  std::string why_not = {};
};
Certified certify(const QuantizeFlags& flags, const CalibrationData& data, const Checkpoint& model) {
  CalibrationPlan plan;
  plan.budgets = {share_of(flags.budget, "--max-drop")};
  plan.delta = 1 - flags.confidence;
  plan.range = model.exits().range;
  try {
    Certified out{.calibration = calibrate(data, plan)};
    if (auto& certificate = out.calibration->entry.certificate) {
      certificate->engine = data.certify.info.engine;
      certificate->tool = version();
      certificate->created = now_rfc3339();
    }
    return out;
  } catch (const Error& error) {
    if (error.code() != Code::failure) throw;
    return {.calibration = {}, .why_not = error.what()};
  }
}

// precision.json with the exceptions of one precision exchanged.
void write_map(const Checkpoint& model, Precision precision, const Exceptions& exceptions) {
  PrecisionMap map = find_precision_map(model.folder(), model.spec());
  map.by_precision[precision] = exceptions;
  write_atomically(model.folder() / kPrecisionFile, precision_map_text(map));
}

void write_policy(const Checkpoint& model, const std::string& precision, const PolicyEntry& entry) {
  const fs::path path = policy_path(model);
  const PolicyLock lock(path);
  PolicyFile file{.weights = weights_sha256(model), .default_precision = precision, .entries = {}};
  if (path_exists(path)) {
    PolicyFile old = read_policy_file(path);
    if (old.weights == file.weights) file = std::move(old);
  }
  file.entries[precision] = entry;
  lock.write(file);
}

void run(const Common& common, const QuantizeFlags& flags) {
  const double max_changed = share_of(flags.max_drift, "--max-drift"),
               max_drop = share_of(flags.max_loss, "--max-loss");
  (void)share_of(flags.budget, "--max-drop");
  const Checkpoint model = Checkpoint::open(flags.run.model);
  for (const std::string& text : model.notices()) notice(common, text);
  require_heads(model);
  (void)policy_path(model);  // refuses a folder that is not ours before anything runs
  const Precision precision = *precision_named(flags.precision);
  const Texts texts(model, flags, data_for(common, flags.run, model));
  const CalibrationData rows = split_rows(texts.size(), flags.seed);
  const std::vector<size_t> choose = rows_of(rows.fit), certify_rows = rows_of(rows.certify),
                            report_rows = rows_of(rows.report);
  const std::span<const size_t> few(choose.data(), std::min(choose.size(), kFew));

  const ExitTrace before = texts.trace(Precision::fp32, {}, choose), before_few = texts.trace(Precision::fp32, {}, few);
  const PolicySpec policy = policy_for(common, flags, model);
  const QuantizeOutcome outcome =
      choose_exceptions(before, before_few,
                        {.matrices = matrix_names(model.spec()),
                         .higher = choose_kernels().bf16 ? Precision::bf16 : Precision::fp32,
                         .policy = policy,
                         .max_changed = max_changed,
                         .max_drop = max_drop,
                         .trials = flags.trials,
                         .trace =
                             [&](const Exceptions& exceptions, bool part) {
                               return texts.trace(precision, exceptions, part ? few : std::span<const size_t>(choose));
                             },
                         .say = [&](const std::string& text) { notice(common, text); }});

  // The promise, and how it went, on rows that chose nothing.
  const CalibrationData fresh{.fit = texts.trace(precision, outcome.exceptions, choose),
                              .certify = texts.trace(precision, outcome.exceptions, certify_rows),
                              .report = texts.trace(precision, outcome.exceptions, report_rows)};
  const Change reported = change_between(texts.trace(Precision::fp32, {}, report_rows), fresh.report, policy);
  Certified certified = certify(flags, fresh, model);
  write_map(model, precision, outcome.exceptions);
  if (certified.calibration) {
    certified.calibration->entry.precision_map = precision_map_sha256(outcome.exceptions);
    write_policy(model, flags.precision, certified.calibration->entry);
  } else {
    notice(common, fmt::format("no policy was certified for {}: {}; it runs at full depth", flags.precision,
                               certified.why_not));
  }
  write_card(model.folder(), model, card_facts(model.folder(), model.folder()));
  if (!outcome.within) {
    notice(common, fmt::format("--max-drift and --max-loss were not kept: {:.2f} % of answers or exits still change",
                               100 * outcome.chosen.changed));
  }

  if (common.json) {
    OrderedJson out;
    out["out"] = (model.folder() / kPrecisionFile).string();
    out["precision"] = flags.precision;
    out["exceptions"] = OrderedJson::object();
    for (const auto& [name, kept] : outcome.exceptions) out["exceptions"][name] = std::string(name_of(kept));
    out["within"] = outcome.within;
    out["trials"] = outcome.trials;
    out["plain"] = change_json(outcome.plain);
    out["chosen"] = change_json(outcome.chosen);
    out["report"] = change_json(reported);
    out["policy"] =
        certified.calibration ? OrderedJson(str(certified.calibration->entry.policy)) : OrderedJson(nullptr);
    return print_json(out);
  }
  std::vector<std::vector<std::string>> table;
  add_row("all in " + flags.precision, outcome.plain, table);
  add_row(fmt::format("{} kept higher", outcome.exceptions.size()), outcome.chosen, table);
  add_row("the same, fresh rows", reported, table);
  print_table({"", "labels changed %", "exits changed %", "quality before", "after"}, table);
  if (certified.calibration) {
    fmt::print("\n{} runs {}: at most {} of answers differ from full depth, confidence {:g} %\n", flags.precision,
               str(certified.calibration->entry.policy), flags.budget, 100 * flags.confidence);
  }
  fmt::print("wrote {} ({} of {} matrices kept in a higher precision, {} trials)\n",
             (model.folder() / kPrecisionFile).string(), outcome.exceptions.size(), matrix_names(model.spec()).size(),
             outcome.trials);
}

}  // namespace

void add_quantize(CommandLine& line) {
  const auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* verb =
      add_verb(line, "quantize", "Choose which matrices run in int8, and certify a policy for it",
               {"exeunt quantize runs/my", "exeunt quantize models/sst2 --precision int8 --task SST-2 --data glue_data",
                "exeunt quantize models/topics --data my.csv --policy entropy:0.2 --max-drift 1%"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL", flags->run.model, "Model folder of ours")->required();
  add_text_flags(*verb, flags->run);
  verb->add_option("--precision", flags->precision, "int8, or bf16")
      ->check(CLI::IsMember({"int8", "bf16"}))
      ->capture_default_str();
  verb->add_option("--policy", flags->policy, "Under which exits are compared; fp32's own if left out");
  verb->add_option("--max-drift", flags->max_drift, "Share of texts whose answer or exit may change against fp32")
      ->capture_default_str();
  verb->add_option("--max-loss", flags->max_loss, "Accuracy that may be lost against fp32")->capture_default_str();
  verb->add_option("--max-drop", flags->budget, "Budget of the certified policy, against full depth in this precision")
      ->capture_default_str();
  verb->add_option("--confidence", flags->confidence, "Of the certified policy")
      ->check(CLI::Range(0.5, 0.999999))
      ->capture_default_str();
  verb->add_option("--trials", flags->trials, "Most passes over the texts")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("--seed", flags->seed, "Draws which rows choose, certify and report")->capture_default_str();
}

}  // namespace exeunt::apps
