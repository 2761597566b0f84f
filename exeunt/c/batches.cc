// SPDX-License-Identifier: Apache-2.0
// The C interface to batches: texts in one array of bytes, answers in arrays of the caller.
#include <algorithm>
#include <string_view>
#include <vector>

#include "exeunt/c/handle.h"

using namespace exeunt::c;

namespace {

using exeunt::ClassifierAnswer;
using exeunt::ClassifierText;
using exeunt::Encoding;
using exeunt::Problem;

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

}  // namespace

int exeunt_output_count(const exeunt_model* model) {
  return model == nullptr ? 0 : of(model).classifier.checkpoint().exits().outputs;
}

int exeunt_exit_count(const exeunt_model* model) {
  return model == nullptr ? 0 : static_cast<int>(of(model).classifier.checkpoint().exits().sites.size());
}

int exeunt_exit_layer(const exeunt_model* model, int exit) {
  if (exit < 0 || exit >= exeunt_exit_count(model)) return 0;
  return of(model).classifier.checkpoint().exits().sites[static_cast<size_t>(exit)].after;
}

exeunt_status exeunt_answer(exeunt_model* model, const char* policy, const exeunt_texts* texts,
                            const exeunt_answers* answers) {
  return guarded([&] {
    require(model != nullptr && answers != nullptr, "exeunt_answer: got a null pointer, want a model and answers");
    const exeunt_answers to = read_struct(answers, EXEUNT_ANSWERS_INIT);
    const std::vector<ClassifierText> given = texts_of(texts);
    exeunt::Classifier& classifier = of(model).classifier;
    const bool regression = classifier.checkpoint().exits().problem == Problem::regression;
    const auto outputs = static_cast<size_t>(classifier.checkpoint().exits().outputs);
    const std::vector<ClassifierAnswer> out = classifier.answer_all(given, {.policy = of(model).policy_named(policy)});
    for (size_t i = 0; i < out.size(); ++i) {
      const exeunt::Answer& answer = out[i].answer;
      const std::vector<float>& scores = regression ? answer.logits : answer.probabilities;
      if (to.labels != nullptr) to.labels[i] = best_label(classifier.checkpoint().exits(), answer.logits);
      if (to.given != nullptr) {
        std::fill_n(to.given + i * outputs, outputs, 0);
        for (const int label : labels_of(classifier.checkpoint().exits(), answer.logits))
          to.given[i * outputs + static_cast<size_t>(label)] = 1;
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
    require(model != nullptr && logits != nullptr,
            "exeunt_trace: got a null pointer, want a model and room for logits");
    exeunt::Classifier& classifier = of(model).classifier;
    std::vector<Encoding> encodings;
    for (const ClassifierText& text : texts_of(texts))
      encodings.push_back(classifier.tokenizer().encode(text.text, text.pair, classifier.encode_options()));
    if (encodings.empty()) return;
    const exeunt::ExitTrace trace = classifier.engine().trace(encodings);
    std::copy(trace.logits.begin(), trace.logits.end(), logits);
    if (tokens != nullptr) std::copy(trace.lengths.begin(), trace.lengths.end(), tokens);
  });
}
