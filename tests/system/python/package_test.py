# SPDX-License-Identifier: Apache-2.0
"""The installed package `exeunt`: run by wheel_test.py in an environment that has it, with numpy and without."""
import array
import contextlib
import ctypes
import doctest
import importlib
import importlib.util
import inspect
import io
import json
import math
import os
import pickle
import pydoc
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import typing
import unittest
import unittest.mock
from pathlib import Path

import exeunt

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / 'tests/fixtures/checkpoints/bert-deebert'
STATE = tempfile.TemporaryDirectory()  # where tries are counted
os.environ['XDG_STATE_HOME'] = STATE.name
TEXTS = ['a great film', 'dull and boring', 'a', 'the film was a great surprise']
try:
    import numpy
except ImportError:
    numpy = None


def listed(values):
    return values.tolist() if hasattr(values, 'tolist') else values


class LoadedModel(unittest.TestCase):
    def setUp(self):
        self.model = exeunt.load(MODEL, policy='full')

    def tearDown(self):
        self.model.close()

    def test_names_labels_exits_policy_and_promise(self):
        self.assertEqual(self.model.labels, ['negative', 'positive'])
        self.assertEqual(self.model.policy, 'full')
        self.assertEqual(self.model.exits[-1], len(self.model.exits))
        self.assertIn('none', self.model.promise)

    def test_answers_have_arrays_of_numpy_where_it_is_installed(self):
        answers = self.model(TEXTS)
        self.assertEqual(len(answers), 4)
        if numpy is not None:
            self.assertEqual(answers.scores.shape, (4, 2))
            self.assertEqual(answers.layers.dtype, numpy.int32)
        else:
            self.assertIsInstance(answers.scores, list)
            self.assertEqual([len(row) for row in answers.scores], [2] * 4)
        for row, label, name in zip(listed(answers.scores), listed(answers.label_ids), answers.labels):
            self.assertAlmostEqual(sum(row), 1, 5)
            self.assertEqual(label, row.index(max(row)))
            self.assertEqual(name, self.model.labels[label])
        self.assertEqual(listed(answers.tokens)[0], 5)
        self.assertEqual(listed(answers.truncated), [0] * 4)

    def test_a_batch_is_answered_like_each_text_alone(self):
        together = self.model(TEXTS)
        for i, text in enumerate(TEXTS):
            self.assertEqual(listed(self.model(text).scores)[0], listed(together.scores)[i])

    def test_a_policy_holds_for_its_call(self):
        self.assertEqual(set(listed(self.model(TEXTS, policy='layer:1').layers)), {1})
        self.assertEqual(set(listed(self.model(TEXTS).layers)), {self.model.exits[-1]})
        with self.assertRaises(exeunt.Error) as caught:
            self.model(TEXTS, policy='entropie:0.2')
        self.assertEqual(caught.exception.status, 2)
        self.assertIn('entropy', caught.exception.hint)

    def test_pairs_count(self):
        alone, paired = self.model(TEXTS[:1]), self.model(TEXTS[:1], pairs=['it was'])
        self.assertGreater(listed(paired.tokens)[0], listed(alone.tokens)[0])
        with self.assertRaisesRegex(ValueError, 'pairs: got 1, want 2'):
            self.model(TEXTS[:2], pairs=['one'])

    def test_refuses_pairs_where_training_had_single_texts(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MODEL, folder, dirs_exist_ok=True)
            (Path(folder) / 'recipe.json').write_text('{"run": {"texts": 1}}')
            with exeunt.load(folder) as model:
                with self.assertRaisesRegex(exeunt.Error, 'got a pair of texts, and the model was trained on single ones'):
                    model(TEXTS[:1], pairs=['it was'])
                self.assertEqual(len(model(TEXTS)), 4)

    def test_leaves_blank_texts_blank(self):
        answers = self.model(['', TEXTS[0], ' \t\n'])
        alone = self.model(TEXTS[0])
        self.assertEqual(answers.labels, [None, *alone.labels, None])
        self.assertEqual(listed(answers.label_ids), [-1, *listed(alone.label_ids), -1])
        self.assertEqual(listed(answers.layers), [0, *listed(alone.layers), 0])
        self.assertEqual(listed(answers.scores)[1], listed(alone.scores)[0])
        self.assertTrue(all(math.isnan(score) for row in (0, 2) for score in listed(answers.scores)[row]))
        self.assertEqual([answer['label'] for answer in answers.pipeline()], [None, *alone.labels, None])
        self.assertIn('blank, ', repr(answers))
        with self.assertRaisesRegex(exeunt.Error, 'text 0: got an empty text'):
            self.model.trace([''])

    def test_tells_an_answer_before_the_first_layer_from_a_blank_text(self):
        rooms = {}
        for name, code, rows in (('labels', 'i', [[1], [-1]]), ('scores', 'f', [[.25, .75], [math.nan] * 2]), ('given', 'b', [[0, 1], [0, 0]]),
                                 ('layers', 'i', [[0], [0]]), ('tokens', 'i', [[5], [0]]), ('truncated', 'b', [[0], [0]])):
            rooms[name] = exeunt._arrays.Room(code, 2, *([2] if len(rows[0]) > 1 else []))
            values = array.array(code, sum(rows, [])).tobytes()
            ctypes.memmove(rooms[name].row(0), values, len(values))
        for multi_label, labels in ((False, ['spam', None]), (True, [['spam'], None])):
            answers = exeunt.Answers(['ham', 'spam'], multi_label, rooms, 2)
            self.assertEqual(answers.labels, labels)
            self.assertEqual([answer['label'] for answer in answers.pipeline()], ['spam', None])
            self.assertRegex(repr(answers), r'spam.* 0\.75 \(layer 0\), blank>')

    def test_takes_any_iterable_and_zeros_and_nothing(self):
        self.assertEqual(listed(self.model(iter(TEXTS)).scores), listed(self.model(TEXTS).scores))
        self.assertEqual(len(self.model([])), 0)
        self.assertEqual(self.model([]).labels, [])
        cut = self.model(['a\0 great film'])
        self.assertEqual(listed(cut.tokens)[0], 5, 'what lies behind a zero is read')

    def test_refuses_what_is_no_text_by_its_place(self):
        with self.assertRaisesRegex(TypeError, 'texts: got int at 1, want str'):
            self.model(['a', 3])
        with self.assertRaisesRegex(TypeError, 'got bytes at 0'):
            self.model([b'a'])
        with self.assertRaises(UnicodeEncodeError):
            self.model(['\ud800'])
        with self.assertRaisesRegex(TypeError, 'texts: got a dict, want texts'):
            self.model({'text': TEXTS})

    def test_pipeline_shapes(self):
        one = self.model(TEXTS).pipeline()
        self.assertEqual([set(answer) for answer in one], [{'label', 'score'}] * 4)
        every = self.model(TEXTS).pipeline(top_k=None)
        self.assertEqual([len(answer) for answer in every], [2] * 4)
        for best, ranked in zip(one, every):
            self.assertEqual(best, ranked[0])
            self.assertGreaterEqual(ranked[0]['score'], ranked[1]['score'])

    def test_answers_show_what_they_hold(self):
        answers = self.model(TEXTS)
        first = f'{answers.labels[0]} {max(listed(answers.scores)[0]):.2f} (layer {self.model.exits[-1]}), '
        self.assertTrue(repr(answers).startswith(f'<exeunt.Answers of 4 texts: {first}'), repr(answers))
        self.assertTrue(repr(answers).endswith(', …>'))
        page = pydoc.plain(pydoc.render_doc(exeunt.Answers))
        for name in ('label_ids', 'scores', 'given', 'layers', 'tokens', 'truncated', 'labels', 'to_pandas'):
            self.assertIn(name, page)

    def test_runs_on_the_device_asked_for(self):
        with exeunt.load(MODEL, device='cpu') as model:
            self.assertTrue(model.engine.startswith('cpu/'), model.engine)
            self.assertEqual(listed(model(TEXTS, policy='full').scores), listed(self.model(TEXTS).scores))
            self.assertEqual(pickle.loads(pickle.dumps(model))._arguments[-1], 'cpu')
        with self.assertRaises(exeunt.Error) as caught:
            exeunt.load(MODEL, device='cuda:99')
        self.assertEqual(caught.exception.code, 'resources')
        self.assertIn('device="cpu"', caught.exception.hint)

    def test_errors_have_a_code_a_hint_and_a_name(self):
        with self.assertRaises(exeunt.Error) as caught:
            self.model(TEXTS, policy='entropie:0.2')
        self.assertEqual(caught.exception.code, 'usage')
        last = traceback.format_exception_only(type(caught.exception), caught.exception)
        self.assertTrue(last[0].startswith('exeunt.Error: '), last)
        self.assertTrue(issubclass(exeunt.CommandError, exeunt.Error))

    def test_many_texts_go_in_parts_with_progress(self):
        wanted, traced, told = self.model(TEXTS), self.model.trace(TEXTS), []
        with unittest.mock.patch('exeunt._model._PART', 3):
            parted = self.model(TEXTS, progress=lambda done, count: told.append((done, count)))
            self.assertEqual(told, [(3, 4), (4, 4)])
            for name in ('label_ids', 'scores', 'given', 'layers', 'tokens', 'truncated'):
                self.assertEqual(listed(getattr(parted, name)), listed(getattr(wanted, name)), name)
            again = self.model.trace(TEXTS)
            self.assertEqual((listed(again.logits), listed(again.tokens)), (listed(traced.logits), listed(traced.tokens)))
            with self.assertRaisesRegex(exeunt.Error, 'text 3: got an empty text'):
                self.model.trace([*TEXTS[:3], ''])
            with self.assertRaisesRegex(TypeError, 'texts: got int at 3'):
                self.model([*TEXTS[:3], 3])
            paired = self.model(TEXTS, pairs=TEXTS[::-1])
        self.assertEqual(listed(paired.tokens), listed(self.model(TEXTS, pairs=TEXTS[::-1]).tokens))

    def test_many_threads_share_a_model(self):
        wanted = listed(self.model(TEXTS).scores)
        wrong = []

        def ask():
            for _ in range(20):
                if listed(self.model(TEXTS).scores) != wanted:
                    wrong.append(1)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_travels_to_another_process(self):
        with pickle.loads(pickle.dumps(self.model)) as again:
            self.assertEqual(listed(again(TEXTS).scores), listed(self.model(TEXTS).scores))
        error = pickle.loads(pickle.dumps(exeunt.Error(4, 'what', 'do')))
        self.assertEqual((error.status, error.message, error.hint), (4, 'what', 'do'))

    def test_a_closed_model_says_so(self):
        with exeunt.load(MODEL) as model:
            pass
        with self.assertRaisesRegex(ValueError, 'closed'):
            model('a')
        model.close()

    def test_max_length_cuts(self):
        with exeunt.load(MODEL, max_length=4) as model:
            answers = model(TEXTS)
        self.assertEqual(listed(answers.truncated), [1, 1, 0, 1])

    def test_a_folder_that_is_not_there(self):
        with self.assertRaises(exeunt.Error) as caught:
            exeunt.load('no/such/model')
        self.assertEqual(caught.exception.status, 4)
        self.assertIn('no/such/model', str(caught.exception))

    def test_traces_replay_to_the_live_answers(self):
        trace = self.model.trace(TEXTS, gold=[1, 0, 1, 1])
        for policy in ('full', 'layer:1', 'entropy:0.69', 'patience:1'):
            live = self.model(TEXTS, policy=policy)
            replayed = exeunt.replay(trace, policy)
            self.assertEqual(listed(replayed.labels), listed(live.label_ids), policy)
            self.assertEqual([trace.layers[exit] for exit in listed(replayed.exits)], listed(live.layers), policy)


