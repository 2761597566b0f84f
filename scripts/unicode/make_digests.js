// SPDX-License-Identifier: Apache-2.0
// Writes tests/fixtures/text/data/unicode_digests.json: what the oracle makes of every code point, boiled down to one SHA-256 for
// each part of ours. The ordinary tests compute the same from our tables, so a slip at any code point shows.
//   npm ci --prefix tests/system/parity --ignore-scripts
//   NODE_PATH=tests/system/parity/node_modules node scripts/unicode/make_digests.js
'use strict';

const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const oracle = require('tokenizers');

const bert = (more) => oracle.bertNormalizer(
    { cleanText: true, handleChineseChars: true, stripAccents: true, lowercase: true, ...more });
const normalizers = {
  NFC: oracle.nfcNormalizer(), NFD: oracle.nfdNormalizer(), NFKC: oracle.nfkcNormalizer(), NFKD: oracle.nfkdNormalizer(),
  Lowercase: oracle.lowercase(), StripAccents: oracle.stripAccentsNormalizer(),
  'BertNormalizer uncased': bert({}), 'BertNormalizer cased': bert({ stripAccents: false, lowercase: false }),
};
const splitters = { BertPreTokenizer: oracle.bertPreTokenizer(), Whitespace: oracle.whitespacePreTokenizer(),
                    WhitespaceSplit: oracle.whitespaceSplitPreTokenizer() };

// Sixteen code points to a text, each between letters, and twice among marks that may move past it or compose with it.
const framed = (c) => `x${c}y a\u0323${c}\u0301\u0334${c}z `;

function digest(answer) {
  const hash = crypto.createHash('sha256');
  for (let from = 0; from <= 0x10ffff; from += 16) {
    if (from >= 0xd800 && from <= 0xdfff) continue;
    const text = Array.from({ length: 16 }, (_, i) => framed(String.fromCodePoint(from + i))).join('');
    hash.update(answer(text) + '\n', 'utf8');
  }
  return hash.digest('hex');
}

const out = { oracle: require('tokenizers/package.json').version, normalizers: {}, splits: {} };
for (const [name, normalizer] of Object.entries(normalizers)) {
  out.normalizers[name] = digest((text) => normalizer.normalizeString(text));
}
for (const [name, splitter] of Object.entries(splitters)) {
  out.splits[name] = digest((text) => splitter.preTokenizeString(text).map(([word]) => word).join('|'));
}
fs.writeFileSync(path.join(__dirname, '../../tests/fixtures/text/data/unicode_digests.json'), JSON.stringify(out, null, 2) + '\n');
