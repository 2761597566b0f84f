#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tree to docs/architecture.md: who may include and link whom, where torch may be named, where a model's family
may be asked for, where a paper may be named, how long a file is, how many folders include one another, how a test is named.
And to what a build needs: one definition of each type of a named namespace (the linker would join two of them without a
word), and, because sources of a folder are compiled together, names of their own in unnamed namespaces.

    check_layers.py [ROOT]      prints one line per breach, exit status 1 if there is any
"""
import re
import sys
from pathlib import Path

# The arrows of docs/architecture.md, as they stand there. What an arrow reaches, it reaches with all that lies below.
ARROWS = {
    'base': [],
    'text': ['base'], 'outputs': ['base'],
    'model': ['outputs'], 'policy': ['outputs'],
    'recipes': ['policy', 'model'],
    'data': ['text', 'model'],
    'engine': ['policy', 'model', 'text'],
    'eval': ['engine', 'data'],
    'certify': ['eval'],
    'attach': ['certify'],
    'predict': ['eval'],
    'train': ['recipes', 'certify'],
    'serve': ['certify'],
    'c': ['certify'],
    'trainer': ['train', 'attach'],
    'apps': ['attach', 'predict', 'serve', 'recipes'],
    # Everything may be used in the lab; nothing uses the lab. Its folders train and pretrain see torch.
    'lab': ['apps', 'trainer'],
}


def reach(layer):
    return set(ARROWS[layer]).union(*(reach(below) for below in ARROWS[layer]))


ALLOWED = {layer: reach(layer) for layer in ARROWS}
ALLOWED['train'] -= {'engine'}  # two forward passes that share only checkpoints, so that each can check the other
MAX_LINES = 600
# Lines of C++ in the whole tree. They only go down: who adds lines removes others, who removes lowers these.
BUDGET = {('exeunt', 'apps'): 65_890, ('exeunt', 'apps', 'lab'): 76_433}
# Pairs of folders of exeunt/, with apps as one, of which the first includes the second. They only go down, too.
MOST_ARROWS = 74
SOURCES = {'.h', '.cc', '.cu', '.cuh', '.inc'}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
INCLUDE_LINES = re.compile(INCLUDE.pattern, re.M)
TYPE = re.compile(r'(?:struct|class|union|enum(?: class)?) (\w+)(?: final)?(?: [:{]|$)')
CONSTANT = re.compile(r'\b(k[A-Z]\w*)(?= = |\[|\{)')
FUNCTION = re.compile(r'(?!TEST|INSTANTIATE|RC_|BENCHMARK)[\w:<>,&*\[\] ]+ \**(\w+\(.*\)).* \{$')
FAMILY = re.compile(r'[=!]= *Family::|Family::\w+ *[=!]=|case Family::')
# What belongs to one paper is in lab/; a recipe, which users name, is a JSON file. elasticbert is a family of encoders as well.
PAPER = re.compile(r'DeeBERT|PABEE|ElasticBERT|RomeBERT|ELBERT\b|BERxiT|BranchyNet|FastBERT|BADGE|\belbert_|Elbert[A-Z]')
# A test's name states a condition and is read alone; it begins neither with an article nor in the middle of a sentence.
TEST_NAME = re.compile(r'^\s*(?:TEST(?:_F|_P)?|RC_GTEST_PROP)\((\w+), *((?:Of|The|What|An?)[A-Z]\w*)')
LIBRARY = re.compile(r'exeunt_library\s*\(([^)]*)\)', re.S)


def layer_of(path):
    """'exeunt/text/x.cc' is of text, 'apps/exeunt/x.cc' of apps; anything else belongs to no layer.

    The program apps/exeunt-train is a layer of its own: it alone sees train.
    """
    parts = path.parts
    if parts[0] == 'exeunt' and len(parts) > 2:
        return parts[1]
    if parts[0] == 'lab':
        return 'lab'
    if parts[0] == 'apps':
        return 'trainer' if parts[1] == 'exeunt-train' else 'apps'
    return None


def is_lab_program(path):
    return path.parts[0] == 'lab' and path.parts[1] in ('cli', 'train')


def other_train(target):
    return target.startswith(('exeunt/train/', 'apps/exeunt-train/'))


def breaches_of_source(path, text):
    layer = layer_of(path)
    lines = text.split('\n')
    count = len(lines) - (lines[-1] == '')
    if count > MAX_LINES:
        yield f'{path}: {count} lines, want at most {MAX_LINES}: split it at its second idea'
    for number, line in enumerate(lines, 1):
        if name := TEST_NAME.match(line):
            yield f'{path}:{number}: {name.group(1)}.{name.group(2)}: a test is named by its condition, such as RejectsLongToken'
    if layer is None:
        return
    if layer not in ALLOWED:
        yield f'{path}: folder {layer} has no place in the table of docs/architecture.md'
        return
    for number, line in enumerate(lines, 1):
        if layer != 'model' and FAMILY.search(line):
            yield f'{path}:{number}: asks for a family; what it has belongs in ModelSpec or in its row of model/families.json'
        if layer != 'lab' and (paper := PAPER.search(line)):
            yield f'{path}:{number}: names {paper.group()}; say the method, and keep what belongs to a paper in lab/'
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        top = target.split('/')[0]
        if top in ('torch', 'ATen', 'c10') and layer != 'train' and path.parts[:2] != ('lab', 'pretrain'):
            yield f'{path}:{number}: includes {target}; torch belongs in train alone'
        if top in ('apps', 'tests', 'benchmarks') and layer not in ('apps', 'trainer') and not is_lab_program(path):
            yield f'{path}:{number}: includes {target}; a library includes only exeunt/ and other libraries'
        if other_train(target) and layer == 'lab' and path.parts[1] not in ('pretrain', 'train'):
            yield f'{path}:{number}: includes {target}; in the lab, train is for its folders pretrain and train'
        if '..' in target.split('/'):
            yield f'{path}:{number}: includes {target}; include paths start at the root of the repository'
        other = layer_of(Path(target)) if top in ('exeunt', 'lab') else None
        if other and other != layer and other not in ALLOWED[layer]:
            yield f'{path}:{number}: {layer} includes {target}; there is no arrow from {layer} to {other}'


def unnamed_names(text):
    """(line, name) of the types, constants and functions in unnamed namespaces, told by our format: they start a line."""
    outer, inside = '', False
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith(('namespace ', '}  // namespace')) and ' = ' not in line:
            inside = line == 'namespace {'
            outer = outer if inside or line == '}  // namespace' else line
        elif inside and line[:1].isalpha():
            known = TYPE.match(line)
            names = [known.group(1)] if known else CONSTANT.findall(line) if line.startswith('const') else []
            function = FUNCTION.match(line)
            if function and not names:  # overloads differ in types; what parameters are called does not count
                names = [re.sub(r' ?\w+(?=[,)])', '', function.group(1))]
            yield from ((number, (outer, name)) for name in names)


def breaches_of_names(sources):
    """`sources`: path and text. Files for one architecture each, and programs of one file, are never joined."""
    first = {}
    for path, text in sources:
        alone = path.parts[-2] in ('x86', 'arm', 'fuzz') or re.search(r'_(x86|arm|other|stub|absent)\.cc$', path.name)
        if path.suffix != '.cc' or alone:
            continue
        for number, name in unnamed_names(text):
            known = first.setdefault((path.parent, name), path)
            if known != path:
                yield f'{path}:{number}: {name[1]} is in the unnamed namespace of {known} too; they are compiled together'


def breaches_of_types(sources):
    """Types that two files define in one named namespace. Files for one architecture each are never linked together."""
    first = {}
    for path, text in sources:
        if path.parts[0] not in ('exeunt', 'apps', 'lab') or set(path.parts) & {'x86', 'arm'}:
            continue
        namespaces = []
        for number, line in enumerate(text.split('\n'), 1):
            if line.startswith('namespace ') and ' = ' not in line:
                namespaces.append(line)
            elif line.startswith('}  // namespace') and namespaces:
                namespaces.pop()
            elif (known := TYPE.match(line)) and line.endswith('{') and 'namespace {' not in namespaces:
                other = first.setdefault((tuple(namespaces), known.group(1)), path)
                if other != path:
                    yield f'{path}:{number}: {known.group(1)} is defined in {other} too'


def breaches_of_links(path, text):
    """The same arrows for exeunt_library(name … LINKS …) in CMake."""
    for match in LIBRARY.finditer(re.sub(r'#.*', '', text)):
        words = match.group(1).split()
        layer = 'lab' if words[0].startswith('lab_') else words[0]
        if layer not in ALLOWED:
            yield f'{path}: library {layer} has no place in the table of docs/architecture.md'
            continue
        keyword = ''
        for word in words[1:]:
            if word in ('SOURCES', 'LINKS', 'PRIVATE_LINKS'):
                keyword = word
            if keyword == 'SOURCES':
                continue
            linked = re.fullmatch(r'exeunt(?:::|_)(\w+)', word)
            other = linked.group(1) if linked else None
            other = 'lab' if other and other.startswith('lab_') else other
            if other in ALLOWED and other != layer and other not in ALLOWED[layer]:
                yield f'{path}: {layer} links {word}; there is no arrow from {layer} to {other}'
            if re.search(r'torch', word, re.I) and layer != 'train' and words[0] != 'lab_pretrain':
                yield f'{path}: {layer} links {word}; torch belongs in train alone'


def breaches_of_budget(sources):
    for tops, most in BUDGET.items():
        count = sum(text.count('\n') for path, text in sources if path.parts[0] in tops)
        if count > most:
            yield f"{' + '.join(tops)}: {count} lines, want at most {most}: a feature that adds lines removes others"


def breaches_of_arrows(sources):
    """Names the pairs that one include makes: among them is the new one, or one that is easily cut."""
    pairs = {}
    for path, text in sources:
        here = {'trainer': 'apps'}.get(layer_of(path), layer_of(path))
        for target in INCLUDE_LINES.findall(text) if path.parts[0] in ('exeunt', 'apps') else []:
            there = {'trainer': 'apps'}.get(layer_of(Path(target)), layer_of(Path(target)))
            if there and there != here:
                pairs.setdefault((here, there), []).append(f'{path} includes {target}')
    if len(pairs) > MOST_ARROWS:
        single = '; '.join(sorted(lines[0] for lines in pairs.values() if len(lines) == 1))
        yield f'{len(pairs)} pairs of folders where one includes the other, want at most {MOST_ARROWS}; these by one line: {single}'


def breaches(root):
    sources = []
    for top in ('exeunt', 'apps', 'lab', 'tests', 'benchmarks', 'examples'):
        for file in sorted((root / top).rglob('*')):
            path = file.relative_to(root)
            if file.suffix in SOURCES:
                sources.append((path, file.read_text(encoding='utf-8')))
                yield from breaches_of_source(*sources[-1])
            elif file.suffix == '.inc':  # generated tables
                sources.append((path, file.read_text(encoding='utf-8')))
            elif file.name == 'CMakeLists.txt' and top in ('exeunt', 'apps', 'lab'):
                yield from breaches_of_links(path, file.read_text(encoding='utf-8'))
    yield from breaches_of_names(sources)
    yield from breaches_of_types(sources)
    yield from breaches_of_budget(sources)
    yield from breaches_of_arrows(sources)


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else '.')
    if not (root / 'exeunt').is_dir():
        print(f'check_layers: {root} has no folder exeunt', file=sys.stderr)
        return 2
    found = list(breaches(root))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
