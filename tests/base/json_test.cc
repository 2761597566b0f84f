// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/json.h"

#include "tests/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

TEST(Json, BrokenTextNamesLineAndColumn) {
  const Error error = error_of([] { (void)parse_json("{\n  \"a\": 1,\n  oops\n}", "f.json"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("f.json: no valid JSON at line 3 column 3"));
}

TEST(Json, ALineOfItsOwnNamesTheColumnAlone) {
  const Error error = error_of([] { (void)parse_json_line(R"({"a": oops})", "f.jsonl:17"); });
  EXPECT_STREQ(error.what(), "f.jsonl:17: no valid JSON at column 7");
  EXPECT_EQ(parse_json_line(R"({"a": 1})", "f.jsonl:17")["a"], 1);
}

TEST(Json, DeepNestingIsRefusedQuickly) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(error_of([&] { (void)parse_json(deep, "f"); }).what(), HasSubstr("deeper than 64"));
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW((void)parse_json(nested(64), "f"));
  EXPECT_THAT(error_of([&] { (void)parse_json(nested(65), "f"); }).what(), HasSubstr("deeper than 64"));
}

TEST(Json, AKeyTwiceIsAnError) {
  EXPECT_THAT(error_of([] { (void)parse_json(R"({"a":{"b":1},"a":2})", "f"); }).what(),
              HasSubstr("duplicate field 'a'"));
  EXPECT_NO_THROW((void)parse_json(R"({"a":{"b":1},"b":2})", "f"));
}

TEST(Json, UnknownFieldSuggestsTheNearest) {
  const Json value = parse_json(R"({"layers":3,"hiden":4})", "f");
  JsonObject object(value, "f");
  EXPECT_EQ(object.integer("layers", 1, 10), 3);
  EXPECT_EQ(object.integer_or("hidden", 1, 10, 7), 7);
  const Error error = error_of([&] { object.finish(); });
  EXPECT_THAT(error.what(), HasSubstr("unknown field 'hiden'"));
  EXPECT_EQ(error.hint(), "did you mean 'hidden'?");
}

TEST(Json, NumbersAreHeldToTheirRange) {
  for (const char* text : {"-1", "11", "1.5", "1e300", "18446744073709551615", "\"3\"", "true", "[3]"}) {
    const Json value = parse_json(std::string("{\"n\":") + text + "}", "f");
    JsonObject object(value, "f");
    EXPECT_THAT(error_of([&] { (void)object.integer("n", 0, 10); }).what(),
                HasSubstr("want a whole number from 0 to 10"))
        << text;
  }
  const Json value = parse_json(R"({"n":8.0})", "f");
  EXPECT_EQ(JsonObject(value, "f").integer("n", 0, 10), 8);
}

TEST(Json, BrokenUtf8AndHugeNumbersAreErrorsNotCrashes) {
  EXPECT_EQ(error_of([] { (void)parse_json("{\"a\":\"\xFF\"}", "f"); }).code(), Code::bad_file);
  EXPECT_EQ(error_of([] { (void)parse_json("{\"a\":1e999}", "f"); }).code(), Code::bad_file);
  EXPECT_EQ(error_of([] { (void)parse_json("", "f"); }).code(), Code::bad_file);
}

}  // namespace
}  // namespace exeunt
