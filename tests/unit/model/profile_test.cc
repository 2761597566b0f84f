// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/profile.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

// Two layers, measured at 10 and 20 tokens.
constexpr const char* kEntry = R"({"precision": "fp32", "threads": 1, "isa": "avx2", "lengths": [10, 20],
  "embedding_ms": [1, 2], "layer_ms": [[10, 20], [30, 40]], "leave_ms": [[3, 6], [9, 12]], "exit_ms": [0.5, 0.5]})";

std::string profile_text(std::string_view entries) {
  return fmt::format(R"({{"format": "exeunt.profile/1", "device": "a CPU", "entries": [{}]}})", entries);
}

Profile parse_entries(std::string_view entries) {
  return parse_profile(parse_json(profile_text(entries), "p.json"), 2, "p.json");
}

// kEntry with one field's text exchanged for another.
Error wrong(std::string_view from, std::string_view to) {
  std::string text = kEntry;
  text.replace(text.find(from), from.size(), to);
  const Error error = error_of([&] { (void)parse_entries(text); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error;
}

TEST(Profile, PredictsSumOfParts) {
  const ProfileEntry entry = parse_entries(kEntry).entries.at(0);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 10, .asked = 1}), 1 + 3 + 0.5);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 2, .tokens = 10, .asked = 2}), 1 + 10 + 9 + 1.0);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 2, .tokens = 20, .asked = 1}), 2 + 20 + 12 + 0.5);
}

TEST(Profile, Exit0HasItsOwnTime) {
  ProfileEntry entry = parse_entries(kEntry).entries.at(0);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 0, .tokens = 10, .asked = 1, .exit_0 = true}), 0.5) << "old files";
  entry.exit_0_ms = {0.1, 0.2};
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 0, .tokens = 10, .asked = 1, .exit_0 = true}), 0.1);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 10, .asked = 2, .exit_0 = true}), 1 + 3 + 0.5 + 0.1);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 10, .asked = 1}), 1 + 3 + 0.5);
}

TEST(Profile, InterpolatesAndExtrapolatesLinearly) {
  ProfileEntry entry = parse_entries(kEntry).entries.at(0);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 15, .asked = 0}), 1.5 + 4.5);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 40, .asked = 0}), 4 + 12);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 5, .asked = 0}), 0.5 + 1.5);
  entry.lengths = {10, 20, 40};
  entry.embedding_ms = {1, 2, 2};
  entry.leave_ms = {{3, 6, 6}, {9, 12, 12}};
  entry.exit_ms = {0.5, 0.5, 0.5};
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 15, .asked = 0}), 1.5 + 4.5);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 30, .asked = 0}), 2 + 6);
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 100, .asked = 0}), 2 + 6);
  entry.embedding_ms = {0, 10, 10};
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 1, .asked = 0}), 0 + 0.3) << "no time below zero";
}

TEST(Profile, WithoutExitTimesLayerCostsFullTime) {
  ProfileEntry entry = parse_entries(kEntry).entries.at(0);
  entry.leave_ms.clear();
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 2, .tokens = 10, .asked = 0}), 1 + 10 + 30);
}

TEST(Profile, ScalesSingleLength) {
  const ProfileEntry entry{.precision = "fp32",
                           .threads = 1,
                           .isa = "x",
                           .lengths = {10},
                           .embedding_ms = {1},
                           .layer_ms = {{10}},
                           .leave_ms = {},
                           .exit_ms = {0}};
  EXPECT_DOUBLE_EQ(predicted_ms(entry, {.after = 1, .tokens = 20, .asked = 1}), 22);
}

