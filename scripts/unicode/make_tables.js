// SPDX-License-Identifier: Apache-2.0
// Writes exeunt/text/unicode_tables.json from the oracle's answers. The same oracle gives the same bytes.
//   npm ci --prefix tests/system/parity --ignore-scripts
//   NODE_PATH=tests/system/parity/node_modules node scripts/unicode/make_tables.js
'use strict';

const fs = require('fs');
const path = require('path');
const { probe, kLast } = require('./probe.js');

// Bit of each flag in a property record, as PropertyBit of unicode.cc; the combining rank lies above them.
const kFlags = ['removed', 'accent', 'punctuation', 'chinese', 'space', 'word', 'mark', 'letter', 'number'];

const arrays = [];
const array = (type, name, values) => arrays.push({ name: `k${name}`, type, values });

// value(c) as two tables: equal blocks of 2^shift code points are stored once. Behind the last block the value is 0.
function twoStage(name, shift, value) {
  const size = 1 << shift, blocks = new Map(), first = [], second = [];
  let limit = kLast + 1;
  while (limit > 0 && value(limit - 1) === 0) --limit;
  for (let start = 0; start < limit; start += size) {
    const block = Array.from({ length: size }, (_, i) => value(start + i));
    const key = block.join();
    if (!blocks.has(key)) {
      blocks.set(key, blocks.size);
      second.push(...block);
    }
    first.push(blocks.get(key));
  }
  const width = (values) => (Math.max(...values) < 256 ? 'uint8_t' : 'uint16_t');
  array(width(first), `${name}Blocks`, first);
  array(width(second), `${name}Values`, second);
}

// Numbers each distinct value by first appearance.
function interner() {
  const seen = new Map();
  return { seen, of: (value) => (seen.has(value) ? seen.get(value) : seen.set(value, seen.size).get(value)) };
}

function writeProperties({ flags, ranks }) {
  const records = interner();
  const record = (c) => kFlags.reduce((sum, flag, bit) => sum | (flags.has(flag, c) ? 1 << bit : 0), 0) |
                        ((ranks.get(c) ?? 0) << kFlags.length);
  twoStage('Property', 7, (c) => records.of(record(c)));
  array('uint16_t', 'PropertyRecords', [...records.seen.keys()]);
}

function writeLowercase({ lower }) {
  const deltas = interner();
  deltas.of(0);
  const delta = (c) => (lower.has(c) ? lower.get(c)[0] - c : 0);
  twoStage('Lower', 7, (c) => deltas.of(delta(c)));
  array('int32_t', 'LowerDeltas', [...deltas.seen.keys()]);
  const long = [...lower].filter(([, to]) => to.length > 1);
  if (long.length !== 1 || long[0].join() !== '304,105,775') throw new Error('more than U+0130 grows in lower case');
}

function writeDecompositions({ canonical, compatibility }) {
  const texts = interner(), entry = new Map(), odd = [];
  for (const c of [...compatibility.keys()].sort((a, b) => a - b)) {
    const full = compatibility.get(c).join(), strict = canonical.get(c)?.join();
    if (strict !== undefined && strict !== full) odd.push(c, canonical.get(c).length, ...canonical.get(c));
    entry.set(c, 1 + texts.of(`${strict === full}:${full}`));
  }
  for (const c of canonical.keys()) if (!entry.has(c)) throw new Error('a canonical decomposition alone');
  const starts = [], data = [];
  for (const [both, full] of [...texts.seen.keys()].map((key) => key.split(':'))) {
    starts.push(data.length | (both === 'true' ? 0x8000 : 0));
    data.push(...full.split(',').map(Number));
  }
  starts.push(data.length);
  if (data.length >= 0x8000) throw new Error('more decompositions than 15 bits can number');
  // Entry of each code point, from 1; its text is kDecompositions[start, next start). The high bit of a start says
  // that the text is the canonical decomposition as well.
  twoStage('Decomposition', 6, (c) => entry.get(c) ?? 0);
  array('uint16_t', 'DecompositionStarts', starts);
  array('char32_t', 'Decompositions', data);
  // Canonical decompositions that differ from the compatibility ones: code point, length, text.
  array('char32_t', 'CanonicalOnly', odd);
}

function writeCompositions({ pairs }) {
  pairs.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  array('char32_t', 'Compositions', pairs.flat());  // first, second, composed; sorted
}

async function main() {
  const answers = await probe();
  writeProperties(answers);
  writeLowercase(answers);
  writeDecompositions(answers);
  writeCompositions(answers);
  const target = path.join(__dirname, '../../exeunt/text/unicode_tables.json');
  fs.writeFileSync(target, JSON.stringify({ made_by: 'scripts/unicode/make_tables.js', oracle: answers.version, arrays }, null, 1)
    .replace(/\n {4,}|\n {3}(?=\])/g, '') + '\n');
  console.log(`${path.relative(process.cwd(), target)}: ${fs.statSync(target).size} bytes`);
}

main();
