// SPDX-License-Identifier: Apache-2.0
// Traces and their safetensors files. Tensors and metadata are listed once, in each_tensor() and each_string(); checks,
// reader, writer and the selection of rows follow from the lists.
#include "exeunt/policy/trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/json.h"
#include "exeunt/base/number.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

constexpr std::string_view kTraceFormat = "exeunt.trace/2";
constexpr int kMaxWidth = 65'536;

enum class Presence {
  always,
  head,  // where the model has such a head
  known  // or empty: not known
};

struct TraceTensor {
  std::string_view name;
  std::vector<int64_t> columns;  // the shape of one row
  Presence presence = Presence::always;

  [[nodiscard]] size_t width() const {
    return static_cast<size_t>(std::accumulate(columns.begin(), columns.end(), int64_t{1}, std::multiplies<>()));
  }
  [[nodiscard]] std::vector<int64_t> shape(size_t rows) const {
    std::vector<int64_t> out{static_cast<int64_t>(rows)};
    out.insert(out.end(), columns.begin(), columns.end());
    return out;
  }
};

// Every tensor, in the order of the file, with its values in each of the traces; columns follow from the first.
template <class Visit, class Trace, class... More>
void each_tensor(Visit&& visit, Trace& trace, More&... more) {
  const int64_t exits = trace.exits, width = trace.width;
  const bool sets = trace.info.problem == Problem::multi_label;
  visit(TraceTensor{"logits", {exits, width}}, trace.logits, more.logits...);
  visit(TraceTensor{"lte", {exits}, Presence::head}, trace.lte, more.lte...);
  visit(TraceTensor{"ramp", {width}, Presence::head}, trace.ramp, more.ramp...);
  visit(TraceTensor{"gold", sets ? std::vector{width} : std::vector<int64_t>{}}, trace.gold, more.gold...);
  visit(TraceTensor{"lengths", {}, Presence::known}, trace.lengths, more.lengths...);
  visit(TraceTensor{"index", {}}, trace.index, more.index...);
  visit(TraceTensor{"reference", {width}, Presence::known}, trace.reference, more.reference...);
  visit(TraceTensor{"row_hash", {}, Presence::known}, trace.row_hash, more.row_hash...);
  visit(TraceTensor{"text_hash", {}, Presence::known}, trace.text_hash, more.text_hash...);
  visit(TraceTensor{"cluster", {}, Presence::known}, trace.cluster, more.cluster...);
  visit(TraceTensor{"learned", {}, Presence::known}, trace.learned, more.learned...);
}

template <class Value>
constexpr DType kTypeOf = std::is_same_v<Value, float>     ? DType::f32
                          : std::is_same_v<Value, int32_t> ? DType::i32
                          : std::is_same_v<Value, uint8_t> ? DType::u8
                                                           : DType::i64;

// Every metadata string but the format, in the order of the file.
template <class Info, class Visit>
void each_string(Info& info, Visit&& visit) {
  constexpr bool kRequired = true, kOptional = false;
  visit("weights", info.weights, kRequired);
  visit("tokenizer", info.tokenizer, kOptional);
  visit("data", info.data, kOptional);
  visit("task", info.task, kOptional);
  visit("split", info.split, kOptional);
  visit("problem", info.problem, kRequired);
  visit("labels", info.labels, kRequired);
  visit("exits", info.layers, kRequired);
  visit("precision", info.precision, kRequired);
  visit("engine", info.engine, kOptional);
  visit("max_length", info.max_length, kOptional);
  visit("numerics", info.numerics, kOptional);
  visit("last_head", info.last_head, kRequired);
  visit("tool", info.tool, kOptional);
  visit("created", info.created, kOptional);
  visit("thresholds", info.logit_thresholds, kOptional);
  visit("precision_map", info.precision_map, kOptional);
}

// How each type is written, or nothing where it is left out.
template <class Value>
std::optional<std::string> metadata_text(const Value& value) {
  if constexpr (std::is_same_v<Value, int>)
    return std::to_string(value);
  else if constexpr (std::is_same_v<Value, Problem>)
    return std::string(name_of(value));
  else if constexpr (std::is_same_v<Value, LastHead>)
    return std::string(word_of(value));
  else if constexpr (std::is_same_v<Value, std::vector<int>>)
    return fmt::format("{}", fmt::join(value, ","));
  else if constexpr (std::is_same_v<Value, std::vector<std::string>>)
    return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
  else if constexpr (std::is_same_v<Value, std::vector<float>>) {
    std::string out;
    for (const float logit : value) out += fmt::format("{}{:g}", out.empty() ? "" : ",", threshold_of(logit));
    return out.empty() ? std::nullopt : std::optional(out);
  } else
    return value;
}

