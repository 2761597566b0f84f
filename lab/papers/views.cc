// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/views.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/policy/policy_text.h"
#include "lab/papers/npy.h"
#include "lab/papers/policy_flags.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 5> kNames{"deebert", "pabee", "elasticbert", "romebert", "elbert"};

// A metric's key in transformers; since version 3, which PABEE and ElasticBERT use, MNLI's carries its task.
std::string key_of(View view, Metric metric, const ViewRun& run) {
  const bool pair = std::any_of(run.score.metrics.begin(), run.score.metrics.end(),
                                [](const Score& score) { return score.metric == Metric::pearson; });
  const std::string task = lower(run.task);
  const bool prefixed = (view == View::pabee || view == View::elasticbert) && task.starts_with("mnli");
  switch (metric) {
    case Metric::accuracy:
      return prefixed ? task + "/acc" : "acc";
    case Metric::f1:
      return "f1";
    case Metric::matthews_correlation:
      return "mcc";
    case Metric::pearson:
      return "pearson";
    case Metric::spearmanr:
      return "spearmanr";
    case Metric::combined_score:
      return pair ? "corr" : "acc_and_f1";
    case Metric::exact_match:  // of multi-label data, which no original has
    case Metric::micro_f1:
    case Metric::macro_f1:
      break;
  }
  return std::string(name_of(metric));
}

using KeyedScores = std::vector<std::pair<std::string, double>>;

KeyedScores keyed(View view, const ViewRun& run) {
  KeyedScores scores;
  for (const Score& score : run.score.metrics) scores.emplace_back(key_of(view, score.metric, run), score.value);
  return scores;
}

KeyedScores sorted(KeyedScores scores) {
  std::sort(scores.begin(), scores.end());
  return scores;
}

// DeeBERT's choice of the one number to show: spearmanr, else f1, else mcc, else acc; exact matches of multi-label
// data.
double wanted_result(const std::vector<Score>& scores) {
  for (const Metric metric :
       {Metric::spearmanr, Metric::f1, Metric::matthews_correlation, Metric::accuracy, Metric::exact_match})
    for (const Score& score : scores)
      if (score.metric == metric) return score.value;
  throw Error(Code::usage, "the view needs gold labels: it shows a score");
}

[[noreturn]] void refuse(View view, const ViewRun& run, std::string_view wanted) {
  throw Error(Code::usage, fmt::format("view {}: it knows {}, got '{}'", name_of(view), wanted, str(run.policy)),
              "name one with --policy");
}

// A threshold as the original got it from its command line: a Python float of the digits people typed.
std::string threshold_text(float value) {
  return python_float(*number_of<double>(shortest(value)));
}

bool is_rule(const ViewRun& run, Rule rule) {
  return run.policy.rule == rule && run.policy.per_exit.empty();
}

// -1 is how DeeBERT says "never leave".
std::string deebert_threshold(View view, const ViewRun& run) {
  if (run.policy.rule == rule_of<FullRule>) return "-1";
  if (!is_rule(run, rule_of<EntropyRule>)) refuse(view, run, "entropy with one threshold, and full");
  return threshold_text(run.policy.params[0]);
}

std::string patience_text(const ViewRun& run) {
  return fmt::format("{}", static_cast<int>(run.policy.params[0]));
}

std::string elastic_setting(const ViewRun& run) {
  if (is_rule(run, rule_of<EntropyRule>)) return threshold_text(run.policy.params[0]);
  if (run.policy.rule == rule_of<PatienceRule>) return patience_text(run);
  refuse(View::elasticbert, run, "entropy with one threshold, and patience");
}

double elbert_threshold(const ViewRun& run) {
  if (const auto rule = elbert_rule_of(run.policy)) return rule->exit_thres;
  refuse(View::elbert, run, "window, nentropy, and confidence or minprob, which are its logits");
}

std::map<int, int64_t> counter_of(const ViewRun& run) {
  std::map<int, int64_t> counter;
  for (int layer = 1; layer <= run.layers.back(); ++layer) counter[layer] = 0;
  for (size_t exit = 0; exit < run.layers.size(); ++exit) counter[run.layers[exit]] += run.score.histogram[exit];
  return counter;
}

// Layers run over layers there are. One division, so that its last digit is the original's.
double cost_of(const ViewRun& run) {
  int64_t run_layers = 0, texts = 0;
  for (const auto& [layer, count] : counter_of(run)) {
    run_layers += layer * count;
    texts += count;
  }
  return static_cast<double>(run_layers) / static_cast<double>(texts * run.layers.back());
}

std::string deebert_lines(View view, const ViewRun& run) {
  return fmt::format("{}\nEval time: {}\nExit layer counter {}\nExpected saving {}\nResult: {}\n",
                     deebert_threshold(view, run), python_float(run.seconds), python_dict(counter_of(run)),
                     python_float(cost_of(run)), python_float(wanted_result(run.score.metrics)));
}

std::string score_lines(View view, const ViewRun& run, std::string_view indent) {
  std::string lines;
  for (const auto& [key, value] : sorted(keyed(view, run)))
    lines += fmt::format("{}{} = {}\n", indent, key, python_float(value));
  return lines;
}

std::string pabee_lines(const ViewRun& run) {
  if (run.policy.rule != rule_of<PatienceRule>) refuse(View::pabee, run, "patience");
  std::string lines = score_lines(View::pabee, run, "  ");
  // Its speed-up is the share of layers saved; and with patience 0 it keeps no statistics.
  if (run.policy.params[0] != 0)
    lines += fmt::format("*** Patience = {} Avg. Inference Layers = {:.2f} Speed Up = {:.2f} ***\n", patience_text(run),
                         run.score.cost.average_layers, run.score.cost.saved_fraction);
  return lines;
}

