// SPDX-License-Identifier: Apache-2.0
// Small models of our own for the committed cases: a unigram model and a byte-level BPE made from a made-up text. They
// are built to be awkward: equal scores, pieces that overlap, bytes without a token, a character map with slips.

const text = `
The lamp keeper of Orrin wrote every evening, though nobody had asked him to: 1,204 pages by the third winter, and the
ink had cost him £36.50. "Light is patient," he wrote; 'waiting is what light does.' His neighbour, a well-known mender
of nets, didn't agree. They'd argue till 10 o'clock, re-reading the same lines (lines 7-12, mostly) and never once
settling what the word "patient" meant. In 1931, in 1932, in 1933, the sea rose and fell; she's said to have laughed.
Der Wärter schrieb über das Licht. Le gardien écrivait, déjà fatigué. Хранитель писал каждый вечер. Ο φύλακας έγραφε.
灯台の番人は毎晩書いた。等 灯 光 明. 등대지기는 매일 저녁 글을 썼다. कीपर हर शाम लिखता था. كان الحارس يكتب كل مساء.
unbelievable unbelievably believing believer belief relief relieve re-live relived livelihood lively alive aliveness
tokenless tokens tokenised tokeniser unkempt unknown unknowable knowledge acknowledging known knows knew keen keener
`;

export const made_up_words = text.trim().split(/\s+/u);

// ---- unigram ----

// Scores in quarters, so that different cuts of a word often have the same sum.
const quarter = (x) => Math.round(x * 4) / 4;

