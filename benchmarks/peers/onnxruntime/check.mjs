// SPDX-License-Identifier: Apache-2.0
// Proves that the graph computes what it should: the folders given (ours, with golden.safetensors of the same model
// beside them) through ONNX Runtime, against logits that other software computed from the same ids.
//   node check.mjs FOLDER GOLDEN [FOLDER GOLDEN …]
import fs from 'node:fs';
import {encoder_graph, feeds_of, open_session} from './session.mjs';
import {folder_weights} from './weights.mjs';

function read_safetensors(path) {
  const file = fs.readFileSync(path);
  const header_bytes = Number(file.readBigUInt64LE());
  const header = JSON.parse(file.toString('utf8', 8, 8 + header_bytes));
  const kinds = {F32: Float32Array, I32: Int32Array, I64: BigInt64Array, U8: Uint8Array};
  return Object.fromEntries(Object.entries(header).filter(([name]) => name !== '__metadata__').map(([name, entry]) => {
    const [start, end] = entry.data_offsets.map((offset) => file.byteOffset + 8 + header_bytes + offset);
    return [name, {shape: entry.shape, data: new kinds[entry.dtype](file.buffer.slice(start, end))}];
  }));
}

async function largest_difference(folder, golden, precision) {
  const {spec, read} = folder_weights(folder);
  const session = await open_session(encoder_graph(spec, read, precision), 1);
  const known = read_safetensors(golden);
  const [texts, exits, outputs] = known.logits.shape;
  let worst = 0, largest = 0, start = 0;
  for (let text = 0; text < texts; ++text) {
    const end = start + known.lengths.data[text];
    const part = (name) => Array.from(known[name].data.subarray(start, end));
    const out = await session.run(feeds_of([part('ids')], [part('types')]));
    const last = (text * exits + exits - 1) * outputs;
    known.logits.data.subarray(last, last + outputs).forEach((wanted, i) => {
      worst = Math.max(worst, Math.abs(out.logits.data[i] - wanted));
      largest = Math.max(largest, Math.abs(wanted));
    });
    start = end;
  }
  if (!(largest > 0)) throw new Error(`${golden}: no logits to compare with`);
  return {worst, largest};
}

let failed = false;
for (let i = 2; i + 1 < process.argv.length; i += 2) {
  const [folder, golden] = process.argv.slice(i, i + 2);
  // int8 rounds weights and activations of a random model, so only gross mistakes show there.
  for (const [precision, share] of [['fp32', 1e-4], ['int8', 0.1]]) {
    const {worst, largest} = await largest_difference(folder, golden, precision);
    const good = worst <= share * Math.max(1, largest);
    failed ||= !good;
    console.log(`${good ? 'ok  ' : 'FAIL'} ${folder} ${precision}: logits up to ${largest.toPrecision(3)}, differ by ${worst.toExponential(1)}`);
  }
}
process.exitCode = failed ? 1 : 0;
