// SPDX-License-Identifier: Apache-2.0
// Folders written and read again: A → B → A must give the same bytes for every family, layout and type.
#include "exeunt/model/exeunt_folder.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/manifest.h"
#include "exeunt/policy/policy_file.h"
#include "tests/unit/model/others.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  std::string name;
  ModelSpec spec;
  ExitLayout exits;
  DType dtype;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const FamilyRow& row : families()) {
    const Family family = row.spec.family;
    const ModelSpec spec = tiny::spec(family);
    const std::pair<const char*, ExitLayout> layouts[] = {{"bare", {}},
                                                          {"own", tiny::own_heads(spec)},
                                                          {"shared_pooler", tiny::shared_pooler(spec)},
                                                          {"shared_head", tiny::shared_head(spec)},
                                                          {"raw", tiny::raw_heads(spec)},
                                                          {"readers", tiny::readers(spec)},
                                                          {"everything", tiny::everything(spec)},
                                                          {"regression", tiny::regression(spec)}};
    for (const auto& [name, exits] : layouts) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        if (dtype != DType::f32 && name != std::string_view("everything")) continue;
        std::string label = fmt::format("{}_{}_{}", name_of(family), name, name_of(dtype));
        std::replace(label.begin(), label.end(), '-', '_');
        all.push_back({std::move(label), spec, exits, dtype});
      }
    }
  }
  return all;
}

Checkpoint make(const Case& c) {
  return Checkpoint(c.spec, c.exits, tiny::tensors(c.spec, c.exits, c.dtype));
}

void expect_same_folder(const fs::path& a, const fs::path& b) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(a)) names.push_back(entry.path().filename());
  EXPECT_FALSE(names.empty());
  for (const std::string& name : names) EXPECT_EQ(read_text(a / name), read_text(b / name)) << name;
  EXPECT_EQ(names.size(), static_cast<size_t>(std::distance(fs::directory_iterator(b), {})));
}

class RoundTrip : public testing::TestWithParam<Case> {};

TEST_P(RoundTrip, OwnToHuggingFaceToOwnKeepsEveryByte) {
  const Scratch scratch(quick_parent());
  const Checkpoint made = make(GetParam());
  (void)write_exeunt_folder(made, scratch.path() / "a");
  const Checkpoint own = Checkpoint::open(scratch.path() / "a", {.verify = true});
  (void)export_hugging_face(own, scratch.path() / "hf");
  const Checkpoint foreign = Checkpoint::open(scratch.path() / "hf");
  EXPECT_THAT(foreign.notices(), IsEmpty());
  (void)write_exeunt_folder(foreign, scratch.path() / "b");
  expect_same_folder(scratch.path() / "a", scratch.path() / "b");
  (void)export_hugging_face(Checkpoint::open(scratch.path() / "b"), scratch.path() / "hf2");
  expect_same_folder(scratch.path() / "hf", scratch.path() / "hf2");
}

TEST_P(RoundTrip, WeightsHashEqualsHashOfWrittenFile) {
  const Scratch scratch(quick_parent());
  const Checkpoint made = make(GetParam());
  (void)write_exeunt_folder(made, scratch.path() / "a");
  EXPECT_EQ(weights_sha256(made), sha256_file(scratch.path() / "a" / kWeightsFile));
  EXPECT_EQ(weights_sha256(Checkpoint::open(scratch.path() / "a")), weights_sha256(made));
}