TEST(Profile, FindsEntryOfPrecisionAndThreads) {
  Profile profile;
  for (const auto& [precision, threads] :
       std::vector<std::pair<const char*, int>>{{"fp32", 4}, {"fp32", 2}, {"bf16", 1}})
    profile.entries.push_back({.precision = precision, .threads = threads, .isa = "avx2"});
  EXPECT_EQ(find_entry(profile, "fp32", 4)->threads, 4);
  EXPECT_EQ(find_entry(profile, "fp32")->threads, 2) << "the fewest, where nobody asks";
  EXPECT_EQ(find_entry(profile, "fp32", 16)->threads, 2);
  EXPECT_EQ(find_entry(profile, "int8"), nullptr);
  EXPECT_EQ(find_entry(profile, "bf16")->name(), "bf16, 1 thread, avx2");
  EXPECT_EQ(find_entry(profile, "fp32", 4)->name(), "fp32, 4 threads, avx2");
}

TEST(Profile, RoundTrips) {
  const Profile profile = parse_entries(kEntry);
  const std::string text = json_text(profile_json(profile));
  EXPECT_EQ(json_text(profile_json(parse_profile(parse_json(text, "again"), 2, "again"))), text);
  EXPECT_EQ(profile.device, "a CPU");
}

TEST(Profile, PackRowsBelongToMachine) {
  std::string text = kEntry;
  EXPECT_EQ(measured_pack_rows(parse_entries(text), "a CPU", "fp32", "avx2"), 0);
  text.insert(1, R"("pack_rows": 64, )");
  const Profile profile = parse_entries(text);
  EXPECT_EQ(measured_pack_rows(profile, "a CPU", "fp32", "avx2"), 64);
  EXPECT_EQ(measured_pack_rows(profile, "another CPU", "fp32", "avx2"), 0);
  EXPECT_EQ(measured_pack_rows(profile, "a CPU", "int8", "avx2"), 0);
  EXPECT_EQ(measured_pack_rows(profile, "a CPU", "fp32", "avx512"), 0);
  EXPECT_EQ(parse_profile(parse_json(json_text(profile_json(profile)), "again"), 2, "again").entries[0].pack_rows, 64);
  EXPECT_THAT(wrong("{", R"({"pack_rows": 0, )").what(), HasSubstr("pack_rows"));
}

TEST(Profile, RejectsBrokenFiles) {
  EXPECT_THAT(wrong("\"fp32\"", "\"fp23\"").hint(), HasSubstr("fp32"));
  EXPECT_THAT(wrong("\"threads\": 1", "\"threads\": 0").what(), HasSubstr("threads"));
  EXPECT_THAT(wrong("[10, 20]", "[20, 10]").what(), HasSubstr("rising numbers of tokens"));
  EXPECT_THAT(wrong("[10, 20]", "[]").what(), HasSubstr("a list of 1 to 100 lengths"));
  EXPECT_THAT(wrong("[10, 20]", "[10, 20, 30]").what(), HasSubstr("one per length"));
  EXPECT_THAT(wrong("[1, 2]", "[1, -2]").what(), HasSubstr("field 'embedding_ms'"));
  EXPECT_THAT(wrong("[1, 2]", "[1, \"x\"]").what(), HasSubstr("field 'embedding_ms'"));
  EXPECT_THAT(wrong("[[10, 20], [30, 40]]", "[[10, 20]]").what(), HasSubstr("2 lists, one per layer of the model"));
  EXPECT_THAT(wrong("[[3, 6], [9, 12]]", "[[3, 6], 7]").what(), HasSubstr("leave_ms"));
  EXPECT_THAT(wrong("\"exit_ms\"", "\"exits_ms\"").what(), HasSubstr("exit_ms"));
  EXPECT_THAT(error_of([] { (void)parse_profile(parse_json(R"({"format":"x"})", "p"), 2, "p"); }).what(),
              HasSubstr("got the format 'x'"));
  EXPECT_THAT(error_of([] { (void)parse_entries("3"); }).what(), HasSubstr("entries[0]"));
  EXPECT_THAT(error_of([] {
                (void)parse_profile(parse_json(R"({"format":"exeunt.profile/1","entries":{}})", "p"), 2, "p");
              }).what(),
              HasSubstr("want a list"));
}

}  // namespace
}  // namespace exeunt
