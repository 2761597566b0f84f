// SPDX-License-Identifier: Apache-2.0
// What the oracle gave for a few thousand texts over small tokenizers of our own (tests/system/parity/make_cases.mjs).
#include <climits>
#include <filesystem>
#include <sstream>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/text/tokenizer.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

class Cases : public testing::TestWithParam<fs::path> {};

std::vector<Offset> pairs_of(const std::vector<uint32_t>& flat) {
  std::vector<Offset> pairs;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) pairs.emplace_back(flat[i], flat[i + 1]);
  return pairs;
}

TEST_P(Cases, MatchOracle) {
  const auto tokenizer = load_tokenizer(GetParam(), SpieceReader::tokenizers);
  std::istringstream lines(read_text(GetParam() / "cases.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json value = parse_json(line, "cases.jsonl");
    const std::string pair = value.value("pair", "");
    EncodeOptions options;
    options.max_length = value.value("max_length", INT_MAX);
    options.special_tokens = value.value("special_tokens", true);
    const Encoding got =
        tokenizer->encode(value["text"].get<std::string>(),
                          value.contains("pair") ? std::optional<std::string_view>(pair) : std::nullopt, options);
    const auto ids = value["ids"].get<std::vector<int32_t>>();
    ASSERT_EQ(got.ids, ids) << line;
    ASSERT_EQ(got.types, value.value("types", std::vector<uint8_t>(ids.size(), 0))) << line;
    ASSERT_EQ(got.offsets, pairs_of(value["offsets"].get<std::vector<uint32_t>>())) << line;
  }
  EXPECT_GE(count, 300);
}

std::vector<fs::path> folders() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(EXEUNT_TEST_DATA) / "text/cases")) found.push_back(entry);
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(Text, Cases, testing::ValuesIn(folders()),
                         [](const auto& test) { return test.param.filename().string(); });

}  // namespace
}  // namespace exeunt
