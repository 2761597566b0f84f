# SPDX-License-Identifier: Apache-2.0
"""A folder of results (lab/studies/results) as its tables read it: runs, curves, scores, means and their spread."""
import json
from fractions import Fraction
from pathlib import Path

from suites import read_suite

LAYERS = 12  # of the models that lab/studies/recipe_grid.py trains
WHOLE_TASKS = ('RTE', 'MRPC', 'CoLA', 'STS-B', 'SST-2')
MEASURES = {'MRPC': ('accuracy', 'f1'), 'QQP': ('accuracy', 'f1'), 'CoLA': ('matthews_correlation',),
            'STS-B': ('pearson', 'spearmanr')}  # whose mean is the task's score


class Results:
    """What a folder of results holds; lists are empty if the file is missing."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.runs = read_suite(self.folder / 'grid.jsonl')
        if not self.runs:
            raise SystemExit(f'{self.folder}: got no runs in grid.jsonl; lab/studies/recipe_grid.py trains them')
        self.trials = read_suite(self.folder / 'trials.jsonl')
        self.objectives = read_suite(self.folder / 'objectives.jsonl')  # `exeunt` with the objective it does not take by default
        self.study = read_suite(self.folder / 'study.jsonl')  # lab/studies/defaults_study.py
        self.own = read_suite(self.folder / 'paper-settings.jsonl')  # each recipe with its paper's settings
        self.curves, self.papers, self.own_replays, self.reference, self.watched, self.attention = (
            self.read(f'{name}.json')
            for name in ('curves', 'papers', 'paper-settings-replayed', 'reference', 'pabee-watched', 'attention'))

        attach = self.folder / 'attach.jsonl'  # of lab/studies/attach/attach_study.py
        lines = attach.read_text(encoding='utf-8').splitlines() if attach.exists() else []
        self.attached = [json.loads(line) for line in lines]

    def attach(self, part, **wanted):
        """Results of `exeunt attach` itself (part "command") or of heads learned on a GPU ("heads")."""
        return [run for run in self.attached if run['part'] == part and all(run[key] == value for key, value in wanted.items())]

    def read(self, name):
        path = self.folder / name
        return json.loads(path.read_text(encoding='utf-8')) if path.exists() else []

    def of(self, task, recipe):
        """Whole models of a recipe on a task."""
        return [run for run in self.runs if run['task'] == task and run['recipe'] == recipe and not run['layers']]

    def curve(self, task, recipe, split):
        """{policy: [(seed, score, layers)]} in the order of the first curve."""
        found = {}
        for curve in self.curves:
            if (curve['task'], curve['recipe'], curve['split']) == (task, recipe, split):
                for point in curve['rows']:
                    found.setdefault(point['policy'], []).append((curve['seed'], point['score'], point['layers']))
        return found

    def mean_curve(self, task, recipe, split):
        """[(policy, score, layers)]: each policy's means over the seeds."""
        return [(policy, *(mean(column) for column in list(zip(*points))[1:])) for policy, points in self.curve(task, recipe, split).items()]

    def paper_curve(self, task, recipe):
        """The same as curve(), of the paper's own rule with more settings; empty where the curves have them all."""
        found = {}
        for replay in self.papers:
            if (replay['task'], replay['recipe']) == (task, recipe):
                for row in replay['rows']:
                    found.setdefault(row['policy'], []).append((replay['seed'], score(task, row['metrics']), row['layers']))
        return found

    def own_of(self, task, recipe):
        """Models trained with their paper's settings."""
        return [run for run in self.own if (run['task'], run['recipe']) == (task, recipe)]

    def own_curve(self, task, recipe, exits='all', metric=None):
        """{policy: [(seed, score, layers)]} of the models of own_of()."""
        found = {}
        for replay in self.own_replays:
            if (replay['task'], replay['recipe'], replay['exits']) == (task, recipe, exits):
                for row in replay['rows']:
                    found.setdefault(row['policy'], []).append((replay['seed'], score(task, row['metrics'], metric), row['layers']))
        return found


def mean(values):
    """The double nearest to the true mean."""
    values = list(values)
    return float(sum(map(Fraction, values)) / len(values))


def deviation(values):
    """The standard deviation of a sample; None of a single value."""
    middle = mean(values)
    return (sum((value - middle) ** 2 for value in values) / (len(values) - 1)) ** 0.5 if len(values) > 1 else None


def with_spread(values, digits=1):
    """The mean over the seeds and, of several, their standard deviation: 74.4 ± 20.1."""
    if not values:
        return '–'
    return f'{mean(values):.{digits}f}' + (f' ± {deviation(values):.{digits}f}' if len(values) > 1 else '')


def score(task, exit, metric=None):
    """In percent, the mean of the task's measures or `metric` alone; None where the run has none (its loss was not a number)."""
    names = (metric,) if metric else MEASURES.get(task.removeprefix('elue-'), ('accuracy',))
    values = [exit[name] for name in names if exit.get(name) is not None]
    return 100 * mean(values) if values else None


def scores(task, exits):
    return [value for value in (score(task, exit) for exit in exits) if value is not None]


def table(header, rows, title='', remark='', numbers=None):
    return {'title': title, 'remark': remark, 'header': header, 'rows': rows, 'numbers': numbers}
