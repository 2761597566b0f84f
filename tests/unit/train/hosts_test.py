#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two hosts that train one model: two network namespaces joined by a cable of their own, one process in each, over Gloo.

    hosts_test.py EXEUNT TESTS_FOLDER [LOG]

The loss curve must be that of one process, also in pretraining; when a host dies, the other ends with an error that says so; both then resume. Needs
root and iproute2.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.argv[1] = str(pathlib.Path(sys.argv[1]).resolve())
import launch_test as one_host  # arguments, data and model of the test on one host
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'lab/pretrain'))
import processes_test as pretraining  # the same of pretraining

EXEUNT = sys.argv[1]
ADDRESSES = ['10.213.77.1', '10.213.77.2']
PORT = 29513


def expect(condition, what):
    if not condition:
        raise SystemExit(f'hosts_test: {what}')


def ip(*words):
    subprocess.run(['ip', *words], check=True)


class Hosts:
    """Two namespaces that see nothing but each other."""

    def __init__(self):
        self.started = []
        self.names = [f'exeunt{os.getpid()}{side}' for side in 'ab']
        for name in self.names:
            ip('netns', 'add', name)
        ends = [f'ex{os.getpid() % 100000}{side}' for side in 'ab']
        ip('link', 'add', ends[0], 'netns', self.names[0], 'type', 'veth', 'peer', 'name', ends[1], 'netns', self.names[1])
        for name, end, address in zip(self.names, ends, ADDRESSES):
            ip('-n', name, 'addr', 'add', f'{address}/24', 'dev', end)
            ip('-n', name, 'link', 'set', end, 'up')
            ip('-n', name, 'link', 'set', 'lo', 'up')

    def start(self, rank, command, folder):
        names = dict(os.environ, RANK=str(rank), WORLD_SIZE='2', LOCAL_RANK='0', MASTER_ADDR=ADDRESSES[0], MASTER_PORT=str(PORT))
        self.started.append(subprocess.Popen(['ip', 'netns', 'exec', self.names[rank], EXEUNT, *command], cwd=folder, env=names,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        return self.started[-1]

    def both(self, command, folder):
        return [self.start(rank, command, folder) for rank in range(2)]

    def remove(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
        for name in self.names:
            subprocess.run(['ip', 'netns', 'del', name], check=False)


def ended(process, seconds=100):
    _, errors = process.communicate(timeout=seconds)
    return process.returncode, errors


def same_curve(hosts, folder, say):
    subprocess.run([EXEUNT, *one_host.arguments(folder, 'one', '--max-steps', '12')], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, timeout=100)
    for status, errors in map(ended, hosts.both(one_host.arguments(folder, 'two', '--max-steps', '12'), folder)):
        expect(status == 0, f'a host ended with {status}: {errors}')
    one, two = one_host.losses(folder / 'one'), one_host.losses(folder / 'two')
    worst = max(abs(a - b) for a, b in zip(one, two))
    expect(len(one) == len(two) == 12 and worst < 1e-4, f'{len(two)} losses, which differ by {worst} from those of one process')
    say(f'12 steps on two hosts: losses differ by at most {worst:.1e} from those of one process')


def same_pretraining(hosts, folder, say):
    pretraining.corpus(folder / 'corpus.txt')
    pretraining.done(folder, *pretraining.arguments('pretrained-one', '--batch', '4', '--accumulation', '2', '--max-steps', '6'))
    for status, errors in map(ended, hosts.both(pretraining.arguments('pretrained-two', '--batch', '8', '--max-steps', '6'), folder)):
        expect(status == 0, f'a host that pretrains ended with {status}: {errors}')
    worst = pretraining.furthest(*(pretraining.weights(folder / name) for name in ('pretrained-one', 'pretrained-two')))
    expect(worst < 1e-4, f'weights pretrained on two hosts differ by {worst} from those of one process')
    say(f'6 steps of pretraining on two hosts: weights differ by at most {worst:.1e} from those of one process that accumulates')


def dead_host(hosts, folder, say):
    command = one_host.arguments(folder, 'killed', '--max-steps', '100000', '--save-every', '10')
    first, second = hosts.both(command, folder)
    checkpoint, limit = folder / 'killed/checkpoint-10', time.time() + 100
    while not checkpoint.exists() and time.time() < limit and first.poll() is None:
        time.sleep(0.05)
    expect(checkpoint.exists(), 'no checkpoint in 100 s')
    second.send_signal(signal.SIGKILL)
    killed = time.time()
    status, errors = ended(first, 60)
    expect(status not in (0, None), 'a dead host, but status 0')
    message = next((line for line in errors.splitlines() if line.startswith('error:')), '')
    expect(message, f'the host that is left says nothing: {errors}')
    say(f'host 2 killed; host 1 ended {time.time() - killed:.1f} s later with status {status}: {message}')
    second.wait()
    resumed = hosts.both([*command, '--resume'], folder)
    steps = max(int(path.name.split('-')[1]) for path in (folder / 'killed').glob('checkpoint-*'))
    further = lambda: [path for path in (folder / 'killed').glob('checkpoint-*') if int(path.name.split('-')[1]) > steps]
    limit = time.time() + 100
    while not further() and time.time() < limit and all(process.poll() is None for process in resumed):
        time.sleep(0.05)
    expect(further(), 'the two do not resume')
    for process in resumed:
        process.send_signal(signal.SIGTERM)
    for status, errors in map(ended, resumed):
        expect(status == 0, f'SIGTERM to both ended one with {status}: {errors}')
    say(f'both resumed from step {steps} and went on; SIGTERM ended them with status 0')


def main():
    if os.geteuid() != 0:
        expect(False, 'network namespaces need root')
    log = open(sys.argv[3], 'w', encoding='utf-8') if len(sys.argv) > 3 else None

    def say(text):
        print(text, flush=True)
        if log:
            print(text, file=log, flush=True)

    hosts = Hosts()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            one_host.model_without_dropout(folder / 'model')
            one_host.data(folder / 'data.csv', 47)
            same_curve(hosts, folder, say)
            same_pretraining(hosts, folder, say)
            dead_host(hosts, folder, say)
    finally:
        hosts.remove()


if __name__ == '__main__':
    main()
