// SPDX-License-Identifier: Apache-2.0
// What a fixture holds, as its script wrote it down: {"name": {"dtype": "F32", "shape": [2, 3], "hex": "…"}}.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "exeunt/base/json.h"
#include "exeunt/base/tensor.h"

namespace exeunt {

inline std::string hex_of(const TensorView& view) {
  std::vector<std::byte> raw(static_cast<size_t>(view.elements()) * size_of(view.dtype));
  copy_raw(view, raw);
  std::string out;
  for (const std::byte byte : raw) out += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return out;
}

inline void expect_tensors(const TensorSet& set, const std::filesystem::path& expected_file) {
  const Json expected = read_json(expected_file);
  EXPECT_EQ(set.tensors.size(), expected.size());
  for (const auto& [name, entry] : expected.items()) {
    SCOPED_TRACE(name);
    const TensorView* view = set.find(name);
    ASSERT_NE(view, nullptr);
    EXPECT_EQ(name_of(view->dtype), entry["dtype"].get<std::string>());
    EXPECT_EQ(view->shape, entry["shape"].get<std::vector<int64_t>>());
    EXPECT_EQ(hex_of(*view), entry["hex"].get<std::string>());
  }
}

}  // namespace exeunt
