#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes large inputs for fuzz targets: each repeats one thing until a reader's size limit is near.

    limit_seeds.py FOLDER        makes FOLDER/TARGET/*

They are too large for git and for mutation; `scripts/fuzz` runs each once, within the budget of time and memory.
"""
import gzip
import io
import json
import pathlib
import struct
import sys
import zipfile

MIB = 1 << 20
JSON = {'objects': '{}', 'lists': '[]', 'numbers': '1', 'texts': '""', 'nested': '{"a":{"b":[]}}'}


def listed(item, size):
    return '[' + ','.join([item] * (size // (len(item) + 1))) + ']'


def safetensors(header):
    text = header.encode()
    return len(text).to_bytes(8, 'little') + text


def members(count, value):
    return '{' + ','.join(f'"k{i}":{value}' for i in range(count)) + '}'


def http(body):
    return f'POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}'.encode()


def learned(**lists):
    header, data = {}, b''
    for name, numbers in lists.items():
        piece = struct.pack(f'<{len(numbers)}q', *numbers)
        header[name] = {'dtype': 'I64', 'shape': [len(numbers)], 'data_offsets': [len(data), len(data) + len(piece)]}
        data += piece
    return safetensors(json.dumps(header)) + data


def npy(header):
    return b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header.encode()


def zipped(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as archive:
        for i in range(entries):
            archive.writestr(f'a/data/{i}', b'x')
    return out.getvalue()


def seeds():
    for name, item in JSON.items():
        yield 'safetensors', name, safetensors('{"x":' + listed(item, 8 * MIB - 64) + '}')
        yield 'http', name, http('{"inputs":"a","z":' + listed(item, 3000) + '}')
        for target in ('config_json', 'policy_file', 'profile', 'scores'):
            yield target, name, ('{"x":' + listed(item, 16 * MIB - 64) + '}').encode()
        yield 'tokenizer_json', name, ('{"x":' + listed(item, 64 * MIB - 64) + '}').encode()
        yield 'jsonl', name, (listed(item, MIB) + '\n').encode()
    entry = ('{"device":"cpu","engine":"e%d","numerics":1,"precision":"fp32","exits":[1],"decision_temperature":[1],'
             '"score_temperature":[1],"policy":"entropy:0.2","points":[]}')
    entries = '[' + ','.join(entry % i for i in range(12_000)) + ']'
    yield 'policy_file', 'entries', ('{"format":"exeunt.policy/3","weights":"' + 'a' * 64 + '","default_precision":"fp32",'
                                     '"entries":' + entries + '}').encode()
    tensor = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    yield 'safetensors', 'tensors', safetensors(members(49_000, tensor))
    yield 'safetensors', 'metadata', safetensors('{"__metadata__":' + members(200_000, '"v"') + '}')
    doubling = '{"type":"Replace","pattern":{"String":"a"},"content":"aa"}'
    steps = '{"type":"Sequence","normalizers":[' + ','.join([doubling] * 40) + ']}'
    model = '{"type":"WordPiece","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}'
    yield 'tokenizer_json', 'doubling', ('{"version":"1.0","normalizer":' + steps + ',"model":' + model + '}').encode()
    tokens = ','.join(f'{{"id":{i + 2},"content":"t{i}"}}' for i in range(40_000))
    yield 'tokenizer_json', 'added', ('{"version":"1.0","added_tokens":[' + tokens + '],"model":' + model + '}').encode()
    nested = ','.join(f'{{"id":{i + 2},"content":"{"b" * (i + 2)}","special":true}}' for i in range(2_000))
    yield 'tokenizer_json', 'nested', ('{"version":"1.0","added_tokens":[' + nested + '],"model":' + model + '}').encode()
    pieces = ','.join(f'["{"a" * (i + 1)}",-1.5]' for i in range(1_000))
    unigram = '{"type":"Unigram","unk_id":0,"vocab":[["?",0.0],' + pieces + ']}'
    yield 'tokenizer_json', 'pieces', ('{"version":"1.0","normalizer":{"type":"NFKC"},"model":' + unigram + '}').encode()
    for name, item in JSON.items():
        for target in ('features', 'learned', 'trace'):
            yield target, name, safetensors('{"__metadata__":' + listed(item, 8 * MIB - 64) + '}')
        yield 'shadow_log', name, (listed(item, 4000) + '\n').encode() * 250
        yield 'shards', name, ('{"format":"exeunt.shard/1","x":' + listed(item, MIB) + '}\n').encode()
    lengths = range(4, 1 << 17)
    yield 'learned', 'lengths', learned(salt=[1, 2], rows=[1], lengths=lengths, max_lengths=[128], filter=[-1])
    # libstdc++'s set of so many has 172933 buckets, and would keep all of these in one.
    rows = [172933 * i for i in range(1 << 17)]
    yield 'learned', 'rows', learned(salt=[1, 2], rows=rows, lengths=[4], max_lengths=[128], filter=[0] * (1 << 17))
    yield 'pickle', 'dicts', b'\x80\x02](' + b'}' * MIB + b'e.'
    yield 'pickle', 'tuples', b'\x80\x02](' + b']\x85' * (MIB // 2) + b'e.'
    yield 'pickle', 'memo', b'\x80\x02' + b''.join(b'Nr' + i.to_bytes(4, 'little') for i in range(150_000)) + b'.'
    yield 'torch_legacy', 'dicts', b'\x80\x02](' + b'}' * MIB + b'e.'
    yield 'npy', 'shape', npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + '1, ' * 20_000 + ')}')
    yield 'torch_zip', 'entries', zipped(60_000)
    yield 'spiece_model', 'pieces', b'\x0a\x03\x0a\x01x' * (4 * MIB // 5)
    yield 'tf_index', 'zeros', bytes(MIB)
    yield 'bpe', 'merges', b'a b\n' * (MIB // 4)
    yield 'texts', 'lines', b'a\n' * (MIB // 2)
    yield 'texts', 'line', b'a' * MIB
    yield 'policy', 'digits', b'entropy:0.' + b'1' * 4000
    yield 'socket', 'choices', bytes(range(256)) * 256
    yield 'gunzip', 'zeros', gzip.compress(bytes(MIB), 9)
    yield 'gunzip', 'members', gzip.compress(b'x') * 40_000
    yield 'csv', 'quotes', b'"' * MIB
    yield 'csv', 'commas', b'text,label\n' + b',' * MIB
    yield 'tsv', 'tabs', b'\t' * MIB
    yield 'wordpiece', 'ligatures', b'a\n\n' + '\uFDFA'.encode() * 20_000
    yield 'wordpiece', 'long', b'a\n' * 1000 + b'\n\n' + b'a' * (64 << 10)


def main():
    folder = pathlib.Path(sys.argv[1])
    for target, name, content in seeds():
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(content)


if __name__ == '__main__':
    main()
