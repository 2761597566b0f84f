#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From traffic to a certificate: a server in int8 compares its answers with fp32 and keeps a log, `calibrate
--from-server` certifies from that log, and the next server watches the new promise; weights that were changed since are
not certified.

    shadow_log_test.py EXEUNT TESTS_FOLDER

Exit status 1 with one line per broken promise.
"""
import itertools
import json
import os
import re
import shutil
import stat
import struct
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
    return metric(server, 'shadow_texts_total')


def calibrate(program, model, log, *flags):
    return subprocess.run([program, 'calibrate', model, '--from-server', log, '--max-drop', '40%', *flags],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, 'XDG_STATE_HOME': os.path.dirname(log)})  # the ledger of tries


def enlarge(folder):
    """Makes position embeddings of 2.5 MB: weights of up to 1 MiB are hashed whenever a model is opened."""
    weights, config = os.path.join(folder, 'model.safetensors'), os.path.join(folder, 'config.json')
    with open(weights, 'rb') as file:
        data = file.read()
    size = struct.unpack('<Q', data[:8])[0]
    header, tensors = json.loads(data[8:8 + size]), data[8 + size:]
    name = next(name for name in header if name.endswith('position_embeddings.weight'))
    begin, end = header[name]['data_offsets']
    width = header[name]['shape'][1]
    row = (end - begin) // header[name]['shape'][0]
    header[name] |= {'shape': [40000, width], 'data_offsets': [len(tensors), len(tensors) + 40000 * row]}
    tensors += (tensors[begin:end] * 40000)[:40000 * row]
    tensors = tensors[:begin] + tensors[end:]
    for tensor in header.values():  # without a gap where it was
        if 'data_offsets' in tensor and tensor['data_offsets'][0] >= end:
            tensor['data_offsets'] = [offset - (end - begin) for offset in tensor['data_offsets']]
    text = json.dumps(header).encode()
    with open(weights, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + tensors)
    with open(config, encoding='utf-8') as file:
        settings = json.load(file)
    with open(config, 'w', encoding='utf-8') as file:
        json.dump({**settings, 'max_position_embeddings': 40000}, file)


def check_swapped(program, model):
    """One bit of the weights is changed after they were certified."""
    path = os.path.join(model, 'model.safetensors')
    with open(path, 'r+b') as file:
        file.seek(-1000, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1000, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    server = Server(program, model, '--precision', 'int8', '--max-length', '48')
    expect(server.has_logged('nothing is certified'), 'the server logs the weights that were changed')
    info = json.loads(server.ask('GET', '/info')[2])
    expect(not info['certified'] and info['policy'] == 'full' and info['model_sha'] is None, f'changed: {info}')
    expect(metric(server, 'certified_loss') == 0, 'metrics of changed weights')
    expect(server.ask('POST', '/predict', {'inputs': 'a film'})[0] == 200, 'changed weights answer')
    expect(server.end() == 0, 'the server of changed weights ends')
    answer = subprocess.run([program, 'predict', model, '--precision', 'int8', '--text', 'a film'], capture_output=True,
                            text=True, check=False)
    expect(answer.returncode == 4 and 'as the manifest says' in answer.stderr, f'predict: {answer.stderr}')
    expect(answer.stdout == '' and 'promise' not in answer.stderr, f'predict: {answer}')


def main():
    program, tests = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        model, log = os.path.join(folder, 'model'), os.path.join(folder, 'shadows.jsonl')
        source = os.path.join(folder, 'source')
        shutil.copytree(os.path.join(tests, 'checkpoints/bert-deebert'), source)
        enlarge(source)
        subprocess.run([program, 'convert', source, '--out', model, '-q'], check=True, stdout=subprocess.DEVNULL)
        flags = ['--precision', 'int8', '--shadow', '100%', '--shadow-log', log, '--max-length', '48']

        server = Server(program, model, *flags)
        started = [line for line in server.log if '"message":"shadow runs"' in line]
        expect(len(started) == 1 and 'fp32 at full depth' in started[0] and 'MiB' in started[0], f'start: {started}')
        expect(re.search(r'"processor":"about [1-9]\d* % of the answers', started[0]), f'share of the processor: {started}')
        expect(metric(server, 'shadow_memory_bytes') > 0, 'the reference is an engine of its own, and its memory a metric')
        feed(server, TEXTS)
        feed(server, TEXTS[:24])  # repeats count again
        expect(wait_until(lambda: compared(server) == len(TEXTS) + 24), f'compared: {compared(server)}')
        expect(metric(server, 'shadow_processor_seconds_total') > 0, 'processor time')
        expect(metric(server, 'risk_covered') == 1, 'covered')
        expect(0 < metric(server, 'risk_upper_bound') < 1, 'bound')
        expect(server.end() == 0, 'the server ends while it keeps a log')

        with open(log, encoding='utf-8') as file:
            lines = [json.loads(line) for line in file]
        expect(len(lines) == 1 + len(TEXTS) + 24, f'lines in the log: {len(lines)}')
        expect(lines[0]['format'] == 'exeunt.shadows/3' and lines[0]['precision'] == 'int8', f'head: {lines[0]}')
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
        expect(wait_until(lambda: json.loads(server.ask('GET', '/info')[2])['certified']), 'certified once hashed')
        info = json.loads(server.ask('GET', '/info')[2])
        expect(info['certified'] and info['watched'][0]['certified'] == 0.4, f'info: {info}')
        feed(server, TEXTS[:24])
        expect(wait_until(lambda: compared(server) == 24), 'the next server compares')
        expect(server.end() == 0, 'the next server ends')
        with open(log + '.watch', encoding='utf-8') as file:
            watched = json.load(file)
        expect(watched['points'][0]['losses'] == 24, f'what the alarm has seen is kept: {watched}')
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
        check_swapped(program, model)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
