// SPDX-License-Identifier: Apache-2.0
// A vocabulary as large as XLM-RoBERTa's, made from a seed: longer and longer pieces of every script, so that many ways to
// cut a word compete. It can stand in for the published one in everything but its words.
import {Random, scripts} from './generators.mjs';

const kCharacters = 3000;  // of one script

// `model` with pieces added until there are `count`.
export function grown(model, count) {
  const random = new Random(250);
  const pieces = [...model.pieces];
  const known = new Set(pieces.map(({text}) => text));
  const add = (text) => {
    if (known.has(text)) return;
    known.add(text);
    pieces.push({text, score: Math.fround(-5 - 0.5 * [...text].length - 9 * random.next()), type: 1});
  };
  const english = model.pieces.map(({text, type}) => type === 1 ? text.replace(/^▁/u, '') : '').filter((text) => text);
  const alphabets = [english, ...scripts.map(([from, to]) => {
    const letters = Array.from({length: Math.min(to - from + 1, kCharacters)}, (_, i) => String.fromCodePoint(from + i));
    letters.forEach(add);
    return letters;
  })];
  const words = alphabets.map((letters) => [...letters]);
  while (pieces.length < count) {
    const script = random.below(words.length);
    const text = random.pick(words[script]) + random.pick(alphabets[script]);
    if ([...text].length > 16) continue;
    words[script].push(text);
    add((random.chance(0.5) ? '▁' : '') + text);
  }
  return {...model, pieces};
}
