#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves small state dicts with the real torch.save, as zip and in the form before torch 1.6, and beside each what it
holds. Writes FOLDER/torch-VERSION/NAME.{zip.bin,legacy.bin,json}; tests/unit/model reads all such folders.

    scripts/golden/torch_bins.py tests/fixtures/model/data
"""
import json
import pathlib
import sys
from collections import OrderedDict

import torch

TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}


def describe(tensor):
    plain = tensor.detach().contiguous()
    raw = plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain
    return {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "hex": raw.numpy().tobytes().hex()}


class Encoder(torch.nn.Module):
    """Parameters, buffers, a tied weight and nested modules, so that the dict carries _metadata like a real one."""

    def __init__(self):
        super().__init__()
        self.embeddings = torch.nn.Embedding(11, 4)
        self.layer = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
        self.norm = torch.nn.LayerNorm(4)
        self.decoder = torch.nn.Linear(4, 11, bias=False)
        self.decoder.weight = self.embeddings.weight
        self.register_buffer("position_ids", torch.arange(16).expand((1, -1)))


def every_type():
    numbers = torch.linspace(-3, 3, 24)
    return {f"as_{name.lower()}": numbers.to(dtype) for dtype, name in TYPES.items()}


def views():
    base = torch.arange(120.0)
    matrix = base.reshape(10, 12)
    return {
        "base": base, "transposed": matrix.t(), "rows": matrix[2:5], "columns": matrix[:, 3:7],
        "every_third": base[1::3],
        "cube": base.reshape(2, 3, 20).permute(2, 0, 1)[4:9], "scalar": base[7], "one": base[7:8], "empty": base[5:5],
        "empty_matrix": torch.zeros(0, 3), "half": base.reshape(4, 30).to(torch.float16).t(),
        "parameter": torch.nn.Parameter(matrix[:2, :2]),
        "frozen": torch.nn.Parameter(torch.ones(3), requires_grad=False),
    }


def checkpoints():
    torch.manual_seed(7)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        hidden = model.embeddings(torch.arange(11))
        for layer in model.layer:
            hidden = torch.tanh(layer(hidden))
        model.decoder(model.norm(hidden)).square().mean().backward()
        optimizer.step()
    weights = model.state_dict()
    notes = {"epoch": 3, "loss": 0.25, "done": False, "name": "exeunt", "shape": torch.Size([2, 3]), "big": 2**40,
             "negative": -(2**40), "dtype": torch.float16, "nothing": None, "list": [1, (2, "x")]}
    return {
        "module": (weights, weights),
        "types": (every_type(), every_type()),
        "views": (OrderedDict(views()), views()),
        "nested": ({**notes, "optimizer": optimizer.state_dict(), "state_dict": weights}, weights),
        "under_model": ({"args": {"lr": 0.1}, "model": views(), "history": [torch.ones(3)]}, views()),
    }


def main():
    folder = pathlib.Path(sys.argv[1]) / ("torch-" + ".".join(torch.__version__.split("+")[0].split(".")[:2]))
    folder.mkdir(parents=True, exist_ok=True)
    for name, (value, expected) in checkpoints().items():
        torch.save(value, folder / f"{name}.zip.bin", _use_new_zipfile_serialization=True)
        torch.save(value, folder / f"{name}.legacy.bin", _use_new_zipfile_serialization=False)
        tensors = {key: describe(tensor) for key, tensor in expected.items()}
        (folder / f"{name}.json").write_text(json.dumps(tensors, sort_keys=True) + "\n")
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    assert max(sizes.values()) < 60_000, sizes
    print(f"{len(sizes)} files in {folder}, the largest of {max(sizes.values())} bytes")


if __name__ == "__main__":
    main()
