#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pretraining of `exeunt pretrain` as a torch.compile loop: the peer its speed and losses are compared with.

    torch_pretraining.py --model gte-small --data TEXT [--steps 400] [--batch 256] [--tokens 128] [--out FILE]

A model of the folder's shape from scratch, bf16 autocast, torch.compile, fused AdamW, the hidden tokens gathered before the
head, two groups of exits, gradient equilibrium; data is packed, cut and masked as there, with other random numbers. Prints one
line of JSON for every 50 steps: tokens so far (without padding), their rate, and the losses of each exit.
"""
import argparse
import json
import re
import time
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import nn

SENTENCE = re.compile(r'(?<=[.!?])["\')\]]*\s+(?=[A-Z0-9"\'(\[])')


def scaled(values, factor):
    """The same values; the gradient that comes back is multiplied by `factor`."""
    return values.detach() + (values - values.detach()) * factor


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, hidden, inner = config['num_attention_heads'], config['hidden_size'], config['intermediate_size']
        self.qkv, self.output = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.wide, self.narrow = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.norm1, self.norm2 = nn.LayerNorm(hidden, 1e-12), nn.LayerNorm(hidden, 1e-12)

    def forward(self, rows, mask):
        texts, tokens, hidden = rows.shape
        query, key, value = self.qkv(rows).view(texts, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = 0.1 if self.training else 0.0
        read = F.scaled_dot_product_attention(query, key, value, mask, dropout).transpose(1, 2).reshape(texts, tokens, hidden)
        rows = self.norm1(rows + F.dropout(self.output(read), 0.1, self.training))
        return self.norm2(rows + F.dropout(self.narrow(F.gelu(self.wide(rows))), 0.1, self.training))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, self.layers_in_all = config['hidden_size'], config['num_hidden_layers']
        self.word, self.position = nn.Embedding(config['vocab_size'], hidden), nn.Embedding(512, hidden)
        self.segment, self.norm = nn.Embedding(2, hidden), nn.LayerNorm(hidden, 1e-12)
        self.layers = nn.ModuleList(Layer(config) for _ in range(self.layers_in_all))
        self.dense, self.dense_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden, 1e-12)
        self.bias = nn.Parameter(torch.zeros(config['vocab_size']))
        self.poolers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in self.layers)
        self.order = nn.ModuleList(nn.Linear(hidden, 2) for _ in self.layers)
        for name, parameter in self.named_parameters():
            if name.endswith('bias'):
                nn.init.zeros_(parameter)
            elif 'norm' not in name:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, batch, second):
        ids, types, real, places, gold, weight, order, order_weight = batch
        mask = torch.zeros_like(real, dtype=torch.bfloat16).masked_fill(~real, -10000.0)[:, None, None, :]
        rows = self.word(ids) + self.segment(types) + self.position.weight[:ids.shape[1]]
        rows = F.dropout(self.norm(rows), 0.1, self.training)
        found, orders, count = [], [], self.layers_in_all
        for i, layer in enumerate(self.layers, 1):
            rows = scaled(layer(rows, mask), 1 / (count - i + 1))
            if i == count or (i % 2 == 0) == second:
                flat = rows.reshape(-1, rows.shape[-1])
                found.append(flat.index_select(0, places))
                pooled = F.dropout(torch.tanh(self.poolers[i - 1](rows[:, 0])), 0.1, self.training)
                each = F.cross_entropy(self.order[i - 1](pooled).float(), order, reduction='none')
                orders.append((each * order_weight).sum())
            if i < count:
                rows = scaled(rows, count - i)
        hidden = self.dense_norm(F.gelu(self.dense(torch.cat(found))))
        logits = F.linear(hidden, self.word.weight, self.bias)
        tokens = F.cross_entropy(logits.float(), gold.repeat(len(found)), reduction='none').view(len(found), -1) * weight
        return torch.stack([tokens.sum(1), torch.stack(orders)])


class Rows:
    """Documents of sentences, packed into rows; cut, swapped and masked anew whenever they are asked for."""

    def __init__(self, path, tokenizer, tokens, seed=42):
        self.tokens, self.random, self.vocab = tokens, numpy.random.default_rng(seed), tokenizer.get_vocab_size()
        self.cls, self.sep, self.mask = (tokenizer.token_to_id(name) for name in ('[CLS]', '[SEP]', '[MASK]'))
        self.room, self.slots, self.rows = tokens - 3, round(0.15 * (tokens - 3)), []
        for document in path.read_text(encoding='utf-8').split('\n\n'):
            sentences = [part for line in document.split('\n') for part in SENTENCE.split(line) if part.strip()]
            row, size = [], 0
            for encoded in tokenizer.encode_batch(sentences, add_special_tokens=False):
                for at in range(0, len(encoded.ids), self.room):
                    piece = encoded.ids[at:at + self.room]
                    if size + len(piece) > self.room:
                        self.rows.append(row)
                        row, size = [], 0
                    row, size = row + [piece], size + len(piece)
            if row:
                self.rows.append(row)

    def batches(self, size):
        while True:
            order = self.random.permutation(len(self.rows))
            for at in range(0, len(order) - size + 1, size):
                yield self.batch([self.rows[row] for row in order[at:at + size]])

    def batch(self, rows):
        count, draw = len(rows), self.random
        ids, types = numpy.zeros((count, self.tokens), 'int64'), numpy.zeros((count, self.tokens), 'int64')
        real, order = numpy.zeros((count, self.tokens), bool), numpy.zeros(count, 'int64')
        order_weight, places = numpy.zeros(count, 'float32'), numpy.zeros((count, self.slots), 'int64')
        gold, weight = numpy.zeros((count, self.slots), 'int64'), numpy.zeros((count, self.slots), 'float32')
        for n, row in enumerate(rows):
            halves = [sum(row, [])]
            if len(row) > 1:
                cut, swap = draw.integers(1, len(row)), draw.integers(2)
                halves = [sum(row[:cut], []), sum(row[cut:], [])]
                halves = halves[::-1] if swap else halves
                order[n], order_weight[n] = swap, 1
            line = [self.cls] + halves[0] + [self.sep] + (halves[1] + [self.sep] if len(halves) > 1 else [])
            ids[n, :len(line)], real[n, :len(line)] = line, True
            types[n, len(halves[0]) + 2:len(line)] = 1
            ordinary = numpy.flatnonzero((ids[n] != self.sep) & real[n])[1:]
            wanted = min(max(1, round(0.15 * len(ordinary))), self.slots)
            chosen = numpy.sort(draw.choice(ordinary, wanted, replace=False))
            places[n, :wanted], gold[n, :wanted], weight[n, :wanted] = n * self.tokens + chosen, ids[n, chosen], 1
            fate = draw.integers(10, size=wanted)
            ids[n, chosen[fate < 8]] = self.mask
            ids[n, chosen[fate == 8]] = draw.integers(1000, self.vocab, size=(fate == 8).sum())
        parts = (ids, types, real, places.reshape(-1), gold.reshape(-1), (weight / max(1, weight.sum())).reshape(-1), order,
                 order_weight / max(1, order_weight.sum()))
        tensors = [torch.from_numpy(part) for part in parts]
        return int(real.sum()), [part.pin_memory() for part in tensors] if torch.cuda.is_available() else tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', type=Path, required=True)
    parser.add_argument('--data', type=Path, required=True)
    parser.add_argument('--steps', type=int, default=400)
    parser.add_argument('--batch', type=int, default=256)
    parser.add_argument('--tokens', type=int, default=128)
    parser.add_argument('--lr', type=float, default=2e-4)
    parser.add_argument('--layers', type=int, help='fewer than the model has, for a trial')
    parser.add_argument('--minutes', type=float, default=9)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--no-compile', action='store_true')
    flags = parser.parse_args()
    torch.manual_seed(42)
    config = json.loads((flags.model / 'config.json').read_text())
    config['num_hidden_layers'] = flags.layers or config['num_hidden_layers']
    tokenizer = Tokenizer.from_file(str(flags.model / 'tokenizer.json'))
    tokenizer.no_padding()  # sentence encoders' files ask for both
    tokenizer.no_truncation()
    rows = Rows(flags.data, tokenizer, flags.tokens)
    source = rows.batches(flags.batch)
    prepared = [next(source) for _ in range(flags.steps)]  # before the clock starts
    model = Model(config).to(flags.device)
    run = model if flags.no_compile else torch.compile(model)
    decayed = [p for name, p in model.named_parameters() if p.dim() > 1]
    plain = [p for name, p in model.named_parameters() if p.dim() < 2]
    adam = torch.optim.AdamW([{'params': decayed, 'weight_decay': 0.01}, {'params': plain, 'weight_decay': 0}], lr=flags.lr,
                             eps=1e-6, fused=flags.device == 'cuda')
    warmup = max(1, 0.06 * flags.steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda k: k / warmup if k < warmup else max(0, (flags.steps - k) / (flags.steps - warmup)))
    tokens, counted, start, sums = 0, 0, None, {}
    end = time.monotonic() + 60 * flags.minutes
    for step in range(flags.steps):
        if step == 50:  # compiled by now
            if flags.device == 'cuda':
                torch.cuda.synchronize()
            start, counted = time.monotonic(), tokens
        real, batch = prepared[step]
        batch = [part.to(flags.device, non_blocking=True) for part in batch]
        group = step % 2
        with torch.autocast(flags.device, torch.bfloat16):
            losses = run(batch, group == 1)  # a bool: compiled once for each group
        losses.sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        schedule.step()
        adam.zero_grad(set_to_none=True)
        tokens += real
        sums.setdefault(group, []).append(losses.detach())
        if (step + 1) % 50 == 0 or step + 1 == flags.steps:
            means = [[None] * config['num_hidden_layers'] for _ in range(2)]
            for of, kept in sums.items():
                mean = torch.stack(kept).mean(0).float().cpu()
                exits = [i for i in range(config['num_hidden_layers']) if i % 2 == of or i + 1 == config['num_hidden_layers']]
                for place, i in enumerate(exits):
                    for kind in range(2):
                        means[kind][i] = round(float(mean[kind][place]), 5)
            speed = (tokens - counted) / (time.monotonic() - start) if start and tokens > counted else None
            print(json.dumps({'step': step + 1, 'tokens': tokens, 'token_losses': means[0], 'order_losses': means[1],
                              'tokens_per_second': speed, 'torch': torch.__version__}), flush=True)
            sums = {}
            if time.monotonic() > end:
                break


if __name__ == '__main__':
    main()
