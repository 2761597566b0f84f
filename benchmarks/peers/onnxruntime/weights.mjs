// SPDX-License-Identifier: Apache-2.0
// Weights under Exeunt's names: out of a model folder of ours, or random ones of a known shape.
import fs from 'node:fs';
import path from 'node:path';

const base = {layers: 12, hidden: 768, heads: 12, inner: 3072, vocab: 30522, embedding: 768, positions: 512, groups: 0,
  epsilon: 1e-12, activation: 'gelu', outputs: 2};
export const shapes = {
  'bert-base': base,
  'bert-large': {...base, layers: 24, hidden: 1024, heads: 16, inner: 4096, embedding: 1024},
  'albert-base': {...base, vocab: 30000, embedding: 128, groups: 1, activation: 'gelu_new'},
  'minilm-l12': {...base, hidden: 384, inner: 1536, embedding: 384},
};

// Uniform numbers from a fixed seed, as spread out as BERT's initial weights (standard deviation 0.02).
function random_tensor(length, seed) {
  const out = new Float32Array(length);
  let state = seed >>> 0;
  for (let i = 0; i < length; ++i) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    out[i] = (state / 4294967296 - 0.5) * 0.0693;
  }
  return out;
}

// The sides of every tensor the graph reads.
function sides(spec, name) {
  const {hidden: d, inner: f, embedding: e} = spec;
  const known = {
    'embeddings.word': [spec.vocab, e], 'embeddings.position': [spec.positions, e], 'embeddings.segment': [2, e],
    'embeddings.norm': [e], 'embeddings.project': [d, e], 'exits.pooler': [d, d], 'exits.classifier': [spec.outputs, d],
  };
  const linear = {query: [d, d], key: [d, d], value: [d, d], output: [d, d], ffn1: [f, d], ffn2: [d, f]};
  return known[name] ?? linear[name.split('.').at(-1)] ?? [d];
}

export function random_weights(spec) {
  let seed = 1;
  return (name) => {
    const part = name.replace(/\.(weight|bias)$/, '');
    const [rows, columns = 1] = sides(spec, part);
    if (part.endsWith('norm')) return new Float32Array(rows).fill(name.endsWith('weight') ? 1 : 0);
    return random_tensor(name.endsWith('weight') ? rows * columns : rows, seed += 7919);
  };
}

// The value of a half-precision number's 16 bits.
function half_value(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

// Reads safetensors (fp32 or half precision) of a folder that `exeunt convert` wrote; the graph's one head is the last exit.
export function folder_weights(folder) {
  const file = fs.readFileSync(path.join(folder, 'model.safetensors'));
  const header_bytes = Number(file.readBigUInt64LE());
  const header = JSON.parse(file.toString('utf8', 8, 8 + header_bytes));
  const config = JSON.parse(fs.readFileSync(path.join(folder, 'config.json')));
  const exits = JSON.parse(fs.readFileSync(path.join(folder, 'exits.json')));
  const last = exits.exits.at(-1);
  const spec = {layers: config.num_hidden_layers, hidden: config.hidden_size, heads: config.num_attention_heads,
    inner: config.intermediate_size, embedding: config.embedding_size ?? config.hidden_size,
    groups: config.model_type === 'albert' ? config.num_hidden_groups ?? 1 : 0, epsilon: config.layer_norm_eps ?? 1e-12,
    activation: config.hidden_act, outputs: exits.outputs, reader: last.reader !== null};
  const read = (name) => {
    const own = name.replace('exits.reader.', `exits.reader.${last.reader}.`)
                    .replace('exits.pooler.', `exits.pooler.${last.pooler}.`)
                    .replace('exits.classifier.', `exits.classifier.${last.classifier}.`);
    const entry = header[own];
    if (!['F32', 'F16'].includes(entry?.dtype)) throw new Error(`${folder}: want a tensor '${own}' in F32 or F16`);
    const [start, end] = entry.data_offsets;
    const bytes = file.buffer.slice(file.byteOffset + 8 + header_bytes + start, file.byteOffset + 8 + header_bytes + end);
    return entry.dtype === 'F32' ? new Float32Array(bytes) : Float32Array.from(new Uint16Array(bytes), half_value);
  };
  return {spec, read};
}
