// SPDX-License-Identifier: Apache-2.0
// The reference forward pass: one text through the encoder and all of its exits, in plain fp32 loops that read like the
// definition. Every faster engine is tested against it. A text has no padding, so there is no mask.
//   h_0 = norm(word + position + segment), projected to the hidden size if the model has an embedding projection
//   a_i = norm(h + output(attend(query h, key h, value h)))   h_{i+1} = norm(a + ffn2(act(ffn1 a)))
//   with norms before (pre_norm): a_i = h + output(attend(query n, key n, value n)), n = norm(h);
//                                 h_{i+1} = a + ffn2(act(ffn1 m) · gate m), m = norm(a); exits read final_norm(h)
//   exit: x = row 0, or what pool_input or a reader says; v = tanh(pooler x); logits = classifier v
// All arithmetic is fp32 in one fixed order (see encoder_formulas.h), so a result depends neither on other
// texts nor on threads nor on the machine's vector width; only exp, erf and tanh are the C library's.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

struct ReferenceExit {
  int after = 0;                   // the layer, from 1
  std::vector<float> input = {};   // what the pooler reads: [hidden], after a reader [2 · hidden]
  std::vector<float> pooled = {};  // [width]; without a pooler the input itself
  std::vector<float> logits = {};  // [outputs]
  std::optional<float> lte = {};   // the learning-to-exit head's probability that the answer is wrong
};

struct ReferenceOutput {
  int tokens = 0, hidden = 0;
  // [layers + 1][tokens, hidden]: after the embeddings, then after every layer that was run.
  std::vector<std::vector<float>> rows = {};
  std::vector<ReferenceExit> exits = {};
  std::optional<ReferenceExit> ramp = {};  // the ramp of the last layer, in addition to the final head

  [[nodiscard]] std::span<const float> row(int layer, int token) const;  // layer 0 = the embeddings
};

struct ReferenceOptions {
  bool keep_rows = true;                             // false: `rows` stays empty
  int max_layers = std::numeric_limits<int>::max();  // stop early; later exits are then missing
};

// All raw logits of one text, as in a trace.
struct ReferenceTrace {
  std::vector<float> logits = {};  // [exits, outputs]
  std::vector<float> lte = {};     // [exits], or empty
  std::vector<float> ramp = {};    // [outputs], or empty
};

class Reference {
 public:
  explicit Reference(const Checkpoint& checkpoint);  // copies the weights to fp32; does not keep the checkpoint
  ~Reference();
  Reference(Reference&&) noexcept;
  Reference& operator=(Reference&&) noexcept;

  // Throws Error for an invalid text (see check_text in backend.h).
  // Safe to call from many threads.
  [[nodiscard]] ReferenceOutput run(std::span<const int32_t> ids, std::span<const uint8_t> types,
                                    const ReferenceOptions& options = {}) const;
  [[nodiscard]] ReferenceOutput run(const Encoding& text, const ReferenceOptions& options = {}) const;
  [[nodiscard]] ReferenceTrace trace(const Encoding& text) const;

  [[nodiscard]] const ModelSpec& spec() const noexcept;
  [[nodiscard]] const ExitLayout& exits() const noexcept;

 private:
  struct Weights;
  std::unique_ptr<const Weights> weights_;
};

}  // namespace exeunt
