# SPDX-License-Identifier: Apache-2.0
"""Every table of lab/notebooks/reproducing.md, and the counts in its sentences, from a folder of results (lab/studies/results).

A table is {'title', 'remark', 'header', 'rows'}; a row's first cell is its name, every cell a text. `numbers` holds what the
cells were rounded from, for those who draw or write them elsewhere. A function returns [] if the folder lacks the files
its tables are made of.
"""
import json

import study_tables
import verdict_tables
from stored import LAYERS, MEASURES, WHOLE_TASKS, Results, mean, score, scores, table, with_spread  # noqa: F401 (Results: for callers)

SUBSET_TASKS = ('QNLI', 'MNLI', 'QQP')  # trained on a subset of the training rows
RECIPES = ('plain', 'deebert', 'deebert-sd', 'pabee', 'elasticbert', 'romebert-sd', 'romebert', 'elbert', 'elbert-equal', 'berxit',
           'exeunt')
ELUE_ROWS = {'SST-2': 8544, 'MRPC': 3668, 'STS-B': 5749, 'IMDb': 20000, 'SNLI': 549367}  # to train on, in its tasks' own files
OTHER_ROWS = {'IMDb': "other rows for training and dev than ELUE's"}  # as many of the same 25,000
SST2_TRAIN_ROWS = 67349
STEPS = '../../../benchmarks/results/cuda'  # from the folder of results
HELD_OUT_LOSS = 0.5  # points that a threshold may lose on held-out rows
TRIAL_TASKS, TRIAL_SEEDS, BASELINE = ('MRPC', 'RTE'), 3, 'sum'  # of lab/studies/recipe_trials.py; `sum` is the recipe unchanged
CLAIMS = {'pabee': ('patience',), 'elbert': ('window',)}  # rules said to be faster and better than full depth
READER_CLAIMS = [rule for rules in CLAIMS.values() for rule in rules]
REAL_SPEEDUP = 1.2  # the least that counts as faster
OWN_PAPERS = ('deebert', 'romebert', 'romebert-sd', 'pabee', 'pabee-readers', 'elasticbert', 'elbert', 'elbert-readers')
WATCHED_PRETRAINING, PRETRAINING_STRIDE = (1, 6, 12), 100  # exits and steps that are shown
WATCHED_EXIT, FIRST_WATCHED, WATCHED_STRIDE = 6, 4, 2


def speed_tables(results):
    """Of steps as `train` runs them; what earlier code took is not shown."""
    files = sorted((results.folder / STEPS).glob('*-train-step.jsonl'))
    if not files:
        return []
    head, *runs = map(json.loads, files[-1].read_text(encoding='utf-8').splitlines())  # names begin with the date
    best = {}
    for run in runs:
        of = best.setdefault((run['shape'], f"{run['batch']} × {run['tokens']}"), {})
        of[run['what']] = max(of.get(run['what'], 0), run['samples_per_second'])
    rows = [[*case, *(f'{of[what]:,.0f}' if what in of else '' for what in ('recorded', 'plain', 'torch'))] for case, of in best.items()]
    return [table(['shape', 'batch × tokens', 'ours', 'ours, not recorded', 'PyTorch, eager'], rows, remark=(
        f"Texts a second on one {head['gpu']}, bf16, best of all rounds. The peer (`benchmarks/peers/torch_training.py`) is not compiled, "
        'so there is no ratio.'))]


def chosen_tables(results):
    plain = [run['results'] for run in results.of('SST-2', 'plain') if run['results'].get('exits_held-out')]
    held, dev = (scores('SST-2', [found[name][-1] for found in plain]) for name in ('exits_held-out', 'exits'))
    if not held or not results.curves:
        return []
    remark = f'`plain` at full depth: {with_spread(held)} on the held-out rows, {with_spread(dev)} on dev.'
    held, dev, rows = mean(held), mean(dev), []
    for recipe in RECIPES[1:]:
        row = [f'`{recipe}`', str(len(results.of('SST-2', recipe)))]
        on_dev, on_held = (results.curve('SST-2', recipe, split) for split in ('eval', 'held-out'))
        fit = [(layers, policy, value) for policy, value, layers in results.mean_curve('SST-2', recipe, 'held-out')
               if policy.startswith('entropy:') and value >= held - HELD_OUT_LOSS]
        _, policy, _ = min(fit, default=(0, '', 0))
        if policy in on_dev:
            _, read, layers = zip(*on_dev[policy])
            row += [f'`{policy}`', with_spread([point[1] for point in on_held[policy]]), f'{with_spread(read)} ({mean(read) - dev:+.1f})',
                    with_spread(layers, 2), f'{LAYERS / mean(layers):.2f}×']
        else:
            row += ['none', '', '', '', '']
        rows.append(row)
    return [table(['recipe', 'seeds', 'policy', 'held-out', 'dev (against plain)', 'layers', 'speed-up'], rows, remark=remark)]


