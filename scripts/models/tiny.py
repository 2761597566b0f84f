#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes examples/tiny-en: a small English encoder of our own (6 layers, width 128), pretrained from nothing.

It is what `make demo` falls back to where no npm registry can be reached. Masked words alone: 15 % of the positions, each
text a few whole sentences, so that it sees texts as short as those it will classify. Needs a GPU, PyTorch, transformers
and tokenizers; plain text files (or .xz), a paragraph per line.

    scripts/models/tiny.py --out OUT --seconds 240 books.txt.xz dialogue.txt.xz*4 ...

A file named with *N counts N times.
"""
import argparse
import json
import lzma
import pathlib
import re
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel

VOCABULARY, WIDTH, LAYERS, HEADS, LIMITS = 8000, 128, 6, 4, (32, 64)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")


def read(name):
    path, _, times = name.partition("*")
    opened = lzma.open(path, "rt", encoding="utf-8") if path.endswith(".xz") else open(path, encoding="utf-8")
    with opened as file:
        return [line.strip() for line in file if len(line) > 20], int(times or 1)


def make_tokenizer(paragraphs, rng, out):
    sample = [paragraphs[i] for i in rng.choice(len(paragraphs), min(len(paragraphs), 250_000), replace=False)]
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(sample, vocab_size=VOCABULARY, min_frequency=5, limit_alphabet=200, show_progress=False)
    tokenizer.save_model(str(out))
    return tokenizer


def pack(sentences, rng, cls, sep):
    """Whole sentences in a row until one of the limits is full: {limit: [texts, limit]}, padded with 0."""
    made = {limit: [] for limit in LIMITS}
    limit = LIMITS[rng.integers(len(LIMITS))]
    row = [cls]
    for ids in sentences:
        ids = ids[: limit - 2]
        if len(row) + len(ids) + 1 > limit:
            made[limit].append(row + [sep] + [0] * (limit - len(row) - 1))
            limit = LIMITS[rng.integers(len(LIMITS))]
            row = [cls]
            ids = ids[: limit - 2]
        row = row + ids
    return {limit: torch.tensor(np.array(rows, dtype=np.int64)) for limit, rows in made.items()}


def masked(ids, mask, generator):
    """The usual 80/10/10, on 15 % of what is neither padding nor a marker."""
    chance = torch.rand(ids.shape, device=ids.device, generator=generator)
    chosen = (chance < 0.15) & (ids > 4)
    kind = torch.rand(ids.shape, device=ids.device, generator=generator)
    other = torch.randint(5, VOCABULARY, ids.shape, device=ids.device, generator=generator)
    seen = torch.where(chosen & (kind < 0.8), mask, torch.where(chosen & (kind >= 0.9), other, ids))
    return seen, chosen


class Words(torch.nn.Module):
    """Hidden state to words: transformers' head, with the embeddings as its last matrix."""

    def __init__(self, bert):
        super().__init__()
        self.dense = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.table = bert.embeddings.word_embeddings.weight
        self.bias = torch.nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, rows):
        return F.linear(self.norm(F.gelu(self.dense(rows))), self.table, self.bias)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--tokens", type=int, default=65536, help="of a batch")
    parser.add_argument("texts", nargs="+")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    begun = time.time()

    files = [read(name) for name in args.texts]
    paragraphs = [line for lines, times in files for line in lines * times]
    tokenizer = make_tokenizer(paragraphs, rng, args.out)
    vocabulary = tokenizer.get_vocab()
    sentences = [part for lines, times in files for line in lines * times for part in SENTENCE_END.split(line) if part]
    order = []
    for first in range(0, len(sentences), 200_000):
        encoded = tokenizer.encode_batch(sentences[first : first + 200_000], add_special_tokens=False)
        order += [one.ids for one in encoded]
    data = pack(order, rng, vocabulary["[CLS]"], vocabulary["[SEP]"])
    data = {limit: rows.to("cuda", torch.int32) for limit, rows in data.items()}
    print(f"{time.time() - begun:.0f} s: {sum(map(len, order))} tokens, "
          + ", ".join(f"{len(rows)} texts of {limit}" for limit, rows in data.items()), flush=True)

    config = BertConfig(vocab_size=len(vocabulary), hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                        intermediate_size=4 * WIDTH, max_position_embeddings=128, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0)
    assert len(vocabulary) == VOCABULARY, len(vocabulary)
    bert = BertModel(config, add_pooling_layer=False).cuda()
    head = Words(bert).cuda()
    bare = {p for m in (bert, head) for n, p in m.named_parameters() if p.ndim == 1}
    parameters = list(dict.fromkeys([*bert.parameters(), *head.parameters()]))
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p not in bare], "weight_decay": 0.01},
                                   {"params": [p for p in parameters if p in bare], "weight_decay": 0.0}],
                                  lr=args.rate, betas=(0.9, 0.98), eps=1e-6, fused=True)
    generator = torch.Generator("cuda").manual_seed(1)
    started, step, share, losses = time.time(), 0, 0.0, []
    while share < 1:
        limit = LIMITS[int(rng.integers(len(LIMITS)))]
        rows = data[limit]
        pick = torch.randint(0, len(rows), (args.tokens // limit,), device="cuda", generator=generator)
        ids = rows[pick].long()
        seen, chosen = masked(ids, vocabulary["[MASK]"], generator)
        for group in optimizer.param_groups:  # by the clock: warm up over 3 %, then down to nothing
            group["lr"] = args.rate * min(share / 0.03, max(0.0, 1 - share))
        with torch.autocast("cuda", torch.bfloat16):
            hidden = bert(input_ids=seen, attention_mask=(ids != 0).long()).last_hidden_state
            loss = F.cross_entropy(head(hidden[chosen]).float(), ids[chosen])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 50 == 0:
            losses.append(loss.item())
            share = (time.time() - started) / args.seconds
            if step % 1000 == 0:
                print(f"{time.time() - started:.0f} s, step {step}: {np.mean(losses[-20:]):.3f}", flush=True)

    tensors = {name: value.detach().half().contiguous().cpu() for name, value in bert.state_dict().items()
               if "position_ids" not in name}
    save_file(tensors, str(args.out / "model.safetensors"), metadata={"format": "pt"})
    kept = {key: getattr(config, key) for key in (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
        "max_position_embeddings", "type_vocab_size", "hidden_act", "layer_norm_eps", "initializer_range", "pad_token_id")}
    kept |= {"model_type": "bert", "architectures": ["BertModel"], "hidden_dropout_prob": 0.1,
             "attention_probs_dropout_prob": 0.1}
    (args.out / "config.json").write_text(json.dumps(kept, indent=2) + "\n")
    (args.out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 128}, indent=2) + "\n")
    (args.out / "made.json").write_text(json.dumps(
        {"steps": step, "tokens": step * args.tokens, "loss": round(float(np.mean(losses[-20:])), 4),
         "texts": [pathlib.Path(name).name for name in args.texts], "torch": torch.__version__}, indent=2) + "\n")


if __name__ == "__main__":
    main()
