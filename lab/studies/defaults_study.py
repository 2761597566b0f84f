#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains encoders on data as people have it, with the defaults of `exeunt train` and with other settings; each run is appended to
study.jsonl, and runs that it holds are skipped.

    lab/studies/defaults_study.py --bin build/bin --data FOLDER --encoder MiniLM=FOLDER [--encoder gte-small=FOLDER] [--part defaults]

FOLDER of the data holds BANKING77, CLINC150, SMS-Spam, SST-2, RTE, MRPC and IMDb (as in ELUE), each with train.tsv and its test rows (dev.tsv where
the tests are not labelled); tiny-en and examples/feedback come from the repository. A slice of n rows holds at least one of each
class, drawn anew for each seed. The parts:

    settings  trains on a slice and is judged on other training rows, so that nothing is chosen by looking at the tests
    defaults  trains on a slice without any setting and is judged on the official test
    typed     as somebody would type it: `exeunt train --data FILE`, which holds rows out and certifies with them, then
              `exeunt eval` on the official test
    batches   as `settings`: what the defaults stand for, with another batch or warm-up
    time      seconds per step on two threads of this machine's CPU, BERT-base's shape among the encoders: leave it alone then
    cpu       as `typed`, on two threads of this machine's CPU, whose time counts: leave it alone then, too

