// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "exeunt/train/group.h"
#include "exeunt/train/group_store.h"

namespace exeunt::nn {
namespace {

// NCCL reduces tensors in GPU memory; a tensor in host memory is copied there and back.
class NcclGroup : public ProcessGroup {
 public:
  explicit NcclGroup(const Rendezvous& rendezvous) : rendezvous_(rendezvous) {
    store_ = open_store(rendezvous);
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store_, rendezvous.rank, rendezvous.size);
  }

  void all_reduce(torch::Tensor& tensor) override {
    try {
      std::vector<torch::Tensor> list{tensor.is_cuda() ? tensor : tensor.cuda()};
      group_->allreduce(list)->wait();
      if (!tensor.is_cuda()) tensor.copy_(list.front());
    } catch (const std::exception& error) {
      throw lost_process(rendezvous_, error);
    }
  }

 private:
  Rendezvous rendezvous_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

bool has_nccl() noexcept {
  return true;
}

std::unique_ptr<ProcessGroup> join_over_nccl(const Rendezvous& rendezvous) {
  try {
    return std::make_unique<NcclGroup>(rendezvous);
  } catch (const std::exception& error) {
    throw cannot_connect(rendezvous, error);
  }
}

}  // namespace exeunt::nn
