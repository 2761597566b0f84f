// SPDX-License-Identifier: Apache-2.0
// A WordPiece vocabulary of our own for the committed cases: made-up words and their parts, letters of many scripts,
// and pieces that get in each other's way (a long one that leads nowhere, prefixes that are text, words of 16 and 17
// bytes, where the fast search ends).

const syllables = {
  first: ['b', 'br', 'd', 'f', 'g', 'gl', 'h', 'k', 'l', 'm', 'n', 'p', 'pr', 'r', 's', 'st', 't', 'th', 'tr', 'v', 'w', ''],
  middle: ['a', 'e', 'i', 'o', 'u', 'ai', 'ea', 'ou'],
  last: ['', 'n', 'r', 's', 't', 'l', 'nd', 'ng', 'ck', 'm'],
};
const endings = ['s', 'ed', 'ing', 'er', 'ly', 'ness', 'tion', 'al', 'able', 'ful', 'less', 'ish', 'ism', 'ist', 'ity'];
// Half-open ranges of letters, digits and marks that stay marks or become others when text is normalised.
const ranges = [[0x21, 0x7f], [0xa1, 0xad], [0xae, 0x180], [0x391, 0x3ca], [0x410, 0x450], [0x5d0, 0x5eb], [0x621, 0x64b],
  [0x905, 0x93a], [0x93e, 0x94e], [0xe01, 0xe3b], [0x1100, 0x1113], [0x1161, 0x1176], [0x11a8, 0x11c3], [0x2010, 0x2028],
  [0x20a0, 0x20b0], [0x2190, 0x2194], [0x3001, 0x3004], [0x3042, 0x3094], [0x30a1, 0x30f7], [0x4e00, 0x4e30],
  [0xac00, 0xac10], [0xff01, 0xff21], [0x1f600, 0x1f610], [0x302e, 0x3030]];

function words(random) {
  const syllable = () => random.pick(syllables.first) + random.pick(syllables.middle) + random.pick(syllables.last);
  const found = new Set(['the', 'a', 'of', 'in', 'and', 'to', 'quick', 'brown', 'well', 'known', 'don', 'we', 'they']);
  while (found.size < 500) found.add(Array.from({length: random.between(1, 3)}, syllable).join(''));
  return [...found];
}

function pieces(random) {
  const list = [];
  for (const [from, to] of ranges) {
    for (let c = from; c < to; ++c) {
      const char = String.fromCodePoint(c);
      list.push(char);
      if (random.chance(0.6)) list.push('##' + char);
    }
  }
  for (const word of words(random)) {
    list.push(word);
    const cut = random.between(1, word.length);
    list.push(word.slice(0, cut), '##' + word.slice(cut));
  }
  for (const ending of endings) list.push('##' + ending);
  list.push('##', '####', '##1,', '1,0', 'abcdefghijklmnop', 'abcdefghijklmnopq', '##abcdefghijklmnop', 'abcdefgh', 'abcdefghi',
    'unbel', '##ievq', '文字', '##文字', 'é', 'café', 'ｆｕ', '한', 'a\u0301', '[unused1]', 'x'.repeat(101));
  return list;
}

const specials = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];

// Tokens by rising id. The uncased vocabulary has no capitals, so that a folder without a word on case is read as such.
export function small_wordpieces(random, {cased = false} = {}) {
  const list = pieces(random).filter((piece) => cased || !/[A-Z]/.test(piece));
  if (cased) list.push('The', 'THE', 'McD', 'Zü', '##RICH', 'É', '##É', 'ΣΊ', 'İ', '##İ');
  return [...specials, ...new Set(list.filter((piece) => piece.trimEnd() === piece && piece !== ''))];
}

const special = (content, id, more) => ({id, content, single_word: false, lstrip: false, rstrip: false,
  normalized: false, special: true, ...more});

export function bert_tokenizer_json(tokens, {lowercase = true} = {}) {
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const piece = (kind, id, type_id) => ({[kind]: {id, type_id}});
  const single = [piece('SpecialToken', '[CLS]', 0), piece('Sequence', 'A', 0), piece('SpecialToken', '[SEP]', 0)];
  const named = (token) => ({id: token, ids: [vocab[token]], tokens: [token]});
  return {
    version: '1.0', truncation: null, padding: null, added_tokens: specials.map((token) => special(token, vocab[token])),
    normalizer: {type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase},
    pre_tokenizer: {type: 'BertPreTokenizer'},
    post_processor: {type: 'TemplateProcessing', single,
      pair: [...single, piece('Sequence', 'B', 1), piece('SpecialToken', '[SEP]', 1)],
      special_tokens: {'[CLS]': named('[CLS]'), '[SEP]': named('[SEP]')}},
    decoder: {type: 'WordPiece', prefix: '##', cleanup: true},
    model: {type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab},
  };
}

// Every flag of added tokens, in the vocabulary and behind it; other parts than BERT's around them.
export function awkward_tokenizer_json(tokens) {
  const json = bert_tokenizer_json(tokens, {lowercase: false});
  const {vocab} = json.model;
  const next = tokens.length;
  json.added_tokens = [
    ...json.added_tokens.filter(({content}) => content !== '[MASK]'),
    special('[MASK]', vocab['[MASK]'], {lstrip: true}), special('<s>', next, {rstrip: true}),
    special('</s>', next + 1, {lstrip: true, rstrip: true, special: false}),
    special('the', vocab.the, {single_word: true, special: false}),
    special('Café', next + 2, {normalized: true, special: false}),
    special('We', next + 3, {normalized: true, single_word: true, special: false}),
    special('中文', next + 4, {normalized: true, lstrip: true}),
  ];
  json.normalizer.strip_accents = true;
  json.post_processor = {type: 'BertProcessing', sep: ['[SEP]', vocab['[SEP]']], cls: ['[CLS]', vocab['[CLS]']]};
  json.model.max_input_chars_per_word = 12;
  return json;
}

// Composed forms and \w words, without special tokens.
export function composed_tokenizer_json(tokens) {
  const json = bert_tokenizer_json(tokens);
  json.normalizer = {type: 'Sequence', normalizers: [{type: 'NFKC'}, {type: 'Strip', strip_left: true, strip_right: true},
    {type: 'Replace', pattern: {String: 'in'}, content: 'IN'}, {type: 'Lowercase'}]};
  json.pre_tokenizer = {type: 'Whitespace'};
  json.post_processor = null;
  return json;
}
