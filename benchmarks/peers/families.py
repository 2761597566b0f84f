# SPDX-License-Identifier: Apache-2.0
"""The encoder families on this machine: time per operation against BERT's, and long texts; see `families`.

    families.py --programs build/bench/bin [--parts short,long] [--rounds 3] [--seconds 0.5] [--out FILE.json]

    short   a base-sized model of each family, 128 tokens, every row of every layer, one thread: its time per FLOP over
            BERT's. All of them take turns, so that other load hits all alike, and the least processor time counts; that
            of every round is kept beside it.
    long    ModernBERT at 128 to 8,192 tokens on all cores: time, and the peak memory of a process of its own.
    peers   both in ONNX Runtime, by the graphs of `exeunt export onnx`; bf16 is a mode of its fp32 on Arm.

Nothing is asserted here; the JSON goes to benchmarks/results/families, and benchmarks/results/render.py makes the tables of
docs/performance.md.
"""
import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from encoder import ROOT, machine, output

NODE = ROOT / 'benchmarks/peers/onnxruntime'
FAMILIES = ['bert-base', 'distilbert-base', 'electra-base', 'xlm-roberta-base', 'camembert-base', 'deberta-v3-base',
            'modernbert-base']
LONG = 'modernbert-base'


class Families:
    def __init__(self, flags, folder):
        self.flags, self.folder = flags, folder
        self.program = Path(flags.programs, 'exeunt')
        self.cores = len(os.sched_getaffinity(0))
        self.precisions = flags.precisions.split(',')

    def model(self, shape):
        """Made once, and kept until the end."""
        if not (self.folder / shape).exists():
            output([flags_path(self.flags.programs, 'random_model'), shape, self.folder / shape])
        return self.folder / shape

    def ours(self, shape, precision, threads, length, seconds):
        """One row of `exeunt bench`, with the peak memory of its process."""
        command = [self.program, 'bench', self.model(shape) / 'model', '--json', '-q', '--precision', precision, '--threads',
                   str(threads), '--seconds', str(seconds), '--cls-first', 'never']
        if length < 2048:
            command += ['--lengths', str(length)]
        else:  # as a list of one text, which runs twice at least, not five times
            (self.folder / 'lengths.txt').write_text(f'{length}\n')
            command += ['--lengths-of', self.folder / 'lengths.txt']
        with tempfile.TemporaryFile('w+') as out:
            process = subprocess.Popen(command, stdout=out)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                sys.exit(f"families: {' '.join(map(str, command))} failed")
            out.seek(0)
            row = json.load(out)['rows'][0]
        return {'best_ms': row['best_ms'], 'cpu_ms': row['cpu_ms'], 'gops': row['gops'], 'runs': row['runs'],
                'peak_mib': used.ru_maxrss / 1024}

    def peer(self, shape, precision, threads, length, seconds):
        """The same in ONNX Runtime; None where it has no such precision, or does not get through."""
        flags = ['--graph', self.model(shape) / 'onnx/all_exits.onnx', '--precision', precision, '--threads', str(threads),
                 '--lengths', str(length), '--seconds', str(seconds)]
        if self.flags.peer == 'python':
            command = [sys.executable, ROOT / 'benchmarks/peers/onnx_session.py', *flags]
        else:
            command = ['node', NODE / 'exported.mjs', *flags]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=self.flags.patience,
                                  preexec_fn=give_way)
        except subprocess.TimeoutExpired:
            return {'failed': f'not done after {self.flags.patience} s'}
        if done.returncode != 0:
            return {'failed': done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f'status {done.returncode}'}
        rows = json.loads(done.stdout)
        return rows[0] if rows else None

    def engines(self):
        engines = {'ours': self.ours}
        if self.flags.peer != 'none':
            engines['onnxruntime'] = self.peer
        return engines

    def short(self, rows, save):
        best, begin, longest = {}, time.monotonic(), 0
        for nth in range(self.flags.rounds):
            now = time.monotonic()
            if nth and self.flags.limit and now - begin + longest > self.flags.limit:
                break
            for precision in self.precisions:
                for shape in self.flags.shapes.split(','):
                    for engine, run in self.engines().items():
                        if engine != 'ours' and nth >= self.flags.peer_rounds:
                            continue
                        row = run(shape, precision, 1, 128, self.flags.seconds)
                        place = best.setdefault((precision, shape), {})
                        if not row or 'cpu_ms' not in row:
                            continue
                        before = place.get(engine, {'cpu_ms': float('inf'), 'each': []})
                        best_yet = row if row['cpu_ms'] < before['cpu_ms'] else before
                        place[engine] = dict(best_yet, each=[*before['each'], round(row['cpu_ms'], 3)])
                # Operations are what the bench counted: its rate times its best time.
                rows[:] = [{'shape': shape, 'precision': precision, 'length': 128, 'threads': 1, **engines,
                            'gflop': engines['ours']['gops'] * engines['ours']['best_ms'] / 1e3}
                           for (precision, shape), engines in best.items()]
                save()
            longest = max(longest, time.monotonic() - now)

    def long(self, rows, save):
        for precision in self.precisions:
            for length in map(int, self.flags.lengths.split(',')):
                row = {'shape': LONG, 'precision': precision, 'length': length, 'threads': self.cores}
                for engine, run in self.engines().items():
                    found = run(LONG, precision, self.cores, length, self.flags.seconds)
                    if found:
                        row[engine] = found
                rows.append(row)
                save()


