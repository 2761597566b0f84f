#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fine-tuned folders as the five systems and Hugging Face leave them, their labels without names, made usable with a
vocabulary of their size, and MNLI's files: labels.py TESTS OUT."""
import pathlib, shutil, sys

tests, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
WORDS = "the film was good bad plot dull great never a so it love new old fine meal is not and".split()
SYSTEMS = {"deebert": "deebert_bert", "pabee": "pabee_bert", "elasticbert": "elasticbert", "romebert": "romebert",
           "elbert": "elbert", "hf": "hf_bert_classifier"}
for name, golden in SYSTEMS.items():
    shutil.copytree(tests / "golden" / golden, out / name)
    (out / name / "golden.safetensors").unlink()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    words += [f"##{chr(97 + i)}" for i in range(40 - len(words))]
    (out / name / "vocab.txt").write_text("\n".join(words) + "\n")

folder = out / "glue" / "MNLI"
folder.mkdir(parents=True)
columns = ["index", *(f"c{i}" for i in range(1, 8)), "sentence1", "sentence2"]
names = ("contradiction", "entailment", "neutral")
for split, rows in (("dev_matched", 9), ("dev_mismatched", 9)):
    lines = ["\t".join([*columns, "gold_label"])]
    for i in range(rows):
        lines.append("\t".join([str(i), *["x"] * 7, f"{WORDS[i]} film", f"{WORDS[-i]} plot", names[i % 3]]))
    (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
for split, rows in (("test_matched", 9796), ("test_mismatched", 9847)):
    (folder / f"{split}.tsv").write_text(
        "\t".join(columns) + "\n" + "".join("\t".join([str(i), *["x"] * 7, "good", WORDS[i % 20]]) + "\n" for i in range(rows)))
