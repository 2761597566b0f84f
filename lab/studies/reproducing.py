#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the results of lab/studies/recipe_grid.py and lab/studies/recipe_trials.py into lab/notebooks/reproducing.md, and into what else is made of them.

    reproducing.py                          writes the tables and counts of lab/notebooks/reproducing.md and the figure beside them
    reproducing.py --check [PAGE]           fails if the page, the figure or the built-in baseline differ from the results
    reproducing.py --table NAME             prints one table (NAME: as its mark in the page)
    reproducing.py --scores FILE            writes the means over the seeds for `exeunt reproduce PAPER --task T --from FILE`
    reproducing.py --curves EXEUNT TRACES   replays policies over the grid's traces into lab/studies/results/curves.json,
                                            and the settings of the papers' own rules into papers.json beside it (runs
                                            without a trace keep the points they have)
    reproducing.py --replay EXEUNT TRACES   replays the papers' rules over the traces of `lab/studies/recipe_grid.py --settings papers` into
                                            paper-settings-replayed.json
    reproducing.py --pretraining OURS TORCH DEVICE
                                            log.jsonl of `exeunt pretrain` and what benchmarks/peers/torch_pretraining.py
                                            printed (or -), into pretraining.json; rates of both without the first 100 steps
    reproducing.py --clock MODEL FILE DEVICE [FILE DEVICE …]
                                            what `exeunt bench MODEL --task T --data D --policy P --json` printed on each
                                            device, into clock.json; MODEL and DEVICE: as the page calls them
    reproducing.py --baseline EXEUNT TRAINER MODEL FEATURES
                                            writes the built-in baseline of ELUE's score: quality from the models cut short,
                                            MFLOPs from the lengths of ELUE's dev sets (elue-TASK-dev.safetensors)
"""
import json
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from panels import panels
from result_tables import AS_IT_IS, SECTIONS, cut_short_remarks, cut_short_tables, fill_marks, first_difference, markdown, policy_tables
from stored import WHOLE_TASKS, Results, deviation, mean, scores
from suites import read_arrays, read_suite

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / 'lab/studies/results'
CURVES = RESULTS / 'curves.json'
PAPERS = RESULTS / 'papers.json'
OWN_REPLAYS = RESULTS / 'paper-settings-replayed.json'
PAGE = ROOT / 'lab/notebooks/reproducing.md'
OTHERS = (ROOT / 'README.md', ROOT / 'docs/attach.md', ROOT / 'lab/docs/pretraining.md')  # pages with a figure or two of these results
IMAGES = ROOT / 'docs/images'
BASELINE = ROOT / 'lab/elue/gte-small-static.json'
POLICIES = ('entropy:0.02|0.05|0.1|0.15|0.2|0.25|0.3|0.4|0.5', 'patience:1|2|3|4|5|6|8', 'window:0.1|0.2|0.3,4,bias_1')
# Recipes whose papers give scores at a speed, with the rules those papers used (lab/papers/reproduction.cc).
RULES = {'deebert': ('entropy:0|0.001|0.005|0.01|0.02|0.05|0.1|0.15|0.2|0.25|0.3|0.35|0.4|0.45|0.5|0.55|0.6|0.65|0.7|0.8|0.9|1',),
         'pabee': ('patience:1..11',),
         'elbert': ('window:0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9,8,bias_1', 'nentropy:0.2|0.4|0.6')}
# With the papers' own settings also RomeBERT's and ElasticBERT's; rules that wait for agreement once more over the late exits.
OWN_RULES = RULES | {'elbert': ('window:0.1|0.2|0.3|0.4|0.5|0.6|0.7|0.8|0.9,8,bias_1', 'window:0.1|0.3|0.5|0.7|0.9,4,bias_1',
                                'nentropy:0.2|0.4|0.6')}
OWN_RULES |= {name: RULES['deebert'] for name in ('deebert-sd', 'romebert', 'romebert-sd', 'elasticbert')}
LATE_RULES = {'pabee': ('patience:1..5',), 'elbert': ('window:0.1|0.3|0.5|0.7|0.9,4,bias_1',)}
LATE = range(7, 13)
RATED_FROM = 100  # the step of pretraining from which tokens are counted
METRICS = ('accuracy', 'f1', 'combined_score', 'matthews_correlation', 'pearson', 'spearmanr')
SCORE = {'MRPC': 'combined_score', 'QQP': 'combined_score', 'STS-B': 'combined_score', 'CoLA': 'matthews_correlation'}


def read_json_of(line):
    done = subprocess.run([str(word) for word in line], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


# Each method with the rule of its paper; STS-B has no classes, so patience serves all of them there.
METHODS = {'DeeBERT': ('deebert', 'entropy:'), 'PABEE': ('pabee', 'patience:'), 'ElasticBERT': ('elasticbert', 'entropy:'),
           'RomeBERT': ('romebert', 'entropy:'), 'ELBERT': ('elbert', 'window:'), 'exeunt train': ('exeunt', 'entropy:')}
SHOWN_BELOW = 12  # points below full depth


def method_lines(results, task):
    """{name: [(layers, score, spread)]} of all methods: the papers', ours trained with readers, ours attached, full depth alone."""
    lines = {}
    for name, (recipe, rule) in METHODS.items():
        rule = 'patience:' if task == 'STS-B' else rule
        curve = results.curve(task, recipe, 'eval') | results.paper_curve(task, recipe)
        points = {policy: points for policy, points in curve.items() if policy.startswith(rule)}
        seeds = max((len(one) for one in points.values()), default=0)
        if points:
            lines[f"{name}, {rule[:-1]}{'' if seeds > 1 else ' (one seed)'}"] = [spread_point(one) for one in points.values()]
    plain = scores(task, [run['results']['exits'][-1] for run in results.of(task, 'plain')])
    lines['no exits, full depth'] = [(layers, mean(plain), deviation(plain) or 0) for layers in (1, 12)]
    attached = [(run['seed'], 100 * run['apart']['dev'][which]['accuracy'], run['apart']['dev'][which]['average_layers'])
                for which in ('early', 'full') for run in results.attach('command', task=task, recipe='plain', variant=AS_IT_IS) if 'apart' in run]
    if attached:
        half = len(attached) // 2
        lines['exeunt attach at 2 % and at full depth'] = [spread_point(attached[:half]), spread_point(attached[half:])]
    return lines


