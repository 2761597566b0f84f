#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a plain PyTorch training loop on a GPU: a transformers BERT with SDPA, bf16 autocast and fused AdamW, one
pooler and classifier per layer and the sum of their cross entropies. Prints one JSON object.

    torch_training.py --shape bert-base --batch 32 --tokens 128 [--seconds 5]
    torch_training.py --shape bert-base --batch 32 --lengths lengths.txt   # one text's length a line, shuffled batches
"""
import argparse
import json
import random
import time

SHAPES = {'bert-base': (12, 768, 12, 3072), 'minilm-l12': (12, 384, 12, 1536)}


def make_model(torch, transformers, shape):
    layers, hidden, heads, inner = SHAPES[shape]
    config = transformers.BertConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads,
                                     intermediate_size=inner, attn_implementation='sdpa')

    class MultiExit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertModel(config, add_pooling_layer=False)
            self.poolers = torch.nn.ModuleList(torch.nn.Linear(hidden, hidden) for _ in range(layers))
            self.classifiers = torch.nn.ModuleList(torch.nn.Linear(hidden, 2) for _ in range(layers))
            self.dropout = torch.nn.Dropout(0.1)

        def forward(self, ids, mask, gold):
            states = self.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states[1:]
            loss = 0
            for rows, pooler, classifier in zip(states, self.poolers, self.classifiers):
                logits = classifier(self.dropout(torch.tanh(pooler(rows[:, 0]))))
                loss = loss + torch.nn.functional.cross_entropy(logits.float(), gold)
            return loss

    return MultiExit().cuda().train()


def make_batches(torch, flags):
    """[ids, mask, gold] on the CPU, in pinned memory; padded to the longest text of each batch."""
    if flags.lengths:
        with open(flags.lengths, encoding='utf-8') as file:
            lengths = [int(line) for line in file]
    else:
        lengths = [flags.tokens] * flags.batch * 8
    random.Random(1).shuffle(lengths)
    batches = []
    for start in range(0, min(len(lengths), 400 * flags.batch) - flags.batch + 1, flags.batch):
        part = lengths[start:start + flags.batch]
        mask = (torch.arange(max(part))[None, :] < torch.tensor(part)[:, None]).long()
        ids = torch.randint(1000, 30000, mask.shape) * mask
        batches.append([tensor.pin_memory() for tensor in (ids, mask, torch.randint(0, 2, (flags.batch,)))])
    return batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--shape', default='bert-base', choices=SHAPES)
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--tokens', type=int, default=128)
    parser.add_argument('--lengths')
    parser.add_argument('--seconds', type=float, default=5)
    flags = parser.parse_args()
    import torch
    import transformers
    torch.manual_seed(0)
    model = make_model(torch, transformers, flags.shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 1e6))
    batches = make_batches(torch, flags)

    def step(batch):
        ids, mask, gold = (tensor.cuda(non_blocking=True) for tensor in batch)
        with torch.autocast('cuda', torch.bfloat16):
            loss = model(ids, mask, gold)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)

    for batch in batches[:10]:
        step(batch)
    torch.cuda.synchronize()
    rates = []
    for _ in range(3):  # the best of three, as on a machine that others disturb
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < flags.seconds / 3:
            step(batches[done % len(batches)])
            done += 1
        torch.cuda.synchronize()
        rates.append(done * flags.batch / (time.perf_counter() - start))
    print(json.dumps({'program': 'torch', 'version': torch.__version__, 'transformers': transformers.__version__,
                      'device': torch.cuda.get_device_name(0), 'shape': flags.shape, 'batch': flags.batch,
                      'tokens': 'real' if flags.lengths else flags.tokens,
                      'samples_per_second': round(max(rates), 1), 'all': [round(rate, 1) for rate in rates]}))


if __name__ == '__main__':
    main()
