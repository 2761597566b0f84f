#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From traffic to a certificate: a server in int8 compares its answers with fp32 and keeps a log, `calibrate
--from-server` certifies from that log, and the next server watches the new promise.

    shadow_log_test.py EXEUNT TESTS_FOLDER

Exit status 1 with one line per broken promise.
"""
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

from server_test import Server, expect, problems, wait_until

WORDS = ['great', 'film', 'dull', 'plot', 'a', 'the', 'so', 'end']
TEXTS = [' '.join(words) for words in itertools.product(WORDS, repeat=3)][:480]


def metric(server, name):
    """The sum of a metric over its labels."""
    page = server.ask('GET', '/metrics')[2]
    return sum(float(value) for value in re.findall(rf'^exeunt_{name}(?:{{[^}}]*}})? (\S+)$', page, re.M))


def feed(server, texts):
    for begin in range(0, len(texts), 24):
        status, _, body = server.ask('POST', '/predict', {'inputs': [[text] for text in texts[begin:begin + 24]]})
        expect(status == 200, f'predict: {status} {body}')


def compared(server):
    return metric(server, 'shadow_texts_total') + metric(server, 'shadow_repeats_total')


def calibrate(program, model, log, *flags):
    return subprocess.run([program, 'calibrate', model, '--from-server', log, '--max-drop', '40%', *flags],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, 'XDG_STATE_HOME': os.path.dirname(log)})  # the ledger of tries


def main():
    program, tests = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        model, log = os.path.join(folder, 'model'), os.path.join(folder, 'shadows.jsonl')
        subprocess.run([program, 'convert', os.path.join(tests, 'checkpoints/bert-deebert'), '--out', model, '-q'],
                       check=True, stdout=subprocess.DEVNULL)
        flags = ['--precision', 'int8', '--shadow', '100%', '--shadow-log', log, '--max-length', '48']

        server = Server(program, model, *flags)
        started = [line for line in server.log if '"message":"shadow runs"' in line]
        expect(len(started) == 1 and 'fp32 at full depth' in started[0] and 'MiB' in started[0], f'start: {started}')
        expect(metric(server, 'shadow_memory_bytes') > 0, 'the reference is an engine of its own, and its memory a metric')
        feed(server, TEXTS)
        feed(server, TEXTS[:24])  # repeats do not count again
        expect(wait_until(lambda: compared(server) == len(TEXTS) + 24), f'compared: {compared(server)}')
        expect(metric(server, 'shadow_repeats_total') == 24, 'repeats')
        expect(metric(server, 'shadow_processor_seconds_total') > 0, 'processor time')
        expect(metric(server, 'risk_covered') == 1, 'covered')
        expect(0 < metric(server, 'risk_upper_bound') < 1, 'bound')
        expect(server.end() == 0, 'the server ends while it keeps a log')

        with open(log, encoding='utf-8') as file:
            lines = [json.loads(line) for line in file]
        expect(len(lines) == 1 + len(TEXTS) + 24, f'lines in the log: {len(lines)}')
        expect(lines[0]['format'] == 'exeunt.shadows/2' and lines[0]['precision'] == 'int8', f'head: {lines[0]}')
        expect(all(len(line['reference']) == lines[0]['outputs'] for line in lines[1:]), 'logits of the reference')
        expect(any(line['reference'] != line['logits'][-lines[0]['outputs']:] for line in lines[1:]),
               'the reference is fp32, not int8')
        expect(not re.search('great|film', open(log, encoding='utf-8').read()), 'no text in the log')
        expect(stat.S_IMODE(os.stat(log).st_mode) == 0o600, 'the log is its owner\'s')

        with open(log, 'a', encoding='utf-8') as file:
            file.write('{"row_hash":"00')  # as a server that was killed leaves it
        made = calibrate(program, model, log)
        expect(made.returncode == 0, f'calibrate: {made.stderr}')
        with open(os.path.join(model, 'policy.json'), encoding='utf-8') as file:
            entry = json.load(file)['entries'][0]
        certificate = entry['certificate']
        expect(entry['precision'] == 'int8', f'precision: {entry["precision"]}')
        expect(certificate['reference'] == 'fp32' and certificate['max_length'] == 48, f'certificate: {certificate}')
        expect(certificate['loss'] == 'disagreement', f'loss: {certificate["loss"]}')

        server = Server(program, model, *flags)
        info = json.loads(server.ask('GET', '/info')[2])
        expect(info['certified'] and info['watched'][0]['certified'] == 0.4, f'info: {info}')
        feed(server, TEXTS[:24])
        expect(wait_until(lambda: compared(server) == 24), 'the next server compares')
        expect(server.end() == 0, 'the next server ends')
        with open(log, encoding='utf-8') as file:
            rows = [json.loads(line) for line in file]  # the line that was cut off is gone
        expect(len(rows) == len(lines) + 24, f'the next server continues the log: {len(rows)}')

        other = os.path.join(folder, 'other')
        shutil.copy(log, other)
        with open(other, encoding='utf-8') as file:
            text = file.read().replace(lines[0]['weights'], '0' * 64)
        with open(other, 'w', encoding='utf-8') as file:
            file.write(text)
        refused = calibrate(program, model, other)
        expect(refused.returncode == 4 and 'weights' in refused.stderr, f'a log of other weights: {refused.stderr}')
        foreign = subprocess.run([program, 'serve', model, '--port', '0', '--shadow', '1%', '--shadow-log', other,
                                  '--precision', 'int8'], capture_output=True, text=True, check=False)
        expect(foreign.returncode == 2 and 'not a shadow log of this model' in foreign.stderr,
               f'continuing a log of other weights: {foreign.stderr}')
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
