# SPDX-License-Identifier: Apache-2.0
"""The table that opens lab/notebooks/reproducing.md: each paper's headline claim, what was run, what came out, and the verdict.

The papers' figures are those of lab/papers/published. One rule gives the verdict: a claim holds on a task where the mean over
the seeds, less their standard deviation, is not below the paper's figure.
"""
import json
from pathlib import Path

from stored import LAYERS, WHOLE_TASKS, deviation, mean, score, table, with_spread

PUBLISHED = Path(__file__).resolve().parents[2] / 'lab/papers/published'
SEEDS = 3        # fewer give no verdict
NO_LOSS = 0.5    # points: what a threshold may lose on held-out rows, too
ROUNDED = 0.005  # of a point: replays keep six digits
HALF = LAYERS // 2
HOLDS, READERS, SHARED, NOT_SHOWN, UNTESTED = 'holds', 'holds with readers', 'holds with shared settings', 'not shown', 'cannot be tested here'


def published(paper, method, **wanted):
    """{task: row} of a method."""
    rows = json.loads((PUBLISHED / f'{paper}.json').read_text(encoding='utf-8'))['rows']
    return {row['task']: row for row in rows if row['method'] == method and all(row.get(key) == value for key, value in wanted.items())}


def reached(values, wanted):
    """Whether enough seeds show at least `wanted`."""
    return len(values) >= SEEDS and mean(values) - deviation(values) >= wanted - ROUNDED


def signed(values):
    middle = round(mean(values), 1) + 0.0  # never -0.0
    return f'{middle:+.1f}' + (f' ± {deviation(values):.1f}' if len(values) > 1 else '')


def metric_of(row):
    """What the paper's figure is where it is not the mean of the task's measures."""
    return 'f1' if row['metric'] == 'f1' else None


def changes(runs, curve, task, want):
    """(changes of the score against full depth, speed-up) of the best setting of want['rule'] that is at least want['speedup'] times
    faster, in layers; None where no setting is."""
    full = {run['seed']: score(task, run['results']['exits'][-1], want.get('metric')) for run in runs}
    found = []
    for policy, points in curve.items():
        faster = LAYERS / mean(layers for *_, layers in points)
        if policy.startswith(want['rule']) and round(faster, 2) >= round(want['speedup'], 2):
            found.append(([value - full[seed] for seed, value, _ in points], faster))
    return max(found, key=lambda one: (round(mean(one[0]), 1), one[1]), default=None)


def exit_scores(runs, task, layer, metric=None):
    """{seed: score} at one exit."""
    return {run['seed']: score(task, exit, metric) for run in runs for exit in run['results']['exits'] if exit['layer'] == layer}


def gains(ours, theirs):
    """Of the seeds that both have."""
    return [ours[seed] - theirs[seed] for seed in sorted(ours) if seed in theirs]


def faster_text(found):
    if not found:
        return 'no setting as fast'
    count = len(found[0])
    few = f" ({count} seed{'' if count == 1 else 's'} of {SEEDS}, the others not run)" if count < SEEDS else ''
    return f'{signed(found[0])} at {found[1]:.2f}×{few}'


def row_of(claim, outcomes, why):
    """`claim`: (paper, what it says, what was run); `outcomes`: [(task, what came out, verdict or None)]."""
    tasks = {}
    for task, _, verdict in outcomes:
        tasks.setdefault(verdict, []).append(task)
    verdicts = [f"**{verdict}** on {', '.join(of)}" for verdict, of in tasks.items() if verdict]
    return [*claim, '; '.join(f'{task} {text}' for task, text, _ in outcomes), '; '.join(verdicts) or f'**{UNTESTED}**', why]


def judged(values, wanted):
    return HOLDS if values and reached(values, wanted) else NOT_SHOWN


