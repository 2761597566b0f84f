#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What docs/scale.md says beyond its commands: a Slurm job that runs out of time is queued again and goes on, parts of a
job join to the bytes of one machine, and the manifests' arguments do what their probes ask for.

    scale_test.py EXEUNT REPOSITORY
"""
import json
import os
import pathlib
import re
import shlex
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
KEY = 'a-long-secret'


def expect(condition, what):
    if not condition:
        raise SystemExit(f'scale_test: {what}')


def run(folder, command, **variables):
    environment = dict(os.environ, PATH=f'{EXEUNT.parent}:{ROOT / "tests/system/docs/fakes"}:{os.environ["PATH"]}', XDG_STATE_HOME=f'{folder}/state', **variables)
    done = subprocess.run(['bash', '-c', command], cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    expect(done.returncode == 0, f'{command}: status {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout + done.stderr


def out_of_time(folder):
    """SIGTERM at the first checkpoint; the job puts itself into the queue again, and that one ends."""
    train = ('OUT=run sbatch deploy/slurm/train.sbatch --model bert-base-uncased --task SST-2 --data glue_data --recipe plain '
             '--device cpu --max-steps 300 --save-every 5 --log-every 1')
    log = folder / 'slurm.log'
    run(folder, train, FAKE_SLURM=str(log), FAKE_TERM='run/checkpoint-5')
    expect('requeue' in log.read_text(), 'a job that was stopped is not queued again')
    expect(not (folder / 'run/all_results.json').exists(), 'the job was not stopped before its end')
    resumed = run(folder, train, FAKE_SLURM=str(folder / 'second.log'))
    expect('resuming from run/checkpoint-' in resumed, f'the second job does not resume:\n{resumed}')
    expect('requeue' not in (folder / 'second.log').read_text(), 'a finished job is queued again')
    steps = [json.loads(line).get('step') for line in (folder / 'run/log.jsonl').read_text().splitlines()]
    expect(max(step for step in steps if step) == 300, f'the second job ends at step {steps[-1]}')


def parts(folder):
    """Slurm's array, a part run again alone, and Kubernetes' indexed job: all give one machine's file."""
    run(folder, 'exeunt predict models/sst2 reviews.txt --precision fp32 --out whole.tsv')
    whole = (folder / 'whole.tsv').read_bytes()
    flags = 'MODEL=models/sst2 TEXTS=reviews.txt OUT=slurm.tsv PARTS=3 PREDICT_FLAGS="--precision fp32"'
    log = folder / 'array.log'
    run(folder, f'{flags} deploy/slurm/predict', FAKE_SLURM=str(log))
    expect((folder / 'slurm.tsv').read_bytes() == whole, 'three parts of Slurm are not the whole')
    expect('--array=1-3' in log.read_text() and '--dependency=afterok:' in log.read_text(), f'submitted: {log.read_text()}')
    (folder / 'slurm.tsv.part2').unlink()
    (folder / 'slurm.tsv').unlink()
    run(folder, f'{flags} sbatch --array=2 deploy/slurm/predict.sbatch && OUT=slurm.tsv sbatch deploy/slurm/merge.sbatch')
    expect((folder / 'slurm.tsv').read_bytes() == whole, 'a part that was run again is not the whole')
    job = (ROOT / 'deploy/kubernetes/predict.yaml').read_text()
    count = int(re.search(r'completions: (\d+)', job).group(1))
    script = ' '.join(re.search(r'args:\n\s+- (.*?)\n\s+resources:', job, re.S).group(1).split())
    script = script.replace('/data/model ', 'models/sst2 ').replace('/data/texts.jsonl', 'reviews.txt').replace('/data/', '')
    for index in range(count):
        run(folder, f'sh -c {shlex.quote(script + " --precision fp32")}', JOB_COMPLETION_INDEX=str(index))
    run(folder, 'exeunt merge answers.tsv.part* --out answers.tsv')
    expect((folder / 'answers.tsv').read_bytes() == whole, 'parts of the indexed job are not the whole')


def arguments_of(manifest, folder, port):
    """The container's arguments, with places of this folder and without the wait for a balancer."""
    text = (ROOT / 'deploy/kubernetes' / manifest).read_text()
    block = re.search(r'args:\n(.*?)\n\s+ports:', text, re.S).group(1)
    words = [line.strip()[2:] for line in block.split('\n') if line.strip().startswith('- ')]
    changes = {'/mnt/models': 'models/sst2', '0.0.0.0': '127.0.0.1', '8080': str(port), '/etc/exeunt/keys': 'keys.txt',
               '{{.Name}}': 'sst2', '--drain-delay=5': '--drain-delay=0'}
    for old, new in changes.items():
        words = [word.replace(old, new) for word in words]
    return words, set(re.findall(r'path: (/(?:ready|health|v2)\S*)[,}]', text))


def status_of(address, key=None):
    headers = {'Authorization': f'Bearer {key}'} if key else {}
    try:
        return urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code


def manifests(folder):
    (folder / 'keys.txt').write_text(KEY + '\n')
    for manifest in ('base/exeunt.yaml', 'overlays/kserve/kserve.yaml'):
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            port = probe.getsockname()[1]
        words, probes = arguments_of(manifest, folder, port)
        expect(len(probes) >= 2, f'{manifest}: probes {probes}')
        server = subprocess.Popen([EXEUNT, 'serve', *words], cwd=folder, stderr=subprocess.PIPE, text=True)
        left, end = sorted(probes), time.time() + 300
        while left and time.time() < end and server.poll() is None:
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{port}{left[0]}', timeout=60)
                left.pop(0)
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        # As monitor.yaml has Prometheus ask, and KServe's clients: with a key, and not without.
        for path in ('/metrics', '/v2/models/sst2') if 'kserve' in manifest else ('/metrics',):
            expect(status_of(f'http://127.0.0.1:{port}{path}') == 401, f'{manifest}: {path} needs no key')
            expect(status_of(f'http://127.0.0.1:{port}{path}', KEY) == 200, f'{manifest}: {path} does not answer')
        server.send_signal(signal.SIGTERM)
        errors = server.communicate(timeout=300)[1]
        expect(not left and server.returncode == 0, f'{manifest}: no answer for {left}, status {server.returncode}\n{errors}')


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tiny.make(folder, EXEUNT, ROOT / 'tests/fixtures')
        (folder / 'deploy').symlink_to(ROOT / 'deploy')
        out_of_time(folder)
        parts(folder)
        manifests(folder)


if __name__ == '__main__':
    main()
