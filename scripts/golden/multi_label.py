#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden model of several labels without transformers: its classifier hf_bert_classifier under another problem_type.

  multi_label.py GOLDENS                writes GOLDENS/hf_bert_multi_label from GOLDENS/hf_bert_classifier

The weights, and the logits that transformers computed, stay; NumPy computes in double precision what a problem of several labels
makes of them: scores (sigmoid) and loss (binary cross entropy, the mean over labels) with labels drawn at random. models.py writes
the same folder with transformers' own loss.
"""
import json
import shutil
import struct
import sys
from pathlib import Path

import numpy

TYPES = {'F32': '<f4', 'I32': '<i4', 'U8': 'u1'}


def read(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from('<Q', data)
    header = json.loads(data[8:8 + size])
    header.pop('__metadata__', None)
    return {name: numpy.frombuffer(data[8 + size:][slice(*entry['data_offsets'])], TYPES[entry['dtype']]).reshape(entry['shape'])
            for name, entry in header.items()}


def write(path, tensors, metadata):
    names = {numpy.dtype(code): name for name, code in TYPES.items()}
    header, body = {'__metadata__': metadata}, b''
    for name, values in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        header[name] = {'dtype': names[values.dtype], 'shape': list(values.shape), 'data_offsets': [len(body), len(body) + values.nbytes]}
        body += values.tobytes()
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + body)


def main(goldens):
    source, out = goldens / 'hf_bert_classifier', goldens / 'hf_bert_multi_label'
    out.mkdir(exist_ok=True)
    shutil.copyfile(source / 'model.safetensors', out / 'model.safetensors')
    config = json.loads((source / 'config.json').read_text())
    config['problem_type'] = 'multi_label_classification'
    (out / 'config.json').write_text(json.dumps(config, indent=2) + '\n')
    tensors = read(source / 'golden.safetensors')
    logits = tensors['logits'][:, -1].astype(numpy.float64)
    labels = numpy.random.default_rng(86).integers(0, 2, logits.shape).astype(numpy.float64)
    scores = 1 / (1 + numpy.exp(-logits))
    loss = -(labels * numpy.log(scores) + (1 - labels) * numpy.log(1 - scores)).mean(axis=1)
    for name, values in (('labels', labels), ('scores', scores), ('loss', loss)):
        tensors[name] = values.astype('<f4')
    write(out / 'golden.safetensors', tensors, {'format': 'exeunt.golden/1', 'numpy': numpy.__version__})


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
