// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy_file.h"

#include <numeric>
#include <regex>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/growth.h"
#include "tests/fixtures/peak_memory.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

const std::string kHash(64, 'a'), kOther(64, 'b');

PolicyFile example() {
  PolicyEntry entry;
  entry.exits = {6, 7, 8, 12};
  entry.engine = "cpu/neon_bf16_i8mm";
  entry.numerics = 3;
  entry.precision = "bf16";
  entry.decision_temperature = {1.37F, 1, 0.9F, 2};
  entry.score_temperature = {1, 1.5F, 1, 1};
  entry.policy = parse_policy("entropy:0.21");
  entry.points = {{parse_policy("entropy:0.21"), 0.01, 0.47, {0.5F, 0.125F, 0, 0.375F}},
                  {parse_policy("entropy:0.4"), 0.02, 0.31}};
  entry.certificate = Certificate{.loss = RiskLoss::disagreement,
                                  .method = RiskMethod::ltt_binomial,
                                  .max_drop = 0.01,
                                  .delta = 0.05,
                                  .rows = 2000,
                                  .losses = 7,
                                  .budgets = 2,
                                  .families = 1,
                                  .fit = {kHash, 500},
                                  .certify = {kOther, 2000, kHash},
                                  .tool = "0.3.0",
                                  .created = "2026-03-01T12:34:56Z",
                                  .reference = LossReference::fp32,
                                  .max_length = 48,
                                  .tokenizer = kHash,
                                  .last_head = LastHead::ramp,
                                  .range = {0, 5},
                                  .seed = 42,
                                  .unit = CertifiedUnit::requests,
                                  .distinct = 1900,
                                  .tries = 2,
                                  .groups = {{"yes", 1200, 3}, {"no", 800, 4}}};
  PolicyFile file;
  file.weights = kHash;
  file.default_precision = "bf16";
  file.put(entry);
  entry.certificate.reset();
  entry.points.clear();
  entry.precision_map = kOther;
  entry.policy = parse_policy("window:0.1,8,bias_1");
  entry.precision = "int8";
  file.put(entry);
  return file;
}

TEST(PolicyFile, RoundTripsThroughText) {
  const std::string text = policy_file_text(example());
  const PolicyFile back = parse_policy_file(text, "policy.json");
  EXPECT_EQ(policy_file_text(back), text);
  ASSERT_EQ(back.entries.size(), 2u);
  const PolicyEntry& entry = back.entries.at(0);
  EXPECT_EQ(entry.decision_temperature, example().entries.at(0).decision_temperature);
  EXPECT_EQ(entry.points[1].policy, parse_policy("entropy:0.4"));
  EXPECT_EQ(entry.certificate->losses, 7);
  EXPECT_EQ(entry.certificate->certify.rows, 2000);
  EXPECT_EQ(entry.certificate->last_head, LastHead::ramp);
  EXPECT_EQ(entry.certificate->seed, 42u);
  EXPECT_EQ(entry.certificate->groups.at(1).name, "no");
  EXPECT_FALSE(back.entries.at(1).certificate);
  EXPECT_EQ(back.entries.at(1).precision_map, kOther);
  PolicyFile questions = example();
  questions.entries.at(0).certificate->loss = loss_named("top:3");
  EXPECT_EQ(parse_policy_file(policy_file_text(questions), "p").entries.at(0).certificate->loss, loss_named("top:3"));
}

