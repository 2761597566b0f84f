# SPDX-License-Identifier: Apache-2.0
"""The tasks on which ways to attach exits are compared, as files: what a model is fine-tuned on (train.csv), what it gets
afterwards (log.csv, without labels), and labelled rows that show what its answers are worth (dev.csv)."""
import csv
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Rows of the training set to fine-tune on; the others, and the test set, are the log.
TASKS = {
    'SST-2': {'epochs': 2}, 'MRPC': {'epochs': 6, 'pairs': True}, 'RTE': {'epochs': 8, 'pairs': True},
    'CoLA': {'epochs': 5, 'learned': 5500}, 'STS-B': {'epochs': 5, 'pairs': True, 'regression': True, 'learned': 4000},
    'BANKING77': {'epochs': 8, 'learned': 6000}, 'CLINC150': {'epochs': 6}, 'SMS-Spam': {'epochs': 4, 'learned': 2500},
    'SST-2-sentences': {'epochs': 4, 'learned': 4000}, 'IMDb': {'epochs': 2, 'learned': 8000, 'max_length': 256},  # ELUE's
    'feedback': {'epochs': 4},
}
GRAM = 4  # words in a row that tell a held-out row from a learned one


def table(path, columns):
    """Rows of a tab-separated file as (text, pair, label); `columns`: names, or places where there is no header."""
    with open(path, encoding='utf-8-sig') as file:
        lines = [line.rstrip('\r\n').split('\t') for line in file]
    if isinstance(columns[0], str):
        header = lines.pop(0)
        columns = [None if name not in header else header.index(name) for name in columns]
    return [tuple('' if place is None else line[place].strip() for place in columns) for line in lines if len(line) > 1]


def rows_of(folder, task):
    """{split: rows} as the task's files have them."""
    if task == 'feedback':
        out = {}
        for split in ('train', 'dev', 'certify'):
            with open(ROOT / f'examples/feedback/{split}.csv', encoding='utf-8', newline='') as file:
                out[split] = [(row['text'], '', row['label']) for row in csv.DictReader(file)]
        return out
    sentence = ('sentence', 'none', 'label')
    names = {'SST-2': sentence, 'SST-2-sentences': sentence, 'IMDb': sentence, 'MRPC': ('#1 String', '#2 String', 'Quality'),
             'RTE': ('sentence1', 'sentence2', 'label'), 'STS-B': ('sentence1', 'sentence2', 'score'),
             'CoLA': sentence}.get(task, ('text', 'none', 'label'))
    out = {}
    for path in sorted((Path(folder) / task).glob('*.tsv')):
        plain = task == 'CoLA' and path.stem != 'test'
        if path.stem != 'dev_ids':
            out[path.stem] = table(path, (3, None, 1) if plain else names)
    return out


def sources(texts):
    """For each text the number of the longest text that it is part of: phrases of one sentence have one source."""
    owner, out = {}, {}
    for text in sorted(set(texts), key=lambda text: (-len(text.split()), text)):
        words = text.split()
        found = owner.get(' '.join(words))
        if found is None:
            found = len(out)
            for first in range(len(words)):
                for last in range(first + 1, len(words) + 1):
                    owner.setdefault(' '.join(words[first:last]), found)
        out[text] = found
    return [out[text] for text in texts]


def grams(text, count=GRAM):
    words = text.split()
    return [tuple(words[i:i + count]) for i in range(len(words) - count + 1)]


def split_sst2(train):
    """Fine-tuning, log, and rows apart: of other sentences, and without four words in a row that the others have."""
    numbers = sources([row[0] for row in train])
    order = sorted(set(numbers))
    random.Random(0).shuffle(order)
    share = {source: place / len(order) for place, source in enumerate(order)}
    learn = [row for row, source in zip(train, numbers) if share[source] < 0.3]
    log = [row for row, source in zip(train, numbers) if 0.3 <= share[source] < 0.75]
    known = {gram for row in learn + log for gram in grams(row[0])}
    apart = [row for row, source in zip(train, numbers)
             if share[source] >= 0.75 and not any(gram in known for gram in grams(row[0]))]
    return learn, log, apart


def write_rows(path, rows):
    with open(path, 'w', encoding='utf-8', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(('text', 'pair', 'label'))
        writer.writerows(rows)


def read_rows(path):
    """(text, pair, label) of each row of a file of ours or of examples/feedback."""
    with open(path, encoding='utf-8', newline='') as file:
        return [(row['text'], row.get('pair') or '', row['label']) for row in csv.DictReader(file)]


def write_task(data, task, folder):
    """Writes the task's files below `folder`; returns the names of those that there are."""
    rows, spec, apart = rows_of(data, task), TASKS[task], []
    train, dev = rows['train'], rows.get('dev', rows.get('test'))
    if task == 'SST-2':
        learn, log, apart = split_sst2(train)
    elif task == 'feedback':  # small: its own training texts are learned once more, and others certify
        learn, log = train, train + rows['certify']
    else:
        random.Random(0).shuffle(train)
        learn = train[:spec.get('learned', len(train))]
        log = train[len(learn):] + [row for name in rows if name != 'train' for row in rows[name]]
    folder.mkdir(parents=True, exist_ok=True)
    log = [(text, pair, '') for text, pair, _ in log]
    random.Random(1).shuffle(log)
    random.Random(2).shuffle(apart)
    write_rows(folder / 'train.csv', learn)
    write_rows(folder / 'log.csv', log)
    write_rows(folder / 'dev.csv', dev)
    if apart:
        write_rows(folder / 'apart.csv', [(text, pair, '') for text, pair, _ in apart])
    return {'train': len(learn), 'log': len(log), 'dev': len(dev), 'apart': len(apart)}
