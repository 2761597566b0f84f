// SPDX-License-Identifier: Apache-2.0
// Default precision and exceptions of a model.
#pragma once

#include <optional>
#include <string>

#include "exeunt/exits/policy_file.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/runtime/cpu/kernels.h"
#include "exeunt/runtime/engine.h"

namespace exeunt {

// The default of the model's policies if the kernels support that precision; else bf16 if they support it; else fp32.
// `policies` were made for the model's weights; null = there are none.
[[nodiscard]] Precision default_precision(const PolicyFile* policies, const Kernels& kernels);
// The same from its policy.json, unless made for other weights, on this processor.
[[nodiscard]] Precision default_precision(const Checkpoint& model);

// Options for the model: `precision` or its default, with the exceptions in its precision.json.
[[nodiscard]] EngineOptions engine_options(const Checkpoint& model, std::optional<Precision> precision = {},
                                           int threads = 0);

// sha256 of the exceptions with which `model` runs in the precision of that name; nothing if it has none. It binds
// a policy's entry to the precision map it was measured with.
[[nodiscard]] std::optional<std::string> precision_map_of(const Checkpoint& model, std::string_view precision);

}  // namespace exeunt