Several runs share the device (--jobs), as in lab/studies/recipe_grid.py; no run is begun that would not end in time. They are in fp32, so a
run has the accuracy that it would have on a CPU, but not its time; --precision bf16 is for those that would take too long.
"""
import argparse
import csv
import json
import os
import platform
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import recipe_grid as GRID
from suites import append_run, read_suite

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (42, 43, 44)
SLICES = {f'{name}-{rows}': (name, rows) for name in ('BANKING77', 'CLINC150') for rows in (300, 1500, 10000)}
WHOLE = {name: (name, 0) for name in ('SMS-Spam', 'feedback', 'MRPC', 'RTE', 'SST-2')}
LONG_TEXTS = {'IMDb-1500': ('IMDb', 1500)}
SETS = SLICES | WHOLE | LONG_TEXTS
ENCODERS = ('MiniLM', 'gte-small', 'tiny-en')
SHAPE = 'BERT-base'  # of zeros: its time alone is of interest
TIMED_SET, TIMED_STEPS = 'BANKING77-1500', (2, 8)
TYPED = ('BANKING77-300', 'BANKING77-1500', 'BANKING77-10000', 'CLINC150-1500', 'SMS-Spam')
TEST_SPLITS = {'SST-2': 'dev', 'RTE': 'dev', 'MRPC': 'dev', 'IMDb': 'dev'}  # their tests are not labelled
LARGE = ('classes', 'confusion')  # of what `exeunt eval` says; not kept
MOST_JUDGED, JUDGED_SHARE = 1500, 0.2  # training rows that settings are judged on
# Words of a setting and what they are on the command line.
FLAGS = {'lr': '--lr', 'epochs': '--epochs', 'batch': '--batch', 'smoothing': '--label-smoothing', 'heads': '--head-lr',
         'start': '--set heads.init', 'warmup': '--warmup', 'length': '--max-length'}

# Settings to try, by the number of labels and the width of the encoder; the recipe's own come first.
MANY = ['lr=3e-4 smoothing=0.1', 'lr=3e-4 smoothing=0.1 epochs=12', 'lr=3e-4 smoothing=0.1 start=prototypes',
        'lr=3e-4 smoothing=0.1 epochs=12 start=prototypes', 'lr=1e-4 smoothing=0.1 epochs=12 start=prototypes',
        'lr=3e-4 smoothing=0.1 epochs=20', 'lr=3e-4 smoothing=0.1 epochs=20 start=prototypes', 'lr=5e-4 smoothing=0.1 epochs=12',
        'lr=3e-4 smoothing=0.1 epochs=12 batch=16', 'lr=3e-4 epochs=12 start=prototypes',
        'lr=3e-4 smoothing=0.1 epochs=12 heads=2', 'lr=1e-4 smoothing=0.1 epochs=12', 'lr=5e-5']
MANY_DEEP = ['lr=5e-5', 'lr=2e-4 smoothing=0.1', 'lr=3e-4 smoothing=0.1', 'lr=2e-4 smoothing=0.1 epochs=12',
             'lr=2e-4 smoothing=0.1 epochs=12 start=prototypes', 'lr=1e-4 smoothing=0.1 epochs=12 start=prototypes',
             'lr=3e-4 smoothing=0.1 epochs=12 start=prototypes']
MANY_ROWS = ['lr=3e-4 smoothing=0.1 epochs=3', 'lr=3e-4 smoothing=0.1 epochs=6', 'lr=3e-4 smoothing=0.1 epochs=3 start=prototypes',
             'lr=3e-4 smoothing=0.1 epochs=6 start=prototypes', 'lr=1e-4 smoothing=0.1 epochs=6 start=prototypes',
             'lr=5e-4 smoothing=0.1 epochs=6']
FEW = ['lr=5e-5', 'lr=1e-4', 'lr=2e-4', 'lr=3e-4', 'lr=1e-4 smoothing=0.1', 'lr=1e-4 start=prototypes', 'lr=1e-4 epochs=10']
FEW_DEEP = ['lr=5e-5', 'lr=1e-4', 'lr=2e-4', 'lr=1e-4 start=prototypes']
NARROW = ['lr=5e-4 heads=1 epochs=8', 'lr=5e-4 heads=1 epochs=16', 'lr=1e-3 heads=1 epochs=16',
          'lr=1e-3 heads=1 epochs=16 smoothing=0.1', 'lr=1e-3 heads=1 epochs=24 smoothing=0.1',
          'lr=1e-3 heads=1 epochs=16 smoothing=0.1 start=prototypes', 'lr=2e-3 heads=1 epochs=16 smoothing=0.1']
LONG = ['lr=5e-5', 'lr=1e-4', 'lr=2e-4']
# What was left open when rates and starts were settled: batch and warm-up, each changed alone in what the defaults stand for.
CHANGES = ('', 'batch=16', 'warmup=0', 'warmup=0.2', 'batch=64')
SMALL_BATCHES = ('', 'batch=8', 'batch=4')  # of very few rows
# And more of what a narrow model wants, and what longer texts do.
NARROW_SINGLE = ['lr=5e-4 heads=1 epochs=8', 'lr=5e-4 heads=1 epochs=8 start=prototypes', 'lr=1e-3 heads=1 epochs=8 start=prototypes',
                 'lr=5e-4 heads=5 epochs=8 start=prototypes']
NARROW_PAIRS = ['lr=5e-4 heads=1 epochs=8', 'lr=5e-4 heads=1 epochs=3', 'lr=2e-4 heads=1 epochs=4', 'lr=1e-4 heads=1 epochs=6']
LENGTHS = [f'lr=1e-4 start=prototypes length={length}' for length in (128, 256, 512)]
PAIR_LENGTHS = [f'lr=1e-4 epochs=10 length={length}' for length in (128, 256)]


def settled(name, encoder):
    """What the defaults of exeunt/recipes/defaults.cc stand for on a set but for the batch, written as a setting."""
    rows = SETS[name][1]
    if encoder == 'tiny-en':
        many = f'lr=1e-3 heads=1 epochs={24 if rows < 5000 else 12} smoothing=0.1 start=prototypes'
        return many if name in SLICES else NARROW_SINGLE[0 if name in ('RTE', 'MRPC') else 1]
    if name in SLICES:
        return f'lr=1e-4 smoothing=0.1 epochs={12 if rows < 1000 else 8 if rows < 5000 else 3} start=prototypes'
    if name in ('RTE', 'MRPC'):
        return 'lr=1e-4 epochs=10' if encoder == 'MiniLM' else 'lr=5e-5'
    return 'lr=1e-4 start=prototypes'


def changed(sets, encoder, changes, seed):
    return [(name, encoder, 'settings', f'{settled(name, encoder)} {change}'.strip(), seed) for change in changes for name in sets]


def plan(parts):
    """(set, encoder, part, settings, seed) in the order of their worth."""
    few_rows = [name for name, (_, rows) in SLICES.items() if rows < 10000]
    many_rows = [name for name in SLICES if name not in few_rows]
    few_labels = [name for name in WHOLE if name != 'SST-2']

    def cross(sets, encoder, settings, seeds):
        return [(name, encoder, 'settings', text, seed) for seed in seeds for text in settings for name in sets]
    out = []
    if 'defaults' in parts:
        out += [('SST-2', ENCODERS[0], 'defaults', '', seed) for seed in SEEDS]  # the longest first
        out += [(name, ENCODERS[0], 'defaults', '', seed) for seed in SEEDS for name in SETS]
    if 'typed' in parts:
        out += [(name, 'MiniLM', 'typed', '', seed) for seed in SEEDS for name in TYPED]
    if 'defaults' in parts:
        out += [(name, 'gte-small', 'defaults', '', seed) for seed in SEEDS for name in SETS if name != 'SST-2']
    for seed in SEEDS:
        if 'batches' in parts:
            out += changed([*few_rows, 'feedback', 'MRPC'], 'MiniLM', CHANGES[:4], seed) + changed(few_rows, 'gte-small', CHANGES[:4], seed)
            out += changed(['BANKING77-300', 'CLINC150-300', 'feedback'], 'tiny-en', CHANGES[:4], seed)
            out += changed(['BANKING77-10000', 'BANKING77-1500', 'CLINC150-1500'], 'MiniLM', CHANGES, seed)
            for encoder in ENCODERS:
                out += changed(['BANKING77-300', 'CLINC150-300'], encoder, SMALL_BATCHES, seed)
            out += changed(['feedback', 'SMS-Spam'], 'tiny-en', ('', 'batch=16'), seed)
        if 'defaults' in parts:
            out += [(name, 'tiny-en', 'defaults', '', seed) for name in SETS if name != 'SST-2']
    if 'time' in parts:
        out += [(TIMED_SET, encoder, 'time', '', SEEDS[0]) for encoder in (*ENCODERS, SHAPE)]
    if 'cpu' in parts:
        out.append((TIMED_SET, 'MiniLM', 'cpu', '', SEEDS[0]))
    if 'settings' in parts:
        for seed in SEEDS:
            out += cross(['SMS-Spam', 'feedback', *LONG_TEXTS], 'tiny-en', NARROW_SINGLE[:2], [seed])
        for seed in SEEDS[:2]:
            out += cross(LONG_TEXTS, 'MiniLM', LENGTHS, [seed]) + cross(['RTE'], 'MiniLM', PAIR_LENGTHS, [seed])
            out += cross(['SMS-Spam', 'feedback'], 'tiny-en', NARROW_SINGLE, [seed])
            out += cross(['RTE', 'MRPC'], 'tiny-en', NARROW_PAIRS, [seed])
        out += cross(few_rows, 'MiniLM', MANY[:11], SEEDS[:1]) + cross(few_labels, 'MiniLM', FEW, SEEDS[:1])
        out += cross(few_rows, 'gte-small', MANY_DEEP, SEEDS[:1]) + cross(few_rows + few_labels, 'tiny-en', NARROW, SEEDS[:1])
        out += cross(many_rows, 'MiniLM', MANY_ROWS, SEEDS[:1]) + cross(few_labels, 'gte-small', FEW_DEEP, SEEDS[:1])
        out += cross(['SST-2'], 'MiniLM', LONG, SEEDS[:1])
        out += cross(few_rows, 'MiniLM', MANY, SEEDS[1:2]) + cross(few_labels, 'MiniLM', FEW, SEEDS[1:])
        out += cross(many_rows, 'gte-small', MANY_ROWS, SEEDS[:1]) + cross(many_rows, 'tiny-en', NARROW, SEEDS[:1])
        out += cross(few_rows, 'gte-small', MANY_DEEP, SEEDS[1:2]) + cross(few_rows, 'MiniLM', MANY, SEEDS[2:])
    if 'defaults' in parts:  # hours
        out += [('SST-2', encoder, 'defaults', '', seed) for encoder in reversed(ENCODERS[1:]) for seed in SEEDS]
    return list(dict.fromkeys(out))


def name_of(run):
    return '-'.join(''.join(c if c.isalnum() else '-' for c in str(part)) for part in run if part)


def read_rows(folder, name, split):
    """[{'text', 'pair' of two, 'label'}] of one split, in the order of the file."""
    if name == 'feedback':
        with open(ROOT / f'examples/feedback/{"train" if split == "train" else "certify"}.csv', encoding='utf-8') as file:
            return [{'text': row['text'], 'label': row['label']} for row in csv.DictReader(file)]
    lines = (folder / name / f'{split}.tsv').read_text(encoding='utf-8-sig').splitlines()
    columns = lines[0].split('\t')
    names = {'MRPC': ('#1 String', '#2 String', 'Quality'), 'RTE': ('sentence1', 'sentence2', 'label'),
             'SST-2': ('sentence', None, 'label'), 'IMDb': ('sentence', None, 'label')}.get(name, ('text', None, 'label'))
    places = [columns.index(column) if column else None for column in names]
    rows = []
    for line in lines[1:]:
        cells = line.split('\t')
        row = {key: cells[place] for key, place in zip(('text', 'pair', 'label'), places, strict=True) if place is not None}
        rows.append(row)
    return rows


def write_rows(path, rows):
    temporary = path.with_suffix('.part')
    temporary.write_text(''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows), encoding='utf-8')
    temporary.rename(path)


def slice_of(rows, wanted, seed):
    """So many of the rows, one of each label at least, and the other rows, both shuffled; 0 = all."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    if not wanted or wanted >= len(order):
        return order, []
    first, rest, seen = [], [], set()
    for row in order:
        (rest if row['label'] in seen else first).append(row)
        seen.add(row['label'])
    chosen = first + rest[:max(0, wanted - len(first))]
    random.Random(seed).shuffle(chosen)
    return chosen, rest[max(0, wanted - len(first)):]


