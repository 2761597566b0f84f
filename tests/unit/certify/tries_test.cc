// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/tries.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

std::vector<uint64_t> rows(uint64_t from, uint64_t to) {
  std::vector<uint64_t> out;
  for (uint64_t i = from; i < to; ++i) out.push_back(i * 0x9e3779b97f4a7c15);
  return out;
}

// Sets the folder that tries are counted in, and puts the old one back.
class StateHome {
 public:
  explicit StateHome(const std::filesystem::path& folder) {
    if (const char* now = std::getenv("XDG_STATE_HOME")) before_ = now;
    ::setenv("XDG_STATE_HOME", folder.c_str(), 1);
  }
  ~StateHome() { before_ ? ::setenv("XDG_STATE_HOME", before_->c_str(), 1) : ::unsetenv("XDG_STATE_HOME"); }
  StateHome(const StateHome&) = delete;
  StateHome& operator=(const StateHome&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(Tries, CountsTriesThatShareARowAcrossModels) {
  const Scratch scratch;
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 100)), 1);
  EXPECT_EQ(count_try(scratch.path(), "b", rows(99, 150)), 2) << "one row in common";
  EXPECT_EQ(count_try(scratch.path(), "c", rows(200, 300)), 1) << "rows of their own";
  EXPECT_EQ(count_try(scratch.path(), "d", rows(0, 300)), 4);
}

TEST(Tries, ModelsOfOtherFamiliesHaveDeltasOfTheirOwn) {
  const Scratch scratch;
  const std::vector<uint64_t> rows = {1, 2, 3};
  const auto tried = [&](const char* test, const char* family, int& others) {
    Ledger ledger;
    const int number = count_try(scratch.path(), test, rows, {.family = family}, &ledger);
    others = ledger.other_models;
    return number;
  };
  int others = -1;
  EXPECT_EQ(tried("a", "first", others), 1);
  EXPECT_EQ(others, 0);
  EXPECT_EQ(tried("b", "second", others), 1);
  EXPECT_EQ(others, 1);
  EXPECT_EQ(tried("c", "first", others), 2);
  EXPECT_EQ(tried("d", "", others), 4) << "one whose family is not known may be of any";
  EXPECT_EQ(tried("e", "second", others), 3);
}

TEST(Tries, NextTryIsKnownBeforeItIsCounted) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  const std::vector<uint64_t> rows = {1, 2, 3};
  EXPECT_EQ(next_try("attach x", rows, {}), 1) << "without a folder";
  EXPECT_EQ(count_try(state_folder(), "attach x int8 false", rows), 1);
  EXPECT_EQ(next_try("attach x", rows, {}), 1) << "the same test again";
  EXPECT_EQ(next_try("attach y", rows, {}), 2);
  EXPECT_EQ(next_try("attach y", rows, {}), 2) << "nothing was written down";
  EXPECT_EQ(next_try("attach y", std::vector<uint64_t>{9}, {}), 1);
}

TEST(Tries, RepeatedTestIsTheSameTry) {
  const Scratch scratch;
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 10)), 1);
  EXPECT_EQ(count_try(scratch.path(), "b", rows(0, 10)), 2);
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 10)), 1);
  EXPECT_EQ(count_try(scratch.path(), "b", rows(0, 10)), 2);
}

// Whoever certifies each precision and keeps the fastest.
TEST(Tries, PrecisionsShareDelta) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  ExitTrace trace = random_trace({.rows = 1000, .exits = 3, .classes = 2});
  CalibrationPlan plan{.max_drops = {0.05}};
  std::vector<int> tries;
  for (const char* precision : {"fp32", "bf16", "int8", "fp32"}) {
    trace.info.precision = precision;
    count_try(split_for_calibration(trace, 1), plan, {});
    tries.push_back(plan.tries);
    trace.logits[0] += 1;
  }
  EXPECT_THAT(tries, testing::ElementsAre(1, 2, 3, 4));
}

