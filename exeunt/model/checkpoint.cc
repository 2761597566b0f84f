// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/checkpoint.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/base/suggest.h"
#include "exeunt/model/config.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/family.h"
#include "exeunt/model/import.h"
#include "exeunt/model/locate.h"
#include "exeunt/model/manifest.h"
#include "exeunt/model/schema.h"
#include "exeunt/model/torch_file.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// "tensor 'bert.embeddings.LayerNorm.gamma' (embeddings.norm.weight)", or our name alone where the file uses it.
std::string tensor_text(const Origin& origin, const std::string& name) {
  const auto theirs = origin.names.find(name);
  if (theirs == origin.names.end()) return fmt::format("tensor '{}'", name);
  return fmt::format("tensor '{}' ({})", theirs->second, name);
}

std::string_view size_name(int64_t hidden) {
  constexpr std::pair<int64_t, std::string_view> kSizes[] = {{128, "tiny"},   {384, "small"},   {768, "base"},
                                                             {1024, "large"}, {2048, "xlarge"}, {4096, "xxlarge"}};
  for (const auto& [size, name] : kSizes) {
    if (size == hidden) return name;
  }
  return {};
}

// The usual reason for a mismatch: weights and configuration are of different sizes.
std::string misfit_hint(const ModelSpec& spec, const TensorSet& tensors) {
  const TensorView* query = tensors.find(layer_prefix(spec, 0) + ".query.weight");
  if (query == nullptr || query->shape.size() != 2 || query->shape[1] == spec.hidden) return {};
  const std::string_view got = size_name(query->shape[1]), want = size_name(spec.hidden);
  if (!got.empty() && !want.empty()) return fmt::format("looks like a {}-size file in a {}-size folder", got, want);
  return fmt::format("the weights have hidden size {}, the configuration says {}", query->shape[1], spec.hidden);
}

std::string missing_hint(const ModelSpec& spec, const TensorSet& tensors, const std::string& name) {
  int found = 0;
  while (found < spec.layers && tensors.find(fmt::format("{}.query.weight", layer_prefix(spec, found))) != nullptr) {
    ++found;
  }
  if (found < spec.layers && spec.groups == 0 && name.starts_with("layer.")) {
    return fmt::format("the weights have {} layers, the configuration says {}", found, spec.layers);
  }
  return misfit_hint(spec, tensors);
}

void check_tensor(const ModelSpec& spec, const TensorSet& tensors, const TensorInfo& info, const Origin& origin) {
  const TensorView* view = tensors.find(info.name);
  if (view == nullptr) {
    if (!info.required) return;
    throw Error(Code::bad_file, fmt::format("{}: {} is missing", origin.where, tensor_text(origin, info.name)),
                missing_hint(spec, tensors, info.name));
  }
  if (view->shape != info.shape) {
    throw Error(Code::bad_file,
                fmt::format("{}: {}: got shape {}, want {}", origin.where, tensor_text(origin, info.name),
                            shape_text(view->shape), shape_text(info.shape)),
                misfit_hint(spec, tensors));
  }
  if (info.dtype && view->dtype != *info.dtype) {
    throw_bad_file(origin.where, "{}: got {}, want {}", tensor_text(origin, info.name), name_of(view->dtype),
                   name_of(*info.dtype));
  }
  if (!info.dtype && view->dtype != DType::f32 && view->dtype != DType::f16 && view->dtype != DType::bf16) {
    throw_bad_file(origin.where, "{}: got {}, want F32, F16 or BF16", tensor_text(origin, info.name),
                   name_of(view->dtype));
  }
}

// An optional part is complete or absent.
void check_partner(const TensorSet& tensors, const TensorInfo& info, const Origin& origin) {
  if (info.required || tensors.find(info.name) == nullptr) return;
  const size_t dot = info.name.rfind('.');
  const std::string partner = info.name.substr(0, dot) + (info.name.ends_with(".bias") ? ".weight" : ".bias");
  if (tensors.find(partner) == nullptr) {
    throw_bad_file(origin.where, "{} is there, but its partner '{}' is missing", tensor_text(origin, info.name),
                   partner);
  }
}

void check_tensors(const ModelSpec& spec, const ExitLayout& exits, const TensorSet& tensors, const Origin& origin) {
  const std::vector<TensorInfo> wanted = schema(spec, exits);
  std::vector<std::string> known;
  for (const TensorInfo& info : wanted) {
    check_tensor(spec, tensors, info, origin);
    check_partner(tensors, info, origin);
    known.push_back(info.name);
  }
  std::vector<std::string> sorted = known;
  std::ranges::sort(sorted);
  for (const auto& [name, view] : tensors.tensors) {
    if (std::ranges::binary_search(sorted, name)) continue;
    const std::string near = nearest(name, known);
    throw Error(Code::bad_file, fmt::format("{}: {} is not part of the model", origin.where, tensor_text(origin, name)),
                near.empty() ? "" : fmt::format("did you mean '{}'?", near));
  }
}

}  // namespace

