// SPDX-License-Identifier: Apache-2.0
// TensorFlow checkpoints of version 2, as Google ships BERT and ALBERT: NAME.index, a sorted table of what is where,
// and NAME.data-00000-of-0000n, the tensors' bytes. TF-Hub modules hold the same under variables/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/base/gunzip.h"
#include "exeunt/base/tensor.h"

namespace exeunt {

// Opens the checkpoint called `path`: its common prefix (model.ckpt-best), one of its files, or a folder that holds one
// checkpoint. Shards are mapped and every checksum is verified. Names and shapes are the file's; state of the optimiser
// (is_optimizer_slot) and text are skipped. With `folder`, the files must lie in it. Throws Error.
[[nodiscard]] TensorSet read_tf_checkpoint(const std::filesystem::path& path, const std::filesystem::path& folder = {});

// Moments and counters that training leaves in a checkpoint: ".../adam_m", "global_step" and their kind.
[[nodiscard]] bool is_optimizer_slot(std::string_view name) noexcept;

// What the index says of one tensor.
struct TfEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  uint32_t shard = 0;
  uint64_t offset = 0, size = 0;
  uint32_t masked_crc = 0;
};

struct TfIndex {
  uint32_t shards = 0;
  std::vector<TfEntry> entries;  // by name; without text
};

// Reads the bytes of a .index file; `where` prefixes error messages.
[[nodiscard]] TfIndex parse_tf_index(std::span<const std::byte> bytes, std::string_view where,
                                     CrcCheck crc = CrcCheck::verify);

// The tensors of `index` as views of the shards' bytes, which the caller keeps alive.
struct TfShard {
  std::string where;                      // prefixes error messages
  std::span<const std::byte> bytes = {};  // of the whole file
};
[[nodiscard]] TensorSet view_tf_tensors(const TfIndex& index, std::span<const TfShard> shards,
                                        CrcCheck crc = CrcCheck::verify);

// The sorted table of LevelDB, in which TensorFlow keeps the index of a checkpoint: blocks of prefix-compressed keys
// with their values, each block with a checksum, and a footer that leads to the block that lists the others.
inline constexpr Hint kTableHint{"copy or download the checkpoint again"};

using TableVisit = std::function<void(std::string_view key, std::span<const std::byte> value)>;

// Calls `visit` for every entry; keys rise strictly. Key and value live only until it returns. Throws Error.
void for_each_in_table(std::span<const std::byte> table, std::string_view where, CrcCheck crc, const TableVisit& visit);

}  // namespace exeunt