// Whoever certifies the best of several has chosen it by the rows.
TEST(Tries, EachOtherModelLookedAtIsAUse) {
  const Scratch scratch;
  const std::vector<uint64_t> held_out = rows(0, 100), certify = rows(20, 80);
  const auto look = [&](const char* weights) {
    return count_try(scratch.path(), fmt::format("look {}", weights), held_out, {.family = "one", .weights = weights});
  };
  const auto certified = [&](const char* test, const char* weights, const char* family = "one") {
    return count_try(scratch.path(), test, certify, {.family = family, .weights = weights});
  };
  for (const char* weights : {"a", "b", "c", "a"}) (void)look(weights);
  EXPECT_EQ(certified("of a", "a"), 3) << "b and c might have been taken";
  EXPECT_EQ(certified("of b", "b"), 3) << "c and the try of a, which is no second use because a was looked at, too";
  (void)look("b");
  EXPECT_EQ(certified("of b, once more", "b"), 4);
  EXPECT_EQ(certified("of another family", "x", "two"), 1);
}

// The user may have chosen the texts of an earlier log that are in a new one, or they are there by chance.
TEST(Tries, FewKnownRowsCountWhereTheyLoseAlone) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  const auto log = [](uint64_t from, uint64_t shared) {  // with the last rows of the log from 0 on
    ExitTrace trace = random_trace({.rows = 1000, .exits = 3, .classes = 2, .seed = static_cast<unsigned>(from)});
    for (uint64_t row = 0; row < trace.rows; ++row) trace.row_hash.push_back(row < shared ? 999 - row : from + row);
    return trace;
  };
  CalibrationPlan plan{.max_drops = {0.05}};
  const auto tried = [&](const ExitTrace& rows) {
    const CalibrationData data = split_for_calibration(rows, 1, kNoReport);
    count_try(data, plan, {});
    for (size_t row = 0; row < plan.known.size(); ++row) EXPECT_EQ(plan.known[row], data.certify.row_hash[row] < 1000);
    return std::pair(plan.tries, std::count(plan.known.begin(), plan.known.end(), true));
  };
  EXPECT_EQ(tried(log(0, 0)), std::pair(1, 0L));
  const auto [tries, known] = tried(log(10000, 20));  // whatever they were for in the first log
  EXPECT_EQ(tries, 1);
  EXPECT_GT(known, 10);
  EXPECT_EQ(tried(log(20000, 500)), std::pair(3, 0L)) << "so many would cost more than the share of a later try";
  EXPECT_EQ(tried(log(10000, 20)), std::pair(1, known)) << "the same test";
  plan.loss = RiskLoss::disagreement;
  plan.method = RiskMethod::wsr;
  EXPECT_EQ(tried(log(30000, 20)), std::pair(4, 0L)) << "no row is left out of a betting bound";
}

// Of another machine nothing is known but what the user says, or a certificate on the same rows.
TEST(Tries, AddsThoseOnOtherMachines) {
  const Scratch scratch;
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 10), {.elsewhere = 2}), 3);
  EXPECT_EQ(count_try(scratch.path(), "b", rows(0, 10)), 4) << "and they are remembered";
  EXPECT_EQ(count_try(scratch.path(), "c", rows(20, 30), {.least = 2}), 2);
  EXPECT_EQ(count_try(scratch.path(), "d", rows(20, 30), {.least = 2}), 2) << "where it is known here, it counts once";
}

TEST(Tries, DigestOfTheLedgerNamesEarlierTries) {
  const Scratch scratch;
  const auto digest = [&](const char* test) {
    Ledger ledger;
    (void)count_try(scratch.path(), test, rows(0, 10), {}, &ledger);
    return ledger.digest;
  };
  EXPECT_EQ(digest("a"), "");
  const std::string one = digest("b"), two = digest("c");
  EXPECT_EQ(one.size(), 64U);
  EXPECT_NE(one, two);
}

