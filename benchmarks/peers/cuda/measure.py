#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine beside PyTorch on the same GPU, in turns in one run.

    measure.py --program build/release/bin/exeunt --out RESULT.json [--parts sizes,exits,paper,lengths,others] [--seconds 1]

Peers: plain PyTorch (an encoder in torch.nn.functional), transformers' BERT and ALBERT, as they are and under torch.compile with
CUDA graphs, each in all of its forms, of which the fastest counts: in two modes, the classifier and the bare encoder, with and
without a mask; and the papers' way to exit: a Python loop over the layers, one text at a time, that waits for the GPU at every
exit. Ours is `exeunt bench --device cuda --json`. Both wait for each call; how long the peer takes back to back is kept beside.
Everything in bf16, random weights, two labels. Real lengths are those of the dev splits of SST-2 and QNLI (lengths-*.txt, BERT's
uncased vocabulary), all given at once, waited for once, and run by the peers padded to 128, and sorted by length in batches of
128 padded to the next multiple of 16.

Every figure is written as soon as it is known; a peer that fails leaves its error in place of a time. benchmarks/results/render.py
makes the tables of docs/performance.md from it.
"""
import argparse
import json
import os
import statistics
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOKENS = 128
BATCHES = (1, 32, 128, 512)
BACKLOG = 4096
LAYERS, HIDDEN, HEADS, INNER = 12, 768, 12, 3072
CALLS = 16  # one after another, not waited for
MODES = ('reduce-overhead', 'max-autotune')  # of torch.compile; both record CUDA graphs


def forms(modes):
    """(mode, whether it is the bare encoder, whether it gets a mask, their name)."""
    return [(mode, bare, masked, f"{mode}, {'bare encoder' if bare else 'classifier'}, {'with' if masked else 'without'} mask")
            for mode in modes for bare in (False, True) for masked in (True, False)]


def lengths_of(name):
    """As often as it takes for a large backlog."""
    lengths = [int(line) for line in (HERE / f'lengths-{name}.txt').read_text(encoding='utf-8').split()]
    return lengths * -(-BACKLOG // len(lengths))


class Result:
    def __init__(self, path, machine):
        self.path = Path(path)
        self.data = {'format': 'exeunt.cuda_bench/1', 'date': time.strftime('%Y-%m-%d', time.gmtime()), 'machine': machine,
                     'tokens': TOKENS, 'precision': 'bf16', 'rows': []}

    def keep(self, **row):
        self.data['rows'].append(row)
        self.path.write_text(json.dumps(self.data, indent=1) + '\n', encoding='utf-8')
        print(json.dumps(row), flush=True)


class Ours:
    def __init__(self, flags):
        self.flags = flags

    def bench(self, *arguments):
        command = [self.flags.program, 'bench', '--device', self.flags.device, '--precision', 'bf16', '--json', '-q',
                   '--seconds', str(self.flags.seconds), '--threads', str(os.cpu_count()), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode != 0:
            raise RuntimeError(' '.join(done.stderr.split())[-400:])
        return json.loads(done.stdout)['rows']


class Peers:
    """PyTorch's side. Every model maps ids and a mask (or None) to logits."""

    def __init__(self, flags):
        import torch
        import transformers
        self.flags, self.torch, self.transformers = flags, torch, transformers
        self.device = torch.device(flags.device)
        self.made = {}
        torch._dynamo.config.cache_size_limit = 64
        if hasattr(torch._dynamo.config, 'accumulated_cache_size_limit'):
            torch._dynamo.config.accumulated_cache_size_limit = 1024

    def classifier(self, family):
        if family not in self.made:
            torch, transformers = self.torch, self.transformers
            shape = {'num_hidden_layers': LAYERS, 'hidden_size': HIDDEN, 'num_attention_heads': HEADS,
                     'intermediate_size': INNER, 'num_labels': 2, 'attn_implementation': 'sdpa'}
            torch.manual_seed(1)
            if family == 'bert':
                model = transformers.BertForSequenceClassification(transformers.BertConfig(**shape))
            else:
                model = transformers.AlbertForSequenceClassification(
                    transformers.AlbertConfig(vocab_size=30000, embedding_size=128, **shape))
            self.made[family] = model.to(self.device, torch.bfloat16).eval()
        return self.made[family]

    def transformers_run(self, family, mode='eager', bare=False):
        if (family, mode, bare) not in self.made:
            model = self.classifier(family)
            body = getattr(model, family)

            def forward(ids, mask):
                if bare:  # neither pooler nor classifier: two columns of row 0 stand for its answer
                    return body(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0, :2]
                return model(input_ids=ids, attention_mask=mask).logits

            self.made[family, mode, bare] = forward if mode == 'eager' else self.torch.compile(
                forward, mode=mode, dynamic=False, fullgraph=False)
        return self.made[family, mode, bare]

    def plain_run(self):
        torch = self.torch
        functional = torch.nn.functional
        options = {'device': self.device, 'dtype': torch.bfloat16}

        def linear(inputs, outputs):
            return torch.randn(outputs, inputs, **options) * 0.02, torch.zeros(outputs, **options)

        ones, zeros = torch.ones(HIDDEN, **options), torch.zeros(HIDDEN, **options)
        table, places = torch.randn(30522, HIDDEN, **options), torch.randn(512, HIDDEN, **options)
        layers = [(linear(HIDDEN, 3 * HIDDEN), linear(HIDDEN, HIDDEN), linear(HIDDEN, INNER), linear(INNER, HIDDEN))
                  for _ in range(LAYERS)]
        pooler, head = linear(HIDDEN, HIDDEN), linear(HIDDEN, 2)

        def run(ids, mask):
            del mask
            batch, tokens = ids.shape
            rows = functional.layer_norm(table[ids] + places[:tokens], (HIDDEN,), ones, zeros)
            for qkv, output, ffn1, ffn2 in layers:
                q, k, v = (part.view(batch, tokens, HEADS, -1).transpose(1, 2)
                           for part in functional.linear(rows, *qkv).chunk(3, dim=-1))
                context = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, HIDDEN)
                rows = functional.layer_norm(rows + functional.linear(context, *output), (HIDDEN,), ones, zeros)
                wide = functional.gelu(functional.linear(rows, *ffn1))
                rows = functional.layer_norm(rows + functional.linear(wide, *ffn2), (HIDDEN,), ones, zeros)
            return functional.linear(torch.tanh(functional.linear(rows[:, 0], *pooler)), *head)

        return run

    def inputs(self, batch, tokens, lengths=None):
        torch = self.torch
        ids = torch.randint(1000, 29000, (batch, tokens), device=self.device)
        if lengths is None:
            return ids, None
        mask = torch.arange(tokens)[None, :] < torch.tensor(lengths)[:, None]
        return ids, mask.long().to(self.device)

    def wait(self):
        if self.device.type == 'cuda':
            self.torch.cuda.synchronize()

    def times(self, work, seconds=None):
        """Times of `work` after a few runs that also compile; it ends when the answers are on the host."""
        with self.torch.inference_mode():
            for _ in range(3):
                work()
            self.wait()
            times, end = [], time.perf_counter() + (seconds or self.flags.seconds)
            while len(times) < 5 or time.perf_counter() < end:
                start = time.perf_counter()
                work()
                self.wait()
                times.append(1e3 * (time.perf_counter() - start))
        return times

    def best_ms(self, work, seconds=None):
        return min(self.times(work, seconds))

    def one_shape(self, run, batch, tokens, masked=False):
        ids, mask = self.inputs(batch, tokens, [tokens] * batch if masked else None)
        times = self.times(lambda: run(ids, mask).argmax(-1).cpu())
        calls = [(ids, mask)] * CALLS
        return {'ms': min(times), 'median_ms': statistics.median(times), 'back_to_back_ms': min(self.times(lambda: self.all_of(run, calls))) / CALLS,
                'texts_per_second': 1e3 * batch / min(times)}

    def all_of(self, run, calls):
        """The answers of all calls, waited for once."""
        return self.torch.cat([run(ids, mask).argmax(-1) for ids, mask in calls]).cpu()

    def backlog_ms(self, run, lengths, batch, padded):
        """All texts once: padded to one length, or sorted by length and padded to the next multiple of 16."""
        if not padded:
            lengths = sorted(lengths)
        lengths = lengths[:len(lengths) // batch * batch]  # whole batches, so that every shape is compiled once
        batches = []
        for start in range(0, len(lengths), batch):
            part = lengths[start:start + batch]
            tokens = TOKENS if padded else min(TOKENS, -(-max(part) // 16) * 16)
            batches.append(self.inputs(batch, tokens, part))

        return self.best_ms(lambda: self.all_of(run, batches), 2 * self.flags.seconds), len(lengths)

    def papers_loop_ms(self, family, leave_after):
        """One text; every exit is a pooler and a classifier, whose entropy the host waits for."""
        torch = self.torch
        model = self.classifier(family)
        body = getattr(model, family)
        options = {'device': self.device, 'dtype': torch.bfloat16}
        poolers = [torch.nn.Linear(HIDDEN, HIDDEN, **options) for _ in range(LAYERS)]
        heads = [torch.nn.Linear(HIDDEN, 2, **options) for _ in range(LAYERS)]
        ids, _ = self.inputs(1, TOKENS)
        encoder = body.encoder
        first = encoder.layer[0] if family == 'bert' else encoder.albert_layer_groups[0].albert_layers[0]

        def layer(i, rows):
            out = encoder.layer[i](rows) if family == 'bert' else first(rows)
            return out[0] if isinstance(out, tuple) else out

        def work():
            rows = body.embeddings(ids)
            if family == 'albert':
                rows = encoder.embedding_hidden_mapping_in(rows)
            for i in range(LAYERS):
                rows = layer(i, rows)
                logits = heads[i](torch.tanh(poolers[i](rows[:, 0]))).float()
                shares = torch.softmax(logits, -1)
                entropy = -(shares * torch.log(shares)).sum().item()
                if i + 1 == leave_after and entropy < 1e9:
                    break

        return self.best_ms(work)


class Comparison:
    def __init__(self, flags, result):
        self.flags, self.result, self.ours = flags, result, Ours(flags)
        self.peers = None if flags.no_peers else Peers(flags)

    def keep(self, measure, **row):
        """`measure` gives the figures of the row; what it throws is kept in their place."""
        try:
            row.update(measure())
        except Exception as error:  # pylint: disable=broad-except  # a peer that fails must not end the run
            row['error'] = f'{type(error).__name__}: {error}'[:400]
        self.result.keep(**row)

    def ours_rows(self, part, case, *arguments, **more):
        try:
            for row in self.ours.bench(*arguments):
                # Times of a backlog of given lengths are of one text.
                ms, median = (row[key] * more.get('texts', 1) for key in ('best_ms', 'p50_ms'))
                texts = more.get('texts', row['batch'])
                self.result.keep(part=part, case=case, system='exeunt', batch=more.get('batch', row['batch']), ms=ms, median_ms=median,
                                 texts_per_second=1e3 * texts / ms, average_layers=row['average_layers'])
        except Exception as error:  # pylint: disable=broad-except
            self.result.keep(part=part, case=case, system='exeunt', error=f'{type(error).__name__}: {error}'[:400])

    def sizes(self):
        """Full depth, one length, all batches."""
        for family in ('bert', 'albert'):
            self.ours_rows('sizes', f'{family}-base', f'{family}-base', '--heads', 'last', '--lengths', TOKENS, '--batch',
                           ','.join(map(str, BATCHES)))
        if self.peers:
            self.peer_sizes('bert')

    def others(self):
        """The peers of ALBERT at the same sizes."""
        if self.peers:
            self.peer_sizes('albert')

    def peer_sizes(self, family):
        for mode, bare, masked, form in forms([*MODES, 'eager']):
            self.sizes_of(family, 'transformers' if mode == 'eager' else 'torch.compile', form, masked,
                          lambda mode=mode, bare=bare: self.peers.transformers_run(family, mode, bare))
        if family == 'bert':
            self.sizes_of(family, 'PyTorch', 'eager, torch.nn.functional, without mask', False, self.peers.plain_run)

    def sizes_of(self, family, system, form, masked, make):
        for batch in BATCHES:
            self.keep(lambda batch=batch: self.peers.one_shape(make(), batch, TOKENS, masked), part='sizes', case=f'{family}-base',
                      system=system, form=form, batch=batch)

    def exits(self):
        """Early exit: a lone text that leaves after layer 6, and a backlog of texts that leave after 6 on average."""
        for family in ('bert', 'albert'):
            shape = [f'{family}-base', '--lengths', TOKENS]
            for case, heads, depth, batch in (('full depth', 'last', ['--exit-at', LAYERS], 1),
                                              ('every exit evaluated', 'every', ['--exit-at', LAYERS], 1),
                                              ('exit after 6', 'every', ['--exit-at', 6], 1),
                                              ('backlog, full depth', 'last', [], BACKLOG),
                                              ('backlog, every exit evaluated', 'every', ['--exit-at', LAYERS], BACKLOG),
                                              ('backlog, 6 layers on average', 'every', ['--exit-mean', 6], BACKLOG)):
                self.ours_rows('exits', f'{family}-base, {case}', *shape, '--heads', heads, *depth, '--batch', batch)

    def paper(self):
        if not self.peers:
            return
        for family in ('bert', 'albert'):
            for leave_after in (6, LAYERS):
                def measure(family=family, leave_after=leave_after):
                    ms = self.peers.papers_loop_ms(family, leave_after)
                    return {'ms': ms, 'texts_per_second': 1e3 / ms}
                self.keep(measure, part='paper', case=f'{family}-base', system="the papers' loop", batch=1,
                          exit_after=leave_after)

    def lengths(self):
        """Real lengths, all texts waiting."""
        for name in ('sst2', 'qnli'):
            lengths = lengths_of(name)
            file = self.result.path.with_suffix(f'.{name}.txt')
            file.write_text(''.join(f'{length}\n' for length in lengths), encoding='utf-8')
            self.ours_rows('lengths', name, 'bert-base', '--heads', 'last', '--lengths-of', file, texts=len(lengths),
                           batch=len(lengths))
            file.unlink()
        if not self.peers:
            return
        for name in ('sst2', 'qnli'):
            for mode, bare, masked, form in forms(MODES):
                for case, padded in (('padded to 128', True), ('sorted, next multiple of 16', False)):
                    def measure(name=name, padded=padded, mode=mode, bare=bare):
                        run = self.peers.transformers_run('bert', mode, bare)
                        ms, texts = self.peers.backlog_ms(run, lengths_of(name), 128, padded)
                        return {'ms': ms, 'texts': texts, 'texts_per_second': 1e3 * texts / ms}
                    if masked:  # without one, rows of padding would change the answers
                        self.keep(measure, part='lengths', case=name, system='torch.compile', form=f'{form}, {case}', batch=128)


def machine_of(flags):
    machine = {'gpu': None, 'cores': os.cpu_count(), 'load': round(os.getloadavg()[0], 1)}
    try:
        line = subprocess.run(['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader'], capture_output=True,
                              text=True, check=True).stdout.split('\n', maxsplit=1)[0]
        machine['gpu'], machine['driver'] = (part.strip() for part in line.split(','))
    except (OSError, subprocess.CalledProcessError, ValueError):
        pass
    if not flags.no_peers:
        import torch
        import transformers
        machine.update(torch=torch.__version__, transformers=transformers.__version__)
    about = subprocess.run([flags.program, 'doctor', '--json'], capture_output=True, text=True, check=True).stdout
    machine['exeunt'] = json.loads(about)['version']
    return machine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--program', required=True)
    parser.add_argument('--out', required=True)
    parser.add_argument('--parts', default='sizes,exits,paper,lengths,others')
    parser.add_argument('--seconds', type=float, default=1)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--no-peers', action='store_true', help='ours alone, without PyTorch')
    flags = parser.parse_args()
    comparison = Comparison(flags, Result(flags.out, machine_of(flags)))
    for part in flags.parts.split(','):
        getattr(comparison, part)()


if __name__ == '__main__':
    main()
