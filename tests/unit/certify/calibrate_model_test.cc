// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/calibrate_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "exeunt/certify/losses.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/profile.h"
#include "exeunt/policy/shadow_log.h"
#include "tests/unit/certify/small_model.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Keeps what was said.
struct Heard {
  std::vector<std::string> notices = {};
  Observer observer = {.notice = [this](const std::string& text) { notices.push_back(text); },
                       .progress = progress_on_stderr(true)};
};

// A model and enough texts for 2 %, with times by which a layer in int8 takes a quarter of one in fp32: no clock
// decides.
struct ManyTexts : SmallModel {
  ManyTexts() {
    data = scratch.write("many.csv", varied_texts(2000)).string();
    Profile times{.device = "made", .tool = "test", .created = "2026-01-01T00:00:00Z"};
    for (const auto& [precision, ms] : {std::pair("fp32", 4.0), {"bf16", 2.0}, {"int8", 1.0}}) {
      ProfileEntry entry{.precision = precision, .threads = 1, .isa = "made", .lengths = {8, 16}};
      entry.embedding_ms = entry.exit_ms = {0, 0};
      entry.layer_ms.assign(3, {ms, ms});
      times.entries.push_back(entry);
    }
    profile = scratch.write("times.json", json_text(profile_json(times))).string();
  }
  [[nodiscard]] CalibrateOptions calibrate() const {
    CalibrateOptions out{.run = options()};
    out.run.precision.clear();
    out.run.profile = profile;
    out.plan.max_drops = {0.02};
    return out;
  }

  std::string profile = {};
};

// Other work on the machine slows all runs of a round: ratios stay, and so does the figure that is shown.
TEST(RunTimes, LoadThatMeetsAllRunsAlikeDoesNotMoveTheSpeedup) {
  const RunTimes quiet_ms = times_of({{8, 8, 8, 8, 8}, {4, 4, 4, 4, 4}, {2, 2, 2, 2, 2}});
  const RunTimes busy_ms = times_of({{8, 24, 16, 8, 40}, {4, 12, 8, 4, 20}, {2, 6, 4, 2, 10}});
  for (const RunTimes& times : {quiet_ms, busy_ms}) {
    CertifiedChoice choice;
    choice.times = times;
    ASSERT_TRUE(choice.speedup());
    EXPECT_DOUBLE_EQ(choice.speedup()->precision, 2);
    EXPECT_DOUBLE_EQ(choice.speedup()->exits, 2);
    EXPECT_DOUBLE_EQ(choice.speedup()->total(), 4);
  }
}

TEST(RunTimes, NoSpeedupWhereRoundsDisagree) {
  CertifiedChoice choice;
  choice.times = times_of({{8, 8, 8, 8, 8}, {4, 4, 4, 4, 4}, {2, 9, 3, 8, 5}});
  EXPECT_FALSE(choice.speedup()) << "the same policy is twice as fast and slower than full depth";
  choice.times = times_of({{8, 8, 8, 8, 8}, {4, 4, 4, 4, 4}, {2, 2, 9, 2, 2}});
  EXPECT_TRUE(choice.speedup()) << "one odd round of five";
}

