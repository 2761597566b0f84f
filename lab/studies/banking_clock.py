#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `exeunt train` and `exeunt attach` leave with their defaults, by the clock: BANKING77 with 1,500 labelled rows and the
other training rows as texts without labels. Leave the machine alone meanwhile.

    lab/studies/banking_clock.py --program build/release/bin/exeunt --data FOLDER --encoder FOLDER --work FOLDER --out RESULT.json

FOLDER of the data holds train.tsv and test.tsv. `predict` of the test file is timed, the ways in turns: the model that train left,
its own folder at full depth in int8 and in fp32, and the model with exits attached with the unlabelled texts.
"""
import argparse
import csv
import json
import os
import random
import resource
import statistics
import subprocess
import time
from pathlib import Path


def rows_of(path):
    return [line.split('\t') for line in path.read_text(encoding='utf-8').splitlines()[1:]]


def timed(command):
    """(wall seconds, processor seconds, standard output)"""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    out = subprocess.run([str(one) for one in command], stdout=subprocess.PIPE, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('program', 'data', 'encoder', 'work', 'out'):
        parser.add_argument(f'--{name}', type=Path, required=True)
    parser.add_argument('--rounds', type=int, default=7)
    flags = parser.parse_args()
    flags.work.mkdir(parents=True, exist_ok=True)
    os.environ['XDG_STATE_HOME'] = str(flags.work / 'state')
    rows, test = rows_of(flags.data / 'train.tsv'), rows_of(flags.data / 'test.tsv')
    random.Random(1).shuffle(rows)
    for name, some in (('bank.csv', rows[:1500]), ('test.csv', test)):
        with open(flags.work / name, 'w', newline='', encoding='utf-8') as file:
            csv.writer(file).writerows([['text', 'label'], *some])
    (flags.work / 'log.txt').write_text(''.join(f'{text}\n' for text, _ in rows[1500:]), encoding='utf-8')
    bank, fast = flags.work / 'bank', flags.work / 'fast'
    load = os.getloadavg()[0]
    train_s = timed([flags.program, 'train', '--data', flags.work / 'bank.csv', '--model', flags.encoder, '--out', bank])[0]
    attach_s = timed([flags.program, 'attach', bank, '--force', '--texts', flags.work / 'log.txt', '--out', fast])[0]
    full = ['--policy', 'full', '--precision']
    ways = {'train': [bank], 'full depth, int8': [bank, *full, 'int8'], 'full depth, fp32': [bank, *full, 'fp32'], 'attach': [fast]}
    seconds, answers = {way: [] for way in ways}, {}
    for _ in range(flags.rounds):
        for way, model in ways.items():
            *times, out = timed([flags.program, 'predict', model[0], flags.work / 'test.csv', '--json', '-q', *model[1:]])
            seconds[way].append(times)
            answers[way] = [json.loads(line) for line in out.splitlines()]
    doctor = json.loads(timed([flags.program, 'doctor', '--json'])[2])
    result = {'format': 'exeunt.banking_clock/1', 'date': time.strftime('%Y-%m-%d', time.gmtime()), 'load_at_start': round(load, 1),
              'commit': doctor['commit'], 'processor': doctor['findings']['processor'], 'kernels': doctor['findings']['kernels'],
              'train_s': train_s, 'attach_s': attach_s, 'ways': {}}
    reference = answers['full depth, fp32']
    for way, got in answers.items():
        wall, cpu = (statistics.median(one[i] for one in seconds[way]) for i in (0, 1))
        result['ways'][way] = {
            'wall_s': wall, 'cpu_s': cpu, 'rounds': [round(one[0], 3) for one in seconds[way]],
            'times_faster_than_int8_at_full_depth': statistics.median(one[0] for one in seconds['full depth, int8']) / wall,
            'layers': statistics.fmean(one['exit_layer'] for one in got),
            'correct': statistics.fmean(one['label'] == gold for one, (_, gold) in zip(got, test, strict=True)),
            'changed': statistics.fmean(one['label'] != other['label'] for one, other in zip(got, reference, strict=True))}
    flags.out.write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')
    print(json.dumps(result['ways'], indent=1))


if __name__ == '__main__':
    main()
