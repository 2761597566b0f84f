// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/elbert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/model/config.h"
#include "lab/papers/npy.h"

namespace exeunt {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::array<std::string_view, 4> kQuantities{"loss", "entropy", "logits", "is_right"};

// The four quantities of one text at one exit. "logits" is what ELBERT's window looks at: P(class 0).
std::array<double, 4> quantities_of(const ExitTrace& trace, size_t row, int exit) {
  const std::span<const float> z = trace.at(row, exit);
  const double gold = trace.gold[row];
  if (trace.info.problem == Problem::regression)
    return {(z[0] - gold) * (z[0] - gold), 0, z[0], z[0] == trace.gold[row] ? 1.0 : 0.0};
  const Evidence evidence = compute_evidence(trace.exit_logits(z));
  const double peak = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const float logit : z) sum += std::exp(logit - peak);
  const double loss = std::log(sum) - (z[static_cast<size_t>(gold)] - peak);
  return {loss, evidence.nentropy, evidence.first, evidence.label == static_cast<int>(gold) ? 1.0 : 0.0};
}

// The p-quantile of sorted values by linear interpolation.
double quantile(const std::vector<double>& sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double above = sorted[std::min(below + 1, sorted.size() - 1)];
  return sorted[below] + (place - static_cast<double>(below)) * (above - sorted[below]);
}

// Columns are named by the layer's index from 0, the last one "ori".
std::string column_header(std::string_view name, const std::vector<int>& layers) {
  std::string header;
  for (size_t exit = 0; exit + 1 < layers.size(); ++exit) header += fmt::format(",{}_{}", name, layers[exit] - 1);
  return header;
}

std::string summary_table(std::string_view name, const std::vector<int>& layers, const std::vector<Summary>& columns) {
  constexpr std::pair<std::string_view, double Summary::*> kRows[] = {
      {"count", &Summary::count}, {"mean", &Summary::mean},  {"std", &Summary::deviation}, {"min", &Summary::low},
      {"25%", &Summary::first},   {"50%", &Summary::middle}, {"75%", &Summary::third},     {"max", &Summary::high}};
  std::string table = fmt::format("{},{}_ori\n", column_header(name, layers), name);
  for (const auto& [row, member] : kRows) {
    table += row;
    for (const Summary& column : columns)
      table += fmt::format(",{}", std::isnan(column.*member) ? "" : python_float(column.*member));
    table += "\n";
  }
  return table;
}

void write_quantity(const std::filesystem::path& folder, const ExitTrace& trace, const Departures* departures,
                    size_t quantity) {
  const auto exits = static_cast<size_t>(trace.exits);
  std::vector<double> values(trace.rows * exits, kNone);
  for (size_t row = 0; row < trace.rows; ++row)
    for (size_t exit = 0; exit < exits; ++exit)
      if (departures == nullptr || departures->exit[row] == exit)
        values[row * exits + exit] = quantities_of(trace, row, static_cast<int>(exit))[quantity];
  const std::string_view name = kQuantities[quantity], mode = departures == nullptr ? "all" : "exit";
  write_npy(folder / fmt::format("{}_{}_eval.npy", name, mode), values,
            {static_cast<int64_t>(trace.rows), trace.exits});
  std::vector<Summary> columns;
  for (size_t exit = 0; exit < exits; ++exit) {
    std::vector<double> column;
    for (size_t row = 0; row < trace.rows; ++row) column.push_back(values[row * exits + exit]);
    columns.push_back(summarise(std::move(column)));
  }
  write_atomically(folder / fmt::format("{}_info_{}_eval.csv", name, mode),
                   summary_table(name, trace.info.layers, columns));
}

}  // namespace

Summary summarise(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return {0, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / count) * (value - sum / count);
  return {.count = count,
          .mean = sum / count,
          .deviation = values.size() > 1 ? std::sqrt(squares / (count - 1)) : kNone,
          .low = values.front(),
          .first = quantile(values, 0.25),
          .middle = quantile(values, 0.5),
          .third = quantile(values, 0.75),
          .high = values.back()};
}

StageCounts stage_counts(const ExitTrace& trace, const PolicySpec& window, const Departures& departures) {
  check(window.rule == rule_of<WindowRule>, "stages are those of a window");
  StageCounts counts;
  for (size_t row = 0; row < trace.rows; ++row) {
    const uint8_t exit = departures.exit[row];
    const Evidence evidence = compute_evidence(trace.exit_logits(trace.at(row, exit)));
    const bool first = trace.info.problem != Problem::regression && evidence.nentropy < window.params[0];
    ++(first ? counts.entropy : exit + 1 == trace.exits ? counts.last : counts.window);
  }
  return counts;
}

