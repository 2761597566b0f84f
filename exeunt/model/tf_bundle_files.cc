// SPDX-License-Identifier: Apache-2.0
// From the name of a TensorFlow checkpoint to its files.
#include <map>
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/model/tf_bundle.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr Hint kNameIt{"give the checkpoint's prefix, for example model.ckpt-best"};

// "x.data-00001-of-00002" → "x"; other names as they are.
std::string without_shard(std::string name) {
  constexpr size_t kTail = 20;  // ".data-00001-of-00002"
  if (name.size() <= kTail) return name;
  const std::string tail = name.substr(name.size() - kTail);
  const auto digits = [&](size_t from) { return tail.find_first_not_of("0123456789", from) >= from + 5; };
  const bool shard = tail.starts_with(".data-") && digits(6) && tail.substr(11, 4) == "-of-" && digits(15);
  return shard ? name.substr(0, name.size() - kTail) : name;
}

// The one .index file in a folder, or in the variables/ of a TF-Hub module.
fs::path prefix_in(const fs::path& folder) {
  std::set<fs::path> found;
  for (const fs::path& place : {folder, folder / "variables"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      if (entry.path().extension() == ".index") found.insert(entry.path());
    }
    if (!found.empty()) break;
  }
  if (found.empty()) throw_bad_file(folder.string(), "no TensorFlow checkpoint lies here: want a file *.index");
  if (found.size() > 1)
    throw_bad_file(folder.string(), kNameIt, "got {} checkpoints, {} and others, want one", found.size(),
                   found.begin()->filename().string());
  return fs::path(*found.begin()).replace_extension();
}

fs::path prefix_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return prefix_in(path);
  if (path.extension() == ".index" || path.extension() == ".meta") return fs::path(path).replace_extension();
  return path.parent_path() / without_shard(path.filename().string());
}

}  // namespace

TensorSet read_tf_checkpoint(const fs::path& path) {
  const fs::path prefix = prefix_of(path);
  const std::string index_name = prefix.string() + ".index";
  std::error_code ignored;
  if (!path_exists(index_name) && fs::is_regular_file(prefix, ignored))
    throw_bad_file(prefix.string(), Hint{"convert it with tf.train.Saver(write_version=tf.train.SaverDef.V2)"},
                   "no {} beside it: it is a checkpoint of TensorFlow's version 1 or none at all",
                   fs::path(index_name).filename().string());
  const TfIndex index = parse_tf_index(MappedFile::open(index_name)->bytes(), index_name);

  // Shards that hold only what is left out need not be there.
  std::vector<TfShard> shards(index.shards);
  std::vector<std::shared_ptr<const void>> owners;
  for (const TfEntry& entry : index.entries) {
    TfShard& shard = shards[entry.shard];
    if (is_optimizer_slot(entry.name) || !shard.where.empty()) continue;
    shard.where = fmt::format("{}.data-{:05}-of-{:05}", prefix.string(), entry.shard, index.shards);
    const auto file = MappedFile::open(shard.where);
    shard.bytes = file->bytes();
    owners.push_back(file);
  }
  TensorSet set = view_tf_tensors(index, shards);
  set.owners = std::move(owners);
  for (const TfShard& shard : shards) {
    if (!shard.bytes.empty()) set.mapped.push_back(shard.bytes);
  }
  return set;
}

}  // namespace exeunt
