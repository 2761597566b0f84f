// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/classifier.h"

#include "exeunt/base/error.h"

namespace exeunt {

Classifier::Classifier(const std::string& model, const ClassifierOptions& options)
    : checkpoint_(Checkpoint::open(model)) {
  require_heads(checkpoint_);  // before the tokenizer, so that this is the error reported
  tokenizer_ = load_tokenizer(checkpoint_.folder());
  RunRequest request{.policy = options.policy,
                     .precision = options.engine.precision,
                     .max_length = options.max_length,
                     .engine = engine_traits(checkpoint_, options.engine.device, options.engine.kernels)};
  if (!options.engine.exceptions.empty()) request.exceptions = options.engine.exceptions;
  resolved_ = resolve(checkpoint_, request);
  notices_ = checkpoint_.notices();
  notices_.insert(notices_.end(), resolved_.notices.begin(), resolved_.notices.end());
  engine_ = std::make_unique<Engine>(checkpoint_, engine_options(resolved_, options.engine));
  policy_ = engine_->bind(resolved_.policy, resolved_.exit_rates);
}

EncodeOptions Classifier::encode_options() const noexcept {
  return {.max_length = resolved_.max_length};
}

Answer Classifier::answer(std::string_view text, std::optional<std::string_view> pair) {
  const Encoding encoding = tokenizer_->encode(text, pair, encode_options());
  return std::move(engine_->answer({&encoding, 1}, ask()).front());
}

std::vector<ClassifierAnswer> Classifier::answer_all(std::span<const ClassifierText> texts, const Ask& ask) {
  std::vector<ClassifierAnswer> out(texts.size());
  std::vector<Engine::MakeEncoding> encode;
  encode.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    encode.push_back([this, &text = texts[i], &truncated = out[i].truncated] {
      Encoding encoding = tokenizer_->encode(text.text, text.pair, encode_options());
      truncated = encoding.truncated;
      return encoding;
    });
  }
  std::vector<Answer> answers = engine_->answer(encode, ask);
  for (size_t i = 0; i < out.size(); ++i) {
    if (answers[i].stop_reason == StopReason::failed)
      throw Error(answers[i].code, fmt::format("text {}: {}", i, answers[i].error));
    out[i].answer = std::move(answers[i]);
  }
  return out;
}

std::shared_ptr<const BoundPolicy> Classifier::bind(const std::string& policy) const {
  const Resolved resolved = resolve(checkpoint_, {.policy = policy,
                                                  .precision = resolved_.precision,
                                                  .exceptions = resolved_.exceptions,
                                                  .max_length = resolved_.max_length,
                                                  .engine = engine_->traits()});
  return engine_->bind(resolved.policy, resolved.exit_rates);
}

std::string Classifier::label(const Answer& answer) const {
  return answer_text(checkpoint_.exits(), answer.logits, {.value = "{:g}"});
}

}  // namespace exeunt
