// SPDX-License-Identifier: Apache-2.0
/** Of the library: "0.1.0". */
export declare const version: string;

/** What was refused, why, and, where that is known, what to do about it. */
export declare class ExeuntError extends Error {
  /** The exit status of the command for the same failure. */
  readonly status: number;
  readonly code: "usage" | "resources" | "bad_file" | "failure";
  readonly hint: string;
}

export interface Options {
  /** "entropy:0.2", or a policy file; without it the model's own, else full depth. */
  policy?: string;
  precision?: "fp32" | "bf16" | "int8";
  /** 0: one for each processor. */
  threads?: number;
  /** Tokens of a text; 0: the certificate's, else the training's. */
  maxLength?: number;
}

export interface Answer {
  /** Of a model with one label for each text. */
  label?: string;
  score?: number;
  /** Of a multi-label model. */
  labels?: string[];
  /** Probabilities by label; a regression has none. */
  scores?: Record<string, number>;
  /** Of a regression. */
  value?: number;
  /** The layer after which the text exited; 0: before the first. */
  exitLayer: number;
  tokens: number;
  /** Whether the text was cut to the longest length. */
  truncated: boolean;
}

/** A model folder, opened in this process. Opening blocks; answering does not. */
export declare class Classifier {
  constructor(folder: string, options?: Options);
  readonly problem: "single_label_classification" | "multi_label_classification" | "regression";
  readonly labels: string[];
  readonly outputs: number;
  /** The exit policy that runs unless a call names another. */
  readonly policy: string;
  /** What that policy promises, in one sentence; "none (WHY)" if nothing. */
  readonly promise: string;
  readonly engine: string;
  /** An answer for each text, in order; null for a blank one. `policy` holds for this call. */
  classify(texts: string | Iterable<string>, options?: { policy?: string }): Promise<(Answer | null)[]>;
  /** Frees the weights once calls that run are done. */
  close(): void;
}
