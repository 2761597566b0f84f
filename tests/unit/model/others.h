// SPDX-License-Identifier: Apache-2.0
// Tiny checkpoints as other systems save them, their names written out here from the systems' own sources, so that
// our aliases have something to disagree with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/base/safetensors.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt::others {

inline constexpr int kLayers = 4, kHidden = 8, kInner = 12, kVocab = 11, kPositions = 10, kEmbedding = 4;

class Builder {
 public:
  explicit Builder(DType dtype = DType::f32, unsigned seed = 7) : random_(seed), dtype_(dtype) {}

  void tensor(const std::string& name, std::vector<int64_t> shape) {
    tiny::add_random(set_, random_, name, std::move(shape), dtype_);
  }
  void linear(const std::string& name, int64_t rows, int64_t columns) {
    tensor(name + ".weight", {rows, columns});
    tensor(name + ".bias", {rows});
  }
  void norm(const std::string& name, int64_t size, bool old_names = false) {
    tensor(name + (old_names ? ".gamma" : ".weight"), {size});
    tensor(name + (old_names ? ".beta" : ".bias"), {size});
  }

  // BERT, RoBERTa and ElasticBERT name their encoders alike.
  void bert(const std::string& prefix, int segments = 2, bool old_names = false, int layers = kLayers) {
    tensor(prefix + "embeddings.word_embeddings.weight", {kVocab, kHidden});
    tensor(prefix + "embeddings.position_embeddings.weight", {kPositions, kHidden});
    tensor(prefix + "embeddings.token_type_embeddings.weight", {segments, kHidden});
    norm(prefix + "embeddings.LayerNorm", kHidden, old_names);
    for (int i = 0; i < layers; ++i) {
      const std::string layer = prefix + "encoder.layer." + std::to_string(i) + ".";
      for (const char* part : {"query", "key", "value"}) linear(layer + "attention.self." + part, kHidden, kHidden);
      linear(layer + "attention.output.dense", kHidden, kHidden);
      norm(layer + "attention.output.LayerNorm", kHidden, old_names);
      linear(layer + "intermediate.dense", kInner, kHidden);
      linear(layer + "output.dense", kHidden, kInner);
      norm(layer + "output.LayerNorm", kHidden, old_names);
    }
  }

  void albert(const std::string& prefix) {
    tensor(prefix + "embeddings.word_embeddings.weight", {kVocab, kEmbedding});
    tensor(prefix + "embeddings.position_embeddings.weight", {kPositions, kEmbedding});
    tensor(prefix + "embeddings.token_type_embeddings.weight", {2, kEmbedding});
    norm(prefix + "embeddings.LayerNorm", kEmbedding);
    linear(prefix + "encoder.embedding_hidden_mapping_in", kHidden, kEmbedding);
    const std::string layer = prefix + "encoder.albert_layer_groups.0.albert_layers.0.";
    for (const char* part : {"query", "key", "value", "dense"}) linear(layer + "attention." + part, kHidden, kHidden);
    norm(layer + "attention.LayerNorm", kHidden);
    linear(layer + "ffn", kInner, kHidden);
    linear(layer + "ffn_output", kHidden, kInner);
    norm(layer + "full_layer_layer_norm", kHidden);
  }

  // DeeBERT's and RomeBERT's highways; `pooler` is the backbone's own.
  void highways(const std::string& prefix, const std::string& pooler, int outputs) {
    for (int i = 0; i < kLayers; ++i) {
      const std::string highway = prefix + "encoder.highway." + std::to_string(i);
      linear(highway + ".pooler.dense", kHidden, kHidden);
      linear(highway + ".classifier", outputs, kHidden);
    }
    linear(prefix + pooler, kHidden, kHidden);
    linear("classifier", outputs, kHidden);
  }

  [[nodiscard]] TensorSet& set() { return set_; }

 private:
  TensorSet set_;
  std::mt19937 random_;
  DType dtype_;
};

inline Json config(const std::string& type, Json more = Json::object()) {
  Json out{{"model_type", type},
           {"vocab_size", kVocab},
           {"hidden_size", kHidden},
           {"num_hidden_layers", kLayers},
           {"num_attention_heads", 2},
           {"intermediate_size", kInner},
           {"max_position_embeddings", kPositions},
           {"type_vocab_size", type == "roberta" ? 1 : 2}};
  if (type == "albert") out["embedding_size"] = kEmbedding;
  if (type == "modernbert") out["pad_token_id"] = 0;  // its own lies beyond so small a vocabulary
  out.update(more);
  return out;
}

inline std::vector<NamedTensor> named(const TensorSet& set) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : set.tensors) tensors.push_back({name, view});
  return tensors;
}

// A folder as save_pretrained() leaves it, with a tokenizer's file.
inline std::filesystem::path save(const Scratch& scratch, const std::string& name, const TensorSet& set,
                                  const Json& config) {
  const std::filesystem::path folder = scratch.path() / name;
  std::filesystem::create_directories(folder);
  write_safetensors(folder / "model.safetensors", named(set), {{"format", "pt"}});
  scratch.write(name + "/config.json", config.dump());
  scratch.write(name + "/vocab.txt", "[PAD]\n[UNK]\n");
  return folder;
}

}  // namespace exeunt::others
