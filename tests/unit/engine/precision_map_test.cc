// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/precision_map.h"

#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PrecisionMap, NamesTheMatricesOfEveryLayer) {
  ModelSpec spec = small_spec();
  spec.layers = 2;
  EXPECT_THAT(matrix_names(spec), ElementsAre("layer.0.qkv", "layer.0.output", "layer.0.ffn1", "layer.0.ffn2",
                                              "layer.1.qkv", "layer.1.output", "layer.1.ffn1", "layer.1.ffn2"));
}

TEST(PrecisionMap, NamesSharedLayersByTheirGroup) {
  EXPECT_THAT(matrix_names(small_spec(Family::albert)),
              ElementsAre("group.0.qkv", "group.0.output", "group.0.ffn1", "group.0.ffn2"));
}

TEST(PrecisionMap, RoundTrips) {
  const ModelSpec spec = small_spec();
  PrecisionMap map;
  map.by_precision[Precision::int8] = {
      {"layer.1.ffn2", Precision::bf16}, {"layer.2.qkv", Precision::fp32}, {"poolers", Precision::int8}};
  map.by_precision[Precision::bf16] = {{"layer.0.output", Precision::fp32}};
  const Scratch scratch;
  scratch.write("precision.json", precision_map_text(map));
  EXPECT_EQ(find_precision_map(scratch.path(), spec), map);
  EXPECT_EQ(map.exceptions(Precision::int8).size(), 3U);
  EXPECT_THAT(map.exceptions(Precision::fp32), IsEmpty());
}

TEST(PrecisionMap, MissingFileMeansNoExceptions) {
  const Scratch scratch;
  EXPECT_EQ(find_precision_map(scratch.path(), small_spec()), PrecisionMap{});
  EXPECT_EQ(find_precision_map({}, small_spec()), PrecisionMap{});
}

TEST(PrecisionMap, HashExistsOnlyWithExceptions) {
  const Exceptions one{{"layer.1.ffn2", Precision::bf16}}, other{{"layer.1.ffn2", Precision::fp32}};
  EXPECT_FALSE(precision_map_sha256({}).has_value());
  EXPECT_EQ(precision_map_sha256(one)->size(), 64U);
  EXPECT_EQ(precision_map_sha256(one), precision_map_sha256(one));
  EXPECT_NE(precision_map_sha256(one), precision_map_sha256(other));
}

struct Refusal {
  std::string text, message, hint;
};

TEST(PrecisionMap, RejectsBrokenFilesWithPosition) {
  const std::string format = R"({"format":"exeunt.precision/1",)";
  for (const Refusal& refusal : {
           Refusal{"[]", "want an object", ""},
           Refusal{R"({"format":"exeunt.precision/9"})", "got format 'exeunt.precision/9'", ""},
           Refusal{format + R"("int9":{}})", "int9", "int8"},
           Refusal{format + R"("int8":[]})", "m.json: int8: got a list", ""},
           Refusal{format + R"("int8":{"layer.3.ffn2":"bf16"}})", "no matrix 'layer.3.ffn2'", "did you mean"},
           Refusal{format + R"("int8":{"word":"bf16"}})", "no matrix 'word'",
                   "layer.0.qkv to layer.2.ffn2, and poolers"},
           Refusal{format + R"("int8":{"layer.1.ffn2":"fp16"}})", "layer.1.ffn2: got \"fp16\"", ""},
           Refusal{format + R"("int8":{"layer.1.ffn2":3}})", "layer.1.ffn2: got 3", ""},
       }) {
    const Error error = error_of([&] { (void)parse_precision_map(refusal.text, "m.json", small_spec()); });
    EXPECT_EQ(error.code(), Code::bad_file) << refusal.text;
    EXPECT_THAT(std::string(error.what()) + "\n" + error.hint(), HasSubstr(refusal.message));
    EXPECT_THAT(std::string(error.what()) + "\n" + error.hint(), HasSubstr(refusal.hint));
  }
}

}  // namespace
}  // namespace exeunt
