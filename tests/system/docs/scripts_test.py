#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every script of scripts/originals as it stands, with two steps of training on
tiny models and data, and looks at what each leaves behind.

    scripts_test.py EXEUNT REPOSITORY
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import tiny

EXEUNT, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
SCRIPTS = ROOT / 'scripts/originals'
TRAIN = '--max-steps 2 --device cpu --threads 1'
EVAL = '--threads 1'
SCRATCH = pathlib.Path()
ran = set()
# Every script of the five repositories, by its own name and folder.
ORIGINALS = {f'{system}/{folder}{name}.sh' for system, folder, names in (
    ('deebert', '', ('train', 'train_highway', 'eval_highway', 'eval_entropy')),
    ('romebert', 'scripts/', ('train_high', 'eval_high_layer', 'eval_high_entropy', 'test_sd')),
    ('romebert', 'new_scripts/', ('train_high', 'eval_high_layer', 'eval_high_entropy', 'test_sd+gr')),
    ('pabee', '', ('finetune_albert', 'finetune_bert', 'patience_infer_albert', 'patience_infer_bert')),
    ('elasticbert', 'finetune-static/', ('finetune_glue', 'finetune_elue')),
    ('elasticbert', 'finetune-dynamic/', ('finetune_elue_entropy', 'finetune_elue_patience')),
    ('elbert', '', ('glue_run',))) for name in names}

# What each backbone's name stands for here, too.
RUNS = {'saved_models/bert-base/MRPC/two_stage': 'bert', 'elsewhere/roberta-base/SST-2/two_stage': 'roberta',
        'saved_models/pabee/albert/STS-B': 'albert', 'saved_models/elbert/albert_large/RTE': 'albert',
        'saved_models/romebert/roberta-base/SST-2/raw': 'roberta', 'saved_models/elbert/albert_large/MNLI': 'albert',
        'ckpts/elasticbert-base/glue/RTE': 'elasticbert', 'ckpts/elue/entropy/MRPC': 'elasticbert'}


def expect(condition, what):
    if not condition:
        raise SystemExit(f'scripts_test: {what}')


