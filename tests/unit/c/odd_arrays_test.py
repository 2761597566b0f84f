#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Odd arrays through the Python package: answered, or refused as an exception. `odd_arrays_test.py LIBRARY` with numpy, where
it is installed, `python3 -S odd_arrays_test.py LIBRARY` without. CMakeLists.txt loads the address sanitizer, where it is built."""
import math
import os
import pathlib
import sys
import threading
import unittest

os.environ['EXEUNT_LIBRARY'] = sys.argv.pop(1)
import exeunt  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None

MODEL = pathlib.Path(__file__).resolve().parents[2] / 'fixtures/checkpoints/bert-deebert'
REFUSED = (exeunt.Error, TypeError, ValueError)


def rows(count=20, exits=2, outputs=2, value=1.0):
    return [[[value] * outputs for _ in range(exits)] for _ in range(count)]


class OddLogits(unittest.TestCase):
    def refuses(self, logits, words, **options):
        """All three functions, each with a sentence that has these words."""
        for call in (lambda: exeunt.replay(logits, 'entropy:0.5', **options), lambda: exeunt.sweep(logits, 'full', **options),
                     lambda: exeunt.calibrate(logits, **options)):
            with self.assertRaises(REFUSED) as caught:
                call()
            self.assertRegex(str(caught.exception), words)

    def test_empty(self):
        self.refuses([], 'dimensions')
        self.refuses([[]], 'dimensions')
        self.refuses([[[]]], 'at least one')
        self.refuses([[[], []]] * 3, 'at least one')

    def test_not_finite(self):
        for odd in (math.nan, math.inf, -math.inf, 1e39):  # the last one as a 32-bit float
            given = rows()
            given[19][1][1] = odd
            self.refuses(given, 'finite')

    def test_ragged_and_of_other_types(self):
        self.refuses([[[1.0, 2.0], [1.0]]], 'length|shape|sequence')
        self.refuses([[['a', 'b'], ['c', 'd']]], 'numbers')
        self.refuses([[[None, 1.0]]], 'numbers|finite')
        self.refuses('logits', 'numbers|dimensions')
        self.refuses(object(), 'numbers')

    def test_at_most_128_exits(self):
        self.refuses(rows(exits=129), '128 exits')
        self.assertEqual(set(exeunt.replay(rows(exits=128), 'layer:128').exits), {127})

    def test_layers_thresholds_and_gold_of_other_lengths(self):
        self.refuses(rows(), 'layers', layers=[1])
        self.refuses(rows(), 'increasing', layers=[2, 1])
        self.refuses(rows(), 'thresholds', multi_label=True, thresholds=[0.5])
        self.refuses(rows(), 'probabilities', multi_label=True, thresholds=[0.5, math.nan])
        for gold in ([1.0] * 19, [1.0] * 21, [], [[1.0, 0.0]] * 20):
            with self.assertRaises(REFUSED):
                exeunt.sweep(rows(), 'full', gold)
        for gold in (math.inf, -1.0, 2.0, 0.5):
            with self.assertRaises(exeunt.Error):
                exeunt.sweep(rows(), 'full', [gold] * 20)
        self.assertIsNone(exeunt.sweep(rows(), 'full', [math.nan] * 20)[0].accuracy)

    @unittest.skipIf(numpy is None, 'numpy is not installed')
    def test_strides_and_types_of_numpy(self):
        wide = numpy.random.default_rng(1).normal(size=(40, 4, 6))
        plain = numpy.ascontiguousarray(wide[::2, ::2, ::3], dtype=numpy.float32)
        wanted = exeunt.replay(plain, 'entropy:0.5')
        for odd in (wide[::2, ::2, ::3], numpy.asfortranarray(plain), plain.astype('>f8'), plain[::-1][::-1],
                    numpy.frombuffer(b'x' + plain.tobytes(), numpy.uint8)[1:].view(numpy.float32).reshape(plain.shape)):
            got = exeunt.replay(odd, 'entropy:0.5')
            self.assertEqual((list(got.exits), list(got.labels)), (list(wanted.exits), list(wanted.labels)))
        self.assertEqual(len(exeunt.replay(numpy.broadcast_to(numpy.float32(1), (50, 3, 2)), 'full').exits), 50)
        self.assertEqual(len(exeunt.replay(numpy.ones((5, 2, 2), bool), 'full').exits), 5)
        self.refuses(numpy.ones((2, 2, 2, 2)), 'dimensions')
        self.refuses(numpy.float32(1), 'dimensions')
        for shape in ((0, 2, 2), (2, 0, 2), (2, 2, 0)):
            self.refuses(numpy.zeros(shape), 'at least one')
        for odd in (numpy.array([[['a', 'b']]]), numpy.array([[[object()]]]), numpy.zeros((2, 2, 2), 'V8')):
            self.refuses(odd, 'numbers')
        huge = numpy.lib.stride_tricks.as_strided(numpy.ones(4, numpy.float32), (1 << 45, 2, 2), (0, 8, 4))
        with self.assertRaises((MemoryError, *REFUSED)):
            exeunt.replay(huge, 'full')


class OddTexts(unittest.TestCase):
    def setUp(self):
        self.model = exeunt.load(MODEL, policy='full', threads=2)
        self.addCleanup(self.model.close)

    def test_none_and_empty(self):
        self.assertEqual(len(self.model([])), 0)
        self.assertEqual(len(self.model(['', 'a', ''])), 3)
        self.assertEqual(len(self.model.trace([]).logits), 0)

    def test_of_other_types(self):
        for odd in ([1], [None], [b'bytes'], ['a', 2.5], ['\ud800']):
            with self.assertRaises((TypeError, ValueError)):
                self.model(odd)
        with self.assertRaises(ValueError):
            self.model(['a'], pairs=['b', 'c'])

    def test_zeros_and_long_texts(self):
        answers = self.model(['\0', 'a\0b', 'a' * 200_000, '\U0010ffff' * 1000])
        self.assertEqual(len(answers), 4)
        self.assertTrue(all(math.isfinite(score) for row in answers.scores for score in row))

    def test_four_threads_get_the_answers_of_one(self):
        texts = ['a great film', 'so so', 'dull and boring']
        wanted = [list(row) for row in self.model(texts).scores]
        trace = self.model.trace(texts)
        found, lock = [], threading.Lock()

        def ask(number):
            for _ in range(5):
                scores = [list(row) for row in self.model(texts).scores]
                exits = list(exeunt.replay(trace, 'layer:1').exits)
                with self.assertRaises(exeunt.Error):
                    self.model(texts, policy=f'nothing:{number}')
                with lock:
                    found.append((scores, exits))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [(wanted, [0, 0, 0])] * 20)


if __name__ == '__main__':
    print('with numpy' if numpy else 'without numpy')
    unittest.main()
