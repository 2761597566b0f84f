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
      {"elasticbert", "877327e07561aa73"},         {"elbert", "19efab121e20e1fa"},
      {"heads_deberta", "21e7f577d4d9e875"},       {"heads_distilbert", "d87f5d8abf5f5cb9"},
      {"heads_fc2", "db89c92999311a2f"},           {"heads_gelu_new", "5c790e1083407e56"},
      {"heads_groups", "144368700bd55432"},        {"heads_lte", "4d4cf41a874a57d0"},
      {"heads_modernbert", "daaa874c84986473"},    {"heads_pool_cls_max", "0214100b6cb92d5a"},
      {"heads_pool_cls_mean", "54793f14eb2832b9"}, {"heads_pool_mean_max", "f9b370c112044d5f"},
      {"heads_ramp", "a133c7b245533898"},          {"heads_reader", "aecd49a73cb54c19"},
      {"heads_relu", "e499e1a1ffb92680"},          {"hf_roberta_classifier", "827b23905f21ef60"},
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
