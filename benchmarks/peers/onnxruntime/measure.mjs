// SPDX-License-Identifier: Apache-2.0
// Times one shape and precision in ONNX Runtime, one text at a time, and prints JSON: a list of
// {precision, threads, length, best_ms, p50_ms, cpu_ms, settings}, the best of the package's settings for each length.
//   node measure.mjs --shape bert-base --precision int8 --threads 1,2 --lengths 16,128 [--seconds 1]
import {parseArgs} from 'node:util';
import {encoder_graph, feeds_of, open_session, precisions, settings_for} from './session.mjs';
import {random_weights, shapes} from './weights.mjs';

const {values: flags} = parseArgs({options: {
  shape: {type: 'string', default: 'bert-base'}, precision: {type: 'string', default: 'fp32'},
  threads: {type: 'string', default: '1'}, lengths: {type: 'string', default: '16,32,64,128'},
  seconds: {type: 'string', default: '1'}}});
const numbers = (text) => text.split(',').map(Number);
if (!shapes[flags.shape]) throw new Error(`unknown shape '${flags.shape}'; known: ${Object.keys(shapes)}`);
const spec = shapes[flags.shape];

async function time(session, length) {
  const feeds = feeds_of([Array.from({length}, (_, i) => 1 + (i * 7919) % 20000)]);
  const times = [];
  let cpu_ms = Infinity;
  for (let i = 0; i < 2; ++i) await session.run(feeds);
  const end = performance.now() + 1000 * Number(flags.seconds);
  do {
    const start = performance.now(), processor = process.cpuUsage();
    await session.run(feeds);
    const used = process.cpuUsage(processor);
    cpu_ms = Math.min(cpu_ms, (used.user + used.system) / 1000);
    times.push(performance.now() - start);
  } while (performance.now() < end || times.length < 5);
  times.sort((a, b) => a - b);
  return {best_ms: times[0], p50_ms: times[Math.floor(times.length / 2)], cpu_ms};
}

const rows = [];
if (precisions.includes(flags.precision)) {
  const graph = encoder_graph(spec, random_weights(spec), flags.precision);
  for (const threads of numbers(flags.threads)) {
    const best = new Map();
    for (const settings of settings_for(flags.precision)) {
      const session = await open_session(graph, threads, settings);
      for (const length of numbers(flags.lengths)) {
        const found = {precision: flags.precision, threads, length, ...await time(session, length), settings};
        const before = best.get(length);
        if (before) found.cpu_ms = Math.min(found.cpu_ms, before.cpu_ms);
        if (!before || found.best_ms < before.best_ms) best.set(length, found);
        else before.cpu_ms = found.cpu_ms;
      }
      await session.release();
    }
    rows.push(...best.values());
  }
}
console.log(JSON.stringify(rows));
