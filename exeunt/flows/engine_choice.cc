// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/engine_choice.h"

#include <filesystem>

#include "exeunt/exits/policy_file.h"
#include "exeunt/model/own_folder.h"
#include "exeunt/runtime/cpu/kernels.h"
#include "exeunt/runtime/precision_map.h"

namespace exeunt {

Precision default_precision(const Checkpoint& model) {
  const bool half = choose_kernels().bf16;
  const Precision own = half ? Precision::bf16 : Precision::fp32;
  const std::filesystem::path path = model.folder() / "policy.json";
  std::error_code ignored;
  if (model.folder().empty() || !std::filesystem::exists(path, ignored)) return own;
  const PolicyFile file = read_policy_file(path);
  const auto named = precision_named(file.default_precision);
  if (!named || file.weights != weights_sha256(model) || (*named == Precision::bf16 && !half)) return own;
  return *named;
}

EngineOptions engine_options(const Checkpoint& model, std::optional<Precision> precision, int threads) {
  EngineOptions options;
  options.precision = precision ? *precision : default_precision(model);
  options.exceptions = find_precision_map(model.folder(), model.spec()).exceptions(*options.precision);
  options.threads = threads;
  return options;
}

std::optional<std::string> precision_map_of(const Checkpoint& model, std::string_view precision) {
  const auto named = precision_named(precision);
  if (!named) return std::nullopt;
  return precision_map_sha256(find_precision_map(model.folder(), model.spec()).exceptions(*named));
}

}  // namespace exeunt
