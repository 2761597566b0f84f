#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies a model folder with one thing wrong in its weights or configuration.

    damage.py FOLDER OUT KIND        KIND: truncated overlapping duplicated mis-sized dtype hostile misfit
"""
import json
import pathlib
import shutil
import struct
import sys

source, out, kind = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
out.mkdir()
for file in source.iterdir():
    shutil.copyfile(file, out / file.name)
weights = out / "model.safetensors"
content = weights.read_bytes()
size = struct.unpack("<Q", content[:8])[0]
header, data = json.loads(content[8:8 + size]), content[8 + size:]
name = "embeddings.LayerNorm.bias"


def write(text):
    weights.write_bytes(struct.pack("<Q", len(text)) + text.encode() + data)


if kind == "truncated":
    weights.write_bytes(content[:-5])
elif kind == "overlapping":
    header[name]["data_offsets"] = [offset - 4 for offset in header[name]["data_offsets"]]
    write(json.dumps(header))
elif kind == "duplicated":
    write(json.dumps(header)[:-1] + f", {json.dumps(name)}: {json.dumps(header[name])}}}")
elif kind == "mis-sized":
    header[name]["shape"] = [header[name]["shape"][0] + 1]
    write(json.dumps(header))
elif kind == "dtype":
    header[name]["dtype"] = "I16"  # the same width
    write(json.dumps(header))
elif kind == "hostile":
    header[name]["shape"] = [1 << 62, 4]
    write(json.dumps(header))
elif kind == "misfit":
    config = json.loads((out / "config.json").read_text())
    config["intermediate_size"] += 1
    (out / "config.json").write_text(json.dumps(config))
else:
    sys.exit(f"unknown kind '{kind}'")
