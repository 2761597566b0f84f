# SPDX-License-Identifier: Apache-2.0
"""A trace whose rows are candidates of questions, so many of each in a row: questions.py FROM TO CANDIDATES"""
import json
import struct
import sys

data = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, body, many = json.loads(data[8:8 + size]), data[8 + size:], int(sys.argv[3])
rows = header["index"]["shape"][0]
header["cluster"] = {"dtype": "I64", "shape": [rows], "data_offsets": [len(body), len(body) + 8 * rows]}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[2], "wb") as out:
    out.write(struct.pack("<Q", len(text)) + text + body + struct.pack(f"<{rows}q", *(row // many for row in range(rows))))