def files_of(run, flags):
    """The files of rows to train on and to be judged on, written where they are missing."""
    kind, _, part, _, seed = run
    name, wanted = SETS[kind]
    judged = flags.work / (f'{name}-test.jsonl' if part != 'settings' else f'{kind}-{seed}-judged.jsonl')
    train = flags.work / f'{kind}-{seed}-{"part" if part == "settings" else "all"}.jsonl'
    if train.exists() and judged.exists():
        return train, judged
    rows = read_rows(flags.data, name, 'train')
    if part == 'settings':
        count = min(MOST_JUDGED, int(JUDGED_SHARE * len(rows)))
        rows, others = slice_of(rows, len(rows) - count, seed)
        write_rows(judged, others)
    elif not judged.exists():
        write_rows(judged, read_rows(flags.data, name, TEST_SPLITS.get(name, 'test')))
    write_rows(train, slice_of(rows, wanted, seed)[0])
    return train, judged


def setting_flags(settings):
    words = []
    for text in settings.split():
        name, value = text.split('=')
        words += f'{FLAGS[name]}={value}'.split() if name == 'start' else [FLAGS[name], value]
    return words


def command(run, flags, out):
    _, encoder, part, settings, seed = run
    train, judged = files_of(run, flags)
    line = [flags.bin / 'exeunt-train', 'train', '--model', flags.encoders[encoder], '--data', train, '--out', out, '--seed', seed,
            '--device', flags.device, '--precision', flags.precision, '--threads', flags.threads, '--save-every', 0, '--log-every', 0, '--overwrite', '-q']
    line += ['--pair-column', 'pair'] if 'pair' in json.loads(train.open(encoding='utf-8').readline()) else []
    line += setting_flags(settings)
    if part in ('time', 'cpu'):
        line[line.index('--device') + 1], line[line.index('--threads') + 1] = 'cpu', 2
    if part == 'time':
        steps = [shlex.join(str(word) for word in [*line, '--hold-out', 0, '--no-calibrate', '--max-steps', count]) for count in TIMED_STEPS]
        name = shlex.quote(str(out))
        return ['bash', '-c', f'set -e; {steps[0]}; cp {name}/all_results.json {name}.first; {steps[1]}']
    typed = part in ('typed', 'cpu')
    if not typed:
        line += ['--eval-data', judged]
    if flags.max_steps:
        line += ['--max-steps', flags.max_steps]
    if not typed:
        return [str(word) for word in line]
    threads = line[line.index('--threads') + 1]
    evaluation = [flags.bin / 'exeunt', 'eval', out, '--data', judged, '--each-exit', '--baseline', train, '--threads', threads,
                  '-q', '--json']
    steps = [shlex.join(str(word) for word in step) for step in (line, evaluation)]
    name = shlex.quote(str(out))
    return ['bash', '-c', f'set -e; export XDG_STATE_HOME={name}-state; {steps[0]}; {steps[1]} > {name}/tested.json']


