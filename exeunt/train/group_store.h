// SPDX-License-Identifier: Apache-2.0
// Where the processes of a group find each other: in a file, on one machine; else the first one listens on every
// interface, and the others connect to it. Only for sources that have c10d's headers.
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "exeunt/train/world.h"

namespace exeunt::nn {

inline c10::intrusive_ptr<c10d::Store> open_store(const Rendezvous& rendezvous) {
  if (const auto file = rendezvous.file()) {
    auto store = c10::make_intrusive<c10d::FileStore>(*file, rendezvous.size);
    store->setTimeout(std::chrono::seconds(60));
    return store;
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.isServer = rendezvous.rank == 0;
  options.numWorkers = static_cast<size_t>(rendezvous.size);
  options.timeout = std::chrono::seconds(60);
  return c10::make_intrusive<c10d::TCPStore>(rendezvous.host, options);
}

}  // namespace exeunt::nn
