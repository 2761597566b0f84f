// SPDX-License-Identifier: Apache-2.0
// The graphs of `exeunt export onnx` in ONNX Runtime: every model of tests/fixtures/golden with exits, its texts as one padded
// batch, against logits that other software computed from the same ids.
//   node runtime.mjs EXEUNT TESTS PACKAGES       (PACKAGES: the folder whose node_modules has onnxruntime-node)
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';

const tolerance = 1e-4;
const [exeunt, tests, packages] = process.argv.slice(2);
if (!fs.existsSync(path.join(packages, 'node_modules', 'onnxruntime-node'))) {
  console.log(`${packages}: no onnxruntime-node; 'scripts/check onnx' brings it`);
  process.exit(77);
}
const ort = createRequire(path.join(path.resolve(packages), 'x.js'))('onnxruntime-node');

function read_golden(file) {
  const data = fs.readFileSync(file), size = Number(data.readBigUInt64LE());
  const kinds = {F32: Float32Array, I32: Int32Array, U8: Uint8Array};
  return Object.fromEntries(Object.entries(JSON.parse(data.toString('utf8', 8, 8 + size)))
    .filter(([name]) => name !== '__metadata__').map(([name, entry]) => {
      const [start, end] = entry.data_offsets.map((offset) => data.byteOffset + 8 + size + offset);
      return [name, {shape: entry.shape, data: new kinds[entry.dtype](data.buffer.slice(start, end))}];
    }));
}

function padded_batch({ids, types, lengths}) {
  const tokens = Math.max(...lengths.data), dims = [lengths.data.length, tokens];
  const rows = {input_ids: [], attention_mask: [], token_type_ids: []};
  let start = 0;
  for (const length of lengths.data) {
    for (let i = 0; i < tokens; ++i) {
      rows.input_ids.push(BigInt(i < length ? ids.data[start + i] : 0));
      rows.token_type_ids.push(BigInt(i < length ? types.data[start + i] : 0));
      rows.attention_mask.push(i < length ? 1n : 0n);
    }
    start += length;
  }
  return Object.fromEntries(Object.entries(rows).map(([name, values]) =>
    [name, new ort.Tensor('int64', BigInt64Array.from(values), dims)]));
}

const open = (file) => ort.InferenceSession.create(file, {intraOpNumThreads: 1, graphOptimizationLevel: 'all'});
const pick = (feeds, session) => Object.fromEntries(session.inputNames.map((name) => [name, feeds[name]]));
function worst_difference(got, wanted) {
  if (got.length !== wanted.length) throw new Error(`got ${got.length} numbers, want ${wanted.length}`);
  return got.reduce((worst, value, i) => Math.max(worst, Number.isNaN(value) ? Infinity : Math.abs(value - wanted[i])), 0);
}

async function check(folder, golden) {
  const feeds = padded_batch(golden), [texts, exits, outputs] = golden.logits.shape;
  const whole = await open(path.join(folder, 'all_exits.onnx'));
  const out = await whole.run(pick(feeds, whole));
  let worst = 0;
  for (const name of whole.outputNames) worst = Math.max(worst, worst_difference(out[name].data, golden[name].data));
  let given = feeds;
  const {segments} = JSON.parse(fs.readFileSync(path.join(folder, 'onnx.json')));
  for (const [number, {file}] of segments.entries()) {
    const session = await open(path.join(folder, file));
    const part = await session.run(pick(given, session));
    const wanted = Array.from({length: texts * outputs}, (_, i) =>
      golden.logits.data[(Math.floor(i / outputs) * exits + number) * outputs + i % outputs]);
    worst = Math.max(worst, worst_difference(part.logits.data, wanted));
    given = {hidden: part.hidden_out, attention_mask: feeds.attention_mask};
    await session.release();
  }
  await whole.release();
  return worst;
}

let done = 0, failed = 0;
for (const name of fs.readdirSync(path.join(tests, 'golden')).sort()) {
  const file = path.join(tests, 'golden', name, 'golden.safetensors');
  if (!fs.existsSync(file)) continue;
  const golden = read_golden(file);
  if (!golden.logits) continue;
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'exeunt-onnx-'));
  try {
    const out = path.join(scratch, 'onnx');
    execFileSync(exeunt, ['export', 'onnx', path.dirname(file), '--out', out, '-q']);
    const worst = await check(out, golden);
    ++done;
    if (!(worst <= tolerance)) {
      ++failed;
      console.log(`${name}: off by ${worst.toExponential(1)}, want at most ${tolerance}`);
    }
  } finally {
    fs.rmSync(scratch, {recursive: true});
  }
}
console.log(`${done - failed} of ${done} models agree in ONNX Runtime`);
process.exitCode = failed || done < 30 ? 1 : 0;