// Opening does not read weights of more than 1 MiB; their hash is that of the bytes in use, whatever the manifest says.
TEST(WeightsHash, RejectsWeightsWithOtherHashThanManifest) {
  const Scratch scratch(quick_parent());
  ModelSpec spec = tiny::spec(Family::bert);
  spec.vocab = 40000;
  (void)write_exeunt_folder(Checkpoint(spec, {}, tiny::tensors(spec, {})), scratch.path() / "a");
  const fs::path weights = scratch.path() / "a" / kWeightsFile;
  ASSERT_GT(fs::file_size(weights), size_t{1} << 20);
  const Checkpoint whole = Checkpoint::open(scratch.path() / "a");
  EXPECT_EQ(weights_sha256(whole), claimed_sha256(whole));
  std::string bytes = read_text(weights);
  bytes.back() ^= 0x40;
  write_atomically(weights, bytes);
  EXPECT_EQ(weights_sha256(whole), claimed_sha256(whole));  // it has the old file
  const Checkpoint swapped = Checkpoint::open(scratch.path() / "a");
  EXPECT_EQ(claimed_sha256(swapped), claimed_sha256(whole));
  const Error error = error_of([&] { (void)weights_sha256(swapped); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr(fmt::format("got SHA-256 {}, want {} as the manifest says", sha256_hex(bytes),
                                                  claimed_sha256(whole))));
}

INSTANTIATE_TEST_SUITE_P(All, RoundTrip, testing::ValuesIn(cases()), [](const auto& test) { return test.param.name; });

// Models that transformers and PyTorch wrote, of every system: into our folder, out to transformers, and back.
TEST(GoldenModels, RoundTripThroughOwnFolderBitForBit) {
  int models = 0;
  for (const auto& entry : fs::directory_iterator(EXEUNT_TEST_DATA "/golden")) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(entry.path().filename());
    const Scratch scratch(quick_parent());
    const Checkpoint source = Checkpoint::open(entry.path());
    (void)write_exeunt_folder(source, scratch.path() / "a");
    EXPECT_EQ(weights_sha256(source), sha256_file(scratch.path() / "a" / kWeightsFile));
    (void)export_hugging_face(Checkpoint::open(scratch.path() / "a"), scratch.path() / "hf");
    (void)write_exeunt_folder(Checkpoint::open(scratch.path() / "hf"), scratch.path() / "b");
    expect_same_folder(scratch.path() / "a", scratch.path() / "b");
    ++models;
  }
  EXPECT_GE(models, 40);
}

// Every tensor of a transformers folder comes back under the same name with the same bytes.
void expect_contains(const fs::path& exported, const TensorSet& original) {
  const TensorSet set = read_safetensors(exported / "model.safetensors");
  for (const auto& [name, view] : original.tensors) {
    const TensorView* again = set.find(name);
    ASSERT_NE(again, nullptr) << name;
    EXPECT_EQ(again->dtype, view.dtype);
    EXPECT_TRUE(std::equal(view.bytes.begin(), view.bytes.end(), again->bytes.begin(), again->bytes.end())) << name;
  }
}

TEST(HuggingFaceExport, RoundTripsTransformersFiles) {
  for (const std::string family : {"bert", "roberta", "albert"}) {
    for (const bool head : {false, true}) {
      const Scratch scratch(quick_parent());
      others::Builder b(DType::f16);
      const std::string prefix = head ? family + "." : "";
      family == "albert" ? b.albert(prefix) : b.bert(prefix, family == "roberta" ? 1 : 2);
      if (head && family == "roberta") {
        b.linear("classifier.dense", others::kHidden, others::kHidden);
        b.linear("classifier.out_proj", 2, others::kHidden);
      } else {
        b.linear(prefix + (family == "albert" ? "pooler" : "pooler.dense"), others::kHidden, others::kHidden);
        if (head) b.linear("classifier", 2, others::kHidden);
      }
      const fs::path source = others::save(scratch, "hf", b.set(), others::config(family));
      (void)write_exeunt_folder(Checkpoint::open(source), scratch.path() / "own");
      EXPECT_THAT(export_hugging_face(Checkpoint::open(scratch.path() / "own"), scratch.path() / "again"), IsEmpty());
      expect_contains(scratch.path() / "again", b.set());
      const Json config = read_json(scratch.path() / "again" / "config.json");
      const std::string name = family == "bert" ? "Bert" : family == "roberta" ? "Roberta" : "Albert";
      EXPECT_EQ(config["architectures"][0], name + (head ? "ForSequenceClassification" : "Model"));
      EXPECT_EQ(config["model_type"], family);
      EXPECT_EQ(config["torch_dtype"], "float16");
      EXPECT_EQ(config.contains("id2label"), head);
    }
  }
}

