// SPDX-License-Identifier: Apache-2.0
// A multi-exit encoder that can be trained: the same formulas as the runtime's reference forward, on padded batches.
// Parameters carry the names of schema(), so a network and a checkpoint are two forms of one thing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/train/torch.h"

namespace exeunt::nn {

using torch::Tensor;

// Texts side by side, padded to the longest of them.
struct TextBatch {
  Tensor ids;    // [rows, tokens] int64
  Tensor types;  // [rows, tokens] int64
  Tensor real;   // [rows, tokens] bool: no padding
};

struct ExitOutputs {
  std::vector<Tensor> logits;  // one per exit of the layout, [rows, outputs] fp32; undefined where it was not asked for
  std::vector<Tensor> lte;     // [rows], of the learning-to-exit head; empty without one
  Tensor stacked = {};         // [exits, rows, outputs], where all exits were computed together; else undefined
  Tensor ramp;                 // [rows, outputs], the ramp of the last layer; undefined without one
  std::vector<Tensor> pooled = {};  // [rows, width], what each exit's classifier reads; empty unless asked for
};

struct ForwardOptions {
  bool equilibrium = false;  // gradients at every layer become the mean over the exits above it
  // Alike exits are computed together, if the loss reads all of them: each then has a gradient.
  bool together = false;
  std::optional<int> only = {};  // one exit (by its place in the layout) alone; layers above it do not run
  bool pooled = false;           // fill ExitOutputs::pooled; not with together
  // Only the exits before the last learn: everything else runs as it does when it answers, without dropout. Its
  // parameters want no gradient, so none goes back through the layers.
  bool frozen = false;
};

[[nodiscard]] Tensor activated(Activation activation, const Tensor& values);

// LayerNorm, whose bias a model may lack.
class NormImpl : public torch::nn::Module {
 public:
  NormImpl(const ModelSpec& spec, int64_t size);
  [[nodiscard]] Tensor forward(const Tensor& rows) const;

 private:
  double epsilon_;
  Tensor weight_, bias_;
};
TORCH_MODULE(Norm);

// What a batch has in common over all layers of one kind, local or global.
struct LayerContext {
  Tensor mask;                      // [rows, 1, 1 or tokens, tokens], added to the scores
  Tensor cosines = {}, sines = {};  // rotary positions, [tokens, head width]; undefined: none
  Tensor distances = {};            // DeBERTa: the normed table, [2 · buckets, hidden]; undefined: none
  Tensor distance_rows = {};        // [tokens, tokens] int64: which row of it a query and a key have
};

// Word, position and segment tables, norm, and ALBERT's projection to the hidden size.
class EmbeddingsImpl : public torch::nn::Module {
 public:
  explicit EmbeddingsImpl(const ModelSpec& spec);
  [[nodiscard]] Tensor forward(const TextBatch& batch);

 private:
  int64_t position_offset_;
  double dropout_;
  torch::nn::Embedding word_{nullptr}, position_{nullptr}, segment_{nullptr};
  Norm norm_{nullptr};
  torch::nn::Linear project_{nullptr};
};
TORCH_MODULE(Embeddings);

// a = norm(h + output(attend(query h, key h, value h))), then norm(a + ffn2(act(ffn1 a))); or with norms before.
class LayerImpl : public torch::nn::Module {
 public:
  LayerImpl(const ModelSpec& spec, int index);  // from 0
  // `rows` [rows, tokens, hidden].
  [[nodiscard]] Tensor forward(const Tensor& rows, const LayerContext& context);

 private:
  [[nodiscard]] Tensor attended(const Tensor& rows, const LayerContext& context);
  [[nodiscard]] Tensor fed_forward(const Tensor& rows);
  [[nodiscard]] Tensor distance_scores(const Tensor& query, const Tensor& key, const LayerContext& context);

