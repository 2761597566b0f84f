# SPDX-License-Identifier: Apache-2.0
"""A CSV of COUNT short texts without labels, always the same: many_texts.py COUNT"""
import random
import sys

WORDS = """film plot actor story book song meal food service good bad great awful fine poor slow fast warm cold happy sad dull
bright clever stupid boring best worst never always the a is was not very too it""".split()

random.seed(1)
print("text")
for _ in range(int(sys.argv[1])):
    print(" ".join(random.choice(WORDS) for _ in range(random.randint(3, 12))))
