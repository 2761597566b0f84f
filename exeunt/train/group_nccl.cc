// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "exeunt/train/group.h"
#include "exeunt/train/group_store.h"

namespace exeunt::nn {
namespace {

// NCCL adds up what lies on GPUs; what lies in the host's memory goes there and back.
class NcclGroup : public ProcessGroup {
 public:
  explicit NcclGroup(const Meeting& meeting) : meeting_(meeting) {
    store_ = open_store(meeting);
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store_, meeting.rank, meeting.size);
  }

  void add_up(torch::Tensor& tensor) override {
    try {
      std::vector<torch::Tensor> list{tensor.is_cuda() ? tensor : tensor.cuda()};
      group_->allreduce(list)->wait();
      if (!tensor.is_cuda()) tensor.copy_(list.front());
    } catch (const std::exception& error) {
      throw lost_process(meeting_, error);
    }
  }

 private:
  Meeting meeting_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

bool has_nccl() noexcept {
  return true;
}

std::unique_ptr<ProcessGroup> join_over_nccl(const Meeting& meeting) {
  try {
    return std::make_unique<NcclGroup>(meeting);
  } catch (const std::exception& error) {
    throw cannot_meet(meeting, error);
  }
}

}  // namespace exeunt::nn
