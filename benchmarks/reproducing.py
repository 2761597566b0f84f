#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/reproducing.md from the runs of benchmarks/grid.

    reproducing.py --curves EXEUNT TRACES   replays policies over the grid's traces into benchmarks/results/train/curves.json
                                            (runs without a trace keep what the file says of them)
    reproducing.py --baseline EXEUNT TRAINER MODEL FEATURES DATA
                                            writes the built-in baseline of ELUE's score: quality from the models cut short,
                                            MFLOPs from ELUE's dev sets below DATA
    reproducing.py --docs                   writes docs/reproducing.md from the results
    reproducing.py --check                  fails if docs/reproducing.md or the baseline do not say what the results say
"""
import collections
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from panels import panels

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks/results/train'
GRID, CURVES = RESULTS / 'grid', RESULTS / 'curves.json'
DOCS = ROOT / 'docs/reproducing.md'
FIGURE = ROOT / 'docs/images/romebert-curves.svg'
BASELINE = ROOT / 'exeunt/eval/gte-small-static.json'
TRIALS, OBJECTIVES, REFERENCE = RESULTS / 'trials', RESULTS / 'objectives', RESULTS / 'reference.json'
WATCHED, ATTENTION = RESULTS / 'pabee-watched.json', RESULTS / 'attention.json'
SMALL = ('RTE', 'MRPC', 'CoLA', 'STS-B', 'SST-2')
ELUE = ('SST-2', 'MRPC', 'STS-B')
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


def reference_table(all_runs):
    """Our means beside one seed of a plain PyTorch loop on the same backbone and settings, cell by cell."""
    cells, rows, gaps = json.loads(REFERENCE.read_text()), [], {}
    for cell in cells:
        found = [score(cell['task'], exit_) for run in all_runs for exit_ in run['results']['exits']
                 if (run['task'], run['recipe'], run['layers'], exit_['layer']) == (cell['task'], cell['recipe'], 0, cell['layer'])]
        if found:
            gaps[cell['task'], cell['recipe'], cell['layer']] = (statistics.mean(found), cell['score'])
    places = sorted({(task, layer) for task, _, layer in gaps}, key=lambda place: (SMALL.index(place[0]), place[1]))
    for recipe in RECIPES:
        row = [gaps.get((task, recipe, layer)) for task, layer in places]
        if any(row):
            rows.append([f'`{recipe}`'] + [f'{pair[0]:.1f} ({pair[0] - pair[1]:+.1f})' if pair else '' for pair in row])
    mean = statistics.mean(ours - given for ours, given in gaps.values())
    return (f'Over all {len(gaps)} cells the mean difference is {mean:+.2f}.\n\n'
            + table(['recipe', *(f'{task} L{layer}' for task, layer in places)], rows))


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


def cut_short(all_runs, task):
    """{layers: score} of the models with the first layers alone, on ELUE's own data."""
    return {run['layers']: score(task, run['results']['exits'][-1]) for run in all_runs if run['task'] == f'elue-{task}'}


def rome_figure(curves):
    """DeeBERT, DeeBERT with distillation and RomeBERT on six tasks, as RomeBERT's paper compares them."""
    charts = {}
    for task in ('RTE', 'MRPC', 'SST-2', 'QNLI', 'QQP', 'MNLI'):
        lines = {}
        for recipe in ('deebert', 'deebert-sd', 'romebert'):
            found = mean_curve(curves, task, recipe, 'eval')
            lines[recipe] = [(layers, value) for policy, (value, layers) in found.items() if kind_of(policy) == 'entropy']
        if all(lines.values()):
            charts[task] = lines
    return panels(charts, 'score over the mean number of layers, entropy')


def static_table(all_runs):
    rows = []
    for task in ELUE:
        found = cut_short(all_runs, task)
        if found:
            rows.append([task] + [f'{found[layer]:.1f}' if layer in found else '' for layer in range(1, 13)])
    return table(['task', *map(str, range(1, 13))], rows) if rows else ''


def trials():
    """{change: {task: [scores of the exits, a list per seed]}}"""
    out = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(TRIALS.glob('*.json')):
        run = json.loads(path.read_text())
        out[run['change']][run['task']].append([score(run['task'], exit_) for exit_ in run['exits']])
    return out


def trials_table():
    """Last exit and mean over all exits, and what both gain on average over the tasks against the objective `sum`."""
    found = {change: {task: seeds for task, seeds in tasks.items() if len(seeds) == 3} for change, tasks in trials().items()}
    found = {change: tasks for change, tasks in found.items() if len(tasks) == 2}
    if not found:
        return ''
    last = {change: {task: statistics.mean(seed[-1] for seed in seeds) for task, seeds in tasks.items()}
            for change, tasks in found.items()}
    mean = {change: {task: statistics.mean(statistics.mean(seed) for seed in seeds) for task, seeds in tasks.items()}
            for change, tasks in found.items()}

    def gain(of, change):
        return statistics.mean(of[change][task] - of['sum'][task] for task in of[change])
    rows = []
    for change in sorted(found, key=lambda change: (change != 'sum', -gain(last, change))):
        rows.append([change] + [f'{of[change][task]:.1f}' for task in ('MRPC', 'RTE') for of in (last, mean)]
                    + [f'{gain(of, change):+.1f}' for of in (last, mean)])
    return table(['change', 'MRPC, last exit', 'all exits', 'RTE, last exit', 'all exits', 'gain, last exit', 'all exits'], rows)


