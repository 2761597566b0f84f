# SPDX-License-Identifier: Apache-2.0
"""Traces: the logits of every exit for every text of a data set."""
from __future__ import annotations

import json
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
    gold: Any = None  #: [texts] label indices, or values; several: [texts, labels] 1 or 0; None: not known
    tokens: Any = None  #: [texts]
    several: bool = False  #: labels at once
    thresholds: list[float] | None = None  #: several: probabilities above which labels are given; None: 0.5
    metadata: dict[str, str] = field(default_factory=dict)  #: of the file it was read from


_CODES = {"F32": "f", "I32": "i", "I64": "q", "U8": "B", "U64": "Q"}
_MAX_HEADER = 8 << 20


def _tensors(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The tensors of a safetensors file, checked against its size."""
    data = path.read_bytes()
    if len(data) < 8:
        raise ValueError(f"{path}: not a safetensors file")
    (size,) = struct.unpack_from("<Q", data)
    if size > min(len(data) - 8, _MAX_HEADER):
        raise ValueError(f"{path}: its header is longer than the file")
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    out = {}
    for name, entry in header.items():
        code, shape, (begin, end) = _CODES.get(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
        if code is None:
            continue
        piece = memoryview(data)[8 + size + begin:8 + size + end]
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
    thresholds = [float(one) for one in metadata["thresholds"].split(",")] if metadata.get("thresholds") else None
    return Trace(several=metadata.get("problem") == "multi_label", thresholds=thresholds, logits=tensors["logits"], layers=[int(layer) for layer in metadata["exits"].split(",")],
                 labels=json.loads(metadata.get("labels") or "[]"), gold=tensors.get("gold"),
                 tokens=tensors.get("lengths"), metadata=metadata)
