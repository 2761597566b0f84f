// SPDX-License-Identifier: Apache-2.0
// Where the processes of a group find each other before they speak: in a file, on one machine; else the first one
// serves, on every interface, and the others come to it. Only for sources that have c10d's headers.
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "exeunt/train/group.h"

namespace exeunt::nn {

inline c10::intrusive_ptr<c10d::Store> open_store(const Meeting& meeting) {
  if (const auto file = meeting.file()) {
    auto store = c10::make_intrusive<c10d::FileStore>(*file, meeting.size);
    store->setTimeout(std::chrono::seconds(60));
    return store;
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(meeting.port);
  options.isServer = meeting.rank == 0;
  options.numWorkers = static_cast<size_t>(meeting.size);
  options.timeout = std::chrono::seconds(60);
  return c10::make_intrusive<c10d::TCPStore>(meeting.host, options);
}

}  // namespace exeunt::nn
