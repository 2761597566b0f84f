// SPDX-License-Identifier: Apache-2.0
// A parsed request, independent of its protocol: texts, exit options, and the form of its response.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/outputs/output_spec.h"

namespace exeunt::serve {

// What the protocols need to know about the model.
struct ModelFacts : OutputSpec {
  std::string name = {};
  int outputs = 0;
  int layers = 0;
  std::vector<int> exits = {};  // after which layers
  int max_tokens = 512;
  int vocabulary = 0;
  int segments = 2;
  int texts = 0;  // in each row of its training: 1, 2 for pairs, 0 = unknown
};

struct JobText {
  std::string text = {};
  std::optional<std::string> pair = {};
  std::vector<int32_t> ids = {};  // tokens from the client, instead of a text
  std::vector<uint8_t> types = {};
};

// The early-exit options of a request: "exit":{…}, or OIP parameters.
struct ExitOptions {
  std::optional<std::string> policy = {};
  std::optional<int> max_layers = {};
  std::optional<int64_t> deadline_us = {};
  bool details = false;
};

enum class Shape { predict, predict_batch, rerank, classify, infer };

// What is given as the score of a label.
enum class Scoring {
  native,   // as the model was trained: probabilities, or the sigmoid of a single output
  logits,   // as the model puts them out
  sigmoid,  // of each logit
  softmax
};

struct Job {
  Shape shape = Shape::predict;
  std::vector<JobText> texts = {};
  std::optional<std::string> query = {};  // rerank: the first part of every pair, whose second one is `text`
  ExitOptions exit = {};
  bool truncate = true;
  bool truncate_left = false;
  Scoring scoring = Scoring::native;
  std::optional<size_t> top = {};         // predict: how many labels of a text are given; none: all
  bool return_text = false;               // rerank
  std::optional<std::string> id = {};     // infer
  std::vector<std::string> outputs = {};  // infer: the requested names
  int unknown_fields = 0;                 // ignored, and counted

  // Both parts of a text.
  [[nodiscard]] std::pair<std::string_view, std::optional<std::string_view>> parts(size_t nth) const {
    const JobText& text = texts[nth];
    if (query) return {*query, text.text};
    return {text.text, text.pair ? std::optional<std::string_view>(*text.pair) : std::nullopt};
  }
};

struct JobRules {
  const ModelFacts& model;
  size_t max_batch = 32;
  bool auto_truncate = true;
};

}  // namespace exeunt::serve