def spread_point(points):
    """(mean layers, mean score, its standard deviation) of one setting's (seed, score, layers)."""
    _, found, layers = zip(*points)
    return mean(layers), mean(found), deviation(found) or 0


def method_figure(results, task):
    lines = method_lines(results, task)
    floor = min(y for _, y, _ in lines['no exits, full depth']) - SHOWN_BELOW
    return panels({f'{task}: score on dev over the mean number of layers': lines},
                  'gte-small, settings shared by all recipes; band: standard deviation over the seeds', (760, 380), floor)


def figures(results):
    """{file: its text}"""
    return {IMAGES / 'romebert-curves.svg': rome_figure(results)} | {
        IMAGES / f'methods-{task.lower()}.svg': method_figure(results, task) for task in WHOLE_TASKS}


def rome_figure(results):
    """DeeBERT, DeeBERT with distillation and RomeBERT on six tasks, as RomeBERT's paper compares them."""
    found = {one['title']: one['numbers'] for one in policy_tables(results)}
    return panels({task: {recipe: found[f'{task}, entropy'][recipe] for recipe in ('deebert', 'deebert-sd', 'romebert')}
                   for task in ('RTE', 'MRPC', 'SST-2', 'QNLI', 'QQP', 'MNLI')}, 'score over the mean number of layers, entropy')


def cut_short(results):
    """{task: scores of the models with the first 1, 2 … layers alone, on ELUE's own data}"""
    (one,) = cut_short_tables(results)
    return one['numbers']


def mean_metrics(rows):
    """Means over the seeds of every metric that the rows have."""
    return {name: mean(row[name] for row in rows if row.get(name) is not None)
            for name in METRICS if any(row.get(name) is not None for row in rows)}