def beside_tables(results):
    gaps = {}
    for cell in results.reference:
        ours = scores(cell['task'], [exit for run in results.of(cell['task'], cell['recipe']) for exit in run['results']['exits']
                                     if exit['layer'] == cell['layer']])
        if ours:
            place = WHOLE_TASKS.index(cell['task']), cell['layer']
            gaps[RECIPES.index(cell['recipe']), place] = with_spread(ours), mean(ours) - cell['score']
    if not gaps:
        return []
    places = sorted({place for _, place in gaps})
    rows = [[f'`{RECIPES[recipe]}`'] + ['{} ({:+.1f})'.format(*gaps[recipe, place]) if (recipe, place) in gaps else ''
                                       for place in places] for recipe in sorted({recipe for recipe, _ in gaps})]
    return [table(['recipe'] + [f'{WHOLE_TASKS[task]} L{layer}' for task, layer in places], rows,
                  remark=f'Over all {len(gaps)} cells the mean difference is {mean(gap for _, gap in gaps.values()):+.2f}.')]


def layer_cells(at):
    return [with_spread(at[layer]) if layer in at else '' for layer in range(1, LAYERS + 1)]


def measure_names(task):
    return "Matthews' correlation" if task == 'CoLA' else ' and '.join(MEASURES.get(task, ('accuracy',)))


def exit_rows(task, recipes, runs_of):
    """A row for each recipe with runs on the task: the means of its exits."""
    rows = []
    for recipe in recipes:
        runs, at = runs_of(recipe), {}
        for exit in (exit for run in runs for exit in run['results']['exits']):
            at.setdefault(exit['layer'], []).extend(scores(task, [exit]))
        if runs:
            rows.append([recipe_name(recipe), str(len(runs))] + layer_cells(at))
    return rows


def recipe_name(recipe):
    """As the page calls it: `pabee-readers` is no recipe but `pabee` with readers."""
    name, dash, readers = recipe.partition('-readers')
    return f'`{name}`{", readers" if dash and not readers else ""}'


def exit_tables(results):
    tables = []
    for task in WHOLE_TASKS + SUBSET_TASKS:
        rows = exit_rows(task, RECIPES, lambda recipe, task=task: results.of(task, recipe))
        if rows:
            tables.append(table(['recipe', 'seeds'] + [str(layer) for layer in range(1, LAYERS + 1)], rows,
                                f"{task}: {measure_names(task)}{', a subset of the training rows' if task in SUBSET_TASKS else ''}"
                                f"{', matched (no dev file of MNLI-mm is here)' if task == 'MNLI' else ''}"))
    return tables


def own_tables(results):
    """Every exit of the recipes trained with their papers' own settings."""
    tables = []
    for task in WHOLE_TASKS:
        recipes = [recipe for name in RECIPES for recipe in (name, f'{name}-readers')]
        rows = exit_rows(task, recipes, lambda recipe, task=task: results.own_of(task, recipe))
        if rows:
            tables.append(table(['recipe', 'seeds'] + [str(layer) for layer in range(1, LAYERS + 1)], rows,
                                f"{task}, the papers' settings: {measure_names(task)}"))
    return tables


def claims_of(results):
    """For each recipe and choice of exits whose last exit was scored: ((task, recipe, exits), the last exit's scores, the fastest
    setting that is not worse, the best setting), a setting being (policy, scores, layers); None where no setting is as good."""
    out = []
    for task, recipe, exits in dict.fromkeys((one['task'], one['recipe'], one['exits']) for one in results.own_replays):
        last = scores(task, [run['results']['exits'][-1] for run in results.own_of(task, recipe)])
        for rule in CLAIMS.get(recipe.removesuffix('-readers'), ()):
            settings = settings_of(results.own_curve(task, recipe, exits), rule)
            if last and settings:
                out.append(((task, recipe, exits), last, *fastest_and_best(settings, mean(last))))
    return out


def settings_of(curve, rule):
    """[(policy, scores, mean layers)] of one rule."""
    return [(policy, [value for _, value, _ in points], mean(layers for *_, layers in points))
            for policy, points in curve.items() if policy.startswith(f'{rule}:')]


def fastest_and_best(settings, last):
    good = [setting for setting in settings if mean(setting[1]) >= last - 1e-9 and setting[2] < LAYERS - 1e-9]
    return min(good, key=lambda one: one[2], default=None), max(settings, key=lambda one: (mean(one[1]), -one[2]))