TEST(PolicyFile, HasTheFieldsOfTheFormat) {
  const Json json = parse_json(policy_file_text(example()), "p");
  EXPECT_EQ(json["format"], "exeunt.policy/3");
  const Json& entry = json["entries"][0];
  EXPECT_EQ(entry["device"], "cpu");
  EXPECT_EQ(entry["engine"], "cpu/neon_bf16_i8mm");
  EXPECT_EQ(entry["numerics"], 3);
  EXPECT_EQ(entry["precision"], "bf16");
  EXPECT_TRUE(entry["precision_map"].is_null());
  EXPECT_EQ(entry["exits"], Json({6, 7, 8, 12}));
  EXPECT_EQ(entry["decision_temperature"].dump(), "[1.37,1.0,0.9,2.0]") << "floats in their shortest form";
  EXPECT_EQ(entry["score_temperature"].dump(), "[1.0,1.5,1.0,1.0]");
  EXPECT_EQ(entry["policy"], "entropy:0.21");
  EXPECT_EQ(entry["points"][0], Json({{"policy", "entropy:0.21"},
                                      {"max_drop", 0.01},
                                      {"cost_fraction", 0.47},
                                      {"exit_rates", {0.5, 0.125, 0.0, 0.375}}}));
  EXPECT_FALSE(entry["points"][1].contains("exit_rates"));  // not known
  EXPECT_EQ(entry["certificate"]["guarantee"], "probability");
  EXPECT_EQ(entry["certificate"]["method"], "ltt-binomial");
  EXPECT_EQ(entry["certificate"]["n"], 2000);
  EXPECT_EQ(entry["certificate"]["reference"], "fp32");
  EXPECT_EQ(entry["certificate"]["max_length"], 48);
  EXPECT_EQ(entry["certificate"]["last_head"], "ramp");
  EXPECT_EQ(entry["certificate"]["unit"], "requests");
}

TEST(PolicyFile, RejectsAnotherFormat) {
  const auto refused = [](const std::string& format) {
    return error_of([&] { (void)parse_policy_file(Json{{"format", format}}.dump(), "p"); });
  };
  EXPECT_STREQ(refused("exeunt.policy/2").what(), "p: got the format 'exeunt.policy/2', want 'exeunt.policy/3'");
  EXPECT_EQ(refused("exeunt.policy/2").hint(),
            "remove the file and certify the model again: exeunt calibrate MODEL --max-drop 1%");
  EXPECT_EQ(refused(std::string(65, 'x')).what(),
            fmt::format("p: got the format '{}', want 'exeunt.policy/3'", std::string(64, 'x')));
}

TEST(PolicyFile, FindsTheEntryOfAnEngineThenOneOfNoneThenAnothers) {
  PolicyFile file = example();
  const PolicyEntry on_amx = [&] {
    PolicyEntry entry = file.entries[0];
    entry.engine = "cpu/amx";
    return entry;
  }();
  file.put(on_amx);
  EXPECT_EQ(file.entries.size(), 3u);
  EXPECT_EQ(file.find("cpu/amx", "bf16")->engine, "cpu/amx");
  EXPECT_EQ(file.find("cpu/avx2", "bf16")->engine, "cpu/neon_bf16_i8mm");
  EXPECT_EQ(file.find("cpu/amx", "fp32"), nullptr);
  EXPECT_EQ(file.find("cuda/sm_90", "bf16")->device, "cpu") << "its policy runs there, without its promise";
  PolicyEntry on_gpu = on_amx;
  on_gpu.device = "cuda";
  on_gpu.engine = "cuda/sm_90";
  PolicyFile both = file;
  both.put(on_gpu);
  EXPECT_EQ(both.entries.size(), 4u) << "beside those of the CPU";
  EXPECT_EQ(both.find("cuda/sm_90", "bf16")->engine, "cuda/sm_90");
  EXPECT_EQ(both.find("cuda/sm_80", "bf16")->engine, "cuda/sm_90") << "the same device comes first";
  EXPECT_EQ(both.find("cpu/avx2", "bf16")->device, "cpu");
  file.put(on_amx);
  EXPECT_EQ(file.entries.size(), 3u) << "replaced";
  PolicyEntry anywhere = on_amx;
  anywhere.engine.clear();
  file.put(anywhere);
  EXPECT_EQ(file.find("cpu/avx2", "bf16")->engine, "");
  file.put(on_amx);
  EXPECT_EQ(file.entries.size(), 3u) << "in place of the one for any engine";
  file.entries.push_back(on_amx);
  EXPECT_THAT(error_of([&] { (void)parse_policy_file(policy_file_text(file), "p"); }).what(),
              HasSubstr("a second entry for device 'cpu', engine 'cpu/amx' and precision bf16"));
}