def grouped(pairs):
    groups = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def mean_replays(replays, task, recipe):
    """Each policy's means over the seeds, of replays with every metric."""
    found = grouped((row['policy'], row) for replay in replays if (replay['task'], replay['recipe']) == (task, recipe)
                    and replay.get('exits', 'all') == 'all' for row in replay['rows'])
    return [{'policy': policy, 'layers': mean(row['layers'] for row in rows), **mean_metrics([row['metrics'] for row in rows])}
            for policy, rows in found.items()]


def mean_settings(results, task, recipe):
    """The settings of the paper's rule with every metric, then those of the curves, which have the task's first one alone."""
    out = mean_replays(results.papers, task, recipe)
    found = {row['policy'] for row in out}
    return out + [{'policy': policy, 'layers': layers, SCORE.get(task, 'accuracy'): score / 100}
                  for policy, score, layers in results.mean_curve(task, recipe, 'eval') if policy not in found]


# What a recipe has where its file says nothing (exeunt/recipes/recipe.h); None: nothing.
STAGE = {'train': 'all', 'lr': 2e-5, 'batch': 32, 'epochs': 3, 'warmup': 0, 'weight_decay': 0, 'clip': 1, 'head_lr': 1, 'layer_lr': 1,
         'label_smoothing': 0, 'eval_every': 0, 'early_stop': None, 'keep_best': None}
HEADS = {'reader': None, 'pooler': 'own', 'classifier': 'own', 'pool_input': 'cls', 'inner': None, 'lte': False, 'init': 'normal'}
COMPAT = {'adamw': 'hf', 'dyn_grad': 'accumulate', 'clip_scope': 'all', 'kd_kl_reduction': 'element', 'gr_exclude_last': 'generic',
          'frozen': 'eval'}
PAPER_RUN = {'precision': 'fp32', 'max_length': 128, 'accumulation': 1, 'world': 1, 'max_steps': 0, 'adam_epsilon': 1e-8}  # of every paper's


def other_values(paper, own, absent):
    """['batch 32, not 8', …]: the fields of `absent` that `own` has another value of than `paper`, which may have one for each case."""
    def text(value):
        return f'{value:g}' if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value).lower()
    out = []
    for name, default in absent.items():
        wanted, got = paper.get(name, default), own.get(name, default)
        wanted = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
        got = got.get('default') if isinstance(got, dict) else got
        got = None if got == 'none' else got  # both are written
        if got not in wanted:
            out.append(f'{name} {text(got)}, not {text(wanted[0])}')
    return out


def differs(recipe, settings):
    """What a run did other than its paper's recipe says."""
    path = ROOT / f'recipes/{recipe}.json'
    if 'stages' not in settings or not path.exists():
        return []
    paper, out = json.loads(path.read_text(encoding='utf-8')), []
    out += other_values(paper.get('heads', {}), {**paper.get('heads', {}), **settings.get('heads', {})}, HEADS)
    out += other_values(paper, settings, {'exits': 'all'})
    out += other_values(paper.get('gradient', {}), settings.get('gradient', paper.get('gradient', {})), {'rule': None})
    for stage, own in zip(paper['stages'], settings['stages'], strict=False):
        objective = {'objective' if name == 'kind' else name: value for name, value in own['objective'].items()}
        wanted = {'objective' if name == 'kind' else name: value for name, value in stage['objective'].items()}
        out += other_values(wanted, objective, dict.fromkeys(wanted)) if 'objective' in wanted else []  # else one for each case
        out += other_values(stage, {'train': stage.get('train', 'all'), **own}, STAGE)
    # A field that says nothing about the recipe, or that runs of an earlier version did not write yet, is left out.
    means = {'dyn_grad': any(stage['objective'].get('kind') == 'learned' for stage in paper['stages']),
             'frozen': any(stage.get('train') == 'exits' for stage in paper['stages'])}
    compat = {name: value for name, value in settings.get('compat', {}).items() if means.get(name, True)}
    out += other_values(paper.get('compat', {}), {**COMPAT, **paper.get('compat', {}), **compat}, COMPAT)
    run = settings.get('run', {})
    out += other_values(PAPER_RUN, run, PAPER_RUN)
    if run.get('warmup_steps', -1) >= 0:
        out.append(f"{run['warmup_steps']:g} warm-up steps, not a share")
    if run.get('window', 0) > 0:
        out.append(f"batches of like lengths out of {run['window']} at a time, not of any")
    return list(dict.fromkeys(out))