CLAIM_COLUMNS = ['full depth', 'fastest setting not below it', 'score', 'speed-up', 'best setting']


def claim_cells(last, fastest, best):
    quick = [f'`{fastest[0]}`', with_spread(fastest[1]), f'{LAYERS / fastest[2]:.2f}×'] if fastest else ['none', '', '']
    return [with_spread(last), *quick, f'{with_spread(best[1])} at {LAYERS / best[2]:.2f}×']


def claim_tables(results):
    order = {task: place for place, task in enumerate(WHOLE_TASKS)}
    rows = [[task, recipe_name(recipe), exits, *claim_cells(*found)]
            for (task, recipe, exits), *found in sorted(claims_of(results), key=lambda one: (order[one[0][0]], one[0]))]
    return [table(['task', 'recipe', 'exits', *CLAIM_COLUMNS], rows)] if rows else []


def reader_claims_of(results):
    """The same rules over `exeunt`, whose exits have readers, with the settings that all recipes were compared with."""
    out = []
    for task in WHOLE_TASKS:
        last = scores(task, [run['results']['exits'][-1] for run in results.of(task, 'exeunt')])
        for rule in READER_CLAIMS:
            settings = settings_of(results.curve(task, 'exeunt', 'eval'), rule)
            if last and settings:
                out.append((task, rule, last, *fastest_and_best(settings, mean(last))))
    return out


def reader_claim_tables(results):
    rows = [[task, rule, *claim_cells(*found)] for task, rule, *found in reader_claims_of(results)]
    return [table(['task', 'rule', *CLAIM_COLUMNS], rows)] if rows else []


def reader_claims_phrase(results):
    parts = []
    for rule in READER_CLAIMS:
        found = [fastest for _, its_rule, _, fastest, _ in reader_claims_of(results) if its_rule == rule]
        good = sum(fastest is not None and LAYERS / fastest[2] >= REAL_SPEEDUP for fastest in found)
        parts += [f'{good} of {len(found)} tasks with {rule}'] if found else []
    return ' and '.join(parts)


def claims_phrase(results):
    """In how many cases the papers' rules are as good as full depth at a real speed-up: all exits, late exits, readers."""
    def share(wanted):
        cases = [fastest for key, _, fastest, _ in claims_of(results) if wanted(key)]
        good = sum(fastest is not None and LAYERS / fastest[2] >= REAL_SPEEDUP for fastest in cases)
        return f'{good} of {len(cases)}'

    def readers(key):
        return key[1].endswith('-readers')
    if not results.own_replays:
        return ''
    return (f"{share(lambda key: not readers(key) and key[2] == 'all')} cases over all exits, "
            f"{share(lambda key: not readers(key) and key[2] != 'all')} over late exits and {share(readers)} over readers")


def policy_tables(results):
    tables = []
    for task in WHOLE_TASKS + SUBSET_TASKS:
        for rule in ('entropy', 'patience', 'window'):
            numbers = {}
            for recipe in RECIPES:
                points = [(layers, f'{with_spread(values)} at {layers:.1f}', mean(values))
                          for _, values, layers in settings_of(results.curve(task, recipe, 'eval'), rule)]
                if points:
                    numbers[recipe] = sorted(points)
            rows = [[f'`{recipe}`', ', '.join(text for _, text, _ in points)] for recipe, points in numbers.items()]
            if rows:
                tables.append(table(['recipe', 'score at mean layers'], rows, f'{task}, {rule}', numbers={
                    recipe: [(layers, value) for layers, _, value in points] for recipe, points in numbers.items()}))
    return tables


def cut_short_remarks(results):
    """{task: how the data of its truncated models differ from ELUE's}"""
    out = {}
    for run in results.runs:
        task, rows = run['task'].removeprefix('elue-'), run['results'].get('train_samples')
        if run['layers'] and rows and rows < ELUE_ROWS[task]:
            out[task] = f'{rows:,} of {ELUE_ROWS[task]:,} training rows'
        elif run['layers'] and task in OTHER_ROWS:
            out[task] = OTHER_ROWS[task]
    return out


def cut_short_tables(results):
    found = {task: {run['layers']: scores(task, run['results']['exits'][-1:]) for run in results.runs
                    if run['task'] == f'elue-{task}'} for task in ELUE_ROWS}
    remarks, rows = cut_short_remarks(results), []
    for task, at in found.items():
        name = f'{task}, {remarks[task]}' if task in remarks else task
        rows.append([name] + (layer_cells(at) if at else ['not run yet'] + [''] * (LAYERS - 1)))
    rows.append(['SciTail', 'no training data here'] + [''] * (LAYERS - 1))
    numbers = {task: [at[layer][0] for layer in sorted(at)] for task, at in found.items() if len(at) == LAYERS}
    return [table(['task'] + [str(layer) for layer in range(1, LAYERS + 1)], rows, numbers=numbers)]


