#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/reproducing.md from the runs of benchmarks/grid.

    reproducing.py --curves EXEUNT TRACES   replays policies over the grid's traces into benchmarks/results/train/curves.json
    reproducing.py --docs                   writes docs/reproducing.md from the results
    reproducing.py --check                  fails if docs/reproducing.md does not say what the results say
"""
import collections
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks/results/train'
GRID, CURVES = RESULTS / 'grid', RESULTS / 'curves.json'
DOCS = ROOT / 'docs/reproducing.md'
SMALL = ('RTE', 'MRPC', 'CoLA', 'STS-B', 'SST-2')
SUBSETS = ('QNLI', 'MNLI', 'QQP')
RECIPES = ('plain', 'deebert', 'deebert-sd', 'pabee', 'elasticbert', 'romebert-sd', 'romebert', 'elbert', 'elbert-equal',
           'berxit', 'exeunt')
POLICIES = ('entropy:0.02|0.05|0.1|0.15|0.2|0.25|0.3|0.4|0.5', 'patience:1|2|3|4|5|6|8', 'window:0.1|0.2|0.3,4,bias_1')
MEASURES = {'MRPC': ('accuracy', 'f1'), 'QQP': ('accuracy', 'f1'), 'CoLA': ('matthews_correlation', 'mcc'),
            'STS-B': ('pearson', 'spearmanr')}


def runs():
    return [json.loads(path.read_text()) for path in sorted(GRID.glob('*.json'))]


def table(header, rows):
    lines = ['| ' + ' | '.join(header) + ' |', '| ' + ' | '.join('---' for _ in header) + ' |']
    return '\n'.join(lines + ['| ' + ' | '.join(map(str, row)) + ' |' for row in rows])


def score(task, values):
    """In percent: the mean of the task's measures (MRPC: accuracy and F1), accuracy where it has no others."""
    task = task.removeprefix('elue-')
    names = [name for name in MEASURES.get(task, ('accuracy',)) if isinstance(values.get(name), (int, float))]
    return 100 * statistics.mean(values[name] for name in names) if names else None


def shown(values):
    values = [value for value in values if value is not None]
    return f'{statistics.mean(values):.1f}' if values else '–'


def exit_tables(all_runs):
    out = []
    for task in SMALL + SUBSETS:
        rows = []
        for recipe in RECIPES:
            found = [run for run in all_runs if (run['task'], run['recipe'], run['layers']) == (task, recipe, 0)]
            if not found:
                continue
            layers = collections.defaultdict(list)
            for run in found:
                for exit_ in run['results']['exits']:
                    layers[exit_['layer']].append(score(task, exit_))
            rows.append([f'`{recipe}`', len(found)] + [shown(layers[layer]) if layer in layers else '' for layer in range(1, 13)])
        if rows:
            names = ' and '.join(MEASURES.get(task, ('accuracy',))[:2]) if task != 'CoLA' else "Matthews' correlation"
            kind = ', a subset of the training rows' if task in SUBSETS else ''
            out.append(f'### {task}: {names}{kind}\n' + table(['recipe', 'seeds', *map(str, range(1, 13))], rows))
    return '\n\n'.join(out)


def kind_of(policy):
    return policy.split(':')[0]


def mean_curve(curves, task, recipe, split):
    """{policy: (score, layers)}, means over the seeds."""
    points = collections.defaultdict(list)
    for curve in curves:
        if (curve['task'], curve['recipe'], curve['split']) == (task, recipe, split):
            for row in curve['rows']:
                points[row['policy']].append((row['score'], row['layers']))
    return {policy: tuple(statistics.mean(part) for part in zip(*found)) for policy, found in points.items()}


def chosen_table(all_runs, curves):
    """SST-2: the threshold that leaves most on the held-out rows and loses at most half a point against plain there."""
    plain = [run for run in all_runs if (run['task'], run['recipe']) == ('SST-2', 'plain')]
    held = statistics.mean(100 * run['results']['exits_held-out'][-1]['accuracy'] for run in plain)
    dev = statistics.mean(score('SST-2', run['results']['exits'][-1]) for run in plain)
    rows = []
    for recipe in RECIPES[1:]:
        on_held, on_dev = (mean_curve(curves, 'SST-2', recipe, split) for split in ('held-out', 'eval'))
        seeds = sum((run['task'], run['recipe']) == ('SST-2', recipe) for run in all_runs)
        kept = [(layers, policy) for policy, (value, layers) in on_held.items()
                if kind_of(policy) == 'entropy' and value >= held - 0.5]
        if not kept:
            rows.append([f'`{recipe}`', seeds, 'none', '', '', '', ''])
            continue
        policy = min(kept)[1]
        value, layers = on_dev[policy]
        rows.append([f'`{recipe}`', seeds, f'`{policy}`', f'{on_held[policy][0]:.1f}', f'{value:.1f} ({value - dev:+.1f})',
                     f'{layers:.2f}', f'{12 / layers:.2f}×'])
    return (f'`plain` at full depth: {held:.1f} on the held-out rows, {dev:.1f} on dev.\n\n'
            + table(['recipe', 'seeds', 'policy', 'held-out', 'dev (against plain)', 'layers', 'fewer'], rows))


