// SPDX-License-Identifier: Apache-2.0
// The last hashes that were seen, up to a number: memory of what was counted already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>

#include "exeunt/base/secret_hash.h"

namespace exeunt::serve {

class RecentHashes {
 public:
  explicit RecentHashes(size_t most) : most_(most) {}

  // False if it is among the last ones already.
  bool insert(uint64_t hash) {
    if (!known_.insert(hash).second) return false;
    order_.push_back(hash);
    if (order_.size() > most_) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }

 private:
  size_t most_;
  std::unordered_set<uint64_t, SecretHash> known_ = {};
  std::deque<uint64_t> order_ = {};
};

}  // namespace exeunt::serve
