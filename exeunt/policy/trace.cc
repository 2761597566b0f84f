// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/trace.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/sha256.h"

namespace exeunt {
namespace {

constexpr int kMaxWidth = 65'536;

void check_shape(const ExitTrace& trace, std::string_view where) {
  const auto exits = static_cast<size_t>(trace.exits), width = static_cast<size_t>(trace.width);
  if (trace.rows == 0) throw_bad_file(where, "got no rows, want at least one");
  if (trace.exits < 1 || trace.exits > kMaxExits)
    throw_bad_file(where, "got {} exits, want 1 to {}", trace.exits, kMaxExits);
  if (trace.width < 1 || trace.width > kMaxWidth)
    throw_bad_file(where, "got {} outputs, want 1 to {}", trace.width, kMaxWidth);
  const auto want = [&](std::string_view name, size_t got, size_t wanted) {
    if (got != wanted) throw_bad_file(where, "{}: got {} values, want {}", name, got, wanted);
  };
  want("logits", trace.logits.size(), trace.rows * exits * width);
  want("gold", trace.gold.size(), trace.rows * trace.gold_width());
  want("index", trace.index.size(), trace.rows);
  if (!trace.lte.empty()) want("lte", trace.lte.size(), trace.rows * exits);
  if (!trace.ramp.empty()) want("ramp", trace.ramp.size(), trace.rows * width);
  if (!trace.lengths.empty()) want("lengths", trace.lengths.size(), trace.rows);
  if (!trace.reference.empty()) want("reference", trace.reference.size(), trace.rows * width);
  if (!trace.row_hash.empty()) want("row_hash", trace.row_hash.size(), trace.rows);
  if (!trace.learned.empty()) want("learned", trace.learned.size(), trace.rows);
}

void check_info(const ExitTrace& trace, std::string_view where) {
  const TraceInfo& info = trace.info;
  if (info.layers.size() != static_cast<size_t>(trace.exits)) {
    throw_bad_file(where, "exits: got {} layers ({}), want {}: one per exit of the logits", info.layers.size(),
                   fmt::join(info.layers, ","), trace.exits);
  }
  if (info.layers.front() < 1 ||
      std::adjacent_find(info.layers.begin(), info.layers.end(), std::greater_equal<>()) != info.layers.end())
    throw_bad_file(where, "exits: got {}, want increasing layers from 1", fmt::join(info.layers, ","));
  if (info.problem == Problem::regression && trace.width != 1)
    throw_bad_file(where, "got a regression of {} outputs, want 1", trace.width);
  if (info.problem == Problem::classification && trace.width < 2)
    throw_bad_file(where, "got a classification of {} output, want at least 2", trace.width);
  if (!info.logit_thresholds.empty() &&
      (info.problem != Problem::multi_label || info.logit_thresholds.size() != static_cast<size_t>(trace.width)))
    throw_bad_file(where, "thresholds: got {}, want one for each label of a multi-label model",
                   info.logit_thresholds.size());
  const size_t labels = info.problem == Problem::regression ? 0 : static_cast<size_t>(trace.width);
  if (info.labels.size() != labels) throw_bad_file(where, "labels: got {}, want {}", info.labels.size(), labels);
  std::set<std::string_view> seen;
  for (const std::string& label : info.labels)
    if (!seen.insert(label).second) throw_bad_file(where, "duplicate label '{}'", label);
}

void check_logits(const ExitTrace& trace, std::string_view where) {
  const auto width = static_cast<size_t>(trace.width), exits = static_cast<size_t>(trace.exits);
  for (size_t i = 0; i < trace.logits.size(); ++i) {
    if (std::isfinite(trace.logits[i])) continue;
    throw_bad_file(where, "logits: got {} in row {} at exit {} (layer {}), want finite numbers", trace.logits[i],
                   i / (exits * width), i / width % exits + 1, trace.info.layers[i / width % exits]);
  }
  for (size_t i = 0; i < trace.lte.size(); ++i) {
    if (trace.lte[i] >= 0 && trace.lte[i] <= 1) continue;
    throw_bad_file(where, "lte: got {} in row {} at exit {}, want numbers from 0 to 1", trace.lte[i], i / exits,
                   i % exits + 1);
  }
  for (size_t i = 0; i < trace.ramp.size(); ++i)
    if (!std::isfinite(trace.ramp[i]))
      throw_bad_file(where, "ramp: got {} in row {}, want finite numbers", trace.ramp[i], i / width);
  for (size_t i = 0; i < trace.reference.size(); ++i)
    if (!std::isfinite(trace.reference[i]))
      throw_bad_file(where, "reference: got {} in row {}, want finite numbers", trace.reference[i], i / width);
}

void check_rows(const ExitTrace& trace, std::string_view where) {
  for (size_t i = 0; trace.info.problem == Problem::multi_label && i < trace.gold.size(); ++i) {
    const float gold = trace.gold[i];
    if (!std::isnan(gold) && gold != 0 && gold != 1)
      throw_bad_file(where, "gold: got {} in row {}, want 0, 1 or NaN for each label", gold, i / trace.gold_width());
  }
  for (size_t row = 0; row < trace.rows; ++row) {
    const float gold = trace.info.problem == Problem::multi_label ? 0 : trace.gold[row];
    const bool label = gold >= 0 && gold < static_cast<float>(trace.width) && gold == std::floor(gold);
    if (!std::isnan(gold) && !(trace.info.problem == Problem::regression ? std::isfinite(gold) : label)) {
      throw_bad_file(where, "gold: got {} in row {}, want {}", gold, row,
                     trace.info.problem == Problem::regression
                         ? "a finite number or NaN"
                         : fmt::format("a label from 0 to {} or NaN", trace.width - 1));
    }
    if (!trace.lengths.empty() && trace.lengths[row] < 1)
      throw_bad_file(where, "lengths: got {} in row {}, want at least 1", trace.lengths[row], row);
    if (!trace.learned.empty() && trace.learned[row] > 2)
      throw_bad_file(where, "learned: got {} in row {}, want 0, 1 or 2", trace.learned[row], row);
    if (trace.index[row] < 0) throw_bad_file(where, "index: got {} in row {}, want 0 or more", trace.index[row], row);
  }
}

}  // namespace

bool ExitTrace::labelled() const noexcept {
  return std::none_of(gold.begin(), gold.end(), [](float value) { return std::isnan(value); });
}

ExitSites ExitTrace::sites() const {
  return {.layers = info.layers,
          .outputs = width,
          .problem = info.problem,
          .lte = !lte.empty(),
          .logit_thresholds = info.threshold_data()};
}

bool ExitTrace::right(size_t row, std::span<const float> answer) const noexcept {
  const ExitLogits given = exit_logits(answer);
  if (info.problem != Problem::multi_label) return static_cast<float>(answer_number(given)) == gold[row];
  for (int c = 0; c < width; ++c)
    if (has_label(given, c) != (gold[row * gold_width() + static_cast<size_t>(c)] == 1)) return false;
  return true;
}

void check_trace(const ExitTrace& trace, std::string_view where) {
  check_shape(trace, where);
  check_info(trace, where);
  check_logits(trace, where);
  check_rows(trace, where);
}

void require_owner(const ExitTrace& trace, const TraceOwner& owner, std::string_view where) {
  const TraceInfo& info = trace.info;
  const Hint again{"make the trace again with this model: exeunt trace MODEL --out FILE"};
  if (info.weights != owner.weights) {
    throw_bad_file(where, again, "is a trace of another model: got weights {}, want {}", info.weights.substr(0, 12),
                   owner.weights.substr(0, 12));
  }
  if (info.labels != owner.labels) {
    throw_bad_file(where, again, "has other labels: got {}, want {}", fmt::join(info.labels, ", "),
                   fmt::join(owner.labels, ", "));
  }
  if (info.layers != owner.layers) {
    throw_bad_file(where, again, "has other exits: got {}, want {}", fmt::join(info.layers, ","),
                   fmt::join(owner.layers, ","));
  }
  if (info.precision != owner.precision)
    throw_bad_file(where, again, "has another precision: got {}, want {}", info.precision, owner.precision);
  const auto differ = [](const std::string& got, const std::string& want) {
    return !got.empty() && !want.empty() && got != want;
  };
  if (differ(info.tokenizer, owner.tokenizer)) {
    throw_bad_file(where, again, "was made with another tokenizer: got {}, want {}", info.tokenizer.substr(0, 12),
                   owner.tokenizer.substr(0, 12));
  }
  if (info.max_length != owner.max_length && info.max_length > 0 && owner.max_length > 0)
    throw_bad_file(where, again, "has another max-length: got {}, want {}", info.max_length, owner.max_length);
  if (owner.precision_map && info.precision_map && *owner.precision_map != *info.precision_map)
    throw_bad_file(where, again, "was made with another precision.json: its matrices of other precision differ");
}

uint64_t row_hash_of(std::span<const int32_t> ids) noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      hash = (hash ^ (static_cast<uint32_t>(id) >> shift & 0xff)) * 0x100000001b3;
  return hash;
}

