#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From nothing to a served, certified model by the commands of README.md, letter for letter and no others.

    readme_test.py BUILD REPOSITORY attach|train

The first screen's three commands, or the two for a table of one's own, run in a folder that has only what their reader has: a
classifier as transformers wrote it and a log, or a CSV. Of `make install`, the build is taken as done: its last step installs
from BUILD. Exit status 1 with what went wrong.
"""
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

BUILD, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
FIXTURES = ROOT / 'tests/fixtures'
SCREEN = 24  # lines of a terminal
LIMIT_S = 600  # for whatever does not end by itself


def block_with(verb):
    """(line, command) of each line of the block that has `exeunt VERB`; what a command does stands behind two blanks."""
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    for block in re.finditer(r'^```\n(.*?)^```', text, re.S | re.M):
        if re.search(rf'^exeunt {verb} ', block.group(1), re.M):
            first = text[:block.start(1)].count('\n') + 1
            return [(first + i, re.split(' {2,}', line)[0]) for i, line in enumerate(block.group(1).splitlines())]
    sys.exit(f'README.md has no block with exeunt {verb}')


def drawn(count, seed):
    script = ROOT / 'tests/system/cli/drawn_texts.py'
    return subprocess.run([sys.executable, script, str(count), str(seed)], check=True, capture_output=True, text=True).stdout


def give_finished_model(folder):
    """What `exeunt attach` of README names: ./my-finetuned-bert and log.txt."""
    model = folder / 'my-finetuned-bert'
    model.mkdir()
    for name in ('config.json', 'model.safetensors'):
        shutil.copy(FIXTURES / 'golden/hf_bert_classifier' / name, model)
    backbone = FIXTURES / 'checkpoints/bert-backbone'
    shutil.copy(backbone / 'tokenizer_config.json', model)
    words = (backbone / 'vocab.txt').read_text().splitlines(True)
    (model / 'vocab.txt').write_text(''.join(words[:40]))  # as many as the model has
    (folder / 'log.txt').write_text(drawn(1500, 1))


def give_table(folder):
    """What `exeunt train` of README names: my.csv with the columns body and topic."""
    with open(folder / 'my.csv', 'w', newline='', encoding='utf-8') as file:
        rows = csv.writer(file)
        rows.writerow(('id', 'body', 'topic'))
        for number, text in enumerate(drawn(1300, 3).splitlines()):
            rows.writerow((number, text, 'film' if re.search('film|movie', text) else 'other'))


def run(command, folder, environment):
    done = subprocess.run(['sh', '-c', command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        sys.exit(f'{command}: status {done.returncode}\n{done.stdout}')
    return done.stdout


def install(command, prefix):
    """The last step of `make install`, from BUILD; what it installs must be among the targets built before."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith('MAKE')}  # of `make test`
    steps = run(f'{command} --dry-run PREFIX={prefix} JOBS=1', ROOT, outside).splitlines()
    built = steps[-2].partition('--target ')[2].split()
    run(steps[-1].replace('build/release', str(BUILD)), ROOT, outside)
    for program in [*(prefix / 'bin').iterdir(), *(prefix / 'libexec/exeunt').glob('*')]:
        if program.name not in built:
            sys.exit(f'{command} installs {program.name} and builds {built}')


def check_served(command, folder, environment):
    """It answers a text, with a promise, and has the playground."""
    log = folder / 'serve.log'
    with open(log, 'w', encoding='utf-8') as file:
        server = subprocess.Popen(['sh', '-c', f'exec {command}'], cwd=folder, env=environment, stderr=file)
    try:
        end = time.monotonic() + LIMIT_S

        def wait_for(what):
            while not (found := what()):
                if server.poll() is not None or time.monotonic() > end:
                    sys.exit(f'{command}: status {server.poll()}\n{log.read_text()}')
                time.sleep(0.05)
            return found

        url = 'http://' + wait_for(lambda: re.search(r'listening address=(\S+)', log.read_text())).group(1)
        body = json.dumps({'inputs': 'a film of the plot'}).encode()
        request = urllib.request.Request(f'{url}/predict', body, {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request) as answer:
            if not json.load(answer)[0]['label']:
                sys.exit('no label')
        # Certified once the weights are hashed, in the background.
        info = wait_for(lambda: (got := json.load(urllib.request.urlopen(f'{url}/info')))['certified'] and got)
        if not re.match(r'at most \d+ % of answers to distinct texts differ from the fp32 model at full depth', info['promise']):
            sys.exit(f'promise: {info["promise"]}')
        with urllib.request.urlopen(urllib.request.Request(f'{url}/', headers={'Accept': 'text/html'})) as page:
            if 'text/html' not in page.headers['Content-Type']:
                sys.exit('no playground')
    finally:
        server.terminate()
        server.wait()


def main():
    verb = sys.argv[3]
    commands = block_with(verb)
    kinds = [command.split()[:2] for _, command in commands]
    wanted = [['make', 'install'], ['exeunt', 'attach'], ['exeunt', 'serve']] if verb == 'attach' else [['exeunt', 'train'], ['exeunt', 'serve']]
    if kinds != wanted:
        sys.exit(f'README.md shows {commands}')
    if verb == 'attach' and commands[-1][0] > SCREEN:
        sys.exit(f'README.md:{commands[-1][0]}: below the first screen')
    with tempfile.TemporaryDirectory() as scratch:
        folder, prefix = pathlib.Path(scratch) / 'work', pathlib.Path(scratch) / 'prefix'
        folder.mkdir()
        install(block_with('attach')[0][1], prefix)
        # PORT: a free one, because 3000 may be taken. EXEUNT_MODEL: an encoder of three layers, because the test has minutes.
        environment = dict(os.environ, PATH=f'{prefix}/bin:{os.environ["PATH"]}', PORT='0', LC_ALL='C.UTF-8', NO_COLOR='1',
                           XDG_STATE_HOME=f'{scratch}/state', EXEUNT_MODEL=str(FIXTURES / 'checkpoints/bert-backbone'))
        (give_finished_model if verb == 'attach' else give_table)(folder)
        printed = run(commands[-2][1], folder, environment)
        if not re.search('^promise: at most [25] % of answers to distinct texts differ from the fp32 model at full depth', printed, re.M):
            sys.exit(f'{commands[-2][1]}: no promise\n{printed}')
        check_served(commands[-1][1], folder, environment)
    return 0


if __name__ == '__main__':
    sys.exit(main())
