#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of files that are made to hurt a reader, beside ordinary ones of the same size; see README.md.

    crafted.py EXEUNT TESTS [--out FILE] [--only NAME]
"""
import argparse
import base64
import datetime
import gzip
import json
import os
import pathlib
import platform
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts/golden'))
import torch_files  # noqa: E402

FLOOR_S, FLOOR_MIB, MOST = 0.1, 48, 2
# Exit statuses of the crafted file and of the control where they are not 0: a file that is refused before it is read shows nothing.
STATUS = {'gzip': (4, 0), 'safetensors_header': (4, 4), 'config_json': (4, 4), 'policy_json': (4, 4), 'torch_zip': (4, 4),
          'torch_legacy': (4, 4)}
MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


# A process begins with the peak of the one that started it, which has numpy: a small one in between does that.
LAUNCH = """
import json, resource, subprocess, sys
try:
    status = subprocess.run(sys.argv[2:], stdin=open(sys.argv[1]), stdout=-3, stderr=-3, timeout=300).returncode
except subprocess.TimeoutExpired:
    status = -1
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"seconds": round(used.ru_utime + used.ru_stime, 3), "mib": round(used.ru_maxrss / 1024, 1), "status": status}))
"""


def measure(command, stdin=os.devnull):
    """Processor time, peak memory and exit status of a command; its output is not looked at."""
    done = subprocess.run([sys.executable, '-S', '-c', LAUNCH, str(stdin), *command], capture_output=True, check=True)
    return json.loads(done.stdout)


def write_safetensors(path, tensors, metadata=None):
    """tensors: name → (dtype, shape, bytes)."""
    header, body = {}, b''
    if metadata:
        header['__metadata__'] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + body)


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop('__metadata__', None)
    body = data[8 + size:]
    return {name: (one['dtype'], one['shape'], body[slice(*one['data_offsets'])]) for name, one in header.items()}, metadata


class Trial:
    def __init__(self, program, tests, folder):
        self.program, self.tests, self.folder = program, tests, folder
        self.random = random.Random(1)

    def copy(self, source, name):
        target = self.folder / name
        shutil.copytree(self.tests / source, target)
        return target

    def tokenize(self, model, text, *flags):
        path = self.folder / 'text'
        path.write_text(text + '\n', encoding='utf-8')
        return measure([self.program, 'tokenize', str(model), '--max-length', '128', *flags], stdin=path)

    def words(self, count, length):
        return [''.join(self.random.choices('abcdefghijklmnopqrstuvwxyz', k=length)) for _ in range(count)]

    # Each case returns the figures of the crafted file and of the control, and their sizes.

    def case_vocab_txt(self):
        """Words of 8 bytes whose hash has the same first bits where it has no secret: found by inverting it."""
        count, bits = 40_000, 17
        found = set()
        generator = numpy.random.default_rng(1)
        inverse = [pow(factor, -1, 1 << 64) for factor in MIX]

        def unshift(x, by):
            y = x
            for _ in range(64 // by):
                y = x ^ (y >> numpy.uint64(by))
            return y
        with numpy.errstate(over='ignore'):
            while len(found) < count:
                x = generator.integers(0, 1 << (64 - bits), 1 << 22, dtype=numpy.uint64)  # the same first bits
                for _ in range(2):  # slot_of() mixes twice; the second word of a short key is 0
                    x = unshift(x, 31)
                    x = unshift(x * numpy.uint64(inverse[1]), 27)
                    x = unshift(x * numpy.uint64(inverse[0]), 30)
                low = x - numpy.uint64(8)
                as_bytes = low.view(numpy.uint8).reshape(-1, 8)
                good = ((as_bytes > 0x20) & (as_bytes < 0x7F)).all(axis=1)
                found.update(row.tobytes().decode() for row in as_bytes[good])
        special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
        made = []
        for name, words in (('crafted', sorted(found)[:count]), ('control', sorted(set(self.words(count, 8))))):
            model = self.copy('text/cases/wordpiece_uncased', name)
            (model / 'vocab.txt').write_text('\n'.join(special + words) + '\n')
            made.append((self.tokenize(model, 'a text'), (model / 'vocab.txt').stat().st_size))
        return made

    def tokenizer_json(self, name, model, added=(), normalizer=None):
        folder = self.folder / name
        folder.mkdir()
        (folder / 'tokenizer.json').write_text(json.dumps({
            'version': '1.0', 'added_tokens': list(added), 'normalizer': normalizer, 'pre_tokenizer': None,
            'post_processor': None, 'decoder': None, 'model': model}))
        return folder

    def case_added_tokens(self):
        made = []
        for name, letter in (('crafted', lambda i: 'a'), ('control', lambda i: self.random.choice('bcdefgh'))):
            texts = sorted({''.join(letter(i) for i in range(length)) for length in range(2, 1200)})
            added = [{'id': 2 + i, 'content': text, 'single_word': False, 'lstrip': False, 'rstrip': False,
                      'normalized': False, 'special': True} for i, text in enumerate(texts)]
            model = {'type': 'WordPiece', 'unk_token': '?', 'continuing_subword_prefix': '##',
                     'max_input_chars_per_word': 100, 'vocab': {'?': 0, 'a': 1}}
            folder = self.tokenizer_json(name, model, added)
            made.append((self.tokenize(folder, 'a' * 200_000), (folder / 'tokenizer.json').stat().st_size))
        return made

    def unigram(self, pieces):
        return {'type': 'Unigram', 'unk_id': 0, 'byte_fallback': False, 'vocab': [['?', 0.0]] + pieces}

    def case_spiece_trie(self):
        units = 512
        looping = [0] * units
        looping[0] = 0x100 << 10
        looping[0x161] = (0x61 << 10) | 0x61  # from 'a' back to itself
        made = []
        for name, trie in (('crafted', looping), ('control', [0x100 << 10] + [0] * (units - 1))):
            charsmap = struct.pack('<I', 4 * units) + struct.pack(f'<{units}I', *trie) + b'\0'
            normalizer = {'type': 'Precompiled', 'precompiled_charsmap': base64.b64encode(charsmap).decode()}
            folder = self.tokenizer_json(name, self.unigram([['a', -1.0]]), normalizer=normalizer)
            made.append((self.tokenize(folder, 'a' * 80_000), (folder / 'tokenizer.json').stat().st_size))
        return made

    def case_unigram_pieces(self):
        made = []
        for name, nested in (('crafted', True), ('control', False)):
            pieces = []
            for first in 'abcdefghijklmnopqrst':
                for length in range(1, 700):
                    rest = 'z' * length if nested else ''.join(self.random.choices('uvwxyz', k=length))
                    pieces.append([first + rest, -1.0 - length])
            folder = self.tokenizer_json(name, self.unigram(pieces))
            made.append((self.tokenize(folder, 'az' * 1000), (folder / 'tokenizer.json').stat().st_size))
        return made

    def case_learned_rows(self):
        made = []
        texts = self.folder / 'texts.csv'
        texts.write_text('text\n' + '\n'.join(' '.join(self.words(40, 4)) for _ in range(300)) + '\n')
        for name, crafted in (('crafted', True), ('control', False)):
            model = self.folder / name
            subprocess.run([self.program, 'convert', str(self.tests / 'checkpoints/bert-deebert'), '--out', str(model), '-q'],
                           check=True, stdout=subprocess.DEVNULL)
            count = 100_000
            rows = numpy.sort(numpy.random.default_rng(2).integers(0, 1 << 62, 1 if crafted else count, dtype=numpy.int64))
            lengths = numpy.arange(4, count, dtype=numpy.int64) if crafted else numpy.array([4], dtype=numpy.int64)
            listed = {'salt': numpy.array([1, 2]), 'rows': rows, 'lengths': lengths,
                      'max_lengths': numpy.arange(8, 264), 'filter': numpy.full(1024, -1)}
            write_safetensors(model / 'learned.safetensors',
                              {key: ('I64', [len(values)], values.astype(numpy.int64).tobytes()) for key, values in listed.items()},
                              {'format': 'exeunt.learned/1'})
            size = (model / 'learned.safetensors').stat().st_size
            made.append((measure([self.program, 'calibrate', str(model), '--unlabelled', str(texts), '--max-drop', '40%',
                                  '--precision', 'fp32', '--out', str(self.folder / f'{name}.json')]), size))
        return made

    def normalized(self, *flags):
        made = []
        for name, text in (('crafted', 'ﷺ' * 666_666), ('control', 'س' * 1_000_000)):
            figures = [self.tokenize(self.tests / 'text/cases' / family, text, *flags)
                       for family in ('unigram', 'unigram_words', 'wordpiece_uncased', 'bpe')]
            made.append(({'seconds': sum(one['seconds'] for one in figures), 'mib': max(one['mib'] for one in figures),
                          'status': max(one['status'] for one in figures)}, len(text.encode())))
        return made

    def case_normalized_text(self):
        return self.normalized()

    def case_modernbert(self):
        made = []
        for name, positions in (('crafted', 131072), ('control', 512)):
            model = self.copy('golden/heads_modernbert', name)
            sides = {12: 256, 24: 512, 36: 768}
            tensors, metadata = read_safetensors(model / 'model.safetensors')
            blank = {}
            for key, (_, shape, _) in tensors.items():
                shape = [sides.get(side, side) for side in shape]
                blank[key] = ('F32', shape, bytes(4 * int(numpy.prod(shape))))
            write_safetensors(model / 'model.safetensors', blank, metadata)
            for file in ('config.json', 'exits.json'):
                text = (model / file).read_text()
                (model / file).write_text(re.sub(r'(: ?)12\b', r'\g<1>256', text))
            config = json.loads((model / 'config.json').read_text())
            config |= {'max_position_embeddings': positions, 'num_attention_heads': 1}
            (model / 'config.json').write_text(json.dumps(config))
            words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'] + [f'w{i}' for i in range(35)]
            (model / 'vocab.txt').write_text('\n'.join(words) + '\n')
            size = sum(file.stat().st_size for file in model.iterdir())
            made.append((measure([self.program, 'predict', str(model), '--text', 'w1 w2 w3', '--max-length', '64']), size))
        return made

    def case_gzip(self):
        """The control has as many bytes as the crafted file may unpack to: 64 MiB and 100 times its size."""
        rows = 'x' * 999 + ',ham\n' + 'y' * 999 + ',spam\n'
        bomb = gzip.compress(('text,label\n' + rows * 60_000).encode(), 9)
        allowed = (64 << 20) + 100 * len(bomb)
        made = []
        for name, data in (('crafted.csv.gz', bomb), ('control.csv', ('text,label\n' + rows * (allowed // len(rows))).encode())):
            path = self.folder / name
            path.write_bytes(data)
            made.append((measure([self.program, 'data', 'check', str(path)]), len(data)))
        return made

    def case_safetensors_header(self):
        made = []
        for name, crafted in (('crafted', True), ('control', False)):
            model = self.copy('checkpoints/bert-deebert', name)
            names = ['x' * 40 + f'{i:08}' if crafted else self.words(1, 48)[0] for i in range(40_000)]
            size = 0 if crafted else 4
            header = json.dumps({key: {'dtype': 'F32', 'shape': [size // 4], 'data_offsets': [i * size, (i + 1) * size]}
                                 for i, key in enumerate(names)}).encode()
            (model / 'model.safetensors').write_bytes(struct.pack('<Q', len(header)) + header + bytes(size * len(names)))
            made.append((measure([self.program, 'info', str(model)]), (model / 'model.safetensors').stat().st_size))
        return made

    def json_case(self, file):
        made = []
        for name, item in (('crafted', '[],'), ('control', '12345,')):
            model = self.folder / name
            subprocess.run([self.program, 'convert', str(self.tests / 'checkpoints/bert-deebert'), '--out', str(model), '-q'],
                           check=True, stdout=subprocess.DEVNULL)
            if file == 'config.json':
                shutil.rmtree(model)
                shutil.copytree(self.tests / 'checkpoints/bert-deebert', model)
            text = '{"x": [' + item * (8_000_000 // len(item)) + '0]}'
            (model / file).write_text(text)
            made.append((measure([self.program, 'predict', str(model), '--text', 'a film']), len(text)))
        return made

    def case_config_json(self):
        return self.json_case('config.json')

    def case_policy_json(self):
        return self.json_case('policy.json')

    def case_trace(self):
        made = []
        tensors, metadata = read_safetensors(self.tests / 'traces/mnli-exeunt.held.safetensors')
        rows = tensors['index'][1][0]
        generator = numpy.random.default_rng(3)
        for name, hashes in (('crafted', numpy.arange(rows, dtype=numpy.int64) << 32),
                             ('control', generator.integers(0, 1 << 62, rows, dtype=numpy.int64))):
            path = self.folder / f'{name}.safetensors'
            write_safetensors(path, {**tensors, 'row_hash': ('I64', [rows], hashes.tobytes())}, metadata)
            made.append((measure([self.program, 'calibrate', str(path), '--max-drop', '5%', '--out',
                                  str(self.folder / f'{name}.json')]), path.stat().st_size))
        return made

    def case_shadow_log(self):
        model, log = self.folder / 'model', self.folder / 'log'
        subprocess.run([self.program, 'convert', str(self.tests / 'checkpoints/bert-deebert'), '--out', str(model), '-q'],
                       check=True, stdout=subprocess.DEVNULL)
        server = subprocess.Popen([self.program, 'serve', str(model), '--port', '0', '--precision', 'fp32', '--shadow', '1%',
                                   '--shadow-log', str(log), '--json-output'], stderr=subprocess.PIPE, text=True)
        for line in server.stderr:
            if '"message":"listening"' in line:
                break
        server.terminate()
        server.communicate()
        head = log.read_text()
        fields = json.loads(head)
        exits, outputs = len(fields['layers']), fields['outputs']
        made = []
        for name, hashes in (('crafted', [i << 32 for i in range(20_000)]),
                             ('control', [self.random.getrandbits(63) for _ in range(20_000)])):
            path = self.folder / f'{name}.jsonl'
            with open(path, 'w', encoding='utf-8') as file:
                file.write(head)
                for value in hashes:
                    logits = [round(self.random.gauss(0, 1), 3) for _ in range(exits * outputs)]
                    file.write(json.dumps({'time': '2026-01-01T00:00:00Z', 'row_hash': f'{value:016x}', 'tokens': 12,
                                           'logits': logits, 'reference': logits[-outputs:], 'dropped': 0}) + '\n')
            made.append((measure([self.program, 'calibrate', str(model), '--from-server', str(path), '--max-drop', '20%',
                                  '--out', str(self.folder / f'{name}.json')]), path.stat().st_size))
        return made

    def case_torch_zip(self):
        made = []
        for name, crafted in (('crafted', True), ('control', False)):
            model = self.copy('checkpoints/bert-deebert', name)
            (model / 'model.safetensors').unlink()
            path = model / 'pytorch_model.bin'
            with zipfile.ZipFile(path, 'w', zipfile.ZIP_STORED) as archive:
                archive.writestr('a/data.pkl', b'\x80\x02}q\x00.')
                for i in range(20_000):
                    archive.writestr('a/data/' + ('x' * 40 + f'{i:08}' if crafted else self.words(1, 48)[0]), b'x')
            made.append((measure([self.program, 'info', str(model)]), path.stat().st_size))
        return made

    def case_torch_legacy(self):
        """A pickle of one stream; the crafted one's tensors are the whole of one storage, again and again."""
        made = []
        for name, crafted in (('crafted', True), ('control', False)):
            model = self.copy('checkpoints/bert-deebert', name)
            (model / 'model.safetensors').unlink()
            values = [0.0] * 40_000
            whole = torch_files.Storage('FloatStorage', '0', values)
            tensors = {f'{i:08}': torch_files.Tensor(whole, 0 if crafted else i, (len(values) if crafted else 1,), (1,))
                       for i in range(50_000)}
            path = model / 'pytorch_model.bin'
            path.write_bytes(torch_files.as_legacy(tensors, [whole]))
            made.append((measure([self.program, 'info', str(model)]), path.stat().st_size))
        return made

    def case_merges_txt(self):
        """Each token is the one before and a letter more, in a text that is one long word of them."""
        made = []
        for name, letter in (('crafted', lambda i: 'b'), ('control', lambda i: self.random.choice('cdefgh'))):
            model = self.copy('text/cases/bpe', name)
            vocabulary, merges, token = json.loads((model / 'vocab.json').read_text()), [], 'a'
            for i in range(3000):
                merges.append(f'{token} {letter(i)}')
                token = merges[-1].replace(' ', '')
                vocabulary.setdefault(token, len(vocabulary))
            (model / 'vocab.json').write_text(json.dumps(vocabulary))
            with open(model / 'merges.txt', 'a', encoding='utf-8') as file:
                file.write('\n'.join(merges) + '\n')
            made.append((self.tokenize(model, ('a' + 'b' * 3000) * 160), (model / 'merges.txt').stat().st_size))
        return made

    def data_check(self, *flags, **files):
        """`files`: the texts of the crafted file and of the control."""
        made = []
        for name, text in files.items():
            path = self.folder / f'{name}.csv'
            path.write_text(text)
            made.append((measure([self.program, 'data', 'check', str(path), *flags]), len(text)))
        return made

    def case_label_sets(self):
        """30,000 labels, or the same 100 in each row."""
        def text(label):
            return 'text,label\n' + ''.join(f'text {row},' + '|'.join(f'{label(row, i):08}' for i in range(100)) + '\n'
                                            for row in range(300))
        return self.data_check('--multi-label', crafted=text(lambda row, i: 100 * row + i), control=text(lambda row, i: i))

    def case_csv_columns(self):
        """Many columns in few rows, or few in many."""
        def text(rows, columns):
            return ('text,label,' + ','.join(f'c{i:06}' for i in range(columns)) + '\n' +
                    ('a text,yes,' + ',' * (columns - 1) + '\nanother,no,' + ',' * (columns - 1) + '\n') * (rows // 2))
        wide = text(2000, 4000)
        return self.data_check(crafted=wide, control=text(len(wide) // 14, 2))


def processor():
    for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
        if line.startswith('model name'):
            return line.split(':', 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('tests', type=pathlib.Path)
    parser.add_argument('--out', type=pathlib.Path)
    parser.add_argument('--only')
    flags = parser.parse_args()
    program = os.path.abspath(flags.program)
    os.environ['XDG_STATE_HOME'] = ''
    names = [name[5:] for name in vars(Trial) if name.startswith('case_')]
    record, broken = [], []
    if flags.only and flags.out and flags.out.exists():  # the others stay
        record = [row for row in json.loads(flags.out.read_text())['readers'] if row['reader'] != flags.only.replace('_', ' ')]
    for name in names:
        if flags.only and name != flags.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ['XDG_STATE_HOME'] = folder  # the ledger of tries
            trial = Trial(program, flags.tests.resolve(), pathlib.Path(folder))
            (crafted, size), (control, control_size) = getattr(trial, 'case_' + name)()
        row = {'reader': name.replace('_', ' '), 'bytes': size, 'control_bytes': control_size, 'crafted': crafted,
               'control': control,
               'time': round(max(crafted['seconds'], FLOOR_S) / max(control['seconds'], FLOOR_S), 2),
               'memory': round(max(crafted['mib'], FLOOR_MIB) / max(control['mib'], FLOOR_MIB), 2)}
        statuses = crafted['status'], control['status']
        row['kept'] = row['time'] <= MOST and row['memory'] <= MOST and statuses == STATUS.get(name, (0, 0))
        record.append(row)
        if not row['kept']:
            broken.append(row['reader'])
        print(f"{row['reader']:20} {size:>9} B  {crafted['seconds']:7.2f} s {crafted['mib']:7.1f} MiB ({crafted['status']})  "
              f"control {control['seconds']:7.2f} s {control['mib']:7.1f} MiB ({control['status']})  "
              f"time {row['time']:5.2f}x memory {row['memory']:5.2f}x {'' if row['kept'] else 'BROKEN'}", flush=True)
    build = json.loads(subprocess.run([program, 'doctor', '--json'], capture_output=True, text=True, check=True).stdout)
    if flags.out:
        flags.out.write_text(json.dumps({
            'date': datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ'), 'version': build['version'],
            'commit': build['commit'], 'machine': {'cpu': processor(), 'cores': os.cpu_count()}, 'most': MOST,
            'floor_seconds': FLOOR_S, 'floor_mib': FLOOR_MIB, 'readers': record}, indent=1) + '\n')
    if broken:
        print('more than twice the control, or another exit status than expected:', ', '.join(broken))
    return 1 if broken else 0


if __name__ == '__main__':
    sys.exit(main())
