// SPDX-License-Identifier: Apache-2.0
// `exeunt attach`: exits for a finished classifier, learned from texts without labels, with a certified policy.
#include <csignal>
#include <memory>

#include <fmt/ranges.h>

#include "apps/exeunt/calibrate_output.h"
#include "apps/exeunt/command.h"
#include "apps/exeunt/field_flags.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/attach/attach_model.h"
#include "exeunt/certify/calibrate_model.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"

namespace exeunt::apps {
namespace {

struct AttachFlags {
  AttachJob job;
  BudgetFlags budget{.budgets = {"2%"}};
  std::string format, precision, out;
  bool tab_pair = false;
  bool no_exit_0 = false;
  size_t exit_0_mib = NgramSettings{}.bytes >> 20;
};

// Labels and texts come in files of the same columns.
TextColumns text_columns(const AttachFlags& flags) {
  const UserColumns& columns = flags.job.labelled.columns;
  TextColumns out{
      .text = columns.text, .pair = columns.pair, .tab_pair = flags.tab_pair, .separator = columns.separator};
  if (!columns.cluster.empty() && columns.cluster != kNoCluster) out.keep = {columns.cluster};
  if (columns.format == DataFormat::csv) out.form = DataFormat::csv;
  if (!flags.format.empty()) out.form = named<DataFormat>(flags.format);
  return out;
}

// "bert" of models/bert/, of org/bert, or of . in a folder of that name.
std::string default_out(const std::string& model) {
  std::filesystem::path path = std::filesystem::absolute(model).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string() + "-fast";
}

AttachJob job_of(const AttachFlags& flags) {
  AttachJob job = flags.job;
  if (job.texts.files.empty() && job.labelled.path.empty())
    throw Error(Code::usage, "--texts is required", "a file with one text per line, or CSV, TSV or JSONL");
  job.texts.columns = text_columns(flags);
  job.plan.cluster_by = job.labelled.columns.cluster;
  job.out = flags.out.empty() ? default_out(job.model) : flags.out;
  job.precision = precision_named(flags.precision);
  job.exit_0_bytes = flags.no_exit_0 ? 0 : flags.exit_0_mib << 20;
  flags.budget.put_into(job.plan);
  if (!flags.budget.range.empty()) job.plan.range = value_range(flags.budget.range, "--range");
  // Everything is written in one go at the end. An interruption before that leaves nothing; during it, it waits.
  job.writing = [](bool writing) {
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, writing ? SIG_IGN : SIG_DFL);
  };
  return job;
}

// What to run with the new folder.
std::vector<std::string> next_commands(const Attached& done) {
  return {fmt::format("exeunt serve {}", done.out.string()),
          fmt::format("exeunt predict {} texts.txt", done.out.string())};
}

OrderedJson budget_json(const Attached& done, size_t number) {
  const BudgetReport& budget = done.budgets[number];
  OrderedJson out;
  out["max_drop"] = budget.outcome.max_drop;
  out["policy"] = str(budget.outcome.policy);
  out["average_layers"] = budget.score.cost.average_layers;
  out["speedup_ratio"] = budget.score.cost.speedup_ratio;
  out["milliseconds"] = done.times.milliseconds[number + 2];
  out["speedup"] = speedup_json(done, number);
  out["report_risk"] = budget.outcome.report;
  out["agreement"] = budget.score.agreement;
  out["metrics"] = metrics_json(budget.score.metrics);
  if (budget.order) {
    const OrderKept& order = *budget.order;
    out["order"] = {
        {"questions", order.questions}, {"answers", order.answers}, {"top", order.top}, {"pairs", order.pairs}};
  }
  return out;
}

void print_attached_json(const Attached& done, double confidence) {
  OrderedJson out;
  out["out"] = done.out.string();
  out["texts"] = {{"rows", done.rows},
                  {"blank", done.blank},
                  {"truncated", done.truncated},
                  {"distinct", done.distinct},
                  {"learned", done.parts.learn},
                  {"fit", done.parts.fit},
                  {"certify", done.parts.certify},
                  {"report", done.parts.report}};
  out["engine"] = done.engine;
  out["precision"] = name_of(done.setting.precision);
  out["exceptions"] = done.setting.exceptions.size();
  out["threads"] = done.threads;
  out["max_length"] = done.max_length;
  out["confidence"] = confidence;
  out["promise"] = promise_of(done.calibration.entry);
  if (done.problem == Problem::regression) {
    out["range"] = {done.range.first, done.range.second};
    out["range_from"] = done.range_from;
  }
  out["exits"] = OrderedJson::array();
  for (const ExitReport& exit : done.exits) {
    out["exits"].push_back({{"layer", exit.layer},
                            {done.problem == Problem::regression ? "mean_difference" : "agreement", exit.agreement},
                            {"metrics", metrics_json(exit.metrics)}});
  }
  out["full_depth"] = {{"precision", "fp32"},
                       {"average_layers", done.full.cost.average_layers},
                       {"milliseconds", done.times.milliseconds.front()},
                       {"metrics", metrics_json(done.full.metrics)}};
  out["budgets"] = OrderedJson::array();
  for (size_t i = 0; i < done.budgets.size(); ++i) out["budgets"].push_back(budget_json(done, i));
  out["seconds"] = done.seconds;
  out["next"] = next_commands(done);
  print_json(out);
}

void add_metrics(const std::vector<Score>& metrics, std::vector<std::string>& row) {
  for (const Score& metric : metrics) row.push_back(fmt::format("{:.2f}", 100 * metric.value));
}

void print_exits(const Attached& done) {
  std::vector<std::string> header{"exit after layer",
                                  done.problem == Problem::regression ? "mean difference" : "agreement"};
  for (const Score& metric : done.full.metrics) header.emplace_back(name_of(metric.metric));
  std::vector<std::vector<std::string>> rows;
  for (const ExitReport& exit : done.exits) {
    rows.push_back({fmt::format("{}", exit.layer), done.problem == Problem::regression
                                                       ? fmt::format("{:.4f}", exit.agreement)
                                                       : fmt::format("{:.2f}%", 100 * exit.agreement)});
    add_metrics(exit.metrics, rows.back());
  }
  print_table(header, rows);
}

void print_order(const Attached& done) {
  for (const BudgetReport& budget : done.budgets) {
    if (!budget.order) continue;
    fmt::print(
        "{:g} %: of {} questions with {:.1f} answers each, {:.2f} % keep the best answer; {:.2f} % of pairs keep "
        "their order\n",
        100 * budget.outcome.max_drop, budget.order->questions, budget.order->answers, 100 * budget.order->top,
        100 * budget.order->pairs);
  }
}

void print_details(const Attached& done) {
  print_exits(done);
  fmt::print("\n");
  for (size_t i = 0; i < done.budgets.size(); ++i) {
    fmt::print("{:g} %: {}, {:.3g} ms of processor time a text; full depth in {} {:.3g} ms, in fp32 {:.3g} ms\n",
               100 * done.budgets[i].outcome.max_drop, str(done.budgets[i].outcome.policy),
               done.times.milliseconds[i + 2], str(done.setting), done.times.milliseconds[1],
               done.times.milliseconds[0]);
  }
  print_order(done);
  if (done.problem == Problem::regression)
    fmt::print("range: {:g} to {:g}, {}\n", done.range.first, done.range.second, done.range_from);
  fmt::print("split: {} train, {} validation, {} certification, {} test ({} rows, {} distinct texts)\n",
             done.parts.learn, done.parts.fit, done.parts.certify, done.parts.report, done.rows, done.distinct);
  fmt::print("full depth in fp32 answers texts of up to {} tokens as before, bit for bit\n\n", done.max_length);
}

void run(const Common& common, const AttachFlags& flags) {
  const Attached done = attach_model(job_of(flags), observer(common));
  if (common.json) return print_attached_json(done, flags.budget.confidence);
  if (common.verbose) print_details(done);
  std::vector<PolicyScore> early;
  for (const BudgetReport& budget : done.budgets) early.push_back(budget.score);
  print_certified(done, done.full, early);
  fmt::print("wrote {} in {}\nnext: {}\n", done.out.string(), clock_text(done.seconds),
             fmt::join(next_commands(done), "   or   "));
}

}  // namespace

