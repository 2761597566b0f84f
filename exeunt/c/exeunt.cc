// SPDX-License-Identifier: Apache-2.0
// The C interface: Classifier behind opaque handles. No exception leaves this file.
#include "exeunt/c/exeunt.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

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

struct LastError {
  std::string message, hint;
};
LastError& last_error() {
  thread_local LastError last;
  return last;
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

exeunt_status failed(exeunt_status status, const char* message, const char* hint) noexcept {
  try {
    last_error() = {message, hint};
  } catch (...) {
    last_error().message.clear();  // no memory for the message
  }
  return status;
}

}  // namespace exeunt::c

using namespace exeunt::c;

namespace {

using exeunt::Answer;
using exeunt::Encoding;

void write_result(const exeunt_result& from, std::byte* to, size_t size) {
  std::memcpy(to + sizeof(size_t), reinterpret_cast<const std::byte*>(&from) + sizeof(size_t),
              std::min(size, sizeof(exeunt_result)) - sizeof(size_t));
}

exeunt_result result_of(const exeunt::Classifier& classifier, const Answer& answer, bool truncated) {
  exeunt_result out = EXEUNT_RESULT_INIT;
  const bool regression = classifier.checkpoint().exits().problem == exeunt::Problem::regression;
  out.label = best_label(classifier.checkpoint().exits(), answer.logits);
  out.score = regression ? answer.evidence.confidence : answer.probabilities[static_cast<size_t>(out.label)];
  out.value = answer.evidence.value;
  out.exit_layer = answer.layer;
  out.layers_run = answer.layers_run;
  out.tokens = answer.tokens;
  out.truncated = truncated ? 1 : 0;
  return out;
}

Encoding encode(const exeunt::Classifier& classifier, const char* text, const char* pair) {
  require(text != nullptr, "text: got null, want UTF-8");
  const auto second = pair == nullptr ? std::nullopt : std::optional<std::string_view>(pair);
  return classifier.tokenizer().encode(text, second, classifier.encode_options());
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
    *model = reinterpret_cast<exeunt_model*>(new Model(folder, wanted));
  });
}

void exeunt_close(exeunt_model* model) {
  delete reinterpret_cast<Model*>(model);
}

const char* exeunt_problem(const exeunt_model* model) {
  if (model == nullptr) return nullptr;
  switch (of(model).classifier.checkpoint().exits().problem) {
    case exeunt::Problem::regression:
      return "regression";
    case exeunt::Problem::multi_label:
      return "multi_label_classification";
    case exeunt::Problem::classification:
      break;
  }
  return "single_label_classification";
}

int exeunt_label_count(const exeunt_model* model) {
  return model == nullptr ? 0 : static_cast<int>(of(model).classifier.checkpoint().exits().labels.size());
}

const char* exeunt_label(const exeunt_model* model, int index) {
  if (index < 0 || index >= exeunt_label_count(model)) return nullptr;
  return of(model).classifier.checkpoint().exits().labels[static_cast<size_t>(index)].c_str();
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
    const Encoding encoding = encode(of(model).classifier, text, pair);
    const Answer answer =
        of(model).classifier.engine().answer(std::span(&encoding, 1), of(model).classifier.ask()).front();
    write_result(result_of(of(model).classifier, answer, encoding.truncated), reinterpret_cast<std::byte*>(result),
                 result->struct_size);
    if (scores != nullptr) std::copy(answer.probabilities.begin(), answer.probabilities.end(), scores);
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
    std::vector<Encoding> encodings;
    for (size_t i = 0; i < count; ++i) {
      encodings.push_back(encode(of(model).classifier, texts[i], pairs == nullptr ? nullptr : pairs[i]));
    }
    const std::vector<Answer> answers = of(model).classifier.engine().answer(encodings, of(model).classifier.ask());
    auto* place = reinterpret_cast<std::byte*>(results);
    for (size_t i = 0; i < count; ++i, place += size) {
      std::memcpy(place, &size, sizeof size);
      write_result(result_of(of(model).classifier, answers[i], encodings[i].truncated), place, size);
    }
  });
}
