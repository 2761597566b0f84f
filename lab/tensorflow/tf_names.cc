// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tf_names.h"

#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "lab/tensorflow/tf_bundle.h"

namespace exeunt {
namespace {

// The first PyTorch checkpoints used TensorFlow's names for LayerNorm's parameters.
void renew_ending(std::string& name, std::string_view old_ending, std::string_view ending) {
  if (!name.ends_with(old_ending)) return;
  name.replace(name.size() - old_ending.size(), old_ending.size(), ending);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Inside ALBERT's group: "attention_1/self/query" and the like, joined by dots.
std::string albert_part(std::string part) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {"ffn_1.intermediate.output.dense.", "ffn_output."},
      {"ffn_1.intermediate.dense.", "ffn."},
      {"attention_1.self.", "attention."},
      {"attention_1.output.dense.", "attention.dense."},
      {"LayerNorm_1.", "full_layer_layer_norm."},
      {"LayerNorm.", "attention.LayerNorm."}};
  for (const auto& [from, to] : kRules) {
    if (part.starts_with(from)) return std::string(to) + part.substr(from.size());
  }
  return part;
}

// "encoder/transformer/group_0/inner_group_0/…" → "encoder.albert_layer_groups.0.albert_layers.0.…".
std::string albert_name(const std::vector<std::string_view>& parts, const std::string& joined) {
  const size_t head = parts[0].size() + parts[1].size() + parts[2].size() + parts[3].size() + 4;  // with their dots
  return fmt::format("encoder.albert_layer_groups.{}.albert_layers.{}.{}", parts[2].substr(6), parts[3].substr(12),
                     albert_part(joined.substr(head)));
}

}  // namespace

std::optional<std::string> torch_name(std::string_view path) {
  if (path.starts_with("module/")) path.remove_prefix(7);  // TF-Hub
  if (path.starts_with("cls/")) return std::nullopt;
  if (path == "output_weights") return "classifier.weight";
  if (path == "output_bias") return "classifier.bias";
  for (const std::string_view prefix : {"bert/", "albert/"}) {
    if (path.starts_with(prefix)) path.remove_prefix(prefix.size());
  }
  const std::vector<std::string_view> parts = split(path, '/');
  std::string joined = fmt::format("{}", fmt::join(parts, "."));
  const bool grouped = parts.size() > 4 && parts[0] == "encoder" && parts[1] == "transformer" &&
                       parts[2].starts_with("group_") && parts[3].starts_with("inner_group_");
  if (grouped) joined = albert_name(parts, joined);
  replace_all(joined, ".layer_", ".layer.");
  renew_ending(joined, ".kernel", ".weight");
  renew_ending(joined, ".gamma", ".weight");
  renew_ending(joined, ".beta", ".bias");
  if (joined.ends_with("_embeddings")) joined += ".weight";
  return joined;
}

TensorSet with_torch_names(TensorSet set, std::string_view where) {
  std::map<std::string, TensorView, std::less<>> tensors;
  for (const auto& [name, view] : set.tensors) {
    const auto common = torch_name(name);
    if (!common) continue;
    const bool kernel = name.ends_with("/kernel") && view.shape.size() == 2;
    const bool head = common->starts_with("classifier.");
    const bool added = tensors.emplace((head ? "" : "bert.") + *common, kernel ? transposed(view) : view).second;
    if (!added) throw_bad_file(where, "two tensors are '{}': '{}' and one before it", *common, name);
  }
  set.tensors = std::move(tensors);
  return set;
}

TensorSet read_tf_model(const std::filesystem::path& index, const std::filesystem::path& folder) {
  return with_torch_names(read_tf_checkpoint(index, folder), index.string());
}

}  // namespace exeunt
