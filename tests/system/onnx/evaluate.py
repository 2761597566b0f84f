#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The graphs of `exeunt export onnx`, computed by numpy operation by operation as ONNX defines them.

    evaluate.py EXEUNT TESTS [NAME …]

Every model of tests/fixtures/golden with exits is exported; its texts run as one padded batch through all_exits.onnx and through
the chain of segments, from which texts leave on the way. The logits must be those that other software computed.
"""
import json, math, pathlib, struct, subprocess, sys, tempfile
import numpy as np

TOLERANCE = 1e-4
TYPES = {1: np.float32, 7: np.int64}


def fields(data):
    """(number, value) of every field of a message; counted bytes stay bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << 64) if value >> 63 else value

    while at < len(data):
        tag = varint()
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            yield number, varint()
        elif kind == 2:
            size = varint()
            assert at + size <= len(data), 'a field is cut short'
            yield number, data[at:at + size]
            at += size
        else:
            assert kind == 5, kind
            yield number, struct.unpack('<f', data[at:at + 4])[0]
            at += 4


def all_of(data, number):
    return [value for found, value in fields(data) if found == number]


def one(data, number, absent=None):
    found = all_of(data, number)
    return found[0] if found else absent


def text(data, number):
    return (one(data, number, b'')).decode()


class Graph:
    def __init__(self, path):
        model = path.read_bytes()
        assert one(model, 1) == 8 and [one(o, 2) for o in all_of(model, 8)] == [17], 'IR version 8, opset 17'
        self.notes = {text(entry, 1): text(entry, 2) for entry in all_of(model, 14)}
        graph = one(model, 7)
        self.inputs = [self.value_info(value) for value in all_of(graph, 11)]
        self.outputs = [self.value_info(value) for value in all_of(graph, 12)]
        self.constants = dict(self.tensor(tensor, path.parent) for tensor in all_of(graph, 5))
        self.nodes = [([n.decode() for n in all_of(node, 1)], text(node, 2), text(node, 4), self.attributes(node))
                      for node in all_of(graph, 1)]
        names = [name for name, *_ in self.inputs] + list(self.constants) + [out for _, out, *_ in self.nodes]
        assert len(names) == len(set(names)), 'a value has two makers'
        assert len(all_of(graph, 5)) == len(self.constants), 'a constant is there twice'

    @staticmethod
    def value_info(value):
        tensor = one(one(value, 2), 1)
        sides = [one(side, 1) if one(side, 1) is not None else text(side, 2) for side in all_of(one(tensor, 2), 1)]
        return text(value, 1), TYPES[one(tensor, 1)], sides

    @staticmethod
    def tensor(tensor, folder):
        shape, kind, name = all_of(tensor, 1), TYPES[one(tensor, 2)], text(tensor, 8)
        if one(tensor, 14) == 1:
            place = {text(entry, 1): text(entry, 2) for entry in all_of(tensor, 13)}
            with open(folder / place['location'], 'rb') as file:
                file.seek(int(place['offset']))
                raw = file.read(int(place['length']))
            assert len(raw) == int(place['length']) and int(place['offset']) % 64 == 0
        else:
            raw = one(tensor, 9)
        return name, np.frombuffer(raw, kind).reshape(shape)

    @staticmethod
    def attributes(node):
        out = {}
        for attribute in all_of(node, 5):
            kind = one(attribute, 20)
            out[text(attribute, 1)] = {1: one(attribute, 2), 2: one(attribute, 3), 7: all_of(attribute, 8)}[kind]
        return out

    def run(self, feeds):
        values = dict(self.constants)
        sizes = {}
        for name, kind, sides in self.inputs:
            assert feeds[name].dtype == kind, name
            self.check_sides(feeds[name], sides, sizes)
            values[name] = feeds[name]
        for inputs, output, kind, attributes in self.nodes:
            values[output] = OPERATIONS[kind](*(values[name] for name in inputs), **attributes)
        for name, kind, sides in self.outputs:
            assert values[name].dtype == kind, name
            self.check_sides(values[name], sides, sizes)
        return {name: values[name] for name, *_ in self.outputs}

    @staticmethod
    def check_sides(value, sides, sizes):
        assert value.ndim == len(sides), (value.shape, sides)
        for size, side in zip(value.shape, sides):
            assert size == (sizes.setdefault(side, size) if isinstance(side, str) else side), (value.shape, sides)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_normalization(x, weight, bias=np.float32(0), axis=-1, epsilon=1e-5):
    mean = x.mean(axis=axis, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=axis, keepdims=True)
    return ((x - mean) / np.sqrt(variance + np.float32(epsilon)) * weight + bias).astype(np.float32)


def reshape(x, shape):
    return x.reshape([x.shape[i] if side == 0 else side for i, side in enumerate(shape)])


def gemm(a, b, c=np.float32(0), transB=0):
    return a @ (b.T if transB else b) + c


