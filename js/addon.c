/* SPDX-License-Identifier: Apache-2.0 */
/* libexeunt for Node through Node-API, which every version of Node keeps: a model as an external value, and one call that
 * answers a batch on a thread of Node's pool into arrays that JavaScript made. index.js checks what it passes. */
#define NAPI_VERSION 8
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

#include "exeunt.h"

typedef struct {
  exeunt_model* model;
  int running; /* calls that are being answered; all fields belong to JavaScript's thread */
  int closed;
} Handle;

enum { kArrays = 6 };

typedef struct {
  Handle* handle;
  char* policy;
  exeunt_texts texts;
  exeunt_answers answers;
  napi_ref keep; /* what the arrays belong to */
  napi_deferred deferred;
  napi_async_work work;
  exeunt_status status;
  char *message, *hint;
} Call;

static void fail(napi_env env, const char* message) {
  napi_throw_error(env, NULL, message);
}

static napi_value text_of(napi_env env, const char* text) {
  napi_value out;
  napi_create_string_utf8(env, text == NULL ? "" : text, NAPI_AUTO_LENGTH, &out);
  return out;
}

static napi_value error_of(napi_env env, exeunt_status status, const char* message, const char* hint) {
  napi_value out, number;
  napi_create_error(env, NULL, text_of(env, message), &out);
  napi_create_int32(env, status, &number);
  napi_set_named_property(env, out, "status", number);
  napi_set_named_property(env, out, "hint", text_of(env, hint));
  return out;
}

/* A string as UTF-8 that free() frees; null for undefined and null. */
static char* copied(napi_env env, napi_value value) {
  size_t size = 0;
  if (napi_get_value_string_utf8(env, value, NULL, 0, &size) != napi_ok) return NULL;
  char* out = malloc(size + 1);
  if (out != NULL) napi_get_value_string_utf8(env, value, out, size + 1, &size);
  return out;
}

static void release_model(Handle* handle) {
  if (handle->closed && handle->running == 0) {
    exeunt_close(handle->model);
    handle->model = NULL;
  }
}

static void finalize(napi_env env, void* data, void* hint) {
  (void)env;
  (void)hint;
  Handle* handle = data;
  handle->closed = 1;
  release_model(handle); /* nothing runs: a call keeps the external value */
  free(handle);
}

static Handle* handle_of(napi_env env, napi_value value) {
  void* out = NULL;
  if (napi_get_value_external(env, value, &out) != napi_ok) fail(env, "got no model");
  Handle* handle = out;
  if (handle != NULL && handle->closed) {
    fail(env, "the model is closed");
    return NULL;
  }
  return handle;
}

/* open(folder, policy, precision, threads, maxLength): an external value */
static napi_value open_model(napi_env env, napi_callback_info info) {
  napi_value given[5], out = NULL;
  size_t count = 5;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  char *folder = copied(env, given[0]), *policy = copied(env, given[1]), *precision = copied(env, given[2]);
  exeunt_options options = EXEUNT_OPTIONS_INIT;
  options.policy = policy;
  options.precision = precision;
  napi_get_value_int32(env, given[3], &options.threads);
  napi_get_value_int32(env, given[4], &options.max_length);
  Handle* handle = calloc(1, sizeof *handle);
  exeunt_status status = handle == NULL ? EXEUNT_RESOURCES : exeunt_open(folder, &options, &handle->model);
  if (status == EXEUNT_OK) {
    napi_create_external(env, handle, finalize, NULL, &out);
  } else {
    napi_throw(env, error_of(env, status, handle == NULL ? "out of memory" : exeunt_last_error(), exeunt_last_hint()));
    free(handle);
  }
  free(folder);
  free(policy);
  free(precision);
  return out;
}

/* facts(model): what exeunt.h says of it */
static napi_value facts(napi_env env, napi_callback_info info) {
  napi_value given, out, labels, number;
  size_t count = 1;
  napi_get_cb_info(env, info, &count, &given, NULL, NULL);
  Handle* handle = handle_of(env, given);
  if (handle == NULL) return NULL;
  const exeunt_model* model = handle->model;
  napi_create_object(env, &out);
  napi_set_named_property(env, out, "problem", text_of(env, exeunt_problem(model)));
  napi_set_named_property(env, out, "policy", text_of(env, exeunt_policy(model)));
  napi_set_named_property(env, out, "promise", text_of(env, exeunt_promise(model)));
  napi_set_named_property(env, out, "engine", text_of(env, exeunt_engine(model)));
  napi_create_int32(env, exeunt_output_count(model), &number);
  napi_set_named_property(env, out, "outputs", number);
  napi_create_array(env, &labels);
  for (int i = 0; i < exeunt_label_count(model); ++i)
    napi_set_element(env, labels, (uint32_t)i, text_of(env, exeunt_label(model, i)));
  napi_set_named_property(env, out, "labels", labels);
  return out;
}

