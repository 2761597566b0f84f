// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/corpus.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Sentences, EndBehindMarksThatSomethingNewFollows) {
  EXPECT_THAT(split_sentences("One. Two! \"Three?\" Four (five.) Six"),
              ElementsAre("One.", "Two!", "\"Three?\"", "Four (five.)", "Six"));
  EXPECT_THAT(split_sentences("  It costs 3.50 now. 20 more…  "), ElementsAre("It costs 3.50 now.", "20 more…"));
  EXPECT_THAT(split_sentences("He said. “Go.” Élan."), ElementsAre("He said.", "“Go.”", "Élan."));
  EXPECT_THAT(split_sentences(""), ElementsAre());
}

TEST(Sentences, DoNotEndBehindAbbreviationsAndBeforeSmallLetters) {
  EXPECT_THAT(split_sentences("Mr. J. Smith of the U.S. Navy, e.g. Here. Go on?  yes."),
              ElementsAre("Mr. J. Smith of the U.S. Navy, e.g. Here.", "Go on?  yes."));
}

TEST(Sentences, DoNotEndBehindAnyKnownAbbreviation) {
  for (const char* word : {"Mr", "Mrs", "Ms", "Dr", "St",  "Prof", "Jr",  "Sr",  "vs",     "No", "Fig",
                           "al", "cf",  "ca", "eg", "e.g", "ie",   "i.e", "etc", "approx", "J",  "U.S"}) {
    const std::string text = std::string("The ") + word + ". Other";
    EXPECT_THAT(split_sentences(text), ElementsAre(text));
    EXPECT_EQ(split_sentences(std::string(word) + ". Other").size(), 1U) << word << " begins the text";
    EXPECT_EQ(split_sentences(std::string("(") + word + ". Other").size(), 1U) << word << " behind a bracket";
  }
  for (const char* word : {"x", "it", "Mister", "a.bc", "3"})
    EXPECT_EQ(split_sentences(std::string("The ") + word + ". Other").size(), 2U) << word;
  EXPECT_THAT(split_sentences("Mr! Other"), ElementsAre("Mr!", "Other")) << "only a full stop abbreviates";
  EXPECT_THAT(split_sentences("Wait . Go"), ElementsAre("Wait .", "Go")) << "a full stop by itself ends a sentence";
}

TEST(Sentences, MayBeginWithDigitsMarksAndOtherScripts) {
  for (const char* next : {"A", "Z", "0", "9", "\"", "'", "(", "[", "é"})
    EXPECT_EQ(split_sentences(std::string("one. ") + next).size(), 2U) << next;
  for (const char* next : {"a", "z", "-", ")", "@", "{", "/", ":"})
    EXPECT_EQ(split_sentences(std::string("one. ") + next).size(), 1U) << next;
  for (const char* closing : {"\"", "'", ")", "]", "”", "’", "»", "’)"})
    EXPECT_EQ(split_sentences(std::string("one.") + closing + " Two").size(), 2U) << closing;
  EXPECT_EQ(split_sentences("one.x Two").size(), 1U);
  EXPECT_THAT(split_sentences("one.\tTwo.\rThree."), ElementsAre("one.", "Two.", "Three."));
}

class CorpusOfFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n.\n!\n");
    tokenizer_ = load_tokenizer(folder_.path());
  }
  [[nodiscard]] Corpus read(std::string_view text, int most = 9) const {
    return read_corpus({folder_.write("text", text)}, *tokenizer_, {.most = most, .threads = 2});
  }
  Scratch folder_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(CorpusOfFiles, HasDocumentsOfSentences) {
  const Corpus corpus = read("A! B.\nC\n\n \r\n\nA b c.\n");
  EXPECT_THAT(corpus.ids, ElementsAre(5, 9, 6, 8, 7, 5, 6, 7, 8));
  EXPECT_THAT(corpus.sentences, ElementsAre(0, 2, 4, 5, 9));
  EXPECT_THAT(corpus.documents, ElementsAre(0, 3, 4));
  EXPECT_THAT(corpus.ids_of(1, 3), ElementsAre(6, 8, 7));
  EXPECT_EQ(corpus_sha256(corpus), corpus_sha256(read("A! B.\nC\n\nA b c.")));
  EXPECT_NE(corpus_sha256(corpus), corpus_sha256(read("A! B.\nC\nA b c.")));
}

TEST_F(CorpusOfFiles, JoinsFilesInTheirOrder) {
  const Corpus corpus = read_corpus({folder_.write("one", "a b\n\nc"), folder_.write("two", "\n!\n")}, *tokenizer_,
                                    {.most = 9, .threads = 1});
  EXPECT_THAT(corpus.ids, ElementsAre(5, 6, 7, 9));
  EXPECT_THAT(corpus.sentences, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(corpus.documents, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(corpus.size(), 3);
  EXPECT_EQ(corpus.tokens_of(0, 3), 4);
  EXPECT_THAT(error_of([&] { (void)read_corpus({}, *tokenizer_, {}); }).what(), HasSubstr("--data: got no text in 0"));
}

TEST_F(CorpusOfFiles, CutsSentencesThatAreTooLong) {
  EXPECT_THAT(read("a b c a b", 2).sentences, ElementsAre(0, 2, 4, 5));
}

TEST_F(CorpusOfFiles, RefusesWhatIsNoText) {
  EXPECT_THAT(error_of([&] { (void)read("\n \n"); }).what(), HasSubstr("got no text in 1 files"));
  EXPECT_THAT(error_of([&] { (void)read("a\xff"); }).what(), HasSubstr("text: byte 1 is not UTF-8"));
}

}  // namespace
}  // namespace exeunt