def pretraining_tables(results):
    """Losses of some exits over tokens, beside the torch.compile loop's where it was run, and how many tokens a second."""
    found = results.read('pretraining.json')
    if not found:
        return []
    exits, rows = [layer for layer in WATCHED_PRETRAINING if layer <= len(found['ours']['lines'][0]['token_losses'])], []
    theirs = {line['step']: line for line in found['torch']['lines']} if 'torch' in found else {}
    for line in found['ours']['lines']:
        both = [line] + ([theirs[line['step']]] if line['step'] in theirs else [])
        if line['step'] % PRETRAINING_STRIDE == 0 and len(both) == 1 + ('torch' in found):
            rows.append([str(line['step']), ' / '.join(f"{one['tokens'] / 1e6:.1f}" for one in both)] + [
                ' / '.join(f'{one[kind][layer - 1]:.2f}' for one in both) for kind in ('token_losses', 'order_losses') for layer in exits])
    ours = found['ours']['tokens_per_second']
    what = f"{found['shape']} from scratch on {found['device']}, bf16, {found['batch']}"
    remark = f'{what}: {ours / 1e3:,.0f} thousand tokens a second, padding not counted'
    if 'torch' in found:
        torch = found['torch']['tokens_per_second']
        remark = (f"Ours / a torch.compile loop (PyTorch {found['torch']['version']}), {remark}, against {torch / 1e3:,.0f}: "
                  f'{ours / torch:.2f} times as many')
    header = ['step', 'million tokens'] + [f'{name}, exit {layer}' for name in ('masked tokens', 'order') for layer in exits]
    return [table(header, rows, remark=remark + '.')]


def clock_tables(results):
    """Policies run by the clock beside their layers, on every device and for every number of texts at a time."""
    found = results.read('clock.json')
    if not found:
        return []
    rows = [[f"{run['device']}, {run['precision']}", str(run['batch']), f"`{row['policy']}`", f"{row['average_layers']:.2f}",
             f"{row['layers_speedup']:.2f}×", f"{row['ms']:.3f}", f"{row['clock_speedup']:.2f}×"]
            for run in found['runs'] for row in [run['full'], *run['rows']]]
    header = ['on', 'texts at a time', 'policy', 'layers', 'speed-up in layers', 'ms per text', 'speed-up by the clock']
    return [table(header, rows, remark=f"{found['model']}.")]


def trial_tables(results):
    changes = {}
    for run in results.trials:
        reached = scores(run['task'], run['exits'])
        changes.setdefault(run['change'], {}).setdefault(run['task'], []).append((reached[-1], mean(reached)))
    seeds = {change: [values for task in TRIAL_TASKS for values in zip(*of[task])] for change, of in changes.items()
             if all(len(of.get(task, ())) == TRIAL_SEEDS for task in TRIAL_TASKS)}  # last exit and all exits of each task
    whole = {change: [mean(values) for values in columns] for change, columns in seeds.items()}
    if not whole:
        return []
    if BASELINE not in whole:
        raise SystemExit(f'{results.folder}/trials.jsonl: got no change {BASELINE!r} with {TRIAL_SEEDS} seeds on each of '
                         f"{' and '.join(TRIAL_TASKS)}, want what the others are compared with")
    against = whole[BASELINE]

    def gain(change, which):
        return mean(whole[change][i] - against[i] for i in range(which, len(against), 2))
    order = sorted(whole, key=lambda change: (change != BASELINE, -gain(change, 0)))
    rows = [[change] + [with_spread(values) for values in seeds[change]] + [f'{gain(change, which):+.1f}' for which in (0, 1)]
            for change in order]
    return [table(['change', 'MRPC, last exit', 'all exits', 'RTE, last exit', 'all exits', 'gain, last exit', 'all exits'], rows)]


def objective_tables(results):
    if not results.objectives:
        return []
    rows = []
    for task in WHOLE_TASKS:
        row = [task]
        for objective in ('sum', 'linear'):
            runs = [scores(task, run['results']['exits']) for run in results.runs + results.objectives
                    if (run['task'], run['recipe']) == (task, 'exeunt') and objective_of(run) == objective]
            row += [with_spread([reached[-1] for reached in runs]), with_spread([mean(reached) for reached in runs])]
        rows.append(row)
    return [table(['task', '`sum`, last exit', 'all exits', '`linear`, last exit', 'all exits'], rows)]


