#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a folder with a small BERT or DeeBERT model into one of zeros in another shape:
blank_model.py FOLDER LAYERS HIDDEN HEADS INNER [POSITIONS]"""
import json, math, pathlib, re, struct, sys

folder = pathlib.Path(sys.argv[1])
layers, hidden, heads, inner, *positions = map(int, sys.argv[2:])
config = json.loads((folder / "config.json").read_text())
sides = {config["hidden_size"]: hidden, config["intermediate_size"]: inner}
size = struct.unpack("<Q", (data := (folder / "model.safetensors").read_bytes())[:8])[0]
header, at = {}, 0
for name, tensor in json.loads(data[8:8 + size]).items():
    number = re.search(r"(layer|highway)\.(\d+)\.", name)
    if name == "__metadata__" or (number and number[2] != "0"):
        continue
    shape = [sides.get(side, side) for side in tensor["shape"]]
    if positions and "position_embeddings" in name:
        shape[0] = positions[0]
    for i in range(layers if number else 1):
        end = at + 2 * math.prod(shape)
        header[re.sub(r"(layer|highway)\.0\.", rf"\g<1>.{i}.", name)] = {"dtype": "F16", "shape": shape, "data_offsets": [at, end]}
        at = end
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
(folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
config |= {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads}
if positions:
    config["max_position_embeddings"] = positions[0]
(folder / "config.json").write_text(json.dumps(config))
