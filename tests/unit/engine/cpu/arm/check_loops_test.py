#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_loops.py accepts a clean listing and finds each fault it is meant to find."""
import unittest

import check_loops

LOADS = ["ldp\tq0, q1, [x0, #64]"] * 10 + ["prfm\tpldl1keep, [x1, #768]"] * 5
PRODUCTS = {
    "fmla": "fmla\tv8.4s, v4.4s, v0.s[0]",
    "sdot": "sdot\tv8.4s, v4.16b, v0.4b[0]",
    "bfmmla": "bfmmla\tv8.4s, v0.8h, v4.8h",
    "smmla": "smmla\tv8.4s, v0.16b, v4.16b",
}


def listing(change=lambda kind, body: body):
    """A function for each kind, as objdump prints it, with its loop changed."""
    lines, address = [], 0
    for kind, product in PRODUCTS.items():
        body = [product] * check_loops.PRODUCTS[kind] + LOADS + ["add\tx1, x1, #0xc0", "subs\tx2, x2, #0x1"]
        lines.append(f"{address:016x} <multiply_{kind}>:")
        start = address + 4
        for instruction in ["stp\tx29, x30, [sp]", *change(kind, body), f"b.ne\t{start:x} <multiply_{kind}+0x4>  // b.any"]:
            lines.append(f"  {address:x}:\t{instruction}")
            address += 4
    return "\n".join(lines)


class CheckLoops(unittest.TestCase):
    def expect(self, text, change):
        wrong, _ = check_loops.check(listing(change))
        self.assertTrue(any(text in fault for fault in wrong), wrong)

    def test_a_clean_listing_passes(self):
        self.assertEqual(check_loops.check(listing()), ([], dict.fromkeys(PRODUCTS, 1)))

    def test_a_spill_is_found(self):
        self.expect("touches the stack", lambda kind, body: [*body, "str\tq8, [sp, #16]"])

    def test_a_missing_product_is_found(self):
        self.expect("has not 48 bfmmla", lambda kind, body: body[1:])

    def test_a_needless_move_is_found(self):
        self.expect("has 1 mov", lambda kind, body: [*body, "mov\tv1.16b, v2.16b"])

    def test_a_loop_that_is_gone_is_found(self):
        self.expect("no inner loop with sdot", lambda kind, body: ["nop"] if kind == "sdot" else body)


if __name__ == "__main__":
    unittest.main()
