// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/sha256.h"
#include "exeunt/text/tokenizer.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

TEST(Fingerprint, CoversEveryTokenizerFile) {
  const Scratch scratch;
  (void)scratch.write("vocab.txt", "[PAD]\n[UNK]\n");
  const std::string bare = tokenizer_sha256(scratch.path());
  EXPECT_EQ(bare, sha256_hex("vocab.txt\n" + sha256_hex("[PAD]\n[UNK]\n") + "\n"));
  (void)scratch.write("tokenizer_config.json", R"({"do_lower_case":false})");
  const std::string cased = tokenizer_sha256(scratch.path());
  EXPECT_NE(cased, bare);
  (void)scratch.write("model.safetensors", "weights");
  EXPECT_EQ(tokenizer_sha256(scratch.path()), cased);
}

TEST(Fingerprint, UsesTokenizerJsonAlone) {
  const Scratch scratch;
  (void)scratch.write("tokenizer.json", "{}");
  const std::string alone = tokenizer_sha256(scratch.path());
  (void)scratch.write("vocab.txt", "[PAD]\n");
  EXPECT_EQ(tokenizer_sha256(scratch.path()), alone);
  (void)scratch.write("tokenizer.json", "{ }");
  EXPECT_NE(tokenizer_sha256(scratch.path()), alone);
}

TEST(Fingerprint, RecognizesSentencePieceByExtension) {
  const Scratch scratch;
  (void)scratch.write("30k-clean.model", "pieces");
  EXPECT_EQ(tokenizer_sha256(scratch.path()),
            sha256_hex("sentencepiece\n30k-clean.model\n" + sha256_hex("pieces") + "\n"));
  (void)scratch.write("tokenizer_config.json", R"({"backend": "tokenizers"})");
  const std::string config = sha256_hex(R"({"backend": "tokenizers"})");
  EXPECT_EQ(tokenizer_sha256(scratch.path()),
            sha256_hex("30k-clean.model\n" + sha256_hex("pieces") + "\ntokenizer_config.json\n" + config + "\n"));
}

TEST(Fingerprint, RejectsFolderWithoutTokenizer) {
  const Scratch scratch;
  (void)scratch.write("tokenizer_config.json", "{}");
  EXPECT_EQ(error_of([&] { (void)tokenizer_sha256(scratch.path()); }).code(), Code::bad_file);
  EXPECT_EQ(error_of([&] { (void)tokenizer_sha256(scratch.path() / "none"); }).code(), Code::bad_file);
}

}  // namespace
}  // namespace exeunt
