// SPDX-License-Identifier: Apache-2.0
// Times a graph of `exeunt export onnx` in ONNX Runtime, one text at a time, and prints JSON: a list of
// {length, best_ms, cpu_ms, peak_mib, runs}, the peak being that of the process up to then.
//   node exported.mjs --graph FOLDER/all_exits.onnx --precision fp32 --threads 2 --lengths 128,2048 [--seconds 1]
import {parseArgs} from 'node:util';
import ort from 'onnxruntime-node';
import {open_session, precisions, settings_for} from './session.mjs';

const {values: flags} = parseArgs({options: {
  graph: {type: 'string'}, precision: {type: 'string', default: 'fp32'}, threads: {type: 'string', default: '1'},
  lengths: {type: 'string', default: '128'}, seconds: {type: 'string', default: '1'}}});

function feeds_of(session, length) {
  const tensor = (value) => new ort.Tensor('int64', BigInt64Array.from({length}, (_, i) => BigInt(value(i))), [1, length]);
  const feeds = {input_ids: tensor((i) => 1 + (i * 7919) % 20000), attention_mask: tensor(() => 1)};
  if (session.inputNames.includes('token_type_ids')) feeds.token_type_ids = tensor(() => 0);
  return feeds;
}

const rows = [];
if (precisions.includes(flags.precision) && flags.precision !== 'int8') {
  const session = await open_session(flags.graph, Number(flags.threads), settings_for(flags.precision)[0]);
  for (const length of flags.lengths.split(',').map(Number)) {
    const feeds = feeds_of(session, length);
    let best_ms = Infinity, cpu_ms = Infinity, runs = 0;
    const end = performance.now() + 1000 * Number(flags.seconds);
    do {
      const start = performance.now(), processor = process.cpuUsage();
      await session.run(feeds);
      const used = process.cpuUsage(processor);
      cpu_ms = Math.min(cpu_ms, (used.user + used.system) / 1000);
      best_ms = Math.min(best_ms, performance.now() - start);
      ++runs;
    } while (performance.now() < end || (runs < 2 && length <= 2048));
    rows.push({length, best_ms, cpu_ms, peak_mib: process.resourceUsage().maxRSS / 1024, runs});
  }
}
console.log(JSON.stringify(rows));
