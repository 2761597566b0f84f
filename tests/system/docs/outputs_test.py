#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that README.md and the pages show with what they print, and compares: blocks that begin with "$ exeunt".
Those that need a model or data of the reader's are left to other tests.

    outputs_test.py EXEUNT REPOSITORY
"""
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

EXEUNT, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
BLOCK = re.compile(r'^```\w*\n(\$ exeunt .*?)^```', re.S | re.M)


def examples(text):
    """(line number, command, what it prints) of every command of every block."""
    for block in BLOCK.finditer(text):
        line = text[:block.start(1)].count('\n') + 1
        for part in re.split(r'^\$ ', block.group(1), flags=re.M)[1:]:
            command, _, printed = part.partition('\n')
            yield line, command, printed
            line += part.count('\n')


def needs_others(command):
    """Does it name a file that the repository does not have?"""
    files = [word for word in shlex.split(command)[2:] if re.search(r'/|\.(csv|tsv|txt|jsonl?)$', word)]
    return not all((ROOT / file).exists() for file in files)


def main():
    wrong, count = 0, 0
    for page in [ROOT / 'README.md', *sorted(ROOT.glob('docs/*.md')), *sorted(ROOT.glob('lab/docs/*.md'))]:
        for line, command, printed in examples(page.read_text(encoding='utf-8')):
            if needs_others(command):
                continue
            count += 1
            with tempfile.TemporaryDirectory() as state:  # what a machine prints that has seen no try on these rows yet
                done = subprocess.run(['bash', '-c', command], cwd=ROOT, capture_output=True, text=True, timeout=600,
                                      env=dict(os.environ, PATH=f'{EXEUNT.parent}:{os.environ["PATH"]}', LC_ALL='C.UTF-8',
                                               XDG_STATE_HOME=state))
            if done.returncode != 0 or done.stdout != printed:
                wrong += 1
                print(f'{page.relative_to(ROOT)}:{line}: {command}: status {done.returncode} {done.stderr}')
                sys.stdout.writelines(difflib.unified_diff(printed.splitlines(True), done.stdout.splitlines(True), 'page', 'printed'))
    print(f'{count} commands, {wrong} print something else')
    return 1 if wrong or count < 2 else 0


if __name__ == '__main__':
    sys.exit(main())
