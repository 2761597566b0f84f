// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/json.h"

#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

TEST(Json, ErrorsNameLineAndColumn) {
  const Error error = error_of([] { (void)parse_json("{\n  \"a\": 1,\n  oops\n}", "f.json"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("f.json: no valid JSON at line 3 column 3"));
}

TEST(Json, LineErrorsNameColumnOnly) {
  const Error error = error_of([] { (void)parse_json_line(R"({"a": oops})", "f.jsonl:17"); });
  EXPECT_STREQ(error.what(), "f.jsonl:17: no valid JSON at column 7");
  EXPECT_EQ(parse_json_line(R"({"a": 1})", "f.jsonl:17")["a"], 1);
}

TEST(Json, GlimpsesShowTheKindOrTheFirstBytes) {
  EXPECT_EQ(glimpse(Json::array({1})), "a list");
  EXPECT_EQ(glimpse(Json::object()), "an object");
  EXPECT_EQ(glimpse(Json(1.5)), "1.5");
  EXPECT_EQ(glimpse(Json()), "null");
  EXPECT_EQ(glimpse(Json(std::string(58, 'x'))), '"' + std::string(58, 'x') + '"') << "60 bytes";
  EXPECT_EQ(glimpse(Json(std::string(59, 'x'))), '"' + std::string(56, 'x') + "…");
  EXPECT_EQ(glimpse(Json(std::string(1'000'000, 'x'))), '"' + std::string(56, 'x') + "…");
}

TEST(JsonObject, ReadsEachKindAndNamesWhatItGotAndWanted) {
  const Json value = Json::parse(R"({"whole":8.0,"big":9e18,"part":1.5,"yes":true,"text":"abc","list":["a","b"],
                                    "mixed":["a",1],"none":null,"negative":-3})");
  JsonObject object(value, "f");
  const auto refused = [](auto&& read) { return std::string(error_of(read).what()); };
  EXPECT_EQ(object.integer("whole", 1, 8), 8);
  EXPECT_EQ(object.integer("negative", -3, 0), -3);
  EXPECT_EQ(refused([&] { (void)object.integer("whole", 1, 7); }),
            "f: field 'whole': got 8.0, want a whole number from 1 to 7");
  EXPECT_EQ(refused([&] { (void)object.integer("negative", -2, 0); }),
            "f: field 'negative': got -3, want a whole number from -2 to 0");
  EXPECT_EQ(refused([&] { (void)object.integer("big", 1, INT64_MAX); }),
            fmt::format("f: field 'big': got 9e+18, want a whole number from 1 to {}", INT64_MAX));
  EXPECT_EQ(refused([&] { (void)object.integer("part", 1, 7); }),
            "f: field 'part': got 1.5, want a whole number from 1 to 7");
  EXPECT_EQ(refused([&] { (void)object.integer("text", 1, 7); }),
            "f: field 'text': got \"abc\", want a whole number from 1 to 7");
  EXPECT_EQ(object.integer_or("none", 1, 7, 5), 5);
  EXPECT_EQ(object.integer_or("whole", 1, 8, 5), 8);
  EXPECT_EQ(object.number("part"), 1.5);
  EXPECT_EQ(object.number_or("absent", 2.5), 2.5);
  EXPECT_EQ(refused([&] { (void)object.number("yes"); }), "f: field 'yes': got true, want a finite number");
  EXPECT_TRUE(object.boolean_or("yes", false));
  EXPECT_TRUE(object.boolean_or("absent", true));
  EXPECT_EQ(refused([&] { (void)object.boolean_or("part", true); }), "f: field 'part': got 1.5, want true or false");
  EXPECT_EQ(object.string("text"), "abc");
  EXPECT_EQ(object.string_or("absent", "x"), "x");
  EXPECT_EQ(refused([&] { (void)object.string("list"); }), "f: field 'list': got a list, want a string");
  EXPECT_THAT(object.strings("list"), testing::ElementsAre("a", "b"));
  EXPECT_EQ(refused([&] { (void)object.strings("mixed"); }), "f: field 'mixed': got a list, want a list of strings");
  EXPECT_EQ(object.choice("text", {"abc", "abd"}), "abc");
  const Error choice = error_of([&] { (void)object.choice("text", {"abd", "xyz"}); });
  EXPECT_STREQ(choice.what(), "f: field 'text': got 'abc', want one of abd, xyz");
  EXPECT_EQ(choice.hint(), "did you mean 'abd'?");
  EXPECT_EQ(refused([&] { (void)object.get("none"); }), "f: field 'none' is missing");
  EXPECT_FALSE(object.has("none"));
  EXPECT_TRUE(object.has("text"));
  EXPECT_EQ(object.unread(), 0);
  EXPECT_NO_THROW(object.finish());
  EXPECT_EQ(refused([] { JsonObject(Json::array(), "f"); }), "f: got a list, want an object");
  EXPECT_EQ(JsonObject(value, "f").unread(), 9);
}

TEST(Json, ReadsFilesUpToALimit) {
  const Scratch scratch;
  const auto path = scratch.write("a.json", "[1, 2]");
  EXPECT_EQ(read_json(path, 6), Json({1, 2}));
  EXPECT_THAT(error_of([&] { (void)read_json(path, 5); }).what(), HasSubstr("got 6 bytes of JSON, want at most 5"));
}

TEST(Json, RejectsDeepNesting) {
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(error_of([&] { (void)parse_json(deep, "f"); }).what(), HasSubstr("deeper than 64"));
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW((void)parse_json(nested(64), "f"));
  EXPECT_THAT(error_of([&] { (void)parse_json(nested(65), "f"); }).what(), HasSubstr("deeper than 64"));
}

std::string repeated(size_t count, const std::string& item) {
  std::string text = "[" + item;
  for (size_t i = 1; i < count; ++i) text += "," + item;
  return text + "]";
}

TEST(Json, ParsesInLinearTime) {
  const auto parse = [](const std::string& text) { (void)parse_json(text, "f"); };
  for (const char* item : {"{}", "[]", R"({"a":{}})", R"("s")", "1"}) {
    EXPECT_LT(growth_exponent(
                  5000, [&](size_t n) { return repeated(n, item); }, parse),
              1.5)
        << item;
  }
  const auto members = [](size_t count) {
    std::string text = R"({"k":{})";
    for (size_t i = 0; i < count; ++i) text += fmt::format(R"(,"{}":{{}})", i);
    return text + "}";
  };
  EXPECT_LT(growth_exponent(5000, members, parse), 1.5);
}

TEST(OrderedJson, KeepsOrderInLinearTime) {
  EXPECT_EQ(parse_ordered_json(R"({"b":[1,{"d":null,"c":"é"}],"a":-2.5,"x":true})", "f").dump(),
            R"({"b":[1,{"d":null,"c":"é"}],"a":-2.5,"x":true})");
  EXPECT_THAT(error_of([] { (void)parse_ordered_json(R"({"b":1,"a":2,"b":3})", "f"); }).what(),
              HasSubstr("duplicate field 'b'"));
  EXPECT_THAT(error_of([] { (void)parse_ordered_json("{\n 1}", "f"); }).what(), HasSubstr("line 2"));
  const auto members = [](size_t count) {
    std::string text = R"({"k":{})";
    for (size_t i = 0; i < count; ++i) text += fmt::format(R"(,"{}":{{}})", i);
    return text + "}";
  };
  EXPECT_LT(growth_exponent(2000, members, [](const std::string& text) { (void)parse_ordered_json(text, "f"); }), 1.5);
}

TEST(Json, RejectsTooManyValues) {
  const std::string five = R"({"a":[1,"b",null]})";
  EXPECT_NO_THROW((void)parse_json(five, "f", {.values = 5}));
  EXPECT_STREQ(error_of([&] { (void)parse_json(five, "f", {.values = 4}); }).what(), "f: more than 4 values");
}

// Lists of lists take the most memory for their text; the 16 MiB here would take 480.
TEST(Json, BoundsMemoryOfValues) {
  for (const char* item : {"[]", "{}", "1", R"("")"}) {
    EXPECT_THAT(error_of([&] { (void)parse_json(repeated(size_t{6} << 20, item), "f"); }).what(),
                HasSubstr("more than 64 MiB beyond the size of the text"))
        << item;
  }
  const std::string text = repeated(100, "1");  // a list of 100 numbers
  EXPECT_NO_THROW((void)parse_json(text, "f", {.memory = 5000}));
  EXPECT_THROW((void)parse_json(text, "f", {.memory = 3000}), Error);
  // A long text is not multiplied.
  EXPECT_NO_THROW((void)parse_json('"' + std::string(1'000'000, 'x') + '"', "f", {.memory = 1000}));
}

// The parser would hold a long one several times before it could be refused.
TEST(Json, RejectsLongTextsInConfiguration) {
  const Scratch scratch;
  const auto read = [&](const std::string& text) { return read_json(scratch.write("f.json", text)); };
  const std::string most(1 << 20, 'x');
  EXPECT_EQ(read(R"({"a\"":")" + most.substr(1) + R"(","b":"\\"})")["b"], "\\");
  EXPECT_THAT(error_of([&] { (void)read(R"(["\\","\"x", ")" + most + "\"]"); }).what(),
              HasSubstr("a text of more than 1048576 bytes"));
  EXPECT_THAT(error_of([&] { (void)read("\"" + most); }).what(), HasSubstr("a text of more than"));
  EXPECT_NO_THROW((void)read(repeated(100'000, R"("text \"")"))) << "many short ones";
  for (const char* cut : {"\"", "\"\\", "\"\\\"", "[\"a\"", ""})
    EXPECT_EQ(error_of([&] { (void)read(cut); }).code(), Code::bad_file);
  EXPECT_NO_THROW((void)read_json(scratch.write("f.json", "\"" + most + "\""), size_t{1} << 28)) << "no configuration";
}

TEST(Json, StopsWhenAsked) {
  const std::string text = repeated(100'000, "0");
  int asked = 0;
  const auto parse = [&](int stop_at) {
    asked = 0;
    (void)parse_json(text, "f", {.stop = [&] { return ++asked == stop_at; }});
  };
  parse(0);
  EXPECT_GT(asked, 20);
  EXPECT_EQ(error_of([&] { parse(2); }).code(), Code::failure);
  EXPECT_EQ(asked, 2);
}

TEST(Json, MatchesLibraryDocument) {
  for (const std::string text :
       {R"({"a":[1,-2,3.5e3,true,false,null,"x\u00e9",[],{},[[]],{"b":{"c":[{}]}}],"":"","d":18446744073709551615})",
        "[]", "{}", "3", "\"s\"", "null", " [ 1 , 2 ] "}) {
    EXPECT_EQ(parse_json(text, "f"), Json::parse(text)) << text;
  }
  for (const char* text : {"[1,]", "{\"a\"}", "{\"a\":}", "[1 2]", "[1]]", "nul", "[", "{", "\"", "01", "1.", "[1}"}) {
    EXPECT_THROW((void)parse_json(text, "f"), Error) << text;
  }
}

TEST(Json, RejectsDuplicateKey) {
  EXPECT_THAT(error_of([] { (void)parse_json(R"({"a":{"b":1},"a":2})", "f"); }).what(),
              HasSubstr("duplicate field 'a'"));
  EXPECT_NO_THROW((void)parse_json(R"({"a":{"b":1},"b":2})", "f"));
}

TEST(Json, UnknownFieldSuggestsNearest) {
  const Json value = parse_json(R"({"layers":3,"hiden":4})", "f");
  JsonObject object(value, "f");
  EXPECT_EQ(object.integer("layers", 1, 10), 3);
  EXPECT_EQ(object.integer_or("hidden", 1, 10, 7), 7);
  const Error error = error_of([&] { object.finish(); });
  EXPECT_THAT(error.what(), HasSubstr("unknown field 'hiden'"));
  EXPECT_EQ(error.hint(), "did you mean 'hidden'?");
}

TEST(Json, RejectsNumbersOutOfRange) {
  for (const char* text : {"-1", "11", "1.5", "1e300", "18446744073709551615", "\"3\"", "true", "[3]"}) {
    const Json value = parse_json(std::string("{\"n\":") + text + "}", "f");
    JsonObject object(value, "f");
    EXPECT_THAT(error_of([&] { (void)object.integer("n", 0, 10); }).what(),
                HasSubstr("want a whole number from 0 to 10"))
        << text;
  }
  const Json value = parse_json(R"({"n":8.0})", "f");
  EXPECT_EQ(JsonObject(value, "f").integer("n", 0, 10), 8);
  for (const char* text : {"-3", "9", "-3.0", "9.0"}) {
    const Json bound = parse_json(std::string("{\"n\":") + text + "}", "f");
    EXPECT_EQ(JsonObject(bound, "f").integer("n", -3, 9), text[0] == '-' ? -3 : 9) << text;
  }
}

TEST(Json, RejectsInvalidUtf8AndHugeNumbers) {
  EXPECT_EQ(error_of([] { (void)parse_json("{\"a\":\"\xFF\"}", "f"); }).code(), Code::bad_file);
  EXPECT_STREQ(error_of([] { (void)parse_json("{\"a\":1e999}", "f"); }).what(),
               "f: no valid JSON at line 1 column 10: the number is out of range");
  EXPECT_EQ(error_of([] { (void)parse_json("", "f"); }).code(), Code::bad_file);
}

TEST(Json, InFolderIsNullWhereFileOrValueIsAbsent) {
  const Scratch scratch;
  scratch.write("run.json", R"({"run": {"length": 7, "none": null}, "list": [1]})");
  const auto in = [&](const char* file, std::initializer_list<const char*> names) {
    return json_in(scratch.path(), file, names);
  };
  EXPECT_EQ(in("run.json", {"run", "length"}), 7);
  EXPECT_EQ(in("run.json", {}).size(), 2U);
  EXPECT_TRUE(in("other.json", {}).is_null());
  for (const char* name : {"none", "width"}) EXPECT_TRUE(in("run.json", {"run", name}).is_null()) << name;
  EXPECT_TRUE(in("run.json", {"list", "length"}).is_null()) << "a list has no names";
  EXPECT_TRUE(json_in("", "run.json").is_null());
  scratch.write("run.json", "{");
  EXPECT_EQ(error_of([&] { (void)in("run.json", {"run"}); }).code(), Code::bad_file);
}

}  // namespace
}  // namespace exeunt
