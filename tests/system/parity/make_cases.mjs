#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Makes tests/fixtures/text/cases/: small tokenizers of our own, and what the oracle gives for a few thousand texts. They run in
// the ordinary tests, without node. Run `npm ci` here first, then this; the result depends on nothing else.
import fs from 'fs';
import path from 'path';
import {createRequire} from 'module';
import {fileURLToPath} from 'url';
import {Random, dress, generators} from './generators.mjs';
import {gpt2_tokenizer_json, roberta_tokenizer_json, roberta_vocab} from './models.mjs';
import {albert_tokenizer_json, metaspace, read_spiece} from './spiece.mjs';
import {awkward_tokenizer_json, bert_tokenizer_json, composed_tokenizer_json, small_wordpieces} from './small_wordpiece.mjs';
import {small_bpe, small_charsmap, small_pieces, write_spiece} from './small.mjs';

const {Tokenizer} = createRequire(import.meta.url)('tokenizers');
const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../text/cases');

const lines = (list) => list.map((item) => JSON.stringify(item)).join('\n') + '\n';
const json_text = (value) => JSON.stringify(value) + '\n';

async function make(name, files, oracle_json, count, seed) {
  const folder = path.join(root, name);
  fs.rmSync(folder, {recursive: true, force: true});
  fs.mkdirSync(folder, {recursive: true});
  for (const [file, content] of Object.entries(files)) fs.writeFileSync(path.join(folder, file), content);
  const tokenizer = Tokenizer.fromString(JSON.stringify(oracle_json));
  const vocab = Object.keys(tokenizer.getVocab(false)).sort();
  const random = new Random(seed);
  const names = Object.keys(generators);
  const cases = [];
  for (let i = 0; i < count; ++i) {
    const generate = generators[names[i % names.length]];
    const short = () => [...generate(random, vocab)].slice(0, 40).join('');
    const item = dress(random, short(), short());
    if (item.max_length === undefined) tokenizer.disableTruncation();
    else tokenizer.setTruncation(item.max_length);
    const e = await tokenizer.encode(item.text, item.pair ?? null, {addSpecialTokens: item.special_tokens ?? true});
    const types = e.getTypeIds();
    // Types are left out where all are 0.
    cases.push({...item, ids: e.getIds(), ...(types.some((t) => t) ? {types} : {}), offsets: e.getOffsets().flat()});
  }
  fs.writeFileSync(path.join(folder, 'cases.jsonl'), lines(cases));
  console.log(`${name}: ${count} cases`);
}

const pieces = small_pieces();
const spiece = write_spiece(pieces, small_charsmap());
const model = read_spiece(spiece);
const vocab_file = pieces.map(({text, score}) => `${text}\t${score}\n`).join('');
const albert = albert_tokenizer_json(model);
await make('unigram', {'spiece.model': spiece, 'spiece.vocab': vocab_file}, albert, 900, 11);

const cased = albert_tokenizer_json(model, {keep_accents: true, lower: false});
await make('unigram_cased', {'spiece.model': spiece,
  'tokenizer_config.json': json_text({keep_accents: true, do_lower_case: false})}, cased, 450, 12);

const bytes = structuredClone(albert_tokenizer_json(model));
bytes.model.byte_fallback = true;
for (let b = 0; b < 256; ++b) {
  bytes.model.vocab.push([`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`, -8]);
}
bytes.pre_tokenizer = {...metaspace, prepend_scheme: 'first'};
await make('unigram_bytes', {'tokenizer.json': json_text(bytes)}, bytes, 450, 13);

const unsplit = albert_tokenizer_json(model, {older: true});
unsplit.pre_tokenizer = {...metaspace, split: false};
await make('unigram_unsplit', {'tokenizer.json': json_text(unsplit)}, unsplit, 450, 14);

// As ALBERT's published folders have it: the older form of Metaspace, and user-defined pieces left to the model.
const words = albert_tokenizer_json(model, {older: true});
words.normalizer.normalizers.pop();
words.pre_tokenizer = {type: 'Sequence', pretokenizers: [{type: 'WhitespaceSplit'},
  {type: 'Metaspace', replacement: '▁', add_prefix_space: true}]};
await make('unigram_words', {'tokenizer.json': json_text(words)}, words, 450, 15);

const bpe = small_bpe();
const roberta = roberta_vocab(bpe.vocab);
const merges_txt = '#version: 0.2\n' + bpe.merges.map((pair) => pair.join(' ') + '\n').join('');
await make('bpe', {'vocab.json': json_text(roberta), 'merges.txt': merges_txt},
  roberta_tokenizer_json(roberta, bpe.merges), 900, 21);

const gpt2 = gpt2_tokenizer_json({...bpe.vocab, '<|endoftext|>': Object.keys(bpe.vocab).length}, bpe.merges,
  {ignore_merges: true});
await make('bpe_whole', {'tokenizer.json': json_text(gpt2)}, gpt2, 450, 22);

// Some bytes have no token: with a fused unknown token, as fallback bytes, and dropped.
const holes = (options) => {
  const vocab = Object.fromEntries(Object.entries(bpe.vocab).filter(([token]) => !/[Ññðä]/u.test(token)));
  const merges = bpe.merges.filter((pair) => [...pair, pair.join('')].every((token) => token in vocab));
  const renumbered = Object.fromEntries(Object.keys(vocab).map((token, id) => [token, id]));
  const next = Object.keys(renumbered).length;
  renumbered['<|endoftext|>'] = next;
  if (options.unk_token) renumbered['<unk>'] = next + 1;
  if (options.byte_fallback) for (const b of ['C3', '90', 'B1', '91']) renumbered[`<0x${b}>`] = next + 2 + Number(`0x${b}`);
  const json = gpt2_tokenizer_json(renumbered, merges, {add_prefix_space: false});
  json.model = {...json.model, ...options};
  return json;
};
for (const [name, options, seed] of [['bpe_unknown', {unk_token: '<unk>', fuse_unk: true}, 23],
  ['bpe_fallback', {unk_token: '<unk>', byte_fallback: true}, 24], ['bpe_dropped', {}, 25]]) {
  const json = holes(options);
  if (name === 'bpe_dropped') json.pre_tokenizer.use_regex = false;
  await make(name, {'tokenizer.json': json_text(json)}, json, 300, seed);
}

const lower = small_wordpieces(new Random(31));
const mixed = small_wordpieces(new Random(32), {cased: true});
const vocab_txt = (tokens) => tokens.join('\n') + '\n';
const uncased = bert_tokenizer_json(lower);
await make('wordpiece', {'tokenizer.json': json_text(uncased), 'vocab.txt': vocab_txt(lower)}, uncased, 1200, 33);
await make('wordpiece_uncased', {'vocab.txt': vocab_txt(lower)}, uncased, 600, 34);
await make('wordpiece_cased', {'vocab.txt': vocab_txt(mixed), 'tokenizer_config.json': json_text({do_lower_case: false})},
  bert_tokenizer_json(mixed, {lowercase: false}), 900, 35);
const awkward = awkward_tokenizer_json(mixed);
await make('wordpiece_added', {'tokenizer.json': json_text(awkward)}, awkward, 900, 36);
const composed = composed_tokenizer_json(lower);
await make('wordpiece_composed', {'tokenizer.json': json_text(composed)}, composed, 600, 37);
