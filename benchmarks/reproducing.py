#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is made from the runs of benchmarks/grid by way of `exeunt`, which makes the tables of docs/reproducing.md itself
(`exeunt reproduce --from results --page docs/reproducing.md`).

    reproducing.py --curves EXEUNT TRACES   replays policies over the grid's traces into benchmarks/results/train/curves.json,
                                            and the settings of the papers' own rules into papers.json beside it (runs
                                            without a trace keep what the files say of them)
    reproducing.py --baseline EXEUNT TRAINER MODEL FEATURES DATA
                                            writes the built-in baseline of ELUE's score: quality from the models cut short,
                                            MFLOPs from ELUE's dev sets below DATA
    reproducing.py --figure EXEUNT          draws docs/images/romebert-curves.svg
    reproducing.py --check EXEUNT           fails if the figure or the baseline do not say what the results say
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from panels import panels

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks/results/train'
CURVES = RESULTS / 'curves.json'
PAPERS = RESULTS / 'papers.json'
FIGURE = ROOT / 'docs/images/romebert-curves.svg'
BASELINE = ROOT / 'exeunt/eval/gte-small-static.json'
POLICIES = ('entropy:0.02|0.05|0.1|0.15|0.2|0.25|0.3|0.4|0.5', 'patience:1|2|3|4|5|6|8', 'window:0.1|0.2|0.3,4,bias_1')
# Recipes whose papers give scores at a speed, with the rules those papers used (exeunt/eval/reproduction.cc).
RULES = {'deebert': ('entropy:0|0.001|0.005|0.01|0.02|0.05|0.1|0.15|0.2|0.25|0.3|0.35|0.4|0.45|0.5|0.55|0.6|0.65|0.7|0.8|0.9|1',),
         'pabee': ('patience:1..11',),
         'elbert': ('window:0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9,8,bias_1', 'nentropy:0.2|0.4|0.6')}
METRICS = ('accuracy', 'f1', 'combined_score', 'matthews_correlation', 'pearson', 'spearmanr')
SCORE = {'MRPC': 'combined_score', 'QQP': 'combined_score', 'STS-B': 'combined_score', 'CoLA': 'matthews_correlation'}


