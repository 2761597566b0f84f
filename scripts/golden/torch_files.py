#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes PyTorch weight files without PyTorch: the standard library's pickle for the objects, the zip records and the
storages byte by byte. It covers what one version of torch never writes: views of storages in the old form, zip64
sizes, archives made by other tools, pickles of Python 2. Beside each file lies what it holds.

    scripts/golden/torch_files.py tests/fixtures/model/data/torch-plain
"""
import io
import json
import pathlib
import pickle
import struct
import sys
import types
import zipfile
import zlib
from collections import OrderedDict

# Stand-ins for the names of torch; pickle writes them by name only.
torch = types.ModuleType("torch")
utils = types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
STORAGES = {"FloatStorage": ("F32", "f"), "LongStorage": ("I64", "q"), "ByteStorage": ("U8", "B")}
for name in STORAGES:
    setattr(torch, name, type(name, (), {"__module__": "torch", "__qualname__": name}))


def function(name):
    def stand_in(*_):
        raise AssertionError("never called")
    stand_in.__module__, stand_in.__name__, stand_in.__qualname__ = "torch._utils", name, name
    setattr(utils, name, stand_in)
    return stand_in


REBUILD = {name: function(name) for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_parameter")}


class Storage:
    def __init__(self, kind, key, values, view=None):
        self.kind, self.key, self.values, self.view = kind, key, values, view

    def data(self):
        return struct.pack(f"<{len(self.values)}{STORAGES[self.kind][1]}", *self.values)


class Tensor:
    """A view; `how` is the function that PyTorch would call to make it again."""

    def __init__(self, storage, offset, shape, stride, how="_rebuild_tensor_v2", more=(False, OrderedDict())):
        self.storage, self.offset, self.shape, self.stride = storage, offset, shape, stride
        self.how, self.more = how, () if how == "_rebuild_tensor" else more

    def __reduce__(self):
        return REBUILD[self.how], (self.storage, self.offset, self.shape, self.stride, *self.more)

    def describe(self):
        type_name, code = STORAGES[self.storage.kind]
        places = [self.offset + (self.storage.view[1] if self.storage.view else 0)]
        for side, step in zip(self.shape, self.stride):
            places = [place + i * step for place in places for i in range(side)]
        data = struct.pack(f"<{len(places)}{code}", *(self.storage.values[place] for place in places))
        return {"dtype": type_name, "shape": list(self.shape), "hex": data.hex()}


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return REBUILD["_rebuild_parameter"], (self.tensor, False, OrderedDict())

    def describe(self):
        return self.tensor.describe()


def pickled(value, legacy):
    out = io.BytesIO()

    class Writer(pickle.Pickler):
        def persistent_id(self, item):
            if not isinstance(item, Storage):
                return None
            description = ("storage", getattr(torch, item.kind), item.key, "cpu", len(item.values))
            return description + (item.view,) if legacy else description

    Writer(out, protocol=2).dump(value)
    return out.getvalue()


def as_legacy(value, storages):
    head = [0x1950A86A20F9469CFC6C, 1001,
            {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}]
    out = b"".join(pickle.dumps(part, protocol=2) for part in head)
    out += pickled(value, legacy=True) + pickle.dumps([storage.key for storage in storages], protocol=2)
    return out + b"".join(struct.pack("<q", len(storage.values)) + storage.data() for storage in storages)


def archive_entries(value, storages):
    yield "data.pkl", pickled(value, legacy=False)
    yield "byteorder", b"little"
    for storage in storages:
        yield f"data/{storage.key}", storage.data()
    yield "version", b"3\n"
    yield ".data/serialization_id", b"0123456789"


def as_zip(value, storages, wide=False, crc_of=zlib.crc32):
    """As PyTorch's own writer: numbers in a descriptor behind the data, data on multiples of 64, a zip64 end."""
    out, directory, count = b"", b"", 0
    for name, data in archive_entries(value, storages):
        path, place, crc = f"archive/{name}".encode(), len(out), crc_of(data)
        flags = 0x0808 if data else 0x0800
        numbers = struct.pack("<QQQ", len(data), len(data), place)
        extra = struct.pack("<HH", 1, 24) + numbers if wide else b""
        padding = -(len(out) + 30 + len(path) + len(extra) + 4) % 64
        local_extra = extra + struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        out += struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, flags, 0, 0, 0, 0, 0, 0, len(path), len(local_extra))
        out += path + local_extra + data
        if data:
            out += struct.pack("<IIQQ" if wide else "<IIII", 0x08074B50, crc, len(data), len(data))
        size, header = (0xFFFFFFFF, 0xFFFFFFFF) if wide else (len(data), place)
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0, 0, flags, 0, 0, 0, crc, size, size, len(path),
                                 len(extra), 0, 0, 0, 0, header) + path + extra
        count += 1
    place = len(out)
    out += directory
    out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0x031E, 0x002D, 0, 0, count, count, len(directory), place)
    out += struct.pack("<IIQI", 0x07064B50, 0, place + len(directory), 1)
    return out + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), place, 0)


