// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/checkpoint.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/model/layout.h"
#include "exeunt/model/schema.h"

namespace exeunt {
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
  if (view->dtype != DType::f32 && view->dtype != DType::f16 && view->dtype != DType::bf16) {
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
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [name, view] : tensors.tensors) {
    if (std::binary_search(sorted.begin(), sorted.end(), name)) continue;
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
  return {spec_, std::move(exits), tensors_, origin_};
}

const TensorView& Checkpoint::get(std::string_view name) const {
  const TensorView* found = tensors_.find(name);
  check(found != nullptr, fmt::format("the schema has no tensor '{}'", name));
  return *found;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  return tensors_.find(name);
}

}  // namespace exeunt