Checkpoint::Checkpoint(ModelSpec spec, ExitLayout exits, TensorSet tensors, Origin origin)
    : spec_(spec), exits_(std::move(exits)), tensors_(std::move(tensors)), origin_(std::move(origin)) {
  check_layout(spec_, exits_, origin_.where);
  check_tensors(spec_, exits_, tensors_, origin_);
}

Checkpoint Checkpoint::with_labels(std::vector<std::string> labels) const {
  ExitLayout exits = exits_;
  exits.labels = std::move(labels);
  return with_exits(std::move(exits));
}

Checkpoint without_exit_0(const Checkpoint& model) {
  ExitLayout exits = model.exits();
  exits.ngrams.reset();
  exits.sites.erase(exits.sites.begin());
  TensorSet tensors = model.tensors();
  std::erase_if(tensors.tensors, [](const auto& one) { return one.first.starts_with("exits.ngrams."); });
  Origin origin;
  origin.folder = model.folder();
  return {model.spec(), std::move(exits), std::move(tensors), std::move(origin)};
}

const TensorView& Checkpoint::get(std::string_view name) const {
  const TensorView* found = tensors_.find(name);
  check(found != nullptr, fmt::format("the schema has no tensor '{}'", name));
  return *found;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  return tensors_.find(name);
}

