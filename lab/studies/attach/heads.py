# SPDX-License-Identifier: Apache-2.0
"""Attached exits in PyTorch, many ways to learn them at once: what `exeunt attach` does (exeunt/attach), for trying out
settings on a GPU. Weights of all variants and exits lie in one tensor each: [variant, exit, ...]."""
import json
import math
import struct

import numpy
import torch
import torch.nn.functional as F

DTYPES = {'F32': numpy.float32, 'F16': numpy.float16, 'I64': numpy.int64, 'I32': numpy.int32, 'U8': numpy.uint8}
BASE = {'lr': 1e-3, 'temperature': 1.0, 'hard': 0.0, 'dropout': 0.1, 'decay': 0.01}


def read_safetensors(path):
    data = numpy.fromfile(path, numpy.uint8)
    size = struct.unpack('<Q', data[:8].tobytes())[0]
    header = json.loads(data[8:8 + size].tobytes())
    header.pop('__metadata__', None)
    return {name: data[8 + size + part['data_offsets'][0]:8 + size + part['data_offsets'][1]].view(DTYPES[part['dtype']])
            .reshape(part['shape']) for name, part in header.items()}


def write_trace(path, logits, lengths, name, regression):
    """logits [rows, exits, outputs], in the format of `exeunt trace`."""
    rows, exits, outputs = logits.shape
    gold = logits[:, -1, 0] if regression else numpy.full(rows, numpy.nan)  # values: the range is that of full depth
    digest = f'{abs(hash(name)):064x}'[:64]
    meta = {'format': 'exeunt.trace/2', 'last_head': 'final', 'weights': digest, 'tokenizer': digest, 'data': digest, 'task': name, 'split': 'held',
            'problem': 'regression' if regression else 'classification', 'exits': ','.join(str(i + 1) for i in range(exits)),
            'labels': json.dumps([] if regression else [f'l{i}' for i in range(outputs)]), 'precision': 'fp32',
            'engine': 'pytorch', 'max_length': '128', 'tool': 'torch', 'created': '2026-01-01T00:00:00Z'}
    parts = {'logits': ('F32', logits.astype('<f4')), 'gold': ('F32', gold.astype('<f4')),
             'lengths': ('I32', lengths.astype('<i4')), 'index': ('I64', numpy.arange(rows, dtype='<i8'))}
    header, at = {'__metadata__': meta}, 0
    for part, (dtype, values) in parts.items():
        header[part] = {'dtype': dtype, 'shape': list(values.shape), 'data_offsets': [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + b''.join(values.tobytes() for _, values in parts.values()))


class Texts:
    """Token ids of a file of `exeunt prepare`."""

    def __init__(self, path):
        arrays = read_safetensors(path)
        self.ids, self.types, self.offsets = arrays['ids'], arrays['types'], arrays['offsets']
        self.lengths = (self.offsets[1:] - self.offsets[:-1]).astype(numpy.int64)

    def __len__(self):
        return len(self.lengths)

    def batch(self, rows, device):
        width = int(self.lengths[rows].max())
        ids, types = numpy.zeros((2, len(rows), width), numpy.int64)
        for i, row in enumerate(rows):
            first, last = self.offsets[row], self.offsets[row + 1]
            ids[i, :last - first], types[i, :last - first] = self.ids[first:last], self.types[first:last]
        lengths = torch.from_numpy(self.lengths[rows]).to(device)
        mask = torch.arange(width, device=device)[None] < lengths[:, None]
        return torch.from_numpy(ids).to(device), torch.from_numpy(types).to(device), mask


class Encoder:
    """A model folder of ours, BERT, in evaluation mode."""

    def __init__(self, folder, device):
        config, exits = (json.loads((folder / name).read_text()) for name in ('config.json', 'exits.json'))
        self.weights = {name: torch.from_numpy(values.astype(numpy.float32)).to(device)
                        for name, values in read_safetensors(folder / 'model.safetensors').items()}
        self.layers, self.heads, self.epsilon = (config[name] for name in ('num_hidden_layers', 'num_attention_heads',
                                                                           'layer_norm_eps'))
        self.hidden, self.exits, self.device = config['hidden_size'], exits['exits'], device
        self.outputs, self.regression = exits['outputs'], exits['problem'] == 'regression'

    def linear(self, x, name):
        return F.linear(x, self.weights[name + '.weight'], self.weights[name + '.bias'])

    def norm(self, x, name):
        return F.layer_norm(x, (self.hidden,), self.weights[name + '.weight'], self.weights[name + '.bias'], self.epsilon)

    def layer(self, x, mask, name):
        def split(part):
            return self.linear(x, name + part).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        scores = split('query') @ split('key').transpose(-1, -2) / math.sqrt(self.hidden // self.heads)
        mixed = torch.softmax(scores.masked_fill(~mask[:, None, None], -1e30), -1) @ split('value')
        x = self.norm(x + self.linear(mixed.transpose(1, 2).flatten(2), name + 'output'), name + 'attention_norm')
        return self.norm(x + self.linear(F.gelu(self.linear(x, name + 'ffn1')), name + 'ffn2'), name + 'ffn_norm')

    def head(self, x, mask, site):
        rows = x[:, 0]
        if site['reader'] is not None:
            scores = (x @ self.weights[f"exits.reader.{site['reader']}.weight"]).masked_fill(~mask, -1e30)
            rows = torch.cat([rows, (torch.softmax(scores, -1)[:, None] @ x)[:, 0]], -1)
        pooled = torch.tanh(self.linear(rows, f"exits.pooler.{site['pooler']}"))
        return self.linear(pooled, f"exits.classifier.{site['classifier']}")

    @torch.no_grad()
    def run(self, texts, numbers):
        """Rows after every layer but the last as bf16 [layers - 1, texts, tokens, hidden], the mask, and the model's own exits'
        logits [texts, its exits, outputs]."""
        width = int(texts.lengths[numbers].max())
        rows = torch.zeros(self.layers - 1, len(numbers), width, self.hidden, dtype=torch.bfloat16, device=self.device)
        masks = torch.zeros(len(numbers), width, dtype=torch.bool, device=self.device)
        logits = torch.zeros(len(numbers), len(self.exits), self.outputs, device=self.device)
        order = numpy.argsort(texts.lengths[numbers], kind='stable')
        for begin in range(0, len(order), 256):
            places = order[begin:begin + 256]
            ids, types, mask = texts.batch(numbers[places], self.device)
            at = torch.from_numpy(places).to(self.device)
            x = (self.weights['embeddings.word.weight'][ids] + self.weights['embeddings.segment.weight'][types]
                 + self.weights['embeddings.position.weight'][:ids.shape[1]])
            x = self.norm(x, 'embeddings.norm')
            for i in range(self.layers):
                x = self.layer(x, mask, f'layer.{i}.')
                for place, site in enumerate(self.exits):
                    if site['after'] == i + 1:
                        logits[at, place] = self.head(x, mask, site)
                if i + 1 < self.layers:
                    rows[i, at, :ids.shape[1]] = x.to(torch.bfloat16)
            masks[at, :ids.shape[1]] = mask
        return rows, masks, logits


class Heads:
    """Readers, poolers and classifiers of many variants; each is a change to BASE. `queries`: of a reader, 0 = the first row alone;
    `width`: of the pooler, in hidden sizes, 0 = no pooler."""

    def __init__(self, variants, exits, hidden, outputs, device, seed, queries=1, width=1):
        self.variants, self.device, self.queries = variants, device, queries
        draw = torch.Generator(device='cpu').manual_seed(seed)
        inside = (1 + queries) * hidden
        pooled = width * hidden or inside
        shapes = {'query': (queries, hidden)} if queries else {}
        shapes |= {'pooler': (pooled, inside), 'pooler_bias': (pooled,)} if width else {}
        shapes |= {'classifier': (outputs, pooled), 'classifier_bias': (outputs,)}
        count = len(variants)
        self.weights = {}
        for name, shape in shapes.items():
            drawn = name in ('pooler', 'classifier')
            values = 0.02 * torch.randn(exits, *shape, generator=draw) if drawn else torch.zeros(exits, *shape)
            if name == 'query' and queries > 1:  # equal ones would stay equal
                values = 0.02 * torch.randn(exits, *shape, generator=draw)
            self.weights[name] = values[None].repeat(count, *([1] * values.dim())).to(device).requires_grad_()
        self.mean = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self.square = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self.best = {name: value.detach().clone() for name, value in self.weights.items()}
        self.best_loss = torch.full((count, exits), math.inf, device=device)
        self.steps = 0

    def setting(self, name):
        values = [(BASE | variant)[name] for variant in self.variants.values()]
        return torch.tensor(values, dtype=torch.float32, device=self.device)

    def logits(self, rows, mask, weights, dropout=None):
        """rows [exits, texts, tokens, hidden] to [variants, exits, texts, outputs]."""
        exits, count, tokens, hidden = rows.shape
        variants = len(self.variants)
        pooled = rows[:, :, 0][None].expand(variants, -1, -1, -1)
        if self.queries:
            query = weights['query'].permute(1, 3, 0, 2).reshape(exits, hidden, -1)  # [exits, hidden, variants * queries]
            scores = (rows.reshape(exits, count * tokens, hidden) @ query).view(exits, count, tokens, -1)
            attention = torch.softmax(scores.masked_fill(~mask[None, :, :, None], -1e30), 2)
            read = (attention.transpose(2, 3) @ rows).view(exits, count, variants, self.queries * hidden)
            pooled = torch.cat([pooled, read.permute(2, 0, 1, 3)], -1)
        if 'pooler' in weights:
            pooled = torch.tanh(pooled @ weights['pooler'].transpose(-1, -2) + weights['pooler_bias'][:, :, None])
        if dropout is not None:
            keep = torch.rand_like(pooled) >= dropout
            pooled = pooled * keep / (1 - dropout)
        return pooled @ weights['classifier'].transpose(-1, -2) + weights['classifier_bias'][:, :, None]

    def losses(self, student, teacher, regression):
        """[variants, exits, texts]"""
        if regression:
            return (student[..., 0] - teacher[:, 0]) ** 2
        t = self.setting('temperature')[:, None, None, None]
        wanted = torch.log_softmax(teacher[None, None] / t, -1)
        soft = (wanted.exp() * (wanted - torch.log_softmax(student / t, -1))).sum(-1) * t[..., 0] ** 2
        label = teacher.argmax(-1)[None, None, :, None].expand(*student.shape[:3], 1)
        hard = -torch.log_softmax(student, -1).gather(-1, label)[..., 0]
        share = self.setting('hard')[:, None, None]
        return (1 - share) * soft + share * hard

    def update(self, rate):
        self.steps += 1
        lr, decay = self.setting('lr') * rate, self.setting('decay')
        with torch.no_grad():
            for name, weight in self.weights.items():
                wide = (-1,) + (1,) * (weight.dim() - 1)
                mean, square, gradient = self.mean[name], self.square[name], weight.grad
                mean.lerp_(gradient, 0.1)
                square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                if name in ('pooler', 'classifier'):
                    weight.mul_((1 - lr * decay).view(wide))
                root = (square / (1 - 0.999 ** self.steps)).sqrt_().add_(1e-8)
                weight.sub_(mean / root * (lr / (1 - 0.9 ** self.steps)).view(wide))
                weight.grad = None

    def learn(self, data, learn, choose, epochs, seed, weigh=None, batch=32):
        """`data`: rows, mask and the teacher's logits of all texts; `learn` and `choose`: numbers of texts; `weigh` [exits, texts]:
        how much each counts."""
        rows, mask, teacher, regression = data
        draw = torch.Generator(device='cpu').manual_seed(seed)
        steps = epochs * math.ceil(len(learn) / batch)
        dropout = self.setting('dropout')[:, None, None, None]
        warmup = 0.06 * steps
        for _ in range(epochs):
            order = learn[torch.randperm(len(learn), generator=draw)].to(self.device)
            for begin in range(0, len(order), batch):
                at = order[begin:begin + batch]
                student = self.logits(rows[:, at].float(), mask[at], self.weights, dropout)
                loss = self.losses(student, teacher[at], regression)
                if weigh is not None:
                    loss = loss * weigh[:, at]
                (loss.sum() / len(at)).backward()
                step = self.steps
                self.update((step + 1) / (warmup + 1) if step < warmup else min(1.0, (steps - step) / max(1.0, steps - warmup)))
            with torch.no_grad():
                found = self.all_logits(data, choose, self.weights)
                loss = self.losses(found, teacher[choose], regression)
                loss = (loss * weigh[:, choose] if weigh is not None else loss).mean(-1)
                better = loss < self.best_loss
                self.best_loss = torch.where(better, loss, self.best_loss)
                for name, value in self.weights.items():
                    wide = better.view(*better.shape, *([1] * (value.dim() - 2)))
                    self.best[name] = torch.where(wide, value.detach(), self.best[name])

    @torch.no_grad()
    def all_logits(self, data, numbers, weights=None):
        """[variants, exits, texts, outputs] of the weights that were kept."""
        rows, mask = data[:2]
        parts = [self.logits(rows[:, at].float(), mask[at], weights or self.best) for at in numbers.split(128)]
        return torch.cat(parts, 2)
