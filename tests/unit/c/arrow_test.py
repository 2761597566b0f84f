#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Arrow's C data interface, with arrays made and read by arrow_arrays.py: `arrow_test.py LIBRARY`. No package of Arrow is needed.
CMakeLists.txt loads the address sanitizer, where it is built."""
import ctypes
import errno
import gc
import json
import math
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest
from ctypes import c_int32, c_int64

os.environ['EXEUNT_LIBRARY'] = sys.argv.pop(1)
import exeunt  # noqa: E402
from arrow_arrays import (RELEASE, Array, Batch, Reader, Schema, Source, array, bits, block, columns, held, inside,  # noqa: E402
                          integers, release, schema, strings, table, table_type, values)

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / 'fixtures'
MODEL = FIXTURES / 'checkpoints/bert-deebert'
TEXTS = ['a great film', 'dull and boring', 'a', 'the film was a great surprise']


class Arrow(unittest.TestCase):
    def setUp(self):
        self.model = exeunt.load(MODEL, policy='entropy:0.69')
        said = self.model(TEXTS)
        self.labels, self.layers = said.labels, list(said.layers)
        self.scores = [max(row) for row in said.scores]
        held.clear()

    def tearDown(self):
        self.model.close()
        gc.collect()
        self.assertEqual(held, {}, 'something was not released')

    def read(self, source, **options):
        """All columns of all batches."""
        reader = Reader(self.model.arrow(source, **options))
        kind, out = reader.schema(), []
        while (batch := reader.next()) is not None:
            out.append(columns(kind, batch))
            release(batch)
        self.assertIsNone(reader.error)
        reader.close()
        release(kind)
        return out

    def refused(self, words, source, **options):
        with self.assertRaisesRegex(exeunt.Error, words):
            self.model.arrow(source, **options)

    def fails(self, words, source):
        reader = Reader(self.model.arrow(source))
        self.assertIsNone(reader.next())
        self.assertEqual(reader.error[0], errno.EINVAL)
        self.assertRegex(reader.error[1], words)
        reader.close()

    def test_adds_the_answers_and_hands_on_the_columns_without_a_copy(self):
        given = table(integers([7, 8, 9, 10]), strings(TEXTS))
        places = [[given.children[i].contents.buffers[1]] for i in (0, 1)]
        reader = Reader(self.model.arrow(Source([lambda: given])))
        kind, batch = reader.schema(), reader.next()
        self.assertEqual(columns(kind, batch), {'id': [7, 8, 9, 10], 'text': TEXTS, 'label': self.labels, 'score': self.scores,
                                                'exit_layer': self.layers})
        self.assertEqual([[batch.children[i].contents.buffers[1]] for i in (0, 1)], places)
        self.assertIn(given.private_data, held, 'columns of some producers need the batch that they came in')
        reader.close()
        release(kind, batch)

    def test_reads_slices(self):
        sliced = Source([lambda: table(integers([0, 7, 8], 1), strings(['x', *TEXTS[:2], 'y'], offset=1, length=2))])
        self.assertEqual([(one['id'], one['text'], one['label']) for one in self.read(sliced)], [([7, 8], TEXTS[:2], self.labels[:2])])
        whole = Source([lambda: table(integers([0, 0, 7, 8, 0]), strings(['w', 'x', *TEXTS[:2], None]), length=2, offset=2)])
        self.assertEqual([(one['id'], one['text'], one['label']) for one in self.read(whole)], [([7, 8], TEXTS[:2], self.labels[:2])])

    def test_leaves_null_and_blank_texts_null(self):
        out = self.read(Source([lambda: table(integers([1, 2, 3]), strings([None, TEXTS[0], ' \t']))]))[0]
        self.assertEqual(out, {'id': [1, 2, 3], 'text': [None, TEXTS[0], ' \t'], 'label': [None, self.labels[0], None],
                               'score': [None, self.scores[0], None], 'exit_layer': [None, self.layers[0], None]})

    def test_reads_one_chunk_when_one_is_asked_for(self):
        source = Source([lambda: table(integers([1]), strings(TEXTS[:1])), lambda: table(integers([]), strings([])),
                         lambda: table(integers([2, 3, 4]), strings(TEXTS[1:]))])
        reader = Reader(self.model.arrow(source))
        self.assertEqual(source.asked, 0)
        kind, seen = reader.schema(), []
        for asked, rows in enumerate((1, 0, 3), 1):
            batch = reader.next()
            self.assertEqual((source.asked, batch.length), (asked, rows))
            seen += columns(kind, batch)['label']
            release(batch)
        self.assertEqual(seen, self.labels)
        self.assertIsNone(reader.next())
        reader.close()
        release(kind)

    def test_reads_large_strings_views_and_a_column_alone(self):
        for format in ('u', 'U', 'vu'):
            source = Source([lambda: table(integers([0] * 6), strings([None, *TEXTS, None], format))],
                            lambda: table_type((('l', 'id'), (format, 'body'))))
            self.assertEqual(self.read(source, column='body')[0]['label'], [None, *self.labels, None], format)
            alone = Source([lambda: strings(['', *TEXTS], format, offset=1)], lambda: schema(format))
            self.assertEqual(self.read(alone), [{'label': self.labels, 'score': self.scores, 'exit_layer': self.layers}], format)

    def test_a_policy_holds_for_its_stream(self):
        source = Source([lambda: table(integers([0] * 4), strings(TEXTS))])
        self.assertEqual(self.read(source, policy='layer:1')[0]['exit_layer'], [1] * 4)
        self.refused('entropie', Source([]), policy='entropie:0.2')

    def test_takes_and_gives_one_batch(self):
        answers = self.model.arrow(Batch(table_type(), table(integers([5, 6]), strings(TEXTS[:2]))))
        capsules = answers.__arrow_c_array__()
        kind = Schema.from_address(inside(capsules[0], b'arrow_schema'))
        batch = Array.from_address(inside(capsules[1], b'arrow_array'))
        self.assertEqual(columns(kind, batch)['label'], self.labels[:2])
        with self.assertRaisesRegex(ValueError, 'read already'):
            answers.__arrow_c_array__()
        del kind, batch, capsules, answers

    def test_batches_outlive_their_stream_and_the_model(self):
        source = Source([lambda: table(integers([1, 2]), strings(TEXTS[:2]))] * 2)
        reader = Reader(self.model.arrow(source))
        kind, batch = reader.schema(), reader.next()
        self.model.close()
        later = reader.next()
        reader.close()
        for one in (batch, later):
            self.assertEqual(columns(kind, one)['label'], self.labels[:2])
        release(batch, later, kind)

    def test_a_column_may_be_moved_out_of_its_batch(self):
        reader = Reader(self.model.arrow(Source([lambda: table(integers([1, 2]), strings(TEXTS[:2]))])))
        kind, batch = reader.schema(), reader.next()
        moved = [Array(), Array()]
        for column, index in zip(moved, (1, 2)):  # one that came in, and the labels
            theirs = batch.children[index].contents
            ctypes.memmove(ctypes.byref(column), ctypes.byref(theirs), ctypes.sizeof(Array))
            theirs.release = RELEASE()
        release(batch)
        reader.close()
        self.assertEqual([values(kind.children[i].contents, column) for i, column in zip((1, 2), moved)], [TEXTS[:2], self.labels[:2]])
        release(kind, *moved)

    def test_releases_what_is_not_read_to_its_end(self):
        batches = [lambda: table(integers([1]), strings(TEXTS[:1]))] * 3
        reader = Reader(self.model.arrow(Source(batches)))
        release(reader.next())
        reader.close()
        self.model.arrow(Source(batches))  # nobody takes it
        self.assertEqual(held, {})
        taken = self.model.arrow(Source(batches)).__arrow_c_stream__()
        self.assertNotEqual(held, {})
        del taken

    def test_a_stream_is_read_once(self):
        answers = self.model.arrow(Source([]))
        answers.__arrow_c_stream__()
        with self.assertRaisesRegex(ValueError, 'read already'):
            answers.__arrow_c_stream__()

    def test_refuses_other_types_before_anything_is_read(self):
        def typed(*kinds):
            return Source([], lambda: table_type(kinds))

        self.refused("the texts have the type 'l', want strings", typed(('l', 'text')))
        self.refused("type 'z'", typed(('z', 'text')))
        self.refused("type '\\+l'", Source([], lambda: schema('+l', '', [schema('u')])))
        self.refused("no column 'text'(.|\n)*columns: id, body", typed(('l', 'id'), ('u', 'body')))
        self.refused("got a column 'score'", typed(('u', 'text'), ('f', 'score')))
        coded = Schema(b'u')
        def dictionary():
            out = schema('i', 'text')
            out.dictionary = ctypes.addressof(coded)
            return schema('+s', '', [out])
        self.refused("type 'dictionary'", Source([], dictionary))
        with self.assertRaisesRegex(TypeError, 'data: got a list, want one with __arrow_c_stream__'):
            self.model.arrow(TEXTS)

    def test_refuses_what_was_released(self):
        source = Source([])
        release(source.stream)
        self.refused('a stream that was released', source)
        kind, batch = table_type(), table(integers([1]), strings(TEXTS[:1]))
        release(batch)
        self.refused('a batch that was released', Batch(kind, batch))

    def test_refuses_batches_that_are_not_as_their_schema_says(self):
        self.fails('other columns', Source([lambda: table(strings(TEXTS))]))
        self.fails('shorter than its batch', Source([lambda: table(integers([1, 2]), strings(TEXTS[:1]))]))
        self.fails('shorter than its batch', Source([lambda: table(integers([1]), strings(TEXTS[:2]), length=2)]))
        self.fails('shorter than its batch', Source([lambda: table(strings(TEXTS), integers([1, 2, 3, 4]))]))
        self.fails('offsets of strings', Source([lambda: table(
            integers([1, 2]), array(2, [None, (c_int32 * 3)(0, 3, 1), block(b'abc')]))]))
        views = lambda: table_type((('l', 'id'), ('vu', 'text')))
        for view in (struct.pack('<i4sii', 13, b'abcd', 1, 0), struct.pack('<i4sii', 13, b'abcd', 0, 8),
                     struct.pack('<i4sii', 13, b'abcd', -1, 0), struct.pack('<i4sii', 13, b'abcd', 0, -1), struct.pack('<i12s', -1, b'')):
            self.fails('negative length|outside its buffer', Source([lambda: table(
                integers([1]), array(1, [None, block(view), block(b'abcdefghijklmnop'), (c_int64 * 1)(16)]))], views))
        def null_row():
            whole = table(integers([1, 2]), strings(TEXTS[:2]))
            whole.buffers[0] = ctypes.addressof(marks)
            return whole
        marks = bits([1, 0])
        self.fails('a row is null as a whole', Source([null_row]))

    def test_names_the_text_that_is_no_utf8_by_its_row_of_the_stream(self):
        reader = Reader(self.model.arrow(Source([lambda: table(integers([1, 2]), strings(TEXTS[:2])),
                                                 lambda: table(integers([3, 4]), strings([TEXTS[0], b'a\xff']))])))
        release(reader.next())
        self.assertIsNone(reader.next())
        self.assertEqual(reader.error, (errno.EINVAL, 'text 3: byte 2 is 0xFF, want valid UTF-8'))
        reader.close()

    def test_answers_a_batch_of_many_parts(self):
        count = 16384 + 3
        out = self.read(Source([lambda: table(integers(range(count)), strings(['a'] * (count - 1) + [TEXTS[0]]))]), policy='layer:1')
        labels = self.model(['a', TEXTS[0]], policy='layer:1').labels
        self.assertEqual(out[0]['label'], [labels[0]] * (count - 1) + [labels[1]])
        self.assertEqual(out[0]['id'][-1], count - 1)

    def test_hands_on_what_the_source_says_where_it_fails(self):
        source = Source([lambda: table(integers([1]), strings(TEXTS[:1]))] * 2, fails_at=1)
        reader = Reader(self.model.arrow(source))
        release(reader.next())
        self.assertIsNone(reader.next())
        self.assertEqual(reader.error, (errno.EIO, 'the disk is gone'))
        reader.close()

    def test_several_labels_are_lists(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(MODEL, folder, dirs_exist_ok=True)
            config = json.loads((MODEL / 'config.json').read_text())
            config['problem_type'] = 'multi_label_classification'
            (pathlib.Path(folder) / 'config.json').write_text(json.dumps(config))
            self.model.close()
            self.model = exeunt.load(folder, policy='full')
        said = self.model(TEXTS)
        out = self.read(Source([lambda: table(integers([0] * 5), strings([None, *TEXTS]))]))[0]
        self.assertEqual(out['labels'], [None, *said.labels])
        scores = [[score for score in row if score > 0.5] for row in said.scores]
        self.assertEqual([one if one is None else [round(score, 5) for score in one] for one in out['scores']],
                         [None, *[[round(float(score), 5) for score in row] for row in scores]])
        self.assertGreater(sum(map(len, said.labels)), 0)

    def test_regressions_are_values(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ('config.json', 'exits.json', 'model.safetensors'):
                shutil.copy(FIXTURES / 'golden/heads_regression' / name, folder)
            (pathlib.Path(folder) / 'vocab.json').write_text('{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4,"b":5}')
            (pathlib.Path(folder) / 'merges.txt').write_text('#version: 0.2\n')
            self.model.close()
            self.model = exeunt.load(folder)
        out = self.read(Source([lambda: table(integers([1, 2]), strings(['ab', None]))]))[0]
        wanted = self.model(['ab'])
        self.assertEqual(list(out), ['id', 'text', 'value', 'exit_layer'])
        self.assertTrue(math.isclose(out['value'][0], wanted.scores[0][0], rel_tol=1e-6))
        self.assertEqual((out['value'][1], out['exit_layer'][1]), (None, None))


if __name__ == '__main__':
    unittest.main()
