#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two processes that pretrain one model, as a user starts them: the losses and weights of one process that accumulates two
batches, and a resumed run that ends with the bytes of one that never stopped.

    processes_test.py EXEUNT TESTS_FOLDER
"""
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'train'))
import launch_test as training  # a model without dropout

EXEUNT, TESTS = training.EXEUNT, training.TESTS


def expect(condition, what):
    if not condition:
        raise SystemExit(f'processes_test: {what}')


def corpus(path, documents=30):
    """Documents of some sentences, one of them with a single one, which has no order."""
    draw = random.Random(4)
    words = 'the great film is dull and boring but good bad with a story'.split()
    texts = [' '.join(' '.join(draw.choices(words, k=draw.randint(3, 9))).capitalize() + '.' for _ in range(draw.randint(1, 7)))
             for _ in range(documents)]
    path.write_text('\n\n'.join(texts) + '\n')


def arguments(out, *more, model='model'):
    return ['pretrain', '--model', model, '--data', 'corpus.txt', '--out', out, '--max-length', '32', '--lr', '1e-3', '--log-every', '1',
            '--hold-out', '0.2', '--device', 'cpu', '--threads', '1', *more]


def run(folder, *words):
    return subprocess.run([EXEUNT, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)


def done(folder, *words):
    result = run(folder, *words)
    expect(result.returncode == 0, f"{' '.join(words)}: status {result.returncode}: {result.stderr}")
    return result


def entries(out):
    return [json.loads(line) for line in (out / 'log.jsonl').read_text().splitlines()]


def weights(out):
    """{name: numbers} of the model that a run wrote."""
    data = (out / 'model/model.safetensors').read_bytes()
    size = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop('__metadata__', None)
    expect(all(part['dtype'] == 'F32' for part in header.values()), 'weights are not fp32')
    return {name: struct.unpack(f"<{(part['data_offsets'][1] - part['data_offsets'][0]) // 4}f",
                                data[8 + size + part['data_offsets'][0]:8 + size + part['data_offsets'][1]])
            for name, part in header.items()}


def furthest(one, two):
    return max(abs(a - b) for name in one for a, b in zip(one[name], two[name], strict=True))


def same_as_accumulation(folder):
    steps = ('--max-steps', '6', '--eval-every', '3')
    done(folder, *arguments('one', '--batch', '4', '--accumulation', '2', *steps))
    said = done(folder, 'launch', '--nproc', '2', *arguments('two', '--batch', '8', *steps))
    expect(said.stdout.count('wrote two') == 1, f'want one process to speak for both: {said.stdout}')
    expect(said.stderr.count('6 steps of 8 rows, fp32 on cpu, 2 processes') == 1, f'the start is not told once: {said.stderr}')
    one, two = entries(folder / 'one'), entries(folder / 'two')
    expect(len(one) == len(two) == 8, f'{len(one)} and {len(two)} lines in the logs, want 6 steps and 2 evaluations')
    for ours, theirs in zip(one, two):
        for name in ('step', 'epoch', 'tokens', 'learning_rate'):
            expect(ours.get(name) == theirs.get(name), f'{name}: {ours.get(name)} and {theirs.get(name)}')
        for name in ('loss', 'gradient_norm'):
            expect(abs(ours.get(name, 0) - theirs.get(name, 0)) < 1e-4, f'{name}: {ours.get(name)} and {theirs.get(name)}')
        for name in ('token_losses', 'order_losses', 'eval_token_losses', 'eval_order_losses'):
            for a, b in zip(ours.get(name, []), theirs.get(name, []), strict=True):
                expect((a is None and b is None) or abs(a - b) < 1e-4, f'{name}: {a} and {b}')
    first, second = weights(folder / 'one'), weights(folder / 'two')
    expect(furthest(first, second) < 1e-4, f'weights differ by {furthest(first, second)}')
    # A batch of one row leaves a process without any.
    done(folder, *arguments('one-row', '--batch', '1', '--max-steps', '3'))
    done(folder, 'launch', '--nproc', '2', *arguments('one-row-of-two', '--batch', '1', '--max-steps', '3'))
    worst = furthest(weights(folder / 'one-row'), weights(folder / 'one-row-of-two'))
    expect(worst < 1e-4, f'with a row for two processes weights differ by {worst}')
    # Steps of other rows end elsewhere, so the comparison says something.
    done(folder, *arguments('other', '--batch', '4', '--max-steps', '6'))
    expect(furthest(first, weights(folder / 'other')) > 1e-3, 'half the rows lead to the same weights')


def resumed(folder):
    """With dropout, whose random numbers each process has for itself."""
    command = ['launch', '--nproc', '2', *arguments('whole', '--batch', '4', '--accumulation', '2', '--max-steps', '6', '--save-every', '2',
                                                    '--keep-checkpoints', '0', model='dropout')]
    done(folder, *command)
    whole = (folder / 'whole/model/model.safetensors').read_bytes()
    for number in (4, 6):
        shutil.rmtree(folder / f'whole/checkpoint-{number}')
    shutil.rmtree(folder / 'whole/model')
    alone = run(folder, *command[3:], '--resume')
    expect(alone.returncode == 2 and 'world: the checkpoint has 2, this run nothing' in alone.stderr, f'one process resumes two: {alone.stderr}')
    said = done(folder, *command, '--resume')
    expect('resuming from whole/checkpoint-2' in said.stderr, f'not resumed: {said.stderr}')
    expect((folder / 'whole/model/model.safetensors').read_bytes() == whole, 'a resumed run ends with other weights')


def papers_batch(folder):
    """One step of ElasticBERT's 4,096 rows, by one process and by two."""
    corpus(folder / 'corpus.txt', documents=6000)
    for out, start in (('step', []), ('step-of-two', ['launch', '--nproc', '2'])):
        said = done(folder, *start, *arguments(out, '--batch', '512', '--accumulation', '8', '--max-steps', '1'))
        expect('; 1 steps of 4096 rows, fp32 on cpu' in said.stderr, f'not one step of 4,096 rows: {said.stderr}')
    first, second = (entries(folder / out)[0] for out in ('step', 'step-of-two'))
    expect(first['tokens'] == second['tokens'] > 10 * 4096, f"tokens of one step: {first['tokens']} and {second['tokens']}")
    for name in ('loss', 'gradient_norm'):  # of all these rows; the weights stay, since a step that warms up has no rate
        expect(abs(first[name] - second[name]) < 1e-3, f'{name} of 4,096 rows: {first[name]} and {second[name]}')


def refused(folder):
    result = run(folder, 'launch', '--nproc', '2', *arguments('one', '--max-steps', '1'))
    expect(result.returncode == 2 and result.stderr.count('error:') == 1, f'a folder that holds a run: {result.returncode}, {result.stderr}')


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        training.model_without_dropout(folder / 'model')
        shutil.copytree(TESTS / 'checkpoints/bert-backbone', folder / 'dropout')
        corpus(folder / 'corpus.txt')
        same_as_accumulation(folder)
        resumed(folder)
        refused(folder)
        papers_batch(folder)


if __name__ == '__main__':
    main()
