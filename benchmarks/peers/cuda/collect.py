#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what was measured on one machine on one day into one file, from which benchmarks/results/render.py makes its tables.

    collect.py --out RESULT.json [--engine cuda_engine.jsonl…] [--serve serve.json… --serve-note TEXT] [--note TEXT]
               -- measure.json…

The first file of measure.py gives machine and date; the others add rows that it does not have.
"""
import argparse
import json
from pathlib import Path


def key_of(row):
    return tuple(row.get(name) for name in ('part', 'case', 'system', 'form', 'batch', 'exit_after'))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('measured', nargs='+')
    parser.add_argument('--out', required=True)
    parser.add_argument('--engine', nargs='*', default=[])
    parser.add_argument('--serve', nargs='*', default=[])
    parser.add_argument('--serve-note', default='')
    parser.add_argument('--note')
    flags = parser.parse_args()
    results = [json.loads(Path(path).read_text(encoding='utf-8')) for path in flags.measured]
    result = results[0]
    if flags.note:
        result = {name: value for name, value in result.items() if name != 'rows'} | {'note': flags.note, 'rows': result['rows']}
    known = {key_of(row) for row in result['rows'] if 'error' not in row}
    result['rows'] = [row for row in result['rows'] if key_of(row) in known]
    for other in results[1:]:
        for row in other['rows']:
            if key_of(row) not in known:
                known.add(key_of(row))
                result['rows'].append(row)
    if flags.engine:
        result['engine'] = [json.loads(line) for path in flags.engine
                            for line in Path(path).read_text(encoding='utf-8').splitlines() if line.startswith('{')]
    if flags.serve:
        served = [json.loads(Path(path).read_text(encoding='utf-8')) for path in flags.serve]
        result['serve'] = {'note': flags.serve_note, 'runs': [run for one in served for run in one['runs']]}
    Path(flags.out).write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
