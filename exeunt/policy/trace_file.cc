// SPDX-License-Identifier: Apache-2.0
// Traces in safetensors files: tensors by name and type, and the metadata strings.
#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/json.h"
#include "exeunt/base/number.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/base/suggest.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/trace.h"

namespace exeunt {
namespace {

constexpr std::string_view kTraceFormat = "exeunt.trace/2";

// Metadata by name; remembers what is read and rejects the rest.
class Strings {
 public:
  Strings(const TensorSet& set, std::string where) : set_(set), where_(std::move(where)) {}

  std::string take(const std::string& name, bool required) {
    asked_.push_back(name);
    const auto found = set_.metadata.find(name);
    if (found != set_.metadata.end()) return found->second;
    if (required) throw_bad_file(where_, "missing field '{}'", name);
    return {};
  }
  std::optional<std::string> take_known(const std::string& name) {
    std::string text = take(name, false);
    return set_.metadata.contains(name) ? std::optional(std::move(text)) : std::nullopt;
  }
  int take_number(const std::string& name) {  // 0 = not known
    const std::string text = take(name, false);
    const auto number = text.empty() ? std::optional(0) : number_of<int>(text);
    if (!number || *number < 0) throw_bad_file(where_, "{}: got '{}', want a whole number", name, text.substr(0, 64));
    return *number;
  }
  void finish() const {
    for (const auto& [name, value] : set_.metadata)
      if (std::find(asked_.begin(), asked_.end(), name) == asked_.end())
        throw_bad_file(where_, Hint{suggestion(name, asked_)}, "unknown field '{}'", name);
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  const TensorSet& set_;
  std::string where_;
  std::vector<std::string> asked_;
};

std::vector<int> parse_layers(const std::string& text, const std::string& where) {
  std::vector<int> layers;
  for (const std::string_view part : split(text, ',')) {
    const auto layer = number_of<int>(part);
    if (!layer || *layer < 1 || layers.size() >= kMaxExits)
      throw_bad_file(where, "exits: got '{}', want up to {} layers as in \"1,2,3\"", text.substr(0, 64), kMaxExits);
    layers.push_back(*layer);
  }
  return layers;
}

std::vector<std::string> parse_labels(const std::string& text, const std::string& where) {
  const Json list = parse_json(text, where + ": labels");
  std::vector<std::string> labels;
  if (!list.is_array()) throw_bad_file(where, "labels: got {}, want a list of names", glimpse(list));
  for (const Json& name : list) {
    if (!name.is_string()) throw_bad_file(where, "labels: got {}, want names", glimpse(name));
    labels.push_back(name.get<std::string>());
  }
  return labels;
}

std::vector<float> parse_thresholds(const std::string& text, const std::string& where) {
  std::vector<float> logit_thresholds;
  for (const std::string_view part : split(text, ',')) {
    const auto threshold = number_of<double>(part);
    const double kept = threshold ? threshold_of(logit_of(*threshold)) : 0;  // as it will be written
    if (!(kept > 0 && kept < 1)) {
      throw_bad_file(where, "thresholds: got '{}', want numbers from 0.000001 to 0.999999",
                     std::string(part).substr(0, 64));
    }
    logit_thresholds.push_back(logit_of(*threshold));
  }
  return logit_thresholds;
}

std::string thresholds_text(const std::vector<float>& logit_thresholds) {
  std::string out;
  for (const float logit : logit_thresholds) out += fmt::format("{}{:g}", out.empty() ? "" : ",", threshold_of(logit));
  return out;
}

std::string labels_text(const std::vector<std::string>& labels) {
  return Json(labels).dump(-1, ' ', false, Json::error_handler_t::replace);
}

TraceInfo read_info(const TensorSet& set, const std::string& where) {
  Strings strings(set, where + ": __metadata__");
  const std::string format = strings.take("format", true);
  if (format != kTraceFormat)
    throw_bad_file(where, Hint{"trace the model again: exeunt trace MODEL --out FILE"},
                   "got the format '{}', want '{}'", format.substr(0, 64), kTraceFormat);
  TraceInfo info;
  info.weights = strings.take("weights", true);
  info.tokenizer = strings.take("tokenizer", false);
  info.data = strings.take("data", false);
  info.task = strings.take("task", false);
  info.split = strings.take("split", false);
  info.precision = strings.take("precision", true);
  info.engine = strings.take("engine", false);
  info.tool = strings.take("tool", false);
  info.created = strings.take("created", false);
  const std::string problem = strings.take("problem", true);
  if (!problem_named(problem)) {
    throw_bad_file(strings.where(), "problem: got '{}', want classification, regression or multi_label",
                   problem.substr(0, 64));
  }
  info.problem = *problem_named(problem);
  if (const std::string text = strings.take("thresholds", false); !text.empty())
    info.logit_thresholds = parse_thresholds(text, strings.where());
  info.labels = parse_labels(strings.take("labels", true), strings.where());
  info.layers = parse_layers(strings.take("exits", true), strings.where());
  info.max_length = strings.take_number("max_length");
  info.numerics = strings.take_number("numerics");
  info.precision_map = strings.take_known("precision_map");
  const std::string head = strings.take("last_head", true);
  if (head != word_of(LastHead::final) && head != word_of(LastHead::ramp))
    throw_bad_file(strings.where(), "last_head: got '{}', want final or ramp", head.substr(0, 64));
  info.last_head = head == word_of(LastHead::ramp) ? LastHead::ramp : LastHead::final;
  strings.finish();
  return info;
}

// One tensor of the file, of the required type and shape; null if it is optional and absent.
const TensorView* find_tensor(const TensorSet& set, const std::string& where, std::string_view name, DType type) {
  const TensorView* view = set.find(name);
  if (view != nullptr && view->dtype != type)
    throw_bad_file(fmt::format("{}: tensor '{}'", where, name), "got {}, want {}", name_of(view->dtype), name_of(type));
  return view;
}

template <class Value>
std::vector<Value> take_values(const TensorView* view, const std::string& where, std::vector<int64_t> shape) {
  if (view == nullptr) return {};
  if (view->shape != shape) throw_bad_file(where, "got shape {}, want {}", shape_text(view->shape), shape_text(shape));
  std::vector<Value> values(static_cast<size_t>(view->elements()));
  copy_raw(*view, std::as_writable_bytes(std::span(values)));
  return values;
}

void reject_unknown_tensors(const TensorSet& set, const std::string& where) {
  const std::vector<std::string> known{"logits", "lte",       "ramp",     "gold",   "lengths",
                                       "index",  "reference", "row_hash", "learned"};
  for (const auto& [name, view] : set.tensors)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw_bad_file(where, Hint{suggestion(name, known)}, "unknown tensor '{}'", name);
}

ExitTrace trace_of(const TensorSet& set, const std::string& where) {
  ExitTrace trace;
  trace.info = read_info(set, where);
  reject_unknown_tensors(set, where);
  const TensorView* logits = find_tensor(set, where, "logits", DType::f32);
  const TensorView* gold = find_tensor(set, where, "gold", DType::f32);
  const TensorView* index = find_tensor(set, where, "index", DType::i64);
  if (logits == nullptr || gold == nullptr || index == nullptr)
    throw_bad_file(where, "missing tensor '{}'", logits == nullptr ? "logits" : gold == nullptr ? "gold" : "index");
  if (logits->shape.size() != 3)
    throw_bad_file(where, "tensor 'logits': got shape {}, want [rows, exits, outputs]", shape_text(logits->shape));
  const int64_t rows = logits->shape[0], exits = logits->shape[1], width = logits->shape[2];
  if (exits > kMaxExits || width > std::numeric_limits<int>::max())
    throw_bad_file(where, "tensor 'logits': got shape {}, want at most {} exits", shape_text(logits->shape), kMaxExits);
  trace.rows = static_cast<size_t>(rows);
  trace.exits = static_cast<int>(exits);
  trace.width = static_cast<int>(width);
  const auto named = [&](std::string_view name) { return fmt::format("{}: tensor '{}'", where, name); };
  trace.logits = take_values<float>(logits, named("logits"), {rows, exits, width});
  trace.gold = take_values<float>(
      gold, named("gold"), trace.info.problem == Problem::multi_label ? std::vector{rows, width} : std::vector{rows});
  trace.index = take_values<int64_t>(index, named("index"), {rows});
  trace.lte = take_values<float>(find_tensor(set, where, "lte", DType::f32), named("lte"), {rows, exits});
  trace.ramp = take_values<float>(find_tensor(set, where, "ramp", DType::f32), named("ramp"), {rows, width});
  trace.lengths = take_values<int32_t>(find_tensor(set, where, "lengths", DType::i32), named("lengths"), {rows});
  trace.reference =
      take_values<float>(find_tensor(set, where, "reference", DType::f32), named("reference"), {rows, width});
  trace.row_hash = take_values<uint64_t>(find_tensor(set, where, "row_hash", DType::i64), named("row_hash"), {rows});
  trace.learned = take_values<uint8_t>(find_tensor(set, where, "learned", DType::u8), named("learned"), {rows});
  check_trace(trace, where);
  return trace;
}

}  // namespace

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
  const auto rows = static_cast<int64_t>(trace.rows);
  std::vector<NamedTensor> tensors;
  tensors.push_back({"logits", view_of(DType::f32, trace.logits, {rows, trace.exits, trace.width})});
  if (!trace.lte.empty()) tensors.push_back({"lte", view_of(DType::f32, trace.lte, {rows, trace.exits})});
  if (!trace.ramp.empty()) tensors.push_back({"ramp", view_of(DType::f32, trace.ramp, {rows, trace.width})});
  tensors.push_back(
      {"gold", view_of(DType::f32, trace.gold,
                       trace.info.problem == Problem::multi_label ? std::vector<int64_t>{rows, trace.width}
                                                                  : std::vector{rows})});
  if (!trace.lengths.empty()) tensors.push_back({"lengths", view_of(DType::i32, trace.lengths, {rows})});
  tensors.push_back({"index", view_of(DType::i64, trace.index, {rows})});
  if (!trace.reference.empty())
    tensors.push_back({"reference", view_of(DType::f32, trace.reference, {rows, trace.width})});
  if (!trace.row_hash.empty()) tensors.push_back({"row_hash", view_of(DType::i64, trace.row_hash, {rows})});
  if (!trace.learned.empty()) tensors.push_back({"learned", view_of(DType::u8, trace.learned, {rows})});
  const TraceInfo& info = trace.info;
  Metadata metadata{{"format", std::string(kTraceFormat)},
                    {"weights", info.weights},
                    {"tokenizer", info.tokenizer},
                    {"data", info.data},
                    {"task", info.task},
                    {"split", info.split},
                    {"problem", std::string(name_of(info.problem))},
                    {"labels", labels_text(info.labels)},
                    {"exits", fmt::format("{}", fmt::join(info.layers, ","))},
                    {"precision", info.precision},
                    {"engine", info.engine},
                    {"max_length", std::to_string(info.max_length)},
                    {"numerics", std::to_string(info.numerics)},
                    {"last_head", std::string(word_of(info.last_head))},
                    {"tool", info.tool},
                    {"created", info.created}};
  if (!info.logit_thresholds.empty()) metadata.emplace_back("thresholds", thresholds_text(info.logit_thresholds));
  if (info.precision_map) metadata.emplace_back("precision_map", *info.precision_map);
  write_safetensors(path, tensors, metadata);
}

}  // namespace exeunt