def as_plain_zip(value, storages):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in archive_entries(value, storages):
            archive.writestr(zipfile.ZipInfo(f"pytorch_model/{name}"), data)
    return out.getvalue()


class Python2Dict:
    """OrderedDict as Python 2 wrote it: made from a list of pairs."""

    def __init__(self, items):
        self.items = items

    def __reduce__(self):
        return OrderedDict, ([[key, value] for key, value in self.items.items()],)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    floats = Storage("FloatStorage", "0", [i / 4 for i in range(24)])
    longs = Storage("LongStorage", "94003", [2**40 + i for i in range(6)])
    bytes_ = Storage("ByteStorage", "7", list(range(250, 256)))
    storages = [floats, longs, bytes_]
    tensors = OrderedDict({
        "encoder.weight": Tensor(floats, 0, (4, 6), (6, 1)),
        "encoder.tied": Tensor(floats, 0, (4, 6), (6, 1)),
        "encoder.transposed": Tensor(floats, 0, (6, 4), (1, 6)),
        "encoder.inner": Tensor(floats, 7, (2, 3), (6, 2)),
        "encoder.long": Parameter(Tensor(longs, 1, (5,), (1,), more=(False, OrderedDict(), {"a": 1}))),
        "encoder.bytes": Tensor(bytes_, 5, (), (), how="_rebuild_tensor"),
        "größe": Tensor(bytes_, 0, (3, 1, 2), (2, 9, 1)),
    })
    root = Storage("FloatStorage", "100", [float(i) for i in range(20)])
    left = Storage("FloatStorage", "100", root.values, view=("101", 0, 12))
    right = Storage("FloatStorage", "100", root.values, view=("102", 12, 8))
    views = OrderedDict({
        "whole": Tensor(root, 0, (20,), (1,)),
        "left": Tensor(left, 2, (2, 5), (5, 1)),
        "right": Tensor(right, 4, (2, 2), (2, 1)),
    })
    nested = {"epoch": 1, "state_dict": tensors, "model": {"other": Tensor(longs, 0, (6,), (1,))}}
    files = {
        "tensors.zip.bin": (as_zip(tensors, storages), tensors),
        "tensors.wide.bin": (as_zip(tensors, storages, wide=True), tensors),
        "tensors.nocrc.bin": (as_zip(tensors, storages, crc_of=lambda data: 0), tensors),
        "tensors.plain.bin": (as_plain_zip(tensors, storages), tensors),
        "tensors.nested.bin": (as_zip(nested, storages), tensors),
        "tensors.python2.bin": (as_legacy(Python2Dict(tensors), storages), tensors),
        "tensors.legacy.bin": (as_legacy(tensors, storages), tensors),
        "views.legacy.bin": (as_legacy(views, [root]), views),
    }
    for name, (data, expected) in files.items():
        (folder / name).write_bytes(data)
        described = {key: tensor.describe() for key, tensor in expected.items()}
        (folder / name).with_suffix("").with_suffix(".json").write_text(json.dumps(described, sort_keys=True) + "\n")
    print(f"{len(files)} files in {folder}")


if __name__ == "__main__":
    main()