TEST(HuggingFaceExport, NoticesLastExitWithoutCounterpart) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::bert);
  const ExitLayout exits = tiny::readers(spec);
  const Checkpoint checkpoint(spec, exits, tiny::tensors(spec, exits));
  EXPECT_THAT(export_hugging_face(checkpoint, scratch.path() / "hf"),
              Contains(HasSubstr("loads there as BertModel, an encoder without heads")));
}

TEST(HuggingFaceExport, SendsElasticBertAsBertWithItsLastPooler) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::elasticbert);
  const Checkpoint checkpoint(spec, {}, tiny::tensors(spec, {}));
  (void)export_hugging_face(checkpoint, scratch.path() / "hf");
  const TensorSet set = read_safetensors(scratch.path() / "hf" / "model.safetensors");
  EXPECT_EQ(to_floats(*set.find("pooler.dense.weight")), to_floats(checkpoint.get("pooler.3.weight")));
  EXPECT_EQ(read_json(scratch.path() / "hf" / "config.json")["model_type"], "bert");
}

TEST(OwnFolder, CopiesTokenizerRecipeAndLearnedRowsAsTheyAre) {
  const Scratch scratch(quick_parent());
  others::Builder b;
  b.bert("");
  const fs::path source = others::save(scratch, "hf", b.set(), others::config("bert"));
  scratch.write("hf/recipe.json", "{\"as\": \"it is\"}");
  scratch.write("hf/learned.safetensors", "as it is");
  scratch.write("hf/README.md", "not ours");
  EXPECT_THAT(write_exeunt_folder(Checkpoint::open(source), scratch.path() / "own"), IsEmpty());
  EXPECT_EQ(read_text(scratch.path() / "own" / "vocab.txt"), "[PAD]\n[UNK]\n");
  EXPECT_EQ(read_text(scratch.path() / "own" / "recipe.json"), "{\"as\": \"it is\"}");
  EXPECT_EQ(read_text(scratch.path() / "own" / "learned.safetensors"), "as it is");
  EXPECT_TRUE(read_json(scratch.path() / "own" / "manifest.json")["files"].contains("learned.safetensors"));
  EXPECT_FALSE(fs::exists(scratch.path() / "own" / "README.md"));
  (void)write_exeunt_folder(Checkpoint::open(source), scratch.path() / "trained", {.recipe = "{}"});
  EXPECT_EQ(read_text(scratch.path() / "trained" / "recipe.json"), "{}");
}

TEST(OwnFolder, NoticesMissingTokenizer) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::bert);
  const Checkpoint made(spec, {}, tiny::tensors(spec, {}));
  const std::string notice = "no tokenizer files beside the weights: texts cannot be encoded with this folder";
  EXPECT_THAT(write_exeunt_folder(made, scratch.path() / "a"), testing::ElementsAre(notice));
  EXPECT_THAT(export_hugging_face(Checkpoint::open(scratch.path() / "a"), scratch.path() / "hf"),
              testing::ElementsAre(notice));
  scratch.write("a/vocab.txt", "[PAD]\n");
  EXPECT_THAT(write_exeunt_folder(Checkpoint::open(scratch.path() / "a"), scratch.path() / "b"), IsEmpty());
}

// A model that was made in memory has no folder; files of the current one are not its.
TEST(OwnFolder, TakesNoFilesOfTheCurrentFolderForThoseOfTheModel) {
  const Scratch scratch(quick_parent());
  fs::create_directory(scratch.path() / "here");
  scratch.write("here/vocab.txt", "[PAD]\n");
  const ModelSpec spec = tiny::spec(Family::bert);
  const Checkpoint made(spec, {}, tiny::tensors(spec, {}));
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path() / "here");
  (void)write_exeunt_folder(made, scratch.path() / "a");
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(scratch.path() / "a" / "vocab.txt"));
}

