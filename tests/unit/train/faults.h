// SPDX-License-Identifier: Apache-2.0
// System calls of the test program that fail or kill it on demand: what a full disk or a power cut does, at any one of
// them.
#pragma once

namespace exeunt {

// The nth of the calls that create, write, flush, rename or make folders fails with "no space left"; 0 = none does.
void fail_call(int nth) noexcept;
// The process is killed at the nth of these calls and of those that remove files; a write is half done by then.
void kill_at_call(int nth) noexcept;
// Calls counted since the last fail_call() or kill_at_call().
[[nodiscard]] int calls_seen() noexcept;

}  // namespace exeunt