export function small_pieces() {
  const counts = new Map();
  for (const word of made_up_words) {
    const chars = [...('▁' + word.toLowerCase().normalize('NFKD').replace(/\p{M}/gu, ''))];
    for (let from = 0; from < chars.length; ++from) {
      for (let to = from + 1; to <= Math.min(chars.length, from + 9); ++to) {
        const piece = chars.slice(from, to).join('');
        counts.set(piece, (counts.get(piece) ?? 0) + 1);
      }
    }
  }
  const user_defined = ['(', ')', '"', '-', '£'];
  const total = made_up_words.length * 8;
  const normal = [...counts].filter(([piece, n]) => !/["()£-]/u.test(piece) && ([...piece].length === 1 ? n > 1 : n > 2))
    .map(([piece, n]) => ({text: piece, score: quarter(Math.log(n / total) + 0.4 * [...piece].length), type: 1}))
    .sort((a, b) => b.score - a.score || (a.text < b.text ? -1 : 1));
  return [
    {text: '<pad>', score: 0, type: 3}, {text: '<unk>', score: 0, type: 2}, {text: '[CLS]', score: 0, type: 3},
    {text: '[SEP]', score: 0, type: 3}, {text: '[MASK]', score: 0, type: 3},
    ...user_defined.map((t) => ({text: t, score: 0, type: 4})), ...normal,
    {text: '▁1,', score: -3, type: 1}, {text: '33,', score: -2, type: 1}, {text: '٣,', score: -2, type: 1},
    {text: '\u0120x', score: -9.5, type: 5},
  ];
}

// The units of a darts-clone double array over byte keys, each key with a number.
function double_array(entries) {
  const units = [];
  const used = [];
  const at = (i) => {
    while (units.length <= i) units.push(0), used.push(false);
  };
  at(255);
  used[0] = true;
  const keys = entries.map(([key, value]) => [Buffer.from(key, 'utf8'), value]).sort((a, b) => Buffer.compare(a[0], b[0]));
  const place = (node, from, to, depth, label) => {
    const leaf = keys[from][0].length === depth ? keys[from++][1] : undefined;
    const children = new Map();
    for (let i = from; i < to; ++i) {
      const byte = keys[i][0][depth];
      children.set(byte, [children.get(byte)?.[0] ?? i, i + 1]);
    }
    const bytes = [...(leaf === undefined ? [] : [0]), ...children.keys()];
    let offset = 1;
    for (; ; ++offset) {
      if (bytes.every((b) => (at((node ^ offset ^ b) | 255), !used[node ^ offset ^ b]))) break;
    }
    units[node] = ((offset << 10) | (leaf === undefined ? 0 : 256) | label) >>> 0;
    for (const b of bytes) used[node ^ offset ^ b] = true;
    if (leaf !== undefined) units[node ^ offset] = (0x80000000 | leaf) >>> 0;
    for (const [byte, [first, last]] of children) place(node ^ offset ^ byte, first, last, depth + 1, byte);
  };
  place(0, 0, keys.length, 0, 0);
  while (units.length % 256) units.push(0);
  // A unit that nobody uses must not look like a child: its label is a byte that does not lead to it.
  return Uint32Array.from(units, (unit, i) => used[i] ? unit : (i & 255) === 1 ? 2 : 1);
}

// Larger, smaller and equal replacements, one that vanishes, one hidden behind its own prefix.
export function small_charsmap() {
  const map = [['\t', ' '], ['\n', ' '], ['\r', ' '], ['\u0001', ''], ['\u200b', ''], ['\u3000', ' '], ['\u00a0', ' '],
    ['ﬁ', 'fi'], ['½', '1⁄2'], ['①', '1'], ['㍿', '株式会社'], ['…', '...'], ['e\u0301', 'é'], ['o\u0308', 'ö'], ['™', 'tm'],
    ['\u0600', 'n'], ['©', '(c)'], ['㎏', 'kg'], ['x', 'x'], ['x\u0302', 'never']];
  for (let c = 0xff01; c <= 0xff5e; ++c) map.push([String.fromCharCode(c), String.fromCharCode(c - 0xfee0)]);
  let replacements = '';
  const entries = map.map(([key, value]) => {
    const start = Buffer.byteLength(replacements);
    replacements += value + '\0';
    return [key, start];
  });
  const units = double_array(entries);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(units.byteLength);
  return Buffer.concat([size, Buffer.from(units.buffer), Buffer.from(replacements, 'utf8')]);
}

const varint = (value) => {
  const out = [];
  for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128);
  return Buffer.from([...out, value]);
};
const counted = (number, bytes) => Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
const whole = (number, value) => Buffer.concat([varint(number * 8), varint(value)]);

export function write_spiece(pieces, charsmap) {
  const float = (value) => {
    const bytes = Buffer.alloc(4);
    bytes.writeFloatLE(value);
    return bytes;
  };
  return Buffer.concat([
    ...pieces.map(({text: t, score, type}) => counted(1, Buffer.concat([
      counted(1, Buffer.from(t, 'utf8')), varint(2 * 8 + 5), float(score), ...(type === 1 ? [] : [whole(3, type)])]))),
    counted(2, Buffer.concat([counted(2, Buffer.from('small')), whole(3, 1), whole(4, pieces.length), whole(40, 1)])),
    counted(3, Buffer.concat([counted(1, Buffer.from('made_up')), counted(2, charsmap)])),
  ]);
}

// ---- byte-level BPE ----

const moved = (() => {
  const characters = [];
  let next = 0x100;
  for (let b = 0; b < 256; ++b) {
    const itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    characters.push(String.fromCharCode(itself ? b : next++));
  }
  return characters;
})();

export const written = (string) => [...Buffer.from(string, 'utf8')].map((byte) => moved[byte]).join('');

// The usual training: join the most frequent pair, the smaller one where counts are equal.
export function small_bpe(merge_count = 400) {
  const pattern = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
  const corpus = text.replaceAll('\n', ' ').match(pattern).map((word) => [...written(word)]);
  const vocab = new Map();
  for (let b = 0; b < 256; ++b) vocab.set(moved[b], vocab.size);
  const merges = [];
  while (merges.length < merge_count) {
    const counts = new Map();
    for (const word of corpus) {
      for (let i = 0; i + 1 < word.length; ++i) {
        const pair = `${word[i]} ${word[i + 1]}`;
        counts.set(pair, (counts.get(pair) ?? 0) + 1);
      }
    }
    const best = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0];
    if (!best || best[1] < 2) break;
    const [left, right] = best[0].split(' ');
    merges.push([left, right]);
    if (!vocab.has(left + right)) vocab.set(left + right, vocab.size);
    for (const word of corpus) {
      for (let i = 0; i + 1 < word.length; ++i) if (word[i] === left && word[i + 1] === right) word.splice(i, 2, left + right);
    }
  }
  // Tokens that no merge makes: only ignore_merges finds them.
  for (const extra of ['Ġlighthouse', 'keeperlamp', 'ĠĠĠ']) vocab.set(extra, vocab.size);
  return {vocab: Object.fromEntries(vocab), merges};
}