def keep(run, flags, out, seconds):
    kind, encoder, part, settings, seed = run
    found = json.loads((out / 'all_results.json').read_text())
    if part == 'time':
        first = json.loads(Path(f'{out}.first').read_text())
        found['seconds_per_step'] = ((found['train_runtime'] - first['train_runtime']) / (TIMED_STEPS[1] - TIMED_STEPS[0]))
    if part in ('time', 'cpu'):
        found['processor'] = processor()
    result = {'set': kind, 'encoder': encoder, 'part': part, 'tried': settings, 'seed': seed,
              'device': 'cpu' if part in ('time', 'cpu') else flags.device,
              'seconds': round(seconds, 1), 'steps': json.loads((out / 'trainer_state.json').read_text())['global_step'],
              'settings': json.loads((out / 'recipe.json').read_text()), 'results': found}
    if part in ('typed', 'cpu'):
        tested = json.loads((out / 'tested.json').read_text())
        result['tested'] = {key: value for key, value in tested.items() if key not in LARGE}
    append_run(flags.results, result)
    if part == 'time':
        return print(f'{name_of(run)}: {found["seconds_per_step"]:.2f} s per step', flush=True)
    last = found['exits'][-1]['accuracy'] if 'exits' in found else float('nan')
    linear = found.get('baseline', {}).get('linear model', {}).get('accuracy', float('nan'))
    print(f'{name_of(run)}: {seconds:.0f} s, {result["steps"]} steps, {100 * last:.1f} (linear {100 * linear:.1f})', flush=True)