def objective_of(run):
    stages = run.get('settings', {}).get('stages')
    return stages[0]['objective']['kind'] if stages else None


def watched_tables(results):
    if not results.watched:
        return []
    steps = [step for step, _ in results.watched[0]['curve']]
    if any([step for step, _ in run['curve']] != steps for run in results.watched):
        raise SystemExit(f'{results.folder}/pabee-watched.json: the seeds were evaluated at different steps')
    shown = range(FIRST_WATCHED, len(steps), WATCHED_STRIDE)
    rows = [[str(run['seed'])] + [f"{100 * run['curve'][i][1][WATCHED_EXIT - 1]:.1f}" for i in shown] for run in results.watched]
    return [table(['seed'] + [f'step {steps[i]}' for i in shown], rows)]


FIRST_SEEDS = (42, 43, 44)  # from which the rate for values and many labels was read
AS_IT_IS, DEFAULT_RATE = 'as it is', 'default rate'  # a rate of 1e-3; and the higher one where that became the default
HIGH_RATE_TASKS = ('STS-B', 'BANKING77', 'CLINC150')
ATTACH_TASKS = ('SST-2', 'MRPC', 'RTE', 'CoLA', 'STS-B', 'BANKING77', 'CLINC150', 'SMS-Spam', 'feedback')


def attached_tables(results):
    """What `exeunt attach` certified: layers and changed answers on rows that chose nothing."""
    rows = []
    for task in ATTACH_TASKS:
        runs = (results.attach('command', task=task, recipe='plain', variant=DEFAULT_RATE)
                or results.attach('command', task=task, recipe='plain', variant=AS_IT_IS))
        if runs:
            rows.append([task, str(len(runs)), str(int(mean(run['texts']['learned'] for run in runs)))] + [
                f"{with_spread([run['points'][i]['layers'] for run in runs], 2)} ({with_spread([100 * run['points'][i]['risk'] for run in runs])} %)"
                for i in range(3)])
    return [table(['task', 'seeds', 'texts learned', 'layers at 1 % (changed)', '2 %', '5 %'], rows)] if rows else []


def apart_runs(results):
    return [run for run in results.attach('command', task='SST-2', recipe='plain', variant=AS_IT_IS) if 'apart' in run]


def changed_on_dev(run):
    return 1 - run['apart']['dev']['early']['agreement']


def apart_tables(results):
    """SST-2, 2 % certified on rows that share no four words in a row with a learned text."""
    runs = apart_runs(results)

    def cells(some):
        def of(get, digits=2):
            return with_spread([get(run) for run in some], digits)
        return [of(lambda run: run['apart']['layers']), of(lambda run: 100 * run['apart']['risk']),
                of(lambda run: run['apart']['dev']['early']['average_layers']), of(lambda run: 100 * changed_on_dev(run)),
                of(lambda run: 100 * run['apart']['dev']['full']['accuracy'], 1),
                of(lambda run: 100 * run['apart']['dev']['early']['accuracy'], 1)]
    header = ['seed', 'layers of 12', 'changed, %', 'layers on dev', 'changed on dev, %', 'accuracy on dev, full depth', 'early']
    return [table(header, [[str(run['seed'])] + cells([run]) for run in runs] + [['mean'] + cells(runs)])] if runs else []


def attach_demo_tables(results):
    """examples/feedback with MiniLM: attached exits beside jointly trained ones, 2 % on certify.csv."""
    rows, gains = [], {'plain': [], 'exeunt': []}
    for seed in sorted({run['seed'] for run in results.attach('command', task='feedback')}):
        found = {'plain': results.attach('command', task='feedback', recipe='plain', seed=seed, variant=AS_IT_IS),
                 'exeunt': results.attach('command', task='feedback', recipe='exeunt', seed=seed, variant='joint')}
        for recipe, runs in found.items():
            gains[recipe] += [run['certify.csv']['fewer layers'] for run in runs]
        rows.append([str(seed)] + [''.join(f"{run['certify.csv']['fewer layers']:.2f}×" for run in found[recipe]) or '–' for recipe in gains])
    if not rows:
        return []
    rows.append(['mean'] + [f'{with_spread(values, 2)}×' if values else '–' for values in gains.values()])
    header = ['seed', 'fewer layers, attached to `plain`', 'jointly trained by `exeunt`']
    columns = len(header) if gains['exeunt'] else len(header) - 1
    return [table(header[:columns], [row[:columns] for row in rows])]


