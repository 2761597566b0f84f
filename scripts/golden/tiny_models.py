#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tiny random models that the command-line tests and the demo use (standard library only).

    scripts/golden/tiny_models.py OUT      writes OUT/bert-backbone and OUT/bert-deebert
"""
import json, math, pathlib, random, struct, sys

HIDDEN, INNER, LAYERS, HEADS, POSITIONS, LABELS = 16, 32, 3, 2, 64, ["negative", "positive"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """the a an of to and in is it was not no very too film movie plot actor story book song meal food service
good bad great awful fine poor slow fast warm cold happy sad love hate enjoy like dull bright clever stupid boring
best worst never always i you we they he she this that but so , . ! ? ' - :""".split()
PIECES = [c for c in "abcdefghijklmnopqrstuvwxyz0123456789"] + ["##" + c for c in "abcdefghijklmnopqrstuvwxyz0123456789"] + \
    ["##ing", "##ed", "##s", "##ly", "##er", "##est", "##ful", "##less", "##ness"]


def vocabulary():
    return list(dict.fromkeys(SPECIAL + WORDS + PIECES))


def half(values):
    return struct.pack(f"<{len(values)}e", *values)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = half(values)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Maker:
    """Draws tensors as BERT does: matrices N(0, 0.02) (larger here, so that exits differ), norms 1, biases 0."""

    def __init__(self, seed):
        self.random, self.tensors = random.Random(seed), {}

    def matrix(self, name, *shape, scale=0.3):
        self.tensors[name] = (list(shape), [self.random.gauss(0, scale) for _ in range(math.prod(shape))])

    def linear(self, name, rows, columns):
        self.matrix(name + ".weight", rows, columns)
        self.matrix(name + ".bias", rows, scale=0.05)

    def norm(self, name):
        self.tensors[name + ".weight"] = ([HIDDEN], [1.0] * HIDDEN)
        self.tensors[name + ".bias"] = ([HIDDEN], [0.0] * HIDDEN)


def backbone(maker, prefix, vocab):
    e = prefix + "embeddings."
    maker.matrix(e + "word_embeddings.weight", vocab, HIDDEN)
    maker.matrix(e + "position_embeddings.weight", POSITIONS, HIDDEN, scale=0.1)
    maker.matrix(e + "token_type_embeddings.weight", 2, HIDDEN, scale=0.1)
    maker.norm(e + "LayerNorm")
    for i in range(LAYERS):
        layer = f"{prefix}encoder.layer.{i}."
        for part in ("query", "key", "value"):
            maker.linear(layer + "attention.self." + part, HIDDEN, HIDDEN)
        maker.linear(layer + "attention.output.dense", HIDDEN, HIDDEN)
        maker.norm(layer + "attention.output.LayerNorm")
        maker.linear(layer + "intermediate.dense", INNER, HIDDEN)
        maker.linear(layer + "output.dense", HIDDEN, INNER)
        maker.norm(layer + "output.LayerNorm")


def config(vocab, **more):
    return {"model_type": "bert", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "vocab_size": vocab,
            "hidden_act": "gelu", "layer_norm_eps": 1e-12, **more}


def write_folder(folder, maker, settings):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "vocab.txt").write_text("\n".join(vocabulary()) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}\n')
    write_safetensors(folder / "model.safetensors", maker.tensors)


def main():
    out, vocab = pathlib.Path(sys.argv[1]), len(vocabulary())
    plain = Maker(1)
    backbone(plain, "", vocab)
    write_folder(out / "bert-backbone", plain, config(vocab))

    deebert = Maker(2)
    backbone(deebert, "bert.", vocab)
    deebert.linear("bert.pooler.dense", HIDDEN, HIDDEN)
    for i in range(LAYERS):
        deebert.linear(f"bert.encoder.highway.{i}.pooler.dense", HIDDEN, HIDDEN)
        deebert.linear(f"bert.encoder.highway.{i}.classifier", len(LABELS), HIDDEN)
    deebert.linear("classifier", len(LABELS), HIDDEN)
    labels = {str(i): name for i, name in enumerate(LABELS)}
    write_folder(out / "bert-deebert", deebert,
                 config(vocab, id2label=labels, label2id={name: i for i, name in enumerate(LABELS)}))


if __name__ == "__main__":
    main()
