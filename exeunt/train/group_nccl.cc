// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "exeunt/train/group_store.h"

namespace exeunt::nn {

bool has_nccl() noexcept {
  return true;
}

// NCCL reduces tensors in GPU memory; a tensor in host memory is copied there and back.
AllReduce join_over_nccl(const Rendezvous& rendezvous) {
  const auto store = open_store(rendezvous);
  return [group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rendezvous.rank, rendezvous.size)](
             torch::Tensor& tensor) {
    std::vector<torch::Tensor> list{tensor.is_cuda() ? tensor : tensor.cuda()};
    group->allreduce(list)->wait();
    if (!tensor.is_cuda()) tensor.copy_(list.front());
  };
}

}  // namespace exeunt::nn
