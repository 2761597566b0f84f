#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""benchmarks/peers/cuda/{measure,collect}.py and benchmarks/results/cuda_tables.py, without a GPU: a made engine and made peers."""
import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / 'benchmarks/results'), str(ROOT / 'benchmarks/peers/cuda')]

import measure  # noqa: E402
from cuda_tables import cuda_summary, cuda_tables  # noqa: E402

MACHINE = {'gpu': 'a card', 'exeunt': '0'}


def size(system, ms, form=None, case='bert-base', **more):
    row = {'part': 'sizes', 'case': case, 'system': system, 'batch': 128, 'ms': ms, 'texts_per_second': 128e3 / ms, **more}
    return row | ({'form': form} if form else {})


def result(*rows):
    return {'machine': MACHINE, 'date': '2026-01-01', 'tokens': 128, 'precision': 'bf16', 'rows': list(rows)}


class MadePeers:
    """Names in place of networks: the time of a form is how long its name is."""

    @staticmethod
    def transformers_run(family, mode, bare):
        return f'{family} {mode} {bare}'

    @staticmethod
    def plain_run():
        return 'plain'

    @staticmethod
    def one_shape(run, batch, tokens, masked):
        ms = len(run) + masked
        return {'ms': ms, 'median_ms': ms + 1, 'back_to_back_ms': ms - 1, 'texts_per_second': 1e3 * batch / ms}

    @staticmethod
    def backlog_ms(run, lengths, batch, padded):
        return len(run) + padded, len(lengths) // batch * batch


class Tables(unittest.TestCase):
    def measured(self, part):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        flags = argparse.Namespace(no_peers=True)
        comparison = measure.Comparison(flags, measure.Result(Path(place.name) / 'run.json', MACHINE))
        comparison.peers = MadePeers()
        comparison.ours.bench = lambda *_: [{'batch': 128, 'best_ms': 2.0, 'p50_ms': 3.0, 'average_layers': 12}]
        with mock.patch('builtins.print'):
            getattr(comparison, part)()
        return comparison.result

    def test_measures_every_form_and_keeps_our_median(self):
        rows = self.measured('sizes').data['rows']
        forms = {row['form'] for row in rows if row.get('system') == 'torch.compile'}
        self.assertEqual(forms, {f'{mode}, {body}, {mask} mask' for mode in ('reduce-overhead', 'max-autotune')
                                 for body in ('classifier', 'bare encoder') for mask in ('with', 'without')})
        self.assertEqual({row['median_ms'] for row in rows if row['system'] == 'exeunt'}, {3.0})
        self.assertTrue(all('form' in row and 'back_to_back_ms' in row for row in rows if row['system'] != 'exeunt'))

    def test_measures_real_lengths_with_masks_alone(self):
        rows = self.measured('lengths').data['rows']
        forms = [row['form'] for row in rows if row['system'] != 'exeunt']
        self.assertEqual(len(forms), 2 * 2 * 2 * 2)  # data, modes, bodies, ways to pad
        self.assertTrue(all('with mask' in form for form in forms))
        self.assertTrue(all('error' not in row for row in rows))

    def test_collects_every_form_of_a_second_file(self):
        first, second = self.measured('sizes'), self.measured('others')
        out = first.path.with_name('out.json')
        subprocess.run([sys.executable, ROOT / 'benchmarks/peers/cuda/collect.py', first.path, second.path, '--out', out], check=True)
        rows = json.loads(out.read_text())['rows']
        self.assertEqual(len(rows), len(first.data['rows']) + len(second.data['rows']))

    def test_shows_the_fastest_form_by_name(self):
        made = result(size('exeunt', 5.0, median_ms=6.0), size('torch.compile', 8.0, 'one', median_ms=9.0, back_to_back_ms=7.5),
                      size('torch.compile', 10.0, 'other'), size('transformers', 20.0, 'eager'))
        self.assertIn('| bert-base | 128 | 5.00 | 6.00 | 25,600 | 8.00 | 9.00 | 7.50 | 1.60× | torch.compile, one |', cuda_tables(made))
        self.assertIn('| full depth, batches of 128, best time | 25,600 | 16,000 | 1.60× |', cuda_summary(made))

    def test_shows_no_peer_whose_forms_were_not_measured(self):
        for rows in ([size('torch.compile', 10.0)], [size('transformers', 20.0, 'eager')]):
            made = result(size('exeunt', 5.0), *rows)
            for text in (cuda_tables(made), cuda_summary(made)):
                self.assertNotRegex(text, 'peer|×|torch.compile')


if __name__ == '__main__':
    unittest.main()
