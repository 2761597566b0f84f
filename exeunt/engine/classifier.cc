// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/classifier.h"

#include <future>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/utf8.h"
#include "exeunt/model/exeunt_folder.h"

namespace exeunt {
namespace {

void check_utf8(std::string_view text) {
  if (const auto at = find_invalid_utf8(text))
    throw Error(Code::bad_file,
                fmt::format("byte {} is 0x{:02X}, want valid UTF-8", *at + 1, static_cast<uint8_t>(text[*at])));
}

}  // namespace

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
  // A certificate is claimed only for bytes that were hashed, here while the engine is loaded.
  std::future<std::string> hashed;
  if (resolved_.certificate) hashed = std::async(std::launch::async, [this] { return weights_sha256(checkpoint_); });
  engine_ = std::make_unique<Engine>(checkpoint_, engine_options(resolved_, options.engine));
  policy_ = engine_->bind(resolved_.policy, resolved_.exit_rates);
  texts_ = texts_per_row(checkpoint_.folder());
  if (hashed.valid()) (void)hashed.get();
}

EncodeOptions Classifier::encode_options() const noexcept {
  return {.max_length = resolved_.max_length};
}

Encoding Classifier::encode(const ClassifierText& text) const {
  if (is_blank(text.text, text.pair)) throw Error(Code::bad_file, std::string(kEmptyText));
  if (text.pair && texts_ == 1)
    throw Error(Code::usage, "got a pair of texts, and the model was trained on single ones");
  check_utf8(text.text);
  if (text.pair) check_utf8(*text.pair);
  return tokenizer_->encode(text.text, text.pair, encode_options());
}

Answer Classifier::answer(std::string_view text, std::optional<std::string_view> pair) {
  const Encoding encoding = encode({text, pair});
  return std::move(engine_->answer({&encoding, 1}, ask()).front());
}

std::vector<ClassifierAnswer> Classifier::answer_all(std::span<const ClassifierText> texts, const Ask& ask,
                                                     int64_t first) {
  std::vector<ClassifierAnswer> out(texts.size());
  std::vector<Engine::MakeEncoding> encodings;
  encodings.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    out[i].blank = is_blank(texts[i].text, texts[i].pair);
    if (out[i].blank) continue;
    encodings.push_back([this, &text = texts[i], &truncated = out[i].truncated] {
      Encoding encoding = encode(text);
      truncated = encoding.truncated;
      return encoding;
    });
  }
  std::vector<Answer> answers = engine_->answer(encodings, ask);
  auto next = answers.begin();
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].blank) continue;
    if (next->stop_reason == StopReason::failed)
      throw Error(next->code, fmt::format("text {}: {}", first + static_cast<int64_t>(i), next->error));
    out[i].answer = std::move(*next++);
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
