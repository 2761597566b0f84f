#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints texts of 5 to 12 drawn words, the same for a seed on every machine. Texts of two seeds hardly ever meet.

    drawn_texts.py COUNT SEED
"""
import random
import sys

WORDS = 'the a an of to and in is it was not no very too film movie plot'.split()

count, seed = map(int, sys.argv[1:])
draw = random.Random(seed)  # awk's rand() may ignore its seed
for _ in range(count):
    print(*(WORDS[int(draw.random() * len(WORDS))] for _ in range(5 + int(draw.random() * 8))))
