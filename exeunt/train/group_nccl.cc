// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "exeunt/train/group.h"
#include "exeunt/train/group_store.h"

namespace exeunt::nn {
namespace {

// NCCL reduces tensors in GPU memory; a tensor in host memory is copied there and back.
class NcclGroup : public ProcessGroup {
 public:
  explicit NcclGroup(const Rendezvous& rendezvous)
      : store_(open_store(rendezvous)),
        group_(c10::make_intrusive<c10d::ProcessGroupNCCL>(store_, rendezvous.rank, rendezvous.size)) {}

  void all_reduce(torch::Tensor& tensor) override {
    std::vector<torch::Tensor> list{tensor.is_cuda() ? tensor : tensor.cuda()};
    group_->allreduce(list)->wait();
    if (!tensor.is_cuda()) tensor.copy_(list.front());
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

bool has_nccl() noexcept {
  return true;
}

std::unique_ptr<ProcessGroup> join_over_nccl(const Rendezvous& rendezvous) {
  return std::make_unique<NcclGroup>(rendezvous);
}

}  // namespace exeunt::nn
