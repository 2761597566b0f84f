// SPDX-License-Identifier: Apache-2.0
// The C interface to models: Classifier behind opaque handles. No exception leaves this file.
#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/ascii.h"
#include "exeunt/base/version.h"
#include "exeunt/c/handle.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt::c {
namespace {

constexpr size_t kMostPolicies = 64;  // kept ready; a program that makes up ever new ones must not fill the memory

std::string promise_text(Classifier& classifier) {
  OrderedJson out = promise_json(classifier.resolved(), classifier.engine().name(), classifier.notices());
  for (const float logit : classifier.checkpoint().exits().logit_thresholds)
    out["thresholds"].push_back(threshold_of(logit));
  return out.dump();
}

}  // namespace

Model::Model(const std::string& folder, const ClassifierOptions& options)
    : classifier(folder, options),
      policy(str(classifier.policy())),
      precision(name_of(classifier.engine().precision())),
      engine(classifier.engine().name()),
      promise(promise_text(classifier)) {}

std::shared_ptr<const BoundPolicy> Model::policy_named(const char* text) {
  if (text == nullptr) return classifier.ask().policy;
  const std::lock_guard lock(mutex_);
  if (const auto found = bound_.find(text); found != bound_.end()) return found->second;
  if (bound_.size() >= kMostPolicies) bound_.clear();
  return bound_[text] = classifier.bind(text);
}

}  // namespace exeunt::c

using namespace exeunt::c;

namespace {

using exeunt::Answer;
using exeunt::ClassifierAnswer;
using exeunt::ClassifierText;
using exeunt::Encoding;
using exeunt::Problem;

void write_result(const exeunt_result& from, std::byte* to, size_t size) {
  std::memcpy(to + sizeof(size_t), reinterpret_cast<const std::byte*>(&from) + sizeof(size_t),
              std::min(size, sizeof(exeunt_result)) - sizeof(size_t));
}

exeunt_result result_of(const Model& model, const Answer& answer, bool truncated) {
  exeunt_result out = EXEUNT_RESULT_INIT;
  const bool regression = model.exits().problem == Problem::regression;
  out.label = best_label(model.exits(), answer.logits);
  out.score = regression ? answer.evidence.confidence : answer.probabilities[static_cast<size_t>(out.label)];
  out.value = answer.evidence.value;
  out.exit_layer = answer.layer;
  out.layers_run = answer.layers_run;
  out.tokens = answer.tokens;
  out.truncated = truncated ? 1 : 0;
  return out;
}

// The caller's array of results, each of `size` bytes, and where the scores go, if anywhere.
struct ResultArray {
  std::byte* next;
  size_t size;
  float* scores = nullptr;
};

// `pairs`: null, or one for each text, each of which may be null.
void classify(Model& model, std::span<const char* const> texts, const char* const* pairs, ResultArray to) {
  std::vector<ClassifierText> given;
  for (size_t i = 0; i < texts.size(); ++i) {
    require(texts[i] != nullptr, "text: got null, want UTF-8");
    const char* pair = pairs == nullptr ? nullptr : pairs[i];
    given.push_back({texts[i], pair == nullptr ? std::nullopt : std::optional<std::string_view>(pair)});
    if (exeunt::is_blank(given[i].text, given[i].pair))
      exeunt::throw_bad_file(fmt::format("text {}", i), "{}", exeunt::kEmptyText);
  }
  const std::vector<ClassifierAnswer> answers = model.classifier.answer_all(given, model.classifier.ask());
  for (const auto& [answer, truncated, blank] : answers) {
    std::memcpy(to.next, &to.size, sizeof to.size);
    write_result(result_of(model, answer, truncated), to.next, to.size);
    to.next += to.size;
    const std::vector<float>& scores = answer.probabilities;
    if (to.scores != nullptr) to.scores = std::copy(scores.begin(), scores.end(), to.scores);
  }
}

// Views into the caller's bytes.
std::vector<std::string_view> cut(const char* bytes, const size_t* ends, size_t count) {
  require(ends != nullptr && (bytes != nullptr || ends[count - 1] == 0),
          "texts: got a null pointer, want bytes and where each text ends in them");
  std::vector<std::string_view> out;
  out.reserve(count);
  size_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    require(ends[i] >= begin, "texts: ends must not decrease");
    out.emplace_back(bytes + begin, ends[i] - begin);
    begin = ends[i];
  }
  return out;
}