def objectives_table(all_runs):
    """`exeunt` with `sum` and with `linear` on every task's dev set: last exit, and mean over all exits."""
    kept = [json.loads(path.read_text()) for path in sorted(OBJECTIVES.glob('*.json'))]
    rows = []
    for task in SMALL:
        row = [task]
        for kind in ('sum', 'linear'):
            found = [run for run in all_runs + kept if (run['task'], run['recipe']) == (task, 'exeunt')
                     and run['settings']['stages'][0]['objective']['kind'] == kind]
            exits = [[score(task, exit_) for exit_ in run['results']['exits']] for run in found]
            row += [shown(seed[-1] for seed in exits), shown(statistics.mean(seed) for seed in exits)]
        rows.append(row)
    return table(['task', '`sum`, last exit', 'all exits', '`linear`, last exit', 'all exits'], rows)


def watched_table():
    """Exit 6 of pabee on SST-2 while it learns."""
    found = json.loads(WATCHED.read_text())
    steps = [step for step, _ in found[0]['curve']][4::2]
    rows = [[run['seed']] + [f'{100 * dict((step, exits) for step, exits in run["curve"])[step][5]:.1f}' for step in steps]
            for run in found]
    return table(['seed', *(f'step {step}' for step in steps)], rows)


def attention_table():
    groups = collections.defaultdict(list)
    for run in json.loads(ATTENTION.read_text()):
        name = "cuDNN's" if run['attention'] == 'cudnn' else 'memory-efficient'
        groups[name, 'one graph a step' if run['graphs'] else 'operation by operation', f"{run['recipe']}, seed {run['seed']}"].append(run)
    rows = [[*key, len(found), sum(not run['ended'] for run in found), ', '.join(run['error'] for run in found if run['error'])]
            for key, found in sorted(groups.items())]
    return table(['attention', 'launched as', 'run', 'times', 'ended in NaN', 'where'], rows)


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
Runs created before 12:44 took cuDNN's attention for texts of 64 and more tokens, the others the memory-efficient kernel.

```
exeunt prepare gte-small --task RTE --data glue_data --split train --out features/RTE-train.safetensors
benchmarks/grid --trainer build/bin/exeunt-train --model gte-small --features features
benchmarks/reproducing.py --curves build/bin/exeunt build/grid/traces && benchmarks/reproducing.py --docs
```
`exeunt reproduce --from results` prints the tables of exits, policies and models cut short from the same files, and `exeunt
reproduce romebert --task RTE --from results` a paper's published figures beside them. Without `--from` it trains and
measures with the paper's own settings.

## Speed of training
{speed_table()}

## SST-2: a threshold chosen on held-out rows
The entropy that leaves earliest on the held-out training rows with at most half a point lost there, then read on dev.

{chosen_table(all_runs, curves)}

## Beside plain PyTorch
In brackets: the difference to one seed of a plain PyTorch loop with the same backbone, data and settings
(`benchmarks/results/train/reference.json`).

{reference_table(all_runs)}

## Every exit
{exit_tables(all_runs)}

## RomeBERT's comparison
![Six charts: score over the mean number of layers](images/romebert-curves.svg)

## Policies
Each point: score at the mean number of layers, over the thresholds of the files.

{curve_tables(curves)}