// A metadata string on its way in.
struct MetadataText {
  const std::string& where;
  std::string_view name;
  const std::string& text;

  [[noreturn]] void fail(std::string_view want) const {
    throw_bad_file(where, "{}: got '{}', want {}", name, text.substr(0, 64), want);
  }
};

template <class Text>  // a string, or an optional one
void read_metadata(const MetadataText& from, Text& value) {
  value = from.text;
}
void read_metadata(const MetadataText& from, int& value) {  // 0 = not known
  const auto number = from.text.empty() ? std::optional(0) : number_of<int>(from.text);
  if (!number || *number < 0) from.fail("a whole number");
  value = *number;
}
void read_metadata(const MetadataText& from, Problem& value) {
  if (!problem_named(from.text)) from.fail("classification, regression or multi_label");
  value = *problem_named(from.text);
}
void read_metadata(const MetadataText& from, LastHead& value) {
  if (!named<LastHead>(from.text)) from.fail("final or ramp");
  value = *named<LastHead>(from.text);
}
void read_metadata(const MetadataText& from, std::vector<int>& layers) {
  for (const std::string_view part : split(from.text, ',')) {
    const auto layer = number_of<int>(part);
    if (!layer || *layer < 0 || layers.size() >= kMaxExits)
      from.fail(fmt::format("up to {} layers as in \"1,2,3\"", kMaxExits));
    layers.push_back(*layer);
  }
}
void read_metadata(const MetadataText& from, std::vector<std::string>& labels) {
  const Json list = parse_json(from.text, from.where + ": labels");
  if (!list.is_array()) throw_bad_file(from.where, "labels: got {}, want a list of names", glimpse(list));
  for (const Json& name : list) {
    if (!name.is_string()) throw_bad_file(from.where, "labels: got {}, want names", glimpse(name));
    labels.push_back(name.get<std::string>());
  }
}
void read_metadata(const MetadataText& from, std::vector<float>& logit_thresholds) {
  if (from.text.empty()) return;
  for (const std::string_view part : split(from.text, ',')) {
    const auto threshold = number_of<double>(part);
    const double kept = threshold ? threshold_of(logit_of(*threshold)) : 0;  // as it will be written
    if (!(kept > 0 && kept < 1)) from.fail("numbers from 0.000001 to 0.999999");
    logit_thresholds.push_back(logit_of(*threshold));
  }
}

void check_shape(const ExitTrace& trace, std::string_view where) {
  if (trace.rows == 0) throw_bad_file(where, "got no rows, want at least one");
  if (trace.exits < 1 || trace.exits > kMaxExits)
    throw_bad_file(where, "got {} exits, want 1 to {}", trace.exits, kMaxExits);
  if (trace.width < 1 || trace.width > kMaxWidth)
    throw_bad_file(where, "got {} outputs, want 1 to {}", trace.width, kMaxWidth);
  const auto require_size = [&](const TraceTensor& tensor, const auto& values) {
    const size_t wanted = trace.rows * tensor.width();
    if (values.size() != wanted && (tensor.presence == Presence::always || !values.empty()))
      throw_bad_file(where, "{}: got {} values, want {}", tensor.name, values.size(), wanted);
  };
  each_tensor(require_size, trace);
}

void check_info(const ExitTrace& trace, std::string_view where) {
  const TraceInfo& info = trace.info;
  if (info.layers.size() != static_cast<size_t>(trace.exits)) {
    throw_bad_file(where, "exits: got {} layers ({}), want {}: one per exit of the logits", info.layers.size(),
                   fmt::join(info.layers, ","), trace.exits);
  }
  if (info.layers.front() < 0 ||
      std::adjacent_find(info.layers.begin(), info.layers.end(), std::greater_equal<>()) != info.layers.end())
    throw_bad_file(where, "exits: got {}, want increasing layers from 0", fmt::join(info.layers, ","));
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
  const auto require_finite = [&](std::string_view name, const std::vector<float>& values) {
    const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
    if (bad != values.end())
      throw_bad_file(where, "{}: got {} in row {}, want finite numbers", name, *bad,
                     static_cast<size_t>(bad - values.begin()) / width);
  };
  require_finite("ramp", trace.ramp);
  require_finite("reference", trace.reference);
}

