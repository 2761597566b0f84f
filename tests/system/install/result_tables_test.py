#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lab/studies/{suites,stored,result_tables,verdict_tables,reproducing}.py over a small folder of results; every figure expected is arithmetic over it."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / 'lab/studies'))

import reproducing  # noqa: E402
import result_tables as made  # noqa: E402
import verdict_tables  # noqa: E402
from panels import panels  # noqa: E402
from suites import append_run, read_suite  # noqa: E402


def run_of(task, recipe, exits, seed=1, layers=0, objective='sum', torch='2.11.0', **more):
    settings = {'name': recipe, 'stages': [{'objective': {'kind': objective}}], 'seed': seed, 'run': {'task': task},
                'provenance': {'torch': torch}}
    return {'task': task, 'recipe': recipe, 'seed': seed, 'layers': layers, 'steps': 1210, 'backbone': 'small',
            'attention': more.pop('attention', 'efficient'), 'settings': settings,
            'results': {'exits': exits, 'train_samples': more.pop('rows', 60000), **more}}


def exits(first, last, **more):
    return [{'layer': 1, 'accuracy': first, **more}, {'layer': 12, 'accuracy': last, **more}]


CURVES = [
    {'task': 'SST-2', 'recipe': 'exeunt', 'seed': 1, 'split': 'held-out', 'rows': [
        {'policy': 'entropy:0.1', 'score': 94.0, 'layers': 6.0}, {'policy': 'entropy:0.2', 'score': 93.5, 'layers': 4.0},
        {'policy': 'entropy:0.3', 'score': 93.4, 'layers': 3.0}]},
    {'task': 'SST-2', 'recipe': 'exeunt', 'seed': 1, 'split': 'eval', 'rows': [
        {'policy': 'entropy:0.2', 'score': 91.0, 'layers': 4.0}, {'policy': 'patience:2', 'score': 90.0, 'layers': 5.0}]},
    {'task': 'SST-2', 'recipe': 'exeunt', 'seed': 2, 'split': 'eval', 'rows': [
        {'policy': 'entropy:0.2', 'score': 92.0, 'layers': 4.0}, {'policy': 'patience:2', 'score': 91.0, 'layers': 5.5}]}]


def attach_run(part, recipe, variant, layers, task='SST-2', seed=1, **more):
    points = [{'layers': layers * factor, 'risk': 0.01 * factor} for factor in (3, 2, 1)]
    return {'part': part, 'task': task, 'recipe': recipe, 'seed': seed, 'variant': variant, 'points': points, **more}


