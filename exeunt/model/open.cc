// SPDX-License-Identifier: Apache-2.0
// Checkpoint::open(): from a model's name to a checkpoint.
#include <optional>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/config.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/family.h"
#include "exeunt/model/import.h"
#include "exeunt/model/locate.h"
#include "exeunt/model/manifest.h"
#include "exeunt/model/weights.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

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

// The configuration beside the weights, and the family that its file name tells.
std::pair<ReadPath, std::optional<Family>> find_config(const fs::path& folder) {
  if (path_exists(folder / kConfigFile)) return {ReadPath::in(folder, kConfigFile), std::nullopt};
  for (const fs::path place : {"", "assets"}) {
    const auto told = find_family([&](const FamilyRow& row) {
      return !row.config_file.empty() && path_exists(folder / place / row.config_file);
    });
    if (told) return {ReadPath::in(folder, place / row_of(*told).config_file), told};
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
  ImportSource source{.tensors = with_hint(kDamaged, [&] { return read_weights(weights, read_tensorflow); }),
                      .style = style_of(weights.kind)};
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

}  // namespace exeunt
