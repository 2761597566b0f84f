# SPDX-License-Identifier: Apache-2.0
"""The tables of lab/studies/defaults_study.py for lab/notebooks/reproducing.md: what the defaults reach beside a linear model, what a run as somebody
types it reaches and saves, and the settings that were tried."""

import re

from stored import with_spread

SETS = ('SMS-Spam', 'BANKING77-300', 'BANKING77-1500', 'BANKING77-10000', 'CLINC150-300', 'CLINC150-1500', 'CLINC150-10000',
        'feedback', 'SST-2', 'IMDb-1500', 'RTE', 'MRPC')
ENCODERS = ('MiniLM', 'gte-small', 'tiny-en')


def baselines_of(results):
    """Of a run's results; older ones call them a yardstick."""
    return results.get('baseline') or results['yardstick']


def last_of(run):
    """Accuracy at the last exit, in percent."""
    return 100 * run['results']['exits'][-1]['accuracy']


def linear_of(run):
    return 100 * baselines_of(run['results'])['linear model']['accuracy']


def average(values):
    values = list(values)
    return sum(values) / len(values)


def spread(values):
    """Mean, and how far the seeds are apart: 84.2 (83.1 to 85.0, 3 seeds)."""
    values = list(values)
    text = f'{average(values):.1f}'
    return text if len(values) < 2 else f'{text} ({min(values):.1f} to {max(values):.1f}, {len(values)} seeds)'


def grouped(runs, *names):
    groups = {}
    for run in runs:
        groups.setdefault(tuple(run[name] for name in names), []).append(run)
    return groups


def default_rows(study):
    """[(set, rows trained on, linear model, {encoder: accuracies})]; the linear model's is the mean over the seeds' slices."""
    found = grouped((run for run in study if run['part'] == 'defaults'), 'set', 'encoder')
    out = []
    for name in SETS:
        of = {encoder: found[name, encoder] for encoder in ENCODERS if (name, encoder) in found}
        if of:
            runs = [run for group in of.values() for run in group]
            seeds = {run['seed']: linear_of(run) for run in runs}
            out.append((name, runs[0]['results']['train_samples'], average(seeds.values()),
                        {encoder: [last_of(run) for run in group] for encoder, group in of.items()}))
    return out


def default_tables(results, table):
    rows = [[name, f'{count:,}', f'{linear:.1f}'] + [spread(of[encoder]) if encoder in of else '–' for encoder in ENCODERS]
            for name, count, linear, of in default_rows(results.study)]
    return [table(['data', 'rows', 'linear model', *ENCODERS], rows)] if rows else []


def budget_of(promise):
    """'2' of "at most 2 % of answers to requests differ …"; nothing where nothing is promised."""
    found = re.match(r'at most ([0-9.]+) %', promise)
    return found[1] if found else ''


def typed_tables(results, table):
    rows = []
    for (name, encoder), runs in grouped((run for run in results.study if run['part'] == 'typed'), 'set', 'encoder').items():
        tested = [run['tested'] for run in runs]
        promises = [budget_of(one['promise']) for one in tested]
        sure = [one for one in tested if budget_of(one['promise'])]
        rows.append([f'{name}, {encoder}', f"{runs[0]['results']['train_samples']:,}",
                     spread(100 * one['each_exit'][-1]['accuracy'] for one in tested),
                     ', '.join(sorted({f'{promise} %' if promise else 'none' for promise in promises})),
                     spread(one['speedup_ratio'] for one in sure) if sure else '–',
                     spread(100 * (1 - one['agreement']) for one in sure) if sure else '–'])
    order = {name: place for place, name in enumerate(SETS)}
    rows.sort(key=lambda row: order[row[0].split(',')[0]])
    return [table(['data', 'rows trained on', 'full depth', 'promise: changed answers', 'fewer layers', 'changed on the test'], rows)] if rows else []


