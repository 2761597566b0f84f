// SPDX-License-Identifier: Apache-2.0
// Texts that try every corner of a tokenizer. All are made from a seed, so a run can be repeated to the letter.

export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  // mulberry32: enough for choosing, and the same everywhere.
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  below(n) {
    return Math.floor(this.next() * n);
  }
  between(low, high) {
    return low + this.below(high - low + 1);
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  chance(p) {
    return this.next() < p;
  }
}

const range = (from, to) => [from, to];
export const scripts = [
  range(0x41, 0x5a), range(0x61, 0x7a), range(0xc0, 0xff), range(0x100, 0x17f), range(0x180, 0x24f),
  range(0x250, 0x2af), range(0x370, 0x3ff), range(0x400, 0x52f), range(0x531, 0x58f), range(0x591, 0x5f4),
  range(0x600, 0x6ff), range(0x700, 0x74f), range(0x780, 0x7bf), range(0x7c0, 0x7fa), range(0x800, 0x83e),
  range(0x900, 0x97f), range(0x980, 0x9fe), range(0xa00, 0xa76), range(0xa80, 0xaff), range(0xb00, 0xb77),
  range(0xb80, 0xbfa), range(0xc00, 0xc7f), range(0xc80, 0xcf3), range(0xd00, 0xd7f), range(0xd80, 0xdf4),
  range(0xe00, 0xe5b), range(0xe80, 0xedf), range(0xf00, 0xfda), range(0x1000, 0x109f), range(0x10a0, 0x10ff),
  range(0x1100, 0x11ff), range(0x1200, 0x139f), range(0x13a0, 0x13fd), range(0x1400, 0x167f), range(0x1680, 0x169c),
  range(0x16a0, 0x16f8), range(0x1700, 0x1739), range(0x1780, 0x17f9), range(0x1800, 0x18aa), range(0x1980, 0x19df),
  range(0x1a20, 0x1aad), range(0x1b00, 0x1b7e), range(0x1c90, 0x1cbf), range(0x1e00, 0x1eff), range(0x1f00, 0x1fff),
  range(0x2c00, 0x2c5f), range(0x2d30, 0x2d7f), range(0x3041, 0x309f), range(0x30a0, 0x30ff), range(0x3105, 0x312f),
  range(0x3131, 0x318e), range(0x3400, 0x4dbf), range(0x4e00, 0x9fff), range(0xa000, 0xa48c), range(0xa640, 0xa69f),
  range(0xa720, 0xa7ff), range(0xac00, 0xd7a3), range(0xd7b0, 0xd7fb), range(0xf900, 0xfaff), range(0xfb00, 0xfb4f),
  range(0xfb50, 0xfdff), range(0xfe70, 0xfefc), range(0xff01, 0xffee), range(0x10000, 0x100fa), range(0x10280, 0x1031f),
  range(0x10330, 0x1034a), range(0x10400, 0x1044f), range(0x104b0, 0x104fb), range(0x10800, 0x10855),
  range(0x10c80, 0x10cff), range(0x11000, 0x11075), range(0x11080, 0x110c2), range(0x11580, 0x115dd),
  range(0x118a0, 0x118ff), range(0x12000, 0x1236e), range(0x13000, 0x1342e), range(0x16e40, 0x16e9a),
  range(0x17000, 0x187f7), range(0x1d400, 0x1d7ff), range(0x1e900, 0x1e95f), range(0x1ee00, 0x1eef1),
  range(0x1f100, 0x1f2ff), range(0x20000, 0x2a6df), range(0x2f800, 0x2fa1d),
];
const symbols = [
  range(0x21, 0x2f), range(0x3a, 0x40), range(0x5b, 0x60), range(0x7b, 0x7e), range(0xa1, 0xbf), range(0x2010, 0x2027),
  range(0x2030, 0x205e), range(0x2070, 0x209c), range(0x20a0, 0x20c0), range(0x2100, 0x218b), range(0x2190, 0x23ff),
  range(0x2460, 0x24ff), range(0x2500, 0x27bf), range(0x2e00, 0x2e5d), range(0x3001, 0x303f), range(0x3200, 0x33ff),
  range(0xfe10, 0xfe6b), range(0x1f300, 0x1faff),
];
const marks = [
  range(0x300, 0x36f), range(0x483, 0x489), range(0x591, 0x5c7), range(0x610, 0x61a), range(0x64b, 0x65f),
  range(0x900, 0x903), range(0x93a, 0x94f), range(0x9bc, 0x9cd), range(0xe31, 0xe3a), range(0xe47, 0xe4e),
  range(0xf71, 0xf84), range(0x1ab0, 0x1ace), range(0x1dc0, 0x1dff), range(0x20d0, 0x20f0), range(0x3099, 0x309a),
  range(0xfe00, 0xfe0f), range(0xfe20, 0xfe2f), range(0x1d165, 0x1d169), range(0x1e8d0, 0x1e8d6), range(0xe0100, 0xe01ef),
];
const spaces = ['\t', '\n', '\r', '\r\n', '\v', '\f', ' ', '  ', '   ', '\x1c', '\x1d', '\x1e', '\x1f', '\x85', '\xa0',
  '\u1680', '\u2000', '\u2003', '\u2007', '\u200a', '\u2028', '\u2029', '\u202f', '\u205f', '\u3000', '\u180e', '\u200b',
  '\u200c', '\u200d', '\u2060', '\ufeff', '\u2581', '\u2581\u2581', '\u0120', '\u010a'];