// Opening: from a model's name to its weight files, their tensors and a checkpoint.
namespace {

enum class WeightsKind { safetensors, safetensors_index, torch, torch_index, tensorflow };

struct WeightsFile {
  WeightsKind kind = WeightsKind::safetensors;
  std::filesystem::path path = {};    // the file, the index of its shards, or TensorFlow's .index
  std::filesystem::path folder = {};  // of the configuration and the tokenizer
  bool named = false;                 // the file itself, by its user: it may lie anywhere
};

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
  std::ranges::sort(found);
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

TensorSet read_file(const ReadPath& path, bool torch) {
  refuse_pointer(path);
  return torch ? read_torch(path) : read_safetensors(path);
}

// Every tensor comes from the shard the index names, and must be there.
TensorSet read_shards(const ReadPath& index, bool torch) {
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
    TensorSet part = read_file(path, torch);
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

// `model` is a folder or one of its weight files. safetensors are preferred to PyTorch's files and these to
// TensorFlow's. Throws Error listing what was looked for.
WeightsFile find_weights(const fs::path& model) {
  if (std::error_code ignored; fs::is_regular_file(model, ignored)) {
    const auto kind = kind_of(model);
    if (!kind) {
      throw Error(Code::bad_file,
                  fmt::format("{}: is no weight file by its name: want .safetensors, .bin, .pt, .index or an "
                              "index.json of shards",
                              model.string()),
                  "the first argument is MODEL, a folder with weights in it");
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

// Maps the files; the tensors of all shards are one set. Throws Unknown for TensorFlow's without a reader for them.
TensorSet read_weights(const WeightsFile& file, TensorFlowReader read_tensorflow) {
  const ReadPath path =
      file.named ? ReadPath(file.path) : ReadPath::in(file.folder, file.path.lexically_relative(file.folder));
  if (file.kind == WeightsKind::tensorflow) {
    if (read_tensorflow != nullptr) return read_tensorflow(file.path, file.named ? fs::path() : file.folder);
    throw Unknown(Code::bad_file, fmt::format("{}: got a TensorFlow checkpoint", file.path.string()),
                  "convert it first: exeunt convert MODEL --out DIR, with exeunt-lab installed");
  }
  const bool torch = file.kind == WeightsKind::torch || file.kind == WeightsKind::torch_index;
  const bool sharded = file.kind == WeightsKind::safetensors_index || file.kind == WeightsKind::torch_index;
  return sharded ? read_shards(path, torch) : read_file(path, torch);
}

constexpr std::string_view kDamaged = "the file is damaged or truncated: copy, download or save it again";
constexpr std::string_view kMisfit = "weights and config.json must be of the same model: check where each came from";

Checkpoint open_exeunt_folder(const fs::path& folder, const OpenOptions& options) {
  const std::string manifest_where = (folder / kManifestFile).string();
  const Manifest manifest = parse_manifest(read_json(ReadPath::in(folder, kManifestFile)), manifest_where);
  for (const char* needed : {kConfigFile, kWeightsFile}) {  // exits.json may be changing: write_thresholds()
    if (!manifest.contains(needed)) throw_bad_file(manifest_where, "does not list '{}'", needed);
  }
  verify_manifest(manifest, folder, options.verify ? Verify::full : Verify::quick);
  const ReadPath config = ReadPath::in(folder, kConfigFile), exits = ReadPath::in(folder, kExitsFile),
                 weights = ReadPath::in(folder, kWeightsFile);
  const ModelSpec spec = parse_config(read_json(config), config.string()).spec;
  ExitLayout layout = parse_exits(read_json(exits), spec, exits.string());
  TensorSet tensors = with_hint(kDamaged, [&] { return read_safetensors(weights); });
  const auto format = tensors.metadata.find("format");
  if (format == tensors.metadata.end() || format->second != kWeightsFormat) {
    throw_bad_file(weights.string(), "got format '{}', want '{}'",
                   format == tensors.metadata.end() ? "" : format->second, kWeightsFormat);
  }
  Origin origin{.folder = folder, .where = weights.string(), .weights_sha256 = manifest.at(kWeightsFile).sha256};
  return with_hint(kMisfit, [&] { return Checkpoint(spec, std::move(layout), std::move(tensors), std::move(origin)); });
}

// The configuration beside the weights, and the family that its file name means.
std::pair<ReadPath, std::optional<Family>> find_config(const fs::path& folder) {
  if (path_exists(folder / kConfigFile)) return {ReadPath::in(folder, kConfigFile), std::nullopt};
  for (const fs::path place : {"", "assets"}) {
    const auto named = find_family([&](const FamilyRow& row) {
      return !row.config_file.empty() && path_exists(folder / place / row.config_file);
    });
    if (named) return {ReadPath::in(folder, place / row_of(*named).config_file), named};
  }
  throw Error(Code::bad_file, fmt::format("{}: got no config.json", folder.string()),
              "put the model's config.json (or Google's bert_config.json, albert_config.json) beside the weights");
}

// Some folders have an exit_config.json, which is empty or repeats config.json.
void notice_exit_config(const fs::path& folder, Origin& origin) {
  const ReadPath path = ReadPath::in(folder, "exit_config.json");
  if (!path_exists(path.path())) return;
  const std::string content = read_text(path, kMaxJsonFile);
  const bool blank = content.find_first_not_of(" \t\r\n") == std::string::npos;
  if (blank || parse_json(content, path.string()).empty())
    origin.notices.push_back("exit_config.json is empty: exit settings are taken from config.json");
}

Checkpoint open_other(const WeightsFile& weights, TensorFlowReader read_tensorflow) {
  ImportSource source{.tensors = with_hint(kDamaged, [&] { return read_weights(weights, read_tensorflow); })};
  const auto format = source.tensors.metadata.find("format");
  if (format != source.tensors.metadata.end() && format->second == kWeightsFormat) {
    throw Error(Code::bad_file,
                fmt::format("{}: got our own weights without {}", weights.folder.string(), kManifestFile),
                "the folder is incomplete: copy or make it again");
  }
  const auto [config, guess] = find_config(weights.folder);
  source.config = read_json(config);
  source.config_where = config.string();
  source.guess = guess;
  const ReadPath exits = ReadPath::in(weights.folder, kExitsFile);
  if (path_exists(exits.path())) source.exits = read_json(exits);
  source.exits_where = exits.string();
  source.origin = {.folder = weights.folder, .where = weights.path.string()};
  notice_exit_config(weights.folder, source.origin);
  return with_hint(kMisfit, [&] { return import_checkpoint(std::move(source)); });
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& model, const OpenOptions& options) {
  return open_checkpoint(model, options, nullptr);
}

Checkpoint open_checkpoint(const std::string& model, const OpenOptions& options, TensorFlowReader read_tensorflow) {
  const fs::path path = locate_model(model);
  const fs::path folder = path.filename() == kWeightsFile ? path.parent_path() : path;
  if (path_exists(folder / kManifestFile) && path_exists(folder / kExitsFile))
    return open_exeunt_folder(folder, options);
  return open_other(find_weights(path), read_tensorflow);
}

void throw_no_head(const Checkpoint& model) {
  const std::string where = model.folder().empty() ? "" : model.folder().string() + ": ";
  const std::string hint =
      "want a classifier or regressor of whole texts; to train one: exeunt train --model MODEL --data FILE";
  std::string task = other_task_in(model.folder());
  if (task.empty()) task = "the model has no head: it is an encoder without a classifier";
  throw Error(Code::bad_file, where + task, hint);
}

}  // namespace exeunt
