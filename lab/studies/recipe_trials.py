#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries changes to the recipe `exeunt` on training rows that are held out; each run is appended to trials.jsonl, and runs that
it holds are skipped.

    lab/studies/recipe_trials.py --trainer build/bin/exeunt-train --model gte-small --features FOLDER [--only NAME ...]

Each task's training rows are cut into five parts. Seed 42 trains without the first of them and is judged on it, seed 43
without the second, and so on, so that three seeds are judged on three fifths of the rows; the dev sets play no part.
Everything else is as in lab/studies/recipe_grid.py. A change is a list of fields of the recipe (`exeunt train --set`), made to the recipe
with the objective `sum`.
"""
import argparse
import json
import random
import sys
import time
from pathlib import Path

import recipe_grid as GRID
from suites import append_run, read_suite

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (42, 43, 44)
PARTS = 5
TASKS = ('MRPC', 'RTE')
HEAD, LAYER, WHAT = 'stages.0.head_lr={}', 'stages.0.layer_lr={}', 'stages.0.objective={}'


def distill(gamma, temperature, variant='last', **more):
    fields = {'kind': 'distill', 'gamma': gamma, 'temperature': temperature, 'variant': variant, **more}
    return WHAT.format(json.dumps(fields))


SUM, LINEAR = WHAT.format('{"kind":"sum"}'), WHAT.format('{"kind":"linear"}')
CHANGES = {
    'sum': [],
    'elasticbert': ['heads.reader=none', HEAD.format(1)],
    'no reader': ['heads.reader=none'],
    'heads 1': [HEAD.format(1)],
    'heads 2': [HEAD.format(2)],
    'heads 10': [HEAD.format(10)],
    'layers 0.9': [LAYER.format(0.9)],
    'layers 0.8': [LAYER.format(0.8)],
    'layers 0.9, heads 2': [LAYER.format(0.9), HEAD.format(2)],
    'layers 1.1': [LAYER.format(1.1)],
    'last exit reads row 0': ['heads.reader=own_but_last'],
    'linear': [LINEAR],
    'linear, no equilibrium': [LINEAR, 'gradient.rule=none'],
    'no equilibrium': ['gradient.rule=none'],
    'distill 0.5, T 1': [distill(0.5, 1)],
    'distill 0.5, T 3': [distill(0.5, 3)],
    'distill 0.9, T 3': [distill(0.9, 3)],
    'distill 0.5, T 3, by rows': [distill(0.5, 3), 'compat.kd_kl_reduction=batch'],
    'distill 0.5, T 3, next exit': [distill(0.5, 3, 'chain')],
    'distill 0.5, T 3, slow copy': [distill(0.5, 3, 'ema', momentum=0.99)],
    'distill 0.5, T 3, heads 2': [distill(0.5, 3), HEAD.format(2)],
    'decay 0.1': ['stages.0.weight_decay=0.1'],
    'twice the epochs': ['x2'],
    'twice the epochs, heads 2': ['x2', HEAD.format(2)],
    'batch 16': ['stages.0.batch=16'],
}
EPOCHS = {'MRPC': 6, 'RTE': 8}  # of --preset reference




def name_of(run):
    task, change, seed = run
    return f'{task}-{"".join(c if c.isalnum() else "-" for c in change)}-{seed}'


def cut(features, work, task):
    """Training and held-out rows of each seed as files."""
    header, arrays = GRID.read_arrays(features / f'{task}-train.safetensors')
    rows = list(range(len(arrays['gold']) // 4))
    random.Random(0).shuffle(rows)
    for i, seed in enumerate(SEEDS):
        held = set(rows[i::PARTS])
        GRID.write_rows(work / f'{task}-{seed}-held.safetensors', header, arrays, sorted(held))
        rest = [row for row in sorted(rows) if row not in held]
        GRID.write_rows(work / f'{task}-{seed}-train.safetensors', header, arrays, rest)


def command(run, flags, out):
    task, change, seed = run
    line = [flags.trainer, 'train', '--recipe', 'exeunt', '--model', flags.model, '--out', out, '--seed', seed, '--train-features',
            flags.work / f'{task}-{seed}-train.safetensors', '--eval-features', flags.work / f'{task}-{seed}-held.safetensors',
            '--save-every', 0, '--log-every', 0, '--threads', 1, '--overwrite', '-q', '--preset', 'reference']
    if flags.device == 'cuda':
        line += ['--device', 'cuda', '--precision', 'bf16']
    if flags.max_steps:
        line += ['--max-steps', flags.max_steps]
    for field in [SUM] + [field for part in change.split(' + ') for field in CHANGES[part]]:
        line += ['--epochs', 2 * EPOCHS[task]] if field == 'x2' else ['--set', field]
    return [str(word) for word in line]


def keep(run, flags, out, seconds):
    task, change, seed = run
    found = json.loads((out / 'all_results.json').read_text())
    settings = json.loads((out / 'recipe.json').read_text())
    result = {'task': task, 'change': change, 'seed': seed, 'settings': settings, 'exits': found['exits']}
    append_run(flags.results, result)
    print(f'{name_of(run)}: {seconds:.0f} s', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainer', required=True)
    parser.add_argument('--model', required=True)
    parser.add_argument('--features', type=Path, required=True)
    parser.add_argument('--results', type=Path, default=ROOT / 'lab/studies/results/trials.jsonl')
    parser.add_argument('--work', type=Path, default=ROOT / 'build/trials')
    parser.add_argument('--device', default='cuda', choices=('cuda', 'cpu'))
    parser.add_argument('--minutes', type=float, default=9)
    parser.add_argument('--jobs', type=int, default=4)
    parser.add_argument('--max-steps', type=int, default=0, help='for a look')
    parser.add_argument('--only', nargs='*', default=list(CHANGES), help='these changes; "A + B" makes both')
    flags = parser.parse_args()
    end = time.monotonic() + 60 * flags.minutes
    flags.work.mkdir(parents=True, exist_ok=True)
    for task in TASKS:
        cut(flags.features, flags.work, task)
    runs = [(task, change, seed) for change in flags.only for task in TASKS for seed in SEEDS]
    done = {(run['task'], run['change'], run['seed']) for run in read_suite(flags.results)}
    waiting = [run for run in runs if run not in done]
    return GRID.train_all(waiting, flags, (name_of, command, keep), end)


if __name__ == '__main__':
    sys.exit(main())
