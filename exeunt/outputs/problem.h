// SPDX-License-Identifier: Apache-2.0
// What kind of answer the logits of a model stand for. Plain enough for device code.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace exeunt {

inline constexpr int kMaxExits = 128;  // of a model

// A switch over it has no default, so that the compiler finds every place that a new one needs.
enum class Problem : uint8_t {
  classification,  // one of the labels
  multi_label,     // each label is given or not, by the sigmoid of its output
  regression       // one output as it is: a value, or the score of a reranker
};

// Which head answers at the last layer of a model with a ramp there: the trained final head, or the ramp, if the rule
// lets its evidence leave.
enum class LastHead { final, ramp };
[[nodiscard]] constexpr std::array<std::string_view, 2> names_of(LastHead) noexcept {
  return {"final", "ramp"};
}

}  // namespace exeunt
