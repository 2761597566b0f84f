// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "exeunt/base/error.h"
#include "exeunt/train/group.h"

namespace exeunt::nn {
namespace {

using std::chrono::seconds;

class GlooGroup : public ProcessGroup {
 public:
  explicit GlooGroup(const Meeting& meeting) : meeting_(meeting) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(meeting.port);
    options.isServer = meeting.rank == 0;
    options.numWorkers = static_cast<size_t>(meeting.size);
    options.timeout = seconds(60);
    store_ = c10::make_intrusive<c10d::TCPStore>(meeting.host, options);
    auto gloo = c10d::ProcessGroupGloo::Options::create(seconds(600));
    const bool local = meeting.host == "127.0.0.1" || meeting.host == "localhost";
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
      throw Error(Code::failure,
                  fmt::format("rank {} of {} lost another process: {}", meeting_.rank, meeting_.size,
                              std::string(error.what()).substr(0, 120)),
                  "start again with --resume: the last checkpoint is whole");
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
    throw Error(Code::resources,
                fmt::format("rank {} cannot meet the others at {}:{}: {}", meeting.rank, meeting.host, meeting.port,
                            std::string(error.what()).substr(0, 120)),
                "check that all ranks were started and the port is free");
  }
}

}  // namespace exeunt::nn
