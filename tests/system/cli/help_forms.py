#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual in the forms that other programs read, tried in those programs.

    help_forms.py EXEUNT SOURCE reference    docs/cli.md is what the command prints
    help_forms.py EXEUNT SOURCE man          every page through groff without a warning, and through man where it is there
    help_forms.py EXEUNT SOURCE completion   bash's script run; zsh's read and fish's run where those shells are there
"""
import difflib, pathlib, re, shutil, subprocess, sys, tempfile

EXEUNT, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
failures = []


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, **more)


def printed(*words):
    done = run(EXEUNT, *words)
    assert done.returncode == 0, f'exeunt {words}: {done.stderr}'
    return done.stdout


def expect(what, condition, details=''):
    if not condition:
        failures.append(f'{what}\n{details}')


def verbs(path=()):
    """Every verb as a tuple of words, with its help."""
    text = printed(*path, '--help')
    yield path, text
    for part in re.split(r'\n\n', text):
        title = part.strip('\n').split('\n')[0]
        if not title.endswith(':') or title in ('Options:', 'Common options:', 'Arguments:', 'Examples:') or path and title != 'Verbs:':
            continue
        for name in re.findall(r'^  ([a-z]+)\s', part, re.M):
            yield from verbs((*path, name))


def flags(text):
    text = text.split('\nExamples:')[0]
    return set(re.findall(r'^  (?:\S+, )*?(--[a-z][a-z-]*)', text, re.M))


def check_reference():
    file = SOURCE / 'docs' / 'cli.md'
    kept, now = file.read_text(), printed('help', '--markdown')
    difference = difflib.unified_diff(kept.splitlines(), now.splitlines(), 'docs/cli.md', 'exeunt help --markdown', lineterm='', n=0)
    expect(f'docs/cli.md is out of date; write it again: {EXEUNT} help --markdown > docs/cli.md', kept == now, '\n'.join(difference))
    for path, text in verbs():
        title = ' '.join(('exeunt', *path))
        expect(f'no section for {title}', not path or f'\n## {title}\n' in now)
        for flag in flags(text):
            expect(f'{flag} of {title} is missing', f'{flag}`' in now or f'{flag} ' in now)


def check_man():
    with tempfile.TemporaryDirectory() as scratch:
        printed('help', '--man', '--out', scratch)
        pages = {page.name: page for page in pathlib.Path(scratch).iterdir()}
        every = list(verbs())
        expect('pages', set(pages) == {'exeunt.1'} | {f'exeunt-{path[0]}.1' for path, _ in every if path}, sorted(pages))
        for page in pages.values():
            expect(f'{page.name} is not ASCII', page.read_bytes().isascii())
            if shutil.which('groff'):
                done = run('groff', '-z', '-ww', '-man', '-Tutf8', page)
                expect(f'groff finds fault with {page.name}', done.returncode == 0 and not done.stderr, done.stderr)
        expect('one page alone', printed('help', '--man', 'info') == pages['exeunt-info.1'].read_text())
        if not shutil.which('groff'):
            return print('no groff here: the pages were only written')
        for path, text in every:
            name = f'exeunt-{path[0]}.1' if path else 'exeunt.1'
            shown = run('groff', '-man', '-Tutf8', '-P-c', '-P-b', '-P-u', pages[name]).stdout
            for flag in flags(text):
                expect(f'{flag} is missing in {name}', flag in shown, shown)
        if shutil.which('man'):
            shown = run('man', '-l', pages['exeunt-convert.1'], env={'PATH': '/usr/bin:/bin', 'MANPAGER': 'cat', 'LC_ALL': 'C.UTF-8'})
            # A bare machine has a man that only says that its pages were left out.
            if 'minimized' not in shown.stdout:
                expect('man -l', shown.returncode == 0 and 'exeunt convert SRC --out PATH' in shown.stdout, shown.stderr)


BASH = r'''
source /dev/stdin <<< "$SCRIPT"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_exeunt
printf '%s\n' "${COMPREPLY[@]}"
'''


def bash(script, *words):
    done = run('bash', '--norc', '-c', BASH, 'bash', *words, env={'SCRIPT': script, 'PATH': '/usr/bin:/bin'})
    expect(f'bash complains after {words}', done.returncode == 0 and not done.stderr, done.stderr)
    return set(done.stdout.split())


def check_completion():
    script = printed('completion', 'bash')
    every = list(verbs())
    for path, text in every:
        got = bash(script, 'exeunt', *path, '--')
        expect(f'flags after {path}', got >= flags(text) and all(flag.startswith('--') for flag in got), flags(text) ^ got)
    top = {path[0] for path, _ in every if path}
    for words, wanted in [
        (['exeunt', ''], top),
        (['exeunt', 'ca'], {'calibrate'}),
        (['exeunt', 'help', ''], top),
        (['exeunt', 'policy', ''], {'show', 'set'}),
        (['exeunt', 'completion', ''], {'bash', 'zsh', 'fish'}),
        (['exeunt', 'convert', 'model', '--to', ''], {'exeunt', 'hf'}),
        (['exeunt', 'convert', 'model', '--to', '=', 'h'], {'hf'}),
        (['exeunt', 'convert', 'model', '--to', '='], {'exeunt', 'hf'}),
        (['exeunt', 'train', '--recipe', 'info', '--reg'], {'--regression'}),
        (['exeunt', 'launch', '--nproc', '2', 'train', '--reg'], {'--regression'}),
        (['exeunt', 'convert', 'model', '--out', ''], set()),  # left to the shell: files
        (['exeunt', 'info', '--tokens', ''], set()),
    ]:
        got = bash(script, *words)
        expect(f'completion of {words}', got == wanted, f'got {sorted(got)}, want {sorted(wanted)}')
    for shell in ('zsh', 'fish'):
        script = printed('completion', shell)
        for path, text in every:
            for flag in flags(text):
                expect(f'{shell} does not know {flag}', flag in script or f'-l {flag[2:]} ' in script)
        if not shutil.which(shell):
            print(f'no {shell} here: its script was not read')
            continue
        done = run(shell, '-n', '/dev/stdin', input=script)
        expect(f'{shell} -n', done.returncode == 0 and not done.stderr, done.stderr)
    if shutil.which('fish'):
        check_fish(printed('completion', 'fish'))


def check_fish(script):
    with tempfile.TemporaryDirectory() as home:
        for typed, wanted in [('exeunt ca', {'calibrate'}), ('exeunt policy s', {'show', 'set'}),
                              ('exeunt convert m --to ', {'exeunt', 'hf'}), ('exeunt info --sh', {'--shape'}),
                              ('exeunt launch --nproc 2 train --reg', {'--regression'})]:
            done = run('fish', '--no-config', '-c', f'source\ncomplete -C "{typed}"', input=script,
                       env={'PATH': '/usr/bin:/bin', 'HOME': home})
            got = {line.split('\t')[0] for line in done.stdout.splitlines()}
            expect(f'fish on "{typed}"', got == wanted, f'{got} {done.stderr}')


{'reference': check_reference, 'man': check_man, 'completion': check_completion}[sys.argv[3]]()
for failure in failures[:20]:
    print(failure)
sys.exit(bool(failures))