TEST(PolicyFile, EntryCompletesItsPolicies) {
  const PolicyEntry entry = example().entries.at(0);
  EXPECT_EQ(entry.exit_rates(entry.policy), entry.points[0].exit_rates);
  EXPECT_TRUE(entry.exit_rates(parse_policy("full")).empty());
  const PolicySpec spec = entry.complete(entry.points[1].policy);
  EXPECT_EQ(str(spec), "entropy:0.4");
  EXPECT_EQ(spec.exits, entry.exits);
  EXPECT_EQ(spec.temperature, entry.decision_temperature);
  EXPECT_EQ(spec.score_temperature, entry.score_temperature);
  PolicySpec own = entry.points[1].policy;
  own.exits = {12};
  EXPECT_EQ(entry.complete(own).exits, own.exits);
}

// The error of reading the example with one value changed.
Error policy_file_error(const std::string& pointer, const Json& value) {
  Json json = parse_json(policy_file_text(example()), "p");
  json[Json::json_pointer(pointer)] = value;
  const Error error = error_of([&] { (void)parse_policy_file(json.dump(), "policy.json"); });
  EXPECT_EQ(error.code(), Code::bad_file) << pointer;
  EXPECT_THAT(error.what(), HasSubstr("policy.json")) << pointer;
  return error;
}

TEST(PolicyFile, SuggestsNearestFieldsAndNames) {
  EXPECT_EQ(policy_file_error("/wieghts", 1).hint(), "did you mean 'weights'?");
  EXPECT_EQ(policy_file_error("/entries/0/polcy", 1).hint(), "did you mean 'policy'?");
  EXPECT_EQ(policy_file_error("/entries/0/certificate/max_dorp", 1).hint(), "did you mean 'max_drop'?");
  EXPECT_EQ(policy_file_error("/entries/0/points/0/cost", 1).hint(),
            "known: policy, max_drop, cost_fraction, exit_rates");
  EXPECT_EQ(policy_file_error("/entries/0/precision", "fp23").hint(), "did you mean 'fp32'?");
  EXPECT_EQ(policy_file_error("/entries/0/policy", "entrpy:0.3").hint(), "did you mean 'entropy'?");
  EXPECT_THAT(policy_file_error("/entries/0/policy", "entrpy:0.3").what(), HasSubstr("entries[0].policy: policy"));
  const Error old = policy_file_error("/format", "exeunt.policy/1");
  EXPECT_THAT(old.what(), HasSubstr("got the format 'exeunt.policy/1', want 'exeunt.policy/3'"));
  EXPECT_THAT(old.hint(), HasSubstr("exeunt calibrate"));
}