TEST(OwnFolder, KeepsAPolicyOnlyForTheWeightsItWasMadeFor) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::bert);
  const ExitLayout exits = tiny::own_heads(spec);
  (void)write_exeunt_folder(Checkpoint(spec, exits, tiny::tensors(spec, exits)), scratch.path() / "a");
  const std::string hash = weights_sha256(Checkpoint::open(scratch.path() / "a"));
  scratch.write("a/policy.json", "{\"weights\": \"" + hash + "\"}");
  scratch.write("a/precision.json", "{}");
  (void)export_hugging_face(Checkpoint::open(scratch.path() / "a"), scratch.path() / "hf");
  (void)write_exeunt_folder(Checkpoint::open(scratch.path() / "hf"), scratch.path() / "b");
  EXPECT_EQ(read_text(scratch.path() / "b" / "policy.json"), read_text(scratch.path() / "a" / "policy.json"));
  EXPECT_TRUE(fs::exists(scratch.path() / "b" / "precision.json"));
  scratch.write("a/policy.json", "{\"weights\": \"of another model\"}");
  EXPECT_THAT(write_exeunt_folder(Checkpoint::open(scratch.path() / "a"), scratch.path() / "c"),
              Contains(HasSubstr("policy.json was made for other weights")));
  EXPECT_FALSE(fs::exists(scratch.path() / "c" / "policy.json"));
  for (const char* bad : {"{\"weights\": 5}", "[]"}) {
    scratch.write("a/policy.json", bad);
    const Error error =
        error_of([&] { (void)write_exeunt_folder(Checkpoint::open(scratch.path() / "a"), scratch.path() / "d"); });
    EXPECT_EQ(error.code(), Code::bad_file) << bad;
    EXPECT_THAT(error.what(), HasSubstr("policy.json: ")) << bad;
  }
}

TEST(OwnFolder, RejectsHugeFilesThatAreCopied) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::bert);
  (void)write_exeunt_folder(Checkpoint(spec, {}, tiny::tensors(spec, {})), scratch.path() / "a");
  for (const auto& [name, most] : {std::pair<const char*, size_t>{"merges.txt", size_t{1} << 28},
                                   {"learned.safetensors", size_t{1} << 30},
                                   {"recipe.json", kMaxJsonFile}}) {
    const fs::path path = scratch.path() / "a" / name;
    write_atomically(path, "");
    fs::resize_file(path, most + 1);
    EXPECT_THAT(error_of([&] {
                  (void)write_exeunt_folder(Checkpoint::open(scratch.path() / "a"), scratch.path() / "b");
                }).what(),
                HasSubstr(fmt::format("{}: got {} bytes, want at most {}", name, most + 1, most)));
    EXPECT_FALSE(fs::exists(scratch.path() / "b"));
    fs::remove(path);
  }
}

TEST(OwnFolder, WritesElbertsRuleAsAnUncertifiedPolicy) {
  const Scratch scratch(quick_parent());
  others::Builder b;
  b.albert("albert.");
  b.linear("albert.pooler", others::kHidden, others::kHidden);
  b.linear("albert.encoder.exit_out_layer.classifier", 2, others::kHidden);
  const fs::path source = others::save(
      scratch, "elbert", b.set(),
      others::config("albert", {{"thres_name", "bias_2"}, {"exit_thres", 0.1}, {"cnt_thres", 3}, {"margin", 0.05}}));
  (void)write_exeunt_folder(Checkpoint::open(source), scratch.path() / "own");
  const Json policy = read_json(scratch.path() / "own" / "policy.json");
  EXPECT_EQ(policy["format"], "exeunt.policy/3");
  EXPECT_EQ(policy["weights"], sha256_file(scratch.path() / "own" / kWeightsFile));
  const Json& entry = policy["entries"][0];
  EXPECT_EQ(entry["policy"], "window:0.1,3,bias_2,margin=0.05");
  EXPECT_EQ(entry["exits"], Json({1, 2, 3, 4}));
  EXPECT_EQ(entry["precision"], "fp32");
  EXPECT_EQ(entry["decision_temperature"], Json({1.0, 1.0, 1.0, 1.0}));
  EXPECT_EQ(entry["score_temperature"], Json({1.0, 1.0, 1.0, 1.0}));
  EXPECT_TRUE(entry["certificate"].is_null());
  EXPECT_NO_THROW((void)read_policy_file(scratch.path() / "own" / "policy.json"));
}