def deebert_rows(results):
    reasons = {'a': 'the later half of the exits answers enough texts as well as the last one',
               'b': 'to leave this early, texts must leave that the later exits still get wrong',
               'c': 'the early half of the exits reads nothing from the first row: a threshold waits for the later half, or lets every text '
                    'leave at the first exit'}
    for letter, why in reasons.items():
        theirs = published('deebert', f'DeeBERT {letter}', backbone='bert-base')
        tasks = [task for task in WHOLE_TASKS if task in theirs and results.own_of(task, 'deebert')]
        text = ', '.join(f"{task} {theirs[task]['score_change']:+.1f} in {100 * theirs[task]['speed']['value']:.0f} % less time" for task in tasks)
        outcomes = []
        for task in tasks:
            metric = metric_of(theirs[task])
            found = changes(results.own_of(task, 'deebert'), results.own_curve(task, 'deebert', metric=metric), task, {
                'rule': 'entropy:', 'speedup': 1 / (1 - theirs[task]['speed']['value']), 'metric': metric})
            outcomes.append((task, faster_text(found), judged(found and found[0], theirs[task]['score_change'])))
        yield row_of(('DeeBERT', f'setting {letter}: {text}', "the paper's settings; entropy"), outcomes, why)


def rome_rows(results):
    def of(task, recipe, layer, metric=None):
        return exit_scores(results.own_of(task, recipe), task, layer, metric)
    for layer, name, why in (
            (HALF, f"exit {HALF} beside DeeBERT's", 'SST-2 has rows enough for joint training to bring the label into early layers; on RTE and '
             'MRPC this exit gives nearly always the commoner label, with either method'),
            (LAYERS, "the last exit beside DeeBERT's", 'the losses of the early exits cost the last one')):
        theirs, other = (published('romebert', method, exit=layer) for method in ('RomeBERT', 'DeeBERT'))
        tasks = [task for task in WHOLE_TASKS if task in theirs and of(task, 'romebert', layer) and of(task, 'deebert', layer)]
        wanted = {task: round(theirs[task]['score'] - other[task]['score'], 1) for task in tasks}
        outcomes = []
        for task in tasks:
            found = gains(*(of(task, recipe, layer, metric_of(theirs[task])) for recipe in ('romebert', 'deebert')))
            outcomes.append((task, signed(found), judged(found, wanted[task])))
        text = ', '.join(f'{task} {wanted[task]:+.1f}' for task in tasks)
        yield row_of(('RomeBERT', f'{name}: {text}', "the papers' settings of both"), outcomes, why)
    outcomes = []
    for task in tasks:
        found = gains(of(task, 'romebert', LAYERS), of(task, 'romebert-sd', LAYERS))
        shared = gains(*(exit_scores(results.of(task, recipe), task, LAYERS) for recipe in ('romebert', 'romebert-sd')))
        text = (signed(found) if found else '`romebert-sd` not run') + (f' (shared settings {signed(shared)})' if shared else '')
        verdicts = [verdict for verdict, values in ((HOLDS, found), (SHARED, shared)) if reached(values, 2 * ROUNDED)]
        outcomes.append((task, text, verdicts[0] if verdicts else NOT_SHOWN if found or shared else None))
    yield row_of(('RomeBERT', 'gradient regularization adds to self-distillation',
                  "`romebert` beside `romebert-sd`, the paper's settings, and those that all recipes share; last exit"),
                 outcomes, 'the gain is smaller than the spread of the seeds, or comes with one kind of settings alone')


def waiting(results, task, recipe, want):
    """[(verdict it can give, what came out, changes)] of a rule that waits for agreement: over the paper's exits, with readers, over
    the exits of `exeunt`."""
    readers = f'{recipe}-readers'
    sources = ((HOLDS, "the paper's exits", results.own_of(task, recipe), results.own_curve(task, recipe)),
               (READERS, 'readers', results.own_of(task, readers), results.own_curve(task, readers)),
               (READERS, '`exeunt`', results.of(task, 'exeunt'), results.curve(task, 'exeunt', 'eval')))
    found = [(verdict, name, changes(runs, curve, task, want)) for verdict, name, runs, curve in sources]
    return [(verdict, f'{name} {faster_text(one)}', one[0]) for verdict, name, one in found if one]


