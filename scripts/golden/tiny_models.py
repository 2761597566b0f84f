#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tiny random models that the command-line tests and the demo use (standard library only).

    scripts/golden/tiny_models.py OUT      writes OUT/bert-backbone and OUT/bert-deebert

Others, of the architectures and in the files of the originals, are made where a test needs them: write_albert() …
"""
import json, math, pathlib, random, shutil, struct, sys

TEXT = pathlib.Path(__file__).resolve().parents[2] / "tests/fixtures/text/cases"
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

    def norm(self, name, width=HIDDEN):
        self.tensors[name + ".weight"] = ([width], [1.0] * width)
        self.tensors[name + ".bias"] = ([width], [0.0] * width)


def embeddings(maker, prefix, vocab, width=HIDDEN, positions=POSITIONS, types=2):
    e = prefix + "embeddings."
    maker.matrix(e + "word_embeddings.weight", vocab, width)
    maker.matrix(e + "position_embeddings.weight", positions, width, scale=0.1)
    maker.matrix(e + "token_type_embeddings.weight", types, width, scale=0.1)
    maker.norm(e + "LayerNorm", width)


def backbone(maker, prefix, vocab, **sizes):
    embeddings(maker, prefix, vocab, **sizes)
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
            "hidden_act": "gelu", "layer_norm_eps": 1e-12} | more


def write_weights(folder, maker, settings):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    write_safetensors(folder / "model.safetensors", maker.tensors)


def write_folder(folder, maker, settings):
    write_weights(folder, maker, settings)
    (folder / "vocab.txt").write_text("\n".join(vocabulary()) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}\n')


# What a config.json of ELBERT's has besides ALBERT's fields.
ELBERT = {"weight_name": "dyn", "thres_name": "bias_1", "exit_thres": 0.1, "cnt_thres": 8.0, "margin": 0.0, "use_out_pooler": True,
          "pooler_input": "cls", "num_exit_layers": 1, "use_fc2": False, "fc_size1": HIDDEN, "fc_size2": 32, "w_lr": 0.01,
          "w_init": 4.0, "kd_enable": False, "use_dml": False, "use_label_smooth": False}


def write_albert(folder, seed=3, heads=None, **fields):
    """One shared layer, a narrow embedding and a bare spiece.model. heads(maker) adds those of a system."""
    maker, vocab, width, shared = Maker(seed), 221, 8, "albert.encoder.albert_layer_groups.0.albert_layers.0."
    embeddings(maker, "albert.", vocab, width)
    maker.linear("albert.encoder.embedding_hidden_mapping_in", HIDDEN, width)
    for part in ("query", "key", "value", "dense"):
        maker.linear(f"{shared}attention.{part}", HIDDEN, HIDDEN)
    maker.norm(shared + "attention.LayerNorm")
    maker.linear(shared + "ffn", INNER, HIDDEN)
    maker.linear(shared + "ffn_output", HIDDEN, INNER)
    maker.norm(shared + "full_layer_layer_norm")
    maker.linear("albert.pooler", HIDDEN, HIDDEN)
    if heads:
        heads(maker)
    write_weights(folder, maker, config(vocab, **{"model_type": "albert", "embedding_size": width, "num_hidden_groups": 1,
                                                  "inner_group_num": 1, "hidden_act": "gelu_new", "pad_token_id": 0, **fields}))
    shutil.copy(TEXT / "unigram/spiece.model", folder)


def write_elbert(folder, labels=2, **fields):
    """An original folder of classes without names: one head for all exits, and the rule in config.json."""
    write_albert(folder, 4, lambda maker: maker.linear("albert.encoder.exit_out_layer.classifier", labels, HIDDEN),
                 **(ELBERT | {"num_labels": labels, "finetuning_task": folder.name.lower()} | fields))


def write_pabee(folder):
    """An original folder of two classes without names: one pooler, a classifier for each exit."""
    def heads(maker):
        for i in range(LAYERS):
            maker.linear(f"classifiers.{i}", 2, HIDDEN)
    write_albert(folder, 5, heads, num_labels=2, finetuning_task="mrpc")


def highways(maker, prefix):
    """The heads of DeeBERT and RomeBERT, for two classes."""
    maker.linear(prefix + "pooler.dense", HIDDEN, HIDDEN)
    for i in range(LAYERS):
        maker.linear(f"{prefix}encoder.highway.{i}.pooler.dense", HIDDEN, HIDDEN)
        maker.linear(f"{prefix}encoder.highway.{i}.classifier", len(LABELS), HIDDEN)
    maker.linear("classifier", len(LABELS), HIDDEN)


def write_roberta(folder, heads=None, **fields):
    """Positions from 2, one type and byte-level BPE. With heads=highways a folder of RomeBERT's."""
    maker, vocab, positions = Maker(6), 396, POSITIONS + 2
    backbone(maker, "roberta.", vocab, positions=positions, types=1)
    if heads:
        heads(maker, "roberta.")
    write_weights(folder, maker, config(vocab, **{"model_type": "roberta", "max_position_embeddings": positions, "type_vocab_size": 1,
                                                  "layer_norm_eps": 1e-5, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, **fields}))
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(TEXT / "bpe" / name, folder)


def write_elasticbert(folder, labels=0, **fields):
    """A pooler after every layer; with `labels`, a classifier there."""
    maker = Maker(7)
    backbone(maker, "elasticbert.", len(vocabulary()))
    for i in range(LAYERS):
        maker.linear(f"elasticbert.encoder.pooler.{i}.dense", HIDDEN, HIDDEN)
        if labels:
            maker.linear(f"classifiers.{i}", labels, HIDDEN)
    write_folder(folder, maker, config(len(vocabulary()), model_type="elasticbert", max_output_layers=LAYERS,
                                       num_output_layers=LAYERS, **fields))


def bert_with_highways():
    maker = Maker(2)
    backbone(maker, "bert.", len(vocabulary()))
    highways(maker, "bert.")
    return maker


def write_deebert(folder, **fields):
    """An original folder of two classes without names."""
    write_folder(folder, bert_with_highways(), config(len(vocabulary()), num_labels=2, **fields))


def main():
    out, vocab = pathlib.Path(sys.argv[1]), len(vocabulary())
    plain = Maker(1)
    backbone(plain, "", vocab)
    write_folder(out / "bert-backbone", plain, config(vocab))

    labels = {str(i): name for i, name in enumerate(LABELS)}
    write_folder(out / "bert-deebert", bert_with_highways(),
                 config(vocab, id2label=labels, label2id={name: i for i, name in enumerate(LABELS)}))


if __name__ == "__main__":
    main()
