#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Compares our tokenizers with the oracle: ids, types and offsets of every case must be equal.
//   node run.mjs --driver FILE --out FOLDER [--shared FOLDER] [--small FOLDER] [--count N] [--only NAME] [--seed N]
import fs from 'fs';
import path from 'path';
import readline from 'readline';
import {spawn, execFileSync} from 'child_process';
import {parseArgs} from 'util';
import {createRequire} from 'module';
import {Random, dress, generators, sweep} from './generators.mjs';
import {make_subjects} from './models.mjs';

const {Tokenizer} = createRequire(import.meta.url)('tokenizers');
const {values: flags} = parseArgs({options: {
  driver: {type: 'string'}, out: {type: 'string'}, shared: {type: 'string', default: '/nonexistent'},
  small: {type: 'string', default: ''}, count: {type: 'string', default: '200000'}, only: {type: 'string'},
  seed: {type: 'string', default: '1'},
}});
const target = Number(flags.count);

// The driver answers each line with one line, in order.
class Driver {
  constructor(folder) {
    this.child = spawn(flags.driver, [folder], {stdio: ['pipe', 'pipe', 'inherit']});
    this.lines = readline.createInterface({input: this.child.stdout, crlfDelay: Infinity})[Symbol.asyncIterator]();
  }
  async ask(cases) {
    this.child.stdin.write(cases.map((c) => JSON.stringify(c) + '\n').join(''));
    const answers = [];
    for (const _ of cases) {
      const {value, done} = await this.lines.next();
      if (done) throw new Error('the driver ended early');
      answers.push(value);
    }
    return answers;
  }
  end() {
    this.child.stdin.end();
  }
}

// Truncation is a state of the oracle, so cases go in groups that share it.
async function ask_oracle(tokenizer, cases) {
  const groups = new Map();
  cases.forEach((c, i) => {
    const key = `${c.max_length ?? ''} ${c.special_tokens ?? true}`;
    groups.set(key, [...(groups.get(key) ?? []), i]);
  });
  const answers = new Array(cases.length);
  for (const indices of groups.values()) {
    const {max_length, special_tokens = true} = cases[indices[0]];
    if (max_length === undefined) tokenizer.disableTruncation();
    else tokenizer.setTruncation(max_length);
    const flags = {addSpecialTokens: special_tokens};
    const keep = (i, e) => (answers[i] = JSON.stringify([e.getIds(), e.getTypeIds(), e.getOffsets().flat()]));
    const single = indices.filter((i) => cases[i].pair === undefined);
    const encodings = await tokenizer.encodeBatch(single.map((i) => cases[i].text), flags);
    encodings.forEach((e, k) => keep(single[k], e));
    for (const i of indices) {
      if (cases[i].pair !== undefined) keep(i, await tokenizer.encode(cases[i].text, cases[i].pair, flags));
    }
  }
  return answers;
}

function real_lines(shared, count) {
  const lines = [];
  const take = (text, most) => lines.push(...text.split('\n').filter((line) => line.trim()).slice(0, most));
  const corpus = path.join(shared, 'corpus');
  const data = path.join(shared, 'data');
  const sources = [
    ...(fs.existsSync(corpus) ? fs.readdirSync(corpus).filter((f) => f.endsWith('.xz')).map((f) =>
      `xz -dc '${path.join(corpus, f)}' 2>/dev/null`) : []),
    ...(fs.existsSync(data) ? fs.readdirSync(data).filter((f) => f.endsWith('.tar.zst')).map((f) =>
      `tar --zstd -xOf '${path.join(data, f)}' --wildcards '*.tsv' '*.csv' '*.json*' 2>/dev/null`) : []),
  ];
  for (const source of sources) {
    // The middle of a file is more telling than its start.
    const command = `(${source} || true) | head -c 12000000 | tail -c 8000000`;
    const text = execFileSync('bash', ['-c', command], {maxBuffer: 1 << 28}).toString('utf8');
    take(text.slice(text.indexOf('\n') + 1), Math.ceil(count / Math.max(1, sources.length)));
  }
  return lines;
}

