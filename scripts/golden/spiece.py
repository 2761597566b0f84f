#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/text/golden/spiece.jsonl: texts, and what ALBERT's slow tokenizer around SentencePiece makes of them.

    /usr/bin/python3 scripts/golden/spiece.py > tests/fixtures/text/golden/spiece.jsonl
    /usr/bin/python3 scripts/golden/spiece.py --model MODEL < TEXTS      one line of ids for each line of text

Made with sentencepiece 0.1.97 (Debian 12, python3-sentencepiece) over the small model of tests/fixtures/text/cases/unigram. Around
it: preprocess_text and _tokenize of transformers' AlbertTokenizer up to 4.39, and truncation as its slow tokenizers do it.
"""
import argparse
import json
import random
import sys
import unicodedata
from pathlib import Path

import sentencepiece

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / 'tests/fixtures/text/cases/unigram'
SPECIAL = ('[CLS]', '[SEP]', '<unk>', '<pad>', '[MASK]')
MARK = '\u2581'
TEXTS = ('', ' ', '\t\n', 'well-known', 'a\u2003b\x1cc', "``it's''", 'É è', '[MASK] a', 'a[SEP]b', 'A  (b) "c"', '1, 2,3, 10,',
         '\u00bd, \u00b2,', 'x' * 40, '\u4e2d\u6587 \u65e5\u672c', '\u2581a \u2581', '- - -', 'a\u0300\u0345', '\ufb01n', 'a\0b',
         '\U0001f600, ok', '50,000,', 'in,', '(,', '\u0663,', '£5, €6,')


class Slow:
    def __init__(self, path, lower=True, keep_accents=False, remove_space=True):
        self.model = sentencepiece.SentencePieceProcessor()
        self.model.Load(str(path))
        self.lower, self.keep_accents, self.remove_space = lower, keep_accents, remove_space

    def prepared(self, text):
        out = ' '.join(text.strip().split()) if self.remove_space else text
        out = out.replace('``', '"').replace("''", '"')
        if not self.keep_accents:
            out = ''.join(c for c in unicodedata.normalize('NFKD', out) if not unicodedata.combining(c))
        return out.lower() if self.lower else out

    def pieces(self, text):
        out = []
        for piece in self.model.EncodeAsPieces(self.prepared(text)):
            if len(piece) > 1 and piece[-1] == ',' and piece[-2].isdigit():
                inner = self.model.EncodeAsPieces(piece[:-1].replace(MARK, ''))
                if piece[0] != MARK and inner[0][0] == MARK:
                    inner = inner[1:] if len(inner[0]) == 1 else [inner[0][1:]] + inner[1:]
                out += inner + [piece[-1]]
            else:
                out.append(piece)
        return out

    def ids(self, text):
        out, done = [], 0
        while done < len(text):
            places = [(text.find(token, done), token) for token in SPECIAL if token in text[done:]]
            at, token = min(places, default=(len(text), ''))
            out += [self.model.PieceToId(piece) for piece in self.pieces(text[done:at])]
            if token:
                out.append(self.model.PieceToId(token))
            done = at + max(1, len(token)) if token else len(text)
        return out

    def encode(self, text, pair=None, most=512):
        first, second = self.ids(text), None if pair is None else self.ids(pair)
        while len(first) + len(second or []) + (2 if second is None else 3) > most:
            if second is None or len(first) > len(second):
                first.pop()
            else:
                second.pop()
        cls, sep = self.model.PieceToId('[CLS]'), self.model.PieceToId('[SEP]')
        ids, types = [cls, *first, sep], [0] * (len(first) + 2)
        return (ids, types) if second is None else (ids + second + [sep], types + [1] * (len(second) + 1))


def usable(text):
    """Valid Unicode (a lone surrogate cannot be handed to sentencepiece), and no marks of Unicode 13 and later, which the
    tables of the two do not have alike."""
    if any('\u1abf' <= c <= '\u1aff' for c in text):
        return False
    try:
        text.encode('utf-8')
    except UnicodeEncodeError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model')
    flags = parser.parse_args()
    if flags.model:
        slow = Slow(flags.model)
        for line in sys.stdin.buffer:
            print(*slow.encode(line.decode().removesuffix('\n'), most=1 << 20)[0])
        return
    shapes = {'': {}, 'cased': {'lower': False, 'keep_accents': True}, 'spaces': {'remove_space': False}}
    tokenizers = {name: Slow(SMALL / 'spiece.model', **settings) for name, settings in shapes.items()}
    texts = list(TEXTS)
    texts += [json.loads(line)['text'] for line in (SMALL / 'cases.jsonl').read_text(encoding='utf-8').split('\n') if line][:600]
    texts, chosen = [text for text in texts if usable(text)], random.Random(7)
    for place, text in enumerate(texts):
        shape = ('', '', 'cased', 'spaces')[place % 4]
        case = {'text': text, 'settings': shape}
        if place % 5 == 4:
            case |= {'pair': chosen.choice(texts), 'max_length': chosen.choice((7, 12, 20, 33))}
        ids, types = tokenizers[shape].encode(text, case.get('pair'), case.get('max_length', 512))
        print(json.dumps(case | {'ids': ids, 'types': types}, ensure_ascii=False))


if __name__ == '__main__':
    main()
