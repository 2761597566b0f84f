#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves that check_layers.py can fail: small trees with one breach each, and one without."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from check_layers import ALLOWED, BUDGET, MOST_ARROWS  # noqa: E402

CHECKER = Path(__file__).with_name('check_layers.py')


def run(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding='utf-8')
        done = subprocess.run([sys.executable, CHECKER, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Layers(unittest.TestCase):
    def breach(self, files, expected):
        code, out = run(files)
        self.assertEqual(code, 1, out)
        self.assertEqual(len(out.splitlines()), 1, out)
        self.assertIn(expected, out)

    def test_the_allowed_arrows_pass(self):
        code, out = run({
            'exeunt/base/a.h': '#include <vector>\n',
            'exeunt/text/a.cc': '#include "exeunt/text/b.h"\n#include "exeunt/base/a.h"\n',
            'exeunt/data/a.cc': '#include "exeunt/text/b.h"\n',
            'exeunt/data/CMakeLists.txt': 'exeunt_library(data SOURCES torch_a.cc LINKS exeunt::text exeunt_fmt)\n',
            'exeunt/train/a.cc': '#include <torch/torch.h>\n',
            'apps/exeunt/main.cc': '#include "exeunt/engine/a.h"\n#include "apps/exeunt/verb.h"\n',
            'tests/unit/text/a_test.cc': '#include "exeunt/engine/a.h"\n' + '\n' * 599,
        })
        self.assertEqual((code, out), (0, ''))

    def test_a_sibling_is_out_of_sight(self):
        self.breach({'exeunt/text/a.cc': '\n#include "exeunt/model/spec.h"\n'},
                    'exeunt/text/a.cc:2: text includes exeunt/model/spec.h; there is no arrow from text to model')

    def test_a_type_is_defined_once(self):
        def header(name, before='exeunt'):
            return f'namespace {before} {{\n\nstruct {name} {{\n  int a;\n}};\n\n}}  // namespace {before}\n'

        self.breach({'exeunt/base/a.h': header('Candidate'), 'exeunt/text/b.h': header('Candidate')},
                    'exeunt/text/b.h:3: Candidate is defined in exeunt/base/a.h too')
        for fine in ({'exeunt/text/b.h': header('Candidate', 'exeunt::text')}, {'exeunt/text/b.h': header('Other')},
                     {'exeunt/text/b.h': 'namespace exeunt {\nstruct Candidate;\n}  // namespace exeunt\n'},
                     {'exeunt/text/b.cc': 'namespace exeunt {\n' + header('Candidate', '').replace('namespace  {', 'namespace {')}):
            self.assertEqual(run({'exeunt/base/a.h': header('Candidate'), **fine}), (0, ''))

    def test_sources_of_a_folder_share_no_unnamed_names(self):
        def source(line):
            return f'namespace exeunt {{\nnamespace fs = std::filesystem;\nnamespace {{\n\n{line}\n\n}}  // namespace\n'

        for one, other, name in (
                ('constexpr int kA = 1, kLimit = 2;', 'constexpr float kLimit = 3;', 'kLimit'),
                ('struct Part {', 'class Part : public Whole {', 'Part'),
                ('bool same(const A& a, int b) {', 'bool same(const A& x, int y) noexcept {', 'same(const A&, int)')):
            self.breach({'exeunt/text/a.cc': source(one), 'exeunt/text/b.cc': source(other)},
                        f'exeunt/text/b.cc:5: {name} is in the unnamed namespace of exeunt/text/a.cc too')
        for fine in ({'exeunt/text/a.cc': source('bool same(int a) {'), 'exeunt/text/b.cc': source('bool same(long a) {')},
                     {'exeunt/base/a.cc': source('struct Part {'), 'exeunt/text/b.cc': source('struct Part {')},
                     {'exeunt/base/a_x86.cc': source('struct Part {'), 'exeunt/base/a_arm.cc': source('struct Part {')}):
            self.assertEqual(run({'exeunt/base/a.h': '', **fine}), (0, ''))

    def test_base_includes_nothing_of_ours(self):
        self.breach({'exeunt/base/a.cc': '  #  include <exeunt/text/a.h>\n'}, 'no arrow from base to text')

    def test_a_folder_below_a_layer_belongs_to_it(self):
        self.breach({'exeunt/engine/cpu/a.cc': '#include "exeunt/data/a.h"\n'}, 'no arrow from engine to data')

    def test_nothing_includes_or_links_the_lab(self):
        for path in ('exeunt/predict/a.cc', 'apps/exeunt/a.cc', 'apps/exeunt-train/a.cc'):
            self.breach({'exeunt/base/a.h': '', path: '#include "lab/papers/a.h"\n'}, 'to lab')
        self.breach({'exeunt/predict/CMakeLists.txt': 'exeunt_library(predict SOURCES a.cc LINKS exeunt::lab_papers)\n'}, 'to lab')

    def test_the_lab_includes_everything_and_torch_for_training_alone(self):
        fine = {'exeunt/base/a.h': '', 'lab/papers/a.cc': '#include "exeunt/predict/a.h"\n#include "lab/elue/b.h"\n',
                'lab/cli/a.cc': '#include "apps/exeunt/a.h"\n', 'lab/pretrain/a.cc': '#include <torch/torch.h>\n',
                'lab/train/a.cc': '#include "exeunt/train/a.h"\n'}
        self.assertEqual(run(fine), (0, ''))
        self.breach({'exeunt/base/a.h': '', 'lab/papers/a.cc': '#include <torch/torch.h>\n'}, 'torch belongs in train alone')
        self.breach({'exeunt/base/a.h': '', 'lab/papers/a.cc': '#include "exeunt/train/a.h"\n'}, 'in the lab, train is for')
        self.breach({'exeunt/base/a.h': '', 'lab/papers/a.cc': '#include "apps/exeunt/a.h"\n'}, 'a library includes only')

    def test_apps_never_include_train(self):
        self.breach({'exeunt/base/a.h': '', 'apps/exeunt/a.cc': '#include "exeunt/train/a.h"\n'},
                    'no arrow from apps to train')

    def test_the_trainer_alone_includes_train(self):
        code, out = run({'exeunt/base/a.h': '',
                         'apps/exeunt-train/a.cc': '#include "exeunt/train/run.h"\n#include "apps/exeunt/usage.h"\n'})
        self.assertEqual((code, out), (0, ''))
        self.breach({'exeunt/train/a.cc': '#include "exeunt/engine/reference.h"\n'}, 'no arrow from train to engine')

    def test_torch_belongs_in_train(self):
        for header in ('torch/torch.h', 'ATen/ATen.h', 'c10/util/Half.h'):
            self.breach({'exeunt/eval/a.cc': f'#include <{header}>\n'}, 'torch belongs in train alone')
        self.breach({'exeunt/eval/CMakeLists.txt': 'exeunt_library(eval SOURCES a.cc LINKS ${TORCH_LIBRARIES})\n'},
                    'torch belongs in train alone')

    def test_a_paper_is_named_in_the_lab_alone(self):
        for line in ('// As PABEE does.', 'struct ElbertRule {', 'auto x = elbert_policy(rule);'):
            self.breach({'exeunt/policy/a.cc': line + '\n'}, 'exeunt/policy/a.cc:1: names ')
        self.assertEqual(run({'lab/papers/a.cc': '// As PABEE does.\n', 'exeunt/model/a.cc': 'x = Family::elasticbert;\n',
                              'exeunt/recipes/recipes/pabee.json': '{"name": "PABEE"}\n'}), (0, ''))

    def test_a_family_is_asked_for_in_model_alone(self):
        for line in ('  if (spec.family == Family::bert) return;', '    case Family::bert:', 'x = Family::bert != f;'):
            self.breach({'exeunt/train/a.cc': line + '\n'}, 'exeunt/train/a.cc:1: asks for a family')
        self.assertEqual(run({'exeunt/model/a.cc': 'return family == Family::bert;\n',
                              'exeunt/train/a.cc': 'Family family = Family::bert;\n'}), (0, ''))

    def test_links_follow_the_same_arrows(self):
        self.breach({'exeunt/policy/CMakeLists.txt': 'exeunt_library(policy\n  SOURCES a.cc\n  LINKS exeunt::data)\n'},
                    'policy links exeunt::data; there is no arrow from policy to data')
        self.breach({'exeunt/x/CMakeLists.txt': 'exeunt_library(policy SOURCES a.cc PRIVATE_LINKS exeunt_engine)\n'},
                    'there is no arrow from policy to engine')

    def test_an_unknown_folder_needs_a_place_in_the_table(self):
        self.breach({'exeunt/misc/a.cc': ''}, 'folder misc has no place')
        self.breach({'exeunt/base/CMakeLists.txt': 'exeunt_library(misc SOURCES a.cc)\n'}, 'library misc has no place')

    def test_libraries_do_not_include_tests_or_climb_folders(self):
        self.breach({'exeunt/text/a.cc': '#include "tests/fixtures/scratch.h"\n'}, 'a library includes only exeunt/')
        self.breach({'exeunt/text/a.cc': '#include "../base/a.h"\n'}, 'start at the root')

    def test_a_file_of_601_lines_is_too_long(self):
        self.breach({'exeunt/text/a.cc': '\n' * 601}, '601 lines, want at most 600')
        self.breach({'exeunt/base/a.h': '', 'tests/unit/text/a_test.cc': 'x\n' * 600 + 'x'}, '601 lines')

    def test_a_test_is_named_by_its_condition(self):
        for name in ('OfALabel', 'TheAnswer', 'WhatDoesNotFit', 'AnArray', 'ALabel'):
            self.breach({'exeunt/base/a.h': '', 'tests/unit/base/a_test.cc': f'TEST_F(Loss, {name}) {{\n'},
                        f'tests/unit/base/a_test.cc:1: Loss.{name}: a test is named by its condition')
        self.assertEqual(run({'exeunt/base/a.h': '', 'tests/unit/base/a_test.cc': 'TEST(Loss, AcceptsZero) {\n'}), (0, ''))

    def test_lines_beyond_the_budget_are_refused(self):
        most = BUDGET[('exeunt', 'apps')]
        files = {f'exeunt/base/a{i}.cc': '\n' * 600 for i in range(most // 600 + 1)}
        self.breach(files, f'want at most {most}')

    def test_pairs_of_folders_that_include_each_other_are_counted(self):
        arrows = [(here, there) for here in ALLOWED for there in sorted(ALLOWED[here])
                  if not {'lab', 'apps', 'trainer'} & {here, there}]
        files = {f'exeunt/{here}/{there}.cc': f'#include "exeunt/{there}/a.h"\n#include "exeunt/{there}/b.h"\n'
                 for here, there in arrows[:MOST_ARROWS]}
        self.assertEqual(run(files), (0, ''))
        here, there = arrows[MOST_ARROWS]
        self.breach({**files, 'exeunt/%s/new.cc' % here: f'#include "exeunt/{there}/a.h"\n'},
                    f'{MOST_ARROWS + 1} pairs of folders where one includes the other, want at most {MOST_ARROWS}; these by one line: '
                    f'exeunt/{here}/new.cc includes exeunt/{there}/a.h')


if __name__ == '__main__':
    unittest.main()
