#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the built command to four promises: it links no LibTorch, holds no path of its build, --help is instant, and it is hardened.

    check_binary.py EXEUNT SOURCE_FOLDER BUILD_FOLDER
"""
import re
import resource
import subprocess
import sys
from pathlib import Path

# A program linked with LibTorch needs 286 libraries and half a second to start; ours needs a handful.
MAX_LIBRARIES = 16
MAX_HELP_SECONDS = 0.1


def libraries(program):
    out = subprocess.run(['ldd', program], capture_output=True, text=True, check=True).stdout
    return re.findall(r'^\s*(\S+)', out, re.M)


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def help_seconds(program):
    """Processor time of the quickest of five runs: what the machine does besides does not count."""
    times = []
    for _ in range(5):
        before = children_seconds()
        done = subprocess.run([program, '--help'], capture_output=True, text=True, check=True)
        times.append(children_seconds() - before)
        if 'exeunt' not in done.stdout:
            raise SystemExit(f'--help says nothing of exeunt: {done.stdout!r}')
    return min(times)


def not_hardened(program):
    """What a compiler and linker can do against mistakes of ours, and has not."""
    def tell(*what):
        return subprocess.run(['readelf', '-W', *what, program], capture_output=True, text=True, check=True).stdout
    symbols, dynamic, segments = tell('--dyn-syms'), tell('-d'), tell('-l')
    problems = []
    if '__stack_chk_fail' not in symbols:
        problems.append('has no stack protector')
    if not re.search(r'__\w+_chk\b', symbols.replace('__stack_chk_fail', '')):
        problems.append('has no fortified function')
    if 'GNU_RELRO' not in segments or not re.search(r'BIND_NOW|\bNOW\b', dynamic):
        problems.append('has a table of functions that stays writable')
    if not re.search(r'GNU_STACK\s.*\sRW\s', segments):
        problems.append('has a stack that may be executed')
    if not re.search(r'Type:\s+DYN', tell('-h')):
        problems.append('has a fixed address')
    return problems


def main():
    program, source, build = sys.argv[1:4]
    problems = []
    linked = libraries(program)
    problems += [f'links {name}' for name in linked if re.search(r'torch|c10|cuda|boost', name, re.I)]
    if len(linked) > MAX_LIBRARIES:
        problems.append(f'links {len(linked)} libraries, want at most {MAX_LIBRARIES}: {linked}')
    content = Path(program).read_bytes()
    problems += [f'holds the path {path}' for path in (source, build) if path.encode() in content]
    problems += not_hardened(program)
    seconds = help_seconds(program)
    if seconds > MAX_HELP_SECONDS:
        problems.append(f'--help takes {seconds:.3f} s of processor time, want at most {MAX_HELP_SECONDS}')
    for problem in problems:
        print(f'{program}: {problem}')
    print(f'{len(linked)} libraries, --help in {1000 * seconds:.0f} ms')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