OPERATIONS = {
    'Add': np.add, 'Sub': np.subtract, 'Mul': np.multiply, 'Div': np.divide, 'MatMul': np.matmul, 'Tanh': np.tanh,
    'Identity': lambda x: x, 'Relu': lambda x: np.maximum(x, 0), 'Sigmoid': lambda x: 1 / (1 + np.exp(-x)),
    'Erf': np.vectorize(math.erf, otypes=[np.float32]), 'Cast': lambda x, to: x.astype(TYPES[to]),
    'Shape': lambda x: np.array(x.shape, np.int64), 'Range': lambda a, b, step: np.arange(a, b, step, dtype=np.int64),
    'Gather': lambda x, at, axis: np.take(x, at, axis=axis), 'Gemm': gemm, 'Reshape': reshape,
    'Abs': np.abs, 'Greater': np.greater, 'Expand': lambda x, shape: x * np.ones(shape, x.dtype),
    'GatherElements': lambda x, at, axis: np.take_along_axis(x, at, axis=axis),
    'Transpose': lambda x, perm: np.transpose(x, perm), 'Concat': lambda *x, axis: np.concatenate(x, axis=axis),
    'Softmax': softmax, 'LayerNormalization': layer_normalization,
    'Squeeze': lambda x, axes: np.squeeze(x, tuple(axes)), 'Unsqueeze': lambda x, axes: np.expand_dims(x, tuple(axes)),
    'ReduceSum': lambda x, axes, keepdims: x.sum(tuple(axes), keepdims=bool(keepdims)),
    'ReduceMax': lambda x, axes, keepdims: x.max(tuple(axes), keepdims=bool(keepdims)),
}


def read_golden(path):
    data = path.read_bytes()
    size = struct.unpack('<Q', data[:8])[0]
    kinds = {'F32': np.float32, 'I32': np.int32, 'I64': np.int64, 'U8': np.uint8}
    return {name: np.frombuffer(data[8 + size + entry['data_offsets'][0]:8 + size + entry['data_offsets'][1]],
                                kinds[entry['dtype']]).reshape(entry['shape'])
            for name, entry in json.loads(data[8:8 + size]).items() if name != '__metadata__'}


def padded_batch(golden):
    """The texts behind one another, as rows with ids 0 behind their end."""
    lengths = golden['lengths']
    shape = (len(lengths), int(lengths.max()))
    feeds = {name: np.zeros(shape, np.int64) for name in ('input_ids', 'attention_mask', 'token_type_ids')}
    start = 0
    for row, length in enumerate(lengths):
        feeds['input_ids'][row, :length] = golden['ids'][start:start + length]
        feeds['token_type_ids'][row, :length] = golden['types'][start:start + length]
        feeds['attention_mask'][row, :length] = 1
        start += length
    return feeds


def run_segments(folder, feeds, exits):
    """Every text leaves at another exit, and is no longer there for what follows; [texts] of {exit: outputs}."""
    index = json.loads((folder / 'onnx.json').read_text())
    left = np.arange(len(feeds['input_ids']))
    seen = [{} for _ in left]
    given = feeds
    for number, segment in enumerate(index['segments']):
        graph = Graph(folder / segment['file'])
        out = graph.run({name: given[name] for name, *_ in graph.inputs})
        for row, which in enumerate(left):
            seen[which][number] = {name: value[row] for name, value in out.items() if name != 'hidden_out'}
        if 'hidden_out' not in out:
            assert number == exits - 1
            break
        stays = np.flatnonzero(left % exits != number)
        left = left[stays]
        given = {'hidden': out['hidden_out'][stays], 'attention_mask': given['attention_mask'][stays]}
        if not len(left):
            break
    return seen


def worst_of(folder, golden):
    feeds = padded_batch(golden)
    graph = Graph(folder / 'all_exits.onnx')
    out = graph.run(feeds)
    exits = golden['logits'].shape[1]
    assert graph.notes['exeunt.exits'] == ','.join(str(layer) for layer in golden['exits']), graph.notes
    assert set(out) == {'logits'} | {name for name in ('lte', 'ramp') if name in golden}, set(out)
    worst = max(float(np.abs(out[name] - golden[name].reshape(out[name].shape)).max()) for name in out)
    for text, seen in enumerate(run_segments(folder, feeds, exits)):
        assert len(seen) == (text % exits) + 1, 'a text runs until it leaves'
        for number, values in seen.items():
            for name, value in values.items():
                wanted = golden[name][text] if name == 'ramp' else golden[name][text][number]
                worst = max(worst, float(np.abs(value - wanted).max()))
    return worst


def main():
    exeunt, tests = sys.argv[1], pathlib.Path(sys.argv[2])
    failed = done = 0
    for path in sorted((tests / 'golden').glob('*/golden.safetensors')):
        golden = read_golden(path)
        if 'logits' not in golden or len(sys.argv) > 3 and path.parent.name not in sys.argv[3:]:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch) / 'onnx'
            subprocess.run([exeunt, 'export', 'onnx', path.parent, '--out', out, '-q'], check=True, capture_output=True)
            worst = worst_of(out, golden)
        done += 1
        if not worst <= TOLERANCE:
            failed += 1
        if failed or len(sys.argv) > 3:
            print(f'{path.parent.name}: off by {worst:.1e}, want at most {TOLERANCE}')
    print(f'{done - failed} of {done} models agree')
    return failed or done < 30


if __name__ == '__main__':
    sys.exit(bool(main()))