// What a gold value should be instead, by the problem; empty if it is valid.
std::string gold_wanted(const ExitTrace& trace, float gold) {
  if (std::isnan(gold)) return {};
  switch (trace.info.problem) {
    case Problem::classification:
      if (gold >= 0 && gold < static_cast<float>(trace.width) && gold == std::floor(gold)) return {};
      return fmt::format("a label from 0 to {} or NaN", trace.width - 1);
    case Problem::multi_label:
      return gold == 0 || gold == 1 ? "" : "0, 1 or NaN for each label";
    case Problem::regression:
      return std::isfinite(gold) ? "" : "a finite number or NaN";
  }
  return {};
}

void check_rows(const ExitTrace& trace, std::string_view where) {
  for (size_t i = 0; i < trace.gold.size(); ++i) {
    const std::string wanted = gold_wanted(trace, trace.gold[i]);
    if (!wanted.empty())
      throw_bad_file(where, "gold: got {} in row {}, want {}", trace.gold[i], i / trace.gold_width(), wanted);
  }
  for (size_t row = 0; row < trace.rows; ++row) {
    if (!trace.lengths.empty() && trace.lengths[row] < 1)
      throw_bad_file(where, "lengths: got {} in row {}, want at least 1", trace.lengths[row], row);
    if (!trace.learned.empty() && trace.learned[row] > 2)
      throw_bad_file(where, "learned: got {} in row {}, want 0, 1 or 2", trace.learned[row], row);
    if (trace.index[row] < 0) throw_bad_file(where, "index: got {} in row {}, want 0 or more", trace.index[row], row);
  }
}

TraceInfo read_info(const TensorSet& set, const std::string& file) {
  const std::string where = file + ": __metadata__";
  std::vector<std::string> known{"format"};
  const auto find = [&](std::string_view name, bool required) -> const std::string* {
    const auto found = set.metadata.find(name);
    if (found != set.metadata.end()) return &found->second;
    if (required) throw_bad_file(where, "missing field '{}'", name);
    return nullptr;
  };
  if (const std::string& format = *find("format", true); format != kTraceFormat)
    throw_bad_file(file, Hint{"trace the model again: exeunt trace MODEL --out FILE"}, "got the format '{}', want '{}'",
                   format.substr(0, 64), kTraceFormat);
  TraceInfo info;
  each_string(info, [&](std::string_view name, auto& value, bool required) {
    known.emplace_back(name);
    if (const std::string* text = find(name, required)) read_metadata({where, name, *text}, value);
  });
  for (const auto& [name, value] : set.metadata)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_bad_file(where, Hint{suggestion(name, known)}, "unknown field '{}'", name);
  return info;
}

template <class Value>
void read_values(const TensorView& view, const std::string& where, const std::vector<int64_t>& shape,
                 std::vector<Value>& values) {
  if (view.dtype != kTypeOf<Value>)
    throw_bad_file(where, "got {}, want {}", name_of(view.dtype), name_of(kTypeOf<Value>));
  if (view.shape != shape) throw_bad_file(where, "got shape {}, want {}", shape_text(view.shape), shape_text(shape));
  values.resize(static_cast<size_t>(view.elements()));
  copy_raw(view, std::as_writable_bytes(std::span(values)));
}

