#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares ways to attach exits to finished models, by the layers that certified policies run on rows that chose nothing.

    lab/studies/attach/attach_study.py --bin build/release/bin --model gte-small --minilm minilm --data FOLDER [--minutes 9]

FOLDER holds the tasks' folders with their .tsv files (GLUE's, ELUE's IMDb and SST-2 as SST-2-sentences, BANKING77, CLINC150, SMS-Spam). gte-small is fine-tuned by recipe
`plain` on each task (MiniLM on examples/feedback), and by recipe `exeunt` for comparison. Then, side by side:
  * heads learn on a GPU (heads.py), many variants at once, and `exeunt calibrate` certifies their logits: part "heads";
  * `exeunt attach` itself runs, with each list of flags in --flags, on --cores cores: part "command";
  * recipe `exeunt` gets a last stage in which its exits imitate the last one on the training texts, and the logits of rows that
    were not trained on are certified before and after it: part "stage" (only where it is named).
Each result is a line of attach.jsonl as it comes, and results that it holds are skipped, so the study can be done in pieces.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tasks import ROOT, TASKS, write_task  # noqa: E402

SEEDS = (42, 43, 44)
BUDGETS = ('1%', '2%', '5%')
MOST_HELD_OUT = 6000  # texts of a task, where heads learn on a GPU; --most-learned limits those that are learned
SPLITS = 3  # splits into fit, certify and report rows, over which a trace's figures are averaged
VARIANTS = {
    'as it is': {}, 'lr 3e-4': {'lr': 3e-4}, 'lr 3e-3': {'lr': 3e-3}, 'temperature 2': {'temperature': 2},
    'temperature 4': {'temperature': 4}, 'half hard targets': {'hard': 0.5}, 'hard targets': {'hard': 1.0},
    'lr 3e-3, temperature 2': {'lr': 3e-3, 'temperature': 2}, 'no dropout': {'dropout': 0.0}, 'dropout 0.3': {'dropout': 0.3},
    'decay 0.1': {'decay': 0.1},
}
TEXTS = ("the model's training texts", 'both')
WEIGHED, AS_IT_IS = 'weighed by who is left', 'as it is'
FORMS = {'four queries': {'queries': 4}, 'pooler twice as wide': {'width': 2}, 'no pooler': {'width': 0},
         'first row alone': {'queries': 0}}
BEST_FORM = 'the best form at each exit'  # of these and the usual one, by the loss on the texts for choosing
LONGER = {f'{name}, twice the epochs': change for name, change in VARIANTS.items()
          if name in ('as it is', 'lr 3e-4', 'temperature 2', 'dropout 0.3')}
EPOCHS = 8
LAST_STAGES = {f'lr {lr}, {epochs} epochs': (float(lr), epochs) for lr, epochs in (('1e-3', 4), ('1e-3', 2), ('3e-4', 4), ('3e-3', 4), ('1e-3', 8))}
MOST_TRACED = 3000  # rows that certify a last stage


