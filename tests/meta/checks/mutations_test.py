#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/mutations on a small project: every verdict, and that neither the tree nor a second run is fooled. And the
lists of this repository: every mutation applies."""
import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / 'scripts' / 'mutations'
sys.path.insert(0, str(SCRIPT.parent))
import mutation_sites  # noqa: E402

PROJECT = {
    'CMakeLists.txt': '''cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
enable_testing()
add_executable(sum_test sum.cc)
add_test(NAME sum COMMAND sum_test)
add_executable(two_test two.cc one.cc)
add_test(NAME two COMMAND two_test)
add_executable(bad_test bad.cc)
add_test(NAME bad COMMAND bad_test)
add_subdirectory(tests/unit/base)
''',
    'tests/unit/base/CMakeLists.txt': '''add_executable(base_test base.cc ../../../exeunt/base/part.cc)
add_test(NAME base COMMAND base_test)
add_executable(base_bad_test ../../../bad.cc)
add_test(NAME base_bad COMMAND base_bad_test)
''',
    'sum.cc': 'int sum(int a, int b) { return a + b; }\nint main() { return sum(2, 3) == 5 ? 0 : 1; }\n',
    'one.cc': 'int one() { return 1; }\n',
    'two.cc': 'int one();\nint two() { return one() + one(); }\nint main() { return two() == 2 ? 0 : 1; }\n',
    'bad.cc': 'int main() { return 1; }\n',
    'exeunt/base/part.cc': """int part(int a, int b) {
  return a - b;
}
int unused(int a) {
  return a + 1;
}
int three_times(int a) {
  return a * 3;
}
""",
    'tests/unit/base/base.cc': 'int part(int, int);\nint three_times(int);\nint main() { return part(5, 2) != 3 || three_times(2) != 6; }\n',
}


def entry(old, new, test='sum', file='sum.cc'):
    return f'# {old} becomes {new}\n@ {file}\n- {old}\n+ {new}\n! {test}\n'


class Campaign(unittest.TestCase):
    def setUp(self):
        folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.report = folder / 'report.json'
        self.root = folder / 'tree'
        (self.root / 'scripts').mkdir(parents=True)
        for name in ('scripts/mutations', 'scripts/mutation_sites.py', 'scripts/touched', 'tests/meta/layers/check_layers.py'):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        for name, text in PROJECT.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding='utf-8')

    def run_script(self, lists, *arguments, **environment):
        folder = self.root / 'tests/meta/mutations'
        folder.mkdir(parents=True, exist_ok=True)
        for layer, entries in lists.items():
            (folder / f'{layer}.txt').write_text('\n'.join(entries), encoding='utf-8')
        before = {name: (self.root / name).read_text(encoding='utf-8') for name in PROJECT}
        done = subprocess.run([sys.executable, self.root / 'scripts/mutations', '--report', self.report, *arguments],
                              capture_output=True, text=True, check=False, env=dict(os.environ, GIT_DIR='/nonexistent', **environment))
        self.assertEqual(before, {name: (self.root / name).read_text(encoding='utf-8') for name in PROJECT})
        verdicts = json.loads(self.report.read_text(encoding='utf-8'))['mutations'] if self.report.exists() else {}
        return done.returncode, done.stdout + done.stderr, {name: one['verdict'] for name, one in verdicts.items()}

    def test_caught_mutations_pass_and_are_not_run_twice(self):
        lists = {'a': [entry('a + b', 'a - b')], 'b': [entry('a + b', 'a * b'), entry('sum(2, 3)', 'sum(2, 2)')]}
        status, out, verdicts = self.run_script(lists, '--jobs', '2')
        self.assertEqual((status, verdicts), (0, {'a/1': 'caught', 'b/1': 'caught', 'b/2': 'caught'}), out)
        self.assertIn('3 of 3 mutations caught', out)
        status, out, _ = self.run_script(lists)
        self.assertEqual(status, 0, out)
        self.assertIn('3 mutations were judged by an earlier run', out)
        lists['b'].insert(0, entry('a + b', 'a / b'))  # what was judged keeps its verdict, whatever its number
        status, out, verdicts = self.run_script(lists)
        self.assertEqual((status, len(verdicts)), (0, 4), out)
        self.assertIn('3 mutations were judged by an earlier run', out)
        (self.root / 'sum.cc').write_text(PROJECT['sum.cc'] + '\n', encoding='utf-8')
        self.assertNotIn('earlier run', self.run_script(lists, 'a')[1])

    def test_a_renamed_variable_or_another_line_break_is_still_found(self):
        status, out, verdicts = self.run_script({'a': [entry('return left + right', 'return left - right')]})
        self.assertEqual((status, verdicts), (0, {'a/1': 'caught'}), out)
        (self.root / 'sum.cc').write_text(PROJECT['sum.cc'].replace('a + b', 'a +\n    b'), encoding='utf-8')
        status, out, verdicts = self.run_script({'a': [entry('return left + right', 'return left * right')]})
        self.assertEqual((status, verdicts), (0, {'a/1': 'caught'}), out)

    def test_every_other_verdict_fails(self):
        status, out, verdicts = self.run_script({'a': [
            entry('a + b', 'b + a'),  # survives
            entry('a % b', 'a - b'),  # is not there
            entry('sum', 'add'),  # is there twice
            entry('a + b', 'a + '),  # does not compile
            entry('return 1', 'return 2', 'bad', 'bad.cc'),  # its test fails anyway
            entry('a + b', 'a - b', 'nothing'),  # there is no such test
            entry('a + b', 'a - b'),
        ]})
        self.assertEqual(status, 1, out)
        self.assertEqual([verdicts[f'a/{i}'] for i in range(1, 8)],
                         ['survived', 'does not apply', 'does not apply', 'does not compile', 'broken', 'no such test', 'caught'])
        self.assertIn('survived: 1: a/1', out)

    def test_a_mutation_does_not_outlive_its_turn(self):
        status, out, verdicts = self.run_script({'a': [
            entry('return 1', 'return 3', 'two', 'one.cc'),
            entry('one() + one()', '2 * one()', 'two', 'two.cc'),  # changes nothing: caught only with what came before
            entry('return 1', 'return 4', 'two', 'one.cc'),
            entry('a + b', 'b + a'),
        ]})
        self.assertEqual((status, list(verdicts.values())), (1, ['caught', 'survived', 'caught', 'survived']), out)

    def test_what_the_time_did_not_suffice_for_fails(self):
        lists = {'a': [entry('a + b', 'a - b')]}
        status, out, verdicts = self.run_script(lists, '--seconds', '0')
        self.assertEqual((status, verdicts), (1, {'a/1': 'not run'}), out)
        self.assertEqual(self.run_script(lists, '--seconds', '0', '--partial')[0], 1, 'nothing at all was judged')
        self.assertEqual(self.run_script(lists)[0], 0)
        lists['a'].append(entry('a + b', 'a * b'))
        self.assertEqual(self.run_script(lists, '--seconds', '0')[0], 1)
        self.assertEqual(self.run_script(lists, '--seconds', '0', '--partial')[0], 0)

    def test_a_selection_runs_alone(self):
        lists = {'a': [entry('a + b', 'a - b'), entry('a + b', 'b + a')], 'b': [entry('a + b', 'b + a')]}
        status, out, verdicts = self.run_script(lists, 'a/1')
        self.assertEqual((status, verdicts), (0, {'a/1': 'caught'}), out)
        status, out, _ = self.run_script(lists, 'c')
        self.assertEqual(status, 2)
        self.assertIn("no mutation or layer 'c'", out)

    def test_a_broken_list_is_refused(self):
        for text in ('@ sum.cc\n- a\n! sum\n', '@ sum.cc\n- a\n+ a\n! sum\n', 'x sum.cc\n', '@ sum.cc\n- a\n+ b\n'):
            self.assertEqual(self.run_script({'a': [text]})[0], 2, text)


    def test_a_sample_reports_the_share_caught(self):
        status, out, verdicts = self.run_script({}, '--sample', '3', '--seed', '1')
        self.assertEqual((status, sorted(verdicts.values())), (1, ['caught', 'caught', 'survived']), out)
        self.assertIn('2 of 3 random errors caught: 66.7 %', out)
        self.assertIn('tests left out, because they fail without an error or take too long: base_bad\n', out)
        survivor = next(line for line in out.split('\n') if 'survived' in line)
        self.assertIn('exeunt/base/part.cc:5: return a + 1;', survivor)
        old, new = survivor.split(': ', 1)[1].split(' -> ')
        equal = f'# nobody calls it\n@ exeunt/base/part.cc\n- {old}\n+ {new}\n'
        (self.root / 'tests/meta/mutations/equivalent.list').write_text(equal, encoding='utf-8')
        _, out, verdicts = self.run_script({}, '--sample', '2', '--seed', '1')
        self.assertEqual(sorted(verdicts.values()), ['caught', 'caught'], out)

    def test_survivors_of_a_sample_are_judged_again_where_they_are_now(self):
        _, out, verdicts = self.run_script({}, '--sample', '3', '--seed', '1')
        self.assertEqual(sorted(verdicts.values()), ['caught', 'caught', 'survived'], out)
        earlier = self.report.rename(self.report.with_name('earlier.json'))
        part, base = self.root / 'exeunt/base/part.cc', self.root / 'tests/unit/base/base.cc'
        part.write_text('// Numbers.\n' + part.read_text(encoding='utf-8'), encoding='utf-8')
        status, out, verdicts = self.run_script({}, '--from', str(earlier))
        self.assertEqual((status, list(verdicts.values())), (1, ['survived']), out)
        self.assertIn('exeunt/base/part.cc:6: return a + 1;', out)
        base.write_text('int unused(int);\nint main() { return unused(1) != 2; }\n', encoding='utf-8')
        status, out, verdicts = self.run_script({}, '--from', str(earlier))
        self.assertEqual((status, list(verdicts.values())), (0, ['caught']), out)
        part.write_text(part.read_text(encoding='utf-8').replace('a + 1', '1 + a'), encoding='utf-8')
        status, out, _ = self.run_script({}, '--from', str(earlier))
        self.assertEqual(status, 0, out)
        self.assertIn('gone: exeunt/base/part.cc:5: return a + 1;', out)

    def test_a_test_that_fails_anyway_catches_nothing(self):
        times = self.root.parent / 'times.json'
        times.write_text('{"times": {"base": 0.1, "base_bad": 0.01}}', encoding='utf-8')
        _, out, verdicts = self.run_script({}, '--sample', '3', '--seed', '1', '--times', str(times))
        self.assertEqual(sorted(verdicts.values()), ['caught', 'caught', 'survived'], out)
        if 'one job at a time' not in out:
            self.assertEqual(out.count('test left out, because it fails without an error: base_bad'), 1, out)

    def test_a_sample_without_overlays_is_judged_alike(self):
        refusing = self.root.parent / 'unshare'
        refusing.write_text('#!/bin/sh\nexit 1\n', encoding='utf-8')
        refusing.chmod(0o755)
        path = f'{refusing.parent}:{os.environ["PATH"]}'
        status, out, verdicts = self.run_script({}, '--sample', '3', '--seed', '1', '--jobs', '2', PATH=path)
        self.assertIn('one job at a time', out)
        self.assertEqual((status, sorted(verdicts.values())), (1, ['caught', 'caught', 'survived']), out)


class Sites(unittest.TestCase):
    def changes(self, text):
        return sorted(text[:one.start] + one.new + text[one.end:] for one in mutation_sites.sites(text))

    def test_operators_constants_conditions_arguments_and_statements_change(self):
        self.assertEqual(self.changes('x = a < b;'), ['x = a <= b;'])
        self.assertEqual(self.changes('x = a + f(b, c);'), ['x = a + f(c, b);', 'x = a - f(b, c);'])
        self.assertEqual(self.changes('y = !p && q;'), ['y = !p || q;', 'y = p && q;'])
        self.assertEqual(self.changes('z = 41 * 0.5F;'), ['z = 41 * 1.0F;', 'z = 41 / 0.5F;', 'z = 42 * 0.5F;'])
        self.assertEqual(self.changes('if (f(x)) g();'), ['if (false) g();'])
        self.assertEqual(self.changes('  sum_ = other;\n'), ['  (void)0;\n'])

    def test_texts_comments_templates_and_declarations_do_not(self):
        for text in ('// a < b', 'f("a < 1")', '#if A < 1', 'std::vector<int> a;', 'template <typename T>',
                     'static_assert(sizeof(int) == 4);', '  int other;', '  return;', "f('1');"):
            self.assertEqual(self.changes(text), [], text)

    def test_interval_is_wilsons(self):
        low, high = mutation_sites.interval(16, 31)
        self.assertAlmostEqual(low, 0.3484, 4)
        self.assertAlmostEqual(high, 0.6803, 4)


class Lists(unittest.TestCase):
    def test_every_mutation_applies(self):
        done = subprocess.run([sys.executable, SCRIPT, '--list'], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_errors_of_programs_are_judged_by_their_command_lines(self):
        mutations = importlib.machinery.SourceFileLoader('mutations', str(SCRIPT)).load_module()
        for layer in ('apps', 'trainer', 'lab'):
            self.assertIn('cli', set.union(*mutations.folders_to_test(layer)), layer)


if __name__ == '__main__':
    unittest.main()
