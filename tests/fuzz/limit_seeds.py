#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes large inputs for fuzz targets: each repeats one thing until a reader's size limit is near.

    limit_seeds.py FOLDER        makes FOLDER/TARGET/*

They are too large for git and for mutation; `scripts/fuzz` runs each once, within the budget of time and memory.
"""
import pathlib
import sys

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


def seeds():
    for name, item in JSON.items():
        yield 'safetensors', name, safetensors('{"x":' + listed(item, 15 * MIB) + '}')
        yield 'http', name, http('{"inputs":"a","z":' + listed(item, 3000) + '}')
        for target in ('config_json', 'policy_file', 'profile', 'scores', 'tokenizer_json'):
            yield target, name, ('{"x":' + listed(item, 4 * MIB) + '}').encode()
        yield 'jsonl', name, (listed(item, MIB) + '\n').encode()
    tensor = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    yield 'safetensors', 'tensors', safetensors(members(49_000, tensor))
    yield 'safetensors', 'metadata', safetensors('{"__metadata__":' + members(200_000, '"v"') + '}')
    doubling = '{"type":"Replace","pattern":{"String":"a"},"content":"aa"}'
    steps = '{"type":"Sequence","normalizers":[' + ','.join([doubling] * 40) + ']}'
    model = '{"type":"WordPiece","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}'
    yield 'tokenizer_json', 'doubling', ('{"version":"1.0","normalizer":' + steps + ',"model":' + model + '}').encode()
    tokens = ','.join(f'{{"id":{i + 2},"content":"t{i}"}}' for i in range(40_000))
    yield 'tokenizer_json', 'added', ('{"version":"1.0","added_tokens":[' + tokens + '],"model":' + model + '}').encode()
    yield 'csv', 'quotes', b'"' * MIB
    yield 'csv', 'commas', b'text,label\n' + b',' * MIB
    yield 'tsv', 'tabs', b'\t' * MIB
    yield 'wordpiece', 'long', b'a\n' * 1000 + b'\n\n' + b'a' * (64 << 10)


def main():
    folder = pathlib.Path(sys.argv[1])
    for target, name, content in seeds():
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(content)


if __name__ == '__main__':
    main()
