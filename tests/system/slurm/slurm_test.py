#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Slurm on one machine: munged, slurmctld and slurmd in a folder of their own, and the array job of deploy/slurm.

    slurm_test.py EXEUNT [LOG]

One task is killed while it runs and put into the queue again; the merged answers must be those of a single run, byte for byte.
Needs slurmctld, slurmd, slurm-client and munge, and root, as slurmd does.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXEUNT = pathlib.Path(sys.argv[1]).resolve()
PARTS = 4


def fail(what):
    raise SystemExit(f'slurm_test: {what}')


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def until(what, holds, seconds=120):
    for _ in range(seconds * 20):
        if holds():
            return
        time.sleep(0.05)
    fail(f'waited {seconds} s in vain: {what}')


class Slurm:
    """One machine that is controller and node. 64 processors are claimed, so that the jobs fit whatever it has."""

    def __init__(self, folder):
        self.folder = folder
        host = socket.gethostname().split('.')[0]
        for name in ('munge', 'state', 'spool'):
            (folder / name).mkdir(mode=0o755)
        key = folder / 'munge/key'
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        (folder / 'slurm.conf').write_text(f'''ClusterName=exeunt
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MailProg=/bin/true
JobRequeue=1
MinJobAge=3600
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1,requeue_delay=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=64 RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
''')
        self.environment = dict(os.environ, SLURM_CONF=str(folder / 'slurm.conf'), EXEUNT=str(EXEUNT))
        self.started = []
        try:
            self.start('/usr/sbin/munged', '--foreground', '--force', f'--key-file={key}', f'--socket={folder}/munge/socket',
                       f'--pid-file={folder}/munge/pid', f'--log-file={folder}/munge/log', f'--seed-file={folder}/munge/seed')
            until('munged listens', (folder / 'munge/socket').exists)
            self.start('/usr/sbin/slurmctld', '-D')
            self.start('/usr/sbin/slurmd', '-D', '-N', host)
            until('the node is idle', lambda: 'idle' in self.run('sinfo --noheader --format=%t', check=False))
        except SystemExit:
            self.stop()
            raise

    def start(self, *command):
        log = open(self.folder / f'{pathlib.Path(command[0]).name}.out', 'wb')
        self.started.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True))

    def run(self, command, check=True, **variables):
        done = subprocess.run(['bash', '-c', command], cwd=self.folder, env=dict(self.environment, **variables), text=True,
                              capture_output=True, timeout=300)
        if check and done.returncode != 0:
            fail(f'{command}: status {done.returncode}\n{done.stdout}{done.stderr}{self.logs()}')
        return done.stdout

    def job(self, number):
        """What scontrol says of a job: {'JobState': 'RUNNING', 'Restarts': '0', …}."""
        return dict(re.findall(r'(\w+)=(\S*)', self.run(f'scontrol show job {number}', check=False)))

    def logs(self):
        return ''.join(f'--- {path.name}\n{path.read_text(errors="replace")[-3000:]}'
                       for path in sorted([*self.folder.glob('*.log'), *self.folder.glob('slurm-*.out'), *self.folder.glob('*.out')]))

    def stop(self):
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


# The first time, task 2 is stopped while it predicts, so that it is there to be killed however fast the machine is.
HELD = '''#!/bin/bash
if [ "$1" = predict ] && [ "${SLURM_ARRAY_TASK_ID:-}" = 2 ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
  %(exeunt)s "$@" &
  sleep 0.1
  kill -STOP $!
  touch held
  exec sleep infinity
fi
exec %(exeunt)s "$@"
'''


def run_array(slurm, say):
    folder = slurm.folder
    command = folder / 'exeunt'
    command.write_text(HELD % {'exeunt': EXEUNT})
    command.chmod(0o755)
    words = 'the a an of to and in is it was not no very too film movie plot'.split()
    with open(folder / 'texts.txt', 'w', encoding='utf-8') as texts:
        for i in range(60000):
            texts.write(' '.join(words[(i * 7 + j * (i % 13 + 1)) % len(words)] for j in range(3 + i % 30)) + '\n')
    shutil.copytree(ROOT / 'tests/fixtures/checkpoints/bert-deebert', folder / 'model')
    slurm.run(f'{EXEUNT} predict model texts.txt --precision fp32 --out whole.tsv -q')
    job = '''MODEL=model TEXTS=texts.txt OUT=answers.tsv PARTS=%d PREDICT_FLAGS="--precision fp32" ''' % PARTS
    submitted = slurm.run(f'{job}{ROOT}/deploy/slurm/predict', EXEUNT=str(command))
    merge = int(re.search(r'Submitted batch job (\d+)', submitted).group(1))
    array = int(slurm.run('squeue --noheader --array --format=%F --states=all').split()[0])
    victim = f'{array}_2'
    until('task 2 runs', lambda: (folder / 'held').exists() and slurm.job(victim).get('JobState') == 'RUNNING')
    # As an administrator, or a node that is taken away: the task is killed wherever it is, and queued again.
    slurm.run(f'scontrol requeue {victim}')
    say('task 2 killed and requeued while it ran')
    ended = ('COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'NODE_FAIL')
    until('the merge ends', lambda: slurm.job(merge).get('JobState') in ended, 300)
    for task in [f'{array}_{part}' for part in range(1, PARTS + 1)] + [str(merge)]:
        state = slurm.job(task)
        say(f'job {task}: {state["JobState"]}, restarts {state["Restarts"]}, ran {state["RunTime"]}')
        if state['JobState'] != 'COMPLETED':
            fail(f'job {task} ended as {state["JobState"]}\n{slurm.logs()}')
    if slurm.job(victim)['Restarts'] != '1':
        fail(f'task 2 was not started again\n{slurm.logs()}')
    if (folder / 'answers.tsv').read_bytes() != (folder / 'whole.tsv').read_bytes():
        fail('the merged answers differ from those of one run')
    rows = (folder / 'answers.tsv').read_bytes().count(b'\n') - 1
    say(f'{rows} answers of {PARTS} tasks merged: the bytes of a single run')


def main():
    if os.geteuid() != 0:
        fail('slurmd needs root')
    log = open(sys.argv[2], 'w', encoding='utf-8') if len(sys.argv) > 2 else None

    def say(text):
        print(text, flush=True)
        if log:
            print(text, file=log, flush=True)

    with tempfile.TemporaryDirectory(prefix='exeunt-slurm-', dir='/tmp') as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        slurm = Slurm(folder)
        try:
            say(slurm.run('sinfo --version').strip())
            run_array(slurm, say)
        finally:
            slurm.stop()


if __name__ == '__main__':
    main()
