// SPDX-License-Identifier: Apache-2.0
// A model as plain data: its backbone (ModelSpec), and where and how it exits (ExitLayout).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exeunt {

enum class Family { bert, roberta, albert, elasticbert };
enum class Activation { gelu, gelu_new, relu };  // gelu: erf form; gelu_new: tanh form
enum class PoolInput { cls, mean, max, cls_mean, cls_max, mean_max };
enum class Problem {
  classification,  // one label of several
  regression,      // one output as it is: a value, or the score of a reranker
  multi_label      // each label is given or not, by the sigmoid of its output
};
enum class LastRamp { final, ramp };  // which head answers at the last layer of an imported DeeBERT checkpoint

[[nodiscard]] std::string_view name_of(Family family) noexcept;
[[nodiscard]] std::string_view name_of(Activation activation) noexcept;
[[nodiscard]] std::string_view name_of(PoolInput input) noexcept;  // "cls", "cls+mean" …
[[nodiscard]] std::string_view name_of(Problem problem) noexcept;
[[nodiscard]] std::string_view name_of(LastRamp ramp) noexcept;

// The inverse; nothing for an unknown name.
[[nodiscard]] std::optional<Family> family_named(std::string_view name) noexcept;
[[nodiscard]] std::optional<PoolInput> pool_input_named(std::string_view name) noexcept;
[[nodiscard]] std::optional<Problem> problem_named(std::string_view name) noexcept;
[[nodiscard]] std::optional<LastRamp> last_ramp_named(std::string_view name) noexcept;
[[nodiscard]] std::span<const std::string_view> pool_input_names() noexcept;

// Largest sizes a file may have. They bound allocations and keep every cost exact in 64 bits.
inline constexpr int kMaxLayers = 512, kMaxHidden = 16384, kMaxInner = 131072, kMaxPositions = 131072;
inline constexpr int kMaxVocab = 1 << 24, kMaxSegments = 65536, kMaxOutputs = 65536;

// The backbone. `family` is the row of the table in family.h that its files follow; what it computes is described here.
struct ModelSpec {
  Family family = Family::bert;
  int layers = 0, hidden = 0, heads = 0, inner = 0, vocab = 0;
  int positions = 512;  // rows of the position table; the first usable one is position_offset
  int segments = 2;
  int embedding = 0;                  // width of the embedding tables: `hidden` unless they are projected to it
  bool embedding_projection = false;  // ALBERT
  int groups = 0;                     // ALBERT: sets of shared layer weights; 0 = every layer has its own
  int pad_id = 0;
  int position_offset = 0;     // RoBERTa: pad_id + 1
  bool layer_poolers = false;  // ElasticBERT: a pretrained pooler after every layer instead of one
  float norm_eps = 1e-12F;
  Activation activation = Activation::gelu;

  // For training only.
  float hidden_dropout = 0.1F, attention_dropout = 0.1F, classifier_dropout = 0.1F;
  bool ffn_dropout = true;  // hidden dropout also after the feed-forward half; not in ALBERT
  bool ffn_norm_decays =
      false;  // ALBERT: the scripts exempt "LayerNorm" from weight decay; this norm is named otherwise

  [[nodiscard]] int max_tokens() const noexcept { return positions - position_offset; }
  // The set of weights that layer `index` (from 0) uses.
  [[nodiscard]] int weights_of(int index) const noexcept { return groups == 0 ? index : index * groups / layers; }
};

// One exit: after which layer (from 1), through which reader, pooler and classifier. An equal index is a shared one.
struct ExitSite {
  int after = 0;
  std::optional<int> reader = {}, pooler = {};
  int classifier = 0;
};

struct ExitLayout {
  Problem problem = Problem::classification;
  int outputs = 0;                       // C
  std::vector<std::string> labels = {};  // in output order; empty for regression
  // multi_label: the logits above which labels are given, ln(t / (1 - t)) of their thresholds t; empty = 0 (t = 0.5)
  std::vector<float> cuts = {};
  std::optional<std::pair<double, double>> range = {};  // of regression labels
  PoolInput input = PoolInput::cls;
  std::vector<ExitSite> sites = {};  // ascending `after`; the last is after the last layer; empty = no heads yet
  int width = 0;                     // w, of the pooled vector
  std::optional<int> inner = {};     // fc2: width between classifier and inner classifier
  bool lte = false;                  // learning-to-exit head
  struct Ramp {
    int pooler, classifier;
  };
  std::optional<Ramp> last_ramp = {};  // DeeBERT's highway of the last layer, in addition to its final head
  LastRamp compat_last_ramp = LastRamp::final;

  [[nodiscard]] int readers() const noexcept;  // number of distinct ones (largest index + 1)
  [[nodiscard]] int poolers() const noexcept;
  [[nodiscard]] int classifiers() const noexcept;
};

}  // namespace exeunt
