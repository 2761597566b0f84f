// SPDX-License-Identifier: Apache-2.0
// A model ready to classify texts, opened as every front end does: tokenizer, engine, and what resolve.h says runs.
//   exeunt::Classifier classifier("models/sst2");
//   std::cout << classifier.label(classifier.answer("A delight from start to end."));
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

struct ClassifierOptions {
  // No precision: the default one of the model's policy.json, else the engine's choice. No exceptions:
  // precision.json's.
  EngineOptions engine = {};
  std::string policy = {};  // as text, or a policy file (.json); empty: the model's, else full depth
  int max_length = 0;       // maximum tokens per text; longer texts are truncated; 0: as RunRequest::max_length
};

struct ClassifierText {
  std::string_view text;
  std::optional<std::string_view> pair = {};
};

// Why a text of white space alone is refused.
inline constexpr std::string_view kEmptyText = "got an empty text, want at least one word";

struct ClassifierAnswer {
  Answer answer = {};
  bool truncated = false;
  bool blank = false;  // the text is white space alone, which nothing is said of: `answer` is empty
};

class Classifier {
 public:
  // `model` is a folder or `org/name` in the local Hugging Face cache. Throws Error.
  explicit Classifier(const std::string& model, const ClassifierOptions& options = {});

  // Throws Error (bad_file) for a blank text and for invalid UTF-8, (usage) for a pair where rows of training were
  // single texts.
  [[nodiscard]] Encoding encode(const ClassifierText& text) const;
  [[nodiscard]] Answer answer(std::string_view text, std::optional<std::string_view> pair = std::nullopt);
  // Many texts, tokenized and run on the engine's threads. Blank ones keep their places; throws Error for the first
  // text that encode() refuses otherwise, counted from `first`.
  [[nodiscard]] std::vector<ClassifierAnswer> answer_all(std::span<const ClassifierText> texts, const Ask& ask,
                                                         int64_t first = 0);
  // Another policy for `Ask`, resolved as the one at opening. Throws Error (usage) where it does not fit the model.
  [[nodiscard]] std::shared_ptr<const BoundPolicy> bind(const std::string& policy) const;
  // The name of an answer's label, or of several with commas between them; its value for regression.
  [[nodiscard]] std::string label(const Answer& answer) const;

  [[nodiscard]] Ask ask() const { return {.policy = policy_}; }
  [[nodiscard]] Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] const Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  [[nodiscard]] EncodeOptions encode_options() const noexcept;
  [[nodiscard]] const Checkpoint& checkpoint() const noexcept { return checkpoint_; }
  [[nodiscard]] const PolicySpec& policy() const noexcept { return resolved_.policy; }
  // What runs, with its certificate and the promise in words.
  [[nodiscard]] const Resolved& resolved() const noexcept { return resolved_; }
  [[nodiscard]] const std::vector<std::string>& notices() const noexcept { return notices_; }  // one line each

 private:
  Checkpoint checkpoint_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  Resolved resolved_ = {};
  std::vector<std::string> notices_ = {};
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const BoundPolicy> policy_ = {};
  int texts_ = 0;  // as texts_per_row()
};

}  // namespace exeunt
