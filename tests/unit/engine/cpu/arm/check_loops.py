#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the machine code of the aarch64 kernels: the inner loops must hold nothing but what they need.

check_loops.py [--objdump PROGRAM] [--print INSTRUCTION] FILE...

--print writes the first inner loop with that product as assembly, for a tool that estimates its cycles.

A loop is a straight run of instructions that ends in a branch back to its start. Those that multiply (fmla by element,
sdot, bfmmla, smmla) in great number are the inner loops. Each must have exactly its products, its ten loads of register
pairs, prefetches, two counters and the branch; none may touch the stack. There must be one of each kind at least.
"""
import argparse
import re
import subprocess
import sys

# Products in one step of the loop, by instruction: 4 units of 8 rows by 12 outputs, or 2 units in matrices of 2 x 2.
PRODUCTS = {"fmla": 96, "sdot": 96, "bfmmla": 48, "smmla": 48}
OTHERS = {"ldp": 10, "prfm": 5, "add": 1, "subs": 1, "b.ne": 1}
FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)(?:\s+(.*?))?(?:\s*//.*)?$")


def functions(listing):
    """Yields (name, [(address, mnemonic, operands)])."""
    name, code = None, []
    for line in listing.splitlines():
        if match := FUNCTION.match(line):
            if code:
                yield name, code
            name, code = match[1], []
        elif name and (match := INSTRUCTION.match(line)):
            code.append((int(match[1], 16), match[2], match[3] or ""))
    if code:
        yield name, code


def loops(code):
    """Yields the straight runs of instructions that end in a branch back to their start."""
    at = {address: i for i, (address, _, _) in enumerate(code)}
    last_branch = -1
    for i, (address, mnemonic, operands) in enumerate(code):
        if not re.match(r"(b|b\..*|cbn?z|tbn?z|bl|blr|br|ret)$", mnemonic):
            continue
        target = re.search(r"\b([0-9a-f]+) <", operands)
        start = at.get(int(target[1], 16)) if target else None
        if start is not None and last_branch < start <= i:
            yield code[start : i + 1]
        last_branch = i


def kind_of(loop):
    """The product instruction of an inner loop, or None for any other loop."""
    for product, wanted in PRODUCTS.items():
        count = sum(m == product and (product != "fmla" or ".s[" in o) for _, m, o in loop)
        if count * 4 >= wanted:
            return product
    return None


def faults(loop):
    """What is wrong with an inner loop, as text."""
    product = kind_of(loop)
    counts = {}
    for _, mnemonic, operands in loop:
        counts[mnemonic] = counts.get(mnemonic, 0) + 1
        if re.search(r"\b(sp|x29)\b", operands):
            yield f"touches the stack: {mnemonic} {operands}"
    for mnemonic, wanted in {product: PRODUCTS[product], **OTHERS}.items():
        if counts.pop(mnemonic, 0) != wanted:
            yield f"has not {wanted} {mnemonic}"
    for mnemonic in counts:
        yield f"has {counts[mnemonic]} {mnemonic}"


def check(listing):
    """Returns (faults, number of inner loops by kind)."""
    found, wrong = dict.fromkeys(PRODUCTS, 0), []
    for name, code in functions(listing):
        for loop in loops(code):
            if kind := kind_of(loop):
                found[kind] += 1
                wrong += [f"{name} at {loop[0][0]:x}: {fault}" for fault in faults(loop)]
    wrong += [f"no inner loop with {kind} was found" for kind, count in found.items() if count == 0]
    return wrong, found


def assembly(listing, kind):
    """The first inner loop of a kind, as an assembler reads it."""
    for _, code in functions(listing):
        for loop in loops(code):
            if kind_of(loop) == kind:
                return "\n".join(["loop:", *(f"{m} {o}" for _, m, o in loop[:-1]), f"{loop[-1][1]} loop"])
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--print", choices=PRODUCTS)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    command = [options.objdump, "--disassemble", "--no-show-raw-insn", *options.files]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if options.print:
        print(assembly(listing, options.print))
        return 0
    wrong, found = check(listing)
    print("inner loops:", ", ".join(f"{count} {kind}" for kind, count in found.items()))
    for fault in wrong:
        print("fault:", fault)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
