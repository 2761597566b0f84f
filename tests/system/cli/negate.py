#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the sign of tensors in a safetensors file of F16: negate.py FILE TENSOR...   A model that says the opposite."""
import json, pathlib, struct, sys

path = pathlib.Path(sys.argv[1])
data = bytearray(path.read_bytes())
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
for name in sys.argv[2:]:
    begin, end = header[name]["data_offsets"]
    for i in range(8 + size + begin + 1, 8 + size + end, 2):
        data[i] ^= 0x80
path.write_bytes(data)
