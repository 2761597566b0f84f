// SPDX-License-Identifier: Apache-2.0
// A text classifier on ONNX Runtime behind node's http server, as one would write it today: the fused graph, one text at
// a time, no padding. POST /predict {"inputs": "…"} → [{"score", "label"}, …], as ours answers.
//   node server.mjs --model FOLDER --precision int8 [--threads 2] [--processes 1] [--port 0]
// FOLDER is one of ours with a tokenizer.json. Several processes share the port (node's cluster).
import cluster from 'node:cluster';
import fs from 'node:fs';
import http from 'node:http';
import {createRequire} from 'node:module';
import path from 'node:path';
import {parseArgs} from 'node:util';
import {encoder_graph, feeds_of, open_session, settings_for} from './session.mjs';
import {folder_weights} from './weights.mjs';

const {Tokenizer} = createRequire(import.meta.url)('tokenizers');
const {values: flags} = parseArgs({options: {
  model: {type: 'string'}, precision: {type: 'string', default: 'int8'}, threads: {type: 'string', default: '2'},
  processes: {type: 'string', default: '1'}, port: {type: 'string', default: '0'}}});

function softmax(logits) {
  const most = Math.max(...logits), parts = logits.map((logit) => Math.exp(logit - most));
  const sum = parts.reduce((a, b) => a + b);
  return parts.map((part) => part / sum);
}

async function body_of(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts));
}

async function serve() {
  const {spec, read} = folder_weights(flags.model);
  const labels = JSON.parse(fs.readFileSync(path.join(flags.model, 'exits.json'))).labels;
  // Several processes leave each other their cores; a single one may keep its threads spinning.
  const settings = settings_for(flags.precision)[Number(flags.processes) > 1 ? 1 : 0];
  const session = await open_session(encoder_graph(spec, read, flags.precision), Number(flags.threads), settings);
  // Many of these files pad every text to one length; a server of single texts does not.
  const description = JSON.parse(fs.readFileSync(path.join(flags.model, 'tokenizer.json')));
  const tokenizer = Tokenizer.fromString(JSON.stringify({...description, padding: null}));
  const answer = async (text) => {
    const encoded = await tokenizer.encode(text, null);
    const {logits} = await session.run(feeds_of([[...encoded.getIds()]]));
    return softmax([...logits.data]).map((score, i) => ({score, label: labels[i]})).sort((a, b) => b.score - a.score);
  };
  await answer('a first text, so that nobody waits for what is done once');
  const server = http.createServer(async (request, response) => {
    try {
      const text = JSON.stringify(await answer((await body_of(request)).inputs));
      response.writeHead(200, {'content-type': 'application/json', 'content-length': Buffer.byteLength(text)});
      response.end(text);
    } catch (error) {
      response.writeHead(400, {'content-length': 0});
      response.end();
    }
  });
  server.listen(Number(flags.port), '127.0.0.1', () => {
    if (!cluster.isWorker) console.error(JSON.stringify({address: `127.0.0.1:${server.address().port}`}));
  });
}

if (Number(flags.processes) > 1 && cluster.isPrimary) {
  let listening = 0;
  cluster.on('listening', (worker, address) => {
    if (++listening === Number(flags.processes)) console.error(JSON.stringify({address: `127.0.0.1:${address.port}`}));
  });
  for (let i = 0; i < Number(flags.processes); ++i) cluster.fork();
  process.on('SIGTERM', () => Object.values(cluster.workers).forEach((worker) => worker.process.kill('SIGKILL')));
  cluster.on('exit', () => Object.keys(cluster.workers).length || process.exit(0));
} else {
  await serve();
}