  ModelSpec spec_;
  torch::nn::Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, output_{nullptr}, ffn1_{nullptr}, ffn2_{nullptr},
      gate_{nullptr};
  Norm attention_norm_{nullptr}, ffn_norm_{nullptr};
};
TORCH_MODULE(Layer);

// Readers, poolers, classifiers and the learning-to-exit head of all exits.
class HeadsImpl : public torch::nn::Module {
 public:
  HeadsImpl(const ModelSpec& spec, const ExitLayout& layout);

  struct Output {
    Tensor logits, lte;  // lte is undefined without a learning-to-exit head
    Tensor pooled = {};  // what the classifier read; of one exit alone
  };
  // What the exit's pooler or classifier reads of `rows` [rows, tokens, hidden] of its layer.
  [[nodiscard]] Tensor input_of(const ExitSite& site, const Tensor& rows, const Tensor& real) const;
  [[nodiscard]] Output forward(const ExitSite& site, const Tensor& input);
  // Several exits at once, from their inputs; logits [exits, rows, outputs], lte [exits, rows]. All must be alike.
  [[nodiscard]] bool alike() const noexcept { return alike_; }
  [[nodiscard]] Output forward_all(const std::vector<ExitSite>& sites, const std::vector<Tensor>& inputs);

 private:
  ExitLayout layout_;
  double dropout_;
  bool alike_ = false;  // every exit has a pooler and a classifier of the same shapes
  std::vector<Tensor> readers_;
  std::vector<torch::nn::Linear> poolers_, classifiers_, inner_;
  std::vector<Norm> pooler_norms_;  // one per pooler, null where it has none
  torch::nn::Linear lte_{nullptr};
};
TORCH_MODULE(Heads);

class NetworkImpl : public torch::nn::Module {
 public:
  NetworkImpl(ModelSpec spec, ExitLayout layout);

  [[nodiscard]] ExitOutputs forward(const TextBatch& batch, const ForwardOptions& options = {});
  // Runs the first `layers` layers and calls `read` with the number of each (0 = the embeddings) and its rows, [rows,
  // tokens, hidden].
  using ReadRows = std::function<void(int, const Tensor&)>;
  void run_layers(const TextBatch& batch, int layers, bool equilibrium, const ReadRows& read);
  [[nodiscard]] Heads& heads() noexcept { return heads_; }

  [[nodiscard]] const ModelSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const ExitLayout& layout() const noexcept { return layout_; }

 private:
  [[nodiscard]] Layer& layer(int index);
  struct Contexts {
    LayerContext everywhere, local;
  };
  void make_tables(const torch::Device& device);
  [[nodiscard]] Contexts contexts_of(const TextBatch& batch);
  // Rows as exits read them: through the final norm, if there is one.
  [[nodiscard]] Tensor as_read(const Tensor& rows) { return final_norm_ ? final_norm_(rows) : rows; }
  [[nodiscard]] std::vector<Tensor> exit_inputs(const TextBatch& batch, const ForwardOptions& options);

  ModelSpec spec_;
  ExitLayout layout_;
  Embeddings embeddings_{nullptr};
  // DeBERTa's table of distances; a module, so that its norm and its weight carry the schema's names.
  std::shared_ptr<torch::nn::Module> relative_ = {};
  Tensor distances_ = {};
  Norm distance_norm_{nullptr};
  std::vector<Layer> layers_;
  Norm final_norm_{nullptr};
  Heads heads_{nullptr};
  // Of all positions that the model has, made when a device first needs them: a recorded step copies nothing from the
  // host. Cosines and sines as in LayerContext; distance_rows by distance, [2 · positions − 1].
  Contexts tables_ = {};
};
TORCH_MODULE(Network);

// Fills parameters from a checkpoint. Those the checkpoint does not have are left as they are and returned by name.
std::vector<std::string> load_parameters(NetworkImpl& network, const Checkpoint& checkpoint);

// The network's parameters as a checkpoint of fp32 tensors that owns its bytes.
[[nodiscard]] Checkpoint to_checkpoint(const NetworkImpl& network, Origin origin = {});

}  // namespace exeunt::nn
