// SPDX-License-Identifier: Apache-2.0
// The kernels of a layer, in their order, for rows whose number only the device knows.
#pragma once

#include "exeunt/engine/cuda/batch_memory.h"

namespace exeunt::cuda {

class LayerPass {
 public:
  LayerPass(const DeviceModel& model, int rows) : model_(model), rows_((rows + 127) / 128 * 128) {}

  void place(MemoryParts& parts);

  // The embeddings of a batch's tokens, projected where the model does.
  struct Tokens {
    const BatchInput& input;
    std::byte *embedded = nullptr, *out = nullptr;  // `embedded` only before a projection
    int max_rows = 0;
  };
  void embed_tokens(const Tokens& tokens, Stream stream) const;
  // Rows that pass a layer.
  struct Rows {
    TextList list = {};
    Capacity capacity = {};
    const std::byte* rows = nullptr;  // what comes in
    bool quantized = false;           // they are there in int8, too
  };
  // Queries, keys and values, and attention; `first_only`: row 0 of each text is all that is wanted.
  void attend(int layer, const Rows& in, bool first_only, Stream stream) const;
  // a = norm(residual + output(from))   out = norm(a + ffn2(act(ffn1 a))), the last norm only if there is an `out`.
  struct Rest {
    const Live* live = nullptr;
    int max_rows = 0;
    const std::byte *from = nullptr, *residual = nullptr;
    std::byte* out = nullptr;
  };
  void rest(int layer, const Rest& rest, Stream stream) const;
  // The last norm of a layer by itself; `live` and `max_rows` are left open.
  [[nodiscard]] AddNormJob last_norm(int layer, std::byte* out) const;

  [[nodiscard]] std::byte* context() const;  // attention's output
  [[nodiscard]] std::byte* wide() const noexcept { return wide_; }

 private:
  struct Output {
    std::byte* to = nullptr;
    Finish finish = Finish::none;
    const Live* live = nullptr;
    int max_rows = 0;
  };
  // `quantized`: what it reads is there in int8 already, if it wants that.
  void product(const Matrix& matrix, const std::byte* from, bool quantized, const Output& out, Stream stream) const;
  // `job`, whose result is the input of `next`.
  [[nodiscard]] AddNormJob quantizing(AddNormJob job, const Matrix& next) const;

  const DeviceModel& model_;
  int rows_;
  std::byte *middle_ = nullptr, *product_ = nullptr, *wide_ = nullptr;
  int8_t* quantized_ = nullptr;  // the input of a product in int8, and its scales
  float* scales_ = nullptr;
};

}  // namespace exeunt::cuda