std::vector<ClassifierText> texts_of(const exeunt_texts* given) {
  require(given != nullptr, "texts: got a null pointer");
  const exeunt_texts texts = read_struct(given, EXEUNT_TEXTS_INIT);
  if (texts.count == 0) return {};
  std::vector<ClassifierText> out;
  out.reserve(texts.count);
  for (const std::string_view text : cut(texts.bytes, texts.ends, texts.count)) out.push_back({.text = text});
  if (texts.pair_ends != nullptr) {
    const std::vector<std::string_view> pairs = cut(texts.pair_bytes, texts.pair_ends, texts.count);
    for (size_t i = 0; i < pairs.size(); ++i) out[i].pair = pairs[i];
  }
  return out;
}

// The row of a blank text: nothing is said of it.
void leave_blank(const exeunt_answers& to, size_t row, size_t outputs) {
  constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
  if (to.labels != nullptr) to.labels[row] = -1;
  if (to.scores != nullptr) std::fill_n(to.scores + row * outputs, outputs, kNothing);
  if (to.logits != nullptr) std::fill_n(to.logits + row * outputs, outputs, kNothing);
  if (to.layers != nullptr) to.layers[row] = 0;
  if (to.tokens != nullptr) to.tokens[row] = 0;
  if (to.truncated != nullptr) to.truncated[row] = 0;
  if (to.given != nullptr) std::fill_n(to.given + row * outputs, outputs, '\0');
}

}  // namespace

const char* exeunt_version(void) {
  static const std::string text(exeunt::version());
  return text.c_str();
}

int exeunt_abi_version(void) {
  return EXEUNT_ABI;
}

const char* exeunt_last_error(void) {
  return last_error().message.c_str();
}

const char* exeunt_last_hint(void) {
  return last_error().hint.c_str();
}

exeunt_status exeunt_open(const char* folder, const exeunt_options* options, exeunt_model** model) {
  if (model != nullptr) *model = nullptr;
  return guarded([&] {
    require(folder != nullptr && model != nullptr,
            "exeunt_open: got a null pointer, want a folder and a place for the model");
    const exeunt_options given = read_struct(options, EXEUNT_OPTIONS_INIT);
    exeunt::ClassifierOptions wanted;
    if (given.policy != nullptr) wanted.policy = given.policy;
    if (given.precision != nullptr) {
      wanted.engine.precision = exeunt::precision_named(given.precision);
      require(wanted.engine.precision.has_value(), "precision: want fp32, bf16 or int8");
    }
    require(given.threads >= 0 && given.max_length >= 0, "threads and max_length: want 0 or more");
    wanted.engine.threads = given.threads;
    wanted.max_length = given.max_length;
    if (given.device != nullptr) wanted.engine.device = exeunt::parse_device(given.device);
    *model = reinterpret_cast<exeunt_model*>(new std::shared_ptr<Model>(std::make_shared<Model>(folder, wanted)));
  });
}

void exeunt_close(exeunt_model* model) {
  delete reinterpret_cast<std::shared_ptr<Model>*>(model);
}

const char* exeunt_problem(const exeunt_model* model) {
  if (model == nullptr) return nullptr;
  switch (of(model).exits().problem) {
    case Problem::regression:
      return "regression";
    case Problem::multi_label:
      return "multi_label_classification";
    case Problem::classification:
      break;
  }
  return "single_label_classification";
}

int exeunt_label_count(const exeunt_model* model) {
  return model == nullptr ? 0 : static_cast<int>(of(model).exits().labels.size());
}

const char* exeunt_label(const exeunt_model* model, int index) {
  if (index < 0 || index >= exeunt_label_count(model)) return nullptr;
  return of(model).exits().labels[static_cast<size_t>(index)].c_str();
}

const char* exeunt_policy(const exeunt_model* model) {
  return model == nullptr ? nullptr : of(model).policy.c_str();
}

const char* exeunt_precision(const exeunt_model* model) {
  return model == nullptr ? nullptr : of(model).precision.c_str();
}

const char* exeunt_engine(const exeunt_model* model) {
  return model == nullptr ? nullptr : of(model).engine.c_str();
}

const char* exeunt_promise(const exeunt_model* model) {
  return model == nullptr ? nullptr : of(model).classifier.resolved().promise.c_str();
}

const char* exeunt_promise_json(const exeunt_model* model) {
  return model == nullptr ? nullptr : of(model).promise.c_str();
}

