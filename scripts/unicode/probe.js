// SPDX-License-Identifier: Apache-2.0
// Asks the oracle (npm package tokenizers) what it does with every code point. Nothing here comes from Unicode's own
// files: where the oracle's parts follow different versions, each answer is taken from the part that gives it.
'use strict';

const oracle = require('tokenizers');

const kLast = 0x10ffff;
const isSurrogate = (c) => c >= 0xd800 && c <= 0xdfff;
const text = (...points) => String.fromCodePoint(...points);
const points = (s) => Array.from(s, (ch) => ch.codePointAt(0));

function must(condition, what) {
  if (!condition) throw new Error(`the oracle does not behave as the tables assume: ${what}`);
}

function* codePoints() {
  for (let c = 0; c <= kLast; ++c) if (!isSurrogate(c)) yield c;
}

// One mark of each canonical combining class, by rising class.
const kLadder = [
  0x0334, 0x16ff0, 0x093c, 0x3099, 0x094d, 0x05b0, 0x05b1, 0x05b2, 0x05b3, 0x05b4, 0x05b5, 0x05b6, 0x05b7, 0x05b8,
  0x05b9, 0x05bb, 0x05bc, 0x05bd, 0x05bf, 0x05c1, 0x05c2, 0xfb1e, 0x064b, 0x064c, 0x064d, 0x064e, 0x064f, 0x0650,
  0x0651, 0x0652, 0x0670, 0x0711, 0x0c55, 0x0c56, 0x0e38, 0x0e48, 0x0eb8, 0x0ec8, 0x0f71, 0x0f72, 0x0f74, 0x0321,
  0x1dce, 0x031b, 0x302a, 0x0316, 0x059a, 0x302e, 0x1d16d, 0x05ae, 0x0300, 0x0315, 0x035c, 0x035d, 0x0345];

// The ladder without marks that the oracle's (older) tables do not reorder.
function knownLadder(nfd) {
  const known = kLadder.filter((m) => m === 0x0345 ? nfd(text(0x7c, m, 0x334)) === text(0x7c, 0x334, m)
                                                   : nfd(text(0x7c, 0x345, m)) === text(0x7c, m, 0x345));
  const all = text(0x7c, ...known);
  must(nfd(all) === all, 'the ladder of combining classes is in order');
  must(nfd(text(0x7c, ...[...known].reverse())) === all, 'the ladder has one mark per class');
  return known;
}

// Rank of each code point's combining class: its place among the ladder's marks, counted from 1; 0 is a starter.
function probeRanks(nfd) {
  const ladder = knownLadder(nfd);
  const all = text(0x7c, ...ladder);
  const ranks = new Map();
  for (const c of codePoints()) {
    const self = nfd(text(c));
    if (self !== text(c)) continue;  // never seen after decomposition
    const sorted = points(nfd(all + text(c)));
    let rank = sorted.lastIndexOf(c) - 1;
    if (rank === ladder.length && nfd(text(0x7c, c, ladder[0])) === text(0x7c, c, ladder[0])) continue;
    const peer = ladder[rank - 1];
    must(nfd(text(0x7c, c, peer)) === text(0x7c, c, peer) && nfd(text(0x7c, peer, c)) === text(0x7c, peer, c),
         `U+${c.toString(16)} has a class of the ladder`);
    ranks.set(c, rank);
  }
  return ranks;
}

// Decompositions that are not Hangul arithmetic, and the pairs that compose.
function probeForms() {
  const forms = { nfd: oracle.nfdNormalizer(), nfkd: oracle.nfkdNormalizer(), nfc: oracle.nfcNormalizer(),
                  nfkc: oracle.nfkcNormalizer() };
  const apply = Object.fromEntries(Object.entries(forms).map(([k, n]) => [k, (s) => n.normalizeString(s)]));
  const canonical = new Map(), compatibility = new Map(), pairs = [];
  for (const c of codePoints()) {
    const s = text(c), d = apply.nfd(s), k = apply.nfkd(s);
    if (c >= 0xac00 && c <= 0xd7a3) {
      const i = c - 0xac00, t = i % 28;
      const jamo = [0x1100 + Math.floor(i / 588), 0x1161 + Math.floor((i % 588) / 28), ...(t ? [0x11a7 + t] : [])];
      must(d === text(...jamo) && k === d && apply.nfc(d) === s, `Hangul U+${c.toString(16)} by arithmetic`);
      continue;
    }
    if (d !== s) canonical.set(c, points(d));
    if (k !== s) compatibility.set(c, points(k));
    if (d !== s && apply.nfc(s) === s) {
      const parts = points(d);
      const head = points(apply.nfc(text(...parts.slice(0, -1))));
      must(head.length === 1 && apply.nfc(text(head[0], parts.at(-1))) === s, `U+${c.toString(16)} composes from two`);
      pairs.push([head[0], parts.at(-1), c]);
    }
  }
  return { apply, canonical, compatibility, pairs };
}

