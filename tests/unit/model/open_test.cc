// SPDX-License-Identifier: Apache-2.0
// From what the user types to a checkpoint: every kind of folder, and what is said about folders that are none.
#include <cstdlib>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/torch_file.h"
#include "tests/unit/model/others.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

others::Builder bare_bert() {
  others::Builder b;
  b.bert("");
  return b;
}

Error open_refusal(const fs::path& model) {
  const Error error = error_of([&] { (void)Checkpoint::open(model); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error;
}

TEST(Open, ReadsAFolderAndAFileInIt) {
  const Scratch scratch;
  others::Builder b = bare_bert();
  const fs::path folder = others::save(scratch, "m", b.set(), others::config("bert"));
  EXPECT_EQ(Checkpoint::open(folder).spec().layers, 4);
  EXPECT_EQ(Checkpoint::open(folder / "model.safetensors").folder(), folder);
  EXPECT_EQ(Checkpoint::open(folder.string() + "/").spec().layers, 4);
}

TEST(Open, ReadsShardsByIndex) {
  const Scratch scratch;
  others::Builder b = bare_bert();
  const fs::path folder = others::save(scratch, "m", b.set(), others::config("bert"));
  std::vector<NamedTensor> first, second;
  Json index{{"metadata", {{"total_size", 1}}}, {"weight_map", Json::object()}};
  for (const NamedTensor& tensor : others::named(b.set())) {
    const bool even = first.size() <= second.size();
    (even ? first : second).push_back(tensor);
    index["weight_map"][tensor.name] = even ? "model-1.safetensors" : "model-2.safetensors";
  }
  fs::remove(folder / "model.safetensors");
  write_safetensors(folder / "model-1.safetensors", first);
  write_safetensors(folder / "model-2.safetensors", second);
  scratch.write("m/model.safetensors.index.json", index.dump());
  const Checkpoint checkpoint = Checkpoint::open(folder);
  EXPECT_EQ(to_floats(checkpoint.get("layer.1.ffn1.weight")),
            to_floats(*b.set().find("encoder.layer.1.intermediate.dense.weight")));

  Json wrong = index;
  wrong["weight_map"][first[0].name] = "model-2.safetensors";
  scratch.write("m/model.safetensors.index.json", wrong.dump());
  EXPECT_THAT(open_refusal(folder).what(), HasSubstr("is missing, but the index places it here"));
  wrong["weight_map"][first[0].name] = "../m/model-1.safetensors";
  scratch.write("m/model.safetensors.index.json", wrong.dump());
  EXPECT_THAT(open_refusal(folder).what(), HasSubstr("want names of files beside it"));
  wrong["weight_map"] = 3;
  scratch.write("m/model.safetensors.index.json", wrong.dump());
  EXPECT_THAT(open_refusal(folder).what(), HasSubstr("weight_map"));
  fs::remove(folder / "model-2.safetensors");
  scratch.write("m/model.safetensors.index.json", index.dump());
  EXPECT_THAT(open_refusal(folder).what(), HasSubstr("model-2.safetensors: cannot open"));
}

// A file that torch.save() wrote, listed as the one shard of an index.
TEST(Open, ReadsPyTorchFilesAloneAndAsShards) {
  const fs::path golden = EXEUNT_TEST_DATA "/golden/deebert_bert";
  const Checkpoint whole = Checkpoint::open(golden);
  const Scratch scratch;
  Json map = Json::object();
  for (const auto& [name, view] : read_torch(golden / "pytorch_model.bin").tensors) map[name] = "part-1.bin";
  fs::copy_file(golden / "pytorch_model.bin", scratch.path() / "part-1.bin");
  fs::copy_file(golden / "config.json", scratch.path() / "config.json");
  scratch.write("pytorch_model.bin.index.json", Json{{"weight_map", map}}.dump());
  const Checkpoint sharded = Checkpoint::open(scratch.path());
  EXPECT_EQ(weights_sha256(sharded), weights_sha256(whole));
  EXPECT_TRUE(sharded.exits().last_ramp.has_value());
}

TEST(Open, RejectsGitLfsPointers) {
  const Scratch scratch;
  scratch.write("config.json", others::config("bert").dump());
  for (const std::string name : {"model.safetensors", "pytorch_model.bin"}) {
    scratch.write(name, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
    const Error error = open_refusal(scratch.path() / name);
    EXPECT_THAT(error.what(), HasSubstr("Git LFS pointer"));
    EXPECT_THAT(error.hint(), HasSubstr("git lfs pull"));
  }
}

TEST(Open, FindsAModelInTheHubsCache) {
  const Scratch scratch;
  others::Builder b = bare_bert();
  const fs::path folder = others::save(scratch, "models--org--tiny/snapshots/c0ffee", b.set(), others::config("bert"));
  fs::create_directories(scratch.path() / "models--org--tiny/refs");
  scratch.write("models--org--tiny/refs/main", "c0ffee");
  ::setenv("HF_HUB_CACHE", scratch.path().c_str(), 1);
  EXPECT_EQ(Checkpoint::open("org/tiny").folder(), folder);
  EXPECT_THAT(open_refusal("org/other").hint(), HasSubstr("hf download org/other"));
  ::unsetenv("HF_HUB_CACHE");
}

TEST(Open, ErrorNamesMissingFile) {
  const Scratch scratch;
  EXPECT_THAT(open_refusal(scratch.path() / "absent").what(), HasSubstr("no such model folder"));
  EXPECT_THAT(open_refusal(scratch.path()).what(), HasSubstr("got no weights, want model.safetensors"));
  scratch.write("tf_model.h5", "");
  EXPECT_THAT(open_refusal(scratch.path()).hint(), HasSubstr("'tf_model.h5' cannot be read"));
  fs::remove(scratch.path() / "tf_model.h5");
  fs::create_directories(scratch.path() / "checkpoint-500");
  EXPECT_THAT(open_refusal(scratch.path()).hint(), HasSubstr("checkpoint-500?"));
  const fs::path other = scratch.write("weights.txt", "");
  EXPECT_THAT(open_refusal(other).what(), HasSubstr("is no weight file by its name"));

  others::Builder b = bare_bert();
  const fs::path folder = others::save(scratch, "m", b.set(), others::config("bert"));
  fs::remove(folder / "config.json");
  EXPECT_THAT(open_refusal(folder).what(), HasSubstr("got no config.json"));
  scratch.write("m/bert_config.json", R"({"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 4,
      "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 10, "type_vocab_size": 2})");
  EXPECT_EQ(Checkpoint::open(folder).spec().family, Family::bert);
}

TEST(Open, LeavesTensorFlowCheckpointsToTheirReader) {
  const Scratch scratch;
  scratch.write("model.ckpt-1.index", "x");
  scratch.write("bert_config.json", others::config("bert").dump());
  EXPECT_THROW((void)Checkpoint::open(scratch.path()), Unknown);
  EXPECT_THAT(open_refusal(scratch.path()).hint(), HasSubstr("convert it first"));
}

TEST(Open, RejectsAmbiguousTensorFlowCheckpoints) {
  const Scratch scratch;
  scratch.write("model.ckpt-1.index", "");
  scratch.write("model.ckpt-2.index", "");
  const Error error = open_refusal(scratch.path());
  EXPECT_THAT(error.what(), HasSubstr("got 2 TensorFlow checkpoints, want one"));
  EXPECT_THAT(error.hint(), HasSubstr("model.ckpt-2.index"));
}

TEST(Open, AcceptsElbertsEmptyExitConfigWithANotice) {
  const Scratch scratch;
  others::Builder b = bare_bert();
  const fs::path folder = others::save(scratch, "m", b.set(), others::config("bert"));
  for (const char* content : {"{}", "", "\n"}) {
    scratch.write("m/exit_config.json", content);
    EXPECT_THAT(Checkpoint::open(folder).notices(), ElementsAre(HasSubstr("exit_config.json is empty"))) << content;
  }
  scratch.write("m/exit_config.json", R"({"exit_thres": 0.1})");
  EXPECT_TRUE(Checkpoint::open(folder).notices().empty());
}

class OwnFolderDamage : public testing::Test {
 protected:
  OwnFolderDamage() {
    const ModelSpec spec = tiny::spec(Family::bert);
    const ExitLayout exits = tiny::own_heads(spec);
    (void)write_exeunt_folder(Checkpoint(spec, exits, tiny::tensors(spec, exits)), folder_);
  }
  Scratch scratch_;
  fs::path folder_ = scratch_.path() / "own";
};

TEST_F(OwnFolderDamage, DetectsMissingManifest) {
  fs::remove(folder_ / "manifest.json");
  EXPECT_THAT(open_refusal(folder_).what(), HasSubstr("got our own weights without manifest.json"));
}

TEST_F(OwnFolderDamage, AllowsOpeningWeightsFileByName) {
  EXPECT_EQ(Checkpoint::open(folder_ / "model.safetensors").folder(), folder_);
}

TEST_F(OwnFolderDamage, DetectsDamageInEveryFile) {
  for (const char* name : {"config.json", "exits.json", "model.safetensors"}) {
    const std::string content = read_text(folder_ / name);
    scratch_.write(std::string("own/") + name, content.substr(0, content.size() - 1));
    EXPECT_THAT(open_refusal(folder_).what(), HasSubstr(std::string(name) + ": got"));
    scratch_.write(std::string("own/") + name, content);
  }
  EXPECT_NO_THROW((void)Checkpoint::open(folder_));
}

TEST_F(OwnFolderDamage, DetectsIncompleteManifest) {
  scratch_.write("own/manifest.json", R"({"format": "exeunt.manifest/1", "files": {}})");
  EXPECT_THAT(open_refusal(folder_).what(), HasSubstr("does not list 'config.json'"));
}

TEST_F(OwnFolderDamage, DetectsForeignWeights) {
  (void)export_hugging_face(Checkpoint::open(folder_), scratch_.path() / "hf");
  const std::string foreign = read_text(scratch_.path() / "hf" / "model.safetensors");
  scratch_.write("own/model.safetensors", foreign);
  Json manifest = read_json(folder_ / "manifest.json");
  manifest["files"]["model.safetensors"]["bytes"] = foreign.size();
  manifest["files"]["model.safetensors"]["sha256"] = sha256_hex(foreign);
  scratch_.write("own/manifest.json", manifest.dump());
  EXPECT_THAT(open_refusal(folder_).what(), HasSubstr("got format 'pt', want 'exeunt.model/1'"));
}

// Nothing is copied while opening: the tensors lie in one mapped file, in its order.
TEST_F(OwnFolderDamage, AcceptsCopiedFolder) {
  const Checkpoint checkpoint = Checkpoint::open(folder_);
  const std::byte* low = nullptr;
  const std::byte* high = nullptr;
  for (const auto& [name, view] : checkpoint.tensors().tensors) {
    if (low == nullptr || view.bytes.data() < low) low = view.bytes.data();
    if (high == nullptr || view.bytes.data() > high) high = view.bytes.data();
  }
  EXPECT_LT(static_cast<size_t>(high - low), fs::file_size(folder_ / "model.safetensors"));
}

}  // namespace
}  // namespace exeunt
