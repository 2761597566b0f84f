// SPDX-License-Identifier: Apache-2.0
// Work on a GPU that is launched once instead of operation by operation: recorded as a CUDA graph for each shape of its
// inputs, then replayed. step_graphs.cc if LibTorch has CUDA, else step_graphs_stub.cc, which does the work as it is.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "exeunt/train/torch.h"

namespace exeunt::nn {

class StepGraphs {
 public:
  static constexpr size_t kMost = 32;  // recordings kept; the one unused for longest goes first

  using Tensors = std::vector<torch::Tensor>;
  using Work = std::function<Tensors(const Tensors& inputs)>;

  StepGraphs();
  ~StepGraphs();

  // What `work` returns for `inputs`, valid until the next call. It is the same work whenever shapes and `phase` are
  // the same, and changes nothing else on the GPU. The first time it is done as it is, which sets up what libraries set
  // up when they are first used; the second time it is recorded, so it must not wait for the GPU or copy from the host.
  [[nodiscard]] Tensors run(int64_t phase, const Tensors& inputs, const Work& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace exeunt::nn
