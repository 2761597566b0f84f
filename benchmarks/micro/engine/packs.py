#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What packs gain: a backlog of texts with packs against the same texts one by one, in turns on one thread. And what a text
that is alone loses beside other processes (--parts lone, on all processors this process may use), and how many requests a
second a server answers (--parts serve).

    packs.py --program build/bench/bin/exeunt [--shape bert-base] [--rounds 3] [--seconds 0.5] [--out FILE.json]
    packs.py --parts serve --model DIR --texts FILE [--exit-mean 4] [--pack-rows 1,256] [--seconds 4] [--precision int8]

A server's texts leave by the model's own policy, or with --exit-mean N in equal parts after each of the layers 1 to 2 N - 1,
as those of `exeunt bench --exit-mean` do. `random_model bert-base DIR VOCABULARY` makes a model for that.

Prints Markdown tables, and writes every figure to FILE.json as it grows; benchmarks/results/render.py --docs shows those in
benchmarks/results/packs. The best time of all rounds counts, because other load can only slow a run down. With --busy,
processor time counts instead, which other load hardly changes.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / 'lab/studies'))
from suites import read_arrays

ROOT = Path(__file__).resolve().parents[3]
TRACE = ROOT / 'tests/fixtures/traces/sst2-exeunt.dev.safetensors'


def read_logits(path):
    """[texts][exits][outputs] of a trace."""
    header, arrays = read_arrays(path)
    values = memoryview(arrays['logits']).cast('f')
    texts, exits, outputs = header['logits']['shape']
    return [[values[(t * exits + e) * outputs:(t * exits + e + 1) * outputs] for e in range(exits)] for t in range(texts)]


def entropy(logits):
    largest = max(logits)
    weights = [math.exp(value - largest) for value in logits]
    total = sum(weights)
    return -sum(w / total * math.log(w / total) for w in weights if w > 0)


def leave_evenly(logits, mean):
    """Thresholds with which these texts leave in equal parts after each of the exits 1 to 2 · mean - 1."""
    thresholds, left, deepest = [0.0] * len(logits[0]), list(logits), 2 * mean - 1
    for at in range(deepest - 1):
        values = sorted(entropy(text[at]) for text in left)
        thresholds[at] = values[math.ceil(len(left) / (deepest - at))]
        left = [text for text in left if entropy(text[at]) >= thresholds[at]]
    thresholds[deepest - 1] = 16.0  # above any entropy
    return 'entropy:' + ','.join(f'{value:.9g}' for value in thresholds)