class Predictor(unittest.TestCase):
    """The three lines of a program, and the calls of scikit-learn and transformers."""

    def setUp(self):
        self.model = exeunt.Classifier(MODEL, policy='full')
        self.addCleanup(self.model.close)

    def test_classifier_is_the_class_that_load_returns(self):
        self.assertIs(exeunt.Classifier, exeunt.Model)
        with exeunt.load(MODEL, policy='full') as loaded:
            self.assertEqual(listed(loaded(TEXTS).scores), listed(self.model(TEXTS).scores))

    def test_predicts_classes_in_the_order_of_its_probabilities(self):
        answers, probabilities = self.model(TEXTS), listed(self.model.predict_proba(TEXTS))
        self.assertEqual(listed(self.model.classes_), ['negative', 'positive'])
        self.assertEqual(listed(self.model.predict(TEXTS)), answers.labels)
        self.assertEqual([self.model.classes_[row.index(max(row))] for row in probabilities], answers.labels)
        self.assertEqual(listed(self.model.predict(['', TEXTS[0]])), [None, answers.labels[0]])

    @unittest.skipIf(numpy is None, 'arrays are numpy\'s')
    def test_takes_and_gives_arrays_of_numpy(self):
        for given in (numpy.array(TEXTS), numpy.array(TEXTS, dtype=object)):
            self.assertEqual(self.model.predict(given).tolist(), self.model.predict(TEXTS).tolist())
        answers = self.model(TEXTS)
        self.assertTrue(answers.scores.flags.owndata, 'the library writes into the array itself')
        self.assertEqual(numpy.mean(self.model.predict(TEXTS) == numpy.array(answers.labels)), 1)

    def test_several_labels_are_an_indicator_matrix(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MODEL, folder, dirs_exist_ok=True)
            config = json.loads((MODEL / 'config.json').read_text())
            config['problem_type'] = 'multi_label_classification'
            (Path(folder) / 'config.json').write_text(json.dumps(config))
            with exeunt.Classifier(folder, policy='full') as model:
                wanted = [[int(score > 0.5) for score in row] for row in listed(model.predict_proba(TEXTS))]
                self.assertEqual(listed(model.predict(TEXTS)), wanted)

    def test_pipeline_answers_in_the_shapes_of_transformers(self):
        pipe = exeunt.pipeline('text-classification', self.model)
        one = {'label': self.model(TEXTS[0]).labels[0], 'score': max(listed(self.model(TEXTS[0]).scores)[0])}
        self.assertEqual(pipe(TEXTS[0]), [one])
        self.assertEqual(pipe({'text': TEXTS[0]}), one)
        self.assertEqual(pipe(iter(TEXTS), batch_size=2, truncation=True), self.model(TEXTS).pipeline())
        self.assertEqual(pipe(TEXTS[0], top_k=1), [one])
        self.assertEqual(pipe(TEXTS, top_k=1), [[best] for best in self.model(TEXTS).pipeline()])
        self.assertEqual(pipe(TEXTS, top_k=None), self.model(TEXTS).pipeline(top_k=None))
        self.assertEqual(pipe([]), [])
        paired = self.model(TEXTS[:1], pairs=['it was']).pipeline()
        self.assertEqual(pipe([{'text': TEXTS[0], 'text_pair': 'it was'}]), paired)
        every = exeunt.pipeline('sentiment-analysis', str(MODEL), top_k=None, policy='full', threads=1)
        self.assertEqual(every(TEXTS[0]), self.model(TEXTS[0]).pipeline(top_k=None))
        self.assertEqual(every.model.policy, 'full')
        every.model.close()

    def test_pipeline_refuses_other_tasks_and_mixed_inputs(self):
        with self.assertRaisesRegex(ValueError, "task: got 'fill-mask', want text-classification"):
            exeunt.pipeline('fill-mask', self.model)
        pipe = exeunt.pipeline('text-classification', self.model)
        with self.assertRaisesRegex(ValueError, 'got texts and pairs'):
            pipe([TEXTS[0], {'text': TEXTS[0], 'text_pair': 'it was'}])
        with self.assertRaisesRegex(ValueError, 'truncation: got False'):
            pipe(TEXTS, truncation=False)