// Other tokens of the same texts, by another max-length or tokenizer, are no other texts.
TEST(Tries, KnowsTextsWhateverReadsThem) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  ExitTrace trace = random_trace({.rows = 500, .exits = 3, .classes = 2});
  for (size_t row = 0; row < trace.rows; ++row) {
    trace.row_hash.push_back(row * 0x9e3779b97f4a7c15);
    trace.text_hash.push_back(text_hash_of(fmt::format("A text,  number {}\n", row)));
  }
  CalibrationPlan plan{.max_drops = {0.05}};
  count_try(split_for_calibration(trace, 1), plan, {});
  EXPECT_EQ(plan.tries, 1);
  for (size_t row = 0; row < trace.rows; ++row) {
    trace.row_hash[row] += 7;
    trace.text_hash[row] = text_hash_of(fmt::format(" a text, number {}", row));
    trace.logits[row] += 1;
  }
  count_try(split_for_calibration(trace, 1), plan, {});
  EXPECT_EQ(plan.tries, 2);
  EXPECT_NE(text_hash_of("a", "b"), text_hash_of("a b"));
}

// A try whose share of delta the rows cannot pay for is none.
TEST(Tries, DoesNotCountARefusedSecondTry) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  const ExitTrace trace = random_trace({.rows = 120, .exits = 3, .classes = 2});
  CalibrationPlan plan{.max_drops = {0.05}};
  count_try(split_for_calibration(trace, 1), plan, {});
  for (const uint64_t seed : {2, 3}) {
    const Error error = error_of([&] { count_try(split_for_calibration(trace, seed), plan, {}); });
    EXPECT_THAT(error.what(), testing::HasSubstr("(try 2 on these texts)")) << seed;
  }
}

// Nothing is tested where the rows are too few, so nothing is used up.
TEST(Tries, DoesNotCountTestsWithTooFewRows) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  const CalibrationData data = split_for_calibration(random_trace({.rows = 200}), 1);
  CalibrationPlan plan{.max_drops = {0.01}};
  EXPECT_EQ(error_of([&] { count_try(data, plan, {}); }).code(), Code::failure);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "exeunt" / "tries"));
  plan.max_drops = {0.05};
  count_try(data, plan, {});
  EXPECT_EQ(plan.tries, 1);
}

// The last exit in fp32 is the reference, whether it is written down a second time or not.
TEST(Tries, ReferenceInTheTraceDoesNotMakeANewTry) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  ExitTrace trace = random_trace({.rows = 500, .exits = 3, .classes = 2});
  CalibrationPlan plan{.max_drops = {0.05}};
  count_try(split_for_calibration(trace, 1), plan, {});
  set_reference(trace, trace);
  count_try(split_for_calibration(trace, 1), plan, {});
  EXPECT_EQ(plan.tries, 1);
}

TEST(Tries, CountsDamagedEntry) {
  const Scratch scratch;
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 10)), 1);
  scratch.write("tries/x.safetensors", "no tensors");
  EXPECT_EQ(count_try(scratch.path(), "b", rows(0, 10)), 3);
}

TEST(Tries, RejectsUnreadableSalt) {
  const Scratch scratch;
  for (const char* damaged : {"", "17", "17 x\n", "-1 5\n", "17 18446744073709551616\n"}) {
    scratch.write("salt", damaged);
    const Error error = error_of([&] { (void)count_try(scratch.path(), "a", rows(0, 10)); });
    EXPECT_EQ(error.code(), Code::bad_file) << damaged;
    EXPECT_THAT(error.what(), testing::HasSubstr("want two numbers")) << damaged;
  }
}

TEST(Tries, SaltsRowHashes) {
  const Scratch one, two;
  (void)count_try(one.path(), "a", rows(0, 10));
  (void)count_try(two.path(), "a", rows(0, 10));
  const auto bytes = [](const std::filesystem::path& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / "tries")) {
      std::ifstream file(entry.path(), std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    }
    return std::string();
  };
  EXPECT_NE(bytes(one.path()), bytes(two.path())) << "each user has a salt of their own";
}

