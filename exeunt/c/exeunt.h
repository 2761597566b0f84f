/* SPDX-License-Identifier: Apache-2.0 */
/* Exeunt for C and for every language that calls C: open a model folder, classify texts, each exiting at the layer
 * where the model's exit policy allows it.
 *
 * A function that can fail returns a status; exeunt_last_error() says more, for the calling thread. Nothing throws
 * or ends the process. A model may be used from many threads at once. Structs begin with their size, so that
 * a program built against an older header keeps working: set it with the _INIT values below. Text is UTF-8. */
#ifndef EXEUNT_H
#define EXEUNT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define EXEUNT_API __attribute__((visibility("default")))
#else
#define EXEUNT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The same numbers as the exit statuses of the command. */
typedef enum exeunt_status {
  EXEUNT_OK = 0,
  EXEUNT_FAILURE = 1,
  EXEUNT_USAGE = 2,     /* invalid argument */
  EXEUNT_RESOURCES = 3, /* out of memory, a precision this processor lacks, or no such GPU */
  EXEUNT_BAD_FILE = 4   /* invalid model file, or text */
} exeunt_status;

typedef struct exeunt_model exeunt_model;

typedef struct exeunt_options {
  size_t struct_size;
  const char* policy;    /* as text, "entropy:0.2"; null: the model's policy.json, else full depth */
  const char* precision; /* "fp32", "bf16", "int8"; null: the model's default, else the engine's choice */
  int threads;           /* 0: one per available processor */
  int max_length;        /* maximum tokens per text; 0: the certificate's, else the training's, else the model's */
  const char* device;    /* "cpu", "cuda", "cuda:1", or "auto": a GPU if there is one; null: "cpu" */
} exeunt_options;
#define EXEUNT_OPTIONS_INIT \
  { sizeof(exeunt_options), NULL, NULL, 0, 0, NULL }

typedef struct exeunt_result {
  size_t struct_size;
  int label;      /* index, for exeunt_label(); of a multi-label model the most probable; -1 for regression */
  float score;    /* probability of that label; 1 for regression */
  float value;    /* the predicted value for regression; else the first logit */
  int exit_layer; /* the layer after which the text exited; 0: before the first */
  int layers_run;
  int tokens;
  int truncated; /* 1: the text was truncated to max_length */
} exeunt_result;
#define EXEUNT_RESULT_INIT \
  { sizeof(exeunt_result), 0, 0, 0, 0, 0, 0, 0 }

EXEUNT_API const char* exeunt_version(void); /* of the library: "0.1.0" */
EXEUNT_API int exeunt_abi_version(void);     /* the number in libexeunt.so.N */

/* Of the last failed call on this thread; "" if there is none. Valid until the next failed call. */
EXEUNT_API const char* exeunt_last_error(void);
EXEUNT_API const char* exeunt_last_hint(void); /* how to fix it; may be "" */

/* `options` may be null. On failure *model is null. */
EXEUNT_API exeunt_status exeunt_open(const char* folder, const exeunt_options* options, exeunt_model** model);
EXEUNT_API void exeunt_close(exeunt_model* model); /* null is allowed */

/* Strings live as long as the model. */
/* What its outputs mean, as transformers calls it: "single_label_classification", "multi_label_classification" (each
 * label is given or not), "regression". */
EXEUNT_API const char* exeunt_problem(const exeunt_model* model);
EXEUNT_API int exeunt_label_count(const exeunt_model* model);              /* 0 for regression */
EXEUNT_API const char* exeunt_label(const exeunt_model* model, int index); /* null if there is none */
EXEUNT_API const char* exeunt_policy(const exeunt_model* model);           /* the policy in use, as text */
EXEUNT_API const char* exeunt_precision(const exeunt_model* model);        /* "bf16" */
EXEUNT_API const char* exeunt_engine(const exeunt_model* model);           /* "cpu/avx512", "cuda/sm_90" */

/* What the model promises as it was opened, in one sentence: "at most 2 % of answers to requests differ from the fp32
 * model at full depth, confidence 95 %"; or "none (WHY)". */
