#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a BERT encoder in PyTorch if it is installed; prints a JSON list like onnxruntime/measure.mjs, else [].

    torch_encoder.py --shape bert-base --precision bf16 --threads 1,2 --lengths 16,128 [--seconds 1]
"""
import argparse
import json
import time

SHAPES = {'bert-base': (12, 768, 12, 3072), 'bert-large': (24, 1024, 16, 4096), 'minilm-l12': (12, 384, 12, 1536)}


def encoder(torch, shape, dtype):
    layers, hidden, heads, inner = SHAPES[shape]
    functional = torch.nn.functional

    def linear(inputs, outputs):
        return torch.randn(outputs, inputs, dtype=dtype) * 0.02, torch.zeros(outputs, dtype=dtype)

    ones, zeros = torch.ones(hidden, dtype=dtype), torch.zeros(hidden, dtype=dtype)
    weights = [(linear(hidden, 3 * hidden), linear(hidden, hidden), linear(hidden, inner), linear(inner, hidden))
               for _ in range(layers)]

    def run(rows):  # [tokens, hidden]
        tokens = rows.shape[0]
        for qkv, output, ffn1, ffn2 in weights:
            q, k, v = (part.view(1, tokens, heads, -1).transpose(1, 2)
                       for part in functional.linear(rows, *qkv).chunk(3, dim=-1))
            context = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(tokens, hidden)
            rows = functional.layer_norm(rows + functional.linear(context, *output), (hidden,), ones, zeros)
            wide = functional.gelu(functional.linear(rows, *ffn1))
            rows = functional.layer_norm(rows + functional.linear(wide, *ffn2), (hidden,), ones, zeros)
        return rows

    return run, hidden


def best_ms(run, rows, seconds):
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        run(rows)
        times.append(1e3 * (time.perf_counter() - start))
    return min(times[1:]), sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser()
    for flag, default in (('--shape', 'bert-base'), ('--precision', 'bf16'), ('--threads', '1'), ('--lengths', '128')):
        parser.add_argument(flag, default=default)
    parser.add_argument('--seconds', type=float, default=1)
    flags = parser.parse_args()
    try:
        import torch
    except ImportError:
        print('[]')
        return
    dtype = {'fp32': torch.float32, 'bf16': torch.bfloat16}.get(flags.precision)
    rows = []
    if dtype is not None and flags.shape in SHAPES:
        run, hidden = encoder(torch, flags.shape, dtype)
        with torch.inference_mode():
            for threads in map(int, flags.threads.split(',')):
                torch.set_num_threads(threads)
                for length in map(int, flags.lengths.split(',')):
                    best, middle = best_ms(run, torch.randn(length, hidden).to(dtype), flags.seconds)
                    rows.append({'precision': flags.precision, 'threads': threads, 'length': length, 'best_ms': best,
                                 'p50_ms': middle, 'settings': {'torch': torch.__version__}})
    print(json.dumps(rows))


if __name__ == '__main__':
    main()
