# SPDX-License-Identifier: Apache-2.0
"""One-token errors of C++ sources at random: what scripts/mutations --sample draws from."""
import collections
import platform
import random
import re

Site = collections.namedtuple('Site', 'kind start end new')

# Comments, preprocessor lines, text and characters are not changed; nor are assertions at compile time, which no test judges.
HIDDEN = re.compile(r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\''
                    r'|static_assert\(.*?\);|\[\[\w+\]\]|^[^\n]*\.reserve\([^\n]*', re.S | re.M)
SWAPPED = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '==', '+': '-', '-': '+', '*': '/', '/': '*',
           '%': '/', '&&': '||', '||': '&&', '+=': '-=', '-=': '+=', '++': '--', '--': '++', 'true': 'false', 'false': 'true',
           'std::min': 'std::max', 'std::max': 'std::min', '!': ''}
# clang-format puts blanks around binary operators and none around the brackets of templates.
TOKENS = [
    ('comparison', re.compile(r'(?<= )(?:<=|>=|==|!=|<|>)(?= )')),
    ('arithmetic', re.compile(r'(?<=[\w)\]] )[-+*/%](?= [\w(])|(?<= )[-+]=(?= )|\+\+(?=\w)|--(?=\w)|\bstd::(?:min|max)\b')),
    ('logic', re.compile(r'(?<= )(?:&&|\|\|)(?= )|(?<=[( ])!(?=[\w(])|\b(?:true|false)\b')),
]
NUMBER = re.compile(r'(?<![\w.\'])(\d+\.\d*(?:e-?\d+)?|\d+)(F|U|ULL?|LL?)?(?![\w.\'])')
CONDITION = re.compile(r'(?<!else )\bif \((?!constexpr)')
ARGUMENTS = re.compile(r'(?<=\w\()([\w.]+), ([\w.]+)(?=[,)])')
# A call or an assignment that fills a line; a declaration has a type before the name.
STATEMENT = re.compile(r'^ +(?!return\b|using\b|throw\b|delete\b)[\w.\[\]*>-]+(?:\([^\n]*\)| [-+*|&]?= [^\n]*);$', re.M)


def closing(text, at):
    """The bracket that closes the one before `at`."""
    depth = 1
    while at < len(text) and depth:
        depth += {'(': 1, ')': -1}.get(text[at], 0)
        at += 1
    return at - 1


def other_number(match):
    number, suffix = match.group(1), match.group(2) or ''
    if '.' not in number:
        return f'{int(number) + 1}{suffix}'
    return f'{float(number) * 2 if float(number) else 1.0}{suffix}'


def sites(source):
    """Every error this module knows of for a source file."""
    text = HIDDEN.sub(lambda match: re.sub(r'[^\n]', '@', match.group()), source)
    found = [Site(kind, match.start(), match.end(), SWAPPED[match.group()])
             for kind, pattern in TOKENS for match in pattern.finditer(text)]
    found += [Site('constant', match.start(), match.end(), other_number(match)) for match in NUMBER.finditer(text)]
    for match in CONDITION.finditer(text):
        end = closing(text, match.end())
        if not re.search(r';| = ', text[match.end():end]):
            found.append(Site('condition', match.end(), end, 'false'))
    found += [Site('arguments', match.start(), match.end(), f'{match.group(2)}, {match.group(1)}')
              for match in ARGUMENTS.finditer(text) if match.group(1) != match.group(2)]
    found += [Site('statement', match.start(), match.end(), '  (void)0;') for match in STATEMENT.finditer(text)
              if '@' not in match.group()]
    return found


def is_testable(name):
    """Sources whose code this machine's tests can run."""
    foreign = 'x86' if platform.machine() in ('aarch64', 'arm64') else 'arm'
    return (name.startswith(('exeunt/', 'apps/', 'lab/')) and name.endswith(('.cc', '.h')) and '_stub' not in name
            and not re.search(rf'/cuda/|/{foreign}/|_{foreign}\.|_other\.|nccl|/gpu', name))


def draw(sources, seed):
    """(file, site) without end, in an order that the seed gives: a line by chance, then one of its errors by chance."""
    lines = collections.defaultdict(list)
    for name in sorted(sources):
        for site in sites(sources[name]):
            lines[name, sources[name].count('\n', 0, site.start)].append(site)
    chance = random.Random(seed)
    order = sorted(lines)
    chance.shuffle(order)
    for name, line in order:
        yield name, chance.choice(lines[name, line])


def interval(caught, count, z=1.96):
    """Wilson's 95 % interval of a share."""
    share, square = caught / count, z * z / count
    half = z * ((share * (1 - share) + square / 4) / count) ** 0.5
    return (share + square / 2 - half) / (1 + square), (share + square / 2 + half) / (1 + square)
