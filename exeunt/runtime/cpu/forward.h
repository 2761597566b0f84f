// SPDX-License-Identifier: Apache-2.0
// One text through the layers of a packed model, without padding. A layer is a few phases (products, attention, norms),
// each split into parts that other threads may take; the split does not change the result. Nothing here
// allocates.
#pragma once

#include <span>

#include "exeunt/runtime/cpu/crew.h"
#include "exeunt/runtime/cpu/packed_model.h"
#include "exeunt/runtime/cpu/workspace.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

class Forward {
 public:
  // `spaces` are those of all members; this text uses the one of `member`, helpers their own scratch.
  Forward(const PackedModel& model, std::span<Workspace> spaces, Crew::Member& member)
      : model_(model),
        kernels_(*model.kernels),
        spaces_(spaces),
        space_(spaces[static_cast<size_t>(member.index())]),
        member_(member) {}

  void embed(const Encoding& text) noexcept;  // a valid text
  void run_layer(int layer) noexcept;         // from 0; rows() are then its output

  // The same layer in steps: keys and values of all rows, then its row 0 alone (first_row()), then all rows, if need
  // be.
  void begin_layer(int layer) noexcept;
  void run_first_row(int layer) noexcept;
  void finish_layer(int layer) noexcept;

  [[nodiscard]] int tokens() const noexcept { return tokens_; }
  [[nodiscard]] const float* rows() const noexcept { return space_.rows; }            // [tokens, hidden]
  [[nodiscard]] const float* first_row() const noexcept { return space_.first_row; }  // [hidden]

 private:
  // Which rows a step works on, and the residual stream it adds to.
  struct Rows {
    int count;
    float* stream;
  };
  enum class Qkv { all, query, key_value };
  void project_qkv(const PackedLayer& layer, Qkv which, int rows) noexcept;
  void after_qkv(int layer, const Rows& rows) noexcept;
  void attend(const PackedLayer& layer, int rows) noexcept;
  void multiply(const Product& product) noexcept;
  void normalize(const PackedNorm& norm, const Rows& rows, const Operand& next) noexcept;
  void quantize(const float* from, int columns, const Operand& out, int rows) noexcept;
  [[nodiscard]] Operand operand(const PackedWeight& weight, std::byte* data) const noexcept;

  const PackedModel& model_;
  const Kernels& kernels_;
  std::span<Workspace> spaces_;
  Workspace& space_;
  Crew::Member& member_;
  int tokens_ = 0;
};

}  // namespace exeunt
