#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests of several labels at once need.

    several.py model SRC OUT NAME…      a Hugging Face classifier as a multi-label one with these labels
    several.py check ANSWERS [LIST]     are the labels of each line those whose score is above its threshold, 0.5 unless named?
    several.py medians ANSWERS          such a list, by which about half of the lines get each label and no score is near
    several.py same ONE OTHER           do two files of answers agree in labels and scores?
    several.py data ANSWERS TEXTS       own.jsonl, own.csv and columns.csv, whose gold labels are the answers
    several.py made                     tags.csv and columns.csv: two labels that words of the text tell
"""
import json
import pathlib
import random
import shutil
import sys


def rows_of(path):
    return [json.loads(line) for line in open(path, encoding='utf-8')]


def model(source, out, *names):
    out = pathlib.Path(out)
    out.mkdir()
    shutil.copy(pathlib.Path(source) / 'model.safetensors', out)
    config = json.loads((pathlib.Path(source) / 'config.json').read_text())
    config['problem_type'] = 'multi_label_classification'
    config['id2label'] = {str(i): name for i, name in enumerate(names)}
    config['label2id'] = {name: i for i, name in enumerate(names)}
    (out / 'config.json').write_text(json.dumps(config))


def medians(answers):
    found = []
    for column in zip(*(row['scores'].values() for row in rows_of(answers))):
        scores = sorted(column)
        middle = range(len(scores) * 2 // 5, len(scores) * 3 // 5)
        widest = max(middle, key=lambda i: scores[i + 1] - scores[i])
        found.append(f'{(scores[widest] + scores[widest + 1]) / 2:.6f}')
    print(','.join(found))


def check(answers, thresholds=''):
    rows = rows_of(answers)
    cuts = [float(one) for one in thresholds.split(',') if one] or [0.5] * len(rows[0]['scores'])
    right = all(row['labels'] == [name for (name, score), cut in zip(row['scores'].items(), cuts) if score > cut] for row in rows)
    print(len(rows), right, 'more than one set' if len({tuple(row['labels']) for row in rows}) > 1 else 'one set')


def same(one, other):
    pairs = list(zip(rows_of(one), rows_of(other), strict=True))
    print(all(a['labels'] == b['labels'] and a['scores'] == b['scores'] for a, b in pairs))


def data(answers, texts):
    names = list(rows_of(answers)[0]['scores'])[::-1]
    with open('own.jsonl', 'w') as lists, open('own.csv', 'w') as bars, open('columns.csv', 'w') as columns:
        print('text,label', file=bars)
        print('text,' + ','.join(names), file=columns)
        for row, text in zip(rows_of(answers)[:300], open(texts).read().splitlines()):
            print(json.dumps({'text': text, 'label': row['labels']}), file=lists)
            print(text + ',' + '|'.join(row['labels']), file=bars)
            print(text + ',' + ','.join(str(int(name in row['labels'])) for name in names), file=columns)


def made():
    random.seed(3)
    with open('tags.csv', 'w') as bars, open('columns.csv', 'w') as columns:
        print('text,label', file=bars)
        print('text,praise,price', file=columns)
        for i in range(240):
            praise, price = random.random() < 0.5, random.random() < 0.5
            text = ('great film' if praise else 'dull and boring') + (' too much money' if price else ' it was') + f' {i}'
            print(text + ',' + '|'.join(name for name, given in (('praise', praise), ('price', price)) if given), file=bars)
            print(f'{text},{int(praise)},{int(price)}', file=columns)


if __name__ == '__main__':
    {'model': model, 'check': check, 'medians': medians, 'same': same, 'data': data, 'made': made}[sys.argv[1]](*sys.argv[2:])
