// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/import.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/model/config.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/family.h"
#include "exeunt/model/schema.h"

namespace exeunt {
namespace {

// The first name under which the source holds a tensor: ours (an exported folder's exits.*), then the aliases.
const std::string* name_in(const SourceTensors& source, const TensorInfo& info) {
  if (source.find(info.name) != nullptr) return &info.name;
  for (const std::string& alias : info.aliases) {
    if (source.find(alias) != nullptr) return &alias;
  }
  return nullptr;
}

// What a missing tensor would be called in this file: the alias of the system whose heads the file has.
std::string expected_name(const SourceTensors& source, const TensorInfo& info) {
  const std::string* best = &info.aliases.back();
  for (const std::string& alias : info.aliases) {
    const std::string stem = alias.substr(0, alias.find_first_of("0123456789"));
    const auto near = source.tensors.lower_bound(stem);
    if (near == source.tensors.end() || !near->first.starts_with(stem)) continue;
    best = &alias;
    break;
  }
  return (best->starts_with("classifier") ? "" : source.prefix) + *best;
}

// Layers the file has beyond those the configuration asks for.
int extra_layers(const SourceTensors& source, const ModelSpec& spec) {
  if (spec.groups != 0) return 0;
  int layers = spec.layers;
  const LayerNames& names = row_of(spec.family).layer;
  while (source.find(names.of(layers, names.ffn2) + ".weight") != nullptr) ++layers;
  return layers - spec.layers;
}

// "encoder.layer.7.…" or "encoder.pooler.7.…" with 7 at or behind the configuration's number of layers.
bool is_truncated(std::string_view name, const ModelSpec& spec) {
  if (spec.groups != 0) return false;
  for (const std::string_view start : {row_of(spec.family).layer.before, std::string_view("encoder.pooler.")}) {
    if (!name.starts_with(start)) continue;
    int index = 0;
    const std::string_view rest = name.substr(start.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    return error == std::errc() && index >= spec.layers;
  }
  return false;
}

// The last exit of an exported folder stands there twice: as exits.* and under transformers' names. So does
// ElasticBERT's last pooler.
bool is_copy(std::string_view name, bool has_exits, bool layer_poolers) {
  if (layer_poolers && name.starts_with("pooler.dense.")) return true;
  return has_exits && (name.starts_with("pooler.") || name.starts_with("classifier."));
}

void notice_leftovers(const SourceTensors& source, const ModelSpec& spec, const std::set<std::string_view>& taken,
                      Origin& origin) {
  const int extra = extra_layers(source, spec);
  if (extra > 0) {
    origin.notices.push_back(
        fmt::format("kept the first {} of {} layers, as the configuration says", spec.layers, spec.layers + extra));
  }
  const bool has_exits = source.find("exits.classifier.0.weight") != nullptr;
  std::vector<std::string_view> left;
  for (const auto& [name, tensor] : source.tensors) {
    if (taken.contains(name) || is_truncated(name, spec) || is_copy(name, has_exits, spec.layer_poolers)) continue;
    left.push_back(tensor.name);
  }
  if (left.empty()) return;
  const size_t shown = std::min<size_t>(left.size(), 3);
  origin.notices.push_back(fmt::format("{} tensor{} of the file {} no part of this model and {} left out: {}{}",
                                       left.size(), left.size() == 1 ? "" : "s", left.size() == 1 ? "is" : "are",
                                       left.size() == 1 ? "is" : "are",
                                       fmt::join(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                                       left.size() > shown ? ", …" : ""));
}

// ELBERT's rule goes along as a policy; one that no policy text can say is mentioned.
void take_policy(const ModelConfig& config, const ExitLayout& exits, Origin& origin) {
  if (!config.heads.elbert || config.heads.elbert->rule.empty() || exits.sites.empty()) return;
  origin.policy = elbert_policy(*config.heads.elbert, exits.outputs);
  if (!origin.policy) {
    origin.notices.push_back(fmt::format("the exit rule '{}' of config.json is not complete or not known: left out",
                                         config.heads.elbert->rule));
  }
}

}  // namespace

Checkpoint import_checkpoint(ImportSource source) {
  Origin origin = std::move(source.origin);
  const SourceTensors names = normalise_names(source.tensors, source.style, origin.where);
  const ModelConfig config =
      parse_config(source.config, source.config_where, names.family ? names.family : source.guess);
  origin.notices.insert(origin.notices.end(), config.notices.begin(), config.notices.end());

  ExitLayout exits;
  if (source.exits) {
    exits = parse_exits(*source.exits, config.spec, source.exits_where);
  } else {
    DerivedExits derived = derive_exits(config, names, origin.where);
    exits = std::move(derived.exits);
    origin.notices.insert(origin.notices.end(), derived.notices.begin(), derived.notices.end());
    take_policy(config, exits, origin);
  }

  TensorSet ours{.tensors = {},
                 .metadata = {},
                 .owners = std::move(source.tensors.owners),
                 .mapped = std::move(source.tensors.mapped)};
  std::set<std::string_view> taken;
  for (const TensorInfo& info : schema(config.spec, exits)) {
    const std::string* name = name_in(names, info);
    if (name == nullptr) {
      if (!info.aliases.empty()) origin.names[info.name] = expected_name(names, info);
      continue;
    }
    const auto found = names.tensors.find(*name);
    taken.insert(found->first);
    ours.tensors[info.name] = found->second.view;
    if (found->second.name != info.name) origin.names[info.name] = found->second.name;
  }
  notice_leftovers(names, config.spec, taken, origin);
  return Checkpoint(config.spec, std::move(exits), std::move(ours), std::move(origin));
}

}  // namespace exeunt
