#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that check_pages.py can fail: a small tree with one breach of each kind, and the same tree without."""
import hashlib
import tempfile
import unittest
from pathlib import Path

import check_pages


class CheckPages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / 'docs').mkdir()
        (self.root / 'exeunt/train').mkdir(parents=True)
        (self.root / 'exeunt/train/network.cc').write_text('')
        self.write('docs/other.md', "# What it's for\n## Twice\n## Twice\n## `exeunt` & more\n")

    def write(self, name, text):
        (self.root / name).write_text(text)

    def found(self, text, name='README.md'):
        self.write(name, text)
        return list(check_pages.breaches(self.root))

    def test_a_sound_page_has_none(self):
        self.assertEqual(self.found('[a](docs/other.md) [b](docs/other.md#what-its-for) [c](https://x.y/z) [d](#own)\n# Own\n'
                                    '[e](docs/other.md#twice-1) [f](docs/other.md#exeunt--more)\n'), [])

    def test_a_missing_file_is_named_with_its_line(self):
        self.assertEqual(self.found('\n[a](docs/gone.md)\n'), ['README.md:2: docs/gone.md: there is no such file'])

    def test_a_missing_image_is_found(self):
        self.assertEqual(len(self.found('![a picture](docs/images/none.png) <img src="no.png">')), 2)

    def test_a_missing_anchor_is_found(self):
        self.assertEqual(self.found('[a](docs/other.md#thrice)'),
                         ['README.md:1: docs/other.md#thrice: other.md has no heading for #thrice'])
        self.assertEqual(len(self.found('[a](docs/other.md#twice-2)')), 1)

    def test_a_link_out_of_the_repository_is_found(self):
        self.assertIn('leads out', self.found('[a](../)')[0])

    def test_code_is_not_read(self):
        self.assertEqual(self.found('```\n[a](gone.md)\n# No heading\n```\n`[b](gone.md)`'), [])

    def test_pages_may_name_only_sources_that_exist(self):
        self.assertEqual(self.found('`train/network.cc`, `log.jsonl` and `train/fuzz_NAME.cc`'), [])
        self.assertEqual(self.found('`train/gone.cc`'), ['README.md:1: `train/gone.cc`: there is no such file'])
        self.assertEqual(self.found(''), [])
        self.assertEqual(self.found('`train/gone.cc`', 'CHANGELOG.md'), [])

    def test_worked_examples_show_what_the_sources_have(self):
        self.write('exeunt/train/network.cc', 'int a;\n  int b;\n')
        page = 'In `train/network.cc`:\n```diff\n-int old;\n+int a;\n…\n   int b;\n```\n'
        self.assertEqual(self.found(page, 'docs/contributing.md'), [])
        self.assertEqual(self.found(page + 'Then:\n```diff\n+int a;\n```\n', 'docs/contributing.md'),
                         ['docs/contributing.md:10: no file named before has this line: int a;'])
        self.assertEqual(len(self.found(page.replace('+int a', '+int c'), 'docs/contributing.md')), 1)

    def test_worked_examples_name_every_switch_over_problems(self):
        self.write('exeunt/train/loss.cc', 'switch (problem) {\n  case Problem::regression:\n')
        self.assertEqual(self.found('`train/loss.cc`', 'docs/contributing.md'), [])
        self.assertEqual(self.found('`train/network.cc`', 'docs/contributing.md'),
                         ['docs/contributing.md: does not name `train/loss.cc`, which has a switch over Problem'])

    def test_commands_of_every_page_are_run(self):
        (self.root / 'tests/system/docs').mkdir(parents=True)
        self.write('tests/system/docs/CMakeLists.txt', 'set(pages docs/other)')
        self.assertEqual(self.found('```\nexeunt info m\n```\n', 'docs/other.md'), [])
        for block in ('```\nexeunt info m\n```\n', '```sh\nOUT=x deploy/slurm\n```\n'):
            self.assertEqual(self.found(block, 'docs/new.md'),
                             ['docs/new.md: no test runs its commands; add it to tests/system/docs/CMakeLists.txt'])
        self.assertEqual(self.found('```\n  exeunt info m\n```\nexeunt info m\n', 'docs/new.md'), [])

    def test_a_page_of_decisions_is_entered_and_then_not_changed(self):
        (self.root / 'docs/decisions').mkdir()
        (self.root / 'tests/system/docs').mkdir(parents=True)
        self.write(check_pages.DECISIONS, f'{hashlib.sha256(b"# One").hexdigest()}  0001-one.md\n')
        self.assertEqual(self.found('# One', 'docs/decisions/0001-one.md'), [])
        self.assertEqual(self.found('# Else', 'docs/decisions/0001-one.md'),
                         ['docs/decisions/0001-one.md: was changed; a changed decision is a new page'])
        self.write('docs/decisions/0001-one.md', '# One')
        self.assertEqual(self.found('# Two', 'docs/decisions/0002-two.md'),
                         ['docs/decisions/0002-two.md: is not entered: (cd docs/decisions && sha256sum 0002-two.md) >> '
                          'tests/system/docs/decisions.sha256'])
        (self.root / 'docs/decisions/0001-one.md').unlink()
        self.assertIn('docs/decisions/0001-one.md: is gone; a page stays', list(check_pages.breaches(self.root)))

    def test_every_rule_and_method_has_a_row_in_methods(self):
        (self.root / 'exeunt/policy/rules').mkdir(parents=True)
        (self.root / 'exeunt/certify').mkdir()
        (self.root / 'exeunt/certify/risk.cc').write_text('')
        self.write('exeunt/policy/rules/list.h', 'using Rules = RuleList<VoteRule>;')
        self.write('exeunt/policy/rules/vote.h', 'static constexpr std::string_view kName = "vote";')
        self.write('exeunt/policy/policy_file.cc', 'constexpr std::array<std::string_view, 2> kMethods{"wsr", "ltt-hb"};')
        page = '| `vote:a` | a sum | `policy/rules/vote.h` |\n| `wsr` | a | `certify/risk.cc` |\n| `ltt-hb` | b | `certify/risk.cc` |\n'
        self.assertEqual(self.found(page, 'docs/methods.md'), [])
        self.assertEqual(self.found(page.replace('`vote:a`', '`votes`'), 'docs/methods.md'),
                         ['docs/methods.md: no row of `vote` names `policy/rules/vote.h`'])
        self.assertEqual(self.found(page.replace('`ltt-hb`', 'Bentkus'), 'docs/methods.md'), ['docs/methods.md: no row for `ltt-hb`'])
        self.write('exeunt/policy/rules/vote.h', 'kName = "vote"; kName = "poll";')
        self.assertEqual(self.found(page, 'docs/methods.md'), ['docs/methods.md: no row of `poll` names `policy/rules/vote.h`'])

    def test_the_index_leads_to_every_page(self):
        self.write('docs/one.md', '# One')
        self.assertEqual(self.found('[a](one.md#one), [b](other.md)', 'docs/README.md'), [])
        self.assertEqual(self.found('[a](one.md)', 'docs/README.md'), ['docs/README.md: no link to other.md'])

    def test_the_pages_are_not_too_long_together(self):
        few = len((self.root / 'docs/other.md').read_text().split())
        self.assertEqual(self.found('word ' * (check_pages.MOST_WORDS - few), 'docs/long.md'), [])
        self.assertRegex(self.found('word ' * (check_pages.MOST_WORDS - few + 1), 'docs/long.md')[0], f'docs: {check_pages.MOST_WORDS + 1:,} words, want at most')

    def test_every_paper_of_methods_is_cited(self):
        page = 'One: [arXiv:1](https://arxiv.org/abs/1).\n'
        self.assertEqual(self.found(page, 'docs/methods.md'),
                         ['docs/methods.md: https://arxiv.org/abs/1 is not among the references of CITATION.cff'])
        self.write('CITATION.cff', 'references:\n  - url: "https://arxiv.org/abs/1"\n')
        self.assertEqual(self.found(page, 'docs/methods.md'), [])

    def test_a_limit_must_have_the_value_of_its_constant(self):
        (self.root / 'exeunt/base').mkdir()
        self.write('exeunt/base/json.h', "constexpr int kDeep = 64;\nconstexpr size_t kBytes = size_t{1} << 28, kMany = 10'000;\n")
        page = '| a | 64 | `base/json.h` `kDeep` |\n| b | 256 MiB | `base/json.h` `kBytes` |\n| c | 10000 | `base/json.h` `kMany` |\n'
        self.assertEqual(self.found(page, 'docs/security.md'), [])
        self.assertEqual(self.found(page.replace('256', '128'), 'docs/security.md'),
                         ['docs/security.md:2: kBytes is 268435456, the page says 128 MiB'])
        self.assertEqual(len(self.found(page.replace('kMany', 'kGone'), 'docs/security.md')), 1)


if __name__ == '__main__':
    unittest.main()