def give_way():
    """Scores of all pairs of tokens may not fit: then this process ends, and no other."""
    Path('/proc/self/oom_score_adj').write_text('1000')


def flags_path(folder, name):
    found = shutil.which(name, path=str(folder))
    if not found:
        sys.exit(f'families: {folder} has no {name}; build it, or name another folder with --programs')
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--programs', default=str(ROOT / 'build/bench/bin'), help='folder of exeunt and random_model')
    parser.add_argument('--parts', default='short,long')
    parser.add_argument('--shapes', default=','.join(FAMILIES))
    parser.add_argument('--lengths', default='128,512,2048,8192', help='of the long texts')
    parser.add_argument('--precisions', default='fp32,bf16,int8')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--peer-rounds', type=int, default=1, help='rounds in which ONNX Runtime takes part')
    parser.add_argument('--limit', type=float, default=0, help='seconds after which no round ends; 0: all rounds')
    parser.add_argument('--seconds', type=float, default=0.5)
    parser.add_argument('--peer', choices=['node', 'python', 'none'],
                        help='how to reach ONNX Runtime; what there is if left out')
    parser.add_argument('--patience', type=float, default=300, help='seconds for one figure of ONNX Runtime')
    parser.add_argument('--folder', help='where the models are made, and kept')
    parser.add_argument('--out')
    flags = parser.parse_args()
    if not flags.peer:
        flags.peer = ('node' if (NODE / 'node_modules').exists() else
                      'python' if importlib.util.find_spec('onnxruntime') else 'none')
    result = {'format': 'exeunt.families/1', 'date': time.strftime('%Y-%m-%d', time.gmtime()),
              'commit': subprocess.run(['git', '-C', ROOT, 'describe', '--always', '--dirty=+'], capture_output=True,
                                       text=True, check=False).stdout.strip(),
              'peer': flags.peer, 'rounds': flags.rounds, 'machine': machine()}
    info = json.loads(output([flags_path(flags.programs, 'exeunt'), 'bench', ROOT / 'tests/fixtures/checkpoints/bert-deebert',
                              '--lengths', '4', '--seconds', '0', '--json', '-q']))
    result['machine'].update(cpu=info['cpu'], isa=info['isa'])
    name = re.sub('[^a-z0-9]+', '-', f"{info['cpu']}-{info['isa']}".lower()).strip('-')
    out = Path(flags.out or ROOT / f"benchmarks/results/families/{result['date']}-{name}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        families = Families(flags, Path(flags.folder or scratch))

        def save():  # as it grows: a run takes minutes
            if result.get('short'):
                result['rounds'] = min(len(row['ours']['each']) for row in result['short'])
            result['machine']['load_at_end'] = round(os.getloadavg()[0], 1)
            out.write_text(json.dumps(result, indent=1) + '\n')

        for part in flags.parts.split(','):
            {'short': families.short, 'long': families.long}[part](result.setdefault(part, []), save)
    sys.path.insert(0, str(ROOT / 'benchmarks'))
    from families_tables import families_tables
    print(families_tables(result))
    print(f'wrote {out}')


if __name__ == '__main__':
    main()
