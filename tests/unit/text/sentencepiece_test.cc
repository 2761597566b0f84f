// SPDX-License-Identifier: Apache-2.0
// A second reference for spiece.model: sentencepiece itself. It searches in fp32, so what is compared with the unigram
// model of Hugging Face is pieces where scores are exact (our small model has quarters) and the file's contents
// throughout; our own reading by its rules must agree on any text. EXEUNT_SPIECE_MODEL may name another model, such as
// ALBERT's.
#include "exeunt/text/sentencepiece.h"

#include <cstdlib>
#include <random>

#include <sentencepiece_processor.h>

#include "exeunt/base/files.h"
#include "exeunt/text/unigram.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

const std::filesystem::path kModel = std::filesystem::path(EXEUNT_TEST_DATA) / "text/cases/unigram/spiece.model";

TEST(SentencePiece, PiecesAndScoresMatchLibrary) {
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(kModel.string()).ok());
  const SpieceModel model = parse_spiece_model(MappedFile::open(kModel)->bytes(), "f");
  ASSERT_EQ(static_cast<size_t>(library.GetPieceSize()), model.pieces.size());
  EXPECT_EQ(library.unk_id(), model.unknown);
  for (int id = 0; id < library.GetPieceSize(); ++id) {
    const SentencePiece& piece = model.pieces[static_cast<size_t>(id)];
    EXPECT_EQ(library.IdToPiece(id), piece.text);
    EXPECT_EQ(library.GetScore(id), piece.score);
    EXPECT_EQ(library.IsControl(id), piece.kind == SentencePiece::Kind::control);
    EXPECT_EQ(library.IsUnknown(id), piece.kind == SentencePiece::Kind::unknown);
    EXPECT_EQ(library.IsUnused(id), piece.kind == SentencePiece::Kind::unused);
  }
}

TEST(SentencePiece, SplitsWordsAsLibrary) {
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(kModel.string()).ok());
  const SpieceModel model = parse_spiece_model(MappedFile::open(kModel)->bytes(), "f");
  UnigramModel::Vocabulary pieces;
  for (const SentencePiece& piece : model.pieces) pieces.emplace_back(piece.text, piece.score);
  const UnigramModel unigram(pieces, {.unknown = model.unknown});
  std::mt19937 random(1);
  UnigramModel::Scratch scratch;
  for (int round = 0; round < 2000; ++round) {
    std::string word;
    // Pieces of plain letters in a row: words with many cuts. Others would be changed by the library's normalisation.
    while (word.size() < 12) {
      const std::string& piece = model.pieces[random() % model.pieces.size()].text;
      const auto plain = [](char c) { return c >= 'a' && c <= 'w'; };
      if (std::all_of(piece.begin(), piece.end(), plain)) word += piece;
    }
    std::vector<std::string> wanted;
    ASSERT_TRUE(library.Encode(word, &wanted).ok());
    const std::string marked = "▁" + word;
    unigram.encode(marked, scratch);
    std::vector<std::string> got;
    for (const WordToken& token : scratch.tokens) got.push_back(marked.substr(token.begin, token.end - token.begin));
    EXPECT_EQ(got, wanted) << word;
  }
}

TEST(SentencePiece, PiecesMatchLibrary) {
  const char* other = std::getenv("EXEUNT_SPIECE_MODEL");
  const std::filesystem::path path = other == nullptr ? kModel : std::filesystem::path(other);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.Load(path.string()).ok());
  const SpieceModel model = parse_spiece_model(MappedFile::open(path)->bytes(), "f");
  const SentencePieceModel ours(model, "f");
  std::mt19937 random(2);
  const auto draw = [&]() -> std::string {
    constexpr std::string_view kOdd[] = {" ",      "  ",     "\t", "\u00a0", "\u3000", "\u2581", "\u0301",
                                         "\ufb01", "\u4e2d", "1,", "-",      "(",      "A",      "\u00c9"};
    if (random() % 3 == 0) return std::string(kOdd[random() % std::size(kOdd)]);
    return model.pieces[random() % model.pieces.size()].text;
  };
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (uint32_t parts = random() % 12; parts > 0; --parts) text += draw();
    std::vector<int> wanted;
    ASSERT_TRUE(library.Encode(text, &wanted).ok());
    const NormalizedText normal = ours.normalize(NormalizedText(text, 0));
    std::vector<int> got;
    for (const WordToken& token : ours.encode(normal.text())) got.push_back(token.id);
    EXPECT_EQ(got, wanted) << text;
  }
}

}  // namespace
}  // namespace exeunt
