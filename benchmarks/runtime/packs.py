#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What packs gain: a backlog of texts with packs against the same texts one by one, in turns on one thread. And what a text
that is alone loses beside other processes (--parts lone, on all processors this process may use).

    packs.py --program build/bench/bin/exeunt [--shape bert-base] [--rounds 3] [--seconds 0.5] [--out FILE.json]

Prints Markdown tables, and writes every figure to FILE.json as it grows; benchmarks/render.py --docs shows those in
benchmarks/results/packs. The best time of all rounds counts, because other load can only slow a run down. With --busy,
processor time counts instead, which other load hardly changes.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / 'tests/traces/sst2-exeunt.dev.safetensors'


class Packs:
    def __init__(self, flags):
        self.flags = flags
        self.peaks = {}  # of one thread, by precision
        self.result = {'format': 'exeunt.packs/1', 'date': time.strftime('%Y-%m-%d', time.gmtime()), 'shape': flags.shape,
                       'processor_time': flags.busy, 'load': round(os.getloadavg()[0], 1), 'rows': []}

    def measure(self, *arguments):
        command = [self.flags.program, 'bench', '--json', '-q', '--seconds', str(self.flags.seconds), *map(str, arguments)]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        self.result['machine'] = f"{report['cpu']}, kernels `{report['isa']}`"
        return report['rows'][0]

    def bench(self, *arguments):
        row = self.measure(*arguments)
        if row['peak_share']:
            peak = row['gops'] / row['peak_share'] / row['threads']
            self.peaks[row['precision']] = max(peak, self.peaks.get(row['precision'], 0))
        if self.flags.busy:
            slower = row['best_ms'] / row['cpu_ms']
            row.update(best_ms=row['cpu_ms'], gops=row['gops'] * slower, texts_per_second=row['texts_per_second'] * slower)
        return row

    def best(self, variants):
        """Best row of each variant, {name: arguments}, over rounds in turns."""
        best = {}
        for _ in range(self.flags.rounds):
            for name, arguments in variants.items():
                row = self.bench(*arguments)
                if name not in best or row['best_ms'] < best[name]['best_ms']:
                    best[name] = row
        return best

    def keep(self, **row):
        self.result['rows'].append(row)
        if self.flags.out:
            Path(self.flags.out).write_text(json.dumps(self.result, indent=1) + '\n')

    def table(self, head, rows):
        print('| ' + ' | '.join(head) + ' |\n|' + ' --- |' * len(head))
        for row in rows:
            print('| ' + ' | '.join(str(cell) for cell in row) + ' |')
        print(flush=True)

    def compare(self, precision, cases):
        rows = []
        shape = ['--shape', self.flags.shape, '--precision', precision]
        for name, arguments in cases:
            best = self.best({'alone': [*shape, *arguments, '--pack-rows', 1], 'packs': [*shape, *arguments]})
            alone, packs = (best[k]['texts_per_second'] for k in ('alone', 'packs'))
            self.keep(part='backlog', precision=precision, case=name, alone=alone, packs=packs, ratio=packs / alone)
            rows.append((precision, name, f'{alone:.1f}', f'{packs:.1f}', f'{packs / alone:.2f}×'))
        self.table(('precision', f'backlog, {self.flags.shape}', 'texts/s alone', 'texts/s in packs', 'ratio'), rows)

    def backlog(self, precision):
        """Texts of one length: how many a second alone and in packs."""
        lengths = self.flags.lengths.split(',')
        self.compare(precision, [(f'{length} tokens', ['--lengths', length, '--batch', 32]) for length in lengths])

    def sst2(self, precision):
        """The same for the lengths of SST-2's dev split."""
        self.compare(precision, [("SST-2's lengths", ['--lengths-of', TRACE])])

    def sizes(self, precision):
        """How many rows a pack should have."""
        shape = ['--shape', self.flags.shape, '--precision', precision, '--lengths', 24, '--batch', 64]
        sizes = [1, 32, 64, 128, 192, 256, 384, 512]
        best = self.best({size: [*shape, '--pack-rows', size] for size in sizes})
        for size in sizes:
            self.keep(part='sizes', precision=precision, pack_rows=size, texts_per_second=best[size]['texts_per_second'])
        self.table(('precision, 24 tokens', *map(str, sizes)),
                   [(precision, *(f"{best[size]['texts_per_second']:.1f}" for size in sizes))])

    def peak(self, precision):
        """Every row of every layer, 16 texts of 16 tokens and 8 of 32: the share of the register peak, the highest of all
        runs, because a neighbour on the same core can halve a measured one."""
        rows = []
        best = self.best({(length, batch): ['--shape', self.flags.shape, '--precision', precision, '--lengths', length,
                                            '--batch', batch, '--pack-rows', 512, '--cls-first', 'never']
                          for length, batch in ((16, 16), (32, 8), (32, 16))})
        for (length, batch), row in best.items():
            peak = self.peaks.get(precision)
            share = row['gops'] / peak if peak else None
            self.keep(part='peak', precision=precision, length=length, batch=batch, gops=row['gops'], peak_gops=peak,
                      peak_share=share)
            rows.append((precision, f'{batch} × {length}', f"{row['gops']:.0f}", f'{100 * share:.0f} %' if share else '–'))
        self.table(('precision', 'texts × tokens', 'Gop/s', 'of the peak'), rows)

    def lone(self, precision):
        """One text of 128 tokens on all processors: quiet, beside a process of the lowest priority, and with four times as many
        threads. In turns; of each figure the lowest of all rounds."""
        cores = len(os.sched_getaffinity(0))
        cases = {'quiet': (cores, False), 'beside a process of the lowest priority': (cores, True),
                 'four threads for each processor': (4 * cores, False)}
        best = {}
        for _ in range(self.flags.rounds):
            for name, (threads, beside) in cases.items():
                other = subprocess.Popen(['nice', '-n', '19', sys.executable, '-c', 'while True: pass']) if beside else None
                try:
                    row = self.measure('--shape', self.flags.shape, '--precision', precision, '--lengths', 128,
                                       '--threads', threads)
                finally:
                    if other:
                        other.kill()
                        other.wait()
                best[name] = {k: min(row[k], best.get(name, row)[k]) for k in ('best_ms', 'p50_ms', 'p90_ms')}
        rows = []
        for name, row in best.items():
            ratio = row['p50_ms'] / best['quiet']['p50_ms']
            self.keep(part='lone', precision=precision, processors=cores, case=name, ratio=ratio, **row)
            rows.append((precision, name, *(f'{row[k]:.2f}' for k in ('best_ms', 'p50_ms', 'p90_ms')), f'{ratio:.2f}×'))
        self.table(('precision', f'a text of 128 tokens, {cores} processors', 'best ms', 'p50 ms', 'p90 ms',
                    'p50 against quiet'), rows)

    def exits(self, precision):
        """What exits cost that nobody takes: with a reader after every layer, against the last exit alone."""
        rows = []
        for name, batch in (('a lone text', 1), ('16 texts', 16)):
            common = ['--shape', self.flags.shape, '--precision', precision, '--lengths', 32, '--batch', batch]
            poolers = ('bf16', 'int8') if precision == 'int8' else (precision,)
            best = self.best({'last': [*common, '--heads', 'last', '--cls-first', 'never']} |
                             {p: [*common, '--heads', 'reader', '--cls-first', 'never', '--poolers', p] for p in poolers})
            last = best['last']['best_ms']
            for p in poolers:
                reader = best[p]['best_ms']
                self.keep(part='exits', precision=precision, poolers=p, batch=batch, last_ms=last, reader_ms=reader)
                rows.append((precision, p, name, f'{last:.2f}', f'{reader:.2f}', f'{100 * (reader / last - 1):+.1f} %'))
        self.table(('precision', 'poolers', '32 tokens', 'one exit ms', 'an exit per layer ms', 'overhead'), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--program', default=str(ROOT / 'build/bench/bin/exeunt'))
    parser.add_argument('--shape', default='bert-base')
    parser.add_argument('--precision', default='int8,bf16')
    parser.add_argument('--parts', default='backlog,sst2,sizes,peak,exits')
    parser.add_argument('--lengths', default='16,32,64,128')
    parser.add_argument('--busy', action='store_true')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=0.5)
    parser.add_argument('--out')
    flags = parser.parse_args()
    packs = Packs(flags)
    for part in packs.flags.parts.split(','):
        for precision in packs.flags.precision.split(','):
            getattr(packs, part)(precision)


if __name__ == '__main__':
    main()
