// SPDX-License-Identifier: Apache-2.0
// Python pickles as data. A pickle is a program for a stack machine that may name any function and call it; this reader
// knows the opcodes and the names a PyTorch state dict needs, rejects every other, and calls nothing: what a pickle
// would call is only written down. All values live in one list and refer to each other by index, so that hostile
// nesting or cycles cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exeunt/base/tensor.h"

namespace exeunt {

// A Python name that pickles may use, and its meaning.
struct PickleName {
  enum class Role : uint8_t {
    ordered_dict,
    rebuild_tensor,
    rebuild_tensor_v2,
    rebuild_parameter,
    size,
    storage,
    dtype
  };
  std::string_view module = {}, name = {};
  Role role = {};
  std::optional<DType> dtype = {};  // of the elements, for a storage
};

using PickleRef = uint32_t;  // index into Pickle::values

struct PickleValue {
  enum class Kind : uint8_t { none, boolean, integer, real, text, tuple, list, dict, name, call, stored };
  Kind kind = Kind::none;
  uint8_t depth = 0;                 // of nesting below it, when it was made
  const PickleName* name = nullptr;  // of a name, and of what a call calls
  int64_t integer = 0;               // of an integer, and 0 or 1 of a boolean
  std::string_view text = {};        // inside the pickle
  // Of a tuple or list its items; of a dict key, value, key, value …; of a call its arguments; of a stored value
  // (a "persistent id", PyTorch's way to name a storage) its description.
  std::vector<PickleRef> items = {};
};

struct Pickle {
  std::deque<PickleValue> values;
  PickleRef root = 0;
  size_t size = 0;  // bytes it took; others may follow in the same file

  [[nodiscard]] const PickleValue& at(PickleRef ref) const { return values[ref]; }
  [[nodiscard]] const PickleValue& top() const { return values[root]; }
};

// What to do about a file that is refused.
inline constexpr std::string_view kSaveWeights =
    "save only the weights, torch.save(model.state_dict(), …), or re-save them with safetensors";

// Reads one pickle of protocol 2 from the front of `bytes`, which the caller keeps alive. `where` prefixes messages.
[[nodiscard]] Pickle parse_pickle(std::span<const std::byte> bytes, std::string_view where);

[[nodiscard]] std::string_view name_of(PickleValue::Kind kind) noexcept;  // "a tuple"

// As pickletools names it, for messages; empty if Python has no such opcode.
[[nodiscard]] std::string_view opcode_name(uint8_t opcode) noexcept;

}  // namespace exeunt
