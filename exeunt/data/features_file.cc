// SPDX-License-Identifier: Apache-2.0
// Features in safetensors files: tensors by name and type, and the metadata strings.
#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/base/number.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/base/suggest.h"
#include "exeunt/data/features.h"

namespace exeunt {
namespace {

constexpr std::string_view kFormat = "exeunt.features/1";
constexpr int kMaxLength = 1 << 20;
const auto kTensors = {"ids", "types", "offsets", "gold", "index", "sets"};  // the last where rows have several labels

FeatureInfo read_info(const TensorSet& set, const std::string& where) {
  Json fields = Json::object();
  for (const auto& [name, value] : set.metadata) fields[name] = value;
  JsonObject object(fields, where + ": __metadata__");
  if (const std::string format = object.string("format"); format != kFormat) {
    object.fail("format", fmt::format("'{}'", format.substr(0, 64)), fmt::format("'{}'", kFormat));
  }
  FeatureInfo info;
  info.tokenizer = object.string("tokenizer");
  info.data = object.string("data");
  info.task = object.string("task");
  info.split = object.string("split");
  const std::string length = object.string("max_length");
  const auto number = number_of<int>(length);
  if (!number || *number < 1 || *number > kMaxLength) {
    object.fail("max_length", length.substr(0, 16), fmt::format("a whole number from 1 to {}", kMaxLength));
  }
  info.max_length = *number;
  const Json labels = {{"labels", parse_json(object.string("labels"), object.where() + ": field 'labels'")}};
  info.labels = JsonObject(labels, object.where()).strings("labels");
  object.finish();
  return info;
}

// The values of one tensor, which must be a list of the given type and, if known, length.
template <class Value>
std::vector<Value> take(const TensorSet& set, std::string_view where, std::string_view name, DType type,
                        int64_t length = -1) {
  const TensorView* view = set.find(name);
  if (view == nullptr) throw_bad_file(where, "lacks the tensor '{}'", name);
  const std::string place = fmt::format("{}: tensor '{}'", where, name);
  if (view->dtype != type) throw_bad_file(place, "got {}, want {}", name_of(view->dtype), name_of(type));
  if (view->shape.size() != 1 || (length >= 0 && view->shape[0] != length)) {
    throw_bad_file(place, "got shape {}, want {}", shape_text(view->shape),
                   length < 0 ? "one side" : fmt::format("[{}]", length));
  }
  std::vector<Value> values(static_cast<size_t>(view->elements()));
  copy_raw(*view, std::as_writable_bytes(std::span(values)));
  return values;
}

Features features_of(const TensorSet& set, const std::string& where) {
  const std::vector<std::string> known(kTensors.begin(), kTensors.end());
  for (const auto& [name, view] : set.tensors) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw_bad_file(where, Hint{suggestion(name, known)}, "unknown tensor '{}'", name);
    }
  }
  Features out;
  out.info = read_info(set, where);
  out.ids = take<int32_t>(set, where, "ids", DType::i32);
  out.types = take<uint8_t>(set, where, "types", DType::u8, static_cast<int64_t>(out.ids.size()));
  out.gold = take<float>(set, where, "gold", DType::f32);
  const auto rows = static_cast<int64_t>(out.gold.size());
  out.index = take<int64_t>(set, where, "index", DType::i64, rows);
  out.offsets = take<int64_t>(set, where, "offsets", DType::i64, rows + 1);
  if (set.find("sets") != nullptr)
    out.sets = take<float>(set, where, "sets", DType::f32, rows * static_cast<int64_t>(out.info.labels.size()));
  check_features(out, where);
  return out;
}

}  // namespace

Features read_features(const std::filesystem::path& path) {
  return features_of(read_safetensors(path), path.string());
}

Features parse_features(std::span<const std::byte> safetensors, std::string_view where) {
  return features_of(parse_safetensors(safetensors, where), std::string(where));
}

void write_features(const std::filesystem::path& path, const Features& features) {
  check_features(features, path.string());
  const FeatureInfo& info = features.info;
  std::vector<NamedTensor> tensors = {{"ids", view_of(DType::i32, features.ids)},
                                      {"types", view_of(DType::u8, features.types)},
                                      {"offsets", view_of(DType::i64, features.offsets)},
                                      {"gold", view_of(DType::f32, features.gold)},
                                      {"index", view_of(DType::i64, features.index)}};
  if (!features.sets.empty()) tensors.push_back({"sets", view_of(DType::f32, features.sets)});
  const Metadata metadata = {{"format", std::string(kFormat)},
                             {"tokenizer", info.tokenizer},
                             {"data", info.data},
                             {"task", info.task},
                             {"split", info.split},
                             {"labels", Json(info.labels).dump()},
                             {"max_length", std::to_string(info.max_length)}};
  write_safetensors(path, tensors, metadata);
}

}  // namespace exeunt
