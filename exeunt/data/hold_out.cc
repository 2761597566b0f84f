// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/hold_out.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/data/rows.h"

namespace exeunt {
namespace {

constexpr double kMostEval = 2000, kMostCertify = 4000;

enum class Part { train, eval, certify };

// Rows with the same text or of the same cluster, by the least hash of their texts: an order independent of the file's.
using SameTexts = std::map<std::string, std::vector<size_t>>;

std::string hash_of(const Example& example) {
  Sha256 hash;
  hash.add(example.text);
  if (example.pair) {
    hash.add(std::string_view("\0", 1));
    hash.add(*example.pair);
  }
  return hash.hex();
}

// What a row counts as where each part gets its share. Of several labels one represents the row, which suffices.
float stratum_of(const Dataset& data, const Example& example) {
  switch (data.problem) {
    case Problem::classification:
      return example.gold;
    case Problem::multi_label:
      return example.given.empty() ? example.gold : static_cast<float>(example.given.back());
    case Problem::regression:
      return 0;
  }
  return 0;
}

// Assigns each row, one label after the other; texts with several labels count for that of their first row.
std::vector<Part> parts_of(const Dataset& data, double eval_share, double certify_share) {
  std::map<std::string, std::pair<std::string, std::vector<size_t>>> together;
  for (size_t row = 0; row < data.examples.size(); ++row) {
    const std::string hash = hash_of(data.examples[row]);
    const std::string_view cluster = cluster_of(data.examples[row]);
    auto& [least, rows] = together[cluster.empty() ? hash : fmt::format("cluster {}", cluster)];
    least = rows.empty() ? hash : std::min(least, hash);
    rows.push_back(row);
  }
  SameTexts all;
  for (auto& [name, group] : together) all.emplace(std::move(group));
  std::map<float, std::vector<const std::vector<size_t>*>> by_label;
  std::map<float, double> rows_of;
  for (const auto& [hash, rows] : all) {
    const Example& first = data.examples[rows.front()];
    const float label = stratum_of(data, first);
    by_label[label].push_back(&rows);
    rows_of[label] += static_cast<double>(rows.size());
  }
  std::vector<Part> parts(data.examples.size(), Part::train);
  for (const auto& [label, texts] : by_label) {
    double certify = std::round(certify_share * rows_of[label]), eval = std::round(eval_share * rows_of[label]);
    for (const std::vector<size_t>* rows : texts) {
      const auto count = static_cast<double>(rows->size());
      double& left = count <= certify ? certify : eval;
      if (count > left) continue;
      for (const size_t row : *rows) parts[row] = &left == &certify ? Part::certify : Part::eval;
      left -= count;
    }
  }
  return parts;
}

Dataset empty_like(const Dataset& data) {
  Dataset out = data;
  out.examples.clear();
  out.notices.clear();
  out.skipped = 0;
  return out;
}

// As user_data reads it back.
std::string label_text(const Dataset& data, const Example& example) {
  std::string out;
  switch (data.problem) {
    case Problem::classification:
      return data.labels.at(static_cast<size_t>(example.gold));
    case Problem::multi_label:
      for (const int label : example.given)
        out += (out.empty() ? "" : "|") + data.labels.at(static_cast<size_t>(label));
      return out;
    case Problem::regression:
      return fmt::format("{}", example.gold);
  }
  return out;
}

}  // namespace

HeldOut hold_out(Dataset& data, double share) {
  check(share >= 0 && share < 1, "some rows are learned");
  check(data.labelled, "rows to learn from have labels");
  std::vector<Example> rows;
  std::swap(rows, data.examples);  // makes copying the rest cheap
  HeldOut out{empty_like(data), empty_like(data)};
  std::swap(rows, data.examples);
  if (share == 0 || data.examples.size() < kLeastToHoldOut) return out;
  const auto count = static_cast<double>(data.examples.size());
  const std::vector<Part> parts =
      parts_of(data, std::min(share / 3, kMostEval / count), std::min(share * 2 / 3, kMostCertify / count));
  for (size_t row = 0; row < parts.size(); ++row) {
    Dataset& target = parts[row] == Part::eval ? out.eval : parts[row] == Part::certify ? out.certify : data;
    std::vector<Example>& to = &target == &data ? rows : target.examples;
    to.push_back(std::move(data.examples[row]));
  }
  data.examples = std::move(rows);
  return out;
}

std::string held_out_text(const Dataset& data) {
  const bool pairs = !data.examples.empty() && data.examples.front().pair.has_value();
  const bool clusters = !data.examples.empty() && data.examples.front().cluster.has_value();
  std::string out = fmt::format("text,{}{}label\n", pairs ? "pair," : "", clusters ? "cluster," : "");
  for (const Example& example : data.examples) {
    out += csv_field(example.text) + ',';
    if (pairs) out += csv_field(example.pair.value_or("")) + ',';
    if (clusters) out += csv_field(example.cluster.value_or("")) + ',';
    out += csv_field(label_text(data, example)) + '\n';
  }
  return out;
}

Dataset read_held_out(const std::filesystem::path& folder, UserColumns columns) {
  const ReadPath path = ReadPath::in(folder, kHeldOutFile);
  const auto mapped = MappedFile::open(path, kMaxDataBytes);
  columns.format = DataFormat::csv;
  const std::string_view header = mapped->text().substr(0, mapped->text().find('\n'));
  columns.pair = header.starts_with("text,pair,") ? "pair" : "";
  if (columns.cluster != kNoCluster) columns.cluster = header.ends_with(",cluster,label") ? "cluster" : "";
  Dataset data = parse_user_data(mapped->text(), path.string(), columns);
  data.split = kHeldOutSplit;
  return data;
}

}  // namespace exeunt
