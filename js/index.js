// SPDX-License-Identifier: Apache-2.0
// Text classifiers that exit early, in this process: libexeunt through Node-API.
import { createRequire } from "node:module";

const native = createRequire(import.meta.url)("./exeunt.node");
const part = 16384; // texts of one call of the library
const codes = { 1: "failure", 2: "usage", 3: "resources", 4: "bad_file" };

/** What was refused, why, and, where that is known, what to do about it. */
export class ExeuntError extends Error {
  constructor({ message, status, hint }) {
    super(hint ? `${message}\nhint: ${hint}` : message);
    this.name = "ExeuntError";
    this.status = status;
    this.code = codes[status] ?? "failure";
    this.hint = hint;
  }
}

function failure(error) {
  return typeof error.status === "number" ? new ExeuntError(error) : error;
}

function checked(value, kind, name) {
  if (value !== undefined && typeof value !== kind) throw new TypeError(`${name}: got ${typeof value}, want a ${kind}`);
  return value;
}

/** A model folder, opened in this process. Opening blocks; answering does not. */
export class Classifier {
  #model;

  constructor(folder, { policy, precision, threads = 0, maxLength = 0 } = {}) {
    if (typeof folder !== "string") throw new TypeError(`folder: got ${typeof folder}, want a string`);
    try {
      this.#model = native.open(folder, checked(policy, "string", "policy"), checked(precision, "string", "precision"),
                                checked(threads, "number", "threads"), checked(maxLength, "number", "maxLength"));
    } catch (error) {
      throw failure(error);
    }
    Object.assign(this, native.facts(this.#model));
  }

  /** An answer for each text, in order. A blank text has none: null. */
  async classify(texts, { policy } = {}) {
    checked(policy, "string", "policy");
    const all = typeof texts === "string" ? [texts] : [...texts];
    const at = all.findIndex((text) => typeof text !== "string");
    if (at >= 0) throw new TypeError(`texts: got ${typeof all[at]} at ${at}, want a string`);
    const out = [];
    for (let first = 0; first < all.length; first += part) out.push(...await this.#answer(all.slice(first, first + part), policy));
    return out;
  }

  async #answer(texts, policy) {
    const pieces = texts.map((text) => Buffer.from(text)), count = texts.length;
    let end = 0n;
    const ends = BigUint64Array.from(pieces, (piece) => (end += BigInt(piece.length)));
    const labels = new Int32Array(count), layers = new Int32Array(count), tokens = new Int32Array(count), truncated = new Int8Array(count);
    const scores = new Float32Array(count * this.outputs), given = new Int8Array(count * this.outputs);
    try {
      await native.answer(this.#model, policy, count, Buffer.concat(pieces), ends, [labels, scores, layers, tokens, truncated, given]);
    } catch (error) {
      throw failure(error);
    }
    return texts.map((_, row) => {
      if (tokens[row] === 0) return null;
      const begin = row * this.outputs, rest = { exitLayer: layers[row], tokens: tokens[row], truncated: truncated[row] === 1 };
      if (this.problem === "regression") return { value: scores[begin], ...rest };
      const named = Object.fromEntries(this.labels.map((label, i) => [label, scores[begin + i]]));
      if (this.problem === "multi_label_classification")
        return { labels: this.labels.filter((_, i) => given[begin + i] === 1), scores: named, ...rest };
      return { label: this.labels[labels[row]], score: scores[begin + labels[row]], scores: named, ...rest };
    });
  }

  /** Frees the weights once calls that run are done. */
  close() {
    native.close(this.#model);
  }
}

export const version = native.version;
