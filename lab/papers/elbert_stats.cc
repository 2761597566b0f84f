// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/elbert_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "lab/papers/npy.h"
#include "lab/papers/python.h"

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
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
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
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(Code::resources, fmt::format("{}: cannot create folder: {}", folder.string(), error.message()));
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

}  // namespace exeunt