TEST(Tries, CountsConcurrentTries) {
  const Scratch scratch;
  std::vector<int> numbers(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < numbers.size(); ++i)
      threads.emplace_back([&, i] { numbers[i] = count_try(scratch.path(), std::to_string(i), rows(0, 10)); });
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_THAT(numbers, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Tries, NoticesUnwritableStateFolder) {
  const Scratch scratch;
  scratch.write("file", "");
  const Error error = error_of([&] { (void)count_try(scratch.path() / "file" / "x", "a", rows(0, 1)); });
  EXPECT_EQ(error.code(), Code::resources);
}

TEST(Tries, DistinguishesPlansAndParts) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  ExitTrace trace = random_trace({.rows = 500, .exits = 3, .classes = 2});
  for (size_t row = 0; row < trace.rows; ++row) trace.row_hash.push_back(row * 0x9e3779b97f4a7c15);
  const auto tried = [](const ExitTrace& rows, uint64_t seed, CalibrationPlan plan) {
    count_try(split_for_calibration(rows, seed), plan, {});
    return plan.tries;
  };
  const CalibrationPlan plan{.max_drops = {0.05}};
  EXPECT_EQ(tried(trace, 1, plan), 1);
  EXPECT_EQ(tried(trace, 1, plan), 1) << "the same test";
  EXPECT_EQ(tried(trace, 1, {.max_drops = {0.05}, .exits = {1, 2, 3}}), 1) << "all exits, named";
  EXPECT_EQ(tried(trace, 2, plan), 2) << "another split";
  EXPECT_EQ(tried(trace, 1, {.max_drops = {0.1}}), 3) << "another plan";
  ExitTrace other = trace;
  other.logits[0] += 1;
  for (float& logit : other.logits) logit *= 2;
  EXPECT_EQ(tried(other, 1, plan), 4) << "another model";
  EXPECT_EQ(tried(trace, 1, {.max_drops = {0.05}, .delta = 0.01}), 5) << "another confidence";
  for (uint64_t& hash : other.row_hash) hash += 1;
  EXPECT_EQ(tried(other, 1, plan), 1) << "other texts";
}

TEST(Tries, IdentifiesRowsWithoutHashesByTheirData) {
  const Scratch scratch;
  const StateHome home(scratch.path());
  ExitTrace trace = random_trace({.rows = 500, .exits = 3, .classes = 2});
  trace.info.data = "one";
  CalibrationPlan plan{.max_drops = {0.05}};
  count_try(split_for_calibration(trace, 1), plan, {});
  EXPECT_EQ(plan.tries, 1);
  count_try(split_for_calibration(trace, 2), plan, {});
  EXPECT_EQ(plan.tries, 2);
  trace.info.data = "two";
  for (float& logit : trace.logits) logit *= 2;
  count_try(split_for_calibration(trace, 1), plan, {});
  EXPECT_EQ(plan.tries, 1);
}

TEST(Tries, NoticesTriesThatCannotBeCounted) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "file") << "x";
  const StateHome home(scratch.path() / "file");
  CalibrationPlan plan{.max_drops = {0.05}};
  std::string said;
  Observer observer;
  observer.warning = [&](const std::string& text) { said = text; };
  plan.or_full_depth = true;
  const CalibrationData data = split_for_calibration(random_trace({.rows = 200}), 1);
  count_try(data, plan, observer);
  EXPECT_EQ(plan.tries, 1);  // for its share of delta
  EXPECT_THAT(said, testing::HasSubstr("cannot be counted"));
  EXPECT_EQ(calibrate(data, plan).entry.certificate.value().tries, 0);
}

TEST(Tries, KeepsFilesFromOtherUsers) {
  namespace fs = std::filesystem;
  const Scratch scratch;
  const fs::path folder = scratch.path() / "state";
  const auto modes = [&] {
    std::set<fs::perms> out;
    for (const fs::path& path : {folder, folder / "tries"}) out.insert(fs::status(path).permissions() & fs::perms::all);
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) out.insert(fs::status(entry).permissions() | fs::perms::owner_exec);
    }
    return out;
  };
  const std::vector<uint64_t> rows{1, 2, 3};
  EXPECT_EQ(count_try(folder, "a", rows), 1);
  EXPECT_THAT(modes(), testing::ElementsAre(fs::perms::owner_all));
  // Those that an earlier version let others read.
  fs::permissions(folder, fs::perms(0755));
  for (const auto& entry : fs::recursive_directory_iterator(folder)) fs::permissions(entry, fs::perms(0755));
  EXPECT_EQ(count_try(folder, "b", rows), 2);
  EXPECT_THAT(modes(), testing::ElementsAre(fs::perms::owner_all));
}

}  // namespace
}  // namespace exeunt
