// SPDX-License-Identifier: Apache-2.0
#include "exeunt/text/tokenizer.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kCasedVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nHello\n";
constexpr const char* kJson = R"({"model":{"type":"WordPiece","unk_token":"?","vocab":{"?":0,"hello":7}}})";

Error error_in(const Scratch& folder) {
  return error_of([&] { (void)load_tokenizer(folder.path()); });
}

TEST(LoadTokenizer, PrefersTokenizerJson) {
  const Scratch folder;
  folder.write("vocab.txt", kCasedVocab);
  folder.write("tokenizer.json", kJson);
  EXPECT_THAT(load_tokenizer(folder.path())->encode("hello", std::nullopt, {}).ids, ElementsAre(7));
}

TEST(LoadTokenizer, ReadsVocabTxtWithItsConfiguration) {
  const Scratch folder;
  folder.write("vocab.txt", kCasedVocab);
  folder.write("tokenizer_config.json", R"({"do_lower_case":true})");
  EXPECT_THAT(load_tokenizer(folder.path())->encode("Hello", std::nullopt, {}).ids, ElementsAre(2, 4, 3));
}

TEST(LoadTokenizer, ReadsVocabJsonWithMerges) {
  const Scratch folder;
  folder.write("vocab.json", R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"h":4,"i":5,"hi":6})");
  folder.write("merges.txt", "#version: 0.2\nh i\n");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->family(), "bpe");
  EXPECT_THAT(tokenizer->encode("hi", std::nullopt, {}).ids, ElementsAre(0, 6, 2));
}

TEST(LoadTokenizer, ChoosesTheModelTypeOfTokenizerJson) {
  const Scratch folder;
  folder.write("tokenizer.json", R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-1.5]]}})");
  EXPECT_EQ(load_tokenizer(folder.path())->family(), "unigram");
  folder.write("tokenizer.json", R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},
                                     "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}})");
  EXPECT_EQ(load_tokenizer(folder.path())->family(), "bpe");
}

TEST(LoadTokenizer, ErrorNamesMissingFiles) {
  const Scratch folder;
  EXPECT_THAT(error_in(folder).what(), HasSubstr("no tokenizer found"));
  EXPECT_THAT(error_in(folder).hint(), HasSubstr("want tokenizer.json, vocab.txt, spiece.model"));
  folder.write("vocab.json", "{}");
  EXPECT_THAT(error_in(folder).what(), HasSubstr("got vocab.json alone, want vocab.json and merges.txt"));
  EXPECT_THAT(error_of([&] { (void)load_tokenizer(folder.path() / "none"); }).what(), HasSubstr("no such folder"));
  EXPECT_EQ(error_in(folder).code(), Code::bad_file);
}

TEST(LoadTokenizer, RejectsSeveralSpieceModels) {
  const Scratch folder;
  folder.write("a.model", "x");
  folder.write("b.model", "x");
  EXPECT_THAT(error_in(folder).what(), HasSubstr("got a.model and b.model, want one tokenizer model"));
  folder.write("30k-clean.model", "x");
  EXPECT_THAT(error_in(folder).what(), HasSubstr("30k-clean.model"));  // chosen, and found broken
}

TEST(LoadTokenizer, TruncatedTokenizerJsonErrorNamesPosition) {
  const Scratch folder;
  for (size_t size = 0; size < std::string_view(kJson).size(); ++size) {
    folder.write("tokenizer.json", std::string_view(kJson).substr(0, size));
    EXPECT_THAT(error_in(folder).what(), HasSubstr("tokenizer.json: no valid JSON at line 1 column")) << size;
  }
}

}  // namespace
}  // namespace exeunt
