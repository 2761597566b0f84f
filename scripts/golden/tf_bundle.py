#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes TensorFlow checkpoints of version 2 byte by byte from the description of the format, without TensorFlow and
without Exeunt: the table of LevelDB, its blocks, prefix compression, restarts, separators and masked CRC-32C, the
protocol buffers of the index, and the shards. Beside each checkpoint lies what it holds.

    scripts/golden/tf_bundle.py tests/fixtures/model/data
"""
import json
import pathlib
import random
import struct
import sys

TYPES = {"F32": 1, "F64": 2, "I32": 3, "U8": 4, "I16": 5, "I8": 6, "I64": 9, "BOOL": 10, "BF16": 14, "F16": 19}
WIDTHS = {"F32": 4, "F64": 8, "I32": 4, "U8": 1, "I16": 2, "I8": 1, "I64": 8, "BOOL": 1, "BF16": 2, "F16": 2}
MAGIC = 0xDB4775248B80FB57


def crc32c(data):
    """Bit by bit, so that it shares nothing with a table-driven one."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value) if value else b""


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def entry_proto(entry):
    shape = b"".join(message(2, number(1, side)) for side in entry["shape"])
    out = number(1, entry["type"]) + message(2, shape) + number(3, entry["shard"]) + number(4, entry["offset"])
    return out + number(5, len(entry["data"])) + varint(6 << 3 | 5) + struct.pack("<I", masked(entry["data"]))


def header_proto(shards):
    return number(1, shards) + message(3, number(1, 1))  # little-endian is the default and so not written


class Block:
    def __init__(self, interval):
        self.interval, self.out, self.restarts, self.count, self.last = interval, bytearray(), [0], 0, b""

    def add(self, key, value):
        shared = 0
        if self.count % self.interval == 0:
            if self.count:
                self.restarts.append(len(self.out))
        else:
            while shared < min(len(key), len(self.last)) and key[shared] == self.last[shared]:
                shared += 1
        self.out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        self.count, self.last = self.count + 1, key

    def finish(self):
        return bytes(self.out) + struct.pack(f"<{len(self.restarts) + 1}I", *self.restarts, len(self.restarts))


def separator(last, following):
    """A short key that is not before `last` and before `following`."""
    if following is None:
        for i, byte in enumerate(last):
            if byte < 255:
                return last[:i] + bytes([byte + 1])
        return last
    same = 0
    while same < min(len(last), len(following)) and last[same] == following[same]:
        same += 1
    if same < min(len(last), len(following)) and last[same] + 1 < following[same] and last[same] < 255:
        return last[:same] + bytes([last[same] + 1])
    return last


def table(entries, block_size):
    out, index = bytearray(), Block(1)

    def write(contents):
        data = contents
        place = varint(len(out)) + varint(len(data))
        out.extend(data + bytes(1) + struct.pack("<I", masked(data + bytes(1))))
        return place

    block = Block(16)
    for i, (key, value) in enumerate(entries):
        block.add(key, value)
        following = entries[i + 1][0] if i + 1 < len(entries) else None
        if len(block.out) >= block_size or following is None:
            index.add(separator(key, following), write(block.finish()))
            block = Block(16)
    meta_place, index_place = write(Block(16).finish()), write(index.finish())
    footer = meta_place + index_place
    return bytes(out) + footer + bytes(40 - len(footer)) + struct.pack("<Q", MAGIC)


def write_checkpoint(prefix, tensors, shards, texts=()):
    """`tensors`: name → (type, shape, bytes). They go to the shards in turn, with holes that no entry covers."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data = [bytearray() for _ in range(shards)]
    entries = []
    for i, (name, (kind, shape, raw)) in enumerate(tensors.items()):
        shard = i % shards
        data[shard] += bytes(i % 3)
        entry = {"type": TYPES[kind], "shape": shape, "shard": shard, "offset": len(data[shard]), "data": raw}
        data[shard] += raw
        entries.append((name.encode(), entry_proto(entry)))
    for name, raw in texts:
        entry = {"type": 7, "shape": [], "shard": 0, "offset": len(data[0]), "data": raw}
        entries.append((name.encode(), entry_proto(entry)))
        data[0] += raw
    entries.sort()
    index = table([(b"", header_proto(shards))] + entries, 300)
    pathlib.Path(f"{prefix}.index").write_bytes(index)
    for i, shard in enumerate(data):
        pathlib.Path(f"{prefix}.data-{i:05d}-of-{shards:05d}").write_bytes(bytes(shard))


def bert_like(numbers):
    """A BERT with one narrow layer, moments of Adam and LAMB, and the step."""
    names = {"bert/embeddings/word_embeddings": [7, 4], "bert/embeddings/LayerNorm/gamma": [4],
             "bert/embeddings/LayerNorm/beta": [4], "bert/pooler/dense/kernel": [4, 4], "bert/pooler/dense/bias": [4],
             "cls/predictions/output_bias": [7]}
    for part in ("attention/self/query", "attention/self/key", "attention/self/value", "attention/output/dense"):
        names[f"bert/encoder/layer_0/{part}/kernel"] = [4, 4]
        names[f"bert/encoder/layer_0/{part}/bias"] = [4]
    weights, slots = {}, {}
    for name, shape in names.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        make = lambda: struct.pack(f"<{count}f", *(numbers.uniform(-1, 1) for _ in range(count)))
        weights[name] = ("F32", shape, make())
        slots[f"{name}/adam_m"], slots[f"{name}/adam_v"] = ("F32", shape, make()), ("F32", shape, make())
    slots["global_step"] = ("I64", [], struct.pack("<q", 125000))
    return weights, slots


def every_type(numbers):
    out = {f"types/{kind.lower()}": (kind, [2, 3], bytes(numbers.randrange(2) if kind == "BOOL" else
                                                        numbers.randrange(256) for _ in range(6 * WIDTHS[kind])))
           for kind in TYPES}
    out.update({"types/scalar": ("F32", [], struct.pack("<f", 0.5)), "types/empty": ("F32", [0, 4], b""),
                "types/deep": ("I8", [1, 2, 1, 3, 1, 1, 2, 1], bytes(range(12)))})
    return out


def write_expected(path, tensors):
    described = {name: {"dtype": kind, "shape": shape, "hex": raw.hex()}
                 for name, (kind, shape, raw) in tensors.items()}
    path.write_text(json.dumps(described, sort_keys=True) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    numbers = random.Random(7)
    weights, slots = bert_like(numbers)
    kinds = every_type(numbers)
    write_checkpoint(folder / "tf" / "model.ckpt-7", {**weights, **slots, **kinds}, 2)
    write_expected(folder / "tf" / "expected.json", {**weights, **kinds})
    hub = {f"module/{name}": value for name, value in weights.items()}
    graph = [("_CHECKPOINTABLE_OBJECT_GRAPH", b"\x02hi")]
    write_checkpoint(folder / "tf-hub" / "variables" / "variables", hub, 1, texts=graph)
    write_expected(folder / "tf-hub" / "expected.json", hub)
    sizes = [path.stat().st_size for path in folder.glob("tf*/**/*") if path.is_file()]
    print(f"{len(sizes)} files, the largest of {max(sizes)} bytes")


if __name__ == "__main__":
    main()
