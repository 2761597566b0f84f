// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/import.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/model/config.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/family.h"
#include "exeunt/model/schema.h"

namespace exeunt {
namespace {

// Some training code saves the backbone twice (core.), its teacher (slow_), or the heads of pretraining.
constexpr std::array<std::string_view, 7> kUselessStarts{"core.",        "slow_",           "cls.",       "lm_head.",
                                                         "predictions.", "sop_classifier.", "qa_outputs."};

bool starts_with_any(std::string_view name, std::span<const std::string_view> starts) {
  return std::ranges::any_of(starts, [&](std::string_view start) { return name.starts_with(start); });
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

}  // namespace

std::optional<std::string> common_name(std::string_view name) {
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

const SourceTensor* SourceTensors::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

SourceTensors normalise_names(const TensorSet& set, std::string_view where) {
  SourceTensors out;
  for (const auto& [name, view] : set.tensors) {
    const auto common = common_name(name);
    if (!common) continue;
    const auto [place, added] = out.tensors.try_emplace(*common, SourceTensor{name, view});
    if (!added) throw_bad_file(where, "tensors '{}' and '{}' are the same tensor", place->second.name, name);
    if (out.prefix.empty()) {
      const std::string_view inner = name.starts_with("module.") ? std::string_view(name).substr(7) : name;
      out.prefix = prefix_of(inner);
    }
  }
  if (!out.prefix.empty()) out.family = family_named(std::string_view(out.prefix).substr(0, out.prefix.size() - 1));
  const auto detected = find_family(
      [&](const FamilyRow& row) { return !row.telling_tensor.empty() && out.find(row.telling_tensor) != nullptr; });
  if (detected) out.family = detected;
  return out;
}

namespace {

constexpr std::string_view kMultiLabel = "multi_label_classification";  // as transformers has it

// The exits of a checkpoint without exits.json, derived from the names of its heads: highways, a
// list of classifiers, exit layers of groups of layers, transformers' one head, or none. Throws Error
// if the heads are incomplete.
class Deriver {
 public:
  Deriver(const ModelConfig& config, const SourceTensors& source, Origin& origin)
      : config_(config), spec_(config.spec), source_(source), where_(origin.where), notices_(origin.notices) {}

  ExitLayout derive() {
    exits_.width = spec_.hidden;
    if (has("encoder.highway.0.classifier.weight")) {
      highways();
    } else if (has("classifiers.0.weight")) {
      classifier_list();
    } else if (has_exit_layers()) {
      exit_layers();
    } else if (has_named_head() || has("classifier.weight")) {
      one_head();
    }
    if (exits_.sites.empty()) return {};
    name_outputs();
    return std::move(exits_);
  }

 private:
  [[nodiscard]] bool has(std::string_view name) const { return source_.find(name) != nullptr; }

  // How many of "<start>0<end>", "<start>1<end>", … there are, without a gap.
  [[nodiscard]] int count(std::string_view start, std::string_view end) const {
    int n = 0;
    while (n <= kMaxLayers && has(fmt::format("{}{}{}", start, n, end))) ++n;
    return n;
  }

  // Rows of a classifier are the model's outputs, whatever the configuration says.
  [[nodiscard]] int rows_of(const std::string& name) const {
    const SourceTensor* tensor = source_.find(name);
    if (tensor == nullptr) throw_bad_file(where_, "tensor '{}' is missing", source_.prefix + name);
    const auto& shape = tensor->view.shape;
    if (shape.size() != 2 || shape[0] < 1 || shape[0] > kMaxOutputs) {
      throw_bad_file(where_, "tensor '{}': got shape {}, want [1 to {} outputs, width]", tensor->name,
                     shape_text(shape), kMaxOutputs);
    }
    return static_cast<int>(shape[0]);
  }

  // A head per layer; the last exit is the backbone's pooler and the classifier. Some also save a
  // highway of the last layer that was never trained.
  void highways() {
    for (int i = 0; i < spec_.layers; ++i) exits_.sites.push_back({.after = i + 1, .pooler = i, .classifier = i});
    if (has(fmt::format("encoder.highway.{}.classifier.weight", spec_.layers - 1))) {
      exits_.last_ramp = ExitLayout::Ramp{spec_.layers, spec_.layers};
    }
    exits_.lte = has("encoder.lte_classifier.weight");
    exits_.outputs = rows_of("classifier.weight");
  }

  // One classifier per layer behind the shared pooler, or, at the last n layers, behind each layer's pooler.
  void classifier_list() {
    const int n = count("classifiers.", ".weight");
    exits_.outputs = rows_of("classifiers.0.weight");
    if (spec_.layer_poolers) {
      const int wanted = config_.heads.output_layers.value_or(n);
      if (n != wanted || n > spec_.layers) {
        throw_bad_file(where_, "got {} classifiers, want {}: num_output_layers of {} layers", n, wanted, spec_.layers);
      }
    } else if (n != spec_.layers) {
      throw_bad_file(where_, "got {} classifiers, want one for each of {} layers", n, spec_.layers);
    }
    for (int i = 0; i < n; ++i) {
      ExitSite site{.after = spec_.layers - n + 1 + i, .classifier = i};
      if (!spec_.layer_poolers || has_layer_poolers()) site.pooler = spec_.layer_poolers ? i : 0;
      exits_.sites.push_back(site);
    }
  }

  [[nodiscard]] bool has_layer_poolers() const {
    return has(fmt::format("encoder.pooler.{}.dense.weight", spec_.layers - 1));
  }

  // RoBERTa's "classifier.dense" and "classifier.out_proj", DistilBERT's "pre_classifier" and "classifier" …
  [[nodiscard]] bool has_named_head() const {
    const HeadNames& names = row_of(spec_.family).head;
    if (!names.classifier.empty()) return has(std::string(names.classifier) + ".weight");
    return !names.pooler.empty() && has(std::string(names.pooler) + ".weight") && has("classifier.weight");
  }

  [[nodiscard]] bool has_exit_layers() const {
    for (const std::string_view layer : {"encoder.exit_out_layer.", "encoder.exit_out_layers.0."}) {
      for (const std::string_view part : {"classifier.weight", "classifier1.weight"}) {
        if (has(std::string(layer) + std::string(part))) return true;
      }
    }
    return false;
  }

  // One head for all layers, or one for each of K groups of L / K layers.
  void exit_layers() {
    const ExitLayerFields fields = config_.heads.exit_layers.value_or(ExitLayerFields{});
    const bool single =
        has("encoder.exit_out_layer.classifier.weight") || has("encoder.exit_out_layer.classifier1.weight");
    const bool inner =
        has("encoder.exit_out_layer.classifier1.weight") || has("encoder.exit_out_layers.0.classifier1.weight");
    const int heads =
        single ? 1 : count("encoder.exit_out_layers.", inner ? ".classifier1.weight" : ".classifier.weight");
    if (config_.heads.exit_layers && fields.heads != heads) {
      throw_bad_file(where_, "got {} exit layers, want {} as num_exit_layers says", heads, fields.heads);
    }
    if (spec_.layers % heads != 0) {
      throw_bad_file(where_, "got {} exit layers, want a divisor of the {} layers", heads, spec_.layers);
    }
    const std::string head = single ? "encoder.exit_out_layer." : "encoder.exit_out_layers.0.";
    const bool own_pooler = config_.heads.exit_layers ? !fields.shared_pooler : has(head + "pooler.weight");
    if (own_pooler) exits_.width = rows_of(head + "pooler.weight");
    if (inner) {
      exits_.inner = rows_of(head + "classifier1.weight");
      exits_.outputs = rows_of(head + "classifier2.weight");
    } else {
      exits_.outputs = rows_of(head + "classifier.weight");
    }
    exits_.input = fields.input;
    for (int i = 0; i < spec_.layers; ++i) {
      const int group = i / (spec_.layers / heads);
      exits_.sites.push_back({.after = i + 1, .pooler = own_pooler ? group : 0, .classifier = group});
    }
  }

  // One head at the last layer: *ForSequenceClassification and the like.
  void one_head() {
    const HeadNames& names = row_of(spec_.family).head;
    const bool named = has_named_head();
    const std::string classifier(named && !names.classifier.empty() ? names.classifier : "classifier");
    const bool pooled = named ? has(std::string(names.pooler) + ".weight")
                              : has("pooler.dense.weight") || has("pooler.weight") || has_layer_poolers();
    const std::string& architecture = config_.heads.architecture;
    const bool other_task = architecture.ends_with("ForTokenClassification") ||
                            architecture.ends_with("ForMultipleChoice") ||
                            architecture.ends_with("ForQuestionAnswering");
    if (other_task || (!pooled && !spec_.layer_poolers)) {
      notices_.push_back("the classifier is not one over whole texts: read as an encoder without heads");
      return;
    }
    ExitSite site{.after = spec_.layers};
    if (pooled) site.pooler = 0;
    if (named) exits_.pooler = config_.heads.pooler;
    exits_.input = config_.heads.input;
    exits_.sites = {site};
    exits_.outputs = rows_of(classifier + ".weight");
  }

  void name_outputs() {
    const std::string& type = config_.heads.problem_type;
    if (!type.empty() && type != "regression" && type != "single_label_classification" && type != kMultiLabel) {
      throw_bad_file(where_, "field 'problem_type': got '{}', want regression, single_label_classification or {}", type,
                     kMultiLabel);
    }
    if (type == kMultiLabel) exits_.problem = Problem::multi_label;
    if (exits_.outputs == 1 && type != kMultiLabel) {
      exits_.problem = Problem::regression;
      return;
    }
    if (type == "regression") {
      throw_bad_file(where_, "got a regression with {} outputs, want 1", exits_.outputs);
    }
    exits_.labels = config_.heads.labels;
    const std::set<std::string> distinct(exits_.labels.begin(), exits_.labels.end());
    const auto outputs = static_cast<size_t>(exits_.outputs);
    if (exits_.labels.size() == outputs && distinct.size() == outputs && !distinct.contains("")) return;
    if (!exits_.labels.empty()) {
      notices_.push_back(
          fmt::format("the configuration names {} distinct labels, the weights have {} outputs: "
                      "labels are called LABEL_0, LABEL_1, …",
                      distinct.size(), outputs));
    }
    exits_.labels.clear();
    for (size_t i = 0; i < outputs; ++i) exits_.labels.push_back(fmt::format("LABEL_{}", i));
  }

  const ModelConfig& config_;
  const ModelSpec& spec_;
  const SourceTensors& source_;
  std::string_view where_;
  std::vector<std::string>& notices_;
  ExitLayout exits_ = {};
};

// Whether a tensor belongs to the head that transformers keeps beside the backbone, without its prefix.
bool is_head_name(const FamilyRow& row, std::string_view name) {
  const auto within = [&](std::string_view part) { return !part.empty() && name.starts_with(part); };
  return name.starts_with("classifier") || within(row.head.pooler) || within(row.head.norm);
}

// The rows of a tensor that is a part of a larger one there: ModernBERT's query, key and value.
TensorView part_of(const SourceTensor& source, const TensorInfo& info, std::string_view where) {
  if (info.of_rows == 0) return source.view;
  std::vector<int64_t> whole = info.shape;
  whole.front() = info.of_rows;
  if (source.view.shape != whole) {
    throw_bad_file(where, "tensor '{}': got shape {}, want {}", source.name, shape_text(source.view.shape),
                   shape_text(whole));
  }
  return row_slice(source.view, info.first_row, info.shape.front());
}

// The first name under which the source holds a tensor: ours (an exported folder's exits.*), then the aliases.
const std::string* name_in(const SourceTensors& source, const TensorInfo& info) {
  if (source.find(info.name) != nullptr) return &info.name;
  for (const std::string& alias : info.aliases) {
    if (source.find(alias) != nullptr) return &alias;
  }
  return nullptr;
}

// The name of a missing tensor in this file: the alias of the system whose heads the file has.
std::string expected_name(const SourceTensors& source, const FamilyRow& row, const TensorInfo& info) {
  const std::string* best = &info.aliases.back();
  for (const std::string& alias : info.aliases) {
    const std::string stem = alias.substr(0, alias.find_first_of("0123456789"));
    const auto near = source.tensors.lower_bound(stem);
    if (near == source.tensors.end() || !near->first.starts_with(stem)) continue;
    best = &alias;
    break;
  }
  return (is_head_name(row, *best) ? "" : source.prefix) + *best;
}

// Number of layers in the file beyond those of the configuration.
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
    const std::string_view rest = name.substr(start.size());
    return number_of<int>(rest.substr(0, rest.find('.'))).value_or(-1) >= spec.layers;
  }
  return false;
}

// An exported folder has its last exit twice: as exits.* and under transformers' names. The same goes for a layer's
// last pooler.
bool is_copy(std::string_view name, bool has_exits, const ModelSpec& spec) {
  if (spec.layer_poolers && name.starts_with("pooler.dense.")) return true;
  return has_exits && (name.starts_with("pooler.") || is_head_name(row_of(spec.family), name));
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
    if (taken.contains(name) || is_truncated(name, spec) || is_copy(name, has_exits, spec)) continue;
    left.push_back(tensor.name);
  }
  if (left.empty()) return;
  const size_t shown = std::min<size_t>(left.size(), 3);
  origin.notices.push_back(fmt::format("{} tensor{} of the file {} not part of this model and {} ignored: {}{}",
                                       left.size(), left.size() == 1 ? "" : "s", left.size() == 1 ? "is" : "are",
                                       left.size() == 1 ? "is" : "are",
                                       fmt::join(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                                       left.size() > shown ? ", …" : ""));
}

// The exit rule of config.json becomes a policy; an incomplete rule or one out of range gets a notice.
void take_policy(const ModelConfig& config, const ExitLayout& exits, Origin& origin) {
  if (!config.heads.exit_layers || !config.heads.exit_layers->rule || exits.sites.empty()) return;
  const ConfigRule& rule = *config.heads.exit_layers->rule;
  try {
    origin.policy = config_policy(rule, exits.outputs);
  } catch (const Error& error) {
    origin.notices.push_back(
        fmt::format("the exit rule '{}' of config.json is left out: {}", rule.thres_name, error.what()));
  }
}

}  // namespace

Checkpoint import_checkpoint(ImportSource source) {
  Origin origin = std::move(source.origin);
  const SourceTensors names = normalise_names(source.tensors, origin.where);
  const ModelConfig config = with_hint("docs/families.md says which encoders can be read", [&] {
    return parse_config(source.config, source.config_where, names.family ? names.family : source.guess);
  });

  ExitLayout exits;
  if (source.exits) {
    exits = parse_exits(*source.exits, config.spec, source.exits_where);
  } else {
    exits = Deriver(config, names, origin).derive();
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
      if (!info.aliases.empty()) origin.names[info.name] = expected_name(names, row_of(config.spec.family), info);
      continue;
    }
    const auto found = names.tensors.find(*name);
    taken.insert(found->first);
    ours.tensors[info.name] = part_of(found->second, info, origin.where);
    if (found->second.name != info.name) origin.names[info.name] = found->second.name;
  }
  notice_leftovers(names, config.spec, taken, origin);
  return Checkpoint(config.spec, std::move(exits), std::move(ours), std::move(origin));
}

}  // namespace exeunt