EXEUNT_API const char* exeunt_promise(const exeunt_model* model);
/* The same as a JSON object of the format exeunt.promise/1 (docs/formats.md): the certificate with its conditions, what
 * runs, and the notices that the command would print. */
EXEUNT_API const char* exeunt_promise_json(const exeunt_model* model);

/* Of every call with texts: invalid UTF-8 is EXEUNT_BAD_FILE; a pair is EXEUNT_USAGE where the model is known to have
 * been trained on single texts. A blank text (white space alone) is EXEUNT_BAD_FILE, except in exeunt_answer(). */

/* `pair` is the second text of a pair, or null. `scores` is null, or has room for exeunt_label_count() probabilities.
 */
EXEUNT_API exeunt_status exeunt_classify(exeunt_model* model, const char* text, const char* pair, exeunt_result* result,
                                         float* scores);

/* Many texts, shared among the threads. `pairs` is null or has `count` entries, each of which may be null. The struct
 * size of results[0] holds for all of them. On failure no result is written. */
EXEUNT_API exeunt_status exeunt_classify_many(exeunt_model* model, const char* const* texts, const char* const* pairs,
                                              size_t count, exeunt_result* results);

/* Arrays: one call for a batch, without a struct for each text. */

EXEUNT_API int exeunt_output_count(const exeunt_model* model); /* logits of an exit; 1 for regression */
EXEUNT_API int exeunt_exit_count(const exeunt_model* model);
EXEUNT_API int exeunt_exit_layer(const exeunt_model* model,
                                 int exit); /* after which layer; 0: before the first, or there is no such exit */

typedef struct exeunt_texts {
  size_t struct_size;
  size_t count;
  const char* bytes;       /* the texts, one after another, as UTF-8; they may contain zeros */
  const size_t* ends;      /* [count] where each of them ends in `bytes` */
  const char* pair_bytes;  /* the second texts of pairs; null: there are none */
  const size_t* pair_ends; /* [count] */
} exeunt_texts;
#define EXEUNT_TEXTS_INIT \
  { sizeof(exeunt_texts), 0, NULL, NULL, NULL, NULL }

/* Arrays of the caller with room for all texts. Those that are null are not written. A blank text is left blank, as the
 * command leaves it: label -1, nothing given, scores and logits NaN, layer and tokens 0. */
typedef struct exeunt_answers {
  size_t struct_size;
  int* labels;     /* [count] index, for exeunt_label(); -1 for regression and blank texts */
  float* scores;   /* [count, outputs] probabilities; the predicted values for regression */
  float* logits;   /* [count, outputs] raw */
  int* layers;     /* [count] the layer after which each text exited; 0: before the first */
  int* tokens;     /* [count] */
  char* truncated; /* [count] 1: truncated to max_length */
  char* given;     /* [count, outputs] 1: the text has this label; several at once in multi-label models */
} exeunt_answers;
#define EXEUNT_ANSWERS_INIT \
  { sizeof(exeunt_answers), NULL, NULL, NULL, NULL, NULL, NULL, NULL }

/* `policy` is a text such as "entropy:0.2" that holds for this call; null: the model's. Tokenizing is shared among the
 * threads, too. On failure no array is written. */
EXEUNT_API exeunt_status exeunt_answer(exeunt_model* model, const char* policy, const exeunt_texts* texts,
                                       const exeunt_answers* answers);

/* Arrow's C data interface: structs that every library of Arrow (pyarrow, Polars, DuckDB, Spark …) hands over, laid out
 * as its specification has them, with the names by which headers see whether another one declares them already. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
#endif

/* Record batches with a column of texts (`column`; null: "text"), or arrays of texts: strings, large strings or views
 * of strings. The texts are read where they lie, and the batch that comes out has the columns of the one that went in,
 * not copied, then label and score (multi-label models: lists, labels and scores; regression: value), and exit_layer.
 * They are null where a text is null or blank. `policy`: as in exeunt_answer(). What goes in is taken over, also by a
 * call that fails. */
EXEUNT_API exeunt_status exeunt_arrow_batch(exeunt_model* model, const char* policy, const char* column,
                                            struct ArrowSchema* schema, struct ArrowArray* batch,
                                            struct ArrowSchema* out_schema, struct ArrowArray* out);
