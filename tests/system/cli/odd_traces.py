#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every verb that reads traces on small valid ones of each problem: labelled, partly labelled or not, of the dev and of
the test split. A verb may refuse one, with one error and its exit status; it may not crash or fail a check of our own.

    odd_traces.py EXEUNT
"""
import itertools
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

PROBLEMS = {'classification': ['no', 'maybe', 'yes'], 'multi_label': ['calm', 'rude'], 'regression': []}
LAYERS, ROWS = [1, 2, 4], 60
VERBS = [['eval'], ['eval', '--policy', 'patience:1'], ['sweep'], ['sweep', '--policy', 'patience:1', '--json'],
         ['report', '--out', 'report.html'], ['calibrate', '--max-drop', '30%', '--out', 'policy.json'],
         ['recommend', '--target-speedup', '1.1x'], ['sweep', '--policy', 'window:0.5,2', '--stats', 'stats'],
         ['sweep', '--policy', 'entropy:0.3', '--npy', 'arrays']]
POLICIES = {'deebert': 'entropy:0.3', 'pabee': 'patience:1', 'elasticbert': 'patience:1', 'romebert': 'entropy:0.3',
            'elbert': 'nentropy:0.3'}
VERBS += [['sweep', '--policy', policy, '--view', view] for view, policy in POLICIES.items()]
VERBS += [['sweep', '--policy', policy, '--view', view, '--view-files', 'files'] for view, policy in POLICIES.items()]


def write_trace(path, problem, labelled, split):
    draw = random.Random(7)
    labels = PROBLEMS[problem]
    width = max(1, len(labels))
    gold_width = width if problem == 'multi_label' else 1
    gold = [draw.randrange(width) if problem == 'classification' else draw.randrange(2) for _ in range(ROWS * gold_width)]
    if labelled != 'all':
        gold = [float('nan') if labelled == 'none' or i < gold_width else value for i, value in enumerate(gold)]
    shapes = {'logits': ('F32', [ROWS, len(LAYERS), width], '<f', [draw.gauss(0, 2) for _ in range(ROWS * len(LAYERS) * width)]),
              'gold': ('F32', [ROWS] if gold_width == 1 and problem != 'multi_label' else [ROWS, gold_width], '<f', gold),
              'index': ('I64', [ROWS], '<q', list(range(ROWS)))}
    header = {'__metadata__': {'format': 'exeunt.trace/2', 'weights': 'a' * 64, 'split': split, 'problem': problem,
                               'labels': json.dumps(labels), 'exits': ','.join(map(str, LAYERS)), 'precision': 'fp32', 'last_head': 'final'}}
    data = b''
    for name, (kind, shape, form, values) in shapes.items():
        body = b''.join(struct.pack(form, value) for value in values)
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + data)


def complaint(done):
    errors = [line for line in done.stderr.splitlines() if line.startswith('error: ')]
    if done.returncode < 0 or done.returncode > 5:
        return f'exit status {done.returncode}'
    if 'internal error' in done.stderr:
        return 'a check of our own failed'
    if len(errors) != (1 if done.returncode else 0):
        return f'{len(errors)} errors with exit status {done.returncode}'
    return None


def main():
    exeunt, runs, failures, refused = os.path.abspath(sys.argv[1]), 0, 0, 0
    for problem, labelled, split in itertools.product(PROBLEMS, ['all', 'some', 'none'], ['dev', 'test']):
        for verb in VERBS:
            with tempfile.TemporaryDirectory() as folder:
                write_trace(pathlib.Path(folder) / 'trace.safetensors', problem, labelled, split)
                command = [exeunt, verb[0], 'trace.safetensors', *verb[1:]]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300,
                                      env={**os.environ, 'XDG_STATE_HOME': folder})
            runs += 1
            refused += done.returncode != 0
            if why := complaint(done):
                failures += 1
                print(f'{problem}, {labelled} labelled, {split}: exeunt {" ".join(command[1:])}: {why}\n{done.stderr}')
    print(f'{runs} runs, {refused} refused, {failures} failures')
    return 1 if failures or refused > runs // 2 else 0


if __name__ == '__main__':
    sys.exit(main())
