// SPDX-License-Identifier: Apache-2.0
// Where the processes of a group find each other before they speak: the first one serves, the others come to it. Only
// for sources that have c10d's headers.
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "exeunt/train/group.h"

namespace exeunt::nn {

inline c10::intrusive_ptr<c10d::Store> open_store(const Meeting& meeting) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(meeting.port);
  options.isServer = meeting.rank == 0;
  options.numWorkers = static_cast<size_t>(meeting.size);
  options.timeout = std::chrono::seconds(60);
  return c10::make_intrusive<c10d::TCPStore>(meeting.host, options);
}

}  // namespace exeunt::nn
