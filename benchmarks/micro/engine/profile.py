#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a text or of a pack goes: the trace of one thread that `exeunt bench --profile` writes, as a table.

    exeunt bench --shape bert-base --precision int8 --threads 1 --lengths 32 --batch 8 --profile trace.json
    profile.py trace.json [--peak GOPS]

--peak: the register peak of one thread in Gop/s, to which products are compared; `bench --json` has gops and peak_share.
"""
import argparse
import json
from pathlib import Path


def name_of(event):
    what, shape = event['name'], event['args']
    if what == 'multiply':
        return f"product {shape['inputs']} → {shape['outputs']}, {event['cat']}"
    if what == 'attend':
        return f"attention, {event['cat']}"
    return {'normalize': 'norm and its packing', 'pack_rows': f"packing {shape['inputs']} columns, {event['cat']}",
            'read': 'reader'}.get(what, what)


def operations_of(event):
    rows, inputs, outputs = (event['args'][k] for k in ('rows', 'inputs', 'outputs'))
    return {'multiply': 2, 'attend': 4}.get(event['name'], 0) * rows * inputs * outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('trace')
    parser.add_argument('--peak', type=float)
    flags = parser.parse_args()
    events = json.loads(Path(flags.trace).read_text())['traceEvents']
    if not events:
        parser.error(f'{flags.trace}: it has no events')
    if len({event['tid'] for event in events}) > 1:
        parser.error(f'{flags.trace}: of several threads; profile with --threads 1')
    total = max(e['ts'] + e['dur'] for e in events) - min(e['ts'] for e in events)
    kinds = {}
    for event in events:
        kind = kinds.setdefault(name_of(event), [0, 0.0, 0])
        kind[0] += 1
        kind[1] += event['dur']
        kind[2] += operations_of(event)
    print('| kernel | calls | ms | share | Gop/s |' + (' of the peak |' if flags.peak else ''))
    print('| --- | --- | --- | --- | --- |' + (' --- |' if flags.peak else ''))
    for name, (calls, microseconds, operations) in sorted(kinds.items(), key=lambda kind: -kind[1][1]):
        speed = operations / microseconds / 1e3
        row = [name, calls, f'{microseconds / 1e3:.2f}', f'{100 * microseconds / total:.1f} %', f'{speed:.0f}' if operations else '–']
        if flags.peak:
            row.append(f'{100 * speed / flags.peak:.0f} %' if operations else '–')
        print('| ' + ' | '.join(map(str, row)) + ' |')
    between = total - sum(kind[1] for kind in kinds.values())
    print(f'| between kernels | – | {between / 1e3:.2f} | {100 * between / total:.1f} % | – |' + (' – |' if flags.peak else ''))
    print(f"| all | {len(events)} | {total / 1e3:.2f} | 100 % | {sum(k[2] for k in kinds.values()) / total / 1e3:.0f} |" + (' – |' if flags.peak else ''))


if __name__ == '__main__':
    main()