class Packs:
    def __init__(self, flags):
        self.flags = flags
        self.peaks = {}  # of one thread, by precision
        self.result = {'format': 'exeunt.packs/1', 'date': time.strftime('%Y-%m-%d', time.gmtime()), 'shape': flags.shape,
                       'processor_time': flags.busy, 'load': round(os.getloadavg()[0], 1), 'rows': []}

    def measure(self, *arguments):
        command = [self.flags.program, 'bench', '--json', '-q', '--seconds', str(self.flags.seconds), *map(str, arguments)]
        report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        self.cpu, self.isa = report['cpu'], report['isa']
        self.result['machine'] = f'{self.cpu}, kernels `{self.isa}`'
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

    def policy(self, precision):
        """The flags of a server by which its texts leave as --exit-mean says."""
        if not self.flags.exit_mean:
            return []
        with tempfile.TemporaryDirectory() as scratch:
            rows, trace = Path(scratch, 'texts.jsonl'), Path(scratch, 'trace.safetensors')
            rows.write_text(''.join(json.dumps({'text': text}) + '\n' for text in Path(self.flags.texts).read_text().splitlines()))
            subprocess.run([self.flags.program, 'trace', self.flags.model, '--precision', precision, '--no-reference', '--data', rows,
                            '--label-column', '', '--out', trace, '-q'], check=True)
            return ['--policy', leave_evenly(read_logits(trace), self.flags.exit_mean)]

    def with_pack_rows(self, folder, pack_rows, precision):
        """The model, by hard links, with a profile that prescribes packs."""
        layers = json.loads(Path(self.flags.model, 'config.json').read_text())['num_hidden_layers']
        model = Path(folder, str(pack_rows))
        model.mkdir()
        for file in Path(self.flags.model).resolve().iterdir():
            if file.name != 'profile.json':
                os.link(file, model / file.name)
        entry = {'precision': precision, 'threads': 1, 'isa': self.isa, 'lengths': [16], 'embedding_ms': [0],
                 'layer_ms': [[1]] * layers, 'exit_ms': [0], 'pack_rows': pack_rows}
        (model / 'profile.json').write_text(json.dumps({'format': 'exeunt.profile/1', 'device': self.cpu, 'tool': '', 'created': '',
                                                        'entries': [entry]}))
        return model

    def serve(self, precision):
        """A server's highest rate whose p99 is within 250 ms, with packs of each size in turns; the highest of all rounds, and the
        lowest p50 of one request after another."""
        sizes = [int(size) for size in self.flags.pack_rows.split(',')]
        policy, best, all_rounds = self.policy(precision), {}, {size: [] for size in sizes}
        self.measure(self.flags.model, '--precision', precision, '--lengths', 16)  # names the machine
        with tempfile.TemporaryDirectory(dir=Path(self.flags.model).resolve().parent) as scratch:
            models = {size: self.with_pack_rows(scratch, size, precision) for size in sizes}
            for _ in range(self.flags.rounds):
                for size, model in models.items():
                    out = Path(scratch, 'record.json')
                    server = [self.flags.program, 'serve', model, '--port', '0', '--json-output', '--no-request-log',
                              '--precision', precision, *policy]
                    load = Path(self.flags.program).with_name('exeunt-load')
                    subprocess.run([load, 'peak', '--texts', self.flags.texts, '--seconds', str(self.flags.seconds), '--p99', '250',
                                    '--out', out, '--', *server], check=True, stdout=subprocess.DEVNULL)
                    run = json.loads(out.read_text())['figures']
                    all_rounds[size].append(run['rate_per_s'])
                    before = best.get(size, run)
                    best[size] = dict(max(run, before, key=lambda r: r['rate_per_s']),
                                      one_by_one_p50_ms=min(run['one_by_one_p50_ms'], before['one_by_one_p50_ms']))
        alone, rows = best[sizes[0]], []
        for size in sizes[1:]:
            packs = best[size]
            self.keep(part='serve', model=self.flags.label, precision=precision, processors=len(os.sched_getaffinity(0)), pack_rows=size,
                      alone=alone['rate_per_s'], packs=packs['rate_per_s'], alone_rounds=all_rounds[sizes[0]],
                      packs_rounds=all_rounds[size], p99_alone_ms=alone['p99_ms'], p99_packs_ms=packs['p99_ms'],
                      p50_alone_ms=alone['one_by_one_p50_ms'], p50_packs_ms=packs['one_by_one_p50_ms'])
            rows.append((precision, size, f"{alone['rate_per_s']:.0f}", f"{packs['rate_per_s']:.0f}",
                         f"{packs['rate_per_s'] / alone['rate_per_s']:.2f}×",
                         f"{alone['one_by_one_p50_ms']:.2f} → {packs['one_by_one_p50_ms']:.2f} ms"))
        self.table(('precision', 'rows of a pack', 'requests/s alone', 'requests/s in packs', 'ratio', 'p50 of one after another'), rows)


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
    parser.add_argument('--model', help='serve: a folder of ours')
    parser.add_argument('--label', default="BERT-base's shape, 4 of 12 layers on average", help='serve: what the tables call it')
    parser.add_argument('--texts', help='serve: a file with one text per line')
    parser.add_argument('--exit-mean', type=int, help="serve: mean exit layer (default: the model's own policy)")
    parser.add_argument('--pack-rows', default='1,256', help='serve: sizes to compare, the first of them with the others')
    flags = parser.parse_args()
    packs = Packs(flags)
    for part in packs.flags.parts.split(','):
        for precision in packs.flags.precision.split(','):
            getattr(packs, part)(precision)


if __name__ == '__main__':
    main()