function probeLowercase() {
  const lower = oracle.lowercase(), bert = oracle.bertNormalizer(
      { cleanText: false, handleChineseChars: false, stripAccents: false, lowercase: true });
  const map = new Map();
  for (const c of codePoints()) {
    const s = text(c), l = lower.normalizeString(s);
    must(bert.normalizeString(s) === l, `both lower cases of U+${c.toString(16)} agree`);
    if (l !== s) map.set(c, points(l));
  }
  must(lower.normalizeString('ΑΣ') === 'ασ', 'lower case knows no final sigma');
  return map;
}

function probeBert(flags, nfd) {
  const part = (name) => oracle.bertNormalizer(Object.assign(
      { cleanText: false, handleChineseChars: false, stripAccents: false, lowercase: false }, { [name]: true }));
  const clean = part('cleanText'), chinese = part('handleChineseChars'), accents = part('stripAccents');
  const split = oracle.bertPreTokenizer();
  for (const c of codePoints()) {
    const s = text(c), framed = `x${s}y`, name = `U+${c.toString(16)}`;
    const words = split.preTokenizeString(framed).length;
    if (words === 2) flags.add('space', c);
    if (words === 3) flags.add('punctuation', c);
    const cleaned = clean.normalizeString(framed);
    if (cleaned === 'xy') flags.add('removed', c);  // some white space too: U+000B, U+000C, U+0085
    else must(cleaned === (words === 2 ? 'x y' : framed), `clean_text of ${name}`);
    const apart = chinese.normalizeString(framed);
    if (apart === `x ${s} y`) flags.add('chinese', c);
    else must(apart === framed, `handle_chinese_chars of ${name}`);
    if (nfd(s) === s && accents.normalizeString(framed) === 'xy') flags.add('accent', c);
  }
  for (const c of codePoints()) {
    const kept = points(nfd(`x${text(c)}y`)).filter((d) => !flags.has('accent', d));
    must(accents.normalizeString(`x${text(c)}y`) === text(...kept), `strip_accents of U+${c.toString(16)}`);
  }
}

function probeClasses(flags) {
  const marks = oracle.stripAccentsNormalizer(), words = oracle.whitespacePreTokenizer();
  const bytes = oracle.byteLevelPreTokenizer(false, true);
  const pieces = (splitter, s) => splitter.preTokenizeString(s).length;
  for (const c of codePoints()) {
    const s = text(c), name = `U+${c.toString(16)}`;
    if (marks.normalizeString(`|${s}|`) === '||') flags.add('mark', c);
    if (!flags.has('space', c) && pieces(words, `a${s}`) === 1) flags.add('word', c);
    must((pieces(words, `!${s}!`) === 2) === flags.has('space', c) || flags.has('word', c), `\\s of ${name}`);
    if (pieces(bytes, `a${s}`) === 1) flags.add('letter', c);
    if (pieces(bytes, `1${s}`) === 1) flags.add('number', c);
    const other = pieces(bytes, `!${s}`) === 1;
    const known = flags.has('letter', c) || flags.has('number', c);
    must(!other === (known || flags.has('space', c)), `byte-level class of ${name}`);
  }
}

// single_word and lstrip look at their neighbours with \w and \s; they must be the sets found above.
async function checkAddedTokens(flags) {
  const token = (content, more) => ({ id: 0, content, single_word: false, lstrip: false, rstrip: false,
                                      normalized: false, special: false, ...more });
  const make = (added) => oracle.Tokenizer.fromString(JSON.stringify({
    version: '1.0', truncation: null, padding: null, added_tokens: [added], normalizer: null,
    pre_tokenizer: { type: 'WhitespaceSplit' }, post_processor: null, decoder: null,
    model: { type: 'WordLevel', vocab: { '?': 0, '@': 1 }, unk_token: '?' } }));
  const single = make(token('@', { single_word: true })), strip = make(token('@', { lstrip: true }));
  const all = [...codePoints()].filter((c) => c !== 0x40);
  for (let at = 0; at < all.length; at += 20000) {
    const some = all.slice(at, at + 20000);
    const alone = await single.encodeBatch(some.map((c) => `${text(c)}@`));
    const wide = await strip.encodeBatch(some.map((c) => `${text(c)}@`));
    some.forEach((c, i) => {
      must(alone[i].getIds().includes(1) === !flags.has('word', c), `single_word next to U+${c.toString(16)}`);
      must((wide[i].getOffsets().at(-1)[0] === 0) === flags.has('space', c), `lstrip of U+${c.toString(16)}`);
    });
  }
}

class Flags {
  constructor() { this.sets = {}; }
  add(name, c) { (this.sets[name] ??= new Set()).add(c); }
  has(name, c) { return this.sets[name]?.has(c) ?? false; }
}

async function probe() {
  const flags = new Flags();
  const forms = probeForms();
  const ranks = probeRanks(forms.apply.nfd);
  const lower = probeLowercase();
  probeBert(flags, forms.apply.nfd);
  probeClasses(flags);
  await checkAddedTokens(flags);
  return { flags, ranks, lower, ...forms, version: require('tokenizers/package.json').version };
}

module.exports = { probe, codePoints, kLast };