class Folder(unittest.TestCase):
    """Two seeds of one recipe with two exits, a plain model, a truncated model, and curves."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name) / 'lab/studies/results'
        self.folder.mkdir(parents=True)
        self.keep('grid', run_of('SST-2', 'plain', [{'layer': 12, 'accuracy': 0.92}],
                                 **{'exits_held-out': [{'layer': 12, 'accuracy': 0.94}]}))
        self.keep('grid', run_of('SST-2', 'exeunt', exits(0.80, 0.91)), run_of('SST-2', 'exeunt', exits(0.84, 0.93), seed=2))
        self.keep('grid', run_of('MRPC', 'exeunt', [{'layer': 1, 'accuracy': 0.7, 'f1': 0.8},
                                                    {'layer': 12, 'accuracy': None, 'f1': None}]))
        self.keep('grid', run_of('elue-MRPC', 'elasticbert-static', [{'layer': 3, 'accuracy': 0.75, 'f1': 0.85}], layers=3))
        self.write('curves.json', CURVES)

    def keep(self, suite, *runs):
        for run in runs:
            append_run(self.folder / f'{suite}.jsonl', run)

    def write(self, name, value):
        (self.folder / name).write_text(json.dumps(value))

    def results(self):
        return made.Results(self.folder)

    def only(self, name):
        (one,) = made.SECTIONS[name](self.results())
        return one

    def titled(self, name, title):
        return next(one for one in made.SECTIONS[name](self.results()) if one['title'] == title)

    def phrase(self, name):
        return made.PHRASES[name](self.results())

    def refusal(self, name):
        with self.assertRaises(SystemExit) as caught:
            made.SECTIONS.get(name, made.PHRASES.get(name))(self.results())
        return str(caught.exception)


class SuiteTest(Folder):
    def test_says_a_recipe_once_and_gives_back_whole_runs(self):
        path = self.folder / 'suite.jsonl'
        runs = [run_of('RTE', 'pabee', exits(0.5, 0.6), seed=seed) for seed in (1, 2)] + [
            run_of('RTE', 'pabee', exits(0.5, 0.6), objective='linear')]
        for run in runs:
            append_run(path, run)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.assertEqual([('id' in line) for line in lines], [True, False, False, True, False])
        self.assertEqual(read_suite(path), runs)
        self.assertEqual(read_suite(self.folder / 'none.jsonl'), [])

    def test_names_the_line_of_a_run_whose_recipe_is_missing(self):
        path = self.folder / 'suite.jsonl'
        append_run(path, run_of('RTE', 'pabee', []))
        path.write_text(path.read_text().split('\n', 1)[1])
        with self.assertRaisesRegex(SystemExit, r'suite.jsonl:1: KeyError'):
            read_suite(path)


class TableTest(Folder):
    def test_exits_are_means_over_seeds(self):
        rows = self.titled('exits', 'SST-2: accuracy')['rows']
        self.assertEqual(rows[1], ['`exeunt`', '2', '82.0 ± 2.8'] + [''] * 10 + ['92.0 ± 1.4'])
        self.assertEqual(self.titled('exits', 'MRPC: accuracy and f1')['rows'][0], ['`exeunt`', '1', '75.0'] + [''] * 10 + ['–'])
        patience = self.titled('policies', 'SST-2, patience')
        self.assertEqual(patience['rows'][0], ['`exeunt`', '90.5 ± 0.7 at 5.2'])
        self.assertEqual(patience['numbers'], {'exeunt': [(5.25, 90.5)]})
        rows = self.only('cut-short')['rows']
        self.assertEqual([row[:4] for row in rows[:2]], [['SST-2', 'not run yet', '', ''], ['MRPC', '', '', '80.0']])
        self.assertEqual(rows[-1][:2], ['SciTail', 'no training data here'])
        self.assertEqual(self.only('cut-short')['numbers'], {})  # a baseline needs every number of layers

    def test_truncated_models_trained_on_some_of_the_rows_are_marked(self):
        self.keep('grid', run_of('elue-SNLI', 'elasticbert-static', [{'layer': 3, 'accuracy': 0.75}], layers=3, train_samples=1234))
        self.assertEqual(self.only('cut-short')['rows'][4][:4], ['SNLI, 1,234 of 549,367 training rows', '', '', '75.0'])
        self.assertEqual(made.cut_short_remarks(self.results()), {'SNLI': '1,234 of 549,367 training rows'})

    def test_truncated_models_trained_on_other_rows_are_marked(self):
        self.keep('grid', run_of('elue-IMDb', 'elasticbert-static', [{'layer': 3, 'accuracy': 0.75}], layers=3, train_samples=20000))
        self.assertEqual(made.cut_short_remarks(self.results()), {'IMDb': "other rows for training and dev than ELUE's"})

    def test_chooses_the_earliest_threshold_that_loses_at_most_half_a_point_on_held_out_rows(self):
        chosen = self.only('chosen')
        self.assertIn('94.0 on the held-out rows, 92.0 on dev', chosen['remark'])
        self.assertEqual(chosen['rows'][-1], ['`exeunt`', '2', '`entropy:0.2`', '93.5', '91.5 ± 0.7 (-0.5)', '4.00 ± 0.00', '3.00×'])
        self.assertEqual(chosen['rows'][0], ['`deebert`', '0', 'none', '', '', '', ''])

    def test_shows_policies_by_the_clock_beside_their_layers(self):
        def timed(policy, ms, layers):
            return {'policy': policy, 'ms': ms, 'clock_speedup': 4 / ms, 'average_layers': layers, 'layers_speedup': 12 / layers}
        self.assertEqual(made.SECTIONS['clock'](self.results()), [])
        self.write('bench.json', {'policies': [{'precision': 'bf16', 'texts': 100, 'batch': batch, 'full': timed('full', 4, 12),
                                                'rows': [timed('entropy:0.2', 2.5, 6)]} for batch in (1, 64)]})
        place, reproducing.RESULTS = reproducing.RESULTS, self.folder
        self.addCleanup(setattr, reproducing, 'RESULTS', place)
        reproducing.make_clock('a model', self.folder / 'bench.json', 'a GPU', self.folder / 'bench.json', 'a CPU')
        clock = self.only('clock')
        self.assertEqual(clock['remark'], 'a model.')
        self.assertEqual(clock['rows'][:2], [['a GPU, bf16', '1', '`full`', '12.00', '1.00×', '4.000', '1.00×'],
                                             ['a GPU, bf16', '1', '`entropy:0.2`', '6.00', '2.00×', '2.500', '1.60×']])
        self.assertEqual([row[:2] for row in clock['rows'][2::2]], [['a GPU, bf16', '64'], ['a CPU, bf16', '1'], ['a CPU, bf16', '64']])

    def test_puts_exits_beside_another_programs_where_both_have_them(self):
        self.write('reference.json', [{'task': task, 'recipe': recipe, 'layer': layer, 'score': score} for task, recipe, layer, score in (
            ('SST-2', 'exeunt', 12, 91.0), ('SST-2', 'plain', 12, 93.0), ('MRPC', 'exeunt', 1, 72.5), ('MRPC', 'exeunt', 12, 80.0),
            ('RTE', 'exeunt', 12, 60.0))])
        beside = self.only('beside')
        self.assertEqual(beside['remark'], 'Over all 3 cells the mean difference is +0.83.')  # (1 - 1 + 2.5) / 3
        self.assertEqual(beside['header'], ['recipe', 'MRPC L1', 'SST-2 L12'])
        self.assertEqual(beside['rows'], [['`plain`', '', '92.0 (-1.0)'], ['`exeunt`', '75.0 (+2.5)', '92.0 ± 1.4 (+1.0)']])

    def test_sorts_trials_by_their_gain_over_the_tasks(self):
        for change, first, last in (('worse', 0.4, 0.6), ('better', 0.5, 0.8), ('sum', 0.5, 0.7)):
            for seed in range(3):
                for task, more in (('RTE', {}), ('MRPC', {'f1': 0.8})):
                    self.keep('trials', {'task': task, 'change': change, 'seed': seed, 'settings': {'name': 'exeunt'},
                                         'exits': exits(first, last, **more)})
        self.keep('trials', {'task': 'RTE', 'change': 'unfinished', 'seed': 0, 'settings': {'name': 'exeunt'}, 'exits': exits(1, 1)})
        # MRPC's score is the mean of accuracy and 0.8: 10 points of accuracy are 5 there, 7.5 over both tasks.
        self.assertEqual(self.only('tried')['rows'], [
            [change] + [f'{value} ± 0.0' for value in values] + gains for change, values, gains in (
                ('sum', ('75.0', '70.0', '70.0', '60.0'), ['+0.0', '+0.0']), ('better', ('80.0', '72.5', '80.0', '65.0'), ['+7.5', '+3.8']),
                ('worse', ('70.0', '65.0', '60.0', '50.0'), ['-7.5', '-7.5']))])

    def test_refuses_trials_without_the_recipe_they_change(self):
        self.assertEqual(made.trial_tables(self.results()), [])
        for seed in range(3):
            for task in ('RTE', 'MRPC'):
                self.keep('trials', {'task': task, 'change': 'x', 'seed': seed, 'settings': {'name': 'exeunt'}, 'exits': exits(0, 1)})
        self.assertIn("got no change 'sum' with 3 seeds on each of MRPC and RTE", self.refusal('tried'))

    def test_tells_objectives_apart_by_the_recipe_of_the_run(self):
        self.keep('grid', run_of('RTE', 'exeunt', exits(0.5, 0.6), objective='linear'))
        self.keep('objectives', run_of('RTE', 'exeunt', exits(0.4, 0.5)), run_of('RTE', 'exeunt', exits(0.4, 0.7), seed=2))
        rows = self.only('objectives')['rows']
        self.assertEqual(rows[0], ['RTE', '60.0 ± 14.1', '50.0 ± 7.1', '60.0', '55.0'])
        self.assertEqual(rows[2], ['CoLA', '–', '–', '–', '–'])

    def test_gives_speeds_from_the_newest_file(self):
        folder = self.folder / made.STEPS
        folder.mkdir(parents=True)
        for date, ours in (('2026-01-01', 1), ('2026-02-01', 1250.4)):
            runs = [{'what': what, 'shape': 'small', 'batch': 32, 'tokens': 'real', 'samples_per_second': value}
                    for what, value in (('kernels', 9000), ('recorded', ours), ('recorded', 0.5), ('torch', 500))]
            (folder / f'{date}-x-train-step.jsonl').write_text('\n'.join(map(json.dumps, [{'gpu': 'a card'}, *runs])))
        self.assertEqual(self.only('speed')['rows'], [['small', '32 × real', '1,250', '', '500']])
        self.assertRegex(self.only('speed')['remark'], 'on one a card, bf16.*not compiled, so there is no ratio')

    def test_shows_every_second_step_of_the_watched_exit(self):
        def watched(seed, last):
            curve = [[step, [0, 0, 0, 0, 0, step / 10]] for step in range(1, 7)] + [[last, [0, 0, 0, 0, 0, 0.7]]]
            return {'seed': seed, 'rows': 67349, 'curve': curve}
        self.write('pabee-watched.json', [watched(1, 7), watched(2, 7)])
        self.assertEqual(self.only('watched')['header'], ['seed', 'step 5', 'step 7'])
        self.assertEqual(self.only('watched')['rows'][1], ['2', '50.0', '70.0'])
        self.assertEqual(self.phrase('watched-rows'), '67,349')
        self.write('pabee-watched.json', [watched(1, 7), watched(2, 9)])
        self.assertIn('the seeds were evaluated at different steps', self.refusal('watched'))

    def test_counts_runs_that_ended_in_nan_by_attention_and_launch(self):
        self.write('attention.json', [
            {'recipe': 'pabee', 'seed': 42, 'attention': attention, 'graphs': graphs, 'ended': error is None, 'error': error}
            for attention, graphs, error in (('efficient', True, None), ('cudnn', True, 'at step 4'), ('cudnn', True, None),
                                             ('cudnn', True, 'at step 2'), ('cudnn', False, None))])
        self.assertEqual(self.only('attention')['rows'], [
            ["cuDNN's", 'individual operations', 'pabee, seed 42', '1', '0', ''],
            ["cuDNN's", 'one CUDA graph per step', 'pabee, seed 42', '3', '2', 'at step 4, at step 2'],
            ['memory-efficient', 'one CUDA graph per step', 'pabee, seed 42', '1', '0', '']])

    def test_shows_the_papers_settings_apart_from_the_reference(self):
        self.assertEqual(made.own_tables(self.results()), [])
        self.keep('paper-settings', run_of('RTE', 'pabee', exits(0.5, 0.6)), run_of('RTE', 'pabee', exits(0.5, 0.7), seed=2),
                  run_of('RTE', 'pabee-readers', exits(0.6, 0.7)))
        own = self.titled('own-settings', "RTE, the papers' settings: accuracy")
        self.assertEqual(own['rows'], [['`pabee`', '2', '50.0 ± 0.0'] + [''] * 10 + ['65.0 ± 7.1'],
                                       ['`pabee`, readers', '1', '60.0'] + [''] * 10 + ['70.0']])
        self.assertEqual(self.phrase('own-runs'), '3 runs with 3,630 steps')

    def test_finds_the_fastest_setting_that_is_not_worse_than_full_depth(self):
        def replay(recipe, rule, which, *points):
            return {'task': 'RTE', 'recipe': recipe, 'seed': 1, 'exits': which, 'rows': [
                {'policy': f'{rule}:{place}', 'layers': layers, 'metrics': {'accuracy': score}}
                for place, (layers, score) in enumerate(points, 1)]}
        self.assertEqual(self.phrase('claims-held'), '')
        self.keep('paper-settings', run_of('RTE', 'pabee', exits(0.5, 0.6)), run_of('RTE', 'pabee-readers', exits(0.5, 0.6)),
                  run_of('RTE', 'elbert', exits(0.5, 0.6)))
        self.write('paper-settings-replayed.json', [
            replay('pabee', 'patience', 'all', (3, 0.5), (6, 0.59), (12, 0.6)),   # as good at full depth alone
            replay('pabee', 'patience', '7 to 12', (8, 0.6), (10, 0.625)), replay('pabee-readers', 'patience', 'all', (4, 0.7)),
            replay('elbert', 'window', 'all', (11, 0.65)), replay('elbert', 'nentropy', 'all', (2, 0.9))])
        self.assertEqual(self.only('claims')['rows'], [
            ['RTE', '`elbert`', 'all', '60.0', '`window:1`', '65.0', '1.09×', '65.0 at 1.09×'],
            ['RTE', '`pabee`', '7 to 12', '60.0', '`patience:1`', '60.0', '1.50×', '62.5 at 1.20×'],
            ['RTE', '`pabee`', 'all', '60.0', 'none', '', '', '60.0 at 1.00×'],
            ['RTE', '`pabee`, readers', 'all', '60.0', '`patience:1`', '70.0', '3.00×', '70.0 at 3.00×']])
        self.assertEqual(self.phrase('claims-held'), '0 of 2 cases over all exits, 1 of 1 over late exits and 1 of 1 over readers')
        # Patience over the exits of `exeunt`, which have readers: none is as good as 92.0 until one is.
        self.assertEqual(self.only('claims-readers')['rows'], [['SST-2', 'patience', '92.0 ± 1.4', 'none', '', '', '90.5 ± 0.7 at 2.29×']])
        self.assertEqual(self.phrase('claims-readers-held'), '0 of 1 tasks with patience')
        more = [{'policy': 'patience:4', 'score': 92.0, 'layers': 8.0}, {'policy': 'window:0.1', 'score': 91.0, 'layers': 4.0}]
        self.write('curves.json', [{**curve, 'rows': curve['rows'] + more} for curve in CURVES])
        self.assertEqual(self.only('claims-readers')['rows'], [
            ['SST-2', 'patience', '92.0 ± 1.4', '`patience:4`', '92.0 ± 0.0', '1.50×', '92.0 ± 0.0 at 1.50×'],
            ['SST-2', 'window', '92.0 ± 1.4', 'none', '', '', '91.0 ± 0.0 at 3.00×']])
        self.assertEqual(self.phrase('claims-readers-held'), '1 of 1 tasks with patience and 0 of 1 tasks with window')

    def test_names_seeds_of_the_papers_settings_that_are_missing(self):
        self.keep('paper-settings', run_of('RTE', 'deebert', exits(0.5, 0.6)))
        self.assertIn('seeds are missing on RTE of `deebert` (1 of 3), MRPC of `deebert` (0 of 3)', self.phrase('own-missing'))
        self.assertIn('SST-2 of `romebert-sd` (0 of 3)', self.phrase('own-missing'))
        self.assertIn('SST-2 of `elbert`, readers (0 of 3)', self.phrase('own-missing'))

    def test_rates_pretraining_and_its_peer_over_the_same_steps(self):
        def log(name, *points):  # (step, tokens, rate)
            (self.folder / name).write_text(''.join(json.dumps({
                'step': step, 'tokens': tokens, 'token_losses': [1], 'order_losses': [1], 'tokens_per_second': rate,
                'torch': '2'}) + '\n' for step, tokens, rate in points))
            return self.folder / name
        place, reproducing.RESULTS = reproducing.RESULTS, self.folder
        self.addCleanup(setattr, reproducing, 'RESULTS', place)
        ours = log('ours', (50, 100, 1), (100, 200, 50), (150, 300, 100), (200, 400, 50))  # each since the line before
        theirs = log('theirs', (50, 100, None), (100, 200, 10), (150, 300, 20), (200, 400, 20))  # each since the first
        reproducing.make_pretraining(ours, theirs, 'a card')
        found = json.loads((self.folder / 'pretraining.json').read_text())
        self.assertAlmostEqual(found['ours']['tokens_per_second'], 200 / (1 + 2))
        self.assertAlmostEqual(found['torch']['tokens_per_second'], 200 / (300 / 20 - 100 / 10))
        reproducing.make_pretraining(ours, '-', 'a card')
        self.assertNotIn('torch', json.loads((self.folder / 'pretraining.json').read_text()))

    def test_puts_pretraining_beside_the_loop_it_is_compared_with(self):
        def side(rate, first, **more):
            return {'tokens_per_second': rate, **more, 'lines': [
                {'step': step, 'tokens': 20000 * step, 'token_losses': [first, 2, 3], 'order_losses': [0.7, 0.6, 0.5]} for step in (50, 100, 200)]}
        self.assertEqual(made.pretraining_tables(self.results()), [])
        self.write('pretraining.json', {'device': 'a card', 'shape': 'S', 'batch': 'B', 'ours': side(1.5e6, 4), 'torch': side(1e6, 5, version='2')})
        (one,) = made.pretraining_tables(self.results())
        self.assertEqual(one['header'], ['step', 'million tokens', 'masked tokens, exit 1', 'order, exit 1'])
        self.assertEqual(one['rows'], [['100', '2.0 / 2.0', '4.00 / 5.00', '0.70 / 0.70'], ['200', '4.0 / 4.0', '4.00 / 5.00', '0.70 / 0.70']])
        self.assertIn('1,500 thousand tokens a second, padding not counted, against 1,000: 1.50 times as many.', one['remark'])
        self.write('pretraining.json', {'device': 'a card', 'shape': 'S', 'batch': 'B', 'ours': side(1.5e6, 4)})
        (one,) = made.pretraining_tables(self.results())
        self.assertEqual(one['rows'][0], ['100', '2.0', '4.00', '0.70'])
        self.assertEqual(one['remark'], 'S from scratch on a card, bf16, B: 1,500 thousand tokens a second, padding not counted.')

    def test_becomes_markdown(self):
        first, second = made.table(['a', 'b'], [['1.2', '']], 'T', 'R.'), made.table(['c'], [['x']])
        self.assertEqual(made.markdown([first]), '### T\nR.\n\n| a | b |\n| --- | --- |\n| 1.2 |  |\n')
        self.assertEqual(made.markdown([first, second]), made.markdown([first]) + '\n| c |\n| --- |\n| x |\n')


class VerdictTest(Folder):
    """A paper's figures of our own making beside runs of three seeds."""

    def setUp(self):
        super().setUp()
        place = verdict_tables.PUBLISHED
        self.addCleanup(setattr, verdict_tables, 'PUBLISHED', place)
        verdict_tables.PUBLISHED = self.folder

        def row(method, score, **more):
            return {'task': 'RTE', 'split': 'dev', 'metric': 'accuracy', 'method': method, 'score': score, **more}
        papers = {'deebert': [row(f'DeeBERT {letter}', 60, score_change=change, backbone='bert-base', speed={'value': saved})
                              for letter, change, saved in (('a', -1.0, 0.25), ('b', -1.0, 0.5), ('c', 1.0, 0.25))],
                  'pabee': [row('PABEE', 62, backbone='albert-base', speed={'value': 1.5}), row('full depth', 60, backbone='albert-base')],
                  'elbert': [row('ELBERT', 80, backbone='albert-large', speed={'value': 0.5})],
                  'elasticbert': [row('ElasticBERT-base-6L', 70), row('Other-6L', 66), row('ElasticBERT-base-6L', 60, split='test')],
                  'romebert': [row(method, score, exit=layer) for method, layer, score in (
                      ('RomeBERT', 6, 64), ('DeeBERT', 6, 60), ('RomeBERT', 12, 66), ('DeeBERT', 12, 65))]}
        for name, rows in papers.items():
            self.write(f'{name}.json', {'rows': rows})

    def run_seeds(self, recipe, half, last, seeds=3, **settings):
        """`half`, `last`: accuracy at exits 6 and 12; `settings`: {policy: (layers, accuracy by seed)}."""
        self.keep('paper-settings', *(run_of('RTE', recipe, [{'layer': 6, 'accuracy': half[i]}, {'layer': 12, 'accuracy': last}], seed=i)
                                      for i in range(seeds)))
        self.replays = getattr(self, 'replays', []) + [
            {'task': 'RTE', 'recipe': recipe, 'seed': i, 'exits': 'all', 'rows': [
                {'policy': policy, 'layers': layers, 'metrics': {'accuracy': values[i]}} for policy, (layers, values) in settings.items()]}
            for i in range(seeds)]
        self.write('paper-settings-replayed.json', self.replays)

    def verdicts(self):
        return [row[3:5] for row in self.only('verdicts')['rows']]

    def test_a_claim_holds_where_the_mean_less_the_spread_reaches_the_papers_figure(self):
        self.assertEqual(made.SECTIONS['verdicts'](self.results()), [])
        even = (0.5, 0.5, 0.5)
        self.run_seeds('deebert', even, 0.6, **{'entropy:0.1': (9, (0.595, 0.595, 0.595)), 'entropy:0.2': (6, (0.58, 0.59, 0.60)),
                                                'entropy:0.3': (3, even)})
        self.run_seeds('romebert', (0.56, 0.57, 0.58), 0.6)  # +7 ± 1 beside DeeBERT's +4; the last exit +0 beside +1
        self.run_seeds('elasticbert', even, 0.6)
        self.run_seeds('pabee', even, 0.6, **{'patience:2': (6, (0.5, 0.6, 0.7)), 'patience:9': (12, even)})
        self.run_seeds('elbert', even, 0.6, **{'window:0.5,8,bias_1': (12, even), 'window:0.9,8,bias_1': (4, (0.6, 0.6, 0.6))})
        found = self.verdicts()
        self.assertEqual(found[:3], [['RTE -0.5 ± 0.0 at 1.33×', '**holds** on RTE'],
                                     ['RTE -1.0 ± 1.0 at 2.00×', '**not shown** on RTE'],  # 2 points below with the spread
                                     ['RTE -0.5 ± 0.0 at 1.33×', '**not shown** on RTE']])
        self.assertEqual(found[3:5], [["RTE the paper's exits +0.0 ± 10.0 at 2.00×", '**not shown** on RTE'], ['as above', '**not shown** on RTE']])
        self.assertEqual(found[5], ['RTE 50.0 ± 0.0 and 60.0 ± 0.0', '**cannot be tested here**'])
        self.assertIn('70.0 on average over GLUE\'s dev sets, Other-6L 66.0', self.only('verdicts')['rows'][5][1])
        self.assertEqual(found[6:9], [['RTE +7.0 ± 1.0', '**holds** on RTE'], ['RTE +0.0 ± 0.0', '**not shown** on RTE'],
                                      ['RTE `romebert-sd` not run', '**cannot be tested here**']])
        self.assertEqual(found[9], ["RTE the paper's exits +0.0 ± 0.0 at 3.00×", '**holds** on RTE'])
        self.write('paper-settings-replayed.json', [{**one, 'rows': one['rows'][-1:] if one['recipe'] == 'deebert' else []} for one in self.replays])
        self.assertEqual(self.verdicts()[0], ['RTE -10.0 ± 0.0 at 4.00×', '**not shown** on RTE'])
        self.assertEqual(self.verdicts()[9], ['RTE no setting as fast', '**not shown** on RTE'])
        self.run_seeds('romebert-sd', even, 0.59)
        self.assertEqual(self.verdicts()[8], ['RTE +1.0 ± 0.0', '**holds** on RTE'])

    def test_readers_count_with_enough_seeds(self):
        even = (0.6, 0.6, 0.6)
        for recipe in ('deebert', 'romebert'):
            self.run_seeds(recipe, even, 0.6, **{'entropy:0.3': (3, even)})
        self.run_seeds('elbert', even, 0.6, **{'window:0.9,8,bias_1': (4, even)})
        self.run_seeds('pabee', even, 0.7, **{'patience:2': (6, even)})
        self.run_seeds('pabee-readers', even, 0.6, seeds=2, **{'patience:2': (6, even)})
        text = "RTE the paper's exits -10.0 ± 0.0 at 2.00×, readers +0.0 ± 0.0 at 2.00×"
        self.assertEqual(self.verdicts()[3], [text + ' (2 seeds of 3, the others not run)', '**not shown** on RTE'])
        self.keep('grid', *(run_of('RTE', 'exeunt', exits(0.5, 0.6), seed=seed) for seed in range(3)))
        self.write('curves.json', [{'task': 'RTE', 'recipe': 'exeunt', 'seed': seed, 'split': 'eval', 'rows': [
            {'policy': 'patience:3', 'score': 60.0, 'layers': 8.0}]} for seed in range(3)])
        self.assertEqual(self.verdicts()[3], [text + ' (2 seeds of 3, the others not run), `exeunt` +0.0 ± 0.0 at 1.50×',
                                              '**holds with readers** on RTE'])
        self.assertEqual(self.verdicts()[4], ['as above', '**not shown** on RTE'])  # +2 asked for

    def test_gradient_regularization_is_also_judged_with_the_shared_settings(self):
        even = (0.6, 0.6, 0.6)
        for recipe in ('deebert', 'romebert', 'pabee'):
            self.run_seeds(recipe, even, 0.6, **{'entropy:0.3': (3, even)})
        for recipe, last in (('romebert', 0.6), ('romebert-sd', 0.59)):
            self.keep('grid', *(run_of('RTE', recipe, exits(0.5, last), seed=seed) for seed in range(3)))
        self.assertEqual(self.verdicts()[8], ['RTE `romebert-sd` not run (shared settings +1.0 ± 0.0)', '**holds with shared settings** on RTE'])
        self.run_seeds('romebert-sd', even, 0.59)
        self.assertEqual(self.verdicts()[8], ['RTE +1.0 ± 0.0 (shared settings +1.0 ± 0.0)', '**holds** on RTE'])


