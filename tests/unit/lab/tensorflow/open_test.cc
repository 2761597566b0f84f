// SPDX-License-Identifier: Apache-2.0
// Checkpoints of TensorFlow, opened as a whole.
#include <cstdlib>

#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/exeunt_folder.h"
#include "lab/tensorflow/crc32c.h"
#include "lab/tensorflow/tf_names.h"
#include "tests/unit/lab/tensorflow/tf_builder.h"
#include "tests/unit/model/others.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

Checkpoint open_any(const std::string& model) {
  return open_checkpoint(model, {}, read_tf_model);
}

// The tensors under Google's names, as one shard and its index.
void save_tensorflow(const Scratch& scratch, const std::string& name, const TensorSet& set) {
  std::string data;
  tf::Pairs entries{{"", tf::header()}};
  for (const auto& [tensor, view] : set.tensors) {
    std::vector<uint64_t> shape(view.shape.begin(), view.shape.end());
    entries.emplace_back(
        tensor,
        tf::entry(
            {.shape = shape, .offset = data.size(), .size = view.bytes.size(), .crc = masked_crc32c(view.bytes)}));
    data.append(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
  }
  scratch.write(name + ".index", tf::table({.blocks = {tf::block(entries)}}));
  scratch.write(name + ".data-00000-of-00001", data);
}

// Google's ALBERT by the names its own code gives, with an optimiser's slots and pretraining heads.
others::Builder google_albert() {
  others::Builder b;
  const int64_t d = others::kHidden, e = others::kEmbedding, f = others::kInner;
  const auto dense = [&](const std::string& name, int64_t in, int64_t out) {
    b.tensor(name + "/kernel", {in, out});
    b.tensor(name + "/bias", {out});
  };
  const auto norm = [&](const std::string& name, int64_t size) {
    b.tensor(name + "/gamma", {size});
    b.tensor(name + "/beta", {size});
  };
  b.tensor("bert/embeddings/word_embeddings", {others::kVocab, e});
  b.tensor("bert/embeddings/position_embeddings", {others::kPositions, e});
  b.tensor("bert/embeddings/token_type_embeddings", {2, e});
  norm("bert/embeddings/LayerNorm", e);
  dense("bert/encoder/embedding_hidden_mapping_in", e, d);
  const std::string group = "bert/encoder/transformer/group_0/inner_group_0/";
  for (const char* part : {"query", "key", "value"}) dense(group + "attention_1/self/" + part, d, d);
  dense(group + "attention_1/output/dense", d, d);
  norm(group + "LayerNorm", d);
  dense(group + "ffn_1/intermediate/dense", d, f);
  dense(group + "ffn_1/intermediate/output/dense", f, d);
  norm(group + "LayerNorm_1", d);
  dense("bert/pooler/dense", d, d);
  dense("cls/predictions/transform/dense", d, e);
  b.tensor("bert/pooler/dense/kernel/adam_m", {d, d});
  b.tensor("global_step", {});
  return b;
}

TEST(OpenTensorFlow, ReadsGooglesAlbertFromAnyOfItsNames) {
  const Scratch scratch;
  fs::create_directories(scratch.path() / "albert");
  others::Builder b = google_albert();
  save_tensorflow(scratch, "albert/model.ckpt-best", b.set());
  Json config = others::config("albert");
  config.erase("model_type");
  scratch.write("albert/albert_config.json", config.dump());
  scratch.write("albert/30k-clean.model", "spm");
  const std::string folder = scratch.path() / "albert";
  for (const std::string& name : {folder, folder + "/model.ckpt-best", folder + "/model.ckpt-best.index"}) {
    const Checkpoint checkpoint = open_any(name);
    EXPECT_EQ(checkpoint.spec().family, Family::albert);
    EXPECT_TRUE(checkpoint.notices().empty());
    const TensorView& kernel =
        *b.set().find("bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel");
    EXPECT_EQ(to_floats(checkpoint.get("group.0.ffn1.weight")), to_floats(transposed(kernel)));
    EXPECT_EQ(to_floats(checkpoint.get("pooler.bias")), to_floats(*b.set().find("bert/pooler/dense/bias")));
  }
  // Transposed views are written out row by row, so that the copy is an ordinary file.
  (void)write_exeunt_folder(open_any(folder), scratch.path() / "own");
  EXPECT_EQ(to_floats(Checkpoint::open(scratch.path() / "own").get("group.0.query.weight")),
            to_floats(open_any(folder).get("group.0.query.weight")));
  EXPECT_EQ(read_text(scratch.path() / "own" / "30k-clean.model"), "spm");
}

TEST(OpenTensorFlow, ReadsTfHubsFolder) {
  const Scratch scratch;
  fs::create_directories(scratch.path() / "variables");
  fs::create_directories(scratch.path() / "assets");
  others::Builder b = google_albert();
  save_tensorflow(scratch, "variables/variables", b.set());
  scratch.write("assets/albert_config.json", others::config("albert").dump());
  scratch.write("assets/30k-clean.model", "spm");
  const Checkpoint checkpoint = open_any(scratch.path());
  EXPECT_EQ(checkpoint.folder(), scratch.path());
  (void)write_exeunt_folder(checkpoint, scratch.path() / "own");
  EXPECT_EQ(read_text(scratch.path() / "own" / "30k-clean.model"), "spm");
}

}  // namespace
}  // namespace exeunt