def layers_of(results, **wanted):
    """{(task, seed): layers at the three budgets} of heads learned on a GPU."""
    return {(run['task'], run['seed']): [point['layers'] for point in run['points']] for run in results.attach('heads', **wanted)}


def attach_trial_tables(results):
    """Each change beside the default, over the pairs of task and seed that have both."""
    base = layers_of(results, recipe='plain', variant=AS_IT_IS)
    changes = {run['variant']: layers_of(results, recipe='plain', variant=run['variant'])
               for run in results.attach('heads', recipe='plain') if run['variant'] != AS_IT_IS}
    changes['exits trained jointly by `exeunt`'] = layers_of(results, recipe='exeunt', variant='joint')
    changes['`exeunt`, then imitation'] = layers_of(results, recipe='exeunt', variant=AS_IT_IS)
    rows = []
    for name, found in changes.items():
        pairs = [key for key in found if key in base]
        if not pairs:
            continue
        tasks, cells = len({task for task, _ in pairs}), []
        for i in range(3):
            cells.append(gains_text([100 * (found[key][i] / base[key][i] - 1) for key in pairs]))
        rows.append((mean(100 * (found[key][1] / base[key][1] - 1) for key in pairs), [name, str(tasks), str(len(pairs))] + cells))
    rows = [row for _, row in sorted(rows)]
    return [table(['change', 'tasks', 'pairs', 'layers at 1 %, in percent', '2 %', '5 %'], rows)] if rows else []


def gains_text(gains):
    """Mean of some percentages, with its standard error."""
    spread = (mean((gain - mean(gains)) ** 2 for gain in gains) / max(1, len(gains) - 1)) ** 0.5
    return f'{mean(gains):+.1f} ± {spread:.1f}' if len(gains) > 1 else f'{mean(gains):+.1f}'


def attach_fresh_tables(results):
    """The higher rate beside 1e-3, on seeds that the rule about it was not read from."""
    base, high = (layers_of(results, recipe='plain', variant=name) for name in (AS_IT_IS, 'lr 3e-3'))
    rows = []
    for task in ATTACH_TASKS:
        keys = [key for key in high if key in base and key[0] == task and key[1] not in FIRST_SEEDS]
        if keys:
            rows.append([task, ', '.join(str(seed) for _, seed in sorted(keys))] + [
                gains_text([100 * (high[key][i] / base[key][i] - 1) for key in keys]) for i in range(3)])
    return [table(['task', 'seeds', 'layers at 1 %, in percent', '2 %', '5 %'], rows)] if rows else []


def attach_stage_tables(results):
    """Recipe `exeunt` with a last stage of imitation beside joint training alone, on rows that were not trained on."""
    found = {}
    for run in results.attach('stage'):
        found.setdefault(run['variant'], {})[run['task'], run['seed']] = [point['layers'] for point in run['points']]
    joint, rows = found.pop('joint', {}), []

    def gain(some, keys, i):
        return gains_text([100 * (some[key][i] / joint[key][i] - 1) for key in keys])
    for name, some in found.items():
        for task in (None, *ATTACH_TASKS):
            keys = [key for key in some if key in joint and task in (None, key[0])]
            if keys:
                rows.append([name if task is None else '', task or 'all', str(len(keys))] + [gain(some, keys, i) for i in range(3)])
    return [table(['last stage', 'task', 'runs', 'layers at 1 %, in percent', '2 %', '5 %'], rows)] if rows else []


def attach_task_tables(results):
    """The same by task, at 2 %: means over the seeds."""
    base, joint, after = (layers_of(results, recipe=recipe, variant=variant)
                          for recipe, variant in (('plain', AS_IT_IS), ('exeunt', 'joint'), ('exeunt', AS_IT_IS)))
    changes = {name: layers_of(results, recipe='plain', variant=name) for name in ('lr 3e-4', 'lr 3e-3', 'temperature 2', 'both')}
    rows = []
    for task in ATTACH_TASKS:
        seeds = [key for key in base if key[0] == task]
        seeds = [key for key in seeds if key in joint] or seeds  # the same ones in all columns

        def layers(found):
            return with_spread([found[key][1] for key in seeds], 2) if seeds and all(key in found for key in seeds) else '–'

        def gain(found):
            both = [key for key in seeds if key in found]
            return gains_text([100 * (found[key][1] / base[key][1] - 1) for key in both]) if both else '–'
        if seeds:
            rows.append([task, str(len(seeds)), layers(base)] + [gain(found) for found in changes.values()] + [layers(joint), layers(after)])
    header = ['task', 'seeds', 'layers', *(f'{name}, %' for name in changes), 'layers, `exeunt`', '`exeunt`, then imitation']
    return [table(header, rows)] if rows else []


