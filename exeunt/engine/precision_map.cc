// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/precision_map.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/suggest.h"
#include "exeunt/model/schema.h"

namespace exeunt {
namespace {

constexpr std::string_view kFormat = "exeunt.precision/1";

Exceptions parse_exceptions(const Json& value, const std::string& where, const std::vector<std::string>& matrices) {
  if (!value.is_object()) throw_bad_file(where, "got {}, want an object of matrices and precisions", glimpse(value));
  Exceptions exceptions;
  for (const auto& [matrix, name] : value.items()) {
    if (!is_matrix(matrices, matrix)) {
      const std::string near = nearest(matrix, matrices);
      const std::string hint =
          near.empty() ? fmt::format("they go from {} to {}, and poolers", matrices.front(), matrices.back())
                       : fmt::format("did you mean '{}'?", near);
      throw_bad_file(where, Hint{hint}, "the model has no matrix '{}'", matrix.substr(0, 64));
    }
    const auto precision = name.is_string() ? precision_named(name.get_ref<const std::string&>()) : std::nullopt;
    if (!precision) throw_bad_file(where, "{}: got {}, want fp32, bf16 or int8", matrix, glimpse(name));
    exceptions.emplace(matrix, *precision);
  }
  return exceptions;
}

OrderedJson exceptions_json(const Exceptions& exceptions) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [matrix, precision] : exceptions) out[matrix] = name_of(precision);
  return out;
}

}  // namespace

const Exceptions& PrecisionMap::exceptions(Precision precision) const {
  static const Exceptions none = {};
  const auto found = by_precision.find(precision);
  return found == by_precision.end() ? none : found->second;
}

std::vector<std::string> matrix_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  std::string last;
  for (int i = 0; i < spec.layers; ++i) {
    const std::string prefix = layer_prefix(spec, i);
    if (prefix == last) continue;
    for (const char* part : {"qkv", "output", "ffn1", "ffn2"}) names.push_back(fmt::format("{}.{}", prefix, part));
    last = prefix;
  }
  return names;
}

bool is_matrix(const std::vector<std::string>& of_layers, std::string_view matrix) {
  return matrix == kPoolers || std::find(of_layers.begin(), of_layers.end(), matrix) != of_layers.end();
}

namespace {

PrecisionMap precision_map_of(const Json& json, const std::string& where, const ModelSpec& spec) {
  JsonObject fields(json, where);
  if (const std::string format = fields.string("format"); format != kFormat)
    throw_bad_file(where, "got format '{}', want '{}'", format.substr(0, 64), kFormat);
  const std::vector<std::string> matrices = matrix_names(spec);
  PrecisionMap map;
  for (const Precision precision : kPrecisions) {
    const std::string_view name = name_of(precision);
    const Json* exceptions = fields.find(name);
    if (exceptions == nullptr) continue;
    map.by_precision[precision] = parse_exceptions(*exceptions, fmt::format("{}: {}", where, name), matrices);
  }
  fields.finish();
  return map;
}

}  // namespace

PrecisionMap parse_precision_map(std::string_view text, const std::string& where, const ModelSpec& spec) {
  return precision_map_of(parse_json(text, where), where, spec);
}

PrecisionMap find_precision_map(const std::filesystem::path& folder, const ModelSpec& spec) {
  if (folder.empty() || !path_exists(folder / kPrecisionFile)) return {};
  const ReadPath path = ReadPath::in(folder, kPrecisionFile);
  return precision_map_of(read_json(path), path.string(), spec);
}

std::string precision_map_text(const PrecisionMap& map) {
  OrderedJson out;
  out["format"] = kFormat;
  for (const auto& [precision, exceptions] : map.by_precision) {
    out[std::string(name_of(precision))] = exceptions_json(exceptions);
  }
  return json_text(out);
}

std::optional<std::string> precision_map_sha256(const Exceptions& exceptions) {
  if (exceptions.empty()) return std::nullopt;
  return sha256_hex(exceptions_json(exceptions).dump());
}

}  // namespace exeunt
