#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the Markdown files with the tree: every relative link leads to a file, every anchor to a heading, every source
that a page names exists, the lines that docs/contributing.md shows as added are still there, the limits in docs/security.md
are those of the sources, docs/README.md leads to every page of docs, which are not too long, docs/methods.md has a row for every
exit rule, loss and calibration method, whose papers are in CITATION.cff, docs/contributing.md names every source with a switch over
Problem, tests run the commands of every page, and the pages of docs/decisions are as they were when they were entered in decisions.sha256.

    check_pages.py [ROOT]      prints one line per breach, exit status 1 if there is any
"""
import hashlib
import re
import sys
from pathlib import Path

LINK = re.compile(r'!?\[[^\]]*\]\(([^()\s]+(?:\([^()]*\))?)(?:\s+"[^"]*")?\)')
HTML = re.compile(r'<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)="([^"]+)"')
HEADING = re.compile(r'^(#{1,6})\s+(.*?)\s*#*\s*$')
FENCE = re.compile(r'^\s*(```|~~~)')
CODE = re.compile(r'`([^`\n]+)`')
SKIPPED = {'build', 'dist', 'node_modules', '.git', 'carry'}
# How prose names a source: a path with a folder and an extension; LAYER.txt and fuzz_NAME.cc are placeholders.
SOURCE = re.compile(r'[\w+.-]+(?:/[\w+.-]+)+\.(?:cc|h|cu|py|json|md|sh|yaml|txt)(?!\w)')
MOST_WORDS = 39_500  # of all pages of docs together
PLACEHOLDER = re.compile(r'LAYER|NAME')
# Whose commands tests/system/first_day, tests/system/cli and tests/unit/serve/process run.
RUN_ELSEWHERE = {'docs/attach.md', 'docs/cli.md', 'docs/server.md'}
DECISIONS = 'tests/system/docs/decisions.sha256'


def lines_outside_code(text):
    """(number, line) of what is not in a fenced block."""
    inside = False
    for number, line in enumerate(text.split('\n'), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchor_of(heading):
    """As GitHub makes it: letters, digits, - and _ stay, blanks become -, the rest goes."""
    plain = re.sub(r'!?\[([^\]]*)\]\([^)]*\)', r'\1', heading)
    plain = re.sub(r'[`*]', '', plain).strip().lower()
    return re.sub(r'[^\w\- ]', '', plain).replace(' ', '-')


def anchors(text):
    found, out = {}, set()
    for _, line in lines_outside_code(text):
        heading = HEADING.match(line)
        if heading:
            name = anchor_of(heading.group(2))
            count = found.get(name, 0)
            found[name] = count + 1
            out.add(name if count == 0 else f'{name}-{count}')
        out.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return out


def links(text):
    for number, line in lines_outside_code(text):
        bare = CODE.sub('', line)
        for pattern in (LINK, HTML):
            for target in pattern.findall(bare):
                yield number, target


def pages(root):
    for path in sorted(root.rglob('*.md')):
        if not SKIPPED & set(path.relative_to(root).parts):
            yield path


def breaches_of_links(root, page):
    text = page.read_text(encoding='utf-8')
    for number, target in links(text):
        where = f'{page.relative_to(root)}:{number}'
        if re.match(r'[a-z]+:', target):
            continue
        name, _, anchor = target.partition('#')
        place = (page.parent / name).resolve() if name else page
        if not place.exists():
            yield f'{where}: {target}: there is no such file'
        elif root.resolve() not in place.resolve().parents and place.resolve() != root.resolve():
            yield f'{where}: {target}: leads out of the repository'
        elif anchor and place.suffix == '.md' and anchor not in anchors(place.read_text(encoding='utf-8')):
            yield f'{where}: {target}: {place.name} has no heading for #{anchor}'


def breaches_of_sources(root, page):
    """Paths in code marks: from the root, from exeunt/, or from docs/."""
    for number, line in lines_outside_code(page.read_text(encoding='utf-8')):
        for code in CODE.findall(line):
            for path in SOURCE.findall(code):
                if not PLACEHOLDER.search(path) and not any((root / folder / path).exists() for folder in ('', 'exeunt', 'docs')):
                    yield f'{page.relative_to(root)}:{number}: `{path}`: there is no such file'


def breaches_of_diffs(root, page):
    """The lines a diff adds or keeps are in one of the files named since the diff before it."""
    lines, block = set(), False
    for number, line in enumerate(page.read_text(encoding='utf-8').split('\n'), 1):
        if FENCE.match(line):
            block = line.startswith('```diff')
            lines = lines if block else set()
        elif not block:
            for path in SOURCE.findall(' '.join(CODE.findall(line))):
                for file in (root / path, root / 'exeunt' / path):
                    lines.update(file.read_text(encoding='utf-8').split('\n') if file.is_file() else [])
        elif line.startswith(('+', ' ')) and line[1:] not in lines:
            yield f'{page.relative_to(root)}:{number}: no file named before has this line: {line[1:].strip()}'


def breaches_of_limits(root, page):
    """Rows "| what | 16 MiB | `base/x.h` `kName` |": the constant has that value."""
    units = {'': 1, 'KiB': 1 << 10, 'MiB': 1 << 20, 'GiB': 1 << 30}
    row = re.compile(r'^\|.*\| (\d+) ?([KMG]iB)? \| `([^`]+)` `(\w+)` \|$')
    for number, line in enumerate(page.read_text(encoding='utf-8').split('\n'), 1):
        match = row.match(line)
        if not match:
            continue
        value, unit, source, name = match.groups()
        file = root / 'exeunt' / source
        text = file.read_text(encoding='utf-8') if file.exists() else ''
        found = re.search(rf"\b{name} = ([\w {{}}<']+)[,;]", text)
        got = eval(re.sub(r'\w+\{(\d+)\}', r'\1', found.group(1)).replace("'", '')) if found else None  # sources of ours
        if got != int(value) * units[unit or '']:
            yield f'{page.relative_to(root)}:{number}: {name} is {got}, the page says {value} {unit or ""}'.rstrip()


def breaches_of_methods(root, page):
    """A rule's row begins with its text form and names its file; losses and methods of calibration have one each."""
    text = page.read_text(encoding='utf-8')
    rows = [line for line in text.split('\n') if line.startswith('| ')]
    where = page.relative_to(root)
    for file in sorted((root / 'exeunt/policy/rules').glob('*.h')):
        for name in re.findall(r'kName = "(\w+)"', file.read_text(encoding='utf-8')):
            if not any(re.match(rf'\| `{name}[`:]', row) and f'`policy/rules/{file.name}`' in row for row in rows):
                yield f'{where}: no row of `{name}` names `policy/rules/{file.name}`'
    kinds = root / 'exeunt/policy/policy_file.cc'
    lists = re.findall(r'k(?:Losses|Methods)\{([^}]*)\}', kinds.read_text(encoding='utf-8')) if kinds.exists() else []
    for name in re.findall(r'"([\w-]+)"', ' '.join(lists)):
        if not any(re.match(rf'\| `{name}`.*`certify/\w+\.cc`', row) for row in rows):
            yield f'{where}: no row for `{name}`'
    citation = root / 'CITATION.cff'
    cited = citation.read_text(encoding='utf-8') if citation.exists() else ''
    for paper in re.findall(r'\]\((https://(?:arxiv|aclanthology|doi)\.org/[^)]+)\)', text):
        if f'url: "{paper}"' not in cited:
            yield f'{where}: {paper} is not among the references of CITATION.cff'


