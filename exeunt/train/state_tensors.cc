// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/state_tensors.h"

#include <span>

#include "exeunt/base/error.h"

namespace exeunt::nn {

void StateTensors::add(const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.defined()) return;
  kept_.push_back(tensor.detach().to(torch::kCPU).contiguous());
  const torch::Tensor& copy = kept_.back();
  const bool bytes = copy.scalar_type() == torch::kByte;
  check(bytes || copy.scalar_type() == torch::kFloat, "training state is fp32 or bytes");
  const std::span raw(static_cast<const std::byte*>(copy.data_ptr()), copy.nbytes());
  list_.push_back(
      {name, {.dtype = bytes ? DType::u8 : DType::f32, .shape = copy.sizes().vec(), .strides = {}, .bytes = raw}});
}

torch::Tensor tensor_of(const TensorSet& set, const std::string& name) {
  const TensorView* view = set.find(name);
  if (view == nullptr) return {};
  const bool bytes = view->dtype == DType::u8;
  torch::Tensor out = torch::empty(view->shape, bytes ? torch::kByte : torch::kFloat);
  if (out.numel() == 0) return out;
  copy_raw(*view, {static_cast<std::byte*>(out.data_ptr()), out.nbytes()});
  return out;
}

}  // namespace exeunt::nn