def time_tables(results, table):
    rows = []
    for run in (run for run in results.study if run['part'] == 'time'):
        found, stage = run['results'], run['settings']['stages'][0]
        epochs = stage['epochs'] if not isinstance(stage['epochs'], dict) else stage['epochs'].get('small', stage['epochs']['default'])
        steps = -(-found['train_samples'] // stage['batch']) * epochs
        rows.append([run['encoder'], found['processor'], f"{found['seconds_per_step']:.2f}", f'{steps:.0f}',
                     f"{steps * found['seconds_per_step'] / 60:.1f}"])
    return [table(['encoder', 'processor, two threads', 'seconds per step', 'steps for 1,500 rows', 'minutes'], rows)] if rows else []


def cpu_tables(results, table):
    rows = []
    for run in (run for run in results.study if run['part'] == 'cpu'):
        tested = run['tested']
        rows.append([f"{run['set']}, {run['encoder']}", run['results']['processor'], f"{run['seconds'] / 60:.1f}",
                     f"{100 * tested['each_exit'][-1]['accuracy']:.1f}", f"{100 * baselines_of(tested)['linear model']['accuracy']:.1f}"])
    return [table(['data', 'processor, two threads', 'minutes in all', 'full depth', 'linear model'], rows)] if rows else []


def change_tables(results, table):
    """What a batch or a warm-up changed alone does to the accuracy, over the runs on the same rows with the same seed. A start from
    prototypes stands apart: it needs less learning."""
    tried = {(run['set'], run['encoder'], run['tried'], run['seed']): last_of(run) for run in results.study if run['part'] == 'settings'}
    found = {}
    for (name, encoder, setting, seed), last in tried.items():
        changes = [word for word in setting.split() if word.startswith(('batch=', 'warmup='))]
        before = tried.get((name, encoder, ' '.join(word for word in setting.split() if word not in changes), seed))
        if len(changes) == 1 and before is not None:
            start = ' from prototypes' if 'start=prototypes' in setting else ''
            found.setdefault((encoder + start, changes[0]), {}).setdefault(name, []).append(last - before)
    sets = [name for name in SETS if any(name in of for of in found.values())]
    rows = []
    for start in (start for encoder in ENCODERS for start in (encoder, f'{encoder} from prototypes')):
        for change in sorted({change for other, change in found if other == start}):
            of = found[start, change]
            every = [difference for differences in of.values() for difference in differences]
            error = (average((one - average(every)) ** 2 for one in every) / max(1, len(every) - 1)) ** 0.5
            rows.append([f'{start}, `{change}`'] + [f'{average(of[name]):+.1f}' if name in of else '' for name in sets] +
                        [f'{average(every):+.1f} ± {error:.1f} ({len(every)})'])
    return [table(['changed', *sets, 'mean ± its error (runs)'], rows)] if rows else []


def setting_tables(results, table):
    tables = []
    tried = [run for run in results.study if run['part'] == 'settings']
    for encoder in ENCODERS:
        for title, wanted in (('many labels', lambda name: name.startswith(('BANKING77', 'CLINC150'))),
                              ('few labels', lambda name: not name.startswith(('BANKING77', 'CLINC150')))):
            runs = [run for run in tried if run['encoder'] == encoder and wanted(run['set'])]
            sets = [name for name in SETS if any(run['set'] == name for run in runs)]
            cells = grouped(runs, 'tried', 'set')
            rows = []
            for setting in dict.fromkeys(run['tried'] for run in runs):
                row = [f'`{setting}`']
                for name in sets:
                    of = cells.get((setting, name), [])
                    row.append(with_spread(list(map(last_of, of))) + (f' ({len(of)})' if len(of) > 1 else '') if of else '')
                rows.append(row)
            if rows:
                linear = [f'{average(linear_of(run) for run in runs if run["set"] == name):.1f}' for name in sets]
                tables.append(table(['setting', *sets], [['linear model', *linear], *rows], f'{encoder}, {title}'))
    return tables