std::string elasticbert_lines(const ViewRun& run) {
  const std::string setting = elastic_setting(run);
  return fmt::format(
      "Evaluation for checkpoint {}\n{}*** {} = {} Avg. Inference Layers = {:.2f} Speed Up = {:.2f} ***\n",
      run.checkpoint, score_lines(View::elasticbert, run, "  "),
      run.policy.rule == rule_of<PatienceRule> ? "Patience" : "Early_exit_entropy", setting,
      run.score.cost.average_layers, run.score.cost.speedup_ratio);
}

std::string elbert_lines(const ViewRun& run) {
  (void)elbert_threshold(run);
  return fmt::format("Computation cost: {:.4f}\n***** Eval results  *****\n{}", run.score.cost.cost_fraction,
                     score_lines(View::elbert, run, ""));
}

// A table with one row per setting. The ratio follows "acc" alone, and the header keeps the metrics' own order while
// rows are sorted: for MRPC and QQP the last two columns are therefore exchanged, as in the original.
std::string elbert_table(std::span<const ViewRun> runs) {
  std::string table = ",exit_thres";
  for (const auto& [key, value] : keyed(View::elbert, runs.front()))
    table += "," + key + (key == "acc" ? ",compute_ratio" : "");
  table += "\n";
  for (const ViewRun& run : runs) {
    table += fmt::format("0,{:.2f},", elbert_threshold(run));
    for (const auto& [key, value] : sorted(keyed(View::elbert, run))) {
      table += fmt::format("{:.4f},", value);
      if (key == "acc") table += fmt::format("{:.4f},", run.score.cost.cost_fraction);
    }
    table += "\n";
  }
  return table;
}

// Written by Python's csv module, whose lines end in CR LF.
std::string exit_layer_table(const ViewRun& run) {
  std::string table = "index\texit_layer\r\n";
  for (size_t row = 0; row < run.exit_layers.size(); ++row)
    table += fmt::format("{}\t{}\r\n", row, run.exit_layers[row]);
  return table;
}

std::string prediction_table(const ViewRun& run, std::string_view line_end) {
  std::string table = fmt::format("index\tprediction{}", line_end);
  for (size_t row = 0; row < run.answers.size(); ++row)
    table += fmt::format("{}\t{}{}", row, run.answers[row], line_end);
  return table;
}

void write_predictions(View view, const std::filesystem::path& folder, const ViewRun& run) {
  const std::string task = lower(run.task);
  if (view == View::romebert) return write_atomically(folder / (task + ".tsv"), prediction_table(run, "\n"));
  if (view != View::elasticbert)
    throw Error(Code::usage, fmt::format("view {}: it answers no test split", name_of(view)));
  const std::string setting = elastic_setting(run);
  write_atomically(folder / fmt::format("{}_{}.tsv", task, setting), prediction_table(run, "\r\n"));
  write_atomically(folder / fmt::format("{}_infer_exit_layer_{}.tsv", task, setting), exit_layer_table(run));
}

}  // namespace

std::string_view name_of(View view) noexcept {
  return kNames[static_cast<size_t>(view)];
}

View view_named(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<View>(found - kNames.begin());
  const std::vector<std::string> known(kNames.begin(), kNames.end());
  throw Error(Code::usage, fmt::format("unknown view '{}'", name.substr(0, 64)), suggestion(name, known));
}

std::string view_heading(View view, const std::string& checkpoint) {
  // The name is left out of the heading of the final model, as in the original.
  if (view != View::pabee) return {};
  return fmt::format("Evaluation for checkpoint {}\n", checkpoint == "final" ? "" : checkpoint);
}

std::string view_lines(View view, const ViewRun& run) {
  switch (view) {
    case View::pabee:
      return pabee_lines(run);
    case View::elasticbert:
      return elasticbert_lines(run);
    case View::elbert:
      return elbert_lines(run);
    default:
      return deebert_lines(view, run);
  }
}

void write_view_files(View view, const std::filesystem::path& folder, std::span<const ViewRun> runs) {
  if (runs.empty()) return;
  if (runs.front().test) {
    create_folders(folder);
    for (const ViewRun& run : runs) write_predictions(view, folder, run);
    return;
  }
  for (const ViewRun& run : runs) (void)view_lines(view, run);  // refuses before anything is written
  create_folders(folder);
  if (view == View::elasticbert) {
    for (const ViewRun& run : runs) {
      const std::string name = fmt::format("{}_eval_exit_layer_{}.tsv", lower(run.task), elastic_setting(run));
      write_atomically(folder / name, exit_layer_table(run));
    }
    return;
  }
  const std::string results = view == View::elbert ? elbert_table(runs) : score_lines(view, runs.back(), "");
  write_atomically(folder / "eval_results.txt", results);
}

void write_deebert_arrays(const std::filesystem::path& folder, std::span<const ViewRun> runs,
                          std::span<const ExitScore> each_exit) {
  std::vector<std::string> thresholds;
  for (const ViewRun& run : runs) thresholds.push_back(deebert_threshold(View::deebert, run));
  create_folders(folder);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (thresholds[i] == "-1") continue;  // nothing leaves early, and nothing is saved
    write_deebert_npy(folder / fmt::format("entropy_{}.npy", thresholds[i]),
                      {.exits = counter_of(runs[i]),
                       .seconds = runs[i].seconds,
                       .cost_fraction = cost_of(runs[i]),
                       .score = wanted_result(runs[i].score.metrics)});
  }
  if (each_exit.empty()) return;
  std::vector<double> layers;
  for (const ExitScore& exit : each_exit) layers.push_back(wanted_result(exit.metrics));
  write_npy(folder / "each_layer.npy", layers, {static_cast<int64_t>(layers.size())});
}

}  // namespace exeunt