exeunt_status exeunt_classify(exeunt_model* model, const char* text, const char* pair, exeunt_result* result,
                              float* scores) {
  return guarded([&] {
    require(model != nullptr && result != nullptr, "exeunt_classify: got a null pointer, want a model and a result");
    require(result->struct_size > sizeof(size_t), "result: set struct_size, for example by EXEUNT_RESULT_INIT");
    classify(of(model), {&text, 1}, &pair, {reinterpret_cast<std::byte*>(result), result->struct_size, scores});
  });
}

exeunt_status exeunt_classify_many(exeunt_model* model, const char* const* texts, const char* const* pairs,
                                   size_t count, exeunt_result* results) {
  return guarded([&] {
    if (count == 0) return;
    require(model != nullptr && texts != nullptr && results != nullptr,
            "exeunt_classify_many: got a null pointer, want a model, texts and results");
    const size_t size = results[0].struct_size;
    require(size > sizeof(size_t), "results: set struct_size of the first, for example by EXEUNT_RESULT_INIT");
    classify(of(model), {texts, count}, pairs, {reinterpret_cast<std::byte*>(results), size});
  });
}

int exeunt_output_count(const exeunt_model* model) {
  return model == nullptr ? 0 : of(model).exits().outputs;
}

int exeunt_exit_count(const exeunt_model* model) {
  return model == nullptr ? 0 : static_cast<int>(of(model).exits().sites.size());
}

int exeunt_exit_layer(const exeunt_model* model, int exit) {
  if (exit < 0 || exit >= exeunt_exit_count(model)) return 0;
  return of(model).exits().sites[static_cast<size_t>(exit)].after;
}

exeunt_status exeunt_answer(exeunt_model* model, const char* policy, const exeunt_texts* texts,
                            const exeunt_answers* answers) {
  return guarded([&] {
    require(model != nullptr && answers != nullptr, "exeunt_answer: got a null pointer, want a model and answers");
    const exeunt_answers to = read_struct(answers, EXEUNT_ANSWERS_INIT);
    const std::vector<ClassifierText> given = texts_of(texts);
    const exeunt::ExitLayout& exits = of(model).exits();
    const auto outputs = static_cast<size_t>(exits.outputs);
    const std::vector<ClassifierAnswer> out =
        of(model).classifier.answer_all(given, {.policy = of(model).policy_named(policy)});
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i].blank) {
        leave_blank(to, i, outputs);
        continue;
      }
      const exeunt::Answer& answer = out[i].answer;
      const std::vector<float>& scores = exits.problem == Problem::regression ? answer.logits : answer.probabilities;
      if (to.labels != nullptr) to.labels[i] = best_label(exits, answer.logits);
      if (to.given != nullptr) {
        std::fill_n(to.given + i * outputs, outputs, 0);
        for (const int label : labels_of(exits, answer.logits)) to.given[i * outputs + static_cast<size_t>(label)] = 1;
      }
      if (to.scores != nullptr) std::copy(scores.begin(), scores.end(), to.scores + i * outputs);
      if (to.logits != nullptr) std::copy(answer.logits.begin(), answer.logits.end(), to.logits + i * outputs);
      if (to.layers != nullptr) to.layers[i] = answer.layer;
      if (to.tokens != nullptr) to.tokens[i] = answer.tokens;
      if (to.truncated != nullptr) to.truncated[i] = out[i].truncated ? 1 : 0;
    }
  });
}

exeunt_status exeunt_trace(exeunt_model* model, const exeunt_texts* texts, float* logits, int* tokens) {
  return guarded([&] {
    const std::vector<ClassifierText> given = texts_of(texts);
    require(model != nullptr && (logits != nullptr || given.empty()),
            "exeunt_trace: got a null pointer, want a model and room for logits");
    exeunt::Classifier& classifier = of(model).classifier;
    std::vector<Encoding> encodings;
    for (const ClassifierText& text : given) {
      try {
        encodings.push_back(classifier.encode(text));
      } catch (const exeunt::Error& error) {
        throw exeunt::Error(error.code(), fmt::format("text {}: {}", encodings.size(), error.what()));
      }
    }
    if (encodings.empty()) return;
    const exeunt::ExitTrace trace = classifier.engine().trace(encodings);
    std::copy(trace.logits.begin(), trace.logits.end(), logits);
    if (tokens != nullptr) std::copy(trace.lengths.begin(), trace.lengths.end(), tokens);
  });
}