TEST(OwnFolder, RejectsExistingFolderWithoutReplace) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::bert);
  const Checkpoint checkpoint(spec, {}, tiny::tensors(spec, {}));
  (void)write_exeunt_folder(checkpoint, scratch.path() / "a");
  EXPECT_EQ(error_of([&] { (void)write_exeunt_folder(checkpoint, scratch.path() / "a"); }).code(), Code::usage);
  // The new folder may even be made from the old one, whose files stay mapped.
  EXPECT_NO_THROW(
      (void)write_exeunt_folder(Checkpoint::open(scratch.path() / "a"), scratch.path() / "a", {.replace = true}));
  EXPECT_NO_THROW((void)Checkpoint::open(scratch.path() / "a", {.verify = true}));
}

TEST(OwnFolder, LeavesNothingBehindOnFailure) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::bert);
  const Checkpoint checkpoint(spec, {}, tiny::tensors(spec, {}));
  const fs::path blocked = scratch.write("file", "x");
  const Error error = error_of([&] { (void)write_exeunt_folder(checkpoint, blocked / "a"); });
  EXPECT_EQ(error.code(), Code::resources);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator()), 1);
}

// A policy certified with some thresholds must not run with others: the hash that binds it has them.
TEST(OwnFolder, OtherThresholdsInvalidatePolicies) {
  const Scratch scratch;
  const ModelSpec spec = tiny::spec(Family::bert);
  ExitLayout exits = tiny::own_heads(spec);
  exits.problem = Problem::multi_label;
  const auto hash_of = [&](std::vector<float> logit_thresholds, const char* folder) {
    exits.logit_thresholds = std::move(logit_thresholds);
    const Checkpoint made(spec, exits, tiny::tensors(spec, exits, DType::f32));
    (void)write_exeunt_folder(made, scratch.path() / folder);
    EXPECT_EQ(weights_sha256(Checkpoint::open(scratch.path() / folder)), weights_sha256(made)) << folder;
    return weights_sha256(made);
  };
  const std::string plain = hash_of({}, "plain");
  const std::string low = hash_of(std::vector<float>(exits.labels.size(), -1.5F), "low");
  const std::string high = hash_of(std::vector<float>(exits.labels.size(), 1.5F), "high");
  EXPECT_EQ(plain, sha256_file(scratch.path() / "low" / kWeightsFile)) << "the weights are the same";
  EXPECT_NE(low, plain);
  EXPECT_NE(low, high);

  // Changed in place they are the same as written at once, and nothing else changes.
  const auto files = [&](const char* folder) {
    std::map<std::string, std::string> out;
    for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path() / folder))
      out[entry.path().filename().string()] = read_text(entry.path());
    return out;
  };
  write_thresholds(scratch.path() / "plain", std::vector<float>(exits.labels.size(), 1.5F));
  EXPECT_EQ(files("plain"), files("high"));
  EXPECT_NO_THROW((void)Checkpoint::open(scratch.path() / "plain", {.verify = true}));
  write_thresholds(scratch.path() / "plain", {});
  EXPECT_EQ(weights_sha256(Checkpoint::open(scratch.path() / "plain")), plain);
  EXPECT_THROW(write_thresholds(scratch.path() / "plain", {1.5F}), Error) << "one for each label";
  // A crash between the two files leaves a folder that opens: its list is silent about exits.json.
  Json manifest = read_json(scratch.path() / "plain" / "manifest.json");
  manifest["files"].erase("exits.json");
  scratch.write("plain/manifest.json", manifest.dump());
  EXPECT_NO_THROW((void)Checkpoint::open(scratch.path() / "plain", {.verify = true}));
}

}  // namespace
}  // namespace exeunt
