// SPDX-License-Identifier: Apache-2.0
// precision.json: for each precision, the matrices of a model that run in another one.
//   {"format": "exeunt.precision/1", "int8": {"layer.3.ffn2": "bf16", …}}
// A matrix is named by its layer and what it does: qkv (query, key and value share one operand and one precision),
// output, ffn1, ffn2. Layers that share their weights are named by their group: group.0.ffn2. The poolers of all exits
// are named together; below fp32 they run in bf16, or fp32 where the processor lacks it, unless the map says otherwise.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/files.h"
#include "exeunt/engine/precision.h"
#include "exeunt/model/spec.h"

namespace exeunt {

inline constexpr std::string_view kPrecisionFile = "precision.json";

inline constexpr std::string_view kPoolers = "poolers";

using Exceptions = std::map<std::string, Precision, std::less<>>;

struct PrecisionMap {
  std::map<Precision, Exceptions> by_precision = {};

  [[nodiscard]] const Exceptions& exceptions(Precision precision) const;  // an empty map if there are none
  bool operator==(const PrecisionMap&) const = default;
};

// The matrices of the layers, in execution order: "layer.0.qkv", "layer.0.output" …
[[nodiscard]] std::vector<std::string> matrix_names(const ModelSpec& spec);
// Whether a map may name `matrix`: one of the layers', or the poolers.
[[nodiscard]] bool is_matrix(const std::vector<std::string>& of_layers, std::string_view matrix);

// Throws Error (bad_file) for unknown fields, precisions and matrices.
[[nodiscard]] PrecisionMap parse_precision_map(std::string_view text, const std::string& where, const ModelSpec& spec);
[[nodiscard]] std::string precision_map_text(const PrecisionMap& map);

// The map of the model in `folder`; empty without a file.
[[nodiscard]] PrecisionMap find_precision_map(const std::filesystem::path& folder, const ModelSpec& spec);

// sha256 of the exceptions of one precision, for a policy's entry; nothing if there are none.
[[nodiscard]] std::optional<std::string> precision_map_sha256(const Exceptions& exceptions);

}  // namespace exeunt
