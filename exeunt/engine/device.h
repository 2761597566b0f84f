// SPDX-License-Identifier: Apache-2.0
// Where a model runs: `cpu`, `cuda` (the first GPU), `cuda:1`, or `auto` (the first GPU if there is one, else the CPU).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "exeunt/engine/precision.h"

namespace exeunt {

class Checkpoint;
struct Kernels;

struct Device {
  enum class Kind : uint8_t { cpu, cuda, automatic };
  Kind kind = Kind::cpu;
  int index = 0;  // of a GPU

  bool operator==(const Device&) const = default;
};

[[nodiscard]] Device parse_device(std::string_view text);  // throws Error (usage)
[[nodiscard]] std::string str(const Device& device);       // "cpu", "cuda:0", "auto"

// The device that `wanted` stands for here: `auto` becomes one. Throws Error (resources) for a GPU that this build or
// this machine does not have, and says why.
[[nodiscard]] Device find_device(const Device& wanted);

// The same for a model: `auto` takes no GPU for one that a GPU does not run. Throws Error (resources) for a GPU that is
// named and does not run it.
[[nodiscard]] Device find_device(const Checkpoint& model, const Device& wanted);

// What an engine on a device is called and can do: known before a model is loaded.
struct EngineTraits {
  std::string name = {};  // "cpu/avx512", "cuda/sm_90": as policy files and traces have it
  int numerics = 0;       // raised whenever this engine computes other bits than before
  bool bf16 = false;      // bf16 is its own: the precision where nobody asks for one
  bool int8 = true;
};
[[nodiscard]] bool supports(const EngineTraits& engine, Precision precision) noexcept;

// Throws Error (resources) as find_device does. `kernels` are the CPU's; null: choose_kernels().
[[nodiscard]] EngineTraits engine_traits(const Device& device, const Kernels* kernels = nullptr);
[[nodiscard]] EngineTraits engine_traits(const Checkpoint& model, const Device& device,
                                         const Kernels* kernels = nullptr);

}  // namespace exeunt
