// SPDX-License-Identifier: Apache-2.0
// Finds all vocabulary entries that begin at a position of the text in one pass over its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace exeunt {

// A byte trie as a double array (Aoe 1989): the child of node n by byte b is at n.base ^ b if that node's parent is n.
// One read per byte, no search among children. Built once, then immutable.
class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0;

  ByteTrie() : ByteTrie(std::span<const std::string_view>{}) {}
  // Key i has the value i; of duplicate keys the last one wins, and empty keys are ignored.
  explicit ByteTrie(std::span<const std::string_view> keys);

  // One step down; false (and `node` unchanged) if there is no such child.
  [[nodiscard]] bool step(uint32_t& node, uint8_t byte) const noexcept {
    const uint32_t child = nodes_[node].base ^ byte;
    if (nodes_[child].parent != node) return false;
    node = child;
    return true;
  }
  // The key that ends at `node`, or -1.
  [[nodiscard]] int32_t value(uint32_t node) const noexcept { return nodes_[node].value; }

  [[nodiscard]] std::optional<int32_t> find(std::string_view key) const noexcept;

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  // A node without children has base 0; the nodes there have other parents, so no step succeeds.
  struct Node {
    uint32_t base = 0;
    uint32_t parent = kFree;
    int32_t value = -1;
  };
  struct Row;
  struct Builder;
  std::vector<Node> nodes_;
};

}  // namespace exeunt
