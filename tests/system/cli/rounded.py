#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies text with fractions cut to four digits, as their last ones differ between processors, and with JSON's lists of
numbers and words on one line."""
import re
import sys

FRACTION = re.compile(r'-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e-\d+')
LIST = re.compile(r'\[\s+([^][{}]*?)\s+\]')
text = FRACTION.sub(lambda found: f'{float(found.group()):.4g}', sys.stdin.read())
sys.stdout.write(LIST.sub(lambda found: '[' + ' '.join(found.group(1).split()) + ']', text))
