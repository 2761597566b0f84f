// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/group.h"

#include <fmt/format.h>

namespace exeunt::nn {
namespace {

// What c10d says goes on for lines; its beginning names the cause.
std::string beginning(const std::exception& cause) {
  return std::string(cause.what()).substr(0, 120);
}

}  // namespace

Error lost_process(const Rendezvous& rendezvous, const std::exception& cause) {
  return {Code::failure,
          fmt::format("rank {} of {} lost another process: {}", rendezvous.rank, rendezvous.size, beginning(cause)),
          "start again with --resume: the last checkpoint is intact"};
}

Error cannot_connect(const Rendezvous& rendezvous, const std::exception& cause) {
  return {Code::resources,
          fmt::format("rank {} cannot reach the other ranks at {}:{}: {}", rendezvous.rank, rendezvous.host,
                      rendezvous.port, beginning(cause)),
          "check that all ranks were started and the port is free"};
}

}  // namespace exeunt::nn
