// SPDX-License-Identifier: Apache-2.0
// The exported graphs stay those that tests/system/onnx has evaluated: their digests, without the version of this
// program. A change that is meant brings new ones, once that test has passed with it.
#include "exeunt/model/onnx_export.h"

#include <map>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/protobuf.h"
#include "exeunt/base/sha256.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

std::string digest_of_graphs(const fs::path& folder) {
  constexpr uint32_t kProducerVersion = 3;
  const Json list = read_json(folder / "onnx.json");
  std::vector<std::string> files = {"all_exits.onnx"};
  for (const Json& segment : list.at("segments")) files.push_back(segment.at("file"));
  Sha256 hash;
  for (const std::string& file : files) {
    const std::string bytes = read_text(folder / file);
    ProtoReader fields(std::as_bytes(std::span(bytes)), "graph");
    while (const auto field = fields.next()) {
      if (field->number == kProducerVersion) continue;
      hash.add(fmt::format("{} {} {} ", field->number, field->value, field->bytes.size()));
      hash.add(field->bytes);
    }
  }
  return hash.hex().substr(0, 16);
}

TEST(OnnxExport, WritesTheEvaluatedGraphs) {
  const std::map<std::string, std::string> digests = {
      {"elasticbert", "8156b268d5316fc8"},         {"elbert", "e0f9d3de61afee36"},
      {"heads_deberta", "8218aff832586c58"},       {"heads_distilbert", "5360107c480bc883"},
      {"heads_fc2", "60ee182c1e9d1a3b"},           {"heads_gelu_new", "9a73517d44f497ba"},
      {"heads_groups", "1d1f57eef1e5aa48"},        {"heads_lte", "fc60d60c9f214de1"},
      {"heads_modernbert", "37d8e64cdaf10bd6"},    {"heads_pool_cls_max", "dcb876f3f3e45da3"},
      {"heads_pool_cls_mean", "dfab22f36c7141ef"}, {"heads_pool_mean_max", "9c4e63d883e4b68f"},
      {"heads_ramp", "515e46f37a4db743"},          {"heads_reader", "f08146b331ce099b"},
      {"heads_relu", "275408f25d4199ce"},          {"hf_roberta_classifier", "080697d1124f03bc"},
  };
  std::map<std::string, std::string> got;
  for (const auto& [name, digest] : digests) {
    const Scratch scratch(quick_parent());
    const Checkpoint model = Checkpoint::open(fs::path(EXEUNT_TEST_DATA) / "golden" / name);
    (void)export_onnx(model, scratch.path() / "onnx");
    got[name] = digest_of_graphs(scratch.path() / "onnx");
  }
  EXPECT_EQ(got, digests);
}

// The tensors lie where the graphs say, at multiples of 64 bytes, in fp32.
TEST(OnnxExport, WritesWeightsAndListOfSegments) {
  const Scratch scratch(quick_parent());
  const Checkpoint model = Checkpoint::open(EXEUNT_TEST_DATA "/golden/heads_few");
  (void)export_onnx(model, scratch.path() / "onnx");
  EXPECT_EQ(sha256_file(scratch.path() / "onnx" / "weights.bin").substr(0, 16), "e18c5070a9f078ae");
  EXPECT_EQ(read_json(scratch.path() / "onnx" / "onnx.json"),
            Json({{"format", "exeunt.onnx/1"},
                  {"opset", 17},
                  {"weights", weights_sha256(model)},
                  {"all_exits", "all_exits.onnx"},
                  {"segments",
                   {{{"file", "segment-01.onnx"}, {"first_layer", 1}, {"exit_after", 2}},
                    {{"file", "segment-02.onnx"}, {"first_layer", 3}, {"exit_after", 4}}}}}));
  EXPECT_TRUE(fs::exists(scratch.path() / "onnx" / "exits.json"));
  EXPECT_TRUE(fs::exists(scratch.path() / "onnx" / "config.json"));
}

TEST(OnnxExport, RejectsModelWithoutExits) {
  const Scratch scratch(quick_parent());
  const ModelSpec spec = tiny::spec(Family::bert);
  const Error error =
      error_of([&] { (void)export_onnx(Checkpoint(spec, {}, tiny::tensors(spec, {})), scratch.path() / "onnx"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_STREQ(error.what(), ": the model has no exits: there is nothing to answer with");
  EXPECT_FALSE(fs::exists(scratch.path() / "onnx"));
}

}  // namespace
}  // namespace exeunt
