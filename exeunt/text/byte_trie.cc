// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/byte_trie.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace exeunt {

// Keys [first, last) of the sorted list share the bytes that lead to `node`, `depth` of them.
struct ByteTrie::Row {
  uint32_t node;
  uint32_t first, last;
  uint32_t depth;
};

struct ByteTrie::Builder {
  std::span<const std::string_view> keys;
  std::vector<uint32_t> order;  // keys sorted, equal ones by rising index
  std::vector<Node> nodes;
  uint32_t open = 1;  // slots before it are taken, or given up

  void grow(uint32_t size) {
    if (size > nodes.size()) nodes.resize(size);
  }

  [[nodiscard]] uint8_t byte_at(uint32_t i, uint32_t depth) const {
    return static_cast<uint8_t>(keys[order[i]][depth]);
  }

  // A base whose slots for all `bytes` are free. Blocks of 256 keep base ^ byte inside the block.
  uint32_t find_base(std::span<const uint8_t> bytes) {
    uint32_t tries = 0;
    for (uint32_t place = open;; ++place) {
      grow((place | 255U) + 1);
      if (nodes[place].parent != kFree) {
        if (place == open) ++open;
        continue;
      }
      const uint32_t base = place ^ bytes.front();
      const bool fits = std::ranges::all_of(bytes, [&](uint8_t byte) { return nodes[base ^ byte].parent == kFree; });
      if (fits) return base;
      // Crowded blocks are given up after a while: a bounded search keeps the build linear.
      if (++tries % 1024 == 0) open = std::max(open, place);
    }
  }

  void expand(const Row& row, std::vector<Row>& todo) {
    uint32_t at = row.first;
    // The shortest keys come first; of duplicates the last one wins.
    for (; at < row.last && keys[order[at]].size() == row.depth; ++at) {
      nodes[row.node].value = row.depth == 0 ? -1 : static_cast<int32_t>(order[at]);
    }
    if (at == row.last) return;
    std::array<uint8_t, 256> bytes{};
    std::array<uint32_t, 257> starts{};
    size_t count = 0;
    for (; at < row.last; ++at) {
      const uint8_t byte = byte_at(at, row.depth);
      if (count != 0 && bytes[count - 1] == byte) continue;
      bytes[count] = byte;
      starts[count++] = at;
    }
    starts[count] = row.last;
    const uint32_t base = find_base(std::span(bytes).first(count));
    nodes[row.node].base = base;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t child = base ^ bytes[i];
      nodes[child].parent = row.node;
      todo.push_back({child, starts[i], starts[i + 1], row.depth + 1});
    }
  }
};

ByteTrie::ByteTrie(std::span<const std::string_view> keys) {
  Builder builder{keys, {}, {}};
  builder.order.resize(keys.size());
  std::iota(builder.order.begin(), builder.order.end(), 0U);
  std::ranges::stable_sort(builder.order, [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  builder.grow(256);
  builder.nodes[kRoot].parent = kFree - 1;  // taken, and no node's child
  std::vector<Row> todo{{kRoot, 0, static_cast<uint32_t>(keys.size()), 0}};
  while (!todo.empty()) {
    const Row row = todo.back();
    todo.pop_back();
    builder.expand(row, todo);
  }
  nodes_ = std::move(builder.nodes);
}

std::optional<int32_t> ByteTrie::find(std::string_view key) const noexcept {
  uint32_t node = kRoot;
  for (const char c : key) {
    if (!step(node, static_cast<uint8_t>(c))) return std::nullopt;
  }
  const int32_t found = value(node);
  return found < 0 ? std::nullopt : std::optional(found);
}

}  // namespace exeunt
