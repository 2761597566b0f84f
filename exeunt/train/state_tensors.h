// SPDX-License-Identifier: Apache-2.0
// Tensors of a run's state on their way to a file and back.
#pragma once

#include <string>
#include <vector>

#include "exeunt/base/safetensors.h"
#include "exeunt/train/torch.h"

namespace exeunt::nn {

// Keeps copies alive until they are written.
class StateTensors {
 public:
  void add(const std::string& name, const torch::Tensor& tensor);  // fp32 or bytes; nothing if undefined
  [[nodiscard]] const std::vector<NamedTensor>& list() const noexcept { return list_; }

 private:
  std::vector<torch::Tensor> kept_;
  std::vector<NamedTensor> list_;
};

[[nodiscard]] torch::Tensor tensor_of(const TensorSet& set, const std::string& name);  // undefined if there is none

}  // namespace exeunt::nn
