// SPDX-License-Identifier: Apache-2.0
// A model in memory: what it is, its tensors under our names, and what was noticed while reading it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/tensor.h"
#include "exeunt/model/spec.h"

namespace exeunt {

class Checkpoint {
 public:
  // Opens our own folder, a Hugging Face folder, a folder of any of the five systems, a TensorFlow checkpoint, or
  // `org/name` in the local Hugging Face cache. Tensors stay in the mapped files. Throws Error.
  static Checkpoint open(const std::string& model);

  Checkpoint(ModelSpec spec, ExitLayout exits, TensorSet tensors);  // checks the tensors against schema()

  [[nodiscard]] const ModelSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const ExitLayout& exits() const noexcept { return exits_; }
  [[nodiscard]] const TensorSet& tensors() const noexcept { return tensors_; }  // names of schema() only
  [[nodiscard]] const TensorView& get(std::string_view name) const;             // our bug if absent
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  [[nodiscard]] const std::filesystem::path& folder() const noexcept {
    return folder_;
  }  // where the tokenizer files lie
  [[nodiscard]] const std::vector<std::string>& notices() const noexcept { return notices_; }

 private:
  ModelSpec spec_;
  ExitLayout exits_;
  TensorSet tensors_;
  std::filesystem::path folder_;
  std::vector<std::string> notices_;
};

}  // namespace exeunt