class FigureTest(Folder):
    def test_methods_have_means_over_seeds_and_their_spread(self):
        lines = reproducing.method_lines(self.results(), 'SST-2')
        self.assertEqual(list(lines), ['exeunt train, entropy', 'no exits, full depth'])
        ((layers, score, spread),) = lines['exeunt train, entropy']
        self.assertEqual((layers, score, round(spread, 4)), (4.0, 91.5, 0.7071))
        self.assertEqual(lines['no exits, full depth'], [(1, 92.0, 0), (12, 92.0, 0)])  # one seed
        # A paper's own rule in more settings goes before the curves'; a single seed is said to be one.
        self.write('papers.json', [{'task': 'SST-2', 'recipe': 'elbert', 'seed': 1, 'rows': [
            {'policy': policy, 'layers': 6.0, 'metrics': {'accuracy': 0.8}} for policy in ('window:0.5,8,bias_1', 'nentropy:0.2')]}])
        self.assertEqual(reproducing.method_lines(self.results(), 'SST-2')['ELBERT, window (one seed)'], [(6.0, 80.0, 0)])
        run = attach_run('command', 'plain', 'as it is', 1.0, apart={'dev': {
            'early': {'accuracy': 0.9, 'average_layers': 3.0}, 'full': {'accuracy': 0.91, 'average_layers': 12.0}}})
        (self.folder / 'attach.jsonl').write_text(json.dumps(run) + '\n')
        self.assertEqual(reproducing.method_lines(self.results(), 'SST-2')['exeunt attach at 2 % and at full depth'],
                         [(3.0, 90.0, 0), (12.0, 91.0, 0)])

    def test_bands_are_as_wide_as_the_spread_and_cut_off_at_the_floor(self):
        drawn = panels({'T': {'a': [(0, 0, 0), (10, 50, 10)], 'b': [(0, 60), (10, 60)]}}, 'C', (348, 260), floor=10)
        # 300 wide from 38; 200 high from 26, for 49.45 (5 % of 11 below 50) to 60.55.
        self.assertIn('<polygon points="38.0,1117.0 338.0,35.9 338.0,396.3 38.0,1117.0"', drawn)
        self.assertIn('<rect x="35" y="26" width="306" height="200"/>', drawn)
        self.assertEqual(drawn.count('<polygon'), 1)
        self.assertIn('<title>a: 50.0 ± 10.0 at 10.0</title>', drawn)
        self.assertNotIn('clip-path', panels({'T': {'b': [(0, 60), (10, 60)]}}, 'C'))


