#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The site of scripts/site: `site_test.py`. Every link leads somewhere, nothing is fetched from elsewhere, the index of the search
has every page, and the first page's commands are those of pages whose commands are tested."""
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Page(html.parser.HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, file):
        super().__init__()
        self.anchors, self.links, self.loads, self.headings = set(), [], [], 0
        self.feed(file.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ('id', 'name'):
                self.anchors.add(value)
            elif name in ('href', 'src', 'srcset'):
                (self.links if tag == 'a' else self.loads).append(value)
        self.headings += tag == 'h1'


def breaches(site):
    pages = {file.relative_to(site): Page(file) for file in sorted(site.rglob('*.html'))}
    for name, page in pages.items():
        for link in page.loads:
            if re.match(r'[a-z]+:|//', link):
                yield f'{name}: loads {link}'
        for link in page.links + page.loads:
            if re.match(r'[a-z]+:', link):
                continue
            path, _, anchor = link.partition('#')
            file = (site / name).parent / urllib.parse.unquote(path) if path else site / name
            if not file.resolve().is_file():
                yield f'{name}: {link}: there is no such file'
            elif anchor and file.suffix == '.html':
                there = pages[file.resolve().relative_to(site.resolve())]
                if urllib.parse.unquote(anchor) not in there.anchors:
                    yield f'{name}: {link}: there is no such anchor'


class SiteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.site = pathlib.Path(scratch.name) / 'site'
        cls.make(cls.site)

    @staticmethod
    def make(out):
        subprocess.run([ROOT / 'scripts/site', out], check=True, capture_output=True)

    def test_every_link_resolves_and_nothing_is_loaded_from_elsewhere(self):
        self.assertEqual(list(breaches(self.site)), [])
        style = (self.site / 'site.css').read_text() + (self.site / 'site.js').read_text()
        self.assertNotRegex(style, r'https?://|@import|url\(')

    def test_missing_pages_missing_anchors_and_foreign_scripts_are_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder) / 'site'
            shutil.copytree(self.site, site)
            (site / 'docs/python.html').unlink()
            file = site / 'docs/attach.html'
            file.write_text(re.sub(r' id="exit-0"', '', file.read_text()) + '<script src="https://example.org/x.js"></script>')
            found = '\n'.join(breaches(site))
        self.assertRegex(found, r'README.html: docs/python.html: there is no such file')
        self.assertRegex(found, r'docs/attach.html#exit-0: there is no such anchor')
        self.assertRegex(found, r'docs/attach.html: loads https://example.org')

    def test_the_search_has_a_section_of_every_page(self):
        text = (self.site / 'site-index.js').read_text(encoding='utf-8')
        sections = json.loads(re.fullmatch(r'exeuntSections\((.*)\);\n', text, re.S)[1])
        listed = subprocess.run(['git', 'ls-files', '*.md'], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
        pages = {'index.html' if name == 'web/start.md' else name.removesuffix('.md') + '.html' for name in listed}
        self.assertEqual(pages - {url.partition('#')[0] for url, *_ in sections}, set())
        for url, *_ in sections:
            name, _, anchor = url.partition('#')
            self.assertIn(f'id="{anchor}"', (self.site / name).read_text(encoding='utf-8'))

    def test_the_first_page_has_three_situations_of_three_tested_commands(self):
        text = (ROOT / 'web/start.md').read_text(encoding='utf-8')
        parts = re.split(r'^## ', text, flags=re.M)[1:]
        self.assertEqual([part.split('\n')[0] for part in parts], ['I have a classifier', 'I have a CSV', 'I come from a paper'])
        tested = (ROOT / 'README.md').read_text(encoding='utf-8') + (ROOT / 'lab/docs/from-the-papers.md').read_text(encoding='utf-8')
        for part in parts:
            commands = re.search(r'^```\n(.*?)^```', part, re.S | re.M)[1].splitlines()
            self.assertEqual(len(commands), 3, commands)
            for command in commands:
                self.assertIn(command, tested)

    def test_the_same_files_give_the_same_bytes(self):
        def content(folder):
            return {file.relative_to(folder): file.read_bytes() for file in folder.rglob('*') if file.is_file()}

        with tempfile.TemporaryDirectory() as folder:
            self.make(pathlib.Path(folder) / 'again')
            self.assertEqual(content(pathlib.Path(folder) / 'again'), content(self.site))

    def test_a_folder_with_other_files_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / 'mine').write_text('x')
            done = subprocess.run([ROOT / 'scripts/site', folder], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, list(pathlib.Path(folder).iterdir())), (1, [pathlib.Path(folder) / 'mine']))
            self.assertIn('has other files', done.stderr)


if __name__ == '__main__':
    unittest.main()