## Models cut short
`elasticbert-static --layers k` on ELUE's own data: what an early exit has to beat. `exeunt sweep --elue` scores models of this
shape against these (`gte-small-static`, with the MFLOPs of ELUE's dev sets).

{static_table(all_runs)}

## What was tried to make `exeunt` better
On training rows that were held out, three seeds with other rows each (`benchmarks/trials`), so that dev sets choose nothing.
Changes are made to the recipe with the objective `sum` and heads at 5 times the rate; `heads`: another factor; `layers`: the
rate of a layer over that of the one above it; `distill`: γ, temperature and teacher (the last exit; the next exit; `by rows`:
the KL divided by rows alone); `elasticbert`: no reader and heads at the plain rate. `gate`: the pooler reads
(1 − g) ∘ h_0 + g ∘ r in place of [h_0 ; r], g = σ(20 w + b) learned for each exit and column, b = 0 or, from row 0, −2 (folded
into the pooler afterwards; its code is not kept).

{trials_table()}

`linear` gains at the last exit of both tasks, loses over all exits of neither, and costs nothing, so it became the recipe's
objective for training sets like these two (fewer than 5,000 pairs of texts). `batch 16` on top of it takes twice the steps. A
gate that starts at row 0 is as good on RTE at the last exit and worse at the early ones. Distillation with much weight, slower
lower layers and more epochs harm. Why it is for such sets alone, from the dev sets:

{objectives_table(all_runs)}

## Two things that looked like faults
`pabee` at layer 6 of SST-2 is far below the plain loop's one seed, and not because rows are held out. The same recipe on all
67,349 rows, exit 6 on dev: the CLS row of that layer says nothing about the label until it suddenly does, at a step that
depends on the seed; where that comes when the rate is nearly 0 again, it is too late.

{watched_table()}

Two early runs on MRPC ended in a loss that was no number. Repeated, they do so under cuDNN's attention, at another step each
time and without CUDA graphs, too, and never under the memory-efficient kernel, which is the one in use.

{attention_table()}
'''


def make_curves(exeunt, traces):
    out = []
    known = json.loads(CURVES.read_text()) if CURVES.exists() else []
    for run in runs():
        name = f"{run['task']}-{run['recipe']}{run['layers'] or ''}-{run['seed']}"
        if run['layers'] or run['recipe'] == 'plain':
            continue
        paths = sorted(traces.glob(f'{name}.*.safetensors'))
        if not paths:
            same = ('task', 'recipe', 'seed')
            out += [curve for curve in known if all(curve[key] == run[key] for key in same)]
        for path in paths:
            policies = list(POLICIES)
            if run['task'] == 'STS-B':
                policies = ['patience:1|2|3|4|5|6|8,tol=0.1']
            line = [exeunt, 'sweep', path, '--json', '-q'] + [word for policy in policies for word in ('--policy', policy)]
            found = read_json_of(line)
            rows = [{'policy': row['policy'], 'score': round(score(run['task'], row), 3), 'layers': round(row['average_layers'], 4)}
                    for row in found['rows']]
            out.append({'task': run['task'], 'recipe': run['recipe'], 'seed': run['seed'], 'split': path.name.split('.')[1],
                        'rows': rows})
    CURVES.write_text('[\n' + ',\n'.join(json.dumps(curve) for curve in out) + '\n]\n')


def read_json_of(line):
    done = subprocess.run([str(word) for word in line], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def make_baseline(exeunt, trainer, model, features, data):
    """A model with a head at every layer, asked at layer k alone, costs what one of k layers costs."""
    all_runs, tasks = runs(), {}
    for task in ELUE:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([trainer, 'train', '--recipe', 'elasticbert', '--model', model, '--out', folder, '--train-features',
                            f'{features}/elue-{task}-train.safetensors', '--max-steps', '1', '--batch', '2', '--overwrite',
                            '--save-every', '0', '-q'], check=True, capture_output=True)
            found = read_json_of([exeunt, 'sweep', folder, '--task', f'elue/{task}', '--data', data, '--policy',
                                  'layer:' + '|'.join(map(str, range(1, 13))), '--json', '-q'])
        scores = cut_short(all_runs, task)
        tasks[task] = [{'mflops': round(row['mflops'], 3), 'performance': round(scores[layer], 3)}
                       for layer, row in enumerate(found['rows'], 1)]
    config = json.loads((Path(model) / 'config.json').read_text())
    shape = {'layers': config['num_hidden_layers'], 'hidden': config['hidden_size'], 'heads': config['num_attention_heads'],
             'inner': config['intermediate_size']}
    lines = [f'  {json.dumps(task)}: [\n   ' + ',\n   '.join(map(json.dumps, points)) + ']' for task, points in tasks.items()]
    BASELINE.write_text('{"format": "exeunt.elue_baseline/1", "source": "gte-small-static",\n "shape": ' + json.dumps(shape)
                        + ',\n "tasks": {\n' + ',\n'.join(lines) + '}}\n')


def check():
    if DOCS.read_text() != document() or FIGURE.read_text() != rome_figure(json.loads(CURVES.read_text())):
        return 'docs/reproducing.md or its figure is not what benchmarks/reproducing.py writes'
    all_runs = runs()
    for task, points in json.loads(BASELINE.read_text())['tasks'].items():
        scores = cut_short(all_runs, task)
        if [point['performance'] for point in points] != [round(scores[layer], 3) for layer in range(1, len(points) + 1)]:
            return f'{BASELINE.name}: {task} is not what the runs reached; benchmarks/reproducing.py --baseline writes it anew'
    return None


def main():
    if sys.argv[1:2] == ['--curves'] and len(sys.argv) == 4:
        return make_curves(sys.argv[2], Path(sys.argv[3]))
    if sys.argv[1:] == ['--docs']:
        DOCS.write_text(document())
        FIGURE.write_text(rome_figure(json.loads(CURVES.read_text())))
        return None
    if sys.argv[1:2] == ['--baseline'] and len(sys.argv) == 7:
        return make_baseline(*sys.argv[2:])
    if sys.argv[1:] == ['--check']:
        return check()
    return __doc__


if __name__ == '__main__':
    sys.exit(main())
