// SPDX-License-Identifier: Apache-2.0
// The committed golden values (tests/fixtures/golden/NAME/golden.safetensors), as other software computed them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/tensor.h"

namespace exeunt {

inline std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(EXEUNT_TEST_DATA "/golden")) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A golden tensor's values; empty if the model has no such thing.
template <class T>
std::vector<T> golden_values(const TensorSet& set, const std::string& name) {
  const TensorView* view = set.find(name);
  if (view == nullptr) return {};
  std::vector<T> out(static_cast<size_t>(view->elements()));
  EXPECT_EQ(size_of(view->dtype), sizeof(T)) << name;
  copy_raw(*view, std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace exeunt
