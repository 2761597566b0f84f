// SPDX-License-Identifier: Apache-2.0
// A model as plain data: its backbone (ModelSpec), and where and how it exits (ExitLayout).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exeunt/outputs/output_spec.h"

namespace exeunt {

enum class Family {
  bert,
  roberta,
  albert,
  elasticbert,
  distilbert,
  electra,
  xlm_roberta,
  camembert,
  modernbert,
  deberta_v2
};
enum class Activation { gelu, gelu_new, relu };  // gelu: erf form; gelu_new: tanh form
enum class PoolerActivation { tanh, relu, gelu };
enum class PoolInput { cls, mean, max, cls_mean, cls_max, mean_max };

[[nodiscard]] std::string_view name_of(Family family) noexcept;
[[nodiscard]] std::optional<Family> family_named(std::string_view name) noexcept;  // nothing for an unknown name

// Names in files, in the order of the enumerations (see fields.h).
constexpr std::array<std::string_view, 3> names_of(Activation) noexcept {
  return {"gelu", "gelu_new", "relu"};
}
constexpr std::array<std::string_view, 3> names_of(PoolerActivation) noexcept {
  return {"tanh", "relu", "gelu"};
}
constexpr std::array<std::string_view, 6> names_of(PoolInput) noexcept {
  return {"cls", "mean", "max", "cls+mean", "cls+max", "mean+max"};
}

// Largest sizes a file may have. They bound allocations and keep every cost exact in 64 bits.
inline constexpr int kMaxLayers = 512, kMaxHidden = 16384, kMaxInner = 131072, kMaxPositions = 131072;
inline constexpr int kMaxVocab = 1 << 24, kMaxSegments = 65536, kMaxOutputs = 65536;

// The backbone. `family` is the row of the table in family.h that its files follow; what it computes is described here.
struct ModelSpec {
  Family family = Family::bert;
  int layers = 0, hidden = 0, heads = 0, inner = 0, vocab = 0;
  int positions = 512;                // rows of the position table; the first usable one is position_offset
  bool position_table = true;         // learned positions are added to the embeddings; else `positions` is a mere limit
  int segments = 2;                   // 0: no token types
  int embedding = 0;                  // width of the embedding tables: `hidden` unless they are projected to it
  bool embedding_projection = false;  // ALBERT, ELECTRA
  int groups = 0;                     // ALBERT: sets of shared layer weights; 0 = every layer has its own
  int pad_id = 0;
  int position_offset = 0;     // RoBERTa: pad_id + 1
  bool layer_poolers = false;  // a pretrained pooler after every layer instead of one
  float norm_eps = 1e-12F;
  Activation activation = Activation::gelu;
  bool biases = true, norm_biases = true;  // of the layers' matrices, and of all norms; in neither of ModernBERT's
  // ModernBERT: norms before attention (but in the first layer) and before the feed-forward half instead of after them,
  // and a final one, through which every exit reads the rows of its layer.
  bool pre_norm = false;
  bool gated = false;           // ModernBERT: ffn2(act(ffn1 a) · gate a)
  float rotary_base = 0;        // ModernBERT: queries and keys are turned by their positions; 0: they are not
  float local_rotary_base = 0;  // the same in layers with a window
  int window = 0;               // ModernBERT: tokens to either side that a local layer attends to; 0: no such layer
  int global_every = 1;         // every so-manyth layer, from the first on, attends to all tokens
  int relative_buckets = 0;     // DeBERTa: buckets of distances to either side; 0: no relative positions
  int relative_distance = 0;    // from here on all distances are in the last bucket

  // For training only.
  float hidden_dropout = 0.1F, attention_dropout = 0.1F, classifier_dropout = 0.1F;
  bool ffn_dropout = true;  // hidden dropout also after the feed-forward half; not in ALBERT
  bool ffn_norm_decays =
      false;  // ALBERT: the scripts exempt "LayerNorm" from weight decay; this norm is named otherwise

  [[nodiscard]] int max_tokens() const noexcept { return positions - position_offset; }
  [[nodiscard]] int head_width() const noexcept { return hidden / heads; }
  // Whether layer `index` (from 0) attends only to tokens within the window.
  [[nodiscard]] bool is_local(int index) const noexcept { return window > 0 && index % global_every != 0; }
  // The norm before layer `index`'s attention or after it.
  [[nodiscard]] bool has_attention_norm(int index) const noexcept { return !pre_norm || index > 0; }
  // BERT's layer, which some engines are made for: norms after each half, absolute positions, biases.
  [[nodiscard]] bool has_plain_layers() const noexcept {
    return biases && norm_biases && !pre_norm && !gated && rotary_base == 0 && window == 0 && relative_buckets == 0;
  }
  // The set of weights that layer `index` (from 0) uses.
  [[nodiscard]] int weights_of(int index) const noexcept { return groups == 0 ? index : index * groups / layers; }
};

// One exit: after which layer (from 1), through which reader, pooler and classifier. An equal index is a shared one.
// The exit before the first layer, exit 0 (`after` 0), has none of the three but ExitLayout::ngrams.
struct ExitSite {
  int after = 0;
  std::optional<int> reader = {}, pooler = {};
  int classifier = 0;  // kNoClassifier for exit 0
};
inline constexpr int kNoClassifier = -1;

// The sizes of exit 0, which answers from hashed n-grams of the tokens (engine/ngram_exit.h).
struct NgramShape {
  int bits = 0;             // 2^bits rows of the table
  int rank = 0;             // their width: the outputs, or fewer, which a matrix then maps to the outputs
  int64_t piece_bytes = 0;  // of all tokens, as text

  bool operator==(const NgramShape&) const = default;
};
inline constexpr int kMaxNgramBits = 24, kMaxNgramRank = 256;
inline constexpr int64_t kMaxPieceBytes = 1 << 28;

// A pooler without a reader, as the family's own head has it: v = norm(activation(W x + b)). One behind a reader is
// always tanh(W x + b).
struct PoolerShape {
  PoolerActivation activation = PoolerActivation::tanh;
  bool bias = true;
  bool norm = false;

  bool operator==(const PoolerShape&) const = default;
};

struct ExitLayout : OutputSpec {
  int outputs = 0;  // C
  PoolInput input = PoolInput::cls;
  std::vector<ExitSite> sites = {};  // ascending `after`; the last is after the last layer; empty = no heads yet
  int width = 0;                     // w, of the pooled vector
  PoolerShape pooler = {};
  std::optional<int> inner = {};          // fc2: width between classifier and inner classifier
  bool lte = false;                       // learning-to-exit head
  std::optional<NgramShape> ngrams = {};  // of the exit before the first layer; none without that exit
  struct Ramp {
    int pooler, classifier;
  };
  std::optional<Ramp> last_ramp = {};  // a ramp of the last layer, in addition to its final head
  LastHead compat_last_ramp = LastHead::final;

  [[nodiscard]] int readers() const noexcept;  // number of distinct ones (largest index + 1)
  [[nodiscard]] int poolers() const noexcept;
  [[nodiscard]] int classifiers() const noexcept;
};

// The rules of every exit layout, whether read from exits.json, derived from names, or made for training. Throws Error
// (bad_file) on the first broken one; `where` (a file name) prefixes the message.
void check_layout(const ModelSpec& spec, const ExitLayout& exits, std::string_view where);

// True if pooler `pooler` reads [h_0 ; r]: the first row and a reader's output.
[[nodiscard]] bool pooler_has_reader(const ExitLayout& exits, int pooler) noexcept;

}  // namespace exeunt
