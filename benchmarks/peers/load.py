#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and start-up time of `exeunt predict`: packed weights, resident memory with the model loaded, its
highest value, and the whole command from its start to the end of one answer (the model's file in the page cache).

    load.py [--model DIR] [--program build/bench/bin/exeunt] [--precision fp32,bf16,int8] [--into RESULT.json]

Without --model: BERT-base with random weights and two classes, made in a temporary folder (needs numpy).
"""
import argparse
import json
import re
import struct
import subprocess
import tempfile
import time
from pathlib import Path

MIB = 1024 * 1024


def bert_base_shapes(layers=12, hidden=768, inner=3072, words=30522):
    shapes = {'bert.embeddings.word_embeddings.weight': [words, hidden],
              'bert.embeddings.position_embeddings.weight': [512, hidden],
              'bert.embeddings.token_type_embeddings.weight': [2, hidden],
              'bert.pooler.dense.weight': [hidden, hidden], 'bert.pooler.dense.bias': [hidden],
              'classifier.weight': [2, hidden], 'classifier.bias': [2]}
    norms = ['bert.embeddings.LayerNorm']
    for i in range(layers):
        layer = f'bert.encoder.layer.{i}'
        products = [(f'attention.self.{part}', hidden, hidden) for part in ('query', 'key', 'value')]
        products += [('attention.output.dense', hidden, hidden), ('intermediate.dense', inner, hidden), ('output.dense', hidden, inner)]
        for name, rows, columns in products:
            shapes[f'{layer}.{name}.weight'], shapes[f'{layer}.{name}.bias'] = [rows, columns], [rows]
        norms += [f'{layer}.attention.output.LayerNorm', f'{layer}.output.LayerNorm']
    shapes.update({f'{norm}.{part}': [hidden] for norm in norms for part in ('weight', 'bias')})
    return shapes


def make_bert_base(program, scratch):
    """A Hugging Face folder with random weights, and its conversion to our format."""
    import numpy
    source, random = Path(scratch, 'hf'), numpy.random.default_rng(1)
    source.mkdir()
    header, offset, shapes = {}, 0, bert_base_shapes()
    for name, shape in shapes.items():
        size = 4 * int(numpy.prod(shape))
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with open(source / 'model.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for shape in shapes.values():
            file.write((0.02 * random.standard_normal(shape, dtype=numpy.float32)).tobytes())
    (source / 'config.json').write_text(json.dumps({
        'model_type': 'bert', 'architectures': ['BertForSequenceClassification'], 'hidden_size': 768, 'num_hidden_layers': 12,
        'num_attention_heads': 12, 'intermediate_size': 3072, 'vocab_size': 30522, 'max_position_embeddings': 512,
        'type_vocab_size': 2, 'hidden_act': 'gelu', 'layer_norm_eps': 1e-12, 'pad_token_id': 0}))
    words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'fine', 'film']
    (source / 'vocab.txt').write_text('\n'.join(words + [f'word{i}' for i in range(30522 - len(words))]) + '\n')
    subprocess.run([program, 'convert', source, '--out', f'{scratch}/ours', '-q'], check=True)
    return f'{scratch}/ours'


def status_mib(pid, field):
    text = Path(f'/proc/{pid}/status').read_text(encoding='utf-8')
    return int(re.search(rf'^{field}:\s+(\d+) kB', text, re.M).group(1)) / 1024


def whole_command_ms(command):
    start = time.perf_counter()
    subprocess.run(command, input='a fine film\n', text=True, check=True, capture_output=True)
    return 1e3 * (time.perf_counter() - start)


def measure(program, model, precision):
    command = [program, 'predict', model, '--precision', precision, '-q']
    whole_command_ms(command)  # the page cache
    first_answer_ms = min(whole_command_ms(command) for _ in range(3))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        process.stdin.write('a fine film\n')
        process.stdin.flush()
        time.sleep(3)  # loaded, and waiting for more
        resident, highest = status_mib(process.pid, 'VmRSS'), status_mib(process.pid, 'VmHWM')
        process.stdin.close()
        process.wait()
    bench = json.loads(subprocess.run(
        [program, 'bench', '--shape', model, '--precision', precision, '--lengths', '16', '--seconds', '0.1', '--json', '-q'],
        check=True, capture_output=True, text=True).stdout)
    return {'precision': precision, 'packed_mib': bench['weight_bytes'] / MIB, 'resident_mib': resident,
            'peak_mib': highest, 'first_answer_ms': first_answer_ms}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', help='a folder of ours')
    parser.add_argument('--program', default=str(Path(__file__).resolve().parents[2] / 'build/bench/bin/exeunt'))
    parser.add_argument('--precision', default='fp32,bf16,int8')
    parser.add_argument('--into', help="a result of benchmarks/peers/encoder, whose part 'load' this becomes")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = flags.model or make_bert_base(flags.program, scratch)
        rows = [measure(flags.program, model, precision) for precision in flags.precision.split(',')]
    print(json.dumps(rows, indent=1))
    if flags.into:
        path = Path(flags.into)
        result = json.loads(path.read_text(encoding='utf-8'))
        result['load'] = rows
        path.write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main()
