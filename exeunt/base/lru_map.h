// SPDX-License-Identifier: Apache-2.0
// A map of limited size: the value that was used longest ago makes room for a new one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace exeunt {

template <class Key, class Value>
class LruMap {
 public:
  explicit LruMap(size_t most) : most_(std::max<size_t>(most, 1)) {}

  // The value of `key`, an empty one if it is new; valid until another key is used. Room is made by looking at all
  // values: limits are a few dozens.
  [[nodiscard]] Value& use(const Key& key) {
    auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (entries_.size() == most_) {
        entries_.erase(std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.used; }));
      }
      found = entries_.emplace(key, Entry{}).first;
    }
    found->second.used = ++uses_;
    return found->second.value;
  }
  [[nodiscard]] size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    Value value = {};
    uint64_t used = 0;
  };
  size_t most_;
  uint64_t uses_ = 0;
  std::map<Key, Entry> entries_ = {};
};

}  // namespace exeunt