def mean_scores(results):
    """One entry for each recipe on each task, the papers' own settings first and models cut short before whole ones, in the
    format of `exeunt reproduce --from`. Recipes with readers are nobody's paper."""
    out = [mean_score(key, runs, mean_replays(results.own_replays, key[1], key[2]))
           for key, runs in sorted(grouped_runs(results.own).items()) if not key[2].endswith('-readers')]
    return {'format': 'exeunt.scores/1', 'results': out + [
        mean_score(key, runs, mean_settings(results, key[1], key[2]) if key[0] else [])
        for key, runs in sorted(grouped_runs(results.runs).items())]}


def grouped_runs(runs):
    return grouped(((not run['layers'], run['task'], run['recipe']), run) for run in runs)


def mean_score(key, runs, settings):
    whole, task, recipe = key
    exits = grouped((exit['layer'], exit) for run in runs for exit in run['results']['exits'])
    train_rows = {run['results'].get('train_samples') for run in runs}
    return {'task': task.replace('elue-', 'elue/'), 'recipe': recipe, 'cut_short': not whole,
            'backbone': ' and '.join(sorted({run['backbone'] for run in runs})),
            'seeds': len({run['seed'] for run in runs}),
            'train_rows': train_rows.pop() if len(train_rows) == 1 else None,
            'exits': [{'layer': layer, **mean_metrics(rows)} for layer, rows in sorted(exits.items())],
            'differs': list(dict.fromkeys(text for run in runs for text in differs(recipe, run.get('settings', {})))),
            'settings': settings}


def replayed(exeunt, path, policies, exits=()):
    line = [exeunt, 'sweep', path, '--json', '-q'] + (['--exits', ','.join(map(str, exits))] if exits else [])
    line += [word for policy in policies for word in ('--policy', policy)]
    return read_json_of(line)['rows']


def make_curves(exeunt, traces):
    def rows_of(run, path):
        policies = ['patience:1|2|3|4|5|6|8,tol=0.1'] if run['task'] == 'STS-B' else POLICIES
        score = SCORE.get(run['task'], 'accuracy')
        return [{'policy': row['policy'], 'score': round(100 * row[score], 3), 'layers': round(row['average_layers'], 4)}
                for row in replayed(exeunt, path, policies)]
    replay(CURVES, traces, lambda run: run['recipe'] != 'plain', rows_of)


def whole_rows(exeunt, path, task, rules, exits=()):
    """Settings with every metric, as fractions."""
    policies = [rule + (',tol=0.1' if task == 'STS-B' else '') for rule in rules]
    return [{'policy': row['policy'], 'layers': round(row['average_layers'], 4),
             'metrics': {name: round(row[name], 6) for name in METRICS if row.get(name) is not None}}
            for row in replayed(exeunt, path, policies, exits)]


def make_papers(exeunt, traces):
    """On regression only rules that look at equal answers have a meaning."""
    def rows_of(run, path):
        return whole_rows(exeunt, path, run['task'], RULES[run['recipe']])
    replay(PAPERS, traces,
           lambda run: run['recipe'] in RULES and (run['task'] != 'STS-B' or run['recipe'] == 'pabee'), rows_of,
           splits=('eval',))


def make_own_replays(exeunt, traces):
    """The papers' rules over the traces of the papers' settings; runs without a trace keep the points they have."""
    out, known = [], json.loads(OWN_REPLAYS.read_text()) if OWN_REPLAYS.exists() else []
    for run in read_suite(RESULTS / 'paper-settings.jsonl'):
        recipe, key = run['recipe'].removesuffix('-readers'), {name: run[name] for name in ('task', 'recipe', 'seed')}
        path = traces / f"{'-'.join(map(str, key.values()))}.eval.safetensors"
        if recipe not in OWN_RULES or (run['task'] == 'STS-B' and recipe != 'pabee'):
            continue
        if not path.exists():
            out += [replay for replay in known if all(replay[name] == value for name, value in key.items())]
            continue
        out.append(key | {'exits': 'all', 'rows': whole_rows(exeunt, path, run['task'], OWN_RULES[recipe])})
        if recipe in LATE_RULES:
            out.append(key | {'exits': f'{LATE[0]} to {LATE[-1]}',
                              'rows': whole_rows(exeunt, path, run['task'], LATE_RULES[recipe], LATE)})
    OWN_REPLAYS.write_text('[\n' + ',\n'.join(json.dumps(one) for one in out) + '\n]\n')