def processor():
    for line in subprocess.run(['lscpu'], capture_output=True, text=True, check=False).stdout.splitlines():
        if line.startswith('Model name:'):
            return line.split(':', 1)[1].strip()
    return platform.machine()


def blank_shape(flags):
    """A folder with MiniLM's tokenizer and zeros in BERT-base's shape."""
    folder = flags.work / SHAPE
    if not folder.exists():
        shutil.copytree(flags.encoders['MiniLM'], folder)
        subprocess.run([sys.executable, ROOT / 'tests/system/cli/blank_model.py', folder, '12', '768', '12', '3072'], check=True)
    return folder


def encoder_of(text):
    name, _, folder = text.partition('=')
    if name not in ENCODERS or not Path(folder, 'config.json').exists():
        raise argparse.ArgumentTypeError(f"got '{text}', want NAME=FOLDER of {', '.join(ENCODERS)}")
    return name, Path(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', type=Path, required=True, help='folder of exeunt and exeunt-train')
    parser.add_argument('--data', type=Path, required=True)
    parser.add_argument('--encoder', type=encoder_of, action='append', default=[], dest='encoders', metavar='NAME=FOLDER')
    parser.add_argument('--part', action='append', choices=('settings', 'batches', 'defaults', 'typed', 'time', 'cpu'), help='default: defaults and typed')
    parser.add_argument('--results', type=Path, default=ROOT / 'lab/studies/results/study.jsonl')
    parser.add_argument('--work', type=Path, default=ROOT / 'build/study')
    parser.add_argument('--device', default='cpu', choices=('cuda', 'cpu'))
    parser.add_argument('--precision', default='fp32', choices=('fp32', 'bf16'))
    parser.add_argument('--threads', type=int, default=1, help='of each run')
    parser.add_argument('--minutes', type=float, default=1e6)
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('--max-steps', type=int, default=0, help='for a trial')
    parser.add_argument('--only', nargs='*', default=[''], help='runs whose names contain one of these, in this order')
    parser.add_argument('--without', nargs='*', default=[], help='no runs whose names contain one of these')
    parser.add_argument('--list', action='store_true', help='print the runs that are left, and stop')
    flags = parser.parse_args()
    flags.encoders = {'tiny-en': ROOT / 'examples/tiny-en', **dict(flags.encoders)}
    end = time.monotonic() + 60 * flags.minutes
    flags.work.mkdir(parents=True, exist_ok=True)
    if 'time' in (flags.part or ()) and 'MiniLM' in flags.encoders:
        flags.encoders[SHAPE] = blank_shape(flags)
    runs = [run for run in plan(flags.part or ('defaults', 'typed')) if run[1] in flags.encoders]
    runs = [run for run in runs if not any(part in name_of(run) for part in flags.without)]
    chosen = dict.fromkeys(run for part in flags.only for run in runs if part in name_of(run))
    done = {tuple(run[key] for key in ('set', 'encoder', 'part', 'tried', 'seed')) for run in read_suite(flags.results)}
    waiting = [run for run in chosen if run not in done]
    if flags.list:
        return print('\n'.join(map(name_of, waiting)))
    os.environ.pop('EXEUNT_MODEL', None)
    return GRID.train_all(waiting, flags, (name_of, command, keep), end)


if __name__ == '__main__':
    sys.exit(main())