void write_elbert_stats(const std::filesystem::path& folder, const ExitTrace& trace, const PolicySpec& policy,
                        const Departures& departures) {
  if (trace.info.problem == Problem::multi_label) {
    throw Error(Code::usage, "ELBERT's statistics are of one label per text, and the model gives several",
                "'exeunt eval' scores each label");
  }
  if (!trace.labelled()) throw Error(Code::usage, "ELBERT's statistics need gold labels");
  create_folders(folder);
  for (size_t quantity = 0; quantity < kQuantities.size(); ++quantity) {
    write_quantity(folder, trace, nullptr, quantity);
    write_quantity(folder, trace, &departures, quantity);
  }
  std::vector<int64_t> counts(static_cast<size_t>(trace.exits));
  double layers = 0;
  for (const uint8_t exit : departures.exit) {
    ++counts[exit];
    layers += trace.info.layers[exit];
  }
  std::string table = fmt::format("{},cnt_ori\n0", column_header("cnt_exit", trace.info.layers));
  for (const int64_t count : counts) table += fmt::format(",{}", count);
  write_atomically(folder / "cnt_info__exit_eval.csv", table + "\n");
  if (policy.rule == rule_of<WindowRule>) {
    const StageCounts stages = stage_counts(trace, policy, departures);
    write_atomically(folder / "cnt_info__stage_eval.csv", fmt::format(",cnt_entropy,cnt_window,cnt_ori\n0,{},{},{}\n",
                                                                      stages.entropy, stages.window, stages.last));
  }
  const auto rows = static_cast<double>(trace.rows);
  // json.dumps(indent=4, separators=(",", ":")) puts no space after the colon.
  write_atomically(folder / "info__exit_eval.json",
                   fmt::format("{{\n    \"avg_layer\":{},\n    \"compute_ratio\":{},\n    \"exit_sample_ratio\":{}\n}}",
                               python_float(layers / rows), python_float(layers / rows / trace.info.layers.back()),
                               python_float(1 - static_cast<double>(counts.back()) / rows)));
}

namespace {

// Fields that ELBERT's own code reads in no path of training or evaluation.
constexpr const char* kDead[] = {"kd_enable", "exit_weight_lst", "thres_lst"};
constexpr const char* kOther[] = {"use_dml", "use_label_smooth"};  // other losses than the paper's

bool is_on(const Json& config, const char* name) {
  const auto found = config.find(name);
  return found != config.end() && !found->is_null() && *found != false && !(found->is_array() && found->empty());
}

}  // namespace

ElbertTraining elbert_training(const Json& config, const std::string& where) {
  ElbertTraining out;
  if (!config.is_object() || (!config.contains("weight_name") && !config.contains("thres_name"))) return out;
  const ModelConfig model = parse_config(config, where);
  JsonObject fields(config, where, /*partial=*/true);
  const std::string weights = fields.string_or("weight_name", "dyn");
  if (weights == "equal") {
    out.set.emplace_back(R"(stages.0.objective={"kind":"sum"})");
  } else if (weights == "dyn") {
    if (fields.has("w_init")) out.set.push_back(fmt::format("stages.0.objective.init={}", fields.number("w_init")));
    if (fields.has("w_lr")) out.set.push_back(fmt::format("stages.0.objective.lr={}", fields.number("w_lr")));
  } else {
    fields.fail("weight_name", "'" + weights + "'", "dyn or equal");
  }
  const int hidden = model.spec.hidden;
  if (const auto& heads = model.heads.exit_layers) {
    const std::string groups = fmt::format("groups:{}", heads->heads);
    out.set.push_back(fmt::format("heads.classifier={}", heads->heads > 1 ? groups : "shared"));
    out.set.push_back(fmt::format("heads.pooler={}", heads->heads > 1 && !heads->shared_pooler ? groups : "shared"));
    out.set.push_back(fmt::format("heads.pool_input={}", word_of(heads->input)));
    if (heads->inner) out.set.push_back(fmt::format("heads.inner={}", fields.integer("fc_size2", 1, kMaxHidden)));
    if (heads->rule) out.set.push_back(fmt::format("policy={}", config_policy(*heads->rule, 0)));
    const int64_t width = fields.integer_or("fc_size1", 1, kMaxHidden, hidden);
    if (!heads->shared_pooler && width != hidden) {
      out.notices.push_back(
          fmt::format("{}: fc_size1 {} is not followed: poolers are as wide as the model, {}", where, width, hidden));
    }
  }
  for (const char* name : kDead) {
    if (is_on(config, name)) out.notices.push_back(fmt::format("{}: {} is not followed, as in ELBERT", where, name));
  }
  for (const char* name : kOther) {
    if (is_on(config, name)) out.notices.push_back(fmt::format("{}: {} is not followed", where, name));
  }
  return out;
}

ElbertTraining elbert_settings(const std::string& recipe, const std::filesystem::path& folder) {
  const ReadPath path = ReadPath::in(folder, "config.json");
  if (!recipe.starts_with("elbert") || !path_exists(path.path())) return {};
  ElbertTraining out = elbert_training(read_json(path), path.string());
  if (recipe != "elbert")
    std::erase_if(out.set, [](const std::string& field) { return field.starts_with("stages.0.objective"); });
  return out;
}

}  // namespace exeunt
