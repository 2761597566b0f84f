// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "exeunt/base/error.h"
#include "exeunt/train/group.h"

namespace exeunt::nn {
namespace {

using std::chrono::seconds;

// NCCL adds up what lies on GPUs; what lies in the host's memory goes there and back.
class NcclGroup : public ProcessGroup {
 public:
  explicit NcclGroup(const Meeting& meeting) : meeting_(meeting) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(meeting.port);
    options.isServer = meeting.rank == 0;
    options.numWorkers = static_cast<size_t>(meeting.size);
    options.timeout = seconds(60);
    store_ = c10::make_intrusive<c10d::TCPStore>(meeting.host, options);
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store_, meeting.rank, meeting.size);
  }

  void add_up(torch::Tensor& tensor) override {
    try {
      std::vector<torch::Tensor> list{tensor.is_cuda() ? tensor : tensor.cuda()};
      group_->allreduce(list)->wait();
      if (!tensor.is_cuda()) tensor.copy_(list.front());
    } catch (const std::exception& error) {
      throw Error(Code::failure,
                  fmt::format("rank {} of {} lost another process: {}", meeting_.rank, meeting_.size,
                              std::string(error.what()).substr(0, 120)),
                  "start again with --resume: the last checkpoint is whole");
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
    throw Error(Code::resources,
                fmt::format("rank {} cannot meet the others at {}:{}: {}", meeting.rank, meeting.host, meeting.port,
                            std::string(error.what()).substr(0, 120)),
                "check that all ranks were started and the port is free");
  }
}

}  // namespace exeunt::nn