class Study:
    def __init__(self, flags):
        self.flags, self.end = flags, time.monotonic() + 60 * flags.minutes
        self.lock = threading.Lock()
        self.done = set()
        if flags.results.exists():
            self.done = {self.key(json.loads(line)) for line in flags.results.read_text().splitlines()}

    @staticmethod
    def key(result):
        return tuple(result.get(name) for name in ('part', 'task', 'recipe', 'seed', 'variant'))

    def left(self):
        return self.end - time.monotonic()

    def note(self, result):
        with self.lock:
            self.flags.results.parent.mkdir(parents=True, exist_ok=True)
            with self.flags.results.open('a') as file:
                file.write(json.dumps(result) + '\n')
            self.done.add(self.key(result))
            layers = ' '.join(f"{point['layers']:.2f} ({100 * point['risk']:.2f} %)" for point in result.get('points', []))
            print(f"{time.strftime('%H:%M:%S')} {' '.join(str(word) for word in self.key(result))}: {layers}", flush=True)

    def command(self, words, threads, timeout=None):
        """Runs a command of ours with a state folder of its own, so that every certificate is a first try."""
        with tempfile.TemporaryDirectory(dir=self.flags.work) as state:
            environment = dict(os.environ, XDG_STATE_HOME=state, OMP_NUM_THREADS=str(threads))
            done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=environment, timeout=timeout or max(5, self.left()))
        if done.returncode:
            raise RuntimeError(f'{words[:3]} ended with {done.returncode}: {done.stderr[-400:]}')
        return done.stdout

    # ---- models
    def folder(self, model):
        return self.flags.work / 'models' / '-'.join(map(str, model))

    def trained(self, model):
        return self.folder(model).with_suffix('.done').exists()

    def wait_for(self, model):
        while not self.trained(model) and not self.folder(model).with_suffix('.failed').exists() and self.left() > 15:
            time.sleep(0.5)
        return self.trained(model)

    def train(self, model):
        task, recipe, seed = model
        if self.trained(model) or self.left() < 20:
            return
        spec, files, out = TASKS[task], self.flags.work / 'tasks' / task, self.folder(model)
        small = task == 'feedback'
        line = self.trainer(model, recipe, self.flags.minilm if small else self.flags.model, out)
        line += ['--epochs', self.flags.epochs or spec['epochs']]
        if recipe == 'plain':
            line += ['--batch', 32, '--warmup', 0.06]
        stages = json.loads((ROOT / f'recipes/{recipe}.json').read_text())['stages']
        for number in range(1, len(stages)):  # joint training alone
            line += ['--set', f'stages.{number}.epochs=0']
        line += ['--lr', 1e-4 if small else 2e-5 if spec.get('regression') else 5e-5]  # feedback: as in scripts/demo
        if 'stage' in self.flags.parts:
            line += ['--eval-data', self.held(task), '--trace']
        else:
            line += ['--eval-data', files / 'dev.csv']
        self.command(line, 1)
        out.with_suffix('.done').touch()

    def trainer(self, model, recipe, start, out):
        """What all trainings of a task have in common."""
        task, seed = model[0], model[2]
        spec, small = TASKS[task], task == 'feedback'
        line = [self.flags.bin / 'exeunt-train', 'train', '--recipe', recipe, '--model', start, '--data',
                self.flags.work / 'tasks' / task / 'train.csv', '--out', out, '--seed', seed, '--save-every', 0, '--log-every', 0,
                '--threads', 1, '--overwrite', '-q', '--device', self.flags.device, '--max-length', 48 if small else spec.get('max_length', 128)]
        line += ['--pair-column', 'pair'] if spec.get('pairs') else []
        line += ['--regression'] if spec.get('regression') else []
        return line + (['--precision', 'bf16'] if self.flags.device == 'cuda' and not small else [])

    # ---- a last stage of recipe `exeunt`
    def held(self, task):
        """Rows that were not trained on, each with the label of another row: nothing is read from it but the range of values."""
        files = self.flags.work / 'tasks' / task
        path = files / 'held.csv'
        with self.lock:
            if not path.exists():
                from tasks import read_rows, write_rows
                source = files / ('apart.csv' if (files / 'apart.csv').exists() else 'log.csv')
                if task == 'feedback':
                    source = ROOT / 'examples/feedback/certify.csv'
                labels = [label for _, _, label in read_rows(files / 'train.csv')]
                write_rows(path, [(text, pair, labels[i % len(labels)])
                                  for i, (text, pair, _) in enumerate(read_rows(source)[:MOST_TRACED])])
        return path

    def last_stage(self, model, name):
        """Certifies the model as it was trained ('joint') or with a last stage."""
        if ('stage', *model, name) in self.done or self.left() < 20:
            return
        task, recipe, seed = model
        out, start = self.folder(model), time.monotonic()
        if name != 'joint':
            joint, stage = (json.loads((ROOT / f'recipes/{one}.json').read_text()) for one in ('exeunt', 'attach'))
            rate, epochs = LAST_STAGES[name]
            stages = [dict(stage['stages'][1], lr=rate, epochs=self.flags.head_epochs or epochs)]
            file = self.flags.work / f"{'-'.join(map(str, model))}-{name.replace(' ', '-')}.json"
            file.write_text(json.dumps(dict(stage, heads=joint['heads'], stages=stages)))
            out = file.with_suffix('')
            self.command(self.trainer(model, file, self.folder(model), out) + ['--eval-data', self.held(task), '--trace'], 1)
        seconds = round(time.monotonic() - start, 1)
        layers = json.loads((out / 'config.json').read_text())['num_hidden_layers']
        with tempfile.TemporaryDirectory(dir=self.flags.work) as scratch:
            trace = Path(scratch) / 'trace.safetensors'
            shutil.copy(out / 'trace-eval.safetensors', trace)
            points = self.points(trace, layers)
        self.note({'part': 'stage', 'task': task, 'recipe': recipe, 'seed': seed, 'variant': name, 'seconds': seconds,
                   'points': points})
        if name != 'joint':
            shutil.rmtree(out)

    def last_stages(self, models):
        """All of them, several at a time, in the order in which the models are trained."""
        def try_one(job):
            try:
                if self.wait_for(job[0]):
                    self.last_stage(*job)
            except (RuntimeError, subprocess.TimeoutExpired, KeyError, OSError) as error:
                print(f'{job}: {error!r}', flush=True)
        jobs = [(model, name) for model in models for name in ('joint', *self.flags.last_stages)]
        with concurrent.futures.ThreadPoolExecutor(self.flags.jobs) as pool:
            list(pool.map(try_one, jobs))

    def points(self, trace, layers):
        """What is certified by a trace outside of its model's folder, mean of some splits."""
        runs = []
        for split in range(SPLITS):
            line = [self.flags.bin / 'exeunt', 'calibrate', trace, '--json', '-q', '--seed', split, '--out', f'{trace}.{split}.json']
            found = json.loads(self.command(line + [word for budget in BUDGETS for word in ('--max-drop', budget)], 1))
            runs.append(found['points'])
        return [{'budget': budget, 'layers': layers * sum(run[i]['report_cost_fraction'] for run in runs) / SPLITS,
                 'risk': sum(run[i]['report_risk'] for run in runs) / SPLITS,
                 'policy': runs[0][i]['policy']} for i, budget in enumerate(BUDGETS)]

    def train_all(self, models):
        with concurrent.futures.ThreadPoolExecutor(self.flags.jobs) as pool:
            waiting = {pool.submit(self.train, model): model for model in models}
            for future in concurrent.futures.as_completed(waiting):
                if future.exception():
                    print(f'{waiting[future]}: {future.exception()}', flush=True)
                    self.folder(waiting[future]).with_suffix('.failed').touch()
                elif self.trained(waiting[future]):
                    print(f'{time.strftime("%H:%M:%S")} trained {waiting[future]}', flush=True)

    # ---- heads on a GPU
    def texts(self, model, name):
        from heads import Texts
        task = model[0]
        out = self.flags.work / 'tasks' / task / f'{name}.safetensors'
        if not out.exists():
            line = [self.flags.bin / 'exeunt', 'prepare', self.folder(model), '--data', self.flags.work / 'tasks' / task / f'{name}.csv',
                    '--label-column', '', '--out', out, '--threads', 2, '--max-length', 48 if task == 'feedback' else 128, '-q']
            self.command(line + (['--pair-column', 'pair'] if TASKS[task].get('pairs') else []), 2)
        return Texts(out)

    def wants_heads(self, model):
        names = self.flags.variants if model[1] == 'plain' else ['as it is', 'joint']
        return any(('heads', *model, name) not in self.done for name in names)

    def certified(self, model, variant, logits, lengths, pool):
        """Certifies the logits [rows, exits, outputs] of rows that were not learned, in another thread."""
        from heads import write_trace
        task, recipe, seed = model
        name = f'{task} {recipe} {seed} {variant}'
        path = self.flags.work / f'{hashlib.sha256(name.encode()).hexdigest()[:16]}.safetensors'
        write_trace(path, logits, lengths, name, bool(TASKS[task].get('regression')))

        def calibrate():
            points = self.points(path, logits.shape[1])
            path.unlink()
            if logits.shape[2] > 1:
                agree = (logits.argmax(-1) == logits.argmax(-1)[:, -1:]).mean(0)
            else:
                agree = abs(logits[..., 0] - logits[:, -1:, 0]).mean(0)
            self.note({'part': 'heads', 'task': task, 'recipe': recipe, 'seed': seed, 'variant': variant,
                       'rows': int(logits.shape[0]), 'agreement': [round(float(value), 4) for value in agree], 'points': points})
        return pool.submit(calibrate)

    def explore(self, model, pool):
        import numpy
        import torch
        from heads import Encoder, Heads
        task, recipe, seed = model
        variants = {name: change for name, change in VARIANTS.items() if name in self.flags.variants}
        if not self.wants_heads(model):
            return
        encoder = Encoder(self.folder(model), self.flags.device)
        draw = numpy.random.default_rng(seed)
        log, train = self.texts(model, 'log'), self.texts(model, 'train')
        parts = {'log': log, 'train': train}
        if task == 'feedback':
            shutil.copy(ROOT / 'examples/feedback/certify.csv', self.flags.work / 'tasks' / task / 'certify.csv')
            parts |= {name: self.texts(model, name) for name in ('dev', 'certify')}
            choose_set, held_set = (('dev', numpy.arange(len(parts['dev']))), ('certify', numpy.arange(len(parts['certify']))))
            learn_set = ('train', draw.permutation(len(train)))
        else:
            order = draw.permutation(len(log))
            cut = int(0.6 * len(log))
            fit = max(100, cut // 10)
            choose_set, learn_set = ('log', order[:fit]), ('log', order[fit:min(cut, fit + self.flags.most_learned)])
            held_set = ('log', order[cut:cut + MOST_HELD_OUT])
            if (self.flags.work / 'tasks' / task / 'apart.csv').exists():
                parts['apart'] = self.texts(model, 'apart')
                held_set = ('apart', numpy.arange(min(len(parts['apart']), MOST_HELD_OUT)))
        # Rows of everything that is used, one after the other.
        own_set = ('train', draw.permutation(len(train))[:len(learn_set[1])])
        runs = [encoder.run(parts[name], numbers) for name, numbers in (learn_set, choose_set, held_set, own_set)]
        width = max(run[1].shape[1] for run in runs)
        pad = torch.nn.functional.pad
        rows = torch.cat([pad(run[0], (0, 0, 0, width - run[0].shape[2])) for run in runs], 1)
        mask = torch.cat([pad(run[1], (0, width - run[1].shape[1])) for run in runs], 0)
        own = torch.cat([run[2] for run in runs], 0)
        teacher, middle, spread = own[:, -1], 0.0, 1.0
        if encoder.regression:
            middle, spread = teacher.mean(), teacher.std()
            teacher = (teacher - middle) / spread
        counts = [len(numbers) for _, numbers in (learn_set, choose_set, held_set, own_set)]
        places, at = [], 0
        for count in counts:
            places.append(torch.arange(at, at + count))
            at += count
        learn, choose, held, known = places
        data = (rows, mask, teacher, encoder.regression)
        lengths = parts[held_set[0]].lengths[held_set[1]]
        full = own[held.to(own.device), -1].cpu().numpy()
        waiting = []

        def certify(name, found):  # [exits, rows, outputs]
            found = (found * spread + middle).cpu().numpy()
            logits = numpy.concatenate([found.transpose(1, 0, 2), full[:, None]], 1)
            waiting.append(self.certified(model, name, logits, lengths, pool))

        def attempt(variants, learned, epochs=EPOCHS, form=None, weigh=None):
            variants = {name: change for name, change in variants.items() if name in self.flags.variants}
            if self.left() < 20 or all(('heads', *model, name) in self.done for name in variants):
                return None
            heads = Heads(variants, encoder.layers - 1, encoder.hidden, encoder.outputs, self.flags.device, seed, **(form or {}))
            heads.learn(data, learned, choose.to(rows.device), self.flags.head_epochs or epochs, seed, weigh)
            for name, found in zip(heads.variants, heads.all_logits(data, held.to(rows.device))):
                certify(name, found)
            return heads

        def best_form(first, others):
            tried = [(first, list(first.variants).index(AS_IT_IS)), *((heads, 0) for heads in others)]
            best = torch.stack([heads.best_loss[place] for heads, place in tried]).argmin(0)
            logits = torch.stack([heads.all_logits(data, held.to(rows.device))[place] for heads, place in tried])
            certify(BEST_FORM, logits[best, torch.arange(len(best), device=best.device)])

        if recipe != 'plain':
            if len(encoder.exits) == encoder.layers:
                waiting.append(self.certified(model, 'joint', own[held.to(own.device)].cpu().numpy(), lengths, pool))
            attempt({AS_IT_IS: {}}, learn)
            return
        first = attempt(variants, learn)
        attempt({"the model's training texts": {}}, known)
        attempt({'both': {}}, torch.cat([learn, known]))
        formed = [heads for heads in (attempt({name: {}}, learn, form=form) for name, form in FORMS.items()) if heads]
        if first is not None and AS_IT_IS in first.variants and formed and BEST_FORM in self.flags.variants:
            best_form(first, formed)
        if first is not None and not encoder.regression and WEIGHED in self.flags.variants:
            attempt({WEIGHED: {}}, learn, weigh=still_there(first, data, learn, choose))
        attempt(LONGER, learn, epochs=2 * EPOCHS)
        concurrent.futures.wait(waiting)
        for future in waiting:
            if future.exception():
                print(f'{model}: {future.exception()}', flush=True)

    # ---- the command itself
    def attach(self, model, flags_name):
        task, recipe, seed = model
        variant, words = flags_name.partition(':')[::2]
        if ('command', *model, variant) in self.done or self.left() < 15:
            return
        work, spec = self.flags.work, TASKS[task]
        with tempfile.TemporaryDirectory(dir=work) as scratch:
            out = Path(scratch) / 'fast'
            pair = ['--pair-column', 'pair'] if spec.get('pairs') else []
            start = time.monotonic()
            line = [self.flags.bin / 'exeunt', 'attach', self.folder(model), '--texts', work / 'tasks' / task / 'log.csv', '--out', out,
                    '--max-drop', ','.join(BUDGETS), '--threads', self.flags.cores, '--seed', seed, '--json', '-q', '--force', '--precision', 'fp32']
            found = json.loads(self.command(line + pair + words.split(), self.flags.cores))
            result = {'part': 'command', 'task': task, 'recipe': recipe, 'seed': seed, 'variant': variant, 'flags': words,
                      'seconds': round(time.monotonic() - start, 1), 'texts': found['texts'],
                      'agreement': [exit.get('agreement', exit.get('mean_difference')) for exit in found['exits']],
                      'points': [{'budget': budget, 'layers': point['average_layers'], 'risk': point['report_risk'],
                                  'policy': point['policy']} for budget, point in zip(BUDGETS, found['budgets'])]}
            if task == 'SST-2':
                result['apart'] = self.apart(out, task)
            if task == 'feedback':
                result['certify.csv'] = self.like_the_demo(out)
        self.note(result)

    def apart(self, model, task):
        """2 % alone, certified on rows that share no four words in a row with a learned text; changed answers on dev beside it."""
        files = self.flags.work / 'tasks' / task
        policy = model.parent / 'apart.json'
        found = json.loads(self.command(
            [self.flags.bin / 'exeunt', 'calibrate', model, '--unlabelled', files / 'apart.csv', '--limit', 8000, '--max-drop', '2%',
             '--precision', 'fp32', '--threads', self.flags.cores, '--json', '-q', '--out', policy], self.flags.cores))
        dev = {}
        for name in ('full', policy):  # the file has the certified temperatures, too
            line = [self.flags.bin / 'exeunt', 'eval', model, '--data', files / 'dev.csv', '--precision', 'fp32', '--policy', name,
                    '--threads', self.flags.cores, '--json', '-q']
            shown = json.loads(self.command(line, self.flags.cores))
            dev['full' if name == 'full' else 'early'] = {key: shown[key] for key in ('accuracy', 'agreement', 'average_layers')}
        layers = json.loads((model / 'config.json').read_text())['num_hidden_layers']
        return {'rows': found['rows'], 'layers': layers * found['points'][0]['report_cost_fraction'],
                'risk': found['points'][0]['report_risk'], 'policy': found['points'][0]['policy'], 'dev': dev}

    def like_the_demo(self, model):
        """2 % on certify.csv, as `make demo` certifies the jointly trained model; mean of five splits."""
        out = []
        for split in range(5):
            found = json.loads(self.command(
                [self.flags.bin / 'exeunt', 'calibrate', model, '--data', ROOT / 'examples/feedback/certify.csv', '--max-drop', '2%',
                 '--precision', 'fp32', '--seed', split, '--threads', self.flags.cores, '--json', '-q', '--out',
                 model.parent / f'{split}.json'], self.flags.cores))
            out.append(found['points'][0]['report_cost_fraction'])
        return {'fewer layers': len(out) / sum(out), 'each': [1 / share for share in out]}

    def demo_joint(self, model):
        if ('command', *model, 'joint') not in self.done and self.left() > 15:
            self.note({'part': 'command', 'task': model[0], 'recipe': model[1], 'seed': model[2], 'variant': 'joint',
                       'certify.csv': self.like_the_demo(self.folder(model))})


def still_there(heads, data, learn, choose):
    """[exits, texts]: 1 where no earlier exit is as sure as it must be for 2 % of other answers, else 0.1; mean 1."""
    import torch
    rows, mask, teacher, _ = data
    everything = torch.arange(rows.shape[1], device=rows.device)
    logits = heads.all_logits(data, everything)[0]  # of the first variant
    sure, label, wanted = torch.softmax(logits, -1).max(-1).values, logits.argmax(-1), teacher.argmax(-1)
    for threshold in torch.linspace(0.5, 0.9999, 200, device=rows.device):
        leaves = (sure > threshold)[:, choose]
        first = leaves.float().argmax(0)
        wrong = leaves.any(0) & (label[:, choose].gather(0, first[None])[0] != wanted[choose])
        if wrong.float().mean() <= 0.02:
            break
    gone = torch.cumsum((sure > threshold).float(), 0) - (sure > threshold).float()
    weigh = torch.where(gone > 0, 0.1, 1.0)
    return weigh / weigh[:, learn].mean(1, keepdim=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bin', type=Path, required=True, help='folder with exeunt and exeunt-train')
    parser.add_argument('--model', type=Path, required=True)
    parser.add_argument('--minilm', type=Path, required=True)
    parser.add_argument('--data', type=Path, required=True)
    parser.add_argument('--results', type=Path, default=ROOT / 'lab/studies/results/attach.jsonl')
    parser.add_argument('--work', type=Path, default=ROOT / 'build/attach')
    parser.add_argument('--device', default='cuda', choices=('cuda', 'cpu'))
    parser.add_argument('--minutes', type=float, default=9)
    parser.add_argument('--jobs', type=int, default=6, help='trainings at a time')
    parser.add_argument('--cores', type=int, default=8)
    parser.add_argument('--tasks', nargs='*', default=list(TASKS))
    parser.add_argument('--seeds', nargs='*', type=int, default=list(SEEDS))
    parser.add_argument('--flags', nargs='*', default=['as it is:--no-exit0', 'exit 0:'], help='NAME:FLAGS of exeunt attach')
    parser.add_argument('--recipes', nargs='*', default=['plain', 'exeunt'])
    parser.add_argument('--parts', nargs='*', default=['train', 'heads', 'command'])
    parser.add_argument('--last-stages', nargs='*', default=list(LAST_STAGES))
    parser.add_argument('--share', default='0/1', help='which of the models this process tries heads for, e.g. 1/2')
    parser.add_argument('--most-learned', type=int, default=6000)
    parser.add_argument('--variants', nargs='*', default=[*VARIANTS, *TEXTS, *FORMS, BEST_FORM, WEIGHED, *LONGER])
    parser.add_argument('--commands', nargs='*', default=[''], help='models (task-recipe-seed) whose names begin so')
    parser.add_argument('--epochs', type=int, default=0, help='of fine-tuning, for a trial')
    parser.add_argument('--head-epochs', type=int, default=0, help='of heads on a GPU, for a trial')
    study = Study(parser.parse_args())
    flags = study.flags
    (flags.work / 'models').mkdir(parents=True, exist_ok=True)
    flags.work, flags.bin = flags.work.resolve(), flags.bin.resolve()
    first = [task for task in ('SST-2', 'feedback') if task in flags.tasks]  # what is promised of attach is about these
    rest = [task for task in flags.tasks if task not in first]
    models = [(task, recipe, seed) for seed in flags.seeds for recipe in flags.recipes for task in first + rest]
    for task in first + rest:
        if not (flags.work / 'tasks' / task / 'train.csv').exists():
            print(task, write_task(flags.data, task, flags.work / 'tasks' / task), flush=True)
    asked = [model for part in flags.commands for model in models if '-'.join(map(str, model)).startswith(part)]
    asked = asked if 'command' in flags.parts else []
    threads = []
    if 'train' in flags.parts:
        needed = [model for model in models if model in asked or ('heads' in flags.parts and study.wants_heads(model))
                  or ('stage' in flags.parts and model[1] == 'exeunt')]
        threads.append(threading.Thread(target=study.train_all, args=(needed,), daemon=True))

    def commands():
        for model, one in [(model, one) for model in asked for one in flags.flags]:
            if not study.wait_for(model):
                continue
            try:
                if model[:2] == ('feedback', 'exeunt'):
                    study.demo_joint(model)
                study.attach(model, one)
            except (RuntimeError, subprocess.TimeoutExpired, KeyError) as error:
                print(f'{model} {one}: {error!r}', flush=True)
    if 'command' in flags.parts:
        threads.append(threading.Thread(target=commands, daemon=True))
    if 'stage' in flags.parts:
        with_exits = [model for model in models if model[1] == 'exeunt']
        threads.append(threading.Thread(target=study.last_stages, args=(with_exits,), daemon=True))
    for thread in threads:
        thread.start()
    if 'heads' in flags.parts:
        by_seed = sorted(models, key=lambda model: flags.seeds.index(model[2]))
        place, count = map(int, flags.share.split('/'))
        by_seed = by_seed[place::count]
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for model in by_seed:
                if not study.wants_heads(model) or not study.wait_for(model):
                    continue
                if study.left() < 25:
                    break
                try:
                    study.explore(model, pool)
                except (RuntimeError, KeyError, ValueError) as error:
                    print(f'{model}: {error!r}', flush=True)
    for thread in threads:
        thread.join(max(0, study.left()))
    return 0


if __name__ == '__main__':
    sys.exit(main())
