#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains every recipe on every task and appends each finished run to grid.jsonl; runs that it holds are skipped.

    lab/studies/recipe_grid.py --trainer build/bin/exeunt-train --model gte-small --features FOLDER [--minutes 9] [--jobs 4]
    lab/studies/recipe_grid.py --settings papers …     each recipe with its paper's own settings, into paper-settings.jsonl

FOLDER holds TASK-train.safetensors and TASK-dev.safetensors as `exeunt prepare` writes them (ELUE's: elue-TASK-…). Of
SST-2's training rows 5,000 are held out, the same ones for every recipe and seed: thresholds are chosen on them. With the
papers' settings none are. Several runs share the GPU (--jobs), best under CUDA's MPS daemon. No run is begun that would not
end in time.
"""
import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

from suites import append_run, read_arrays, read_suite

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (42, 43, 44)
RECIPES = ('plain', 'elasticbert', 'romebert-sd', 'exeunt', 'deebert', 'deebert-sd', 'pabee', 'romebert', 'elbert',
           'elbert-equal', 'berxit')
HELD_OUT = 5000
# Recipes with readers, as far as a paper's exits allow: what the others lack on a backbone whose first row says little.
READERS = {'pabee-readers': 'pabee', 'elbert-readers': 'elbert'}
EPOCHS_CUT_SHORT = {'elue-IMDb': 2, 'elue-SNLI': 2}  # of models cut short; 5 on the smaller tasks
EVAL_CUT_SHORT = {'elue-IMDb': 400, 'elue-SNLI': 400}  # steps between evaluations: their dev sets are large
ATTENTION = {'cuda': 'efficient', 'cpu': 'plain'}  # what the trainer computes it with (exeunt/train/torch_compat.cc)
WIDTHS = {'I32': 4, 'U8': 1, 'I64': 8, 'F32': 4}


def plan():
    """(task, recipe, seed, layers) in the order of their worth; layers: of a model cut short, or 0."""
    runs = [('SST-2', recipe, seed, 0) for seed in SEEDS for recipe in RECIPES[:4]]
    runs += [(task, recipe, seed, 0) for seed in SEEDS for task in ('RTE', 'MRPC') for recipe in RECIPES]
    runs += [(task, recipe, SEEDS[0], 0) for task in ('CoLA', 'STS-B') for recipe in RECIPES]
    runs += [('SST-2', recipe, SEEDS[0], 0) for recipe in RECIPES[4:]]
    runs += [(f'elue-{task}', 'elasticbert-static', SEEDS[0], layers)
             for task in ('SST-2', 'MRPC', 'STS-B', 'IMDb', 'SNLI') for layers in range(12, 0, -1)]
    runs += [(task, recipe, SEEDS[0], 0) for task in ('QNLI', 'MNLI', 'QQP') for recipe in ('deebert', 'deebert-sd', 'romebert')]
    runs += [(task, recipe, seed, 0) for seed in SEEDS[1:] for task in ('CoLA', 'STS-B', 'SST-2') for recipe in RECIPES]
    return list(dict.fromkeys(runs))


def paper_plan():
    """The same with the papers' own settings: small tasks first, then SST-2 by the number of its steps."""
    papers = ('pabee', 'elbert', 'elasticbert', 'romebert', 'romebert-sd', 'deebert', 'deebert-sd', 'plain')
    runs = [(task, recipe, seed, 0) for seed in SEEDS for task in ('RTE', 'MRPC') for recipe in papers[:6]]
    runs += [(task, recipe, seed, 0) for seed in SEEDS for task in ('RTE', 'MRPC') for recipe in READERS]
    runs += [('SST-2', recipe, SEEDS[0], 0) for recipe in papers[:3] + tuple(READERS)]
    runs += [(task, recipe, SEEDS[0], 0) for task in ('CoLA', 'STS-B') for recipe in papers[:2] + tuple(READERS)]
    runs += [(task, recipe, seed, 0) for seed in SEEDS for task in ('RTE', 'MRPC') for recipe in papers[6:]]
    runs += [('SST-2', recipe, SEEDS[0], 0) for recipe in papers[3:]]
    runs += [(task, recipe, seed, 0) for seed in SEEDS[1:] for task in ('CoLA', 'STS-B', 'SST-2')
             for recipe in papers[:3] + tuple(READERS)]
    return list(dict.fromkeys(runs + [('SST-2', recipe, seed, 0) for seed in SEEDS[1:] for recipe in papers[3:]]))


PLANS = {'reference': (plan, 'grid.jsonl'), 'papers': (paper_plan, 'paper-settings.jsonl')}


def name_of(run):
    task, recipe, seed, layers = run
    return f'{task}-{recipe}{layers or ""}-{seed}'


def write_rows(path, header, arrays, rows):
    """The given rows of a feature file as another one."""
    offsets = struct.unpack(f'<{len(arrays["offsets"]) // 8}q', arrays['offsets'])
    out = {name: [] for name in arrays}
    places = [0]
    for row in rows:
        first, last = offsets[row], offsets[row + 1]
        places.append(places[-1] + last - first)
        for name in ('ids', 'types'):
            width = WIDTHS[header[name]['dtype']]
            out[name].append(arrays[name][first * width:last * width])
        for name in ('gold', 'index'):
            width = WIDTHS[header[name]['dtype']]
            out[name].append(arrays[name][row * width:(row + 1) * width])
    out['offsets'] = [struct.pack(f'<{len(places)}q', *places)]
    fields, at, body = {'__metadata__': header['__metadata__']}, 0, b''
    for name in (name for name in header if name != '__metadata__'):
        part = b''.join(out[name])
        fields[name] = {'dtype': header[name]['dtype'], 'shape': [len(part) // WIDTHS[header[name]['dtype']]],
                        'data_offsets': [at, at + len(part)]}
        at += len(part)
        body += part
    text = json.dumps(fields, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + body)


def hold_out(features, work):
    train, held = work / 'SST-2-train.safetensors', work / 'SST-2-held-out.safetensors'
    source = features / 'SST-2-train.safetensors'
    if source.exists() and not held.exists():
        header, arrays = read_arrays(source)
        rows = len(arrays['gold']) // 4
        chosen = set(random.Random(0).sample(range(rows), HELD_OUT))
        write_rows(train, header, arrays, [row for row in range(rows) if row not in chosen])
        write_rows(held, header, arrays, sorted(chosen))


def command(run, flags, out):
    task, recipe, seed, layers = run
    train = flags.features / f'{task}-train.safetensors'
    line = [flags.trainer, 'train', '--recipe', READERS.get(recipe, recipe), '--model', flags.model, '--out', out, '--seed', seed,
            '--eval-features', flags.features / f'{task}-dev.safetensors', '--save-every', 0, '--log-every', 500,
            '--threads', 1, '--trace', '--overwrite', '-q']
    if recipe in READERS:
        line += ['--set', 'heads.reader=own']
    line += ['--preset', 'reference'] if flags.settings == 'reference' else ['--as-written']
    if flags.device == 'cuda':
        line += ['--device', 'cuda', '--precision', 'bf16']
    if task == 'SST-2' and flags.settings == 'reference':
        train = flags.work / 'SST-2-train.safetensors'
        line += ['--also', f'held-out={flags.work / "SST-2-held-out.safetensors"}']
    if layers:
        line += ['--layers', layers, '--epochs', EPOCHS_CUT_SHORT.get(task, 5)]
        if task in EVAL_CUT_SHORT:
            line += ['--eval-every', EVAL_CUT_SHORT[task]]
    if flags.max_steps:
        line += ['--max-steps', flags.max_steps]
    return [str(word) for word in line + ['--train-features', train]]


def keep(run, flags, out, seconds):
    task, recipe, seed, layers = run
    found = json.loads((out / 'all_results.json').read_text())
    result = {'task': task, 'recipe': recipe, 'seed': seed, 'layers': layers, 'backbone': Path(flags.model).resolve().name,
              'attention': ATTENTION[flags.device], 'seconds': round(seconds, 1),
              'steps': json.loads((out / 'trainer_state.json').read_text())['global_step'],
              'settings': json.loads((out / 'recipe.json').read_text()), 'results': found}
    flags.traces.mkdir(parents=True, exist_ok=True)
    for trace in out.glob('trace-*.safetensors'):
        shutil.move(trace, flags.traces / f'{name_of(run)}.{trace.stem[6:]}.safetensors')
    append_run(flags.results, result)
    scores = [next(value for key, value in exit.items() if key != 'layer') for exit in found.get('exits', [])]
    print(f'{name_of(run)}: {seconds:.0f} s, {result["steps"]} steps, '
          + ' '.join(f'{100 * score:.1f}' if isinstance(score, float) else '–' for score in scores), flush=True)


def train_all(waiting, flags, ways, end):
    """Runs `waiting`, several at a time, until all are done or `end` is near; `ways`: what a run is called, how it is started
    and what is kept of it. No run is begun that would not end in time, judged by the longest with the same task and recipe
    or change (run[:2])."""
    name, start_line, take = ways
    running, longest, failed = {}, {}, 0
    environment = dict(os.environ, OMP_NUM_THREADS='1')
    while waiting or running:
        for run, (process, start, out, log) in list(running.items()):
            if process.poll() is None:
                continue
            seconds = time.monotonic() - start
            del running[run]
            if process.returncode == 0:
                longest[run[:2]] = max(longest.get(run[:2], 0), seconds)
                take(run, flags, out, seconds)
            else:
                failed += 1
                print(f'{name(run)}: status {process.returncode}: {log.read_text()[-300:]}', flush=True)
            shutil.rmtree(out, ignore_errors=True)
        left = end - time.monotonic()
        if left < 0:
            for process, *_ in running.values():
                process.kill()
            break
        while len(running) < flags.jobs:
            run = next((run for run in waiting if left > 1.2 * longest.get(run[:2], 20)), None)
            if run is None:
                break
            waiting.remove(run)
            out, log = flags.work / name(run), flags.work / f'{name(run)}.log'
            with log.open('w') as text:
                process = subprocess.Popen(start_line(run, flags, out), stdout=text, stderr=text, env=environment)
            running[run] = (process, time.monotonic(), out, log)
        if not running:
            break
        time.sleep(0.05)
    print(f'{len(waiting)} runs are left, {failed} failed', flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainer', required=True)
    parser.add_argument('--model', required=True)
    parser.add_argument('--features', type=Path, required=True)
    parser.add_argument('--settings', default='reference', choices=PLANS)
    parser.add_argument('--results', type=Path, help='default: in lab/studies/results')
    parser.add_argument('--traces', type=Path, help='default: build/grid/traces, or build/grid/paper-traces')
    parser.add_argument('--work', type=Path, default=ROOT / 'build/grid/work')
    parser.add_argument('--device', default='cuda', choices=('cuda', 'cpu'))
    parser.add_argument('--minutes', type=float, default=9)
    parser.add_argument('--jobs', type=int, default=4)
    parser.add_argument('--max-steps', type=int, default=0, help='for a trial')
    parser.add_argument('--only', nargs='*', default=[''], help='runs whose names contain one of these, in this order')
    flags = parser.parse_args()
    planned, place = PLANS[flags.settings]
    flags.results = flags.results or ROOT / 'lab/studies/results' / place
    flags.traces = flags.traces or ROOT / 'build/grid' / ('traces' if flags.settings == 'reference' else 'paper-traces')
    end = time.monotonic() + 60 * flags.minutes
    flags.work.mkdir(parents=True, exist_ok=True)
    if flags.settings == 'reference':
        hold_out(flags.features, flags.work)
    chosen = dict.fromkeys(run for part in flags.only for run in planned() if part in name_of(run))
    done = {tuple(run[key] for key in ('task', 'recipe', 'seed', 'layers')) for run in read_suite(flags.results)}
    waiting = [run for run in chosen if run not in done]
    return train_all(waiting, flags, (name_of, command, keep), end)


if __name__ == '__main__':
    sys.exit(main())