class PhraseTest(Folder):
    def test_has_counts_as_words(self):
        self.assertEqual(self.phrase('runs'), '5 runs with 6,050 steps')
        self.assertEqual(self.phrase('seeds'), '2.0 on SST-2')
        self.assertEqual(self.phrase('torch'), 'LibTorch 2.11.0')
        self.assertEqual(self.phrase('held-out-rows'), '7,349')  # SST-2 has 67,349
        self.keep('grid', run_of('SST-2', 'pabee', [], rows=67349, torch='2.12.0'))
        self.assertEqual(self.phrase('torch'), 'LibTorch 2.11.0 and 2.12.0')
        self.assertIn('got runs of SST-2 on [60000, 67349] rows, want one number', self.refusal('held-out-rows'))

    def test_counts_the_runs_of_a_kernel(self):
        (self.folder / 'grid.jsonl').unlink()
        for task, layers, kernel in (('RTE', 0, 'cudnn'), ('RTE', 0, 'efficient'), ('CoLA', 0, 'efficient'), ('elue-MRPC', 3, 'cudnn')):
            self.keep('grid', run_of(task, 'plain', [], layers=layers, attention=kernel))
        self.assertEqual(self.phrase('cudnn-runs'), '2 of the 4 runs (RTE: 1 of 2, truncated models: 1 of 1)')


