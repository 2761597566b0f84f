// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/features.h"

#include <cmath>

#include "exeunt/base/files.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/data/user_data.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A word is a token, its id its length; 101 and 102 around the texts.
class WordLengths : public Tokenizer {
 public:
  Encoding encode(std::string_view text, std::optional<std::string_view> pair,
                  const EncodeOptions& options) const override {
    Encoding out;
    const auto add = [&](int32_t id, uint8_t type) {
      out.ids.push_back(id);
      out.types.push_back(type);
    };
    const auto add_words = [&](std::string_view words, uint8_t type) {
      for (size_t at = 0; at < words.size();) {
        const size_t end = std::min(words.find(' ', at), words.size());
        add(static_cast<int32_t>(end - at), type);
        at = end + 1;
      }
      add(102, type);
    };
    add(101, 0);
    add_words(text, 0);
    if (pair) add_words(*pair, 1);
    out.truncated = out.ids.size() > static_cast<size_t>(options.max_length);
    if (out.truncated) {
      out.ids.resize(static_cast<size_t>(options.max_length));
      out.types.resize(out.ids.size());
    }
    return out;
  }
  int vocabulary() const noexcept override { return 200; }
  std::string_view family() const noexcept override { return "wordpiece"; }
  std::string token(int32_t) const override { return {}; }
  std::optional<int32_t> id(std::string_view) const override { return std::nullopt; }
};

Dataset some_data() {
  return parse_split(find_task("rte"), Split::dev,
                     "index\tsentence1\tsentence2\tlabel\n"
                     "0\ta bb\tccc\tentailment\n1\tdddd\te\tnot_entailment\n2\t1 2 3 4 5 6 7 8\tx\tentailment\n",
                     "dev.tsv");
}

FeatureOptions some_options() {
  return {.max_length = 8, .threads = 2, .tokenizer = std::string(64, 'a')};
}

Features some_features() {
  return make_features(some_data(), WordLengths(), some_options());
}

void expect_equal(const Features& a, const Features& b) {
  EXPECT_EQ(a.info, b.info);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.types, b.types);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.index, b.index);
  ASSERT_EQ(a.gold.size(), b.gold.size());
  for (size_t i = 0; i < a.gold.size(); ++i) {
    EXPECT_TRUE(a.gold[i] == b.gold[i] || (std::isnan(a.gold[i]) && std::isnan(b.gold[i])));
  }
}

