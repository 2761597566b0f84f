// SPDX-License-Identifier: Apache-2.0
// System calls of the test program that fail on demand: what a full disk does, at any one of them.
#pragma once

namespace exeunt {

// The nth of the calls that create, write, flush, rename or make folders fails with "no space left"; 0 = none does.
void fail_call(int nth) noexcept;
// Calls counted since the last fail_call().
[[nodiscard]] int calls_seen() noexcept;

}  // namespace exeunt