class ScoresTest(Folder):
    def test_are_means_over_the_seeds(self):
        self.keep('grid', run_of('RTE', 'deebert', exits(0.5, 0.6)), run_of('RTE', 'deebert', exits(0.5, 0.8), seed=2))
        self.write('papers.json', [{'task': 'RTE', 'recipe': 'deebert', 'rows': [
            {'policy': 'entropy:0.6', 'layers': layers, 'metrics': {'accuracy': score}}]} for layers, score in ((7, 0.5), (9, 0.75))])
        found = {(one['task'], one['recipe']): one for one in reproducing.mean_scores(self.results())['results']}
        self.assertEqual(found['RTE', 'deebert'], {
            'task': 'RTE', 'recipe': 'deebert', 'cut_short': False, 'backbone': 'small', 'seeds': 2, 'train_rows': 60000,
            'exits': [{'layer': 1, 'accuracy': 0.5}, {'layer': 12, 'accuracy': 0.7}], 'differs': ['objective sum, not last', 'batch 32, not 8'],
            'settings': [{'policy': 'entropy:0.6', 'layers': 8.0, 'accuracy': 0.625}]})
        self.assertTrue(found['elue/MRPC', 'elasticbert-static']['cut_short'])
        self.assertEqual(found['MRPC', 'exeunt']['exits'][1], {'layer': 12})
        self.assertEqual(found['SST-2', 'exeunt']['settings'][0], {'policy': 'entropy:0.2', 'layers': 4.0, 'accuracy': 0.915})

    def test_give_the_papers_settings_before_the_others(self):
        self.keep('grid', run_of('RTE', 'deebert', exits(0.5, 0.6)))
        self.keep('paper-settings', run_of('RTE', 'deebert', exits(0.5, 0.75)), run_of('RTE', 'pabee-readers', exits(0.5, 0.6)))
        self.write('paper-settings-replayed.json', [
            {'task': 'RTE', 'recipe': 'deebert', 'seed': 1, 'exits': which, 'rows': [
                {'policy': 'entropy:0.6', 'layers': layers, 'metrics': {'accuracy': 0.5}}]} for which, layers in (('all', 6), ('7 to 12', 9))])
        found = [one for one in reproducing.mean_scores(self.results())['results'] if one['task'] == 'RTE']
        self.assertEqual([one['exits'][-1]['accuracy'] for one in found], [0.75, 0.6])
        self.assertEqual(found[0]['settings'], [{'policy': 'entropy:0.6', 'layers': 6.0, 'accuracy': 0.5}])

    def test_name_the_settings_that_are_not_the_papers(self):
        stage = {'lr': 5e-5, 'batch': 8, 'epochs': 10}  # 10: the recipe's own for RoBERTa
        stages = [{'objective': {'kind': kind}, 'train': part, **stage} for kind, part in (('last', 'backbone'), ('early_sum', 'exits'))]
        settings = {'stages': stages, 'compat': {'adamw': 'torch', 'dyn_grad': 'fresh'}}
        self.assertEqual(reproducing.differs('deebert', settings), ['lr 5e-05, not 2e-05', 'adamw torch, not hf'])
        learned = {'objective': {'kind': 'learned', 'init': 2, 'lr': 0.01}, 'batch': 32, 'lr': 3e-5, 'epochs': 3}
        self.assertEqual(reproducing.differs('elbert', {'stages': [learned], 'compat': {'dyn_grad': 'fresh'}}), [
            'init 2, not 4', 'dyn_grad fresh, not accumulate'])
        # Every field of a recipe, one after the other.
        for change, text in (
                ({'heads': {'reader': 'own'}}, 'reader own, not none'), ({'heads': {'pool_input': 'mean'}}, 'pool_input mean, not cls'),
                ({'exits': 'last:2'}, 'exits last:2, not all'), ({'gradient': {'rule': 'equilibrium'}}, 'rule equilibrium, not none'),
                ({'compat': {'frozen': 'eval'}}, 'frozen eval, not train'), ({'run': {'warmup_steps': 9}}, '9 warm-up steps, not a share'),
                ({'run': {'adam_epsilon': 1e-6}}, 'adam_epsilon 1e-06, not 1e-08')):
            own = [{**one, 'lr': 2e-5} for one in stages]
            self.assertEqual(reproducing.differs('deebert', {'stages': own} | change), [text])
        for name, value, text in (('early_stop', 5, 'early_stop 5, not none'), ('keep_best', 'mean', 'keep_best mean, not none'),
                                  ('label_smoothing', 0.1, 'label_smoothing 0.1, not 0'), ('train', 'all', 'train all, not backbone')):
            own = [{**stages[0], 'lr': 2e-5, name: value}]
            self.assertEqual(reproducing.differs('deebert', {'stages': own}), [text])
        # ElasticBERT's static models say how often they are evaluated, and when they stop.
        static = {'objective': {'kind': 'last'}, 'lr': 2e-5, 'batch': 32, 'epochs': 10, 'weight_decay': 0.1, 'warmup': 0.06,
                  'eval_every': 400, 'early_stop': 10, 'keep_best': 'last'}
        self.assertEqual(reproducing.differs('elasticbert-static', {'exits': 'last', 'stages': [static]}), ['eval_every 400, not 50'])
        self.assertEqual(reproducing.differs('deebert', {}), [])
        own = {'stages': [{'objective': {'kind': 'linear'}, 'lr': 2e-5, 'batch': 32, 'epochs': 5}]}
        self.assertEqual(reproducing.differs('pabee', own | {'run': {'precision': 'fp32', 'max_length': 128, 'window': 0}}), [])
        self.assertEqual(reproducing.differs('pabee', own | {'run': {'precision': 'bf16', 'max_length': 64, 'window': 50}}), [
            'precision bf16, not fp32', 'max_length 64, not 128', 'batches of like lengths out of 50 at a time, not of any'])


