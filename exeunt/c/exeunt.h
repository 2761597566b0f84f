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
  EXEUNT_RESOURCES = 3, /* out of memory, or a precision this processor lacks */
  EXEUNT_BAD_FILE = 4   /* invalid model file, or text */
} exeunt_status;

typedef struct exeunt_model exeunt_model;

typedef struct exeunt_options {
  size_t struct_size;
  const char* policy;    /* as text, "entropy:0.2"; null: the model's policy.json, else full depth */
  const char* precision; /* "fp32", "bf16", "int8"; null: the model's default, else the engine's choice */
  int threads;           /* 0: one per available processor */
  int max_length;        /* maximum tokens per text; 0: the certificate's, else the training's, else 128 */
} exeunt_options;
#define EXEUNT_OPTIONS_INIT \
  { sizeof(exeunt_options), NULL, NULL, 0, 0 }

typedef struct exeunt_result {
  size_t struct_size;
  int label;      /* index, for exeunt_label(); -1 for regression */
  float score;    /* probability of that label; 1 for regression */
  float value;    /* the predicted value for regression; else the first logit */
  int exit_layer; /* the layer after which the text exited, from 1 */
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
EXEUNT_API int exeunt_label_count(const exeunt_model* model);              /* 0 for regression */
EXEUNT_API const char* exeunt_label(const exeunt_model* model, int index); /* null if there is none */
EXEUNT_API const char* exeunt_policy(const exeunt_model* model);           /* the policy in use, as text */
EXEUNT_API const char* exeunt_precision(const exeunt_model* model);        /* "bf16" */
EXEUNT_API const char* exeunt_engine(const exeunt_model* model);           /* "cpu/avx512" */

/* What the model promises as it was opened, in one sentence: "at most 2 % of answers differ from the fp32 model at full
 * depth, confidence 95 %"; or "none (WHY)". */
EXEUNT_API const char* exeunt_promise(const exeunt_model* model);
/* The same as a JSON object of the format exeunt.promise/1 (docs/formats.md): the certificate with its conditions, what
 * runs, and the notices that the command would print. */
EXEUNT_API const char* exeunt_promise_json(const exeunt_model* model);

/* `pair` is the second text of a pair, or null. `scores` is null, or has room for exeunt_label_count() probabilities.
 */
EXEUNT_API exeunt_status exeunt_classify(exeunt_model* model, const char* text, const char* pair, exeunt_result* result,
                                         float* scores);

/* Many texts, shared among the threads. `pairs` is null or has `count` entries, each of which may be null. The struct
 * size of results[0] holds for all of them. On failure no result is written. */
EXEUNT_API exeunt_status exeunt_classify_many(exeunt_model* model, const char* const* texts, const char* const* pairs,
                                              size_t count, exeunt_result* results);

#ifdef __cplusplus
}
#endif

#endif