static void run(napi_env env, void* data) {
  (void)env;
  Call* call = data;
  call->status = exeunt_answer(call->handle->model, call->policy, &call->texts, &call->answers);
  if (call->status != EXEUNT_OK) { /* they belong to this thread */
    call->message = strdup(exeunt_last_error());
    call->hint = strdup(exeunt_last_hint());
  }
}

static void done(napi_env env, napi_status status, void* data) {
  Call* call = data;
  napi_value nothing;
  call->handle->running -= 1;
  release_model(call->handle);
  if (status == napi_ok && call->status == EXEUNT_OK) {
    napi_get_undefined(env, &nothing);
    napi_resolve_deferred(env, call->deferred, nothing);
  } else {
    napi_reject_deferred(env, call->deferred,
                         error_of(env, status == napi_ok ? call->status : EXEUNT_FAILURE, call->message, call->hint));
  }
  napi_delete_async_work(env, call->work);
  napi_delete_reference(env, call->keep);
  free(call->policy);
  free(call->message);
  free(call->hint);
  free(call);
}

static void* data_of(napi_env env, napi_value array) {
  void* out = NULL;
  napi_get_typedarray_info(env, array, NULL, NULL, &out, NULL, NULL);
  return out;
}

/* answer(model, policy, count, bytes, ends, [labels, scores, layers, tokens, truncated, given]): a promise of nothing */
static napi_value answer(napi_env env, napi_callback_info info) {
  napi_value given[6], out, to[kArrays], kept, name;
  size_t count = 6;
  int64_t texts = 0;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  Handle* handle = handle_of(env, given[0]);
  if (handle == NULL) return NULL;
  Call* call = calloc(1, sizeof *call);
  if (call == NULL) {
    fail(env, "out of memory");
    return NULL;
  }
  call->handle = handle;
  call->policy = copied(env, given[1]);
  napi_get_value_int64(env, given[2], &texts);
  call->texts = (exeunt_texts){sizeof(exeunt_texts), (size_t)texts, data_of(env, given[3]), data_of(env, given[4]), NULL, NULL};
  for (uint32_t i = 0; i < kArrays; ++i) napi_get_element(env, given[5], i, &to[i]);
  call->answers = (exeunt_answers){.struct_size = sizeof(exeunt_answers),
                                   .labels = data_of(env, to[0]),
                                   .scores = data_of(env, to[1]),
                                   .layers = data_of(env, to[2]),
                                   .tokens = data_of(env, to[3]),
                                   .truncated = data_of(env, to[4]),
                                   .given = data_of(env, to[5])};
  napi_create_array_with_length(env, count, &kept);
  for (uint32_t i = 0; i < count; ++i) napi_set_element(env, kept, i, given[i]);
  napi_create_reference(env, kept, 1, &call->keep);
  napi_create_promise(env, &call->deferred, &out);
  napi_create_string_utf8(env, "exeunt", NAPI_AUTO_LENGTH, &name);
  napi_create_async_work(env, NULL, name, run, done, call, &call->work);
  handle->running += 1;
  napi_queue_async_work(env, call->work);
  return out;
}

/* close(model): frees the weights once nothing runs on it */
static napi_value close_model(napi_env env, napi_callback_info info) {
  napi_value given;
  size_t count = 1;
  void* data = NULL;
  napi_get_cb_info(env, info, &count, &given, NULL, NULL);
  if (napi_get_value_external(env, given, &data) == napi_ok && data != NULL) {
    ((Handle*)data)->closed = 1;
    release_model(data);
  }
  return NULL;
}

NAPI_MODULE_INIT() {
  const struct {
    const char* name;
    napi_callback call;
  } functions[] = {{"open", open_model}, {"facts", facts}, {"answer", answer}, {"close", close_model}};
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    napi_value function;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  napi_set_named_property(env, exports, "version", text_of(env, exeunt_version()));
  return exports;
}
