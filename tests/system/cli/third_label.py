#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies a two-label model folder with a third label: third_label.py SRC OUT NAME NAME NAME   (F16 safetensors)."""
import json, pathlib, shutil, struct, sys

source, out, names = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
shutil.copytree(source, out)
data = (source / "model.safetensors").read_bytes()
size = struct.unpack("<Q", data[:8])[0]
header, tensors, body = json.loads(data[8:8 + size]), {}, b""
for name, info in header.items():
    begin, end = info["data_offsets"]
    values, shape = data[8 + size + begin:8 + size + end], list(info["shape"])
    if "classifier" in name and shape[0] == 2:  # the third row is the first one with its sign turned
        first = struct.unpack(f"<{len(values) // 4}e", values[:len(values) // 2])
        shape[0], values = 3, values + struct.pack(f"<{len(first)}e", *(-value for value in first))
    tensors[name] = {"dtype": info["dtype"], "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
    body += values
text = json.dumps(tensors).encode()
text += b" " * (-len(text) % 8)
(out / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
config = json.loads((source / "config.json").read_text())
config["id2label"] = {str(i): name for i, name in enumerate(names)}
config["label2id"] = {name: i for i, name in enumerate(names)}
(out / "config.json").write_text(json.dumps(config))
