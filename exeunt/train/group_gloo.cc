// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "exeunt/train/group.h"
#include "exeunt/train/group_store.h"

namespace exeunt::nn {
namespace {

using std::chrono::seconds;

class GlooGroup : public ProcessGroup {
 public:
  explicit GlooGroup(const Meeting& meeting) : meeting_(meeting) {
    store_ = open_store(meeting);
    auto gloo = c10d::ProcessGroupGloo::Options::create(seconds(600));
    const bool local = meeting.file() || meeting.host == "127.0.0.1" || meeting.host == "localhost";
    gloo->devices.push_back(local ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                  : c10d::ProcessGroupGloo::createDefaultDevice());
    gloo->threads = 2;
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, meeting.rank, meeting.size, gloo);
  }

  void add_up(torch::Tensor& tensor) override {
    try {
      std::vector<torch::Tensor> list{tensor};
      group_->allreduce(list)->wait();
    } catch (const std::exception& error) {
      throw lost_process(meeting_, error);
    }
  }

 private:
  Meeting meeting_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

bool has_gloo() noexcept {
  return true;
}

std::unique_ptr<ProcessGroup> join_over_gloo(const Meeting& meeting) {
  try {
    return std::make_unique<GlooGroup>(meeting);
  } catch (const std::exception& error) {
    throw cannot_meet(meeting, error);
  }
}

}  // namespace exeunt::nn
