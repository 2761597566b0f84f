// SPDX-License-Identifier: Apache-2.0
// Reads spiece.model in a second, independent way (no code shared with the product), and writes the tokenizer.json that
// transformers makes of it for ALBERT.

// The fields of one protocol buffer message: [number, value]; bytes for counted and fixed fields, BigInt for varints.
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const take = (count) => bytes.subarray(at, (at += count));
  while (at < bytes.length) {
    const tag = Number(varint());
    const wire = tag & 7;
    yield [tag >> 3, wire === 0 ? varint() : take(wire === 1 ? 8 : wire === 5 ? 4 : Number(varint()))];
  }
}

export function read_spiece(bytes) {
  const model = {pieces: [], unk_id: 0, charsmap: Buffer.alloc(0)};
  for (const [number, value] of fields(bytes)) {
    if (number === 1) {
      const piece = {text: '', score: 0, type: 1};
      for (const [n, v] of fields(value)) {
        if (n === 1) piece.text = Buffer.from(v).toString('utf8');
        if (n === 2) piece.score = Buffer.from(v).readFloatLE(0);
        if (n === 3) piece.type = Number(v);
      }
      model.pieces.push(piece);
    }
    if (number === 2) for (const [n, v] of fields(value)) if (n === 40) model.unk_id = Number(v);
    if (number === 3) for (const [n, v] of fields(value)) if (n === 2) model.charsmap = Buffer.from(v);
  }
  return model;
}

function added(id, content, special, lstrip = false) {
  return {id, content, single_word: false, lstrip, rstrip: false, normalized: false, special};
}

const replace = (pattern, content) => ({type: 'Replace', pattern, content});
const template = (...pieces) => pieces.map(([id, type_id]) =>
  id.length === 1 ? {Sequence: {id, type_id}} : {SpecialToken: {id, type_id}});

export const metaspace = {type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true};

// ALBERT's pieces in the pipelines of other families, as their tokenizer.json has them. XLM-RoBERTa and CamemBERT: the
// special tokens come first, texts of a pair have two separators between them and no types. DeBERTa-v3: as transformers
// 4 converts its spm.model, or (`newer`) as transformers 5 writes it.
export function other_unigram_json(model, family) {
  const roberta = family === 'xlm-roberta' || family === 'camembert';
  const first = family === 'xlm-roberta' ? ['<s>', '<pad>', '</s>', '<unk>']
    : family === 'camembert' ? ['<s>NOTUSED', '<pad>', '</s>NOTUSED', '<unk>', '<unk>NOTUSED', '<s>', '</s>']
      : ['[PAD]', '[CLS]', '[SEP]', '[UNK]'];
  const taken = new Set([...first, '<unk>', '<pad>', '[CLS]', '[SEP]', '[MASK]', '<mask>']);
  const mask = roberta ? '<mask>' : '[MASK]';
  const pieces = [...first.map((text) => ({text, score: 0})), ...model.pieces.filter(({text}) => !taken.has(text)),
    {text: mask, score: 0}];
  const id = (text) => pieces.findIndex((piece) => piece.text === text);
  const [cls, sep, unk] = roberta ? ['<s>', '</s>', '<unk>'] : ['[CLS]', '[SEP]', '[UNK]'];
  const charsmap = {type: 'Precompiled', precompiled_charsmap: model.charsmap.toString('base64')};
  const blanks = replace({Regex: ' {2,}'}, ' ');
  const normalizers = {
    'xlm-roberta': [charsmap],
    camembert: [charsmap, blanks],
    deberta: [{type: 'Strip', strip_left: true, strip_right: true}, charsmap, blanks],
    'deberta-newer': [replace({Regex: '\\s{2,}|[\\n\\r\\t]'}, ' '), {type: 'NFC'},
      {type: 'Strip', strip_left: false, strip_right: true}],
  }[family];
  return {
    version: '1.0', truncation: null, padding: null,
    added_tokens: [...new Set([cls, sep, unk, first.find((text) => /pad/i.test(text)), mask])].sort((a, b) => id(a) - id(b))
      .map((text) => added(id(text), text, true, roberta && text === mask)),
    normalizer: family === 'xlm-roberta' ? charsmap : {type: 'Sequence', normalizers},
    pre_tokenizer: {type: 'Sequence', pretokenizers: roberta ? [{type: 'WhitespaceSplit'}, metaspace] : [metaspace]},
    post_processor: {
      type: 'TemplateProcessing',
      single: template([cls, 0], ['A', 0], [sep, 0]),
      pair: roberta ? template([cls, 0], ['A', 0], [sep, 0], [sep, 0], ['B', 0], [sep, 0])
        : template([cls, 0], ['A', 0], [sep, 0], ['B', 1], [sep, 1]),
      special_tokens: Object.fromEntries([cls, sep].map((t) => [t, {id: t, ids: [id(t)], tokens: [t]}])),
    },
    decoder: metaspace,
    model: {type: 'Unigram', unk_id: id(unk), vocab: pieces.map((piece) => [piece.text, piece.score]), byte_fallback: false},
  };
}

// What transformers 5 makes of ALBERT's spiece.model. Options: older (as transformers 4 did up to 4.39: user-defined
// pieces stay with the model, blanks are joined instead of dropped, "▁1," and the like never win), keep_accents, lower.
export function albert_tokenizer_json(model, options = {}) {
  const {older = false, keep_accents = false, lower = true} = options;
  const id = (text) => model.pieces.findIndex((piece) => piece.text === text);
  const normalizers = [replace({String: '``'}, '"'), replace({String: "''"}, '"')];
  if (!keep_accents) normalizers.push({type: 'NFKD'}, {type: 'StripAccents'});
  if (lower) normalizers.push({type: 'Lowercase'});
  if (model.charsmap.length) {
    normalizers.push({type: 'Precompiled', precompiled_charsmap: model.charsmap.toString('base64')});
  }
  if (older) normalizers.push(replace({Regex: ' {2,}'}, ' '));
  const special = new Set(['<pad>', '<unk>', '[CLS]', '[SEP]', '[MASK]']);
  const added_tokens = model.pieces.flatMap(({text, type}, i) =>
    special.has(text) || type === 3 ? [added(i, text, true, older && text === '[MASK]')]
      : type === 4 && !older ? [added(i, text, false)] : []);
  const never = ({text}) => older && /\p{Nd},$/u.test(text);
  return {
    version: '1.0', truncation: null, padding: null, added_tokens,
    normalizer: {type: 'Sequence', normalizers},
    pre_tokenizer: older ? metaspace : {type: 'Sequence', pretokenizers: [{type: 'WhitespaceSplit'}, metaspace]},
    post_processor: {
      type: 'TemplateProcessing',
      single: template(['[CLS]', 0], ['A', 0], ['[SEP]', 0]),
      pair: template(['[CLS]', 0], ['A', 0], ['[SEP]', 0], ['B', 1], ['[SEP]', 1]),
      special_tokens: Object.fromEntries(['[CLS]', '[SEP]'].map((t) => [t, {id: t, ids: [id(t)], tokens: [t]}])),
    },
    decoder: metaspace,
    model: {
      type: 'Unigram', unk_id: model.unk_id,
      vocab: model.pieces.map((piece) => [piece.text, never(piece) ? piece.score - 100 : piece.score]),
      byte_fallback: false,
    },
  };
}