TEST(CalibrateModel, CertifiesInt8AgainstFp32ByDefault) {
  const ManyTexts model;
  const Calibrated done = calibrate_model(model.calibrate(), quiet());
  EXPECT_EQ(done.setting.precision, Precision::int8);
  EXPECT_EQ(done.calibration.entry.exits, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(done.times.milliseconds.size(), 3U) << "fp32 at full depth, int8 at full depth, the policy";
  const PolicyFile file = read_policy_file(model.folder / "policy.json");
  EXPECT_EQ(file.default_precision, "int8");
  const Resolved runs = resolve(Checkpoint::open(model.folder), {});
  EXPECT_EQ(runs.precision, Precision::int8) << "without being asked";
  ASSERT_TRUE(runs.certificate);
  EXPECT_EQ(runs.certificate->reference, LossReference::fp32);
  EXPECT_EQ(runs.promise,
            "at most 2 % of answers to requests differ from the fp32 model at full depth, confidence 95 %");

  // Counted against fp32 anew, from the rows of the certificate: what was certified is what was lost.
  MeasureOptions again = model.options();
  again.fp32_answers = true;
  const ExitTrace trace = measure(again, quiet()).trace;
  const CalibrationData parts =
      split_for_calibration(trace, *runs.certificate->seed, shares_for(trace, model.calibrate().plan, std::nullopt));
  EXPECT_EQ(rows_sha256(parts.certify), runs.certificate->certify.row_hashes);
  const std::vector<double> losses = LossMeter(parts.certify, RiskLoss::disagreement, {}).measure(runs.policy).losses;
  EXPECT_EQ(std::accumulate(losses.begin(), losses.end(), 0.0), runs.certificate->losses);
}

TEST(CalibrateModel, CertifiesOtherPrecisionsOnlyIfNamedAsALaterTry) {
  const ManyTexts model;
  (void)calibrate_model(model.calibrate(), quiet());
  EXPECT_EQ(read_policy_file(model.folder / "policy.json").entries.size(), 1U);
  CalibrateOptions named = model.calibrate();
  named.run.precision = "fp32";
  EXPECT_EQ(calibrate_model(named, quiet()).calibration.entry.certificate->tries, 2);
  const PolicyFile file = read_policy_file(model.folder / "policy.json");
  EXPECT_EQ(file.entries.size(), 2U);
  EXPECT_EQ(file.default_precision, "int8") << "the choice stays the default";
  named.seed = 7;
  EXPECT_EQ(calibrate_model(named, quiet()).calibration.entry.certificate->tries, 3)
      << "another split of the same texts";
}

TEST(GroupsOf, ReadsAColumnOfTheUsersData) {
  const Scratch scratch;
  CalibrateOptions options{.group = "topic"};
  options.run.data.path = scratch.write("t.csv", "text,label,topic\na,x,art\nb,y,law\nc,x,art\n").string();
  options.run.data.columns.labels = {"x", "y"};
  Measured measured;
  measured.trace.index = {2, 0, 1};
  const GroupPlan plan = groups_of(options, measured);
  EXPECT_EQ(plan.by, "topic");
  EXPECT_THAT(plan.values, ElementsAre("art", "art", "law"));
  measured.trace.index = {0, 7};
  EXPECT_THAT(error_of([&] { (void)groups_of(options, measured); }).what(),
              testing::EndsWith("t.csv: has no row 7, which the trace has"));
}

TEST(GroupsOf, NeedsDataOnlyForAColumn) {
  for (const char* by : {"", "label", "length"}) {
    const GroupPlan plan = groups_of({.group = by}, {});
    EXPECT_EQ(plan.by, by);
    EXPECT_THAT(plan.values, IsEmpty());
  }
  CalibrateOptions none{.group = "topic"}, task = none, unlabelled = none;
  task.run.data = {.task = "sst2", .path = "x.csv"};
  unlabelled.run.data.path = "x.csv";
  unlabelled.unlabelled = "y.csv";
  for (const CalibrateOptions& options : {none, task, unlabelled}) {
    const Error error = error_of([&] { (void)groups_of(options, {}); });
    EXPECT_EQ(error.code(), Code::usage);
    EXPECT_STREQ(error.what(), "--group: the column 'topic' is read from a file of your own");
    EXPECT_EQ(error.hint(), "name it with --data alone, or group by label or length");
  }
}

TEST(ValueRanges, FitTheModel) {
  EXPECT_NO_THROW(require_value_range(false, {}, {}));
  EXPECT_NO_THROW(require_value_range(true, {{0, 5}}, {{0, 5}}));
  EXPECT_NO_THROW(require_value_range(true, {}, {{0, 4}}));
  EXPECT_STREQ(error_of([] {
                 require_value_range(false, {}, {{0, 1}});
               }).what(),
               "--range: the model predicts classes, which have no range");
  EXPECT_STREQ(error_of([] {
                 require_value_range(true, {{0, 5}}, {{0, 4}});
               }).what(),
               "--range: got 0 to 4, and the model's values are from 0 to 5");
}

TEST(RareAnswers, AreNoticedWhereAllOfThemCouldChange) {
  PolicyEntry entry;
  entry.certificate.emplace();
  entry.certificate->loss = RiskLoss::disagreement;
  entry.certificate->max_drop = 0.01;
  const auto notices = [&](std::vector<int64_t> answers, const std::vector<std::string>& labels) {
    entry.certificate->answers = std::move(answers);
    Heard heard;
    report_rare_answers(entry, labels, heard.observer);
    return heard.notices;
  };
  EXPECT_THAT(notices({990, 10, 0}, {"a", "b", "c"}),
              ElementsAre("'b' is 1.0 % of the answers, and 1 % may differ: all of them could change within the "
                          "promise; 'exeunt calibrate --group label' promises each class"));
  EXPECT_THAT(notices({989, 11}, {"a", "b"}), IsEmpty());
  EXPECT_THAT(notices({5, 995}, {"a", "b"}), Contains(StartsWith("'a' is 0.5 % of the answers")));
  EXPECT_THAT(notices({1}, {"a"}), IsEmpty());
  EXPECT_THAT(notices({990, 10}, {"a", "b", "c"}), IsEmpty()) << "not counted";
  std::vector<int64_t> ten(10, 1000), eleven(11, 1000);
  ten[3] = eleven[3] = 1;
  EXPECT_THAT(notices(ten, std::vector<std::string>(10, "l")), testing::SizeIs(1));
  EXPECT_THAT(notices(eleven, std::vector<std::string>(11, "l")), IsEmpty()) << "too many labels";
  entry.certificate->group_by = "label";
  EXPECT_THAT(notices({990, 10}, {"a", "b"}), IsEmpty()) << "promised for each already";
  entry.certificate->group_by.clear();
  entry.certificate->loss = RiskLoss::zero_one_drop;
  EXPECT_THAT(notices({990, 10}, {"a", "b"}), IsEmpty());
}

// Two exits, both of which answer the first label to ten rows.
TEST(Majority, IsCountedOnTheRowsWithALabel) {
  const auto notices = [](std::vector<float> gold) {
    ExitTrace trace;
    trace.rows = 10;
    trace.exits = trace.width = 2;
    trace.info.labels = {"a", "b"};
    trace.info.layers = {1, 2};
    for (int i = 0; i < 20; ++i) trace.logits.insert(trace.logits.end(), {1, 0});
    trace.gold = std::move(gold);
    Heard heard;
    report_majority(trace, heard.observer);
    return heard.notices;
  };
  const float none = std::nanf("");
  EXPECT_THAT(notices({0, 0, 0, 1, none, none, none, none, none, none}),
              ElementsAre("the model is no better than answering 'a' to every text: 3 of 4 answers at full depth are "
                          "correct, against 3; a promise about changed answers does not make it useful"));
  EXPECT_THAT(notices({1, 1, 1, 1, 1, 0, 0, 0, none, none}), Contains(HasSubstr("3 of 8")));
  EXPECT_THAT(notices(std::vector<float>(10, none)), IsEmpty());
}

TEST(CalibrateModel, PolicyOfAnotherPrecisionMapHasNoPromise) {
  const ManyTexts model;
  (void)calibrate_model(model.calibrate(), quiet());
  const PolicySpec certified = resolve(Checkpoint::open(model.folder), {}).policy;
  model.keep_wider({{"layer.1.ffn1", Precision::fp32}, {"layer.2.ffn1", Precision::fp32}});
  const Resolved runs = resolve(Checkpoint::open(model.folder), {});
  EXPECT_EQ(runs.policy, certified);
  EXPECT_FALSE(runs.certificate);
  EXPECT_THAT(runs.notices, Contains(testing::ContainsRegex("promise: none .certified with .*precision.json.*, running "
                                                            "with precision.json [0-9a-f]{12}")));
}

TEST(CalibrateModel, RejectsProfileWithoutTimesOfAPrecision) {
  const ManyTexts model;
  Profile times = read_profile(model.profile, 3);
  std::erase_if(times.entries, [](const ProfileEntry& entry) { return entry.precision != "fp32"; });
  CalibrateOptions options = model.calibrate();
  options.run.profile = model.scratch.write("fewer.json", json_text(profile_json(times))).string();
  const Error error = error_of([&] { (void)calibrate_model(options, quiet()); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("has no times in "));
}

TEST(Measure, StoresFp32AnswersBesideAnotherPrecision) {
  const SmallModel model;
  MeasureOptions options = model.options();
  EXPECT_THAT(measure(options, quiet()).trace.reference, IsEmpty());
  options.fp32_answers = true;
  const ExitTrace int8 = measure(options, quiet()).trace;
  options.precision = "fp32";
  const ExitTrace fp32 = measure(options, quiet()).trace;
  EXPECT_THAT(fp32.reference, IsEmpty()) << "its last exit has them";
  ASSERT_EQ(int8.reference.size(), int8.rows * 2);
  for (size_t row = 0; row < fp32.rows; ++row) {
    const auto last = fp32.at(row, fp32.exits - 1);
    EXPECT_THAT(int8.full_depth(row), ElementsAre(last[0], last[1]));
  }
}

// A model that is certified, and a log of what its server drew: the rows `order` of some texts, one each minute. Of the
// rows from `changed` on full depth has another answer than any exit; if named, where it had this one.
struct ServedModel : SmallModel {
  ServedModel() {
    options_.run.data.path = scratch.write("many.csv", varied_texts(600)).string();
    options_.plan.max_drops = {0.2};
    options_.plan.unit = CertifiedUnit::texts;
    (void)calibrate_model(options_, quiet());
    MeasureOptions run = options_.run;
    run.fp32_answers = true;
    trace_ = measure(run, quiet()).trace;
  }
  [[nodiscard]] CalibrateOptions from_server(const std::vector<size_t>& order, size_t changed = SIZE_MAX,
                                             std::optional<int> answer = {}) const {
    const std::filesystem::path path = scratch.path() / "shadows.jsonl";
    std::filesystem::remove(path);
    ShadowLogHead head;
    static_cast<TraceInfo&>(head) = trace_.info;
    head.precision_map = "";
    head.outputs = trace_.width;
    ShadowLogWriter log(path, head);
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t row = order[i];
      ShadowLogRow line{.time = fmt::format("2026-03-01T{:02}:{:02}:00Z", i / 60, i % 60),
                        .row_hash = hash_text(trace_.row_hash[row]),
                        .tokens = trace_.lengths[row]};
      for (int exit = 0; exit < trace_.exits; ++exit)
        line.logits.insert(line.logits.end(), trace_.at(row, exit).begin(), trace_.at(row, exit).end());
      line.reference.assign(trace_.full_depth(row).begin(), trace_.full_depth(row).end());
      const bool here = !answer || *answer == best_label(trace_.info, trace_.full_depth(row));
      if (i >= changed && i % 3 > 0 && here) std::swap(line.reference.front(), line.reference.back());
      EXPECT_TRUE(log.write(line));
    }
    CalibrateOptions out{.run = {.model = folder.string(), .from_server = path.string()}};
    out.plan.max_drops = {0.2};
    return out;
  }
  [[nodiscard]] std::vector<size_t> in_order() const {
    std::vector<size_t> order(trace_.rows);
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }

 private:
  CalibrateOptions options_{.run = options()};
  ExitTrace trace_;
};

// What a server drew are requests, whatever the certificate before counted.
TEST(CalibrateModel, CountsRequestsOfAServerLog) {
  const ServedModel model;
  std::vector<size_t> order;
  for (const size_t row : model.in_order()) order.insert(order.end(), 1 + row % 2, row);
  CalibrateOptions again = model.from_server(order);
  const Certificate kept = *calibrate_model(again, quiet()).calibration.entry.certificate;
  EXPECT_EQ(kept.unit, CertifiedUnit::requests);
  EXPECT_GT(kept.rows, kept.distinct) << "repeats count";
  EXPECT_EQ(kept.reference, LossReference::fp32);
  again.plan.unit = CertifiedUnit::texts;
  EXPECT_EQ(calibrate_model(again, quiet()).calibration.entry.certificate->unit, CertifiedUnit::texts);
}

TEST(CalibrateModel, TakesTheLastTextsOfAServerLog) {
  const ServedModel model;
  CalibrateOptions options = model.from_server(model.in_order());
  const auto rows = [&] {
    const CalibrationData data = calibrate_model(options, quiet()).data;
    return data.fit.rows + data.certify.rows + data.report.rows;
  };
  EXPECT_EQ(rows(), 600U);
  options.run.since = "2026-03-01";
  EXPECT_EQ(rows(), 600U);
  options.run.since = "2026-03-01T06:40:00Z";
  EXPECT_EQ(rows(), 200U);
  options.run.since = "2026-03-02";
  EXPECT_THAT(error_of([&] { (void)rows(); }).what(), HasSubstr("the last is of 2026-03-01T09:59:00Z"));
  options.run.since = {};
  options.run.last = 200;
  EXPECT_EQ(rows(), 200U);
  options.run.last = 1000;
  EXPECT_EQ(rows(), 600U);
}

// After an alarm, a log with the good past would certify it once more.
TEST(CalibrateModel, RefusesAServerLogOfTrafficThatChanged) {
  const ServedModel model;
  CalibrateOptions options = model.from_server(model.in_order(), 550);  // 33 of 600 lose more
  const Error error = error_of([&] { (void)calibrate_model(options, quiet()); });
  EXPECT_EQ(error.code(), Code::failure);
  EXPECT_THAT(error.what(), HasSubstr("the traffic has changed: of the last "));
  EXPECT_THAT(error.hint(), HasSubstr("--last "));
  options.run.last = 550;  // with the change, too
  EXPECT_EQ(error_of([&] { (void)calibrate_model(options, quiet()); }).code(), Code::failure);
  const CalibrateOptions steady = model.from_server(model.in_order());
  EXPECT_EQ(calibrate_model(steady, quiet()).calibration.entry.certificate->tries, 2)
      << "none was spent by what was refused";
}

// Of the texts that full depth does not call so, nothing is promised, unless both sides are.
TEST(CalibrateModel, RefusesAChangeOfTheTextsThatThePromiseIsAboutAlone) {
  const ServedModel model;
  CalibrateOptions options = model.from_server(model.in_order(), 400, 0);  // the last ones are called so too often
  const std::vector<std::string> labels = Checkpoint::open(options.run.model).exits().labels;
  const auto refused = [&] { return std::string(error_of([&] { (void)calibrate_model(options, quiet()); }).what()); };
  options.plan.loss = loss_named("missed:" + labels[1]);
  EXPECT_THAT(refused(), HasSubstr(fmt::format("texts that full depth calls '{}'", labels[1])));
  options.plan.loss = loss_named("missed:" + labels[0]);
  EXPECT_GT(calibrate_model(options, quiet()).calibration.outcomes.front().rows, 0);
  options.plan.loss->max_false = 0.2;
  EXPECT_THAT(refused(), HasSubstr(fmt::format("texts that full depth does not call '{}'", labels[0])));
}

// A model of several labels. Two thirds of the rows have its first label, those with the higher logits; none has its
// second.
struct SeveralModel : SmallModel {
  SeveralModel() {
    ExitLayout exits = Checkpoint::open(folder).exits();
    exits.problem = Problem::multi_label;
    exits.labels = {"first", "second"};
    scratch.write("model/exits.json", json_text(exits_json(exits)));
    Json manifest = read_json(folder / "manifest.json");
    manifest["files"].erase("exits.json");
    scratch.write("model/manifest.json", manifest.dump());
    MeasureOptions run = options();
    run.data.path = scratch.write("texts.csv", varied_texts(1200)).string();
    run.precision = "fp32";
    const ExitTrace trace = measure(run, quiet()).trace;
    std::vector<float> logits;
    for (size_t row = 0; row < trace.rows; ++row) logits.push_back(trace.full_depth(row)[0]);
    std::sort(logits.begin(), logits.end());
    const float border = logits[logits.size() / 3];  // a third of the rows lacks the label
    std::string csv = "text,label\n";
    const std::string texts = read_text(run.data.path);
    size_t at = texts.find('\n') + 1;
    for (size_t row = 0; row < trace.rows; ++row) {
      const size_t end = texts.find('\n', at);
      csv += texts.substr(at, end - at) + (trace.full_depth(row)[0] > border ? ",first\n" : ",\n");
      at = end + 1;
    }
    data = scratch.write("own.csv", csv).string();
  }
  [[nodiscard]] CalibrateOptions calibrate() const {
    CalibrateOptions out{.run = {.model = folder.string(), .data = {.path = data}, .precision = "fp32"}};
    out.plan.max_drops = {0.1};
    return out;
  }
  [[nodiscard]] std::vector<float> stored() const { return Checkpoint::open(folder).exits().logit_thresholds; }
};

TEST(CalibrateModel, FitsThresholdsOnTheFitPartAndCertifiesWithThem) {
  const SeveralModel model;
  (void)calibrate_model(model.calibrate(), quiet());
  EXPECT_TRUE(model.stored().empty());
  const std::string before = read_policy_file(model.folder / "policy.json").weights;
  CalibrateOptions options = model.calibrate();
  options.thresholds = "fit";
  options.report = true;
  Heard heard;
  const Calibrated done = calibrate_model(options, heard.observer);
  ASSERT_EQ(done.logit_thresholds.size(), 2U);
  EXPECT_EQ(model.stored(), done.logit_thresholds);
  EXPECT_EQ(done.logit_thresholds[1], 0) << "no row has the second label";
  EXPECT_THAT(heard.notices, Contains(HasSubstr("threshold of 'second': stays 0.5; 0 texts with it")));
  EXPECT_THAT(heard.notices, Contains(HasSubstr("thresholds fitted on ")));
  // On rows that had no say, the label is told apart nearly always.
  const ExitTrace& report = done.data.report;
  size_t right = 0;
  for (size_t row = 0; row < report.rows; ++row)
    right += (report.full_depth(row)[0] > done.logit_thresholds[0]) == (report.gold[2 * row] == 1) ? 1 : 0;
  EXPECT_GT(static_cast<double>(right), 0.95 * static_cast<double>(report.rows));
  EXPECT_EQ(fit_thresholds(done.data.fit)[0].logit, done.logit_thresholds[0]) << "and no other row chose it";
  // What runs, runs with them and keeps the promise; the old policy was for another model.
  const Checkpoint opened = Checkpoint::open(model.folder);
  const Resolved runs = resolve(opened, {.precision = Precision::fp32});
  EXPECT_TRUE(runs.certificate);
  EXPECT_EQ(read_policy_file(model.folder / "policy.json").weights, weights_sha256(opened));
  EXPECT_NE(before, weights_sha256(opened));
  EXPECT_EQ(measure(model.calibrate().run, quiet()).trace.info.logit_thresholds, done.logit_thresholds);
}

TEST(CalibrateModel, UsesGivenThresholdsAndWritesNoneWithoutCertificate) {
  const SeveralModel model;
  CalibrateOptions options = model.calibrate();
  options.thresholds = "second=0.25";
  options.plan.max_drops = {0.0001};  // takes more rows than there are
  EXPECT_THROW((void)calibrate_model(options, quiet()), Error);
  EXPECT_TRUE(model.stored().empty());
  options.plan.max_drops = {0.1};
  EXPECT_THAT(calibrate_model(options, quiet()).logit_thresholds, ElementsAre(0, logit_of(0.25)));
  EXPECT_THAT(model.stored(), ElementsAre(0, logit_of(0.25)));
  options.thresholds = "0.5";
  EXPECT_THAT(calibrate_model(options, quiet()).logit_thresholds, IsEmpty());
  EXPECT_THAT(model.stored(), IsEmpty());

  const auto refusal = [&](auto&& change) {
    CalibrateOptions bad = model.calibrate();
    bad.thresholds = "fit";
    change(bad);
    const Error error = error_of([&] { (void)calibrate_model(bad, quiet()); });
    EXPECT_EQ(error.code(), Code::usage);
    return std::string(error.what());
  };
  EXPECT_THAT(refusal([&](CalibrateOptions& o) { o.out = (model.scratch.path() / "p.json").string(); }),
              HasSubstr("they are changed in the model"));
  EXPECT_THAT(refusal([](CalibrateOptions& o) { o.thresholds = "third=0.5"; }), HasSubstr("no label 'third'"));
  EXPECT_THAT(refusal([](CalibrateOptions& o) {
                o.unlabelled = o.run.data.path;
                o.run.data.path.clear();
              }),
              HasSubstr("the rows have no labels"));
  const SmallModel classes;
  EXPECT_THAT(refusal([&](CalibrateOptions& o) { o.run = classes.options(); }), HasSubstr("gives one answer"));
  EXPECT_TRUE(model.stored().empty());
}

// As a shadow log gives it: without labels, of a model that does not tell the range of its values.
class UnlabelledRegression : public ::testing::Test {
 protected:
  UnlabelledRegression() {
    ::setenv("XDG_STATE_HOME", (scratch_.path() / "state").c_str(), 1);
    trace_ = random_trace({.rows = 900, .exits = 3, .classes = 1});
    for (float& gold : trace_.gold) gold = NAN;
    options_.run.model = (scratch_.path() / "values.safetensors").string();
    options_.out = (scratch_.path() / "policy.json").string();
    options_.plan.max_drops = {0.1};
    write_trace(options_.run.model, trace_);
  }

  Scratch scratch_;
  ExitTrace trace_;
  CalibrateOptions options_;
  Heard heard_;
};

TEST_F(UnlabelledRegression, UsesRangeOfFullDepthOnFitPartWithNotice) {
  const Calibrated done = calibrate_model(options_, heard_.observer);
  const ExitTrace& fit = done.data.fit;
  float low = INFINITY, high = -INFINITY;
  for (size_t row = 0; row < fit.rows; ++row) {
    low = std::min(low, fit.full_depth(row)[0]);
    high = std::max(high, fit.full_depth(row)[0]);
  }
  EXPECT_THAT(done.calibration.entry.certificate->range, ElementsAre(low, high));
  EXPECT_THAT(heard_.notices,
              Contains(fmt::format("range of the values: {:g} to {:g}, from the full-depth answers of {} "
                                   "texts; --range names another",
                                   low, high, fit.rows)));
}

TEST_F(UnlabelledRegression, UsesGivenRange) {
  options_.range = {-10, 10};
  const Calibrated done = calibrate_model(options_, heard_.observer);
  EXPECT_THAT(done.calibration.entry.certificate->range, ElementsAre(-10, 10));
  EXPECT_THAT(heard_.notices, testing::Not(Contains(HasSubstr("range of the values"))));
  const SmallModel classes;
  CalibrateOptions options{.run = classes.options()};
  options.plan.max_drops = {0.2};
  options.range = {0, 1};
  EXPECT_EQ(error_of([&] { (void)calibrate_model(options, quiet()); }).code(), Code::usage);
}

}  // namespace
}  // namespace exeunt
