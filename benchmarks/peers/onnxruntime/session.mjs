// SPDX-License-Identifier: Apache-2.0
// A graph in ONNX Runtime on the CPU.
import ort from 'onnxruntime-node';
import {encoder_graph} from './graph.mjs';

// Settings of the package that change speed; the best of them counts. bf16 exists on Arm alone, as a mode of fp32.
export function settings_for(precision) {
  const plain = {'session.set_denormal_as_zero': '1'};
  const quiet = {...plain, 'session.intra_op.allow_spinning': '0'};
  if (precision !== 'bf16') return [plain, quiet];
  const fast = {'mlas.enable_gemm_fastmath_arm64_bfloat16': '1'};
  return [{...plain, ...fast}, {...quiet, ...fast}];
}

export const precisions = process.arch === 'arm64' ? ['fp32', 'bf16', 'int8'] : ['fp32', 'int8'];

// { 'a.b.c': '1' } → { a: { b: { c: '1' } } }, which is how the package takes entries of the session's configuration.
function nested(entries) {
  const out = {};
  for (const [name, value] of Object.entries(entries)) {
    const parts = name.split('.'), last = parts.pop();
    let place = out;
    for (const part of parts) place = place[part] ??= {};
    place[last] = value;
  }
  return out;
}

export async function open_session(bytes, threads, entries = {}) {
  return ort.InferenceSession.create(bytes, {intraOpNumThreads: threads, interOpNumThreads: 1,
    executionMode: 'sequential', graphOptimizationLevel: 'all', enableCpuMemArena: true, enableMemPattern: true,
    extra: nested(entries)});
}

// Feeds of texts that all have the same number of tokens.
export function feeds_of(texts, types = texts.map((ids) => ids.map(() => 0))) {
  const dims = [texts.length, texts[0].length];
  return {ids: new ort.Tensor('int32', Int32Array.from(texts.flat()), dims),
    types: new ort.Tensor('int32', Int32Array.from(types.flat()), dims)};
}

export {encoder_graph};