ExitTrace trace_of(const TensorSet& set, const std::string& where) {
  ExitTrace trace;
  trace.info = read_info(set, where);
  if (const TensorView* logits = set.find("logits")) {
    if (logits->shape.size() != 3)
      throw_bad_file(where, "tensor 'logits': got shape {}, want [rows, exits, outputs]", shape_text(logits->shape));
    if (logits->shape[1] > kMaxExits || logits->shape[2] > std::numeric_limits<int>::max())
      throw_bad_file(where, "tensor 'logits': got shape {}, want at most {} exits", shape_text(logits->shape),
                     kMaxExits);
    trace.rows = static_cast<size_t>(logits->shape[0]);
    trace.exits = static_cast<int>(logits->shape[1]);
    trace.width = static_cast<int>(logits->shape[2]);
  }
  std::vector<std::string> known;
  const auto read = [&](const TraceTensor& tensor, auto& values) {
    known.emplace_back(tensor.name);
    const TensorView* view = set.find(tensor.name);
    if (view == nullptr && tensor.presence == Presence::always)
      throw_bad_file(where, "missing tensor '{}'", tensor.name);
    if (view == nullptr) return;
    read_values(*view, fmt::format("{}: tensor '{}'", where, tensor.name), tensor.shape(trace.rows), values);
  };
  each_tensor(read, trace);
  for (const auto& [name, view] : set.tensors)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_bad_file(where, Hint{suggestion(name, known)}, "unknown tensor '{}'", name);
  check_trace(trace, where);
  return trace;
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

void require_owner(const ExitTrace& trace, const TraceInfo& owner, std::string_view where) {
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

uint64_t hash_of(std::span<const std::byte> bytes) noexcept {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

uint64_t row_hash_of(std::span<const int32_t> ids) noexcept {
  return hash_of(std::as_bytes(ids));  // both architectures are little-endian
}

uint64_t text_hash_of(std::string_view text, std::string_view pair) {
  std::string all;
  for (const std::string_view part : {text, pair}) {
    for (const char c : lower(trimmed(part))) {
      const bool blank = is_blank(std::string_view(&c, 1));
      if (!blank || !all.ends_with(' ')) all += blank ? ' ' : c;
    }
    all += '\n';
  }
  return hash_of(std::as_bytes(std::span(all)));
}

std::string rows_sha256(const ExitTrace& trace) {
  if (trace.row_hash.empty()) return {};
  std::vector<uint64_t> sorted = trace.row_hash;
  std::sort(sorted.begin(), sorted.end());
  return sha256_hex(std::as_bytes(std::span(sorted)));
}

ExitTrace join_rows(const ExitTrace& first, const ExitTrace& second, std::string_view where) {
  require_owner(second, first.info, where);
  ExitTrace all = first;
  all.rows += second.rows;
  const auto append = [](const TraceTensor& tensor, auto& values, const auto& more) {
    // What only one of them knows of its rows is not known of all.
    if (tensor.presence == Presence::known && (values.empty() || more.empty())) return values.clear();
    values.insert(values.end(), more.begin(), more.end());
  };
  each_tensor(append, all, second);
  const std::string both = first.info.data + second.info.data;
  all.info.data = sha256_hex(std::as_bytes(std::span(both)));
  check_trace(all, where);
  return all;
}

ExitTrace select_rows(const ExitTrace& trace, std::span<const size_t> rows) {
  for (const size_t row : rows) check(row < trace.rows, "a selected row exists");
  ExitTrace part;
  part.info = trace.info;
  part.rows = rows.size();
  part.exits = trace.exits;
  part.width = trace.width;
  const auto pick = [&](const TraceTensor& tensor, const auto& values, auto& picked) {
    if (values.empty()) return;
    const auto width = static_cast<long>(tensor.width());
    picked.reserve(rows.size() * tensor.width());
    for (const size_t row : rows) {
      const auto from = values.begin() + static_cast<long>(row) * width;
      picked.insert(picked.end(), from, from + width);
    }
  };
  each_tensor(pick, trace, part);
  return part;
}

ExitTrace read_trace(const std::filesystem::path& path) {
  return trace_of(read_safetensors(path), path.string());
}

bool names_itself_trace(const std::filesystem::path& path) {
  try {
    const TensorSet set = read_safetensors(path);
    const auto format = set.metadata.find("format");
    return format != set.metadata.end() && format->second.starts_with("exeunt.trace/");
  } catch (const Error&) {
    return false;
  }
}

ExitTrace parse_trace(std::span<const std::byte> safetensors, std::string_view where) {
  return trace_of(parse_safetensors(safetensors, where), std::string(where));
}

void write_trace(const std::filesystem::path& path, const ExitTrace& trace) {
  check_trace(trace, path.string());
  std::vector<NamedTensor> tensors;
  const auto add = [&]<class Value>(const TraceTensor& tensor, const std::vector<Value>& values) {
    if (!values.empty())
      tensors.push_back({std::string(tensor.name), view_of(kTypeOf<Value>, values, tensor.shape(trace.rows))});
  };
  each_tensor(add, trace);
  Metadata metadata{{"format", std::string(kTraceFormat)}};
  each_string(trace.info, [&](const char* name, const auto& value, bool) {
    if (auto text = metadata_text(value)) metadata.emplace_back(name, std::move(*text));
  });
  write_safetensors(path, tensors, metadata);
}

}  // namespace exeunt
