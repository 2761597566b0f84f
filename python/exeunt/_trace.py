# SPDX-License-Identifier: Apache-2.0
"""Traces: the logits of every exit for every text of a data set."""
from __future__ import annotations

import json
import math
import os
import struct
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ._arrays import _nested, numpy


@dataclass
class Trace:
    """What every exit of a model said of every text. `replay`, `sweep` and `calibrate` take it in place of logits."""

    logits: Any  #: [texts, exits, outputs] raw
    layers: list[int]  #: [exits] after which layer each exit sits
    labels: list[str] = field(default_factory=list)  #: empty for regression
    gold: Any = None  #: [texts] label indices, or values; multi_label: [texts, labels] 1 or 0; None: not known
    tokens: Any = None  #: [texts]
    multi_label: bool = False  #: labels at once
    thresholds: list[float] | None = None  #: multi_label: probabilities above which labels are given; None: 0.5
    metadata: dict[str, str] = field(default_factory=dict)  #: of the file it was read from


_CODES = {"logits": ("F32", "f"), "gold": ("F32", "f"), "lengths": ("I32", "i")}
_MAX_HEADER = 8 << 20


def _tensors(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The tensors that a trace is made of, checked against the file's size: it may come from anyone."""
    data = path.read_bytes()
    if len(data) < 8:
        raise ValueError(f"{path}: not a safetensors file")
    (size,) = struct.unpack_from("<Q", data)
    if size > min(len(data) - 8, _MAX_HEADER):
        raise ValueError(f"{path}: its header is longer than the file")
    out = {}
    try:
        header = json.loads(data[8:8 + size])
        metadata = {name: str(value) for name, value in header.get("__metadata__", {}).items()}
        entries = {name: header[name] for name in _CODES if name in header}
        places = {name: (entry["dtype"], tuple(map(int, entry["shape"])), *map(int, entry["data_offsets"]))
                  for name, entry in entries.items()}
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{path}: its header cannot be read") from None
    body = memoryview(data)[8 + size:]
    for name, (dtype, shape, begin, end) in places.items():
        wanted, code = _CODES[name]
        fits = len(shape) <= 3 and all(0 <= length <= len(body) for length in shape) and 0 <= begin <= end <= len(body)
        if dtype != wanted or not fits or end - begin != math.prod(shape) * array(code).itemsize:
            raise ValueError(f"{path}: {name}: got {dtype} {shape} in bytes {begin} to {end}, want {wanted} inside the file")
        piece = body[begin:end]
        if numpy is not None:
            out[name] = numpy.frombuffer(piece, numpy.dtype(code).newbyteorder("<")).reshape(shape)
        else:
            values = array(code)
            values.frombytes(piece)
            out[name] = _nested(values.tolist(), shape)
    return metadata, out


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads a file of `exeunt trace`."""
    where = Path(path)
    metadata, tensors = _tensors(where)
    if not metadata.get("format", "").startswith("exeunt.trace/") or "logits" not in tensors:
        raise ValueError(f"{where}: got format {metadata.get('format')!r}, want exeunt.trace/2")
    try:
        thresholds = [float(one) for one in metadata["thresholds"].split(",")] if metadata.get("thresholds") else None
        layers = [int(layer) for layer in metadata["exits"].split(",")]
        labels = [str(label) for label in json.loads(metadata.get("labels") or "[]")]
    except (KeyError, RecursionError, TypeError, ValueError):
        raise ValueError(f"{where}: thresholds, exits or labels cannot be read") from None
    return Trace(logits=tensors["logits"], layers=layers, labels=labels, gold=tensors.get("gold"),
                 tokens=tensors.get("lengths"), multi_label=metadata.get("problem") == "multi_label",
                 thresholds=thresholds, metadata=metadata)
