# SPDX-License-Identifier: Apache-2.0
"""A folder in which the commands of scripts and pages run as they stand: tiny data of our own making under the names of
GLUE and ELUE, tiny models under the names of the real ones, and the built command where the scripts look for it."""
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / 'scripts/golden'))
import tiny_models as models

GOOD = ('a great film', 'the plot was fine', 'I love it', 'good and new', 'a delight', 'never dull')
BAD = ('a dull film', 'the plot was bad', 'the worst meal', 'boring and old', 'not good', 'so so')


def _table(path, header, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (['\t'.join(header)] if header else []) + ['\t'.join(map(str, row)) for row in rows]
    path.write_text('\n'.join(lines) + '\n')


def _texts(rows):
    """(text, label) in turn good and bad."""
    return [((GOOD, BAD)[i % 2][i // 2 % 6] + f' {i % 9}', 1 - i % 2) for i in range(rows)]


def _write_single(folder, rows):
    for split, count in rows.items():
        if split == 'test':
            _table(folder / 'test.tsv', ('index', 'sentence'), [(i, text) for i, (text, _) in enumerate(_texts(count))])
        else:
            _table(folder / f'{split}.tsv', ('sentence', 'label'), _texts(count))


def _write_mrpc(folder, rows):
    for split, count in rows.items():
        first = 'index' if split == 'test' else 'Quality'
        _table(folder / f'{split}.tsv', (first, '#1 ID', '#2 ID', '#1 String', '#2 String'),
               [(i if split == 'test' else label, i, i + 1, text, text if label else BAD[i % 6]) for i, (text, label) in enumerate(_texts(count))])


def _write_pairs(folder, rows, label_of, names=('sentence1', 'sentence2', 'label')):
    for split, count in rows.items():
        wide = ('index', *names) if split != 'test' else ('index', *names[:2])
        _table(folder / f'{split}.tsv', wide,
               [(i, text, BAD[i % 6], label_of(label))[:len(wide)] for i, (text, label) in enumerate(_texts(count))])


def _write_elue_pairs(folder, rows, labels):
    for split, count in rows.items():
        texts = [(text, BAD[i % 6], labels[i % len(labels)]) for i, (text, _) in enumerate(_texts(count))]
        if split == 'test':
            _table(folder / 'test.tsv', ('index', 'premise', 'hypothesis'), [(i, *row[:2]) for i, row in enumerate(texts)])
        else:
            _table(folder / f'{split}.tsv', ('premise', 'hypothesis', 'label'), texts)


def _write_mnli(folder):
    columns = ['index', *(f'c{i}' for i in range(1, 8)), 'sentence1', 'sentence2']
    names = ('contradiction', 'entailment', 'neutral')
    for name, count in (('train', 24), ('dev_matched', 9), ('dev_mismatched', 9)):
        rows = [[i, *['x'] * 7, text, BAD[i % 6], names[i % 3]] for i, (text, _) in enumerate(_texts(count))]
        _table(folder / f'{name}.tsv', [*columns, 'gold_label'], rows)
    for name in ('test_matched', 'test_mismatched'):
        _table(folder / f'{name}.tsv', columns, [[i, *['x'] * 7, text, BAD[i % 6]] for i, (text, _) in enumerate(_texts(6))])


def write_data(folder):
    glue, elue = folder / 'glue_data', folder / 'elue_data'
    rows = {'train': 24, 'dev': 8, 'test': 6}
    _write_single(glue / 'SST-2', rows)
    _write_single(elue / 'SST-2', rows)
    _write_mrpc(glue / 'MRPC', rows)
    _write_mrpc(elue / 'MRPC', rows)
    _write_single(elue / 'IMDb', rows)
    _write_elue_pairs(elue / 'SNLI', rows, '012')
    _write_elue_pairs(elue / 'SciTail', rows, '01')
    _write_pairs(glue / 'RTE', {**rows, 'test': 3000}, lambda label: ('not_entailment', 'entailment')[label])
    _write_pairs(glue / 'STS-B', rows, lambda label: 4.5 * label, ('sentence1', 'sentence2', 'score'))
    _write_mnli(glue / 'MNLI')
    for name, count in (('train', 24), ('dev', 8)):
        rows = [f'{text},{"good" if label else "bad"}' for text, label in _texts(count)]
        (folder / f'{name}.csv').write_text('\n'.join(['sentence1,label', *rows]) + '\n')
    (folder / 'reviews.txt').write_text(''.join(text + '\n' for text, _ in _texts(10)))


def make(folder, exeunt, tests):
    """Fills `folder`: data, models, and build/release/bin/exeunt."""
    folder, exeunt, tests = pathlib.Path(folder), pathlib.Path(exeunt).resolve(), pathlib.Path(tests)
    write_data(folder)
    shutil.copytree(tests / 'checkpoints/bert-backbone', folder / 'bert-base-uncased')
    models.write_roberta(folder / 'roberta-base')
    models.write_albert(folder / 'albert-base-v2')
    models.write_albert(folder / 'albert-large-v2', **models.ELBERT)
    models.write_elasticbert(folder / 'fnlp/elasticbert-base')
    models.write_pabee(folder / 'originals/pabee')  # fine-tuned, in the originals' files
    models.write_elbert(folder / 'originals/elbert/RTE')
    models.write_elbert(folder / 'originals/logits/RTE', thres_name='logits', exit_thres=0.3)
    models.write_elbert(folder / 'originals/logits/MNLI', labels=3, thres_name='logits', exit_thres=0.3)
    models.write_deebert(folder / 'originals/deebert/bert-base/MRPC/two_stage', finetuning_task='mrpc')
    models.write_roberta(folder / 'originals/romebert/roberta-base/SST-2/raw', models.highways, num_labels=2, finetuning_task='sst-2')
    models.write_elasticbert(folder / 'originals/elasticbert/MRPC', labels=2, num_labels=2, finetuning_task='mrpc')
    shutil.copytree(tests / 'checkpoints/bert-deebert', folder / 'models/sst2')
    (folder / 'build/release').mkdir(parents=True)
    (folder / 'build/release/bin').symlink_to(exeunt.parent)


def make_examples(folder, exeunt, tests):
    """What the pages name whose commands are not in ```sh blocks: more rows, models and runs of `train`, traces of a real model."""
    folder, tests = pathlib.Path(folder), pathlib.Path(tests)
    rows = {'train': 120, 'dev': 120, 'test': 6}
    _write_single(folder / 'glue_data/SST-2', rows)
    for name in ('mine.csv', 'held.csv'):
        (folder / name).write_text('text,label\n' + ''.join(f'{text},{label}\n' for text, label in _texts(600)))
    config = folder / 'models/sst2/config.json'  # labels as training on the task gives them
    config.write_text(config.read_text().replace('"negative"', '"0"').replace('"positive"', '"1"'))
    shutil.copytree(folder / 'bert-base-uncased', folder / 'bert-base')
    for name in ('mine', 'exeunt', 'pabee', 'romebert'):
        shutil.copytree(folder / 'models/sst2', folder / 'runs' / name)
    for name in ('wiki.txt', 'books.txt'):
        (folder / name).write_text('\n\n'.join('. '.join(text for text, _ in _texts(12)) + '.' for _ in range(20)) + '\n')
    for name, of in (('sst2-a', 'sst2-exeunt'), ('sst2-b', 'sst2-elasticbert'), ('x', 'sst2-exeunt')):
        shutil.copy(tests / f'traces/{of}.held.safetensors', folder / f'{name}.safetensors')
    subprocess.run([exeunt, *'calibrate x.safetensors --max-drop 2% --out policy.json'.split()], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, env=dict(os.environ, XDG_STATE_HOME=str(folder / 'state')))
