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