def attention_tables(results):
    groups = {}
    for run in results.attention:
        key = ({'cudnn': "cuDNN's", 'efficient': 'memory-efficient'}[run['attention']],
               'one CUDA graph per step' if run['graphs'] else 'individual operations', f"{run['recipe']}, seed {run['seed']}")
        groups.setdefault(key, []).append(run)
    rows = [[*key, str(len(runs)), str(sum(not run['ended'] for run in runs)),
             ', '.join(run['error'] for run in runs if run.get('error'))] for key, runs in sorted(groups.items())]
    return [table(['attention', 'launched as', 'run', 'times', 'ended in NaN', 'where'], rows)] if rows else []


SECTIONS = {'verdicts': verdict_tables.verdict_tables, 'speed': speed_tables, 'own-settings': own_tables, 'claims': claim_tables, 'claims-readers': reader_claim_tables, 'pretraining': pretraining_tables, 'clock': clock_tables, 'chosen': chosen_tables, 'beside': beside_tables, 'exits': exit_tables,
            'policies': policy_tables, 'cut-short': cut_short_tables, 'tried': trial_tables, 'objectives': objective_tables,
            'watched': watched_tables, 'attention': attention_tables,
            'study': lambda results: study_tables.default_tables(results, table),
            'study-typed': lambda results: study_tables.typed_tables(results, table),
            'study-time': lambda results: study_tables.time_tables(results, table),
            'study-cpu': lambda results: study_tables.cpu_tables(results, table),
            'study-changes': lambda results: study_tables.change_tables(results, table),
            'study-settings': lambda results: study_tables.setting_tables(results, table),
            'attached': attached_tables, 'attach-apart': apart_tables, 'attach-demo': attach_demo_tables,
            'attach-tried': attach_trial_tables, 'attach-by-task': attach_task_tables, 'attach-fresh': attach_fresh_tables,
            'attach-stage': attach_stage_tables}


def markdown(tables):
    def text(one):
        lines = [one['header'], ['---'] * len(one['header'])] + one['rows']
        return (f"### {one['title']}\n" if one['title'] else '') + (f"{one['remark']}\n\n" if one['remark'] else '') + ''.join(
            f"| {' | '.join(cells)} |\n" for cells in lines)
    return '\n'.join(map(text, tables))


def runs_phrase(results):
    return f"{len(results.runs)} runs with {sum(run['steps'] for run in results.runs):,} steps"


def own_runs_phrase(results):
    return f"{len(results.own)} runs with {sum(run['steps'] for run in results.own):,} steps" if results.own else ''


def own_missing_phrase(results):
    """What there is less of than three seeds, on the tasks on which every paper's settings are to be seen."""
    parts = []
    for recipe in OWN_PAPERS:
        seeds = {task: len({run['seed'] for run in results.own if (run['task'], run['recipe']) == (task, recipe)})
                 for task in ('RTE', 'MRPC', 'SST-2')}
        parts += [f'{task} of {recipe_name(recipe)} ({count} of 3)' for task, count in seeds.items() if count < 3]
    return 'seeds are missing on ' + ', '.join(parts) if parts else 'none of three seeds is missing on RTE, MRPC and SST-2'


def torch_phrase(results):
    versions = {run.get('settings', {}).get('provenance', {}).get('torch') for run in results.runs} - {None, ''}
    return f"LibTorch {' and '.join(sorted(versions))}" if versions else ''


def seeds_phrase(results):
    """How far the best and the worst seed are apart at the last exit, on average over the recipes with several seeds."""
    parts = []
    for task in WHOLE_TASKS:
        reached = [scores(task, [run['results']['exits'][-1] for run in results.of(task, recipe) if run['results']['exits']])
                   for recipe in RECIPES]
        spreads = [max(values) - min(values) for values in reached if len(values) > 1]
        if spreads:
            parts.append(f'{mean(spreads):.1f} on {task}')
    return ', '.join(parts)


def held_out_phrase(results):
    counts = {run['results']['train_samples'] for run in results.runs if run['task'] == 'SST-2' and 'train_samples' in run['results']}
    if len(counts) > 1:
        raise SystemExit(f'{results.folder}/grid.jsonl: got runs of SST-2 on {sorted(counts)} rows, want one number of rows')
    return f'{SST2_TRAIN_ROWS - counts.pop():,}' if counts else ''