def make_pretraining(ours, torch, device):
    """Of both the tokens a second from step 100 on, behind most of what is recorded or compiled. `torch`: - = not run."""
    def lines_of(path):
        return [line for line in map(json.loads, Path(path).read_text().splitlines()) if 'token_losses' in line]

    def side(lines, seconds):
        """`seconds`: at which each line was written, whenever the clock began."""
        (first,) = [i for i, line in enumerate(lines) if line['step'] == RATED_FROM]
        rate = (lines[-1]['tokens'] - lines[first]['tokens']) / (seconds[-1] - seconds[first])
        return {'tokens_per_second': rate, 'lines': [
            {name: line[name] for name in ('step', 'tokens', 'token_losses', 'order_losses')} for line in lines]}
    mine, seconds = lines_of(ours), [0.0]
    for line, before in zip(mine[1:], mine):  # each has the rate since the one before
        seconds.append(seconds[-1] + (line['tokens'] - before['tokens']) / line['tokens_per_second'])
    out = {'device': device, 'shape': '12 layers, hidden size 384', 'batch': '256 rows of 128 tokens', 'ours': side(mine, seconds)}
    if torch != '-':
        theirs = lines_of(torch)  # each has the rate since the first
        seconds = [0.0] + [(line['tokens'] - theirs[0]['tokens']) / line['tokens_per_second'] for line in theirs[1:]]
        out['torch'] = {'version': theirs[-1]['torch'], **side(theirs, seconds)}
    (RESULTS / 'pretraining.json').write_text(json.dumps(out, indent=1) + '\n')


def make_clock(model, *pairs):
    # Without `batch`, as earlier versions printed it, all texts waited together.
    devices = [{'device': device, 'batch': times['texts'], **times} for path, device in zip(pairs[::2], pairs[1::2], strict=True)
               for times in json.loads(Path(path).read_text())['policies']]
    (RESULTS / 'clock.json').write_text(json.dumps({'model': model, 'runs': devices}, indent=1) + '\n')


def replay(place, traces, wanted, rows_of, splits=('eval', 'held-out')):
    """One line for each trace of a whole model that is wanted."""
    out = []
    known = json.loads(place.read_text()) if place.exists() else []
    for run in Results(RESULTS).runs:
        if run['layers'] or not wanted(run):
            continue
        same = ('task', 'recipe', 'seed')
        paths = [traces / f"{'-'.join(str(run[key]) for key in same)}.{split}.safetensors" for split in splits]
        if not any(path.exists() for path in paths):
            out += [curve for curve in known if all(curve[key] == run[key] for key in same)]
        out += [{**{key: run[key] for key in same}, 'split': path.name.split('.')[1], 'rows': rows_of(run, path)}
                for path in paths if path.exists()]
    place.write_text('[\n' + ',\n'.join(json.dumps(curve) for curve in out) + '\n]\n')


def cut_short_costs(exeunt, folder, path):
    """MFLOPs of the first 1, 2 … layers with one exit, over the texts of a feature file: a model with a head at every layer
    costs, up to the first, what a layer and all else cost."""
    _, arrays = read_arrays(path)
    offsets = struct.unpack(f'<{len(arrays["offsets"]) // 8}q', arrays['offsets'])
    counts = Counter(last - first for first, last in zip(offsets, offsets[1:]))
    costs = []
    for tokens, texts in counts.items():
        found = read_json_of([exeunt, 'info', folder, '--tokens', tokens, '--json', '-q'])['model']
        layer, first = found['layer_mflops'], found['exits'][0]['mflops']
        costs.append([texts * (first + layer * more) for more in range(found['layers'])])
    return [sum(column) / sum(counts.values()) for column in zip(*costs)]