def read_json_of(line):
    done = subprocess.run([str(word) for word in line], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def tables(exeunt, name):
    """{title: {row: numbers of its cells}} of one kind of table."""
    found = read_json_of([exeunt, 'reproduce', '--from', RESULTS, '--table', name, '--json'])['tables']
    return {table['title']: {texts[0].strip('`'): numbers[1:] for texts, numbers in zip(table['rows'], table['numbers'])}
            for table in found}


def cut_short(exeunt):
    """{task: scores of the models with the first 1, 2 … layers alone, on ELUE's own data}"""
    (found,) = tables(exeunt, 'cut-short').values()
    return {task: [score for cell in cells for score in cell] for task, cells in found.items()}


def rome_figure(exeunt):
    """DeeBERT, DeeBERT with distillation and RomeBERT on six tasks, as RomeBERT's paper compares them."""
    charts, found = {}, tables(exeunt, 'policies')
    for task in ('RTE', 'MRPC', 'SST-2', 'QNLI', 'QQP', 'MNLI'):
        lines = found[f'{task}, entropy']
        points = {recipe: lines[recipe][0] for recipe in ('deebert', 'deebert-sd', 'romebert')}
        charts[task] = {recipe: list(zip(values[1::2], values[::2])) for recipe, values in points.items()}
    return panels(charts, 'score over the mean number of layers, entropy')


def replayed(exeunt, path, policies):
    line = [exeunt, 'sweep', path, '--json', '-q'] + [word for policy in policies for word in ('--policy', policy)]
    return read_json_of(line)['rows']


def make_curves(exeunt, traces):
    def rows_of(run, path):
        policies = ['patience:1|2|3|4|5|6|8,tol=0.1'] if run['task'] == 'STS-B' else POLICIES
        score = SCORE.get(run['task'], 'accuracy')
        return [{'policy': row['policy'], 'score': round(100 * row[score], 3), 'layers': round(row['average_layers'], 4)}
                for row in replayed(exeunt, path, policies)]
    replay(CURVES, traces, lambda run: run['recipe'] != 'plain', rows_of)


def make_papers(exeunt, traces):
    """Every metric, as fractions; on regression only rules that look at equal answers have a meaning."""
    def rows_of(run, path):
        policies = [rule + (',tol=0.1' if run['task'] == 'STS-B' else '') for rule in RULES[run['recipe']]]
        return [{'policy': row['policy'], 'layers': round(row['average_layers'], 4),
                 'metrics': {name: round(row[name], 6) for name in METRICS if row.get(name) is not None}}
                for row in replayed(exeunt, path, policies)]
    replay(PAPERS, traces,
           lambda run: run['recipe'] in RULES and (run['task'] != 'STS-B' or run['recipe'] == 'pabee'), rows_of,
           splits=('eval',))


def replay(place, traces, wanted, rows_of, splits=('eval', 'held-out')):
    """One line for each trace of a whole model that is wanted."""
    out = []
    known = json.loads(place.read_text()) if place.exists() else []
    for run in (json.loads(path.read_text()) for path in sorted((RESULTS / 'grid').glob('*.json'))):
        if run['layers'] or not wanted(run):
            continue
        same = ('task', 'recipe', 'seed')
        paths = [traces / f"{'-'.join(str(run[key]) for key in same)}.{split}.safetensors" for split in splits]
        if not any(path.exists() for path in paths):
            out += [curve for curve in known if all(curve[key] == run[key] for key in same)]
        out += [{**{key: run[key] for key in same}, 'split': path.name.split('.')[1], 'rows': rows_of(run, path)}
                for path in paths if path.exists()]
    place.write_text('[\n' + ',\n'.join(json.dumps(curve) for curve in out) + '\n]\n')


def make_baseline(exeunt, trainer, model, features, data):
    """A model with a head at every layer, asked at layer k alone, costs what one of k layers costs."""
    tasks = {}
    for task, scores in cut_short(exeunt).items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([trainer, 'train', '--recipe', 'elasticbert', '--model', model, '--out', folder, '--train-features',
                            f'{features}/elue-{task}-train.safetensors', '--max-steps', '1', '--batch', '2', '--overwrite',
                            '--save-every', '0', '-q'], check=True, capture_output=True)
            found = read_json_of([exeunt, 'sweep', folder, '--task', f'elue/{task}', '--data', data, '--policy',
                                  'layer:' + '|'.join(map(str, range(1, 13))), '--json', '-q'])
        tasks[task] = [{'mflops': round(row['mflops'], 3), 'performance': round(score, 3)}
                       for score, row in zip(scores, found['rows'], strict=True)]
    config = json.loads((Path(model) / 'config.json').read_text())
    shape = {'layers': config['num_hidden_layers'], 'hidden': config['hidden_size'], 'heads': config['num_attention_heads'],
             'inner': config['intermediate_size']}
    lines = [f'  {json.dumps(task)}: [\n   ' + ',\n   '.join(map(json.dumps, points)) + ']' for task, points in tasks.items()]
    BASELINE.write_text('{"format": "exeunt.elue_baseline/1", "source": "gte-small-static",\n "shape": ' + json.dumps(shape)
                        + ',\n "tasks": {\n' + ',\n'.join(lines) + '}}\n')


def check(exeunt):
    if FIGURE.read_text() != rome_figure(exeunt):
        return f'{FIGURE.name} is not what the results say; benchmarks/reproducing.py --figure draws it anew'
    baseline, scores = json.loads(BASELINE.read_text())['tasks'], cut_short(exeunt)
    for task in baseline | scores:
        given = [point['performance'] for point in baseline.get(task, [])]
        if given != [round(score, 3) for score in scores.get(task, [])]:
            return f'{BASELINE.name}: {task} is not what the runs reached; benchmarks/reproducing.py --baseline writes it anew'
    return None


def main():
    if sys.argv[1:2] == ['--curves'] and len(sys.argv) == 4:
        make_curves(sys.argv[2], Path(sys.argv[3]))
        return make_papers(sys.argv[2], Path(sys.argv[3]))
    if sys.argv[1:2] == ['--baseline'] and len(sys.argv) == 7:
        return make_baseline(*sys.argv[2:])
    if sys.argv[1:2] == ['--figure'] and len(sys.argv) == 3:
        FIGURE.write_text(rome_figure(sys.argv[2]))
        return None
    if sys.argv[1:2] == ['--check'] and len(sys.argv) == 3:
        return check(sys.argv[2])
    return __doc__


if __name__ == '__main__':
    sys.exit(main())
