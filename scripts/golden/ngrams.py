#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/golden/ngrams.json: texts as token ids and the places of their hashed n-grams (exit 0).

  python3 scripts/golden/ngrams.py > tests/fixtures/golden/ngrams.json
Written from docs/formats.md, not from the C++ source: whole words are built first, then cut.
"""
import json

MASK = (1 << 64) - 1
TOKEN, PAIR, WORD, BYTES = 1, 2, 3, 4
MAX_WORD, LENGTHS = 48, (3, 4, 5)


def place(kind, text, value, bits):
    hashed = (value + 0x9E3779B97F4A7C15 * (8 * text + kind)) & MASK
    hashed = ((hashed ^ (hashed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    hashed = ((hashed ^ (hashed >> 27)) * 0x94D049BB133111EB) & MASK
    return (hashed ^ (hashed >> 31)) >> (64 - bits)


def joined(part):
    out = len(part)
    for byte in part:
        out = ((out ^ byte) * 0x100000001B3) & MASK
    return out


def features(tokens, ids, bits):
    """In the order of the C++ source: those of a word come when it ends."""
    runs, run = [], []  # texts between special tokens
    for one in ids + [None]:
        if one is None or not tokens[one]:
            if run:
                runs.append(run)
            run = []
        else:
            run.append(one)
    out = []
    for text, run in enumerate(runs, 1):
        words = []
        for at, one in enumerate(run):
            piece = tokens[one].encode()
            if at == 0 or piece.startswith(b' '):
                words.append([])
            words[-1].append(at)
        ends = {word[-1] + 1: word for word in words}
        for at in range(len(run) + 1):
            late = []
            if at in ends:
                content = b''.join(tokens[run[i]].encode().removeprefix(b' ') for i in ends[at])[:MAX_WORD]
                marked = b'<' + content + b'>'
                if len(ends[at]) > 1:
                    late.append(place(WORD, text, joined(marked), bits))
                for begin in range(len(marked)):
                    late += [place(BYTES, text, joined(marked[begin:begin + n]), bits)
                             for n in LENGTHS if begin + n <= len(marked)]
            if at < len(run):
                out.append(place(TOKEN, text, run[at] + 1, bits))
                if at > 0:
                    out.append(place(PAIR, text, ((run[at - 1] + 1) * 0x1000003 + run[at] + 1) & MASK, bits))
            out += late
    return out


def main():
    tokens = ['', ' the', ' play', 'ing', 's', ' a', ' über', ' x', 'yz', ' ' + 'long' * 30, '']
    texts = [[0, 1, 2, 3, 0], [0, 5, 0], [0, 0], [1], [3, 4], [0, 2, 4, 6, 0, 7, 8, 8, 0], [0, 9, 4, 1, 0],
             [0, 5, 5, 5, 10, 5, 0]]
    rows = [{'ids': ids, 'bits': bits, 'features': features(tokens, ids, bits)} for ids in texts for bits in (4, 18, 24)]
    print(json.dumps({'tokens': tokens, 'texts': rows}, ensure_ascii=True))


if __name__ == '__main__':
    main()