void add_attach(CommandLine& line) {
  const auto flags = std::make_shared<AttachFlags>();
  CLI::App* verb =
      add_verb(line, "attach", "Give a finished classifier exits, learned from unlabelled texts, and certify them",
               {"exeunt attach ./my-finetuned-bert --texts log.txt --max-drop 2% --out fast",
                "exeunt attach org/reranker --texts pairs.tsv --text-column query --pair-column passage --out fast",
                "exeunt attach models/topics --texts a.jsonl b.jsonl --max-drop 1%,2%,5% --out fast",
                "exeunt attach models/sst2 --data dev.csv --force --out fast"},
               [flags, &common = line.common] { run(common, *flags); });
  AttachJob& job = flags->job;
  verb->add_option("MODEL", job.model, "Model folder with a classifier or regressor, or org/name in the local cache")
      ->required();
  verb->add_option("--texts", job.texts.files, "Files of texts: one per line, or CSV, TSV, JSONL; - = standard input");
  verb->add_option("--learned", job.learned,
                   "Files of texts that the model was trained on, of the same form: learned from, never certified");
  verb->add_option("--format", flags->format, "Format of the texts")
      ->default_str("by the file extension")
      ->check(one_of({"text", "csv", "tsv", "jsonl"}));
  verb->add_flag("--pair", flags->tab_pair, "Plain text: each line holds two texts separated by a tab");
  add_data_flags(*verb, job.labelled);
  add_cluster_flag(*verb, job.labelled.columns);
  for (const char* of_labels : {"--task", "--split", "--label-column", "--label-columns", "--labels", "--multi-label",
                                "--regression", "--skip-bad", "--limit"})
    verb->get_option(of_labels)->needs(verb->get_option("--data"));
  add_budget_flags(*verb, flags->budget,
                   "Maximum share of answers that may differ from full depth; repeatable, all certified together");
  add_thresholds_flag(*verb, job.thresholds);
  verb->add_option("--max-texts", job.texts.limit, "Maximum number of distinct texts, drawn at random")
      ->check(number_in(10, 10000000))
      ->capture_default_str();
  add_length_flag(*verb, job.texts.max_length);
  add_threads_flag(*verb, job.texts.threads);
  verb->add_option("--precision", flags->precision, "Precision in which the model runs and is certified")
      ->check(one_of({"fp32", "bf16", "int8"}))
      ->default_str("runs in fp32; certified in the fastest that keeps the promise");
  add_field_flags(*verb, job.heads);
  verb->get_option("--lr")->default_str("0.001; 0.003 for regression and for ten labels or more");
  verb->add_option("--seed", job.texts.seed, "Seed of the draw, the split and the exits")->capture_default_str();
  verb->add_flag("--no-exit0", flags->no_exit_0,
                 "Leave out the exit before the first layer, which answers from the words alone");
  verb->add_option("--exit0-size", flags->exit_0_mib, "Size of the table of that exit at most, in MiB; 0 = --no-exit0")
      ->check(number_in(0, 128))
      ->capture_default_str()
      ->excludes(verb->get_option("--no-exit0"));
  add_verbose_flag(line, *verb);
  verb->add_flag("--force", job.force, "Replace the exits that the model has, and a folder that exists");
  verb->add_option("--out", flags->out, "Output folder")->default_str("the model's name with -fast");
}

}  // namespace exeunt::apps