def cudnn_phrase(results):
    """Which runs were trained with cuDNN's attention kernel for long texts."""
    groups = {}
    for run in results.runs:
        groups.setdefault('truncated models' if run['layers'] else run['task'], []).append(run['attention'] == 'cudnn')
    parts = [f'{name}: {sum(used)} of {len(used)}' for name, used in sorted(groups.items()) if any(used)]
    return f"{sum(map(sum, groups.values()))} of the {len(results.runs)} runs ({', '.join(parts)})"


def watched_phrase(results):
    rows = {run['rows'] for run in results.watched}
    return f'{rows.pop():,}' if len(rows) == 1 else ''


def apart_layers_phrase(results):
    return f"{mean(run['apart']['layers'] for run in apart_runs(results)):.2f} of 12 layers"


def apart_changed_phrase(results):
    """Of the same texts as the layers."""
    return f"{100 * mean(run['apart']['risk'] for run in apart_runs(results)):.1f} %"


def apart_dev_phrase(results):
    """The answers that change and the layers that run, of the same texts."""
    layers = mean(run['apart']['dev']['early']['average_layers'] for run in apart_runs(results))
    return f'{100 * mean(changed_on_dev(run) for run in apart_runs(results)):.1f} % at {layers:.2f} layers'


def four_queries_phrase(results):
    """Layers that readers of four queries save at 2 %, beside one query at the rate that is the task's default."""
    base, high, wide = (layers_of(results, recipe='plain', variant=name) for name in (AS_IT_IS, 'lr 3e-3', 'four queries'))
    pairs = [(wide[key], (high if key[0] in HIGH_RATE_TASKS else base).get(key)) for key in wide]
    return gains_text([100 * (1 - four[1] / one[1]) for four, one in pairs if one]).removeprefix('+') + ' %'


PHRASES = {'runs': runs_phrase, 'torch': torch_phrase, 'seeds': seeds_phrase, 'held-out-rows': held_out_phrase,
           'cudnn-runs': cudnn_phrase, 'watched-rows': watched_phrase, 'claims-held': claims_phrase, 'claims-readers-held': reader_claims_phrase, 'own-runs': own_runs_phrase, 'own-missing': own_missing_phrase, 'attach-layers': apart_layers_phrase,
           'attach-changed': apart_changed_phrase, 'attach-dev': apart_dev_phrase, 'attach-four-queries': four_queries_phrase}

OPEN, CLOSE, END = '<!-- from results: ', ' -->', '<!-- end of results -->'


def fill_marks(page, where, results):
    """The page with every table and count between the marks that name it: tables on lines of their own, counts within one."""
    def refuse(place, message):
        raise SystemExit(f'{where}:{page.count(chr(10), 0, place) + 1}: {message}')
    out, done = '', 0
    while (start := page.find(OPEN, done)) >= 0:
        if END in page[done:start]:
            break
        after = page.find(CLOSE, start) + len(CLOSE)
        name = page[start + len(OPEN):after - len(CLOSE)]
        if after < len(CLOSE) or '\n' in name:
            refuse(start, f"got a mark without '{CLOSE}' on its line, want {OPEN}NAME{CLOSE}")
        on_lines = page[after:after + 1] == '\n'
        # Markdown takes a line that begins with a comment for HTML, and no other line.
        if on_lines != (start == 0 or page[start - 1] == '\n'):
            refuse(start, f"mark '{name}': want it on a line of its own, or words before and after it")
        end = page.find(END, after)
        if end < 0:
            refuse(start, f"mark '{name}': got no end of it, want {END}")
        if OPEN in page[after:end]:
            refuse(start, f"mark '{name}': got a mark inside it, want {END} before that")
        if on_lines and page[end - 1] != '\n':
            refuse(end, f"mark '{name}': want its end on a line of its own")
        kinds = SECTIONS if on_lines else PHRASES
        if name not in kinds:
            refuse(start, f"unknown {'table' if on_lines else 'count'} '{name}', want one of {', '.join(kinds)}")
        made = kinds[name](results)
        if not made:
            refuse(start, f"'{name}': {results.folder} lacks the results it is made of")
        out += page[done:after] + ('\n' + markdown(made) if on_lines else made) + END
        done = end + len(END)
    if END in page[done:]:
        refuse(page.index(END, done), f'got {END} without a mark before it')
    if not out:
        refuse(0, f'got no mark in it, want {OPEN}NAME{CLOSE}')
    return out + page[done:]


def first_difference(got, want):
    """(line, got, want) of the first line in which two texts differ; None where there is none."""
    ours, theirs = got.split('\n'), want.split('\n')
    for number in range(max(len(ours), len(theirs))):
        pair = [lines[number] if number < len(lines) else '' for lines in (ours, theirs)]
        if pair[0] != pair[1] or number >= min(len(ours), len(theirs)):
            return number + 1, *pair
    return None
