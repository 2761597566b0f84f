// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "exeunt/base/files.h"
#include "exeunt/text/sentencepiece.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;
using testing::HasSubstr;
using Kind = SentencePiece::Kind;

std::string counted(int field, const std::string& bytes) {
  std::string out(1, static_cast<char>(field * 8 + 2));
  for (size_t size = bytes.size();; size >>= 7) {
    out += static_cast<char>((size & 127) | (size > 127 ? 128 : 0));
    if (size <= 127) break;
  }
  return out + bytes;
}

std::string piece(const std::string& text, float score, int kind = 1) {
  char bytes[4];
  std::memcpy(bytes, &score, 4);
  return counted(1, counted(1, text) + "\x15" + std::string(bytes, 4) + "\x18" + static_cast<char>(kind));
}

const std::string kTrainer = counted(2, "\x18\x01\xc0\x02\x00"s);  // unigram, unk_id 0

SpieceModel parse(const std::string& bytes) {
  return parse_spiece_model(std::as_bytes(std::span(bytes)), "f");
}

std::string refusal(const std::string& bytes) {
  const Error error = error_of([&] { (void)parse(bytes); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error.what();
}

TEST(SpieceModel, UnknownCharacterCostsTenMoreThanWorstPiece) {
  const SentencePieceModel model(parse(piece("<unk>", 0, 2) + piece("xy", -8) + piece("z", -8) + piece("w", -8) +
                                       piece("yz", -1) + piece("yzw", -1) + kTrainer),
                                 "f");
  const auto ids = [&](std::string_view text) {
    std::vector<int32_t> out;
    for (const WordToken& token : model.encode(text)) out.push_back(token.id);
    return out;
  };
  EXPECT_THAT(ids("xyz"), testing::ElementsAre(1, 2)) << "16 against 18 + 1";
  EXPECT_THAT(ids("xyzw"), testing::ElementsAre(0, 5)) << "24 against 18 + 1";
}

TEST(SpieceModel, ReadsPiecesScoresKindsAndTheCharsmap) {
  const SpieceModel model = parse(piece("<unk>", 0, 2) + piece("\xe2\x96\x81the", -3.25F) + piece("[CLS]", 0, 3) +
                                  kTrainer + counted(3, counted(1, "nmt_nfkc") + counted(2, "map")));
  ASSERT_EQ(model.pieces.size(), 3U);
  EXPECT_EQ(model.pieces[1].text, "▁the");
  EXPECT_EQ(model.pieces[1].score, -3.25F);
  EXPECT_EQ(model.pieces[0].kind, Kind::unknown);
  EXPECT_EQ(model.pieces[1].kind, Kind::normal);
  EXPECT_EQ(model.pieces[2].kind, Kind::control);
  EXPECT_EQ(model.unknown, 0);
  EXPECT_EQ(model.charsmap, "map");
}

TEST(SpieceModel, MissingFieldsHaveDefaults) {
  const SpieceModel model = parse(counted(1, counted(1, "<unk>") + "\x18\x02"s) + counted(1, counted(1, "a")));
  EXPECT_EQ(model.pieces[1].score, 0.0F);
  EXPECT_EQ(model.pieces[1].kind, Kind::normal);
  EXPECT_EQ(model.charsmap, "");
}

TEST(SpieceModel, IgnoresUnknownFields) {
  const std::string later = counted(4, "self test") + "\xca\x0c\x01x"s;  // field 201
  EXPECT_EQ(parse(later + piece("<unk>", 0, 2) + kTrainer).pieces.size(), 1U);
}

TEST(SpieceModel, RejectsDamageWithPosition) {
  const std::string unknown = piece("<unk>", 0, 2);
  EXPECT_THAT(refusal(""), HasSubstr("f: the model has no pieces"));
  EXPECT_THAT(refusal(unknown.substr(0, 5)), HasSubstr("f: the protocol buffer is malformed or truncated at byte 0"));
  EXPECT_THAT(refusal(unknown + "\x08\x01"s), HasSubstr("f: field 1: got a varint, want counted bytes"));
  EXPECT_THAT(refusal(unknown + counted(1, "\x08\x01"s)), HasSubstr("f: piece 1: field 1: got a varint"));
  EXPECT_THAT(refusal(unknown + counted(1, "\x12\x01x"s)), HasSubstr("f: piece 1: field 2: got counted bytes"));
  EXPECT_THAT(refusal(unknown + piece("a", 0, 7)), HasSubstr("f: piece 1: got type 7, want 1 to 6"));
  EXPECT_THAT(refusal(unknown + piece("", 0)), HasSubstr("f: piece 1: the piece is empty"));
  EXPECT_THAT(refusal(unknown + piece("\xff", 0)), HasSubstr("f: piece 1: the piece is not UTF-8"));
  EXPECT_THAT(refusal(unknown + piece("a", NAN)), HasSubstr("f: piece 1: 'a' has the score nan"));
  EXPECT_THAT(refusal(unknown + piece("a", INFINITY)), HasSubstr("has the score inf"));
  EXPECT_THAT(refusal(unknown + piece(std::string(2000, 'a'), 0)), HasSubstr("got 2000 bytes, want at most 1024"));
  EXPECT_THAT(refusal(unknown + piece("a", 0) + piece("a", 0)), HasSubstr("f: piece 2: 'a' was piece 1 already"));
  EXPECT_THAT(refusal(unknown + piece("a", 0, 2)),
              HasSubstr("f: piece 1: 'a' is of the unknown type, but unk_id is 0"));
  EXPECT_THAT(refusal(piece("a", 0)), HasSubstr("f: piece 0: 'a' is not of the unknown type"));
  EXPECT_THAT(refusal(unknown + counted(2, "\xc0\x02\x05"s)), HasSubstr("unk_id: got 5, want 0 to 0"));
  EXPECT_THAT(refusal(unknown + counted(2, "\x1a\x01x"s)), HasSubstr("f: trainer_spec: field 3: got counted bytes"));
  EXPECT_THAT(refusal(unknown + counted(3, "\x10\x01"s)), HasSubstr("f: normalizer_spec: field 2: got a varint"));
}

TEST(SpieceModel, NamesUnsupportedModelType) {
  const Error error = error_of([&] { (void)parse(piece("<unk>", 0, 2) + counted(2, "\x18\x02"s)); });
  EXPECT_THAT(error.what(), HasSubstr("f: got a model of type 2 (BPE), want 1 (unigram)"));
  EXPECT_THAT(error.hint(), HasSubstr("ALBERT"));
  EXPECT_THAT(refusal(piece("<unk>", 0, 2) + counted(2, "\x18\x09"s)), HasSubstr("type 9 (?)"));
}

TEST(SpieceModel, RejectsMismatchedVocabulary) {
  const SpieceModel model = parse(piece("<unk>", 0, 2) + piece("a\tb", -1.23456789F) + kTrainer);
  check_spiece_vocab(model, "<unk>\t0\na\tb\t-1.23457\n", "v");
  const auto message = [&](std::string_view text) {
    return std::string(error_of([&] { check_spiece_vocab(model, text, "v"); }).what());
  };
  EXPECT_THAT(message("<unk>\t0\n"), HasSubstr("v: got 1 lines, want 2"));
  EXPECT_THAT(message("<unk>\t0\na\tb\t-1.23457\nc\t0\n"), HasSubstr("v: line 3: the model has only 2 pieces"));
  EXPECT_THAT(message("<unk>\t0\nab\n"), HasSubstr("v: line 2: got no tab"));
  EXPECT_THAT(message("<unk>\t0\nb\t-1.23457\n"), HasSubstr("v: line 2: got piece 'b', want 'a\tb'"));
  EXPECT_THAT(message("<unk>\t0\na\tb\t-2\n"), HasSubstr("v: line 2: got score '-2', want -1.2345679"));
  EXPECT_THAT(message("<unk>\tnan\n"), HasSubstr("v: line 1: got score 'nan'"));
  EXPECT_THAT(message("<unk>\t0x\n"), HasSubstr("v: line 1: got score '0x'"));
}

}  // namespace
}  // namespace exeunt
