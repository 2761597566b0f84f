#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes that train one model, as a user starts them: the loss curve of one process, a rank that dies, a restart.

    launch_test.py EXEUNT TESTS_FOLDER
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

EXEUNT, TESTS = sys.argv[1], pathlib.Path(sys.argv[2])


def model_without_dropout(folder):
    """Each rank draws dropout of its own; without it one process and two compute the same."""
    shutil.copytree(TESTS / 'checkpoints' / 'bert-backbone', folder)
    config = json.loads((folder / 'config.json').read_text())
    config.update(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0)
    (folder / 'config.json').write_text(json.dumps(config))


def data(path, rows):
    lines = ['text,label'] + [f'{"Great film" if i % 2 else "Dull and boring"} {i % 7},{"yes" if i % 2 else "no"}' for i in range(rows)]
    path.write_text('\n'.join(lines) + '\n')


def arguments(folder, out, *more):
    return ['train', '--model', 'model', '--data', 'data.csv', '--eval-data', 'data.csv', '--out', out, '--recipe', 'romebert',
            '--batch', '5', '--lr', '1e-3', '--log-every', '1', '--device', 'cpu', '--threads', '1', '-q', *more]


def losses(out):
    entries = [json.loads(line) for line in (out / 'log.jsonl').read_text().splitlines()]
    return [entry['loss'] for entry in entries if 'loss' in entry]


def expect(condition, what):
    if not condition:
        raise SystemExit(f'launch_test: {what}')


def same_curve(folder):
    run = lambda command: subprocess.run([EXEUNT, *command], cwd=folder, check=True, stdout=subprocess.PIPE, text=True,
                                         timeout=100).stdout
    run(arguments(folder, 'one', '--max-steps', '12'))
    said = run(['launch', '--nproc', '2', *arguments(folder, 'two', '--max-steps', '12')])
    expect(said.count('wrote two') == 1, f'want one process to speak for both: {said}')
    one, two = losses(folder / 'one'), losses(folder / 'two')
    worst = max(abs(a - b) for a, b in zip(one, two))
    expect(len(one) == len(two) == 12, f'{len(one)} and {len(two)} losses, want 12 each')
    expect(worst < 1e-4, f'losses of one process and two differ by {worst}')
    expect(max(one) - min(one) > 1e-3, 'the loss does not move, so the comparison says nothing')


def started_by_slurm(folder):
    """srun starts the command itself once for each task and says so in variables."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    tasks = []
    for rank in range(2):
        names = dict(os.environ, SLURM_NTASKS='2', SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank),
                     SLURM_LAUNCH_NODE_IPADDR='127.0.0.1', MASTER_PORT=str(port))
        tasks.append(subprocess.Popen([EXEUNT, *arguments(folder, 'slurm', '--max-steps', '4')], cwd=folder, env=names,
                                      stdout=subprocess.DEVNULL))
    expect(all(task.wait(timeout=100) == 0 for task in tasks), "a task under Slurm's variables failed")
    worst = max(abs(a - b) for a, b in zip(losses(folder / 'two')[:1], losses(folder / 'slurm')))
    expect(len(losses(folder / 'slurm')) == 4 and worst < 1e-4, f"under Slurm's variables the first loss differs by {worst}")


def children_of(pid):
    return [int(child) for child in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def listening(pid):
    """Local addresses, in hexadecimal, on which a process accepts connections."""
    inodes = set()
    for descriptor in pathlib.Path(f'/proc/{pid}/fd').iterdir():
        try:
            inodes.add(os.readlink(descriptor).removeprefix('socket:[').rstrip(']'))
        except OSError:
            pass
    rows = [line.split() for family in ('tcp', 'tcp6') for line in pathlib.Path(f'/proc/net/{family}').read_text().splitlines()[1:]]
    return [row[1].split(':')[0] for row in rows if row[3] == '0A' and row[9] in inodes]


def dead_rank(folder):
    command = ['launch', '--nproc', '2', *arguments(folder, 'killed', '--max-steps', '4000', '--save-every', '10')]
    launch = subprocess.Popen([EXEUNT, *command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    checkpoint, deadline = folder / 'killed' / 'checkpoint-10', time.time() + 100
    while not checkpoint.exists() and time.time() < deadline:
        time.sleep(0.05)
    expect(checkpoint.exists(), 'no checkpoint in 100 s')
    ranks = children_of(launch.pid)
    expect(len(ranks) == 2, f'{len(ranks)} ranks')
    with socket.create_server(('0.0.0.0', 0)):
        expect(listening(os.getpid()) == ['00000000'], 'a listening socket of our own is not seen')
    doors = {address for rank in ranks for address in listening(rank)}
    expect(doors <= {'0100007F'}, f'ranks listen on {doors}, want none but 127.0.0.1')
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.time()
    _, errors = launch.communicate(timeout=60)
    took = time.time() - killed
    expect(took < 5, f'the other rank ended after {took:.1f} s, want at most 5')
    expect(launch.returncode != 0, 'a dead rank, but status 0')
    expect('rank 1 of 2 was killed by signal 9' in errors, f'the dead rank is not named: {errors}')
    expect(not any(pathlib.Path(f'/proc/{rank}').exists() for rank in ranks), 'a rank is still there')


def restart(folder):
    steps = max(int(path.name.split('-')[1]) for path in (folder / 'killed').glob('checkpoint-*'))
    launch = subprocess.Popen([EXEUNT, 'launch', '--nproc', '2', *arguments(folder, 'killed', '--max-steps', '4000', '--save-every', '10', '--resume')],
                              cwd=folder, stdout=subprocess.DEVNULL)
    deadline = time.time() + 100
    further = lambda: [path for path in (folder / 'killed').glob('checkpoint-*') if int(path.name.split('-')[1]) > steps]
    while not further() and time.time() < deadline:
        time.sleep(0.05)
    expect(further(), 'the restart does not go on')
    launch.send_signal(signal.SIGTERM)
    expect(launch.wait(timeout=60) == 0, 'SIGTERM does not end both ranks with status 0')


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model_without_dropout(folder / 'model')
        data(folder / 'data.csv', 47)  # a last batch of two rows, one for each rank
        same_curve(folder)
        started_by_slurm(folder)
        dead_rank(folder)
        restart(folder)


if __name__ == '__main__':
    main()
