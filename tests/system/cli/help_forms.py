#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual in the forms that other programs read, tried in those programs.

    help_forms.py EXEUNT SOURCE reference    docs/cli.md is what scripts/manual makes of the command
    help_forms.py EXEUNT SOURCE man          every page through groff without a warning, and through man where it is there
    help_forms.py EXEUNT SOURCE completion   candidates of every verb, also of exeunt-lab's; the scripts where the shells are there
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
    return set(re.findall(r'^  (?:\S+, )*?(--[a-z][a-z0-9-]*)', text, re.M))


def check_reference():
    file = SOURCE / 'docs' / 'cli.md'
    kept, now = file.read_text(), run(sys.executable, SOURCE / 'scripts' / 'manual', EXEUNT).stdout
    difference = difflib.unified_diff(kept.splitlines(), now.splitlines(), 'docs/cli.md', 'scripts/manual', lineterm='', n=0)
    expect(f'docs/cli.md is out of date; write it again: scripts/manual {EXEUNT} > docs/cli.md', kept == now, '\n'.join(difference))
    for path, text in verbs():
        title = ' '.join(('exeunt', *path))
        expect(f'no section for {title}', not path or f'\n## {title}\n' in now)
        for flag in flags(text):
            expect(f'{flag} of {title} is missing', re.search(flag + '[`, ]', now))


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
_exeunt "$1"
printf '%s\n' "${COMPREPLY[@]}"
'''
ENVIRONMENT = {'PATH': f'{EXEUNT.parent}:/usr/bin:/bin'}


def candidates(*words, program='exeunt'):
    """What may be typed for the last word; None where it is a file."""
    done = run(EXEUNT.parent / program, '__complete', *words)
    expect(f'{program} complains after {words}', done.returncode in (0, 1) and not done.stderr, done.stderr)
    return {line.split('\t')[0] for line in done.stdout.splitlines()} if done.returncode == 0 else None


def bash(script, *words):
    done = run('bash', '--norc', '-c', BASH, 'bash', *words, env=ENVIRONMENT | {'SCRIPT': script})
    expect(f'bash complains after {words}', done.returncode == 0 and not done.stderr, done.stderr)
    return set(done.stdout.split())


def fish(script, *words):
    with tempfile.TemporaryDirectory() as home:
        done = run('fish', '--no-config', '-c', f'source\ncomplete -C "{" ".join(words)}"', input=script, env=ENVIRONMENT | {'HOME': home})
    return {line.split('\t')[0] for line in done.stdout.splitlines()}


def check_completion():
    every = list(verbs())
    for path, text in every:
        got = candidates(*path, '--')
        expect(f'flags after {path}', got >= flags(text) and all(flag.startswith('--') for flag in got), flags(text) ^ got)
    top = {path[0] for path, _ in every if path}
    lab = (EXEUNT.parent / 'exeunt-lab').exists()
    for words, wanted in [
        ([''], top),
        (['ca'], {'calibrate'}),
        (['help', ''], top),
        (['policy', ''], {'show', 'set'}),
        (['completion', ''], {'bash', 'zsh', 'fish'}),
        (['convert', 'model', '--to', ''], {'exeunt', 'hf'}),
        (['convert', 'model', '--to=h'], {'--to=hf'}),
        (['convert', 'model', '--to', '=', 'h'], {'hf'}),
        (['convert', 'model', '--to', '='], {'exeunt', 'hf'}),
        (['train', '--recipe', 'info', '--reg'], {'--regression'}),
        (['launch', '--nproc', '2', 'train', '--reg'], {'--regression'}),
        (['convert', 'model', '--out', ''], None),
        (['convert', ''], None),
        (['info', '--tokens', ''], set()),
    ] + lab * [(['repr'], {'reproduce'}), (['reproduce', '--fro'], {'--from'}), (['sweep', '--elue-'], {'--elue-scores'})]:
        got = candidates(*words)
        expect(f'completion of {words}', got == wanted, f'got {got}, want {wanted}')
    if lab:
        expect("exeunt-lab's verbs", candidates('', program='exeunt-lab') > top)
    typed = [(['exeunt', 'ca'], {'calibrate'}), (['exeunt', 'policy', 's'], {'show', 'set'}), (['exeunt', 'info', '--sh'], {'--shape'}),
             (['exeunt', 'convert', 'm', '--to', ''], {'exeunt', 'hf'}), (['exeunt', 'launch', '--nproc', '2', 'train', '--reg'], {'--regression'})]
    for shell, complete in ('bash', bash), ('zsh', None), ('fish', fish):
        if not shutil.which(shell):
            print(f'no {shell} here: its script was not read')
            continue
        script = printed('completion', shell)
        done = run(shell, '-n', '/dev/stdin', input=script)
        expect(f'{shell} -n', done.returncode == 0 and not done.stderr, done.stderr)
        for words, wanted in typed if complete else ():
            got = complete(script, *words)
            expect(f'{shell} on {words}', got == wanted, f'got {got}, want {wanted}')


{'reference': check_reference, 'man': check_man, 'completion': check_completion}[sys.argv[3]]()
for failure in failures[:20]:
    print(failure)
sys.exit(bool(failures))