/* One batch at a time, each read and answered when the next one of `out` is asked for. The model may be closed before
 * the stream is released. */
EXEUNT_API exeunt_status exeunt_arrow_stream(exeunt_model* model, const char* policy, const char* column,
                                             struct ArrowArrayStream* in, struct ArrowArrayStream* out);

/* What every exit says of every text: `logits` has room for [count, exits, outputs]; `tokens` for [count], or is null.
 */
EXEUNT_API exeunt_status exeunt_trace(exeunt_model* model, const exeunt_texts* texts, float* logits, int* tokens);

/* The logits of all exits for some texts, from exeunt_trace() or from any other model in any framework. */
typedef struct exeunt_logits {
  size_t struct_size;
  size_t rows;
  int exits;           /* the last one is full depth */
  int outputs;         /* classes; 1: regression, unless multi_label */
  const float* logits; /* [rows, exits, outputs] raw */
  /* [rows] label indices, or values for regression; multi_label: [rows, outputs] 1 or 0; NaN: not known; null: none */
  const float* gold;
  const int* layers;        /* [exits] after which layer each exit sits; null: 1, 2, 3 … */
  int multi_label;          /* 1: each label is given or not, by the sigmoid of its output */
  const double* thresholds; /* multi_label: [outputs] the probabilities above which labels are given; null: 0.5 */
  const uint64_t* cluster;  /* [rows] equal for rows that are drawn together, such as a question's; null: none are */
} exeunt_logits;
#define EXEUNT_LOGITS_INIT \
  { sizeof(exeunt_logits), 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL }

/* What a policy would have answered: `exits` [rows] which exit, from 0, and `labels` [rows] (multi_label: a number that
 * stands for the set), each may be null. `policy` is a text such as "entropy:0.2", or the policy file of
 * exeunt_calibrate(), with its exits and temperatures. */
EXEUNT_API exeunt_status exeunt_replay(const exeunt_logits* logits, const char* policy, int* exits, int* labels);

/* Strings that are returned in `json` are freed by exeunt_free(). */
EXEUNT_API void exeunt_free(char* json); /* null is allowed */

/* Many policies, as in "entropy:0..0.7/0.05": a JSON array of the format exeunt.sweep/1 (docs/formats.md). */
EXEUNT_API exeunt_status exeunt_sweep(const exeunt_logits* logits, const char* policies, char** json);

typedef struct exeunt_plan {
  size_t struct_size;
  const double* max_drop; /* [budgets] largest mean losses, such as 0.01; the smallest becomes the default policy */
  size_t budgets;
  double confidence;  /* 0: 0.95 */
  const char* loss;   /* "disagreement", "zero_one_drop", "abs_diff", "missed:LABEL", "missed:LABEL,max_false=0.02",
                         "decision:LABEL>=0.8", "decision:>=3.5", "top:K" (of clusters); null: what suits the model.
                         Labels are "0", "1", ... */
  const char* method; /* "ltt-binomial", "ltt-hb", "wsr", "crc"; null: what suits the loss */
  const char* rules;  /* to choose from: "entropy,patience"; null: those that suit the model */
  unsigned seed;      /* of the split into rows that choose, certify and report */
  int no_report;      /* 1: no rows are kept to measure the result; -1: some are; 0: some of 1,500 rows and more */
  double low, high;   /* range of a regression's values; equal: that of the rows that choose */
} exeunt_plan;
#define EXEUNT_PLAN_INIT \
  { sizeof(exeunt_plan), NULL, 0, 0, NULL, NULL, NULL, 42, 0, 0, 0 }

/* A certified policy, as `exeunt calibrate` finds it: rows with equal logits at every exit are one, and tries on the
 * same rows are counted in the user's state folder ("tries"; 0: they cannot be counted). JSON of the format
 * exeunt.calibration/1 (docs/formats.md). */
EXEUNT_API exeunt_status exeunt_calibrate(const exeunt_logits* logits, const exeunt_plan* plan, char** json);

#ifdef __cplusplus
}
#endif

#endif
