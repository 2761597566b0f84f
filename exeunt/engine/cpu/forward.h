// SPDX-License-Identifier: Apache-2.0
// A pack of texts through the layers of a packed model: their rows one after another, without padding, so that one pass
// over a layer's weights serves all of them; attention is per text. A layer is a few phases (products, attention,
// norms), each split into parts that other threads may take. Neither the company of a text nor the split changes its
// result. Nothing here allocates.
#pragma once

#include <array>
#include <span>

#include "exeunt/engine/cpu/packed_model.h"
#include "exeunt/engine/cpu/worker_pool.h"
#include "exeunt/engine/cpu/workspace.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {

class Forward {
 public:
  // `spaces` are those of all workers; this pack uses the one of `worker`, helpers their own scratch.
  Forward(const PackedModel& model, std::span<Workspace> spaces, WorkerPool::Worker& worker)
      : model_(model),
        kernels_(*model.kernels),
        spaces_(spaces),
        space_(spaces[static_cast<size_t>(worker.index())]),
        worker_(worker) {}

  // Adds a valid text to the pack, as its last one. There is room for it.
  void embed(const Encoding& text) noexcept;
  void run_layer(int layer) noexcept;  // from 0; rows() are then its output

  // The same layer in steps: keys and values of all rows; row 0 alone of the texts with these numbers, in rising order
  // (first_row()); then all rows, if need be.
  void begin_layer(int layer) noexcept;
  void run_first_rows(int layer, std::span<const int> texts) noexcept;
  void finish_layer(int layer) noexcept;

  // Removes texts; the rows of the others move up, and the texts are numbered anew. Either before `layer`, or within
  // it, after `run_first_rows`.
  enum class When : uint8_t { before, within };
  void keep(std::span<const bool> stays, int layer, When when) noexcept;

  [[nodiscard]] int texts() const noexcept { return texts_; }
  [[nodiscard]] int row_count() const noexcept { return row_count_; }
  [[nodiscard]] int tokens(int text) const noexcept { return places_[static_cast<size_t>(text)].rows; }
  // [tokens, hidden]
  [[nodiscard]] const float* rows(int text) const noexcept {
    return row(space_.rows, places_[static_cast<size_t>(text)].begin);
  }
  // [hidden] of the nth of the texts that `run_first_rows` got.
  [[nodiscard]] const float* first_row(int nth) const noexcept { return row(space_.first_rows, nth); }

 private:
  struct Place {
    int begin = 0, rows = 0;
  };
  // What the phases of a layer work on: all rows of the pack, or row 0 of some texts.
  struct Rows {
    int count = 0;
    float* stream = nullptr;             // the residual stream they add to
    std::byte* query = nullptr;          // [count, 3d]
    std::span<const int> first_of = {};  // the texts whose row 0 they are; empty: all rows of all texts
  };
  struct AttentionCut;

  [[nodiscard]] Rows all_rows() const noexcept;
  [[nodiscard]] float* row(float* rows, int at) const noexcept {
    return rows + static_cast<size_t>(at) * static_cast<size_t>(model_.spec.hidden);
  }
  [[nodiscard]] std::byte* attended(std::byte* rows, int at, int part = 0) const noexcept;

  enum class Qkv : uint8_t { all, query, key_value };
  void project_qkv(int layer, Qkv which) noexcept;
  void rotate(int layer, Qkv which) noexcept;
  void after_qkv(int layer, const Rows& rows) noexcept;
  void attend(int layer, const Rows& rows) noexcept;
  void attend_within_window(Attention work) const noexcept;
  void attend_by_distance(const PackedLayer& layer, Attention work, const Workspace& scratch) const noexcept;
  void feed_forward(const PackedLayer& layer, const Rows& rows, const Operand& input) noexcept;
  void multiply(const Product& product) noexcept;
  template <class Work>
  void share_rows(int count, int columns, const Work& work) noexcept;
  // In place, or in a copy where norms come before what reads them.
  void normalize(const PackedNorm& norm, const Rows& rows, const Operand& next) noexcept;
  // The operand of a layer's query, key and value, of rows of the residual stream.
  void enter_layer(int layer, float* stream, const Operand& out, Place rows) noexcept;
  void quantize(const float* from, int columns, const Operand& out, Place rows) noexcept;
  [[nodiscard]] Operand operand(const PackedWeight& weight, std::byte* data) const noexcept;

  const PackedModel& model_;
  const Kernels& kernels_;
  std::span<Workspace> spaces_;
  Workspace& space_;
  WorkerPool::Worker& worker_;
  std::array<Place, kMaxPackTexts> places_ = {};
  int texts_ = 0, row_count_ = 0;
};

}  // namespace exeunt