const special_like = ['[CLS]', '[SEP]', '[MASK]', '[PAD]', '[UNK]', '<s>', '</s>', '<pad>', '<unk>', '<mask>',
  '<|endoftext|>', '[cls]', '[Mask]', '[MASK', 'MASK]', '[ MASK ]', '<S>', '< s>', '[[MASK]]', '[MASK][MASK]', '##ing',
  '##', '<0x41>', '▁', '▁▁the', 'Ġ', 'Ġthe', '[unused1]', '<extra_id_0>', '[SEP]\u0301', '\u0301[SEP]', '[SE\u200dP]'];
const bits = ['the', 'a', 'of', 'in', 'quick', 'brown', "don't", "we'll", "I'm", "they've", "he'd", "it's", "you're",
  "'s", "'LL", "''", '``', '"', "rock'n'roll", '1,000', '3.14', '1,', '2010,', 'U.S.A.', 'e.g.', 'well-known',
  'http://example.org/a?b=c&d=1', 'me@example.com', '#tag', '@name', '100%', '$5', '£5', '€5', '–', '—', '…', '...',
  '?!', '(sic)', '[1]', 'naïve', 'café', 'Zürich', 'İstanbul', 'ΣΊΣΥΦΟΣ', 'straße', 'ŒUVRE', 'ﬁne', 'Ⅷ', '½', 'm²',
  '№5', '㎏', 'ｆｕｌｌ', '中文', '日本語', '한국어', 'العربية', 'हिन्दी', 'русский', 'ไทย'];

const code_point = (random, ranges) => {
  const [from, to] = random.pick(ranges);
  const c = random.between(from, to);
  return String.fromCodePoint(c >= 0xd800 && c <= 0xdfff ? 0xfffd : c);
};
const repeat = (count, make) => Array.from({length: count}, make);
const any = (random) => {
  for (;;) {
    const c = random.below(0x110000);
    if (c < 0xd800 || c > 0xdfff) return String.fromCodePoint(c);
  }
};
const word = (random) => random.pick(bits);
const emoji = (random) => {
  const face = () => String.fromCodePoint(random.between(0x1f300, 0x1faff));
  const tone = () => String.fromCodePoint(random.between(0x1f3fb, 0x1f3ff));
  const flag = () => String.fromCodePoint(random.between(0x1f1e6, 0x1f1ff), random.between(0x1f1e6, 0x1f1ff));
  return random.pick([
    () => face(), () => face() + tone(), () => face() + '\ufe0f', flag, () => random.pick('0123456789#*') + '\ufe0f\u20e3',
    () => repeat(random.between(2, 4), face).join('\u200d'), () => '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}',
    () => `\u{1f3f4}${String.fromCodePoint(...repeat(random.between(1, 6), () => random.between(0xe0061, 0xe007a)))}\u{e007f}`,
    () => random.pick(['©', '®', '™', '‼', '⁉', 'ℹ', '↔', '⌚', '☎']) + random.pick(['', '\ufe0f', '\u200d©', '\u200d\u{1f600}', '\u20e3']),
  ])();
};

