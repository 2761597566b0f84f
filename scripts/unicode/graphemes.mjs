#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Makes exeunt/text/grapheme_ranges.json: the break class of every code point, found by asking the oracle (npm package
// tokenizers, as tests/system/parity pins it). Its only door to grapheme clusters is the precompiled normaliser, which replaces
// a cluster below six bytes as a whole. With a map that gives one "b" for any first byte, the number of b's tells
// whether a short cluster was one. Run `npm ci` in tests/system/parity first.
import {createRequire} from 'module';
import fs from 'fs';
import path from 'path';
import {fileURLToPath} from 'url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const {precompiled} = createRequire(path.join(root, 'tests/system/parity/'))('tokenizers');

// darts-clone units: the root's offset is 256; unit 256 ^ byte carries the byte as its label and has a leaf at
// 256 ^ byte ^ offset. Offset 256 puts all leaves at 0 ^ byte; unit 0 is the root, whose byte (0) is never asked for.
function count_map() {
  const units = new Uint32Array(512);
  units[0] = 256 << 10;
  for (let byte = 1; byte < 256; ++byte) {
    units[256 ^ byte] = byte | (1 << 8) | (256 << 10);
    units[byte] = 0x80000000;
  }
  const blob = Buffer.alloc(4 + 2048 + 2);
  blob.writeUInt32LE(2048, 0);
  Buffer.from(units.buffer).copy(blob, 4);
  blob.write('b', 4 + 2048);
  return precompiled([...blob]);
}
const map = count_map();
const count = (...codes) => map.normalizeString(String.fromCodePoint(...codes)).length;

const A = 0x61, ACUTE = 0x301, GRAVE = 0x300, ZWJ = 0x200d, COPY = 0xa9, KA = 0x915, VIRAMA = 0x94d;
const L = 0x1100, V = 0x1161, T = 0x11a8;

function class_of(c) {
  if (c === 0) return 'control';  // the map ends at zero bytes; the standard says what NUL is
  if (c === 0x0d) return 'cr';
  if (c === 0x0a) return 'lf';
  if (count(A, c) === 1) {
    if (c === ZWJ) return 'zwj';
    // An emoji, Extend, ZWJ and © are one cluster; with a spacing mark between they are not.
    if (count(0x1f600, c, ZWJ, COPY, ACUTE) === 4) return 'spacing_mark';
    if (count(KA, c, KA, ACUTE) === 4) return 'linker';
    return count(KA, c, VIRAMA, KA, ACUTE) === 5 ? 'extend' : 'extend_apart';
  }
  if (count(c, ACUTE, GRAVE) === 2) return 'control';
  if (count(c, A) === 1) return 'prepend';
  if (count(c, ZWJ, COPY, ACUTE) === 4) return 'pictographic';
  if (count(c, VIRAMA, KA, ACUTE) === 4) return 'consonant';
  const before_v = count(c, V, ACUTE) === 3, before_t = count(c, T, ACUTE) === 3;
  if (before_v && !before_t) return 'hangul_l';
  // Beyond the basic plane every cluster around c is too large to show whether it began before c; nor does it matter.
  const behind_v = c > 0xffff || count(V, c, ACUTE) === 3;
  if (before_v) return behind_v ? 'hangul_v' : 'hangul_lv';
  if (before_t) return behind_v ? 'hangul_t' : 'hangul_lvt';
  return 'other';
}

const ranges = [];
for (let c = 0; c <= 0x10ffff; ++c) {
  if (c >= 0xd800 && c <= 0xdfff) continue;
  const kind = class_of(c);
  if (c >= 0xac00 && c <= 0xd7a3) {  // left to arithmetic
    if (kind !== ((c - 0xac00) % 28 ? 'hangul_lvt' : 'hangul_lv')) throw new Error(`U+${c.toString(16)}: ${kind}`);
    continue;
  }
  const last = ranges.at(-1);
  if (last && last.kind === kind && last.end === c - 1) last.end = c;
  else ranges.push({begin: c, end: c, kind});
}
const values = ranges.filter((r) => r.kind !== 'other').map((r) => [r.begin, r.end, r.kind]);
const table = {made_by: 'scripts/unicode/graphemes.mjs', arrays: [{name: 'kRanges', type: 'Range', values}]};
fs.writeFileSync(path.join(root, 'exeunt/text/grapheme_ranges.json'),
                 JSON.stringify(table, null, 1).replace(/\n {4,}|\n {3}(?=\])/g, '') + '\n');
const totals = {};
for (const r of ranges) totals[r.kind] = (totals[r.kind] ?? 0) + r.end - r.begin + 1;
console.log(totals);
