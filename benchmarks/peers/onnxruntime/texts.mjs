// SPDX-License-Identifier: Apache-2.0
// Mean time of a text in ONNX Runtime over texts of given lengths, one after another, as they are and padded.
//   node texts.mjs --shape minilm-l12 --precision fp32 --threads 1 --lengths-file lengths.json --pad-to 128
// Prints {unpadded_ms, padded_ms}: the best of a few passes, padded with an attention mask left out, which favours it.
import fs from 'node:fs';
import {parseArgs} from 'node:util';
import {encoder_graph, feeds_of, open_session, settings_for} from './session.mjs';
import {random_weights, shapes} from './weights.mjs';

const {values: flags} = parseArgs({options: {
  shape: {type: 'string', default: 'minilm-l12'}, precision: {type: 'string', default: 'fp32'},
  threads: {type: 'string', default: '1'}, 'lengths-file': {type: 'string'}, 'pad-to': {type: 'string', default: '128'},
  passes: {type: 'string', default: '3'}}});
const spec = shapes[flags.shape], lengths = JSON.parse(fs.readFileSync(flags['lengths-file']));
const session = await open_session(encoder_graph(spec, random_weights(spec), flags.precision), Number(flags.threads),
                                   settings_for(flags.precision)[0]);
const feeds = new Map();
const feed = (length) => {
  if (!feeds.has(length)) feeds.set(length, feeds_of([Array.from({length}, (_, i) => 1 + (i * 7919) % 20000)]));
  return feeds.get(length);
};

async function mean_ms(length_of) {
  let best = Infinity;
  for (let pass = 0; pass < Number(flags.passes); ++pass) {
    const start = performance.now();
    for (const length of lengths) await session.run(feed(length_of(length)));
    best = Math.min(best, (performance.now() - start) / lengths.length);
  }
  return best;
}

await session.run(feed(Number(flags['pad-to'])));
console.log(JSON.stringify({unpadded_ms: await mean_ms((length) => length),
  padded_ms: await mean_ms(() => Number(flags['pad-to']))}));
