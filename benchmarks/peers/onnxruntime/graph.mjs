// SPDX-License-Identifier: Apache-2.0
// A BERT or ALBERT classifier as ONNX Runtime likes it best: its own fused operators (EmbedLayerNormalization,
// Attention, SkipLayerNormalization, BiasGelu), and for int8 QAttention and DynamicQuantizeMatMul, with weights
// quantised per column and activations as they come.
import {FLOAT, INT32, INT8, model, node, tensor, value} from './protobuf.mjs';

const microsoft = 'com.microsoft';

// [rows, columns] → [columns, rows]: we keep weights as [outputs, inputs], ONNX multiplies by [inputs, outputs].
function transposed(data, rows, columns) {
  const out = new Float32Array(data.length);
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) out[column * rows + row] = data[row * columns + column];
  }
  return out;
}

// Symmetric int8 with one scale per column of [inputs, outputs].
function quantized(data, inputs, outputs) {
  const scales = new Float32Array(outputs);
  for (let i = 0; i < data.length; ++i) scales[i % outputs] = Math.max(scales[i % outputs], Math.abs(data[i]));
  for (let i = 0; i < outputs; ++i) scales[i] = Math.max(scales[i], 1e-12) / 127;
  const values = new Int8Array(data.length);
  for (let i = 0; i < data.length; ++i) values[i] = Math.round(data[i] / scales[i % outputs]);
  return {values, scales};
}

function side_by_side(parts, rows, columns) {  // [rows, columns] each → [rows, parts · columns]
  const out = new Float32Array(parts.length * rows * columns);
  parts.forEach((part, at) => {
    for (let row = 0; row < rows; ++row) {
      out.set(part.subarray(row * columns, (row + 1) * columns), (row * parts.length + at) * columns);
    }
  });
  return out;
}

function joined(parts) {
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => (out.set(part, at), at + part.length), 0);
  return out;
}

class Builder {
  constructor(spec, read, precision) {
    Object.assign(this, {spec, read, int8: precision === 'int8', nodes: [], tensors: [], known: new Set()});
  }

  put(name, dims, make, type = FLOAT) {  // ALBERT's layers ask for the same tensors again and again
    if (!this.known.has(name)) this.tensors.push(tensor(name, type, dims, make()));
    this.known.add(name);
    return name;
  }
  vector(name) {
    const data = this.read(name);
    return this.put(name, [data.length], () => data);
  }
  op(type, inputs, output, attributes, domain) {
    this.nodes.push(node(type, inputs, [output].flat(), attributes, domain));
    return [output].flat()[0];
  }

  // The weight of `name`, [inputs, outputs]; in int8 with its scales and zero points beside it.
  weight(name, make, inputs, outputs) {
    if (!this.int8) return [this.put(name, [inputs, outputs], make)];
    if (!this.known.has(name)) {
      const {values, scales} = quantized(make(), inputs, outputs);
      this.put(name, [inputs, outputs], () => values, INT8);
      this.put(`${name}.scale`, [outputs], () => scales);
      this.put(`${name}.zero`, [outputs], () => new Int8Array(outputs), INT8);
    }
    return [name, `${name}.scale`, `${name}.zero`];
  }
  multiply(input, name, inputs, outputs, at) {
    const weight = this.weight(`${name}.weight`, () => transposed(this.read(`${name}.weight`), outputs, inputs), inputs,
                               outputs);
    return this.int8 ? this.op('DynamicQuantizeMatMul', [input, ...weight], at, {}, microsoft)
                     : this.op('MatMul', [input, ...weight], at);
  }

  attention(input, prefix, at) {
    const {hidden, heads} = this.spec;
    const parts = ['query', 'key', 'value'].map((part) => `${prefix}.${part}`);
    const make = () => side_by_side(parts.map((part) => transposed(this.read(`${part}.weight`), hidden, hidden)), hidden,
                                    hidden);
    const weight = this.weight(`${prefix}.qkv.weight`, make, hidden, 3 * hidden);
    const bias = this.put(`${prefix}.qkv.bias`, [3 * hidden], () => joined(parts.map((part) => this.read(`${part}.bias`))));
    if (!this.int8) return this.op('Attention', [input, ...weight, bias], at, {num_heads: heads}, microsoft);
    const [values, scale, zero] = [`${at}.u8`, `${at}.scale`, `${at}.zero`];
    this.op('DynamicQuantizeLinear', [input], [values, scale, zero]);
    return this.op('QAttention', [values, weight[0], bias, scale, weight[1], '', zero, weight[2]], at,
                   {num_heads: heads, unidirectional: 0}, microsoft);
  }
  add_and_norm(input, skip, bias, norm, at) {
    return this.op('SkipLayerNormalization',
                   [input, skip, this.vector(`${norm}.weight`), this.vector(`${norm}.bias`), this.vector(bias)], at,
                   {epsilon: this.spec.epsilon}, microsoft);
  }

