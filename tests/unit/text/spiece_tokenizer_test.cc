// SPDX-License-Identifier: Apache-2.0
// What ALBERT's slow tokenizer around sentencepiece gave for some hundred texts (scripts/golden/spiece.py), and how a
// folder says which of the two readers of spiece.model it wants.
#include <map>
#include <sstream>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/text/sentencepiece.h"
#include "exeunt/text/tokenizer_json.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kSmallPieces = fs::path(EXEUNT_TEST_DATA) / "text/cases/unigram/spiece.model";

TokenizerConfig slow_settings(const std::string& name) {
  TokenizerConfig config;
  if (name == "cased") {
    config.do_lower_case = false;
    config.keep_accents = true;
  }
  if (name == "spaces") config.remove_space = false;
  return config;
}

TEST(SpieceTokenizer, MatchesSlowTokenizer) {
  std::map<std::string, std::unique_ptr<const Tokenizer>> tokenizers;
  for (const char* name : {"", "cased", "spaces"}) {
    tokenizers[name] = read_unigram_tokenizer(kSmallPieces, slow_settings(name), SpieceReader::spiece);
  }
  std::istringstream lines(read_text(fs::path(EXEUNT_TEST_DATA) / "text/golden/spiece.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json value = parse_json(line, "spiece.jsonl");
    const std::string pair = value.value("pair", "");
    EncodeOptions options;
    options.max_length = value.value("max_length", 512);
    const Encoding got =
        tokenizers.at(value["settings"].get<std::string>())
            ->encode(value["text"].get<std::string>(),
                     value.contains("pair") ? std::optional<std::string_view>(pair) : std::nullopt, options);
    EXPECT_EQ(got.ids, value["ids"].get<std::vector<int32_t>>()) << line;
    EXPECT_EQ(got.types, value["types"].get<std::vector<uint8_t>>()) << line;
  }
  EXPECT_GE(count, 500);
}

using Kind = SentencePiece::Kind;

SpieceModel albert_pieces() {
  SpieceModel model;
  model.pieces = {{"<pad>", 0, Kind::control},  {"<unk>", 0, Kind::unknown},  {"[CLS]", 0, Kind::control},
                  {"[SEP]", 0, Kind::control},  {"[MASK]", 0, Kind::control}, {"-", 0, Kind::user_defined},
                  {"▁", -2, Kind::normal},      {"▁well", -4, Kind::normal},  {"known", -5, Kind::normal},
                  {"▁known", -5, Kind::normal}, {"▁1,", -3, Kind::normal},    {"▁1", -6, Kind::normal},
                  {",", -3, Kind::normal},      {"e", -3, Kind::normal},      {"0,", -3, Kind::normal}};
  model.unknown = 1;
  return model;
}

// "-" does not begin a new word after it, and no comma stays behind a digit.
TEST(SpieceTokenizer, SplitsAsSentencePiece) {
  const auto spiece = make_spiece_tokenizer(albert_pieces(), {}, "f");
  const auto converted = make_unigram_tokenizer(albert_pieces(), {}, "f");
  const EncodeOptions bare{.max_length = 512, .special_tokens = false};
  const Encoding out = spiece->encode("Well-known  [MASK]", std::nullopt, bare);
  EXPECT_THAT(out.ids, ElementsAre(7, 5, 8, 4));
  EXPECT_THAT(out.offsets, ElementsAre(Offset(0, 4), Offset(4, 5), Offset(5, 10), Offset(12, 18)));
  EXPECT_THAT(converted->encode("Well-known", std::nullopt, bare).ids, ElementsAre(7, 5, 9));
  const Encoding number = spiece->encode("1, é", std::nullopt, bare);
  EXPECT_THAT(number.ids, ElementsAre(11, 12, 6, 13));
  EXPECT_THAT(number.offsets, ElementsAre(Offset(0, 1), Offset(1, 2), Offset(2, 3), Offset(3, 4)));
  EXPECT_THAT(converted->encode("1,", std::nullopt, bare).ids, ElementsAre(10));
  // What is left of "0," without its mark is no piece.
  EXPECT_THAT(spiece->encode("e0,", std::nullopt, bare).ids, ElementsAre(6, 13, 1, 12));
}

TEST(SpieceTokenizer, RejectsByteFallbackAndMissingSpecialToken) {
  SpieceModel model = albert_pieces();
  model.byte_fallback = true;
  EXPECT_THAT(error_of([&] { (void)make_spiece_tokenizer(model, {}, "f"); }).what(),
              HasSubstr("f: the model falls back to bytes"));
  model.byte_fallback = false;
  model.pieces[3].text = "sep";
  EXPECT_THAT(error_of([&] { (void)make_spiece_tokenizer(model, {}, "f"); }).what(),
              HasSubstr("the model has no piece '[SEP]'"));
}

class SpieceFolder : public testing::Test {
 protected:
  void SetUp() override { fs::copy_file(kSmallPieces, folder_.path() / "spiece.model"); }
  [[nodiscard]] SpieceReader says(std::string_view config) {
    folder_.write("tokenizer_config.json", config);
    return default_spiece_reader(folder_.path());
  }
  Scratch folder_;
};

TEST_F(SpieceFolder, UsesSentencePieceUnlessConfigured) {
  EXPECT_TRUE(has_bare_spiece(folder_.path()));
  EXPECT_EQ(default_spiece_reader(folder_.path()), SpieceReader::spiece);
  EXPECT_EQ(says(R"({"do_lower_case": true})"), SpieceReader::spiece);
  EXPECT_EQ(says(R"({"added_tokens_decoder": {}})"), SpieceReader::tokenizers);
  EXPECT_EQ(says(R"({"added_tokens_decoder": {}, "backend": "sentencepiece"})"), SpieceReader::spiece);
  EXPECT_EQ(says(R"({"backend": "tokenizers"})"), SpieceReader::tokenizers);
  EXPECT_THAT(error_of([&] { (void)says(R"({"backend": "x"})"); }).what(), HasSubstr("'backend': got 'x'"));
}

TEST_F(SpieceFolder, HashDependsOnReader) {
  const std::string as_spiece = tokenizer_sha256(folder_.path());
  const EncodeOptions bare{.max_length = 512, .special_tokens = false};
  const auto ids = [&](std::optional<SpieceReader> reader) {
    return load_tokenizer(folder_.path(), reader)->encode("a-b (c)", std::nullopt, bare).ids;
  };
  EXPECT_EQ(ids({}), ids(SpieceReader::spiece));
  EXPECT_NE(ids({}), ids(SpieceReader::tokenizers));
  folder_.write("tokenizer_config.json", R"({"backend": "tokenizers"})");
  EXPECT_EQ(ids({}), ids(SpieceReader::tokenizers));
  EXPECT_NE(tokenizer_sha256(folder_.path()), as_spiece);
  folder_.write("tokenizer.json", "{}");
  EXPECT_FALSE(has_bare_spiece(folder_.path()));
}

TEST(SpieceReaders, HaveNames) {
  EXPECT_EQ(spiece_reader_named("spiece"), SpieceReader::spiece);
  EXPECT_EQ(spiece_reader_named("tokenizers"), SpieceReader::tokenizers);
  EXPECT_EQ(spiece_reader_named(""), std::nullopt);
}

}  // namespace
}  // namespace exeunt