def breaches_of_index(root, index):
    """docs/README.md leads to every page beside it."""
    known = {target.partition('#')[0] for _, target in links(index.read_text(encoding='utf-8'))}
    for page in sorted(index.parent.glob('*.md')):
        if page != index and page.name not in known:
            yield f'{index.relative_to(root)}: no link to {page.name}'


def breaches_of_words(root):
    words = sum(len(page.read_text(encoding='utf-8').split()) for page in (root / 'docs').glob('*.md'))
    if words > MOST_WORDS:
        yield f'docs: {words:,} words, want at most {MOST_WORDS:,}: what few users need goes to lab/docs, what was found once to lab/notebooks'


def breaches_of_problems(root, page):
    """Every source that needs a case for another kind of problem is named."""
    named = set(SOURCE.findall(' '.join(CODE.findall(page.read_text(encoding='utf-8')))))
    for file in sorted(file for top in ('exeunt', 'apps', 'lab') for file in (root / top).rglob('*')):
        if file.suffix in ('.h', '.cc', '.cu') and 'case Problem::' in file.read_text(encoding='utf-8'):
            path = str(file.relative_to(root)).removeprefix('exeunt/')
            if path not in named:
                yield f'{page.relative_to(root)}: does not name `{path}`, which has a switch over Problem'