  layer(input, index) {
    const {hidden, inner, groups, layers, activation} = this.spec;
    const prefix = groups ? `group.${Math.floor(index * groups / layers)}` : `layer.${index}`, at = `at.${index}`;
    const context = this.attention(input, prefix, `${at}.context`);
    const projected = this.multiply(context, `${prefix}.output`, hidden, hidden, `${at}.projected`);
    const attended = this.add_and_norm(projected, input, `${prefix}.output.bias`, `${prefix}.attention_norm`, `${at}.a`);
    const wide = this.multiply(attended, `${prefix}.ffn1`, hidden, inner, `${at}.wide`);
    const active = this.op(activation === 'gelu_new' ? 'FastGelu' : 'BiasGelu', [wide, this.vector(`${prefix}.ffn1.bias`)],
                           `${at}.active`, {}, microsoft);
    const narrow = this.multiply(active, `${prefix}.ffn2`, inner, hidden, `${at}.narrow`);
    return this.add_and_norm(narrow, attended, `${prefix}.ffn2.bias`, `${prefix}.ffn_norm`, `${at}.h`);
  }

  embeddings() {
    const {embedding, hidden, vocab, positions, epsilon} = this.spec;
    const table = (part, rows) => {
      const data = this.read(`embeddings.${part}.weight`);
      return this.put(`embeddings.${part}`, [rows ?? data.length / embedding, embedding], () => data);
    };
    const tables = [table('word', vocab), table('position', positions), table('segment')];
    const rows = this.op('EmbedLayerNormalization',
                         ['ids', 'types', ...tables, this.vector('embeddings.norm.weight'),
                          this.vector('embeddings.norm.bias')], ['embedded', 'mask_index'], {epsilon}, microsoft);
    if (embedding === hidden) return rows;
    const weight = this.put('project.weight', [embedding, hidden],
                            () => transposed(this.read('embeddings.project.weight'), hidden, embedding));
    const product = this.op('MatMul', [rows, weight], 'project.product');
    return this.op('Add', [product, this.vector('embeddings.project.bias')], 'projected');
  }

  head(rows) {
    const {hidden, outputs} = this.spec;
    const zero = this.put('zero', [], () => new Int32Array([0]), INT32);
    const matrix = (name, sides) => this.put(name, sides, () => this.read(name));
    let input = this.op('Gather', [rows, zero], 'cls', {axis: 1}), width = hidden;
    if (this.spec.reader) {  // beside row 0, the mean of all rows as one query weighs them
      const scores = this.op('MatMul', [rows, matrix('exits.reader.weight', [hidden, 1])], 'reader.scores');
      const weights = this.op('Softmax', [scores], 'reader.weights', {axis: 1});
      const turned = this.op('Transpose', [weights], 'reader.turned', {perm: [0, 2, 1]});
      const mean = this.op('MatMul', [turned, rows], 'reader.mean');
      const flat = this.op('Gather', [mean, zero], 'reader.flat', {axis: 1});
      [input, width] = [this.op('Concat', [input, flat], 'reader.input', {axis: 1}), 2 * hidden];
    }
    const pooled = this.op('Gemm', [input, matrix('exits.pooler.weight', [hidden, width]),
                                    this.vector('exits.pooler.bias')], 'pooled', {transB: 1});
    const active = this.op('Tanh', [pooled], 'active');
    return this.op('Gemm', [active, matrix('exits.classifier.weight', [outputs, hidden]),
                            this.vector('exits.classifier.bias')], 'logits', {transB: 1});
  }
}

// The bytes of the model. `read(name)` gives a tensor as Float32Array.
export function encoder_graph(spec, read, precision) {
  const builder = new Builder(spec, read, precision);
  let rows = builder.embeddings();
  for (let index = 0; index < spec.layers; ++index) rows = builder.layer(rows, index);
  builder.head(rows);
  const words = (name) => value(name, INT32, ['texts', 'tokens']);
  return model({nodes: builder.nodes, tensors: builder.tensors, inputs: [words('ids'), words('types')],
                outputs: [value('logits', FLOAT, ['texts', spec.outputs])]});
}
