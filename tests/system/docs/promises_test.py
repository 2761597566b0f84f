#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Certifies what every row of docs/promises.md asks for, on a trace of this repository, and compares the sentence.

    promises_test.py EXEUNT REPOSITORY
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXEUNT, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
ROW = re.compile(r'^\| [^|]+ \| `(--[^`]+)` \| ([^|]+) \| [^|]+ \|$', re.M)


def rows_and_rule(flags, folder):
    numbers = "'>=" in flags or 'abs_diff' in flags or 'keep-top' in flags
    trace = ROOT / f'tests/fixtures/traces/{"stsb-exeunt.dev" if numbers else "mnli-exeunt.held"}.safetensors'
    if 'keep-top' in flags:
        plain, trace = trace, f'{folder}/questions.safetensors'
        subprocess.run([sys.executable, ROOT / 'tests/system/cli/questions.py', plain, trace, '5'], check=True)
    return f'"{trace}" --policy {"patience" if numbers else "entropy"}'


def main():
    rows = ROW.findall((ROOT / 'docs/promises.md').read_text(encoding='utf-8'))
    wrong = 0
    for flags, sentence in rows:
        with tempfile.TemporaryDirectory() as folder:  # and a state folder, in which no try on these rows is known
            command = f'"{EXEUNT}" calibrate {rows_and_rule(flags, folder)} {flags} -q --json --out "{folder}/policy.json"'
            done = subprocess.run(['bash', '-c', command], capture_output=True, text=True, timeout=600,
                                  env=dict(os.environ, XDG_STATE_HOME=folder))
        printed = json.loads(done.stdout) if done.returncode == 0 else {}
        # A promise that runs all layers is true of anything.
        saves = any(point['certify_cost_fraction'] < 1 for point in printed.get('points', []))
        if printed.get('promise') == sentence and saves:
            continue
        wrong += 1
        print(f'{flags}: status {done.returncode} {done.stderr}\n  page:    {sentence}\n  printed: {printed.get("promise")}'
              f'{"" if saves else ", at full depth"}')
    print(f'{len(rows)} promises, {wrong} are not as the page says')
    return 1 if wrong or len(rows) < 10 else 0


if __name__ == '__main__':
    sys.exit(main())
