// SPDX-License-Identifier: Apache-2.0
// Tokenizer files at their size limits take at most 12 times their size and 64 MiB, whatever is in them: vocabularies
// of short tokens take several times their text.
#include "exeunt/text/tokenizer.h"
#include "tests/fixtures/peak_memory.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

constexpr size_t kTokenizerJson = (size_t{64} << 20) - 4096, kOthers = size_t{16} << 20;

// `items` of them, or as many as fit.
template <class Item>
std::string listed(size_t size, const std::string& mark, const Item& item) {
  std::string out;
  for (int i = 0; out.size() + 64 < size; ++i) out += (i > 0 ? mark : "") + item(i);
  return out;
}

class TokenizerMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }
  void expect_within(const char* what, const std::vector<std::pair<std::string, std::string>>& files) {
    const Scratch scratch;
    size_t size = 0;
    for (const auto& [name, content] : files) {
      scratch.write(name, content);
      size += content.size();
    }
    const long grown = peak_growth([&] { (void)load_tokenizer(scratch.path()); });
    RecordProperty(what, static_cast<int>(grown));
    EXPECT_GE(grown, 0) << what;
    EXPECT_LE(grown, static_cast<long>(12 * size >> 10) + kAllowance) << what << " of " << (size >> 10) << " KiB";
  }
};

TEST_F(TokenizerMemory, TokenizerJson) {
  const auto json = [](const std::string& added, const std::string& vocab) {
    return R"({"version":"1.0","added_tokens":[)" + added +
           R"(],"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0)" + vocab + "}}}";
  };
  const auto token = [](int i) { return fmt::format(R"(,"t{}":{})", i, i + 1); };
  const auto added = [](int i) { return fmt::format(R"({{"id":{},"content":"a{}","special":true}})", i + 1, i); };
  expect_within("one token", {{"tokenizer.json", json("", ",\"" + std::string(kTokenizerJson - 200, 'x') + "\":1")}});
  expect_within("many tokens", {{"tokenizer.json", json("", listed(kTokenizerJson - 200, "", token))}});
  expect_within("as many tokens as fit", {{"tokenizer.json", json("", listed(8 << 20, "", token))}});
  expect_within("added tokens", {{"tokenizer.json", json(listed(4 << 20, ",", added), "")}});
  expect_within("lists",
                {{"tokenizer.json", R"({"x":[)" + listed(kTokenizerJson, ",", [](int) { return "[]"; }) + "]}"}});
}

TEST_F(TokenizerMemory, OtherFiles) {
  const auto line = [](int i) { return "t" + std::to_string(i); };
  const auto pair = [](int i) { return fmt::format("a{} b{}", i, i); };
  expect_within("vocab.txt", {{"vocab.txt", listed(kOthers, "\n", line)}});
  expect_within("one line", {{"vocab.txt", "[UNK]\n" + std::string(kOthers, 'x')}});
  expect_within("merges.txt", {{"vocab.json", R"({"a":0})"}, {"merges.txt", listed(kOthers, "\n", pair)}});
  expect_within("spiece.model",
                {{"spiece.model", listed(kOthers, "", [](int) { return std::string("\x0a\x03\x0a\x01x", 5); })}});
}

}  // namespace
}  // namespace exeunt
