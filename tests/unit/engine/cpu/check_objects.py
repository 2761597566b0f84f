#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds kernel tables to their own code: an object compiled for a newer processor must not define a symbol that other
objects may define too (weak or unique), for the linker keeps one of them, and perhaps the one that does not run.

    check_objects.py OBJECT...      prints one line per breach, exit status 1 if there is any
"""
import subprocess
import sys


def shared_symbols(listing):
    """The names in an nm listing whose definition another object may replace."""
    for line in listing.splitlines():
        kind, _, name = line[17:].partition(' ')
        if kind in ('W', 'V', 'u', 'C'):
            yield name


def main(objects):
    # The check must be able to fail.
    example = '0000000000000000 W std::max<float>\n0000000000000010 t own\n                 U memcpy\n'
    assert list(shared_symbols(example)) == ['std::max<float>']
    if not objects:
        print('no objects to check')
        return 1
    breaches = 0
    for path in objects:
        listing = subprocess.run(['nm', '-C', path], check=True, capture_output=True, text=True).stdout
        for name in shared_symbols(listing):
            print(f'{path}: defines {name}, which other objects may define too')
            breaches += 1
    return 1 if breaches else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
