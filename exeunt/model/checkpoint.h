// SPDX-License-Identifier: Apache-2.0
// A model in memory: its spec, its tensors under our names, and notices from reading it.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// What weights_sha256() computed, kept for all copies of a checkpoint.
struct WeightsHash {
  std::mutex mutex = {};
  std::string sha256 = {};
};

// The origin of a checkpoint, for messages and for finding the files next to the weights.
struct Origin {
  std::filesystem::path folder = {};                           // of the tokenizer files; empty = made in memory
  std::string where = "checkpoint";                            // prefixes error messages
  std::map<std::string, std::string, std::less<>> names = {};  // our name → the file's, if they differ
  std::string weights_sha256 = {};                             // from the manifest of an Exeunt folder; else empty
  std::optional<std::string> policy = {};                      // the exit rule in the files, as policy text
  std::vector<std::string> notices = {};                       // for the user, one line each
  std::shared_ptr<WeightsHash> hashed = std::make_shared<WeightsHash>();
};

struct OpenOptions {
  bool verify = false;  // also hash the weights of an Exeunt folder
};

class Checkpoint {
 public:
  // Opens an Exeunt folder, a Hugging Face folder, a folder of any of the five systems, a TensorFlow checkpoint, or
  // `org/name` in the local Hugging Face cache. Tensors stay in the mapped files. Throws Error.
  static Checkpoint open(const std::string& model, const OpenOptions& options = {});

  // Checks the layout's rules, and the tensors against schema(). Throws Error.
  Checkpoint(ModelSpec spec, ExitLayout exits, TensorSet tensors, Origin origin = {});

  // The same weights with another layout, of other labels or thresholds. Throws Error.
  [[nodiscard]] Checkpoint with_exits(ExitLayout exits) const { return {spec_, std::move(exits), tensors_, origin_}; }
  // The same model with other names for its labels, as many as it has. Throws Error.
  [[nodiscard]] Checkpoint with_labels(std::vector<std::string> labels) const;

  [[nodiscard]] const ModelSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const ExitLayout& exits() const noexcept { return exits_; }
  [[nodiscard]] const TensorSet& tensors() const noexcept { return tensors_; }  // names of schema() only
  [[nodiscard]] const TensorView& get(std::string_view name) const;             // our bug if absent
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return origin_.folder; }
  // The exit rule that config.json names, as policy text; else nothing.
  [[nodiscard]] const std::optional<std::string>& native_policy() const noexcept { return origin_.policy; }
  // Of model.safetensors, from the manifest; else empty. weights_sha256() in exeunt_folder.h computes it.
  [[nodiscard]] const std::string& stored_sha256() const noexcept { return origin_.weights_sha256; }
  [[nodiscard]] WeightsHash& hashed() const noexcept { return *origin_.hashed; }
  [[nodiscard]] const std::vector<std::string>& notices() const noexcept { return origin_.notices; }

 private:
  ModelSpec spec_;
  ExitLayout exits_;
  TensorSet tensors_;
  Origin origin_;
};

// The same model without its exit before the first layer.
[[nodiscard]] Checkpoint without_exit_0(const Checkpoint& model);

// Reads the tensors of TensorFlow's .index file, under PyTorch's names and with its shapes; files of the checkpoint
// must lie in `folder` unless it is empty.
using TensorFlowReader = TensorSet (*)(const std::filesystem::path& index, const std::filesystem::path& folder);

// For a model that does not answer for a whole text: what it does instead, by its architecture. Throws Error
// (bad_file).
[[noreturn]] void throw_no_head(const Checkpoint& model);

// Checkpoint::open(), which has no reader of TensorFlow's and throws Unknown for them, with one.
[[nodiscard]] Checkpoint open_checkpoint(const std::string& model, const OpenOptions& options,
                                         TensorFlowReader read_tensorflow);

}  // namespace exeunt
