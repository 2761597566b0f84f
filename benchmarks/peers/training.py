#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares training speed with a plain PyTorch loop on the same GPU, one after the other; writes lines of JSON.

    training.py --step build/bin/train_step --lengths lengths.txt --out benchmarks/results/cuda/DATE-MACHINE-train-step.jsonl

`lengths.txt` has one text's length in tokens a line (SST-2's training rows). The recipe is the peer's loss: the sum over
all exits' cross entropies, a pooler and a classifier each.
"""
import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES = ((32, 128), (256, 128), (32, 'real'))


def measured(line):
    found = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit(f'{line[0]}: status {found.returncode}: {found.stderr[-500:]}')
    return json.loads(found.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--step', required=True)
    parser.add_argument('--lengths', required=True)
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--seconds', type=float, default=4)
    flags = parser.parse_args()
    rows = []
    for batch, tokens in CASES:
        which = ['--lengths', flags.lengths] if tokens == 'real' else ['--tokens', tokens]
        # The peer sees each length for the first time in the first seconds.
        long = flags.seconds * (2.5 if tokens == 'real' else 1)
        theirs = measured([sys.executable, HERE / 'torch_training.py', '--batch', batch, *which, '--seconds', long])
        ours = measured([flags.step, '--batch', batch, *which, '--seconds', flags.seconds])
        rows += [{**one, 'what': what, 'shape': 'bert-base', 'batch': batch, 'tokens': tokens}
                 for what, one in (('recorded', ours), ('torch', theirs))]
        print(f'{batch} × {tokens}: {ours["samples_per_second"]:.0f} and {theirs["samples_per_second"]:.0f} texts a second', flush=True)
    head = {'date': datetime.date.today().isoformat(), 'gpu': theirs['device']}
    flags.out.write_text(''.join(json.dumps(line) + '\n' for line in [head, *rows]))


if __name__ == '__main__':
    main()
