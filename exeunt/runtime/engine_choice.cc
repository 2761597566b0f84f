// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/engine_choice.h"

#include <filesystem>

#include "exeunt/base/files.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/runtime/precision_map.h"

namespace exeunt {

Precision default_precision(const PolicyFile* policies, const Kernels& kernels) {
  const Precision own = kernels.bf16 ? Precision::bf16 : Precision::fp32;
  const auto named = policies == nullptr ? std::nullopt : precision_named(policies->default_precision);
  return !named || *named == Precision::bf16 ? own : *named;  // the file may come from another machine
}

Precision default_precision(const Checkpoint& model) {
  const Kernels& kernels = choose_kernels();
  const std::filesystem::path path = model.folder() / "policy.json";
  if (model.folder().empty() || !path_exists(path)) return default_precision(nullptr, kernels);
  const PolicyFile file = read_policy_file(path);
  return default_precision(file.weights == weights_sha256(model) ? &file : nullptr, kernels);
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
