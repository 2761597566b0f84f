#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every command of a page: the lines of its ```sh blocks, in order, in one folder with tiny models and data. Trainings
take two steps, and models have three layers. A server runs until the next one or the end of the page. Flags in the first column of a table are known.
Of a page without such blocks (EXAMPLES) it runs the lines of plain ones that begin with exeunt, up to a comment behind three blanks.

    pages_test.py EXEUNT REPOSITORY PAGE…
"""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import tiny

EXEUNT, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
TRAIN = '--max-steps 2 --device cpu'
BLOCK = re.compile(r'^```sh\n(.*?)^```', re.S | re.M)


def commands(text):
    """(line number, command) with continued lines joined."""
    if not BLOCK.search(text):
        for number, line in enumerate(text.split('\n'), 1):
            if line.startswith('exeunt '):
                yield number, line.split('   ')[0]
    for block in BLOCK.finditer(text):
        line = text[:block.start(1)].count('\n') + 1
        joined = ''
        for part in block.group(1).rstrip('\n').split('\n'):
            joined += part.removesuffix('\\')
            if not part.endswith('\\'):
                yield line, joined
                joined = ''
            line += 1


EXAMPLES = {'docs/data.md', 'docs/performance.md', 'docs/report.md', 'lab/docs/choosing.md', 'lab/docs/pretraining.md', 'lab/docs/recipe-auto.md'}
# The verb whose flags the tables of a page begin with.
VERBS = {'from-run-glue.md': 'train', 'from-the-papers.md': 'train', 'from-tei.md': 'serve'}


def flags(text):
    """(line number, flag) of every flag in the first column of a table."""
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith('| '):
            for flag in re.findall(r'--[a-z][\w-]*', line.split(' | ')[0]):
                yield number, flag


def shortened(command):
    """The same with two steps where it trains, which leave checkpoints to go on from; scripts take TRAIN_FLAGS."""
    command = re.sub(r'(--num_(hidden|output)_layers) 12\b', r'\1 3', command)  # of the tiny models
    if '--recipe auto' in command or ' pretrain ' in command:  # which write where another command of the page has written
        small = command.replace(' --precision bf16', '').replace('--batch 256 --accumulation 16', '--accumulation 2')
        return f'rm -rf {re.search("--out ([^ ]+)", command).group(1)}; {small} {TRAIN} --max-length 32 --batch 16'
    if command.startswith('exeunt bench'):
        return command.replace('3,6,9,12', '1,2,3') + ('' if '--lengths' in command else ' --lengths 8')
    if re.match(r'exeunt train', command) and not re.search('--save[-_](every|steps)', command):
        return f'{command} {TRAIN} --save-every 1'
    if re.match(r'(\w+=\S+ )*(exeunt (launch .*)?train|(sbatch )?deploy/\S*train)', command):
        return f'{command} {TRAIN}'
    if command.startswith('exeunt reproduce ') and '--from' not in command:
        return f'{command} -- {TRAIN}'
    return command


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Page:
    def __init__(self, path, folder):
        self.path, self.folder, self.server, self.port, self.problems, self.count = path, folder, None, free_port(), [], 0
        fakes = ROOT / 'tests/system/docs/fakes'
        self.environment = dict(os.environ, PATH=f'{EXEUNT.parent}:{fakes}:{os.environ["PATH"]}', TRAIN_FLAGS=TRAIN, LC_ALL='C.UTF-8',
                                XDG_STATE_HOME=str(folder / 'state'))

    def run(self):
        for line, command in commands(self.path.read_text()):
            self.count += 1
            command = shortened(command).replace('8080', str(self.port))
            if re.search(r'\bexeunt serve\b', command):
                self.start_server(line, command)
                continue
            status, printed = self.outcome(command)
            if status != 0:
                self.problems.append(f'{self.path.name}:{line}: {status}: {command}\n{printed}')
        self.stop_server()
        for line, flag in flags(self.path.read_text()):
            _, printed = self.outcome(f'exeunt {VERBS[self.path.name]} {flag} x')
            if 'unknown flag' in printed:
                self.problems.append(f'{self.path.name}:{line}: {printed}')
        return self.problems

    def outcome(self, command):
        """The exit status, or a word, and what was printed. A command that hangs is ended with all it started."""
        process = subprocess.Popen(['bash', '-c', command], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            printed = process.communicate(timeout=300)[0]
            return process.returncode, printed
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 'hangs', process.communicate()[0]

    def start_server(self, line, command):
        self.stop_server()
        self.server = subprocess.Popen(['bash', '-c', f'exec env {command}'], cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, text=True)
        end = time.time() + 300
        while time.time() < end and self.server.poll() is None:
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{self.port}/ready', timeout=60)
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        self.server.kill()
        self.problems.append(f'{self.path.name}:{line}: does not answer: {command}\n{self.server.communicate()[1]}')
        self.server = None

    def stop_server(self):
        if self.server is None:
            return
        self.server.send_signal(signal.SIGTERM)
        errors = self.server.communicate(timeout=300)[1]
        if self.server.returncode != 0:
            self.problems.append(f'{self.path.name}: the server ended with status {self.server.returncode}\n{errors}')
        self.server = None


def main():
    problems, count = [], 0
    for name in sys.argv[3:]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            tiny.make(folder, EXEUNT, ROOT / 'tests/fixtures')
            if name in EXAMPLES:
                tiny.make_examples(folder, EXEUNT, ROOT / 'tests/fixtures')
            for link in ('scripts', 'deploy', 'benchmarks'):
                (folder / link).symlink_to(ROOT / link)
            page = Page(ROOT / name, folder)
            problems += page.run()
            if page.count == 0:
                problems.append(f'{name}: has no command')
            count += page.count
    for problem in problems:
        print(problem)
    print(f'{count} commands, {len(problems)} failed')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