def curve_tables(curves):
    out = []
    for task in SMALL + SUBSETS:
        lines = collections.defaultdict(list)
        for recipe in RECIPES[1:]:
            for policy, (value, layers) in mean_curve(curves, task, recipe, 'eval').items():
                lines[kind_of(policy), recipe].append((layers, f'{value:.1f} at {layers:.1f}'))
        for kind in ('entropy', 'patience', 'window'):
            rows = [[f'`{recipe}`', ', '.join(text for _, text in sorted(points))]
                    for (found, recipe), points in lines.items() if found == kind]
            if rows:
                out.append(f'### {task}, {kind}\n' + table(['recipe', 'score at mean layers'], rows))
    return '\n\n'.join(out)


def static_table(all_runs):
    rows = []
    for task in ('elue-SST-2', 'elue-MRPC', 'elue-STS-B'):
        found = {run['layers']: score(task, run['results']['exits'][-1]) for run in all_runs if run['task'] == task}
        if found:
            rows.append([task] + [f'{found[layer]:.1f}' if layer in found else '' for layer in range(1, 13)])
    return table(['task', *map(str, range(1, 13))], rows) if rows else ''


def speed_table():
    files = sorted(RESULTS.glob('*-speed.json'))
    if not files:
        return ''
    found = json.loads(files[-1].read_text())
    rows = [[f"{row['batch']} × {row['tokens']}", f"{row['ours']['samples_per_second']:.0f}",
             f"{row['torch']['samples_per_second']:.0f}", f"{row['ratio']:.2f}×"] for row in found['rows']]
    return (f"BERT-base's shape on one {found['device']}, bf16, texts a second; the peer is a plain PyTorch "
            f"{found['rows'][0]['torch']['version']} loop (`benchmarks/peers/torch_training.py`). `real`: SST-2's lengths.\n\n"
            + table(['batch × tokens', 'ours', 'PyTorch', 'ratio'], rows))


def document():
    all_runs, curves = runs(), json.loads(CURVES.read_text())
    where = all_runs[0]['settings']['provenance']
    steps = sum(run['steps'] for run in all_runs)
    return f'''# Reproducing

Made by `benchmarks/reproducing.py` from the files under `benchmarks/results/train`; do not edit. {len(all_runs)} runs with {steps:,} steps of
gte-small (12 layers, 384 wide; a sentence encoder, pretrained without exits), LibTorch {where['torch']}, bf16 on an H200, under
`--preset reference`: the same batch, rate, schedule and optimiser for every recipe, so that recipes can be compared. The
papers' own settings are the recipes' defaults. Scores are on the dev sets, in percent, means over the seeds; one seed moves
RTE by two to three points, MRPC by one and a half, SST-2 by 0.7. SST-2 is trained without the {5000:,} rows that are held out.
Runs created before 12:44 took cuDNN's attention for texts of 64 and more tokens, the others the memory-efficient kernel; the
models cut short on STS-B started at 0 and not at the mean label.

```
exeunt prepare gte-small --task RTE --data glue_data --split train --out features/RTE-train.safetensors
benchmarks/grid --trainer build/bin/exeunt-train --model gte-small --features features
benchmarks/reproducing.py --curves build/bin/exeunt build/grid/traces && benchmarks/reproducing.py --docs
```

## Speed of training
{speed_table()}

## SST-2: a threshold chosen on held-out rows
The entropy that leaves earliest on the held-out training rows with at most half a point lost there, then read on dev.

{chosen_table(all_runs, curves)}

## Every exit
{exit_tables(all_runs)}

## Policies
Each point: score at the mean number of layers, over the thresholds of the files.

{curve_tables(curves)}

## Models cut short
`elasticbert-static --layers k` on ELUE's own data: what an early exit has to beat.

{static_table(all_runs)}
'''


def make_curves(exeunt, traces):
    out = []
    for run in runs():
        name = f"{run['task']}-{run['recipe']}{run['layers'] or ''}-{run['seed']}"
        if run['layers'] or run['recipe'] == 'plain':
            continue
        for path in sorted(traces.glob(f'{name}.*.safetensors')):
            policies = list(POLICIES)
            if run['task'] == 'STS-B':
                policies = ['patience:1|2|3|4|5|6|8,tol=0.1']
            line = [exeunt, 'sweep', path, '--json', '-q'] + [word for policy in policies for word in ('--policy', policy)]
            found = json.loads(subprocess.run([str(word) for word in line], check=True, capture_output=True, text=True).stdout)
            rows = [{'policy': row['policy'], 'score': round(score(run['task'], row), 3), 'layers': round(row['average_layers'], 4)}
                    for row in found['rows']]
            out.append({'task': run['task'], 'recipe': run['recipe'], 'seed': run['seed'], 'split': path.name.split('.')[1],
                        'rows': rows})
    CURVES.write_text('[\n' + ',\n'.join(json.dumps(curve) for curve in out) + '\n]\n')


def main():
    if sys.argv[1:2] == ['--curves'] and len(sys.argv) == 4:
        return make_curves(sys.argv[2], Path(sys.argv[3]))
    if sys.argv[1:] == ['--docs']:
        DOCS.write_text(document())
        return None
    if sys.argv[1:] == ['--check']:
        return None if DOCS.read_text() == document() else 'docs/reproducing.md is not what benchmarks/reproducing.py writes'
    return __doc__


if __name__ == '__main__':
    sys.exit(main())
