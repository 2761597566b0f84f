// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/model/family.h"
#include "exeunt/model/import.h"

namespace exeunt {
namespace {

class Deriver {
 public:
  Deriver(const ModelConfig& config, const SourceTensors& source, std::string_view where)
      : config_(config), spec_(config.spec), source_(source), where_(where) {}

  DerivedExits derive() {
    exits_.width = spec_.hidden;
    if (has("encoder.highway.0.classifier.weight")) {
      highways();
    } else if (has("classifiers.0.weight")) {
      classifier_list();
    } else if (has_elbert_head()) {
      elbert();
    } else if (has_named_head() || has("classifier.weight")) {
      one_head();
    }
    if (exits_.sites.empty()) return {ExitLayout{}, std::move(notices_)};
    name_outputs();
    return {std::move(exits_), std::move(notices_)};
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

  // A head per layer; the last exit is the backbone's pooler and the classifier. DeeBERT and RomeBERT also save a
  // highway of the last layer that was never trained.
  void highways() {
    for (int i = 0; i < spec_.layers; ++i) exits_.sites.push_back({.after = i + 1, .pooler = i, .classifier = i});
    if (has(fmt::format("encoder.highway.{}.classifier.weight", spec_.layers - 1))) {
      exits_.last_ramp = ExitLayout::Ramp{spec_.layers, spec_.layers};
    }
    exits_.lte = has("encoder.lte_classifier.weight");
    exits_.outputs = rows_of("classifier.weight");
  }

  // PABEE: one classifier per layer behind the shared pooler. ElasticBERT: at the last n layers, each layer's pooler.
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

  // RoBERTa's two linear maps, "classifier.dense" and "classifier.out_proj", in place of pooler and "classifier".
  [[nodiscard]] bool has_named_head() const {
    const std::string_view classifier = row_of(spec_.family).head_classifier;
    return !classifier.empty() && has(std::string(classifier) + ".weight");
  }

  [[nodiscard]] bool has_elbert_head() const {
    for (const std::string_view layer : {"encoder.exit_out_layer.", "encoder.exit_out_layers.0."}) {
      for (const std::string_view part : {"classifier.weight", "classifier1.weight"}) {
        if (has(std::string(layer) + std::string(part))) return true;
      }
    }
    return false;
  }

  // ELBERT: one head for all layers, or one for each of K groups of L / K layers.
  void elbert() {
    const ElbertFields fields = config_.heads.elbert.value_or(ElbertFields{});
    const bool single =
        has("encoder.exit_out_layer.classifier.weight") || has("encoder.exit_out_layer.classifier1.weight");
    const bool inner =
        has("encoder.exit_out_layer.classifier1.weight") || has("encoder.exit_out_layers.0.classifier1.weight");
    const int heads =
        single ? 1 : count("encoder.exit_out_layers.", inner ? ".classifier1.weight" : ".classifier.weight");
    if (config_.heads.elbert && fields.heads != heads) {
      throw_bad_file(where_, "got {} exit layers, want {} as num_exit_layers says", heads, fields.heads);
    }
    if (spec_.layers % heads != 0) {
      throw_bad_file(where_, "got {} exit layers, want a divisor of the {} layers", heads, spec_.layers);
    }
    const std::string head = single ? "encoder.exit_out_layer." : "encoder.exit_out_layers.0.";
    const bool own_pooler = config_.heads.elbert ? !fields.shared_pooler : has(head + "pooler.weight");
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

  // One head at the last layer: *ForSequenceClassification, or ElasticBERT's static use.
  void one_head() {
    const FamilyRow& row = row_of(spec_.family);
    const std::string pooler(row.head_pooler), classifier(has_named_head() ? row.head_classifier : "classifier");
    const bool pooled = has_named_head() ? has(pooler + ".weight")
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
    exits_.sites = {site};
    exits_.outputs = rows_of(classifier + ".weight");
  }

  void name_outputs() {
    const std::string& type = config_.heads.problem_type;
    if (type == "multi_label_classification") {
      throw Error(Code::bad_file,
                  fmt::format("{}: field 'problem_type': got '{}', want regression or "
                              "single_label_classification",
                              where_, type),
                  "several labels at once are not supported");
    }
    if (exits_.outputs == 1) {
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
  ExitLayout exits_;
  std::vector<std::string> notices_;
};

}  // namespace

DerivedExits derive_exits(const ModelConfig& config, const SourceTensors& source, std::string_view where) {
  return Deriver(config, source, where).derive();
}

}  // namespace exeunt