TEST(Features, RowsArePackedInTheOrderOfTheData) {
  const Features features = some_features();
  EXPECT_THAT(features.offsets, ElementsAre(0, 6, 11, 19));
  EXPECT_THAT(features.ids_of(0), ElementsAre(101, 1, 2, 102, 3, 102));
  EXPECT_THAT(features.types_of(0), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(features.ids_of(1), ElementsAre(101, 4, 102, 1, 102));
  EXPECT_THAT(features.gold, ElementsAre(0, 1, 0));
  EXPECT_THAT(features.index, ElementsAre(0, 1, 2));
  EXPECT_EQ(features.length(2), 8U);
  EXPECT_EQ(features.truncated, 1);
  EXPECT_EQ(features.info.task, "RTE");
  EXPECT_EQ(features.info.data, some_data().sha256);
}

TEST(Features, CountWhatTruncationLoses) {
  Features features = some_features();
  EXPECT_EQ(features.lost_tokens, 4) << "of twelve tokens eight are kept";
  EXPECT_EQ(truncation_text(features), "1 of 3 texts are longer than 8 tokens and lose 17.4 % of all tokens");
  features.truncated = 0;
  EXPECT_EQ(truncation_text(features), "");
}

TEST(Features, DoNotDependOnThreads) {
  Dataset data = some_data();
  for (int i = 0; i < 1000; ++i) {
    data.examples.push_back(
        {.text = std::string(static_cast<size_t>(i % 90), 'x'), .pair = {}, .gold = 1, .index = 3 + i});
  }
  FeatureOptions options = some_options();
  options.threads = 1;
  const Features one = make_features(data, WordLengths(), options);
  options.threads = 4;
  expect_equal(one, make_features(data, WordLengths(), options));
  EXPECT_EQ(one.rows(), 1003U);
}

TEST(Features, LengthsAreThoseOfWholeTextsSpreadOverTheData) {
  Dataset data;
  for (int i = 0; i < 10; ++i) {
    std::string text;
    for (int word = 0; word <= i; ++word) text += "w ";
    data.examples.push_back({.text = text, .pair = {}, .gold = 0, .index = i});
  }
  EXPECT_THAT(text_lengths(data, WordLengths()), ElementsAre(3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_THAT(text_lengths(data, WordLengths(), 4), ElementsAre(3, 5, 8, 10));
  EXPECT_TRUE(text_lengths({}, WordLengths()).empty());
}

TEST(Features, SurviveWritingAndReading) {
  const Scratch scratch;
  const auto path = scratch.path() / "f.safetensors";
  Features features = some_features();
  write_features(path, features);
  expect_equal(read_features(path), features);
  const auto mapped = MappedFile::open(path);
  expect_equal(parse_features(mapped->bytes(), "memory"), features);
  features.gold = {NAN, NAN, NAN};
  features.info.task = "";
  write_features(path, features);
  expect_equal(read_features(path), features);
}

TEST(Features, RegressionsHaveValuesAndNoLabels) {
  const Scratch scratch;
  Dataset data = parse_split(find_task("elue/sts-b"), Split::dev, "sentence1\tsentence2\tlabel\na\tb\t3.250\n", "f");
  const Features features = make_features(data, WordLengths(), some_options());
  write_features(scratch.path() / "f", features);
  const Features again = read_features(scratch.path() / "f");
  EXPECT_THAT(again.gold, ElementsAre(3.25F));
  EXPECT_TRUE(again.info.labels.empty());
}

TEST(Features, KeepLabelSets) {
  const Scratch scratch;
  UserColumns columns;
  columns.problem = Problem::multi_label;
  columns.format = DataFormat::csv;
  const Dataset data = parse_user_data("text,label\na b,rude|loud\nc,\nd e,calm\n", "f.csv", columns);
  const Features features = make_features(data, WordLengths(), some_options());
  EXPECT_THAT(features.sets, ElementsAre(0, 1, 1, 0, 0, 0, 1, 0, 0)) << "calm, loud, rude";
  write_features(scratch.path() / "f", features);
  const Features again = read_features(scratch.path() / "f");
  expect_equal(again, features);
  EXPECT_EQ(again.sets, features.sets);
  Features damaged = features;
  damaged.sets[4] = 0.5F;
  EXPECT_THAT(error_of([&] { write_features(scratch.path() / "g", damaged); }).what(),
              HasSubstr("row 1: got 0.5 for a label, want 1 or 0"));
}

TEST(Features, RejectInconsistentFeatures) {
  const auto message = [](auto&& change) {
    Features features = some_features();
    change(features);
    const Error error = error_of([&] { check_features(features, "f"); });
    EXPECT_EQ(error.code(), Code::bad_file);
    return std::string(error.what());
  };
  EXPECT_THAT(message([](Features& f) { f.offsets[0] = 1; }), HasSubstr("f: offsets: got 1 to 19, want 0 to 19"));
  EXPECT_THAT(message([](Features& f) { f.offsets[3] = 18; }), HasSubstr("offsets: got 0 to 18"));
  EXPECT_THAT(message([](Features& f) { f.offsets[1] = 11; }), HasSubstr("row 0: got 11 tokens, want 1 to 8"));
  EXPECT_THAT(message([](Features& f) { f.offsets[2] = f.offsets[1]; }), HasSubstr("row 1: got 0 tokens"));
  EXPECT_THAT(message([](Features& f) { f.offsets[2] = 1; }),
              HasSubstr("row 1: got offsets 6 to 1, want rising ones up to 19"));
  EXPECT_THAT(message([](Features& f) { f.offsets[1] = INT64_MAX; }),
              HasSubstr("row 0: got offsets 0 to 9223372036854"));
  EXPECT_THAT(message([](Features& f) { f.offsets[1] = INT64_MIN; }), HasSubstr("row 0: got offsets 0 to -922337203"));
  EXPECT_THAT(message([](Features& f) { f.gold[1] = 2; }), HasSubstr("row 1: got gold 2, want the index of one of 2"));
  EXPECT_THAT(message([](Features& f) { f.gold[1] = 0.5F; }), HasSubstr("got gold 0.5"));
  EXPECT_THAT(message([](Features& f) { f.ids[4] = -7; }), HasSubstr("token 4: got id -7"));
}

TEST(Features, RejectDamagedFiles) {
  const Scratch scratch;
  const auto path = scratch.path() / "f.safetensors";
  const std::vector<int32_t> ids = {1, 2};
  const std::vector<uint8_t> types = {0, 0};
  const std::vector<int64_t> offsets = {0, 2}, index = {0};
  const std::vector<float> gold = {0};
  const auto view = [](DType type, const auto& values) {
    return TensorView{type, {static_cast<int64_t>(values.size())}, {}, std::as_bytes(std::span(values))};
  };
  const std::vector<NamedTensor> good = {{"ids", view(DType::i32, ids)},
                                         {"types", view(DType::u8, types)},
                                         {"offsets", view(DType::i64, offsets)},
                                         {"gold", view(DType::f32, gold)},
                                         {"index", view(DType::i64, index)}};
  const Metadata info = {{"format", "exeunt.features/1"}, {"tokenizer", ""},  {"data", ""}, {"task", ""}, {"split", ""},
                         {"labels", "[\"a\"]"},           {"max_length", "8"}};
  const auto message = [&](std::vector<NamedTensor> tensors, Metadata metadata) {
    write_safetensors(path, tensors, metadata);
    const Error error = error_of([&] { (void)read_features(path); });
    EXPECT_EQ(error.code(), Code::bad_file);
    return std::string(error.what()) + " | " + error.hint();
  };
  write_safetensors(path, good, info);
  EXPECT_NO_THROW((void)read_features(path));

  auto tensors = good;
  tensors.pop_back();
  EXPECT_THAT(message(tensors, info), HasSubstr("lacks the tensor 'index'"));
  tensors = good;
  tensors.push_back({"indx", view(DType::i64, index)});
  EXPECT_THAT(message(tensors, info), HasSubstr("unknown tensor 'indx' | did you mean 'index'?"));
  tensors = good;
  tensors[0].view = view(DType::i64, index);
  EXPECT_THAT(message(tensors, info), HasSubstr("tensor 'ids': got I64, want I32"));
  tensors = good;
  tensors[2].view = view(DType::i64, index);
  EXPECT_THAT(message(tensors, info), HasSubstr("tensor 'offsets': got shape [1], want [2]"));
  auto metadata = info;
  metadata[0].second = "exeunt.trace/2";
  EXPECT_THAT(message(good, metadata), HasSubstr("field 'format': got 'exeunt.trace/2', want 'exeunt.features/1'"));
  metadata = info;
  metadata[6].second = "0";
  EXPECT_THAT(message(good, metadata), HasSubstr("field 'max_length': got 0, want a whole number from 1 to"));
  metadata[6].second = "8.5";
  EXPECT_THAT(message(good, metadata), HasSubstr("field 'max_length': got 8.5, want a whole number"));
  metadata = info;
  metadata[5].second = "[1]";
  EXPECT_THAT(message(good, metadata), HasSubstr("field 'labels': got a list, want a list of strings"));
  metadata = info;
  metadata.emplace_back("spilt", "dev");
  EXPECT_THAT(message(good, metadata), HasSubstr("unknown field 'spilt' | did you mean 'split'?"));
}

}  // namespace
}  // namespace exeunt
