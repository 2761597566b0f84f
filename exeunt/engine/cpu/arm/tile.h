// SPDX-License-Identifier: Apache-2.0
// The inner loops: 8 rows of the input against a panel of 12 outputs, all 96 sums in 24 registers from the first input
// to the last. They are assembly because gcc 12 spills the sums of the same loop in intrinsics; a test checks
// the object files for it (tests/unit/engine/cpu/arm/check_loops.py).
//
// Registers 0 to 3 hold the input and 4 to 7 the panel; each pair is loaded again as soon as its last product is
// issued, one step ahead of its use. The sums are the asm's operands 0 to 23, then come the two addresses and the
// count.
#pragma once

#include <cstddef>

#include <arm_neon.h>

namespace exeunt::kernel {
namespace {

// clang-format off
// NOLINTBEGIN(bugprone-macro-parentheses): an asm takes its text without them, and they make its operands no clearer
#define EXEUNT_SUMS(s)                                                                                                 \
  "=&w"(s[0]), "=&w"(s[1]), "=&w"(s[2]), "=&w"(s[3]), "=&w"(s[4]), "=&w"(s[5]), "=&w"(s[6]), "=&w"(s[7]), "=&w"(s[8]), \
      "=&w"(s[9]), "=&w"(s[10]), "=&w"(s[11]), "=&w"(s[12]), "=&w"(s[13]), "=&w"(s[14]), "=&w"(s[15]), "=&w"(s[16]),   \
      "=&w"(s[17]), "=&w"(s[18]), "=&w"(s[19]), "=&w"(s[20]), "=&w"(s[21]), "=&w"(s[22]), "=&w"(s[23])

#define EXEUNT_ZERO4(a, b, c, d) \
  "movi %" #a ".2d, #0\n movi %" #b ".2d, #0\n movi %" #c ".2d, #0\n movi %" #d ".2d, #0\n"
#define EXEUNT_BEGIN                                                                          \
  EXEUNT_ZERO4(0, 1, 2, 3)                                                                    \
  EXEUNT_ZERO4(4, 5, 6, 7)                                                                    \
  EXEUNT_ZERO4(8, 9, 10, 11)                                                                  \
  EXEUNT_ZERO4(12, 13, 14, 15)                                                                \
  EXEUNT_ZERO4(16, 17, 18, 19)                                                                \
  EXEUNT_ZERO4(20, 21, 22, 23)                                                                \
  "ldp q0, q1, [%24]\n ldp q2, q3, [%24, #32]\n ldp q4, q5, [%25]\n ldp q6, q7, [%25, #32]\n" \
  ".p2align 5\n"                                                                              \
  "1:\n"
#define EXEUNT_END       \
  "add %25, %25, #192\n" \
  "subs %26, %26, #1\n"  \
  "b.ne 1b\n"
#define EXEUNT_CLOBBERS "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "cc", "memory"

// Four rows by one vector of four outputs: lane after lane of register a against register b.
#define EXEUNT_LANES(op, bt, at, b, a, s0, s1, s2, s3)   \
  op " %" #s0 ".4s, v" #b "." bt ", v" #a "." at "[0]\n" \
  op " %" #s1 ".4s, v" #b "." bt ", v" #a "." at "[1]\n" \
  op " %" #s2 ".4s, v" #b "." bt ", v" #a "." at "[2]\n" \
  op " %" #s3 ".4s, v" #b "." bt ", v" #a "." at "[3]\n"
// Eight rows (registers a and a2) by the first, second or third four outputs.
#define EXEUNT_FIRST(op, bt, at, b, a, a2)   \
  EXEUNT_LANES(op, bt, at, b, a, 0, 3, 6, 9) \
  EXEUNT_LANES(op, bt, at, b, a2, 12, 15, 18, 21)
#define EXEUNT_SECOND(op, bt, at, b, a, a2)   \
  EXEUNT_LANES(op, bt, at, b, a, 1, 4, 7, 10) \
  EXEUNT_LANES(op, bt, at, b, a2, 13, 16, 19, 22)
#define EXEUNT_THIRD(op, bt, at, b, a, a2)    \
  EXEUNT_LANES(op, bt, at, b, a, 2, 5, 8, 11) \
  EXEUNT_LANES(op, bt, at, b, a2, 14, 17, 20, 23)

// Four units of every row in a step; sums[3 r + q] are the outputs 4 q … 4 q + 3 of row r.
#define EXEUNT_LANE_LOOP(op, bt, at) \
  EXEUNT_BEGIN                       \
  EXEUNT_FIRST(op, bt, at, 4, 0, 1)  \
  EXEUNT_SECOND(op, bt, at, 5, 0, 1) \
  "ldp q4, q5, [%25, #64]\n"         \
  EXEUNT_THIRD(op, bt, at, 6, 0, 1)  \
  "ldp q0, q1, [%24, #64]\n"         \
  EXEUNT_FIRST(op, bt, at, 7, 2, 3)  \
  "ldp q6, q7, [%25, #96]\n"         \
  "prfm pldl1keep, [%25, #768]\n"    \
  EXEUNT_SECOND(op, bt, at, 4, 2, 3) \
  EXEUNT_THIRD(op, bt, at, 5, 2, 3)  \
  "ldp q4, q5, [%25, #128]\n"        \
  "ldp q2, q3, [%24, #96]\n"         \
  "prfm pldl1keep, [%25, #832]\n"    \
  EXEUNT_FIRST(op, bt, at, 6, 0, 1)  \
  EXEUNT_SECOND(op, bt, at, 7, 0, 1) \
  "ldp q6, q7, [%25, #160]\n"        \
  "prfm pldl1keep, [%25, #896]\n"    \
  EXEUNT_THIRD(op, bt, at, 4, 0, 1)  \
  "ldp q0, q1, [%24, #128]!\n"       \
  "prfm pldl1keep, [%24, #512]\n"    \
  EXEUNT_FIRST(op, bt, at, 5, 2, 3)  \
  "ldp q4, q5, [%25, #192]\n"        \
  "prfm pldl1keep, [%24, #576]\n"    \
  EXEUNT_SECOND(op, bt, at, 6, 2, 3) \
  EXEUNT_THIRD(op, bt, at, 7, 2, 3)  \
  "ldp q6, q7, [%25, #224]\n"        \
  "ldp q2, q3, [%24, #32]\n"         \
  EXEUNT_END

// Two outputs (register b) by the four pairs of rows in registers 0 to 3: four 2 × 2 matrices.
#define EXEUNT_PAIR(op, t, b, s0, s1, s2, s3)  \
  op " %" #s0 ".4s, v0." t ", v" #b "." t "\n" \
  op " %" #s1 ".4s, v1." t ", v" #b "." t "\n" \
  op " %" #s2 ".4s, v2." t ", v" #b "." t "\n" \
  op " %" #s3 ".4s, v3." t ", v" #b "." t "\n"
// The last four outputs of a unit: by rows, so that registers 0 and 1 are free for the next unit halfway.
#define EXEUNT_LAST(op, t, b, b2, load)    \
  op " %4.4s, v0." t ", v" #b "." t "\n"   \
  op " %5.4s, v0." t ", v" #b2 "." t "\n"  \
  op " %10.4s, v1." t ", v" #b "." t "\n"  \
  op " %11.4s, v1." t ", v" #b2 "." t "\n" \
  load                                     \
  op " %16.4s, v2." t ", v" #b "." t "\n"  \
  op " %17.4s, v2." t ", v" #b2 "." t "\n" \
  op " %22.4s, v3." t ", v" #b "." t "\n"  \
  op " %23.4s, v3." t ", v" #b2 "." t "\n"

// Two units of every row in a step; sums[6 p + q] are the outputs 2 q and 2 q + 1 of row 2 p, then of row 2 p + 1.
#define EXEUNT_MATRIX_LOOP(op, t)     \
  EXEUNT_BEGIN                        \
  EXEUNT_PAIR(op, t, 4, 0, 6, 12, 18) \
  EXEUNT_PAIR(op, t, 5, 1, 7, 13, 19) \
  "ldp q4, q5, [%25, #64]\n"                             \
  "prfm pldl1keep, [%25, #768]\n"                        \
  EXEUNT_PAIR(op, t, 6, 2, 8, 14, 20)                    \
  EXEUNT_PAIR(op, t, 7, 3, 9, 15, 21)                    \
  "ldp q6, q7, [%25, #96]\n"                             \
  "prfm pldl1keep, [%25, #832]\n"                        \
  EXEUNT_LAST(op, t, 4, 5, "ldp q0, q1, [%24, #64]\n")   \
  "ldp q2, q3, [%24, #96]\n"                             \
  "ldp q4, q5, [%25, #128]\n"                            \
  "prfm pldl1keep, [%25, #896]\n"                        \
  EXEUNT_PAIR(op, t, 6, 0, 6, 12, 18)                    \
  EXEUNT_PAIR(op, t, 7, 1, 7, 13, 19)                    \
  "ldp q6, q7, [%25, #160]\n"                            \
  "prfm pldl1keep, [%24, #640]\n"                        \
  EXEUNT_PAIR(op, t, 4, 2, 8, 14, 20)                    \
  EXEUNT_PAIR(op, t, 5, 3, 9, 15, 21)                    \
  "ldp q4, q5, [%25, #192]\n"                            \
  "prfm pldl1keep, [%24, #704]\n"                        \
  EXEUNT_LAST(op, t, 6, 7, "ldp q0, q1, [%24, #128]!\n") \
  "ldp q2, q3, [%24, #32]\n"                             \
  "ldp q6, q7, [%25, #224]\n"                            \
  EXEUNT_END

#define EXEUNT_RUN(loop, sums, a, b, steps) \
  asm volatile(loop : EXEUNT_SUMS(sums), "+r"(a), "+r"(b), "+r"(steps) : : EXEUNT_CLOBBERS)
// NOLINTEND(bugprone-macro-parentheses)
// clang-format on

}  // namespace
}  // namespace exeunt::kernel