def breaches_of_commands(root, tests):
    """Pages whose blocks have commands are run by pages_test.py, or by another test."""
    run = tests.read_text(encoding='utf-8')
    for page in [*sorted((root / 'docs').glob('*.md')), *sorted((root / 'lab/docs').glob('*.md'))]:
        name, block = str(page.relative_to(root)), None
        for line in page.read_text(encoding='utf-8').split('\n'):
            if FENCE.match(line):
                block = line if block is None else None
            elif (block == '```sh' or block == '```' and line.startswith('exeunt ')) and name not in RUN_ELSEWHERE:
                if not re.search(rf'\b{name.removesuffix(".md")}\b', run):
                    yield f'{name}: no test runs its commands; add it to {tests.relative_to(root)}'
                break


def breaches_of_decisions(root, table):
    """`table` is one of sha256sum: a page that was entered is not changed, a new one is entered."""
    entered = dict(reversed(line.split('  ', 1)) for line in table.read_text(encoding='utf-8').splitlines())
    there = {page.name: hashlib.sha256(page.read_bytes()).hexdigest() for page in (root / 'docs/decisions').glob('*.md')}
    for name in sorted(entered.keys() | there.keys()):
        where = f'docs/decisions/{name}'
        if name not in entered:
            yield f'{where}: is not entered: (cd docs/decisions && sha256sum {name}) >> {table.relative_to(root)}'
        elif name not in there:
            yield f'{where}: is gone; a page stays'
        elif there[name] != entered[name]:
            yield f'{where}: was changed; a changed decision is a new page'


def breaches(root):
    for page in pages(root):
        if page.parent.name == 'decisions':  # frozen: they may name what is gone
            continue
        yield from breaches_of_links(root, page)
        if page.name != 'CHANGELOG.md':  # which may name what is gone
            yield from breaches_of_sources(root, page)
    if (root / 'docs/methods.md').exists():
        yield from breaches_of_methods(root, root / 'docs/methods.md')
    yield from breaches_of_words(root)
    if (root / 'docs/README.md').exists():
        yield from breaches_of_index(root, root / 'docs/README.md')
    if (root / 'docs/contributing.md').exists():
        yield from breaches_of_diffs(root, root / 'docs/contributing.md')
        yield from breaches_of_problems(root, root / 'docs/contributing.md')
    if (root / 'tests/system/docs/CMakeLists.txt').exists():
        yield from breaches_of_commands(root, root / 'tests/system/docs/CMakeLists.txt')
    if (root / DECISIONS).exists():
        yield from breaches_of_decisions(root, root / DECISIONS)
    if (root / 'docs/security.md').exists():
        yield from breaches_of_limits(root, root / 'docs/security.md')


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else '.')
    if not any(pages(root)):
        print(f'check_pages: {root} has no Markdown files', file=sys.stderr)
        return 2
    found = list(breaches(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
