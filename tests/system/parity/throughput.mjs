#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Ours and the oracle's throughput on the same lines, in turns on one thread, by processor time: other work on the
// machine then disturbs little. Called by benchmarks/peers/tokenizers.
import fs from 'fs';
import path from 'path';
import {execFileSync} from 'child_process';
import {createRequire} from 'module';
import {parseArgs} from 'util';
import {make_subjects} from './models.mjs';
import {Random} from './generators.mjs';
import {made_up_words} from './small.mjs';

const {Tokenizer} = createRequire(import.meta.url)('tokenizers');
const {values: flags} = parseArgs({options: {
  program: {type: 'string'}, out: {type: 'string'}, shared: {type: 'string', default: '/nonexistent'},
  small: {type: 'string', default: ''}, seconds: {type: 'string', default: '4'}, least: {type: 'string', default: '3'},
}});
const seconds = Number(flags.seconds);
const rounds = 3;

// About four megabytes of lines: books and encyclopedia where there are any, else words in a made-up order.
function english_lines() {
  const corpus = path.join(flags.shared, 'corpus');
  const files = ['books', 'wiki_general', 'gov_web'].map((name) => path.join(corpus, `${name}.txt.xz`)).filter(fs.existsSync);
  const lines = files.flatMap((file) => execFileSync('bash', ['-c', `xz -dc '${file}' | head -c 8000000 | tail -c 4000000`],
    {maxBuffer: 1 << 26}).toString('utf8').split('\n').slice(1, -1).filter((l) => l.length >= 100 && l.length < 2000)
    .slice(0, 3000));
  if (lines.length) return {lines, source: 'books, encyclopedia and government text'};
  const random = new Random(1);
  return {lines: Array.from({length: 6000}, () => Array.from({length: random.between(20, 120)}, () =>
    random.pick(made_up_words)).join(' ')), source: 'made-up lines'};
}

async function oracle_speed(tokenizer, lines, bytes) {
  let best = Infinity;
  for (let total = 0; total < seconds; ) {
    const start = process.cpuUsage();
    for (let at = 0; at < lines.length; at += 256) await tokenizer.encodeBatch(lines.slice(at, at + 256));
    const {user, system} = process.cpuUsage(start);
    const pass = (user + system) / 1e6;
    best = Math.min(best, pass);
    total += pass;
  }
  return bytes / best;
}

const {lines, source} = english_lines();
const file = path.join(flags.out, 'lines.txt');
fs.mkdirSync(flags.out, {recursive: true});
fs.writeFileSync(file, lines.join('\n') + '\n');
const bytes = fs.statSync(file).size;
console.log(`${lines.length} lines, ${(bytes / 1e6).toFixed(1)} MB of ${source}; one thread, processor time, best of ${rounds} rounds`);
const chosen = ['wordpiece-uncased', 'unigram-spiece', 'bpe-roberta'];
let slow = 0;
for (const subject of make_subjects(path.join(flags.out, 'models'), flags.shared, flags.small)) {
  if (!chosen.includes(subject.name)) continue;
  const tokenizer = Tokenizer.fromFile(subject.json);
  tokenizer.disableTruncation();
  tokenizer.disablePadding();
  const ours = [], theirs = [];
  for (let round = 0; round < rounds; ++round) {
    theirs.push(await oracle_speed(tokenizer, lines, bytes));
    ours.push(JSON.parse(execFileSync(flags.program, [subject.folder, file, String(seconds)])).bytes_per_second);
  }
  const [a, b] = [Math.max(...ours), Math.max(...theirs)];
  if (a < Number(flags.least) * b) ++slow;
  console.log(`${subject.name.padEnd(20)} ours ${(a / 1e6).toFixed(1).padStart(7)} MB/s   package ` +
    `${(b / 1e6).toFixed(1).padStart(6)} MB/s   ratio ${(a / b).toFixed(1).padStart(5)}`);
}
if (slow) console.log(`${slow} below ${flags.least} times the package`);
process.exit(slow ? 1 : 0);
