// SPDX-License-Identifier: Apache-2.0
// The input of a batch: tokens, lists and options of its texts, in the same layout in pinned memory and on the device.
#pragma once

#include <span>

#include "exeunt/engine/cuda/device_model.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::cuda {

inline constexpr int kMaxPolicies = 16;  // different ones in one batch

// How one text of a batch runs.
struct SlotOptions {
  const Policy* policy = nullptr;  // stays alive until its batch has run; the same address is the same policy
  int stop = 0;                    // the site where the text leaves at the latest
  bool all_exits = false;          // evaluates every exit
};

struct InputLayout {
  InputLayout() = default;
  explicit InputLayout(const Capacity& capacity);

  [[nodiscard]] TextList list(std::byte* base) const;
  template <class T>
  [[nodiscard]] static T* at(std::byte* base, size_t place) {
    return reinterpret_cast<T*>(base + place);
  }

  size_t live = 0, slot = 0, begin = 0, tiles = 0, asks = 0, policies = 0, ids = 0, types = 0, positions = 0;
  size_t bytes = 0;
};

struct InputTexts {
  std::span<const Encoding* const> encodings = {};
  std::span<const int> slots = {};
  std::span<const SlotAsk> asks = {};
  std::span<const Policy* const> policies = {};  // kMaxPolicies at most; null: no such policy
};
void write_input(const InputTexts& texts, const DeviceModel& model, const InputLayout& layout, std::byte* host);

}  // namespace exeunt::cuda