class Regression(unittest.TestCase):
    def test_has_values_and_no_labels(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ('config.json', 'exits.json', 'model.safetensors'):
                shutil.copy(ROOT / 'tests/fixtures/golden/heads_regression' / name, folder)
            (Path(folder) / 'vocab.json').write_text('{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4,"b":5}')
            (Path(folder) / 'merges.txt').write_text('#version: 0.2\n')
            with exeunt.load(folder) as model:
                answers = model(['ab', 'a'])
                self.assertEqual(listed(model.predict(['ab', 'a'])), [row[0] for row in listed(answers.scores)])
                self.assertFalse(hasattr(model, 'classes_'))
                with self.assertRaises(AttributeError):
                    model.predict_proba(['ab'])
        self.assertIsNone(answers.labels)
        self.assertEqual(listed(answers.label_ids), [-1, -1])
        self.assertEqual([len(row) for row in listed(answers.scores)], [1, 1])
        self.assertEqual(answers.pipeline()[0], {'label': 'LABEL_0', 'score': listed(answers.scores)[0][0]})


def made_rows(count):
    """Two exits: the first is sure and right in nine of ten rows, unsure and wrong in the others."""
    rows, gold = [], []
    for row in range(count):
        label = row % 2
        full = [4.0 * label, 4.0 * (1 - label)][::-1]
        early = list(full) if row % 10 else [0.1 * (1 - label), 0.1 * label][::-1]
        rows.append([[z + row / 1e6 for z in early], full])  # equal logits are an equal text
        gold.append(label)
    return rows, gold


class SeveralLabels(unittest.TestCase):
    def test_answers_are_lists_of_labels(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MODEL, folder, dirs_exist_ok=True)
            config = json.loads((MODEL / 'config.json').read_text())
            config['problem_type'] = 'multi_label_classification'
            (Path(folder) / 'config.json').write_text(json.dumps(config))
            with exeunt.load(folder, policy='full') as model:
                self.assertEqual(model.problem, 'multi_label_classification')
                answers = model(TEXTS)
                for scores, names in zip(listed(answers.scores), answers.labels):
                    self.assertEqual(names, [name for name, score in zip(model.labels, scores) if score > 0.5])
                trace = model.trace(TEXTS)
                self.assertTrue(trace.multi_label)
                self.assertEqual(listed(exeunt.replay(trace, 'layer:1').exits), [0] * 4)

    def test_labels_are_those_above_the_thresholds_of_the_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            plain, own = Path(folder) / 'plain', Path(folder) / 'own'
            shutil.copytree(MODEL, plain)
            config = json.loads((MODEL / 'config.json').read_text())
            config['problem_type'] = 'multi_label_classification'
            (plain / 'config.json').write_text(json.dumps(config))
            with exeunt.load(plain, policy='full') as model:
                first = sorted(scores[0] for scores in listed(model(TEXTS).scores))
            border = round((first[1] + first[2]) / 2, 6)
            exeunt.run('convert', plain, out=own, thresholds=f'{border},0.9')
            with exeunt.load(own, policy='full') as model:
                self.assertEqual(model.thresholds, [border, 0.9])
                answers = model(TEXTS)
                wanted = [[name for name, score, least in zip(model.labels, scores, model.thresholds) if score > least]
                          for scores in listed(answers.scores)]
                self.assertEqual(answers.labels, wanted)
                self.assertEqual(sum(model.labels[0] in names for names in wanted), 2)
                self.assertEqual(model.trace(TEXTS).thresholds, [border, 0.9])

    def test_calibrates_sets(self):
        rows, gold = made_rows(2000)
        sets = [[[z - 2 for z in exit] for exit in row] for row in rows]
        known = [[1 - label, label] for label in gold]
        found = exeunt.calibrate(sets, known, max_drop=0.02, multi_label=True)
        self.assertIn('at most 2 %', found.promise)
        self.assertEqual(exeunt.sweep(sets, 'full', known, multi_label=True)[0].accuracy, 1)
        with self.assertRaisesRegex(ValueError, 'thresholds: got 1, want 2'):
            exeunt.sweep(sets, 'full', multi_label=True, thresholds=[0.5])


class AnyFramework(unittest.TestCase):
    def test_calibrates_replays_and_sweeps_nested_lists(self):
        logits, gold = made_rows(2000)
        found = exeunt.calibrate(logits, gold, max_drop=[0.05, 0.01])
        self.assertIn('at most 1 %', found.promise)
        self.assertEqual([point['max_drop'] for point in found.points], [0.01, 0.05])
        self.assertEqual(sum(found.rows.values()), 2000)
        replayed = exeunt.replay(logits, found)
        right = sum(int(label) == want for label, want in zip(listed(replayed.labels), gold))
        self.assertEqual(right, 2000, 'what is unsure runs on')
        self.assertLess(sum(listed(replayed.exits)), 2000 * 0.2)
        settings = exeunt.sweep(logits, 'confidence:0.5..0.9/0.2', gold)
        self.assertEqual([one.policy for one in settings], ['confidence:0.5', 'confidence:0.7', 'confidence:0.9'])
        self.assertAlmostEqual(settings[1].layers, 1.1)
        self.assertEqual(settings[1].accuracy, 1)
        self.assertEqual(settings[0].loss, 0.1)
        self.assertIsNone(exeunt.sweep(logits, 'full')[0].accuracy)

    def test_layers_are_those_of_the_exits(self):
        logits, gold = made_rows(2000)
        sparse = exeunt.sweep(logits, 'confidence:0.7', gold, layers=[3, 12])[0]
        self.assertAlmostEqual(sparse.layers, 0.9 * 3 + 0.1 * 12)
        with self.assertRaisesRegex(ValueError, 'layers: got 1, want 2'):
            exeunt.sweep(logits, 'full', layers=[1])

    def test_tensors_of_a_framework_are_taken_by_their_methods(self):
        class Tensor:  # as PyTorch's: on a device, part of a graph
            def __init__(self, values):
                self.values = values

            def detach(self):
                return self

            def cpu(self):
                return self

            def float(self):
                return numpy.array(self.values) if numpy is not None else self

            def tolist(self):
                return self.values

        logits, _ = made_rows(20)
        self.assertEqual(listed(exeunt.replay(Tensor(logits), 'full').labels), listed(exeunt.replay(logits, 'full').labels))

    def test_regression(self):
        rows = [[[row / 100 + (0.5 if row % 5 else 0)], [row / 100]] for row in range(1000)]
        found = exeunt.calibrate(rows, max_drop=0.1, value_range=(0, 10))
        self.assertIn('full depth', found.promise)

    def test_keeps_the_best_of_a_question(self):
        rows = [[[row % 3 + row / 10000 + 0.3], [row % 3 + row / 10000]] for row in range(1500)]
        found = exeunt.calibrate(rows, max_drop=0.1, loss='top:1', clusters=[f'question {row // 3}' for row in range(1500)])
        self.assertIn('questions', found.promise)
        with self.assertRaisesRegex(ValueError, 'clusters: got 1, want 1500'):
            exeunt.calibrate(rows, loss='top:1', clusters=['one'])

    def test_bad_input_is_refused_in_words(self):
        logits, gold = made_rows(20)
        with self.assertRaisesRegex(exeunt.Error, 'rows|texts'):
            exeunt.calibrate(logits, gold, max_drop=0.01)
        with self.assertRaisesRegex(ValueError, 'logits: got shape'):
            exeunt.replay(logits[0], 'full')
        with self.assertRaisesRegex(ValueError, 'gold: got 1, want 20'):
            exeunt.calibrate(logits, gold[:1])
        with self.assertRaises((TypeError, ValueError)):
            exeunt.replay([[[1.0, 2.0], [1.0]]], 'full')
        with self.assertRaisesRegex(TypeError, 'logits'):
            exeunt.replay([[['a', 'b']]], 'full')
        with self.assertRaisesRegex(exeunt.Error, 'max_drop'):
            exeunt.calibrate(logits, gold, max_drop=2.0)
        broken = [[[math.nan, 1.0], [0.0, 1.0]]]
        with self.assertRaises(exeunt.Error):
            exeunt.replay(broken, 'full')


class Command(unittest.TestCase):
    def test_verbs_run_the_bundled_command(self):
        self.assertEqual(Path(exeunt.command()).name, 'exeunt')
        self.assertIn('layers', exeunt.run('info', MODEL))
        with self.assertRaises(exeunt.CommandError) as caught:
            exeunt.run('info', 'no/such/model')
        self.assertEqual((caught.exception.status, caught.exception.code), (4, 'bad_file'))
        self.assertTrue(caught.exception.message.startswith('no/such/model: '), caught.exception.message)
        with self.assertRaises(exeunt.CommandError) as caught:
            exeunt.run('calibrate', MODEL, max_drop='200%')
        self.assertEqual(caught.exception.hint, 'for example 1% or 0.01')
        self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).hint, caught.exception.hint)

    def test_json_comes_as_objects(self):
        self.assertEqual(exeunt.run('info', MODEL, json=True)['model']['layers'], 3)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'texts.txt'
            file.write_text('a great film\ndull\n')
            lines = exeunt.run('predict', MODEL, file, json=True)
        self.assertEqual([line['index'] for line in lines], [0, 1])

    def test_train_says_that_the_wheel_has_no_trainer(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(exeunt.CommandError) as caught:
            exeunt.train([('good', 'yes'), ('bad', 'no')], out=Path(folder) / 'run')
        self.assertIn('train', str(caught.exception))
        self.assertTrue(caught.exception.hint)

    def test_traces_of_the_command_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / 'own.csv'
            data.write_text('text,label\n' + ''.join(f'{text},{label}\n' for text, label in zip(TEXTS, (
                'positive', 'negative', 'negative', 'positive'))))
            file = Path(folder) / 'own.safetensors'
            exeunt.run('trace', MODEL, data=data, out=file, precision='fp32')
            trace = exeunt.read_trace(file)
            with exeunt.load(MODEL, precision='fp32') as model:
                live = model.trace(TEXTS)
            self.assertEqual(listed(trace.gold), [1, 0, 0, 1])
            self.assertEqual(trace.labels, ['negative', 'positive'])
            self.assertEqual(trace.layers, live.layers)
            self.assertEqual(listed(trace.logits), listed(live.logits))
            (Path(folder) / 'short').write_bytes(b'\xff' * 20)
            with self.assertRaisesRegex(ValueError, 'header'):
                exeunt.read_trace(Path(folder) / 'short')

    def test_damaged_traces_are_refused_with_one_error(self):
        logits = {'dtype': 'F32', 'shape': [1, 2, 2], 'data_offsets': [0, 16]}
        facts = {'format': 'exeunt.trace/2', 'exits': '1,2', 'labels': '["a", "b"]'}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'trace'

            def read(header, data=bytes(16)):
                text = header if isinstance(header, bytes) else json.dumps(header).encode()
                file.write_bytes(len(text).to_bytes(8, 'little') + text + data)
                return exeunt.read_trace(file)

            self.assertEqual(listed(read({'__metadata__': facts, 'logits': logits}).logits), [[[0, 0], [0, 0]]])
            for changes in ({'dtype': 'I64'}, {'shape': [1, 2, 3]}, {'shape': [-1, -2, 2]}, {'shape': [1 << 60, 0, 0]},
                            {'shape': [1] * 9 + [4]}, {'data_offsets': [-16, 0]},
                            {'data_offsets': [8, 24]}, {'data_offsets': [16, 0]}):
                with self.assertRaisesRegex(ValueError, 'logits: got', msg=changes):
                    read({'__metadata__': facts, 'logits': logits | changes})
            for header in (b'{', b'[]', b'[' * 100_000, {'__metadata__': [], 'logits': logits},
                           {'__metadata__': facts, 'logits': 1}, {'__metadata__': facts, 'logits': {'dtype': 'F32'}}):
                with self.assertRaisesRegex(ValueError, 'its header cannot be read'):
                    read(header)
            for changes in ({'exits': 'x'}, {'labels': '{'}, {'thresholds': 'x'}):
                with self.assertRaisesRegex(ValueError, 'cannot be read', msg=changes):
                    read({'__metadata__': facts | changes, 'logits': logits})

    def test_attaches_exits_from_a_list_of_texts(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ('a great film', 'dull and boring', 'the film was a surprise', 'it was')
            texts = [f'{words[i % 4]} {words[i // 4 % 4]} {i}' for i in range(400)]
            out = Path(folder) / 'fast'
            done = exeunt.attach(MODEL, texts, out=out, max_drop='20%', force=True)
            self.assertEqual(done['out'], str(out))
            with exeunt.load(out) as model:
                self.assertEqual(len(model(texts)), 400)


class FakeCommand(unittest.TestCase):
    """What goes to the command, and when its messages are shown: by a script in its place."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        change = unittest.mock.patch.dict(os.environ, EXEUNT_COMMAND=str(self.folder / 'exeunt'), FOLDER=scratch.name)
        change.start()
        self.addCleanup(change.stop)

    def script(self, body):
        path = self.folder / 'exeunt'
        path.write_text(f'#!{sys.executable}\nimport json, os, pathlib, sys, time\n'
                        f'folder = pathlib.Path(os.environ["FOLDER"])\n{body}')
        path.chmod(0o755)

    def test_progress_is_shown_while_the_command_works(self):
        self.script('print("attach  10%", file=sys.stderr, flush=True)\n'
                    'for _ in range(1200):\n'
                    '    time.sleep(0.05)\n'
                    '    if (folder / "seen").exists(): print("{}"); sys.exit()\n'
                    'sys.exit("error: nobody saw the progress")\n')
        folder = self.folder

        class Screen(io.StringIO):
            def write(self, text):
                (folder / 'seen').touch()
                return super().write(text)

        with contextlib.redirect_stderr(Screen()) as screen:
            self.assertEqual(exeunt.attach('model', ['a'], out='fast'), {})
        self.assertEqual(screen.getvalue(), 'attach  10%\n')

    def test_a_failure_is_told_by_the_exception_alone(self):
        self.script('sys.stderr.write("notice: one\\nerror: a: got b, want c\\n  hint: allow more with --max-drop\\n"); sys.exit(3)')
        with contextlib.redirect_stderr(io.StringIO()) as screen, self.assertRaises(exeunt.CommandError) as caught:
            exeunt.run('calibrate', 'model')
        self.assertEqual(screen.getvalue(), 'notice: one\n')
        error = caught.exception
        self.assertEqual((error.code, error.message, error.hint), ('resources', 'a: got b, want c', 'allow more with max_drop='))

    def test_rows_of_train_and_attach_become_a_file(self):
        self.script('flags = dict(zip(sys.argv[2::2], sys.argv[3::2])) if sys.argv[1] == "train" else dict(zip(sys.argv[3::2], sys.argv[4::2]))\n'
                    'lines = open(flags.get("--data") or flags["--texts"]).read().splitlines()\n'
                    'print(json.dumps({"rows": [json.loads(line) for line in lines], "out": flags["--out"]}))')
        frame = types.SimpleNamespace(columns=['body', 'y'], to_dict=lambda how: [{'body': 'a', 'y': 1}])
        self.assertEqual(exeunt.train([('a', 'x'), ('ü', 'y')], out='run'),
                         {'rows': [{'text': 'a', 'label': 'x'}, {'text': 'ü', 'label': 'y'}], 'out': 'run'})
        self.assertEqual(exeunt.train(frame, out='run')['rows'], [{'body': 'a', 'y': 1}])
        self.assertEqual(exeunt.attach('model', ['a', 'b'], out='fast')['rows'], [{'text': 'a'}, {'text': 'b'}])
        self.assertEqual(exeunt.attach('model', frame, out='fast')['rows'], [{'body': 'a', 'y': 1}])
        with self.assertRaisesRegex(TypeError, r'row: got 3, want a text, \(text, label\) or a mapping'):
            exeunt.train([3], out='run')


class Series(list):
    """What of pandas' Series the package uses, where pandas is not installed."""

    def __init__(self, values, index):
        super().__init__(values)
        self.index, self.iloc = index, self

    def isna(self):
        return [value is None for value in self]


class Pandas(unittest.TestCase):
    def setUp(self):
        try:
            import pandas
            self.series, self.columns = pandas.Series, lambda frame: frame.to_dict('list')
        except ImportError:
            fake = types.ModuleType('pandas')
            fake.DataFrame = lambda columns, index, copy: types.SimpleNamespace(columns=columns, index=index)
            change = unittest.mock.patch.dict(sys.modules, pandas=fake)
            change.start()
            self.addCleanup(change.stop)
            self.series, self.columns = Series, lambda frame: frame.columns

    def test_a_series_becomes_a_frame_with_its_index(self):
        with exeunt.load(MODEL, policy='full') as model:
            answers, plain = model(self.series([TEXTS[0], None, TEXTS[1]], index=['x', 'y', 'z'])), model(TEXTS[:2])
            with self.assertRaisesRegex(TypeError, 'want texts, such as one of its columns'):
                model(answers.to_pandas())
        frame = answers.to_pandas()
        self.assertEqual(list(frame.index), ['x', 'y', 'z'])
        columns = self.columns(frame)
        self.assertEqual(list(columns), ['label', 'score', 'layer', 'tokens', 'truncated'])
        self.assertEqual(list(columns['label']), [plain.labels[0], None, plain.labels[1]])
        self.assertEqual([listed(columns['score'])[i] for i in (0, 2)], [max(row) for row in listed(plain.scores)])
        self.assertEqual(list(columns['layer']), [model.exits[-1], 0, model.exits[-1]])


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f'examples/{name}/classify.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Clusters(unittest.TestCase):
    """The examples for Spark, Ray and Polars against stand-ins of the calls that hand them batches; not the real ones."""

    def setUp(self):
        sys.path.insert(0, str(ROOT / 'tests/unit/c'))
        self.addCleanup(sys.path.remove, str(ROOT / 'tests/unit/c'))
        self.arrow = importlib.import_module('arrow_arrays')
        reader = types.SimpleNamespace(from_stream=self.batches)
        change = unittest.mock.patch.dict(sys.modules, pyarrow=types.SimpleNamespace(RecordBatchReader=reader, table=self.batches),
                                          polars=types.SimpleNamespace(DataFrame=self.batches))
        change.start()
        self.addCleanup(change.stop)

    def batches(self, answers):
        """What a package of Arrow reads of a stream: a dict of columns for each batch."""
        reader, out = self.arrow.Reader(answers), []
        kind = reader.schema()
        while (batch := reader.next()) is not None:
            out.append(self.arrow.columns(kind, batch))
            self.arrow.release(batch)
        reader.close()
        self.arrow.release(kind)
        return out

    def given(self, texts, column='text'):
        return self.arrow.Source([lambda: self.arrow.table(self.arrow.strings(texts, 'vu'))],
                                 lambda: self.arrow.table_type([('vu', column)]))

    def wanted(self):
        with exeunt.load(MODEL) as model:
            answers = model(TEXTS)
            return answers.labels, listed(answers.layers)

    def check(self, batches):
        self.assertEqual([label for batch in batches for label in batch['label']], self.wanted()[0])
        self.assertEqual([layer for batch in batches for layer in batch['exit_layer']], self.wanted()[1])

    def test_spark_hands_batches_to_map_in_arrow(self):
        classify = pickle_or_same(example('spark').classifier(str(MODEL)))
        batches = list(classify(iter([self.given(TEXTS[:1]), self.given(TEXTS[1:])])))
        self.assertEqual([len(batch['label']) for batch in batches], [1, 3])
        self.check(batches)
        for batch in batches:  # views of strings are not among the columns that the stand-in reads
            self.assertEqual(['text', *batch], [column.split()[0] for column in example('spark').SCHEMA.split(', ')])

    def test_spark_pipes_lines_through_the_command(self):
        class Lines:  # an RDD of one partition: pipe() runs the command with the lines as its input
            def pipe(self, command):
                done = subprocess.run(shlex.split(command), input='\n'.join(TEXTS) + '\n', capture_output=True, text=True, check=True)
                return done.stdout.splitlines()

        lines = [json.loads(line) for line in example('spark').piped(Lines(), str(MODEL))]
        self.assertEqual([line['label'] for line in lines], self.wanted()[0])

    def test_ray_hands_batches_to_an_actor(self):
        actor = example('ray').Classifier(str(MODEL))
        self.check(actor(self.given(TEXTS[:3])) + actor(self.given(TEXTS[3:])))

    def test_polars_hands_over_a_frame(self):
        self.check(example('polars').classified(self.given(TEXTS, 'body'), str(MODEL), 'body'))


def pickle_or_same(function):
    """Spark sends functions to its workers by cloudpickle, which is not here; what they close over must travel, though."""
    for cell in function.__closure__:
        pickle.loads(pickle.dumps(cell.cell_contents))
    return function


class Documentation(unittest.TestCase):
    def test_examples_of_the_modules_hold(self):
        for path in sorted(Path(exeunt.__file__).parent.glob('_*.py')):
            if path.stem == '__main__':
                continue
            name = 'exeunt' if path.stem == '__init__' else f'exeunt.{path.stem}'
            result = doctest.testmod(importlib.import_module(name))
            self.assertEqual(result.failed, 0, path.name)
        for function in (exeunt.replay, exeunt.sweep, exeunt.calibrate):
            self.assertIn('>>>', inspect.getdoc(function), function.__name__)

    def test_examples_of_the_page_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / 'models').mkdir()
            (Path(folder) / 'models/sst2').symlink_to(MODEL)
            before = os.getcwd()
            os.chdir(folder)
            try:
                result = doctest.testfile(str(ROOT / 'docs/python.md'), module_relative=False,
                                          optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            finally:
                os.chdir(before)
        self.assertGreater(result.attempted, 10)
        self.assertEqual(result.failed, 0)

    def test_everything_public_is_typed_and_documented(self):
        for name in exeunt.__all__:
            thing = getattr(exeunt, name)
            self.assertTrue(inspect.getdoc(thing), name)
            for member in [thing, *(m for n, m in vars(thing).items() if not n.startswith('_') and callable(m))]:
                if not inspect.isfunction(member):
                    continue
                wanted = set(inspect.signature(member).parameters) - {'self'} | {'return'}
                self.assertEqual(wanted - set(member.__annotations__), set(), member.__qualname__)
        if sys.version_info >= (3, 10):  # 3.9 cannot evaluate X | Y
            typing.get_type_hints(exeunt.load)


if __name__ == '__main__':
    print(f'numpy {numpy.__version__}' if numpy is not None else 'without numpy', flush=True)
    program = unittest.main(exit=False, verbosity=0, argv=[sys.argv[0]])
    sys.exit(not program.result.wasSuccessful())
