#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/touched: which folders of tests a change selects, and that no base selects everything."""
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / 'scripts' / 'touched'


def load():
    loader = importlib.machinery.SourceFileLoader('touched', str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('touched', loader))
    loader.exec_module(module)
    return module


touched = load()


class Selection(unittest.TestCase):
    def folders(self, *paths):
        return set(touched.select(paths)[0])

    def test_a_layer_selects_itself_and_what_stands_directly_on_it(self):
        chosen = self.folders('exeunt/policy/rules/threshold.h')
        self.assertTrue({'policy', 'recipes', 'engine'} <= chosen, chosen)
        self.assertFalse({'base', 'text', 'model', 'data', 'c'} & chosen, chosen)
        self.assertEqual(self.folders('exeunt/predict/predict.cc'), {'predict', *touched.folders_of('apps')})

    def test_everything_stands_on_base(self):
        self.assertEqual(self.folders('exeunt/base/json.cc'), set(touched.every_folder()))

    def test_a_test_selects_only_its_own_layer(self):
        self.assertEqual(self.folders('tests/unit/policy/replay_test.cc'), {'policy'})
        self.assertEqual(self.folders('tests/system/cli/info.txt'), set(touched.folders_of('apps')))

    def test_several_files_select_the_union(self):
        both = self.folders('exeunt/predict/predict.cc', 'tests/unit/text/load_test.cc')
        self.assertEqual(both, self.folders('exeunt/predict/predict.cc') | {'text'})

    def test_sources_outside_the_layers_belong_to_the_one_that_embeds_them(self):
        self.assertIn('lab', self.folders('lab/report/report.css'))
        self.assertIn('serve', self.folders('web/playground.js'))
        self.assertIn('train', self.folders('recipes/pabee.json'))

    def test_pages_select_nothing(self):
        self.assertEqual(self.folders('README.md', 'docs/methods.md', 'exeunt/NOTES.md', 'scripts/bench'), set())

    def test_files_of_no_layer_in_particular_select_everything(self):
        for path in ('CMakeLists.txt', 'CMakePresets.json', 'cmake/toolchain.cmake', 'tests/fixtures/scratch.h', 'tests/CMakeLists.txt',
                     'tests/fixtures/checkpoints/bert-deebert/config.json', '.ci/run', 'exeunt/new_layer/a.cc', 'something/new.cc'):
            self.assertEqual(self.folders(path), set(touched.every_folder()), path)

    def test_every_layer_and_every_folder_it_selects_exists(self):
        for layer in touched.ARROWS:
            places = {'apps': 'apps/exeunt', 'trainer': 'apps/exeunt-train', 'lab': 'lab'}
            path = ROOT / places.get(layer, f'exeunt/{layer}')
            self.assertTrue(path.is_dir(), path)
        for folder in touched.every_folder():
            self.assertTrue(list((ROOT / 'tests').glob(f'*/{folder}/CMakeLists.txt')), folder)


class Base(unittest.TestCase):
    """The script in a small repository of its own."""

    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for name in ('scripts/touched', 'tests/meta/layers/check_layers.py'):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.git('init', '-q')

    def git(self, *arguments, when=0):
        environment = dict(os.environ, GIT_COMMITTER_DATE=f'{when} +0000', GIT_AUTHOR_DATE=f'{when} +0000')
        subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *arguments], cwd=self.root, env=environment,
                       check=True)

    def commit(self, name, when):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{when}\n', encoding='utf-8')
        self.git('add', '-A')
        self.git('commit', '-q', '-m', name, when=when)

    def run_script(self, *arguments, base=''):
        done = subprocess.run([self.root / 'scripts' / 'touched', *arguments], cwd=self.root, capture_output=True, text=True,
                              env=dict(os.environ, EXEUNT_BASE=base), check=False)
        return done.returncode, done.stdout.strip(), done.stderr

    def test_a_history_of_less_than_a_day_selects_everything(self):
        self.commit('exeunt/text/a.cc', 1_700_000_000)
        self.commit('exeunt/text/b.cc', 1_700_000_000 + 3600)
        status, out, why = self.run_script()
        self.assertEqual((status, out), (0, ';'.join(touched.every_folder())))
        self.assertIn('no base was found', why)

    def test_without_git_everything_is_selected(self):
        shutil.rmtree(self.root / '.git')
        status, out, _ = self.run_script()
        self.assertEqual((status, out), (0, ';'.join(touched.every_folder())))

    def test_the_base_is_the_newest_commit_more_than_a_day_older_than_head(self):
        self.commit('exeunt/base/a.cc', 1_700_000_000)
        self.commit('exeunt/predict/a.cc', 1_800_000_000)
        self.commit('exeunt/text/a.cc', 1_800_000_000 + 3600)
        status, out, _ = self.run_script()
        self.assertEqual(status, 0)
        chosen = set(out.split(';'))
        self.assertTrue({'predict', 'text', 'data'} <= chosen, chosen)
        self.assertFalse({'base', 'policy', 'model'} & chosen, chosen)

    def test_uncommitted_and_untracked_files_count(self):
        self.commit('exeunt/predict/a.cc', 1_700_000_000)
        self.commit('README.md', 1_800_000_000)
        self.assertEqual(self.run_script()[1], '')
        (self.root / 'exeunt/predict/a.cc').write_text('changed\n', encoding='utf-8')
        self.assertIn('predict', self.run_script()[1].split(';'))
        (self.root / 'exeunt/eval').mkdir()
        (self.root / 'exeunt/eval/new.cc').write_text('new\n', encoding='utf-8')
        self.assertIn('eval', self.run_script()[1].split(';'))

    def test_a_given_base_is_used_and_a_wrong_one_refused(self):
        self.commit('exeunt/base/a.cc', 1_700_000_000)
        self.commit('exeunt/predict/a.cc', 1_700_000_001)
        self.assertNotIn('base', self.run_script(base='HEAD~1')[1].split(';'))
        self.assertEqual(self.run_script('--only', 'predict;base', base='HEAD~1')[1], 'predict')
        status, out, error = self.run_script(base='nonsense')
        self.assertEqual((status, out), (2, ''))
        self.assertIn("cannot compare with 'nonsense'", error)


if __name__ == '__main__':
    unittest.main()