def waiting_outcome(task, found, wanted):
    verdicts = [verdict for verdict, _, values in found if reached(values, wanted)]
    return task, ', '.join(text for _, text, _ in found) or faster_text(None), verdicts[0] if verdicts else NOT_SHOWN


def pabee_rows(results):
    theirs, full = (published('pabee', method, backbone='albert-base') for method in ('PABEE', 'full depth'))
    tasks = [task for task in WHOLE_TASKS if task in theirs and results.own_of(task, 'pabee')]
    (speedup,) = {theirs[task]['speed']['value'] for task in tasks}
    better = {task: round(theirs[task]['score'] - full[task]['score'], 1) for task in tasks}
    found = {task: waiting(results, task, 'pabee', {'rule': 'patience:', 'speedup': speedup}) for task in tasks}
    run = ('patience over the exits as the paper trains them, over the same with readers, and over those of `exeunt` (readers, and the settings '
           'that all recipes share)')
    yield row_of(('PABEE', f'{speedup:.2f} times faster without loss', run), [waiting_outcome(task, found[task], -NO_LOSS) for task in tasks],
                 'early exits that read the first row alone agree on the commoner label; with readers they agree on more, and on an easy task '
                 'on what the last exit says')
    row = row_of(('PABEE', 'and better: ' + ', '.join(f'{task} {better[task]:+.1f}' for task in tasks), 'the same'),
                 [waiting_outcome(task, found[task], better[task]) for task in tasks], 'such gains are smaller than the spread of the seeds')
    yield row[:3] + ['as above'] + row[4:]


def elbert_rows(results):
    (theirs,) = published('elbert', 'ELBERT').values()
    cost = theirs['speed']['value']
    found = {task: waiting(results, task, 'elbert', {'rule': 'window:', 'speedup': 1 / cost}) for task in WHOLE_TASKS if results.own_of(task, 'elbert')}
    yield row_of(('ELBERT', f"{theirs['task']} {theirs['score']:.1f} with {theirs['backbone']} at a cost of {cost:.3f}",
                  f'whether its window loses nothing at {1 / cost:.2f}× or more, over the three kinds of exits as for PABEE'),
                 [waiting_outcome(task, of, -NO_LOSS) for task, of in found.items()],
                 'as for PABEE; the score itself needs its backbone, which is not here')


def elastic_rows(results):
    rows = json.loads((PUBLISHED / 'elasticbert.json').read_text(encoding='utf-8'))['rows']
    short = {}
    for row in rows:
        if row['split'] == 'dev' and row['method'].endswith(f'-{HALF}L'):
            short.setdefault(row['method'], []).append(row['score'])
    averages = {method: mean(values) for method, values in short.items()}
    own = averages.pop(f'ElasticBERT-base-{HALF}L')
    name, best = max(averages.items(), key=lambda one: one[1])
    outcomes = [(task, ' and '.join(with_spread(list(exit_scores(results.own_of(task, 'elasticbert'), task, layer).values()))
                                    for layer in (HALF, LAYERS)), None) for task in WHOLE_TASKS if results.own_of(task, 'elasticbert')]
    yield row_of(('ElasticBERT', f"pretrained with exits, the first {HALF} layers beat other models of {HALF}: {own:.1f} on average over GLUE's dev sets, "
                  f'{name} {best:.1f}', f"recipe `elasticbert` over gte-small, which was pretrained without exits; exit {HALF} and the last"),
                 outcomes, 'its weights are not here, and nothing was pretrained at its scale')


def verdict_tables(results):
    if not results.own or not results.own_replays:
        return []
    rows = [row for paper in (deebert_rows, pabee_rows, elastic_rows, rome_rows, elbert_rows) for row in paper(results)]
    return [table(['paper', 'claim', 'run here', 'came out', 'verdict', 'why'], rows)]