def script(name, *arguments, status=0, **variables):
    """Runs one script in the scratch folder; returns what it printed."""
    ran.add(name)
    environment = dict(os.environ, TRAIN_FLAGS=TRAIN, EVAL_FLAGS=EVAL, LC_ALL='C.UTF-8', XDG_STATE_HOME=str(SCRATCH / 'state'),
                       **variables)
    done = subprocess.run([SCRIPTS / name, *arguments], cwd=SCRATCH, env=environment, capture_output=True, text=True, timeout=600)
    expect(done.returncode == status, f'{name} {variables}: status {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout + done.stderr if status else done.stdout


def command(*words, both=False):
    done = subprocess.run([EXEUNT, *words], cwd=SCRATCH, capture_output=True, text=True, timeout=600)
    expect(done.returncode == 0, f'{words}: status {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout + done.stderr if both else done.stdout


def has(name, printed, *wanted):
    for text in wanted:
        expect(text in printed, f'{name}: no "{text}" in\n{printed}')


def trained(folder, exits, settings, stages=1):
    """The run lies where the original put it and was made with the paper's numbers, which the command was told."""
    recipe = json.loads((SCRATCH / folder / 'recipe.json').read_text())
    expect(len(recipe['stages']) == stages, f'{folder}: {len(recipe["stages"])} stages, want {stages}')
    for stage in recipe['stages']:
        for key, value in settings.items():
            got = recipe['run']['seed'] if key == 'seed' else stage[key]
            expect(got == value, f'{folder}: {key} {got}, want {value}')
    got = len(json.loads((SCRATCH / folder / 'exits.json').read_text())['exits'])
    expect(got == exits, f'{folder}: {got} exits, want {exits}')
    return recipe


def files(folder, *wanted):
    there = {path.name for path in (SCRATCH / folder).glob('*')}
    expect(set(wanted) <= there, f'{folder}: no {set(wanted) - there} among {sorted(there)}')


def table(path, rows, header='index\tprediction'):
    lines = (SCRATCH / path).read_text().splitlines()
    expect(lines[0] == header and len(lines) == rows + 1, f'{path}: {lines}')


ENTROPY_FILES = ('each_layer.npy', 'entropy_0.0.npy', 'entropy_0.001.npy', 'entropy_0.15.npy', 'entropy_0.7.npy')
DEEBERT = {'lr': 2e-5, 'batch': 8, 'epochs': 3, 'seed': 42}


def deebert():
    script('deebert/train.sh')
    trained('saved_models/bert-base/MRPC/raw', 1, DEEBERT)
    script('deebert/train_highway.sh')
    trained('saved_models/bert-base/MRPC/two_stage', 3, DEEBERT, stages=2)
    out, plots = script('deebert/eval_highway.sh'), 'plotting/saved_models/bert-base/MRPC/two_stage'
    has('eval_highway', out, 'exit', 'f1')
    files(plots, 'each_layer.npy')
    out = script('deebert/eval_entropy.sh')
    has('eval_entropy', out, 'Exit layer counter {1: ', 'Expected saving ', 'Result: ')
    expect(out.count('Eval time: ') == 13, f'eval_entropy: {out.count("Eval time: ")} thresholds, want 13')
    files(plots, *ENTROPY_FILES)
    for name in ('train_highway', 'eval_highway', 'eval_entropy'):  # MNLI: both of its sets
        script(f'deebert/{name}.sh', DATASET='MNLI')
    for leaf in ('two_stage', 'two_stage-MM'):
        files(f'plotting/saved_models/bert-base/MNLI/{leaf}', *ENTROPY_FILES)
    script('deebert/train_highway.sh', MODEL_TYPE='roberta', DATASET='SST-2', SAVED_MODELS='elsewhere')
    trained('elsewhere/roberta-base/SST-2/two_stage', 3, {**DEEBERT, 'epochs': 10}, stages=2)
    for name in ('eval_highway', 'eval_entropy'):
        script(f'deebert/{name}.sh', MODEL_TYPE='roberta', DATASET='SST-2', SAVED_MODELS='elsewhere')
    files('plotting/elsewhere/roberta-base/SST-2/two_stage', *ENTROPY_FILES)
    for name in ('eval_highway', 'eval_entropy'):  # a folder of the original, without names of its labels
        script(f'deebert/{name}.sh', SAVED_MODELS='originals/deebert')
    files('plotting/originals/deebert/bert-base/MRPC/two_stage', *ENTROPY_FILES)


def romebert():
    for folder, test, leaf, rule in (('scripts', 'test_sd', 'raw', 'none'), ('new_scripts', 'test_sd+gr', 'new_gp', 'project')):
        run = f'saved_models/romebert/bert-base/SST-2/{leaf}'
        script(f'romebert/{folder}/train_high.sh', DATASET='SST-2')
        recipe = trained(run, 3, DEEBERT)
        objective = recipe['stages'][0]['objective']
        expect(recipe['gradient']['rule'] == rule, f'{run}: gradient rule {recipe["gradient"]}')
        expect((objective['kind'], objective['gamma'], objective['temperature']) == ('distill', 0.9, 3), f'{run}: {objective}')
        has(folder, script(f'romebert/{folder}/eval_high_layer.sh', DATASET='SST-2'), 'accuracy')
        has(folder, script(f'romebert/{folder}/eval_high_entropy.sh', DATASET='SST-2'), 'Expected saving ')
        files(f'plotting/{run}', *ENTROPY_FILES)
        script(f'romebert/{folder}/{test}.sh', DATASET='SST-2', PREDICTIONS=f'answers-{folder}')
        table(f'answers-{folder}/sst-2.tsv', 6)
        script(f'romebert/{folder}/train_high.sh', DATASET='MNLI')
        script(f'romebert/{folder}/{test}.sh', DATASET='MNLI', PREDICTIONS=f'answers-{folder}')
        for name in ('mnli', 'mnli-mm'):
            table(f'answers-{folder}/{name}.tsv', 6)
            names = {line.split('\t')[1] for line in (SCRATCH / f'answers-{folder}/{name}.tsv').read_text().splitlines()[1:]}
            expect(names <= {'contradiction', 'entailment', 'neutral'}, f'{name}.tsv: {names}')
        own = {'MODEL_TYPE': 'roberta', 'DATASET': 'SST-2'}
        script(f'romebert/{folder}/train_high.sh', **own)
        trained(f'saved_models/romebert/roberta-base/SST-2/{leaf}', 3, {**DEEBERT, 'epochs': 10})
        if leaf == 'raw':  # then a folder of the original, without names of its labels
            own['SAVED_MODELS'] = 'originals/romebert'
        for name in ('eval_high_layer', 'eval_high_entropy'):
            script(f'romebert/{folder}/{name}.sh', **own)
        files(f"plotting/{own.get('SAVED_MODELS', 'saved_models/romebert')}/roberta-base/SST-2/{leaf}", *ENTROPY_FILES)
        script(f'romebert/{folder}/{test}.sh', PREDICTIONS=f'roberta-{folder}', **own)
        table(f'roberta-{folder}/sst-2.tsv', 6)


def pabee():
    # The task and the steps between checkpoints, as the original's arguments.
    for kind, task, score in (('albert', 'STS-B', 'spearmanr = '), ('bert', 'MRPC', 'acc_and_f1 = ')):
        script(f'pabee/finetune_{kind}.sh', task, '1')
        run = f'saved_models/pabee/{kind}/{task}'
        trained(run, 3, {'lr': 2e-5, 'batch': 32, 'epochs': 5, 'seed': 42})
        files(run, 'checkpoint-1', 'checkpoint-2')
        out = script(f'pabee/patience_infer_{kind}.sh', task, '1', PATIENCE='1,2,3')
        has(run, out, score, '*** Patience = 2 Avg. Inference Layers = ')
        expect(out.count('*** Patience = 1 ') == 3, f'{run}: want two checkpoints and the last model')
        expect(out.count('Evaluation for checkpoint ') == 3, f'{run}: want a heading for each checkpoint: {out}')


def elasticbert():
    static = {'lr': 2e-5, 'batch': 32, 'weight_decay': 0.1, 'warmup': 0.06, 'epochs': 10, 'seed': 6, 'eval_every': 50, 'early_stop': 10}
    script('elasticbert/finetune-static/finetune_glue.sh', NUM_HIDDEN_LAYERS='2')
    trained('ckpts/elasticbert-base/glue/RTE', 1, static)
    table('ckpts/elasticbert-base/glue/RTE/rte.tsv', 3000)
    script('elasticbert/finetune-static/finetune_elue.sh', NUM_HIDDEN_LAYERS='3')
    trained('ckpts/elasticbert-base/elue/SST-2', 1, static)
    table('ckpts/elasticbert-base/elue/SST-2/sst-2.tsv', 6)
    for task in ('SciTail', 'SNLI', 'IMDb'):  # made data: of SciTail none is to be had to train on
        script('elasticbert/finetune-static/finetune_elue.sh', NUM_HIDDEN_LAYERS='1', TASK_NAME=task)
        table(f'ckpts/elasticbert-base/elue/{task}/{task.lower()}.tsv', 6)
    for kind, first, line in (('entropy', '0.3', 'Early_exit_entropy = 0.5'), ('patience', '2', 'Patience = 7')):
        out, run = script(f'elasticbert/finetune-dynamic/finetune_elue_{kind}.sh', STEPS='1'), f'ckpts/elue/{kind}/MRPC'
        recipe = trained(run, 3, {'lr': 2e-5, 'batch': 32, 'weight_decay': 0.1, 'warmup': 0.06, 'epochs': 5, 'seed': 6})
        expect(recipe['gradient']['rule'] == 'equilibrium', f'{run}: gradient rule {recipe["gradient"]}')
        has(kind, out, 'Evaluation for checkpoint checkpoint-1', f'*** {line} Avg. Inference Layers = ')
        files(f'{run}/eval/checkpoint-2', f'mrpc_eval_exit_layer_{first}.tsv')
        files(run, f'mrpc_{first}.tsv', f'mrpc_infer_exit_layer_{first}.tsv')
    out = command('sweep', '--view', 'elasticbert', '--model_name_or_path', 'originals/elasticbert/MRPC', '--task_name', 'MRPC',
                  '--data_dir', 'elue_data/MRPC', '--early_exit_entropy', '0.3')  # a folder of the original
    has('originals/elasticbert', out, 'acc_and_f1 = ', '*** Early_exit_entropy = 0.3 ')


def elbert():
    has('glue_run', script('elbert/glue_run.sh', '1', '0'), 'Computation cost: ', 'acc = ')
    run = 'saved_models/elbert/albert_large/RTE'
    recipe = trained(run, 3, {'lr': 3e-5, 'batch': 32, 'epochs': 3, 'seed': 42})
    expect(recipe['stages'][0]['objective']['kind'] == 'learned', f'{run}: {recipe["stages"][0]}')
    one = (SCRATCH / run / 'eval_results.txt').read_text().splitlines()
    expect(one[0] == ',exit_thres,acc,compute_ratio' and one[1].startswith('0,0.40,'), f'eval_results.txt: {one}')
    # change_config.py reaches the script, and the learned weights are told.
    command('policy', 'set', run, '--key', 'exit_thres', '--value', '0.2')
    script('elbert/glue_run.sh', '0', '0')
    one = (SCRATCH / run / 'eval_results.txt').read_text().splitlines()
    expect(one[1].startswith('0,0.20,'), f'eval_results.txt: {one}')
    has('info', command('info', run), 'loss weight')
    script('elbert/glue_run.sh', '0', '0', TEST_MODE='all')
    rows = (SCRATCH / run / 'eval_results.txt').read_text().splitlines()[1:]
    expect([row.split(',')[1] for row in rows] == [f'0.{i}0' for i in range(9, 0, -1)], f'eval_results.txt: {rows}')
    has('glue_run', script('elbert/glue_run.sh', '0', '0', TEST_MODE='some', status=2), "got 'some', want one or all")
    # Folders of the original: every verb and the script run the rule of config.json, and the script's table has its threshold.
    for name, policy, threshold in (('elbert', 'window:0.1,8,bias_1', '0.10'), ('logits', 'confidence:0.7', '0.30')):
        run, told = f'originals/{name}/RTE', f'notice: policy {policy}, as the model\'s files ask for'
        has(name, command('policy', 'show', run), policy)
        has(name, command('eval', run, '--task', 'RTE', '--data', 'glue_data', both=True), told, policy)
        has(name, command('predict', run, '--task', 'RTE', '--data', 'glue_data', '--split', 'dev', both=True), told)
        for source in (run, f'converted/{name}/RTE'):
            if source != run:
                command('convert', run, '--out', source)
                has(name, command('policy', 'show', source), policy)
            script('elbert/glue_run.sh', '0', '0', OUT_DIR=str(pathlib.Path(source).parent))
            one = (SCRATCH / source / 'eval_results.txt').read_text().splitlines()
            expect(len(one) == 2 and one[1].startswith(f'0,{threshold},'), f'{source}: eval_results.txt: {one}')
        script('elbert/glue_run.sh', '0', '0', OUT_DIR=f'originals/{name}', TEST_MODE='all')
        rows = (SCRATCH / run / 'eval_results.txt').read_text().splitlines()[1:]
        want = [f'0.{i}0' for i in range(9, 0, -1)]
        expect([row.split(',')[1] for row in rows] == want, f'{run}: eval_results.txt: {rows}')
    # Three classes, and both of MNLI's sets: trained here, and a folder of the original whose rule is another one for them.
    has('policy show', command('policy', 'show', 'originals/logits/MNLI'), 'minprob:0.3')
    for out, train, threshold in (('saved_models/elbert/albert_large', '1', '0.40'), ('originals/logits', '0', '0.30')):
        script('elbert/glue_run.sh', train, '0', OUT_DIR=out, TASK_NAME='MNLI')
        for leaf in ('MNLI', 'MNLI-MM'):
            one = (SCRATCH / out / leaf / 'eval_results.txt').read_text().splitlines()
            expect(len(one) == 2 and one[1].startswith(f'0,{threshold},'), f'{out}/{leaf}: eval_results.txt: {one}')


def main():
    global SCRATCH
    with tempfile.TemporaryDirectory() as name:
        SCRATCH = pathlib.Path(name)
        tiny.make(SCRATCH, EXEUNT, ROOT / 'tests/fixtures')
        for part in (deebert, romebert, pabee, elasticbert, elbert):
            part()
        for run, family in RUNS.items():
            got = json.loads((SCRATCH / run / 'config.json').read_text())['model_type']
            expect(got == family, f'{run}: {got}, want {family}')
    there = {str(path.relative_to(SCRIPTS)) for path in SCRIPTS.rglob('*.sh')}
    expect(ran == there == ORIGINALS, f'not run: {there - ran}; not the originals: {there ^ ORIGINALS}')
    print(f'{len(ran)} scripts')


if __name__ == '__main__':
    main()