std::string rows_sha256(const ExitTrace& trace) {
  if (trace.row_hash.empty()) return {};
  std::vector<uint64_t> sorted = trace.row_hash;
  std::sort(sorted.begin(), sorted.end());
  return sha256_hex(std::as_bytes(std::span(sorted)));
}

namespace {

// Rows of `width` values each, picked from `values`; nothing from nothing.
template <class Value>
std::vector<Value> pick_rows(const std::vector<Value>& values, std::span<const size_t> rows, size_t width) {
  std::vector<Value> picked;
  if (values.empty()) return picked;
  picked.reserve(rows.size() * width);
  for (const size_t row : rows) {
    const auto from = values.begin() + static_cast<long>(row * width);
    picked.insert(picked.end(), from, from + static_cast<long>(width));
  }
  return picked;
}

}  // namespace

ExitTrace join_rows(const ExitTrace& first, const ExitTrace& second, std::string_view where) {
  const TraceInfo& info = first.info;
  require_owner(
      second,
      {info.weights, info.labels, info.layers, info.precision, info.tokenizer, info.max_length, info.precision_map},
      where);
  const auto append = [](auto& values, const auto& more) { values.insert(values.end(), more.begin(), more.end()); };
  ExitTrace all = first;
  all.rows += second.rows;
  append(all.logits, second.logits);
  append(all.gold, second.gold);
  append(all.index, second.index);
  append(all.lte, second.lte);
  append(all.ramp, second.ramp);
  // What only one of them knows of its rows is not known of all.
  const auto append_known = [](auto& values, const auto& more) {
    if (values.empty() || more.empty()) return values.clear();
    values.insert(values.end(), more.begin(), more.end());
  };
  append_known(all.lengths, second.lengths);
  append_known(all.reference, second.reference);
  append_known(all.row_hash, second.row_hash);
  append_known(all.learned, second.learned);
  const std::string both = info.data + second.info.data;
  all.info.data = sha256_hex(std::as_bytes(std::span(both)));
  check_trace(all, where);
  return all;
}

ExitTrace select_rows(const ExitTrace& trace, std::span<const size_t> rows) {
  for (const size_t row : rows) check(row < trace.rows, "a selected row exists");
  const auto exits = static_cast<size_t>(trace.exits), width = static_cast<size_t>(trace.width);
  ExitTrace part;
  part.info = trace.info;
  part.rows = rows.size();
  part.exits = trace.exits;
  part.width = trace.width;
  part.logits = pick_rows(trace.logits, rows, exits * width);
  part.lte = pick_rows(trace.lte, rows, exits);
  part.ramp = pick_rows(trace.ramp, rows, width);
  part.gold = pick_rows(trace.gold, rows, trace.gold_width());
  part.lengths = pick_rows(trace.lengths, rows, 1);
  part.index = pick_rows(trace.index, rows, 1);
  part.reference = pick_rows(trace.reference, rows, width);
  part.row_hash = pick_rows(trace.row_hash, rows, 1);
  part.learned = pick_rows(trace.learned, rows, 1);
  return part;
}

}  // namespace exeunt