// Each takes (random, vocabulary) and gives a text.
export const generators = {
  english: (r) => repeat(r.between(1, 30), () => word(r)).join(r.pick([' ', ' ', ' ', '  ', '\n'])),
  vocabulary: (r, vocab) => repeat(r.between(1, 20), () => r.pick(vocab).replace(/^##|^▁/u, '').replaceAll('Ġ', ' ') +
    r.pick(['', '', ' ', "'", '-'])).join(''),
  scripts: (r) => repeat(r.between(1, 8), () => {
    const script = [r.pick(scripts)];
    return repeat(r.between(1, 9), () => code_point(r, script)).join('');
  }).join(' '),
  mixed: (r) => repeat(r.between(1, 24), () => r.chance(0.6) ? code_point(r, scripts) : r.chance(0.5) ?
    code_point(r, symbols) : r.pick([' ', ' ', word(r), code_point(r, marks)])).join(''),
  symbols: (r) => repeat(r.between(1, 20), () => r.chance(0.7) ? code_point(r, symbols) : r.pick([' ', word(r)])).join(''),
  emoji: (r) => repeat(r.between(1, 10), () => emoji(r) + r.pick(['', ' ', word(r)])).join(''),
  combining: (r) => repeat(r.between(1, 10), () => (r.chance(0.5) ? r.pick([...'aeiouAEIOUnsz ']) : code_point(r, scripts)) +
    repeat(r.below(4), () => code_point(r, marks)).join('') + r.pick(['', '', ' '])).join(''),
  clusters: (r) => repeat(r.between(1, 8), () => r.pick([
    () => r.pick([...'①ﬁ½㍿…™Å가각', '\r', '\u0600', '\u0915', '\u1100', '\u1161', '\u11a8', '\xa9', '\u{1f600}']),
    () => code_point(r, marks), () => r.pick(['\u200d', '\u094d', '\n', '\ufe0f', 'a', '\xad', '\u{11a3a}', '\u0903']),
  ])()).join(''),
  controls: (r) => repeat(r.between(1, 20), () => r.pick([
    () => String.fromCodePoint(r.below(0x20)), () => String.fromCodePoint(r.between(0x7f, 0xa0)), () => word(r),
    () => r.pick(['\0', '\ufffd', '\ufffe', '\uffff', '\ufdd0', '\u{1fffe}', '\u{10ffff}', '\u00ad', '\u200e', '\u202e',
      '\u2066', '\u{e0001}', '\u{1d173}', '\ufff9', '\u061c']), () => ' ',
  ])()).join(''),
  private: (r) => repeat(r.between(1, 12), () => r.pick([
    () => String.fromCodePoint(r.between(0xe000, 0xf8ff)), () => String.fromCodePoint(r.between(0xf0000, 0x10ffff)),
    () => r.pick(['\ud7ff', '\ue000', '\uffff', '\u{10000}', '\ud7fb']), () => word(r), () => ' ',
  ])()).join(''),
  special: (r) => repeat(r.between(1, 8), () => r.chance(0.6) ? r.pick(special_like) : word(r))
    .join(r.pick(['', ' ', '  ', '\t', ' \n'])),
  spaces: (r) => repeat(r.between(1, 16), () => r.chance(0.6) ? r.pick(spaces) : word(r)).join(''),
  long: (r, vocab) => r.pick([
    () => r.pick([...'aeé中\u{1f600}9-▁']).repeat(r.between(60, 1200)),
    () => repeat(r.between(60, 600), () => String.fromCharCode(r.between(97, 122))).join(''),
    () => repeat(r.between(90, 110), () => r.pick([...'abcé中'])).join(''),
    () => repeat(r.between(20, 200), () => r.pick(vocab).replace(/^##|^▁|Ġ/gu, '')).join(''),
    () => repeat(r.between(60, 400), () => r.between(0, 9)).join(''),
  ])() + r.pick(['', ' end', '!']),
  random: (r) => repeat(r.between(1, 20), () => any(r)).join(''),
  random_words: (r) => repeat(r.between(1, 10), () => repeat(r.between(1, 4), () => any(r)).join('')).join(' '),
  tiny: (r) => repeat(r.below(4), () => r.pick([' ', 'a', '.', "'", 's', '1', 'é', '\n', '▁', '中'])).join(''),
};

// Every code point once, sixteen to a text, alone, between letters and twice in a row.
export function* sweep() {
  const codes = [];
  for (let c = 0; c <= 0x10ffff; ++c) if (c < 0xd800 || c > 0xdfff) codes.push(String.fromCodePoint(c));
  for (let at = 0; at < codes.length; at += 16) {
    yield codes.slice(at, at + 16).map((c, i) => [`x${c}y`, `${c} `, `A ${c}${c}`, ` ${c}1`][i % 4]).join('');
  }
}

// Turns texts into cases: some with a pair, some short of room, some without special tokens.
export function dress(random, text, other) {
  const item = {text};
  if (random.chance(0.25)) item.pair = other;
  if (random.chance(0.35)) item.max_length = random.chance(0.5) ? random.between(4, 16) : random.between(4, 128);
  if (random.chance(0.1)) item.special_tokens = false;
  return item;
}
