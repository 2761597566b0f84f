// SPDX-License-Identifier: Apache-2.0
// A model ready to classify texts, opened as every front end does: tokenizer, precision map, the exit policy that
// policy.json has for the precision in use, and the engine.
//   exeunt::Classifier classifier("models/sst2");
//   std::cout << classifier.label(classifier.answer("A delight from start to end."));
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/exits/policy_file.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/runtime/engine.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

struct ClassifierOptions {
  // No precision: the default one of the model's policy.json, else the engine's choice. No exceptions:
  // precision.json's.
  EngineOptions engine = {};
  std::string policy = {};  // as text, or a policy file (.json); empty: the model's, else full depth
  int max_length = 128;     // maximum tokens per text; longer texts are truncated
};

class Classifier {
 public:
  // `model` is a folder or `org/name` in the local Hugging Face cache. Throws Error.
  explicit Classifier(const std::string& model, const ClassifierOptions& options = {});

  [[nodiscard]] Answer answer(std::string_view text, std::optional<std::string_view> pair = std::nullopt);
  // The name of an answer's label; its value for regression.
  [[nodiscard]] std::string label(const Answer& answer) const;

  [[nodiscard]] Ask ask() const { return {.policy = policy_}; }
  [[nodiscard]] Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] const Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  [[nodiscard]] EncodeOptions encode_options() const noexcept;
  [[nodiscard]] const Checkpoint& checkpoint() const noexcept { return checkpoint_; }
  [[nodiscard]] const PolicySpec& policy() const noexcept { return spec_; }
  // The certificate of that policy, if it is the model's and has one.
  [[nodiscard]] const std::optional<Certificate>& certificate() const noexcept { return certificate_; }
  [[nodiscard]] const std::vector<std::string>& notices() const noexcept { return notices_; }  // one line each

 private:
  void read_policies(const std::string& policy);
  void choose_precision(EngineOptions& options) const;
  void choose_policy(const std::string& text);
  [[nodiscard]] const PolicyEntry* own_entry();

  Checkpoint checkpoint_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::string path_ = {};                // of the policy file
  std::optional<PolicyFile> file_ = {};  // if there is one for these weights
  std::vector<std::string> notices_ = {};
  std::optional<std::string> map_ = {};  // sha256 of the precision map in use
  std::unique_ptr<Engine> engine_;
  PolicySpec spec_ = {};
  std::shared_ptr<const AskPolicy> policy_ = {};
  std::optional<Certificate> certificate_ = {};
  int max_length_;
};

}  // namespace exeunt