TEST(PolicyFile, ValuesOutOfRangeAreRefused) {
  EXPECT_THAT(policy_file_error("/weights", "abc").what(), HasSubstr("want a sha256 in hex"));
  EXPECT_THAT(policy_file_error("/default_precision", "fp8").what(), HasSubstr("default_precision"));
  EXPECT_THAT(policy_file_error("/entries", 1).what(), HasSubstr("want a list"));
  EXPECT_THAT(policy_file_error("/entries/0/exits", Json::array()).what(), HasSubstr("want a list of 1 to 128 layers"));
  EXPECT_THAT(policy_file_error("/entries/0/exits", Json({3, 2})).what(), HasSubstr("want increasing layers"));
  EXPECT_THAT(policy_file_error("/entries/0/exits", Json({-1})).what(), HasSubstr("a whole number from 0 to"));
  EXPECT_THAT(policy_file_error("/entries/0/exits", Json({1.5})).what(), HasSubstr("a whole number from 0 to"));
  EXPECT_THAT(policy_file_error("/entries/0/decision_temperature", Json({0})).what(),
              HasSubstr("got 0, want a number above 0"));
  EXPECT_THAT(policy_file_error("/entries/0/decision_temperature", Json({1e300})).what(),
              HasSubstr("finite numbers above 0"));
  EXPECT_THAT(policy_file_error("/entries/0/decision_temperature", Json({"1"})).what(),
              HasSubstr("want a finite number"));
  EXPECT_THAT(policy_file_error("/entries/0/score_temperature", Json({1})).what(),
              HasSubstr("got 1 numbers, want 4, as many as decision temperatures"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/range", Json({5, 0})).what(), HasSubstr("got 5, 0"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/tokenizer", "x").what(), HasSubstr("want a sha256"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/unit", "rows").what(), HasSubstr("unit"));
  EXPECT_THAT(policy_file_error("/entries/0/points", 1).what(), HasSubstr("field 'points': got 1, want a list"));
  EXPECT_THAT(policy_file_error("/entries/0/points/1/max_drop", 0.01).what(),
              HasSubstr("points of increasing max_drop"));
  EXPECT_THAT(policy_file_error("/entries/0/points/0/max_drop", 0).what(), HasSubstr("above 0 and below 1"));
  EXPECT_THAT(policy_file_error("/entries/0/points/0/cost_fraction", 1.5).what(), HasSubstr("from 0 to 1"));
  EXPECT_THAT(policy_file_error("/entries/0/points/0/exit_rates", Json({0.5, 0.5})).what(),
              HasSubstr("a list of 4 shares, one per evaluated exit"));
  EXPECT_THAT(policy_file_error("/entries/0/points/0/exit_rates/1", -0.1).what(), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(policy_file_error("/entries/0/points/0/exit_rates/1", 0.5).what(), HasSubstr("shares that sum to 1"));
  EXPECT_THAT(policy_file_error("/entries/0/points/0/policy", "full").what(), HasSubstr("want the entry's own policy"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/loss", "accuracy").what(), HasSubstr("loss"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/delta", 1).what(), HasSubstr("above 0 and below 1"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/n", 0).what(), HasSubstr("'n'"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/losses", 3000).what(), HasSubstr("from -2000 to 2000"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/fit/data", "x").what(),
              HasSubstr("certificate: fit: field 'data': got \"x\", want a sha256"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/guarantee", "expectation").what(),
              HasSubstr("want \"probability\": that is what ltt-binomial gives"));
  EXPECT_THAT(policy_file_error("/entries/0/certificate/method", "crc").what(), HasSubstr("that is what crc gives"));
}

TEST(PolicyFile, RejectsInvalidHashesTemperaturesAndPoints) {
  EXPECT_THAT(policy_file_error("/entries/0/precision_map", "x").what(),
              HasSubstr("entries[0]: field 'precision_map': got \"x\", want a sha256 in hex"));
  EXPECT_THAT(policy_file_error("/weights", std::string(64, 'g')).what(), HasSubstr("want a sha256 in hex"));
  EXPECT_THAT(policy_file_error("/weights", std::string(71, 'a')).what(),
              HasSubstr("got \"" + std::string(70, 'a') + "\", want"));
  EXPECT_THAT(policy_file_error("/entries/0/score_temperature", Json({1, 1e300, 1, 1})).what(),
              HasSubstr("field 'score_temperature': got inf, want finite numbers above 0"));
  EXPECT_THAT(policy_file_error("/entries/0/score_temperature", Json::array()).what(),
              HasSubstr("field 'score_temperature': got 0 numbers, want one per exit of the model"));
  PolicyFile file = example();
  std::vector<PolicyPoint>& points = file.entries[0].points;
  points.resize(1);
  while (points.size() < 1000)
    points.push_back({parse_policy("entropy:0.4"), 0.01 + 0.0005 * static_cast<double>(points.size()), 0.3});
  EXPECT_NO_THROW((void)parse_policy_file(policy_file_text(file), "p"));
  points.push_back({parse_policy("entropy:0.4"), 0.9, 0.3});
  EXPECT_THAT(error_of([&] { (void)parse_policy_file(policy_file_text(file), "p"); }).what(),
              HasSubstr("field 'points': got 1001, want a list of at most 1000 points"));
}

TEST(PolicyFile, EntryNamesTheTraceThatMadeIt) {
  TraceInfo info;
  info.engine = "cuda/sm_90";
  info.numerics = 3;
  info.precision = "int8";
  info.precision_map = kOther;
  info.max_length = 48;
  info.tokenizer = kHash;
  info.last_head = LastHead::ramp;
  PolicyEntry entry;
  set_origin(entry, info);
  EXPECT_FALSE(entry.certificate);
  entry.certificate.emplace();
  set_origin(entry, info);
  EXPECT_EQ(entry.device, "cuda");
  EXPECT_EQ(entry.engine, "cuda/sm_90");
  EXPECT_EQ(entry.numerics, 3);
  EXPECT_EQ(entry.precision, "int8");
  EXPECT_EQ(entry.precision_map, kOther);
  EXPECT_EQ(entry.certificate->max_length, 48);
  EXPECT_EQ(entry.certificate->tokenizer, kHash);
  EXPECT_EQ(entry.certificate->last_head, LastHead::ramp);
  info.precision_map = "";
  info.engine = "";
  set_origin(entry, info);
  EXPECT_FALSE(entry.precision_map) << "none, and known to be";
  EXPECT_EQ(entry.device, "cpu");
}

TEST(PolicyFile, TakesAsManyExitsAsAModelMayHave) {
  PolicyFile file = example();
  PolicyEntry& entry = file.entries.at(1);
  entry.exits.resize(kMaxExits);
  std::iota(entry.exits.begin(), entry.exits.end(), 1);
  entry.decision_temperature.assign(kMaxExits, 1);
  entry.score_temperature.assign(kMaxExits, 1);
  EXPECT_NO_THROW((void)parse_policy_file(policy_file_text(file), "p"));
  entry.exits.push_back(kMaxExits + 1);
  EXPECT_THAT(error_of([&] { (void)parse_policy_file(policy_file_text(file), "p"); }).what(),
              HasSubstr("got 129, want a list of 1 to 128 layers"));
}

// The lists of fields that reader and writer follow are the tables of the page.
TEST(PolicyFile, IsDocumentedFieldByField) {
  const std::string page = read_text("docs/formats.md"), tables = policy_file_tables();
  EXPECT_NE(page.find(tables), std::string::npos) << "docs/formats.md, policy.json wants:\n" << tables;
}

TEST(PolicyFile, NamesOfLossesAndMethodsRoundTrip) {
  for (const RiskMethod method : {RiskMethod::ltt_binomial, RiskMethod::ltt_hb, RiskMethod::wsr, RiskMethod::crc})
    EXPECT_EQ(method_named(name_of(method)), method);
  EXPECT_EQ(error_of([] { (void)method_named("ltt-binomal"); }).hint(), "did you mean 'ltt-binomial'?");
  EXPECT_EQ(error_of([] { (void)loss_named("x"); }).code(), Code::usage);
  EXPECT_EQ(error_of([] { (void)loss_named(std::string(65, 'x')); }).what(),
            fmt::format("unknown loss '{}'", std::string(64, 'x')));
}

TEST(PolicyFile, IsWrittenUnderALock) {
  const Scratch scratch;
  const auto path = scratch.path() / "policy.json";
  {
    const PolicyLock lock(path);
    const Error error = error_of([&] { const PolicyLock second(path); });
    EXPECT_EQ(error.code(), Code::resources);
    EXPECT_THAT(error.what(), HasSubstr("policy.json: cannot lock: another calibration is using it"));
    EXPECT_EQ(error.hint(), "wait until it is done, or write elsewhere with --out");
    const Error nowhere = error_of([&] { const PolicyLock other(scratch.path() / "none" / "policy.json"); });
    EXPECT_EQ(nowhere.code(), Code::resources);
    EXPECT_THAT(nowhere.what(), HasSubstr("policy.json: cannot lock: No such file or directory"));
    EXPECT_EQ(nowhere.hint(), "choose a folder you may write to");
    lock.write(example());
  }
  EXPECT_EQ(policy_file_text(read_policy_file(path)), policy_file_text(example()));
  EXPECT_NO_THROW(const PolicyLock again(path)) << "the lock goes with its holder";
  size_t left = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(scratch.path())) ++left;
  EXPECT_EQ(left, 1u) << "nothing but the file stays";
}

// Whatever it holds: one that is refused, and one whose only fault comes last.
TEST(PolicyFile, LargestFileTakesItsSizeAndLittleMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  const Scratch scratch;
  const auto filled = [](const std::string& before, const std::string& item, const std::string& after) {
    std::string all = before + item;
    all.reserve(kMaxJsonFile);
    while (all.size() + item.size() + after.size() + 1 < kMaxJsonFile) all += ',' + item;
    return all + after;
  };
  const Json whole = parse_json(policy_file_text(example()), "p");
  const std::string entry = whole.at("entries").at(0).dump();
  Json empty = whole;
  empty["entries"] = Json::array();
  std::string before = empty.dump();
  const size_t at = before.find("\"entries\":[]") + 11;
  const std::string after = before.substr(at);
  before.resize(at);
  for (const std::string& text : {filled("[", "[]", "]"), filled("[", "{}", "]"), filled("[", "1", "]"),
                                  filled(before, "{}", after), filled(before, entry, after)}) {
    const auto path = scratch.write("policy.json", text);
    const long grown = peak_growth([&] { (void)read_policy_file(path); });
    EXPECT_GE(grown, 0) << text.substr(0, 40);
    EXPECT_LE(grown, static_cast<long>(text.size() >> 10) + kAllowance) << text.substr(0, 40);
  }
  scratch.write("policy.json", std::string(kMaxJsonFile + 1, ' '));
  EXPECT_THAT(error_of([&] { (void)read_policy_file(scratch.path() / "policy.json"); }).what(),
              HasSubstr("want at most 16777216"));
}

// As many as fit: long names that differ at their ends make comparing each with each dear.
TEST(PolicyFile, ManyEntriesTakeTimeInProportion) {
  const auto entries = [](size_t count) {
    PolicyFile file;
    file.weights = kHash;
    file.default_precision = "fp32";
    for (size_t i = 0; i < count; ++i) {
      PolicyEntry entry;
      entry.engine = std::string(400, 'e') + std::to_string(10'000 + i);
      entry.precision = "fp32";
      entry.exits = {1};
      entry.decision_temperature = entry.score_temperature = {1};
      entry.policy = parse_policy("entropy:0.2");
      file.entries.push_back(entry);
    }
    return policy_file_text(file);
  };
  EXPECT_LT(growth_exponent(1500, entries, [](const std::string& text) { (void)parse_policy_file(text, "p"); }), 1.5);
}

// The folder may have come from elsewhere, and the link lead anywhere.
TEST(PolicyFile, RejectsSymlinkAsLock) {
  const Scratch scratch;
  const auto elsewhere = scratch.path() / "elsewhere";
  std::filesystem::create_symlink(elsewhere, scratch.path() / ".policy.json.lock");
  EXPECT_THAT(error_of([&] { const PolicyLock lock(scratch.path() / "policy.json"); }).what(),
              HasSubstr("cannot lock"));
  EXPECT_FALSE(std::filesystem::exists(elsewhere));
}

TEST(PolicyFile, OtherFilesInTheFolderAreNotLocked) {
  const Scratch scratch;
  const PolicyLock one(scratch.path() / "a.json");
  EXPECT_NO_THROW(const PolicyLock two(scratch.path() / "b.json"));
}

TEST(PolicyFile, RejectsMissingFolder) {
  const Error error = error_of([] { const PolicyLock lock("/nonexistent/policy.json"); });
  EXPECT_EQ(error.code(), Code::resources);
  EXPECT_EQ(error_of([] { (void)read_policy_file("/nonexistent/policy.json"); }).code(), Code::bad_file);
}

}  // namespace
}  // namespace exeunt
