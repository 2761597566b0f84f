# SPDX-License-Identifier: Apache-2.0
"""A profile.json in which a layer takes so many milliseconds in each precision: made_profile.py LAYERS fp32=4 int8=1 ..."""
import json
import sys

layers, entries = int(sys.argv[1]), []
for word in sys.argv[2:]:
    precision, ms = word.split("=")
    entries.append({"precision": precision, "threads": 1, "isa": "made", "lengths": [8, 16], "embedding_ms": [0, 0],
                    "layer_ms": [[float(ms)] * 2] * layers, "exit_ms": [0, 0]})
print(json.dumps({"format": "exeunt.profile/1", "device": "made", "tool": "test", "created": "2026-01-01T00:00:00Z",
                  "entries": entries}))
