// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/names.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/model/family.h"

namespace exeunt {
namespace {

// Some training code saves the backbone twice (core.), its teacher (slow_), or the heads of pretraining.
constexpr std::array<std::string_view, 7> kUselessStarts{"core.",        "slow_",           "cls.",       "lm_head.",
                                                         "predictions.", "sop_classifier.", "qa_outputs."};

bool starts_with_any(std::string_view name, std::span<const std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return name.starts_with(start); });
}

std::string_view prefix_of(std::string_view name) {
  const std::string_view start = name.substr(0, name.find('.'));
  const bool known = start.size() < name.size() &&
                     std::ranges::any_of(families(), [&](const FamilyRow& row) { return row.prefix == start; });
  return known ? name.substr(0, start.size() + 1) : "";
}

// The first PyTorch checkpoints used TensorFlow's names for LayerNorm's parameters.
void renew_ending(std::string& name, std::string_view old_ending, std::string_view ending) {
  if (!name.ends_with(old_ending)) return;
  name.replace(name.size() - old_ending.size(), old_ending.size(), ending);
}

std::optional<std::string> common_torch_name(std::string_view name) {
  if (name.starts_with("module.")) name.remove_prefix(7);  // saved from inside DataParallel
  if (starts_with_any(name, kUselessStarts)) return std::nullopt;
  name.remove_prefix(prefix_of(name).size());
  if (starts_with_any(name, kUselessStarts)) return std::nullopt;
  if (name.ends_with("position_ids") || name.ends_with("embeddings.token_type_ids")) return std::nullopt;
  std::string common(name);
  renew_ending(common, ".gamma", ".weight");
  renew_ending(common, ".beta", ".bias");
  return common;
}

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    parts.emplace_back(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
  }
  return parts;
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
std::string albert_name(const std::vector<std::string>& parts, const std::string& joined) {
  const std::string head = parts[0] + "." + parts[1] + "." + parts[2] + "." + parts[3] + ".";
  return fmt::format("encoder.albert_layer_groups.{}.albert_layers.{}.{}", parts[2].substr(6), parts[3].substr(12),
                     albert_part(joined.substr(head.size())));
}

std::optional<std::string> common_tensorflow_name(std::string_view path) {
  if (path.starts_with("module/")) path.remove_prefix(7);  // TF-Hub
  if (path.starts_with("cls/")) return std::nullopt;
  if (path == "output_weights") return "classifier.weight";
  if (path == "output_bias") return "classifier.bias";
  for (const std::string_view prefix : {"bert/", "albert/"}) {
    if (path.starts_with(prefix)) path.remove_prefix(prefix.size());
  }
  const std::vector<std::string> parts = parts_of(path);
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

}  // namespace

std::optional<std::string> common_name(std::string_view name, NameStyle style) {
  return style == NameStyle::torch ? common_torch_name(name) : common_tensorflow_name(name);
}

const SourceTensor* SourceTensors::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

SourceTensors normalise_names(const TensorSet& set, NameStyle style, std::string_view where) {
  SourceTensors out;
  for (const auto& [name, view] : set.tensors) {
    const auto common = common_name(name, style);
    if (!common) continue;
    // TensorFlow multiplies from the left: its kernels are [in, out].
    const bool kernel = style == NameStyle::tensorflow && name.ends_with("/kernel") && view.shape.size() == 2;
    const auto [place, added] = out.tensors.try_emplace(*common, SourceTensor{name, kernel ? transposed(view) : view});
    if (!added) throw_bad_file(where, "tensors '{}' and '{}' are the same tensor", place->second.name, name);
    if (style == NameStyle::torch && out.prefix.empty()) {
      const std::string_view inner = name.starts_with("module.") ? std::string_view(name).substr(7) : name;
      out.prefix = prefix_of(inner);
    }
  }
  if (!out.prefix.empty()) out.family = family_named(std::string_view(out.prefix).substr(0, out.prefix.size() - 1));
  const auto told = find_family(
      [&](const FamilyRow& row) { return !row.telling_tensor.empty() && out.find(row.telling_tensor) != nullptr; });
  if (told) out.family = told;
  const bool google = style == NameStyle::tensorflow && !out.tensors.empty();
  if (google && !out.family) out.family = families().front().spec.family;
  return out;
}

}  // namespace exeunt