def make_baseline(exeunt, trainer, model, features):
    tasks = {}
    for task, scores in cut_short(Results(RESULTS)).items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([trainer, 'train', '--recipe', 'elasticbert', '--model', model, '--out', folder, '--train-features',
                            f'{features}/elue-{task}-dev.safetensors', '--max-steps', '1', '--batch', '2', '--overwrite',
                            '--save-every', '0', '-q'], check=True, capture_output=True)
            costs = cut_short_costs(exeunt, folder, Path(features) / f'elue-{task}-dev.safetensors')
        tasks[task] = [{'mflops': round(cost, 3), 'performance': round(score, 3)} for score, cost in zip(scores, costs, strict=True)]
    config = json.loads((Path(model) / 'config.json').read_text())
    shape = {'layers': config['num_hidden_layers'], 'hidden': config['hidden_size'], 'heads': config['num_attention_heads'],
             'inner': config['intermediate_size']}
    lines = [f'  {json.dumps(task)}: [\n   ' + ',\n   '.join(map(json.dumps, points)) + ']' for task, points in tasks.items()]
    BASELINE.write_text('{"format": "exeunt.elue_baseline/1", "source": "gte-small-static",\n "shape": ' + json.dumps(shape)
                        + ',\n "remarks": ' + json.dumps(cut_short_remarks(Results(RESULTS)))
                        + ',\n "tasks": {\n' + ',\n'.join(lines) + '}}\n')


def check(pages):
    results = Results(RESULTS)
    for page in pages:
        text = page.read_text(encoding='utf-8')
        if different := first_difference(text, fill_marks(text, page, results)):
            return '{}:{}: got {!r}, want {!r}; lab/studies/reproducing.py writes it'.format(page, *different)
    for path, drawn in figures(results).items():
        if not path.exists() or path.read_text() != drawn:
            return f'{path.name} is not what the results say; lab/studies/reproducing.py draws it anew'
    baseline, scores = json.loads(BASELINE.read_text()), cut_short(results)
    if baseline.get('remarks', {}) != cut_short_remarks(results):
        return f'{BASELINE.name}: its remarks are not those of the runs; lab/studies/reproducing.py --baseline writes it anew'
    for task in baseline['tasks'] | scores:
        given = [point['performance'] for point in baseline['tasks'].get(task, [])]
        if given != [round(score, 3) for score in scores.get(task, [])]:
            return f'{BASELINE.name}: {task} is not what the runs reached; lab/studies/reproducing.py --baseline writes it anew'
    return None


def write_page():
    results = Results(RESULTS)
    for page in (PAGE, *OTHERS):
        page.write_text(fill_marks(page.read_text(encoding='utf-8'), page, results), encoding='utf-8')
    for path, drawn in figures(results).items():
        path.write_text(drawn)


def main():
    mode, *words = sys.argv[1:] or ['']
    if not mode:
        return write_page()
    if mode == '--check' and len(words) <= 1:
        return check([Path(words[0])] if words else (PAGE, *OTHERS))
    if mode == '--table' and len(words) == 1 and words[0] in SECTIONS:
        return print(markdown(SECTIONS[words[0]](Results(RESULTS))), end='')
    if mode == '--scores' and len(words) == 1:
        Path(words[0]).write_text(json.dumps(mean_scores(Results(RESULTS)), indent=1) + '\n', encoding='utf-8')
        return None
    if mode == '--curves' and len(words) == 2:
        make_curves(words[0], Path(words[1]))
        return make_papers(words[0], Path(words[1]))
    if mode == '--replay' and len(words) == 2:
        return make_own_replays(words[0], Path(words[1]))
    if mode == '--pretraining' and len(words) == 3:
        return make_pretraining(*words)
    if mode == '--clock' and len(words) >= 3 and len(words) % 2 == 1:
        return make_clock(*words)
    if mode == '--baseline' and len(words) == 4:
        return make_baseline(*words)
    return __doc__ + f"\ntables: {', '.join(SECTIONS)}"


if __name__ == '__main__':
    sys.exit(main())
