#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
""".ci/run with parts of our own: it fails when a part fails or runs out of time, and says what it did not run."""
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class Ci(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / '.ci').mkdir()
        (self.root / 'bin').mkdir()
        (self.root / 'scripts').mkdir()
        (self.root / 'tests/meta/mutations').mkdir(parents=True)
        for layer in ('base', 'text'):
            (self.root / f'tests/meta/mutations/{layer}.txt').write_text('', encoding='utf-8')
        shutil.copy(ROOT / '.ci/run', self.root / '.ci/run')
        # Each stand-in writes down how it was called and does what the variable named after its part says.
        for path in ('bin/make', 'scripts/check', 'scripts/mutations'):
            script = self.root / path
            script.write_text('#!/bin/sh\necho "$(basename "$0") $*" >> calls\n'
                              'case "$(basename "$0") $*" in *$BAD*) eval "$HOW" ;; esac\n', encoding='utf-8')
            script.chmod(0o755)

    def run_ci(self, bad='none', how='true', seconds=3600):
        environment = dict(os.environ, PATH=f"{self.root / 'bin'}:{os.environ['PATH']}", BAD=bad, HOW=how,
                           CI_SECONDS=str(seconds))
        done = subprocess.run(['bash', '.ci/run'], cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        calls = (self.root / 'calls').read_text(encoding='utf-8').split('\n')[:-1]
        return done.returncode, done.stdout, calls

    def test_with_time_for_everything_all_parts_run_and_what_is_left_is_named(self):
        status, out, calls = self.run_ci(seconds=10**6)
        self.assertEqual(status, 0, out)
        self.assertEqual(calls[:4], ['check fast', 'make test', 'check cuda bench', 'check touched'])
        for part in ('tidy', 'fuzz', 'cross', 'browser', 'onnx', 'reproducible', 'asan', 'tsan'):
            self.assertIn(f'check {part}', calls)
        self.assertEqual(len([call for call in calls if call.startswith('mutations ')]), 1, calls)
        self.assertIn('not run: mutations of the other layers', out)
        self.assertIn('not run: stress', out)

    def test_parts_that_do_not_fit_are_named_not_begun(self):
        status, out, calls = self.run_ci(seconds=6 * 60)  # of which rotating parts may use three quarters
        self.assertEqual(status, 0, out)
        self.assertIn('check onnx', calls)
        self.assertNotIn('check tidy', calls)
        self.assertIn('not run: tidy', out)
        self.assertNotIn('not run: onnx', out)

    def test_a_failing_part_fails(self):
        for part in ('make test', 'fast', 'cuda', 'touched', 'onnx'):
            status, out, _ = self.run_ci(bad=part.replace(' ', '?'), how='exit 3')
            self.assertEqual(status, 1, out)
            self.assertIn('ci: FAILED', out)
            self.assertIn('status 3', out)

    def test_running_out_of_time_fails(self):
        status, out, _ = self.run_ci(bad='touched', how='sleep 60', seconds=2)
        self.assertEqual(status, 1, out)
        self.assertIn('sanitizers of the touched layers', out)
        self.assertIn('timed out', out)

    def test_later_parts_still_run_after_a_failure_but_not_the_rotating_ones(self):
        _, out, calls = self.run_ci(bad='make?test', how='exit 1')
        self.assertIn('check touched', calls)
        self.assertNotIn('check onnx', calls)
        self.assertIn('not run: onnx', out)


if __name__ == '__main__':
    unittest.main()