// Of the sweep and the real lines a variant takes every eighth or so, each run of another seed others.
function* cases_of(name, seed, share, vocab, real) {
  const random = new Random(seed);
  if (name === 'sweep') {
    for (const text of sweep()) if (random.chance(share)) yield {text};
    return;
  }
  if (name === 'real') {
    for (let i = 0; i < real.length; ++i) {
      const item = dress(random, real[i], real[(i + 1) % real.length]);
      if (random.chance(share)) yield item;
    }
    return;
  }
  const make = generators[name];
  for (;;) yield dress(random, make(random, vocab), make(random, vocab));
}

const totals = [];
let failures = 0;

async function compare(subject, driver, oracle, cases, name) {
  const [expected, got] = await Promise.all([ask_oracle(oracle, cases), driver.ask(cases)]);
  let wrong = 0;
  cases.forEach((c, i) => {
    if (expected[i] === got[i]) return;
    ++wrong;
    if (failures + wrong > 20) return;
    console.log(`MISMATCH ${subject.name} ${name} ${JSON.stringify(c)}\n  want ${expected[i]}\n  got  ${got[i]}`);
  });
  failures += wrong;
  // The oracle's answers lie outside the heap that node watches, and would pile up to gigabytes.
  globalThis.gc?.();
  return wrong;
}

async function run(subject, per_generator, real) {
  const oracle = Tokenizer.fromFile(subject.json);
  oracle.disablePadding();
  const vocab = Object.keys(oracle.getVocab(false)).sort();
  const driver = new Driver(subject.folder);
  let total = 0;
  let line = 0;
  for (const name of ['sweep', 'real', ...Object.keys(generators)]) {
    const limit = name === 'sweep' || name === 'real' ? Infinity : Math.ceil(per_generator * subject.share);
    let done = 0;
    let wrong = 0;
    let batch = [];
    for (const item of cases_of(name, Number(flags.seed) * 1000 + ++line, subject.share, vocab, real)) {
      batch.push(item);
      if (batch.length < 512 && done + batch.length < limit) continue;
      wrong += await compare(subject, driver, oracle, batch, name);
      done += batch.length;
      batch = [];
      if (done >= limit) break;
    }
    if (batch.length) wrong += await compare(subject, driver, oracle, batch, name);
    done += batch.length;
    total += done;
    console.log(`${subject.name.padEnd(20)} ${name.padEnd(14)} ${String(done).padStart(8)} cases ${String(wrong).padStart(6)} mismatches`);
    totals.push({family: subject.family, done, wrong});
  }
  driver.end();
  return total;
}

fs.mkdirSync(flags.out, {recursive: true});
const subjects = make_subjects(path.join(flags.out, 'models'), flags.shared, flags.small)
  .filter((s) => !flags.only || s.name.includes(flags.only));
const count_of = (family) => subjects.filter((s) => s.family === family).length;
const sweep_size = Math.ceil((0x110000 - 0x800) / 16);
const real = real_lines(flags.shared, target / 5);
for (const subject of subjects) {
  // The sweep of all code points and the real lines come first; generators fill up to the count.
  const rest = Math.max(0, target - sweep_size - real.length);
  await run(subject, Math.max(200, Math.ceil(rest / Object.keys(generators).length)), real);
}
console.log('');
for (const family of new Set(totals.map((t) => t.family))) {
  const of = totals.filter((t) => t.family === family);
  const sum = (key) => of.reduce((a, t) => a + t[key], 0);
  console.log(`${family}: ${sum('done')} cases over ${count_of(family)} tokenizers, ${sum('wrong')} mismatches`);
}
console.log(`${totals.reduce((a, t) => a + t.done, 0)} cases, ${failures} mismatches`);
process.exit(failures ? 1 : 0);