class PageTest(Folder):
    def fill(self, page):
        return made.fill_marks(page, 'p.md', self.results())

    def test_changes_what_is_between_marks_and_nothing_else(self):
        page = ('# T\nIn <!-- from results: runs -->3<!-- end of results --> runs,\n'
                '<!-- from results: cut-short -->\nold\n\nolder\n<!-- end of results -->\nand more.')
        filled = self.fill(page)
        self.assertIn('In <!-- from results: runs -->5 runs with 6,050 steps<!-- end of results --> runs,\n', filled)
        self.assertRegex(filled, r'(?s)cut-short -->\n\| task \|.*\| MRPC \|.*\|\n<!-- end of results -->\nand more.$')
        self.assertEqual(self.fill(filled), filled)

    def test_refuses_marks_that_do_not_fit(self):
        runs, end = '<!-- from results: runs -->', '<!-- end of results -->'
        for page, message in (
                ('words', 'p.md:1: got no mark in it'), (f'a\n<!-- from results: cut-short -->\ntext', "p.md:2: mark 'cut-short': got no end"),
                (f'a {runs} {runs} {end}', "p.md:1: mark 'runs': got a mark inside it"), (f'\n\n{end} a {runs}1{end}', f'p.md:3: got {end} without'),
                (f'a {runs}1{end}\n{end}', f'p.md:2: got {end} without'), (f'a <!-- from results: x\n --> {end}', 'p.md:1: got a mark without'),
                ('<!-- from results: x', 'p.md:1: got a mark without'), (f'{runs}1{end}', "p.md:1: mark 'runs': want it on a line of its own"),
                (f'In {runs}\n1\n{end}', "p.md:1: mark 'runs': want it on a line of its own"),
                (f'<!-- from results: exits -->\n| 1 | {end}', "p.md:2: mark 'exits': want its end on a line of its own"),
                (f'a <!-- from results: run -->{end}', "p.md:1: unknown count 'run', want one of runs,"),
                (f'{runs}\n{end}', "p.md:1: unknown table 'runs', want one of verdicts, speed,"),
                (f'<!-- from results: speed -->\n{end}', "p.md:1: 'speed': ")):
            with self.subTest(page), self.assertRaises(SystemExit) as caught:
                self.fill(page)
            self.assertIn(message, str(caught.exception))

    def test_names_the_first_line_that_differs(self):
        self.assertIsNone(made.first_difference('a\nb', 'a\nb'))
        self.assertEqual(made.first_difference('a\nbc\nd', 'a\nbd\nd'), (2, 'bc', 'bd'))
        self.assertEqual(made.first_difference('a', 'a\n'), (2, '', ''))
        self.assertEqual(made.first_difference('', 'x\ny'), (1, '', 'x'))

    def test_check_fails_on_a_page_that_says_something_else(self):
        page = (ROOT / 'lab/notebooks/reproducing.md').read_text(encoding='utf-8')
        edited, runs = self.folder / 'page.md', len(made.Results(ROOT / 'lab/studies/results').runs)
        for old, new in ((f'{runs} runs', f'{runs + 1} runs'), ('| 828 |', '| 829 |')):
            self.assertIn(old, page)
            edited.write_text(page.replace(old, new), encoding='utf-8')
            done = subprocess.run([sys.executable, ROOT / 'lab/studies/reproducing.py', '--check', edited], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(new, done.stderr)


class AttachTables(unittest.TestCase):
    def tables(self, runs):
        results = made.Results.__new__(made.Results)
        results.attached = runs
        return results

    def test_a_change_stands_beside_the_default_of_the_same_task_and_seed(self):
        runs = [attach_run('heads', 'plain', 'as it is', 1.0), attach_run('heads', 'plain', 'as it is', 2.0, seed=2),
                attach_run('heads', 'plain', 'wider', 1.1), attach_run('heads', 'plain', 'wider', 2.6, seed=2),
                attach_run('heads', 'plain', 'wider', 9.0, task='RTE'), attach_run('heads', 'exeunt', 'joint', 0.5)]
        (found,) = made.attach_trial_tables(self.tables(runs))
        joint = ['exits trained jointly by `exeunt`', '1', '1'] + 3 * ['-50.0']  # one pair has no error
        self.assertEqual(found['rows'], [joint, ['wider', '1', '2'] + 3 * ['+20.0 ± 10.0']])

    def test_dev_stands_beside_rows_that_share_no_words(self):
        def apart(layers, agreement):
            early = {'accuracy': 0.9, 'agreement': agreement, 'average_layers': 3.0}
            return {'layers': layers, 'risk': 0.01, 'dev': {'full': {'accuracy': 0.91}, 'early': early}}
        runs = [attach_run('command', 'plain', 'as it is', 1.0, seed=seed, apart=apart(*values), texts={'learned': 10 * seed})
                for seed, values in ((1, (2.0, 0.99)), (2, (3.0, 0.97)))]
        (found,) = made.apart_tables(self.tables(runs))
        self.assertEqual(found['rows'][-1], ['mean', '2.50 ± 0.71', '1.00 ± 0.00', '3.00 ± 0.00', '2.00 ± 1.41', '91.0 ± 0.0', '90.0 ± 0.0'])
        self.assertEqual(made.apart_layers_phrase(self.tables(runs)), '2.50 of 12 layers')
        self.assertEqual(made.apart_changed_phrase(self.tables(runs)), '1.0 %')
        self.assertEqual(made.apart_dev_phrase(self.tables(runs)), '2.0 % at 3.00 layers')
        (found,) = made.attached_tables(self.tables(runs))
        self.assertEqual(found['rows'], [
            ['SST-2', '2', '15'] + [f'{points}.00 ± 0.00 ({points}.0 ± 0.0 %)' for points in (3, 2, 1)]])

    def test_a_task_shows_the_default_rate_where_it_was_run(self):
        runs = [attach_run('command', 'plain', variant, layers, texts={'learned': 10})
                for variant, layers in (('as it is', 2.0), ('default rate', 1.0))]
        (found,) = made.attached_tables(self.tables(runs))
        self.assertEqual(found['rows'], [['SST-2', '1', '10', '3.00 (3.0 %)', '2.00 (2.0 %)', '1.00 (1.0 %)']])

    def test_fresh_seeds_are_those_that_the_rule_was_not_read_from(self):
        runs = [attach_run('heads', 'plain', variant, layers, seed=seed) for seed in (42, 45, 46)
                for variant, layers in (('as it is', 1.0), ('lr 3e-3', 0.9 if seed == 45 else 0.8))]
        (found,) = made.attach_fresh_tables(self.tables(runs))
        self.assertEqual(found['rows'], [['SST-2', '45, 46'] + 3 * ['-15.0 ± 5.0']])

    def test_a_last_stage_stands_beside_joint_training_of_the_same_task_and_seed(self):
        runs = [attach_run('stage', 'exeunt', variant, layers, seed=seed) for seed in (1, 2)
                for variant, layers in (('joint', 1.0), ('lr 1e-3, 4 epochs', 0.9 if seed == 1 else 0.7))]
        runs.append(attach_run('stage', 'exeunt', 'lr 1e-3, 4 epochs', 0.1, task='RTE'))  # nothing to compare it with
        (found,) = made.attach_stage_tables(self.tables(runs))
        self.assertEqual(found['rows'], [['lr 1e-3, 4 epochs', 'all', '2'] + 3 * ['-20.0 ± 10.0'], ['', 'SST-2', '2'] + 3 * ['-20.0 ± 10.0']])

    def test_the_demo_has_both_models_of_a_seed(self):
        gain = {'certify.csv': {'fewer layers': 2.5}}
        runs = [attach_run('command', 'plain', 'as it is', 1.0, task='feedback', **gain),
                attach_run('command', 'exeunt', 'joint', 1.0, task='feedback', **{'certify.csv': {'fewer layers': 2.25}})]
        (found,) = made.attach_demo_tables(self.tables(runs))
        self.assertEqual(found['rows'], [['1', '2.50×', '2.25×'], ['mean', '2.50×', '2.25×']])


class Study(unittest.TestCase):
    """Two seeds with the defaults, one setting that was tried, and a run as it is typed."""

    def setUp(self):
        def run(part, seed, last, linear, tried='', **more):
            return {'set': 'SMS-Spam', 'encoder': 'MiniLM', 'part': part, 'tried': tried, 'seed': seed,
                    'settings': {'name': 'exeunt', 'seed': seed}, **more,
                    'results': {'train_samples': 4459, 'exits': [{'layer': 1, 'accuracy': 0.5}, {'layer': 6, 'accuracy': last}],
                                'yardstick': {'linear model': {'accuracy': linear}}}}
        tested = {'promise': 'at most 2 % of answers to requests differ from the fp32 model at full depth', 'speedup_ratio': 2.5,
                  'agreement': 0.99, 'each_exit': [{'accuracy': 0.985}]}
        self.study = [run('defaults', 42, 0.99, 0.97), run('defaults', 43, 0.98, 0.98), run('settings', 42, 0.96, 0.9, 'lr=1e-4'),
                      run('typed', 42, 0.95, 0.9, tested=tested),
                      run('cpu', 42, 0.95, 0.9, seconds=264, tested=tested | {'yardstick': {'linear model': {'accuracy': 0.9}}})]
        self.study[-1]['results']['processor'] = 'some processor'

    def text(self, name):
        return made.markdown(made.SECTIONS[name](self))

    def test_defaults_stand_beside_the_linear_model_of_the_same_rows(self):
        self.assertIn('| SMS-Spam | 4,459 | 97.5 | 98.5 (98.0 to 99.0, 2 seeds) | – | – |', self.text('study'))

    def test_settings_are_not_mixed_with_defaults(self):
        self.assertIn('| `lr=1e-4` | 96.0 |', self.text('study-settings'))
        self.assertIn('| linear model | 90.0 |', self.text('study-settings'))

    def test_a_batch_is_compared_with_the_same_setting_on_the_same_rows(self):
        (first,) = [run for run in self.study if run['part'] == 'settings']
        for seed, tried, last in ((42, 'lr=1e-4 batch=16', 0.97), (43, 'lr=1e-4', 0.91), (43, 'lr=1e-4 batch=16', 0.90),
                                  (42, 'lr=1e-4 start=prototypes', 0.9), (42, 'lr=1e-4 start=prototypes batch=16', 0.95),
                                  (44, 'lr=1e-4 batch=16', 0.5), (42, 'lr=2e-4 batch=16', 0.5), (42, 'lr=1e-4 batch=16 warmup=0', 0.5)):
            exits = [{'layer': 6, 'accuracy': last}]
            self.study.append(first | {'seed': seed, 'tried': tried, 'results': first['results'] | {'exits': exits}})
        self.assertIn('| MiniLM, `batch=16` | +0.0 | +0.0 ± 1.0 (2) |', self.text('study-changes'))
        self.assertIn('| MiniLM from prototypes, `batch=16` | +5.0 | +5.0 ± 0.0 (1) |', self.text('study-changes'))
        self.assertEqual(self.text('study-changes').count('MiniLM'), 2, 'what has nothing to be compared with is left out')

    def test_a_typed_run_tells_its_promise_and_what_it_saves(self):
        self.assertIn('| SMS-Spam, MiniLM | 4,459 | 98.5 | 2 % | 2.5 | 1.0 |', self.text('study-typed'))

    def test_a_run_on_a_cpu_tells_its_time(self):
        self.assertIn('| SMS-Spam, MiniLM | some processor | 4.4 | 98.5 | 90.0 |', self.text('study-cpu'))

    def test_nothing_is_made_of_nothing(self):
        self.study = []
        for name in ('study', 'study-typed', 'study-settings', 'study-changes', 'study-time', 'study-cpu'):
            self.assertEqual(made.SECTIONS[name](self), [])


if __name__ == '__main__':
    unittest.main()
