// SPDX-License-Identifier: Apache-2.0
// Which allocation is to fail: what a program under fail_new.cc and its tester share in a file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace exeunt::load {

struct FailNew {
  std::atomic<int64_t> left{0};       // counts down, from main() on; the allocation that makes it 0 fails
  std::atomic<size_t> bytes{0};       // smaller ones do not count
  std::atomic<bool> for_good{false};  // it fails even where operator new's handler would find memory
};

}  // namespace exeunt::load
