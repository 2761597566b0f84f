// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/base/unknown.h"
#include "exeunt/model/locate.h"
#include "exeunt/model/torch_file.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

std::optional<WeightsKind> kind_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.ends_with(".safetensors.index.json")) return WeightsKind::safetensors_index;
  if (name.ends_with(".safetensors")) return WeightsKind::safetensors;
  if (name.ends_with(".bin.index.json")) return WeightsKind::torch_index;
  if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth")) return WeightsKind::torch;
  if (name.ends_with(".index")) return WeightsKind::tensorflow;
  return std::nullopt;
}

// TF-Hub keeps the checkpoint in variables/, and everything else beside that.
fs::path folder_of(const fs::path& weights) {
  const fs::path parent = weights.has_parent_path() ? weights.parent_path() : fs::path(".");
  if (parent.filename() == "variables") return parent.has_parent_path() ? parent.parent_path() : fs::path(".");
  return parent;
}

// Google's folders hold one checkpoint, called model.ckpt-best, bert_model.ckpt and the like.
std::optional<fs::path> find_tensorflow(const fs::path& folder) {
  if (path_exists(folder / "variables" / "variables.index")) return folder / "variables" / "variables.index";
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".index") && name.find(".ckpt") != std::string::npos) found.push_back(entry.path());
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found.front();
  std::sort(found.begin(), found.end());
  throw Error(Code::bad_file, fmt::format("{}: got {} TensorFlow checkpoints, want one", folder.string(), found.size()),
              fmt::format("name the one you mean, for example {}", found.back().string()));
}

// Why a folder without a readable file may still look like a model.
std::string other_format_hint(const fs::path& folder) {
  std::error_code ignored;
  if (path_exists(folder / "adapter_config.json"))
    return "a LoRA adapter without its model: merge them first (peft: merge_and_unload(), then save_pretrained())";
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    for (const std::string_view other : {".h5", ".msgpack", ".onnx", ".gguf", ".ot"}) {
      if (name.ends_with(other)) {
        return fmt::format("'{}' cannot be read: save the model with transformers' save_pretrained first", name);
      }
    }
    if (name.starts_with("checkpoint-") && entry.is_directory(ignored)) {
      return fmt::format("did you mean {}?", entry.path().string());
    }
  }
  return {};
}

// A clone without Git LFS has small text files in the place of large ones.
void refuse_pointer(const ReadPath& path) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (!MappedFile::open(path)->text().starts_with(kPointer)) return;
  throw_bad_file(path.string(), Hint{"fetch the file itself: git lfs pull, or 'hf download' of the model"},
                 "got a Git LFS pointer, want weights");
}

TensorSet read_real_safetensors(const ReadPath& path) {
  refuse_pointer(path);
  return read_safetensors(path);
}

TensorSet read_real_torch(const ReadPath& path) {
  refuse_pointer(path);
  return read_torch(path);
}

// Every tensor comes from the shard the index names, and must be there.
TensorSet read_shards(const ReadPath& index, TensorSet (*read)(const ReadPath&)) {
  const Json value = read_json(index);
  JsonObject fields(value, index.string());
  const Json& map = fields.get("weight_map");
  if (!map.is_object()) fields.fail("weight_map", glimpse(map), "an object");
  std::map<std::string, std::vector<std::string>> by_shard;
  for (const auto& [tensor, shard] : map.items()) {
    const bool plain = shard.is_string() && shard.get_ref<const std::string&>().find('/') == std::string::npos &&
                       !shard.get_ref<const std::string&>().empty();
    if (!plain) fields.fail("weight_map", fmt::format("{}: {}", tensor, glimpse(shard)), "names of files beside it");
    by_shard[shard.get<std::string>()].push_back(tensor);
  }
  TensorSet all;
  for (const auto& [shard, tensors] : by_shard) {
    const ReadPath path = ReadPath::in(index.path().parent_path(), shard);
    TensorSet part = read(path);
    for (const std::string& tensor : tensors) {
      const TensorView* view = part.find(tensor);
      if (view == nullptr)
        throw_bad_file(path.string(), "tensor '{}' is missing, but the index places it here", tensor);
      all.tensors[tensor] = *view;
    }
    all.owners.insert(all.owners.end(), part.owners.begin(), part.owners.end());
    all.mapped.insert(all.mapped.end(), part.mapped.begin(), part.mapped.end());
  }
  return all;
}

}  // namespace

WeightsFile find_weights(const fs::path& model) {
  if (std::error_code ignored; fs::is_regular_file(model, ignored)) {
    const auto kind = kind_of(model);
    if (!kind) {
      throw Error(Code::bad_file,
                  fmt::format("{}: is no weight file by its name: want .safetensors, .bin, .pt, .index or an "
                              "index.json of shards",
                              model.string()),
                  "MODEL is a folder with weights in it; texts are named with --data");
    }
    return {*kind, model, folder_of(model), true};
  }
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (path_exists(model / name)) return {*kind_of(name), model / name, model};
  }
  if (const auto index = find_tensorflow(model)) return {WeightsKind::tensorflow, *index, folder_of(*index)};
  throw Error(Code::bad_file,
              fmt::format("{}: got no weights, want model.safetensors, pytorch_model.bin, shards of either with their "
                          "index.json, or a TensorFlow checkpoint (*.ckpt*.index)",
                          model.string()),
              other_format_hint(model));
}

TensorSet read_weights(const WeightsFile& file, TensorFlowReader read_tensorflow) {
  const ReadPath path =
      file.named ? ReadPath(file.path) : ReadPath::in(file.folder, file.path.lexically_relative(file.folder));
  switch (file.kind) {
    case WeightsKind::safetensors:
      return read_real_safetensors(path);
    case WeightsKind::safetensors_index:
      return read_shards(path, read_real_safetensors);
    case WeightsKind::torch:
      return read_real_torch(path);
    case WeightsKind::torch_index:
      return read_shards(path, read_real_torch);
    case WeightsKind::tensorflow:
      if (read_tensorflow != nullptr) return read_tensorflow(file.path, file.named ? fs::path() : file.folder);
      throw Unknown(Code::bad_file, fmt::format("{}: got a TensorFlow checkpoint", file.path.string()),
                    "convert it first: exeunt convert MODEL --out DIR, with exeunt-lab installed");
  }
  return {};
}

}  // namespace exeunt
