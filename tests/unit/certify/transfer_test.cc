// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/calibrate_model.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/policy/policy_text.h"
#include "tests/unit/certify/small_model.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

CalibrateOptions options_for(const SmallModel& model) {
  CalibrateOptions options{.run = model.options()};
  options.run.precision = "fp32";
  options.plan.max_drops = {0.2, 0.4};
  return options;
}

// As if the policy of a model had been certified on a machine with other instructions.
PolicyFile certified_elsewhere(const SmallModel& model, const std::string& engine = "cpu/other", uint64_t seed = 42) {
  CalibrateOptions options = options_for(model);
  options.seed = seed;
  (void)calibrate_model(options, quiet());
  PolicyFile file = read_policy_file(model.folder / "policy.json");
  file.entries.at(0).device = device_of(engine);
  file.entries.at(0).engine = engine;
  write_atomically(model.folder / "policy.json", policy_file_text(file));
  return file;
}

TEST(Transfer, CertifiesPolicyOfAnotherEngine) {
  const SmallModel model;
  const PolicyFile before = certified_elsewhere(model);
  const auto resolved = [&] { return resolve(Checkpoint::open(model.folder), {.precision = Precision::fp32}); };
  EXPECT_THAT(resolved().promise, HasSubstr("none (certified on cpu/other, not on cpu/"));

  const Calibrated done = transfer_policy(options_for(model), quiet());
  const PolicyFile after = read_policy_file(model.folder / "policy.json");
  ASSERT_EQ(after.entries.size(), 2U) << "the other engine's entry stays";
  EXPECT_EQ(certificate_json(*after.entries[0].certificate), certificate_json(*before.entries[0].certificate));
  const PolicyEntry& here = after.entries[1];
  EXPECT_EQ(here.engine, engine_name(choose_kernels()));
  EXPECT_EQ(here.exits, before.entries[0].exits);
  EXPECT_EQ(here.decision_temperature, before.entries[0].decision_temperature);
  EXPECT_EQ(here.score_temperature, before.entries[0].score_temperature);
  ASSERT_EQ(here.points.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(here.points[i].max_drop, before.entries[0].points[i].max_drop);
    // Nothing new is chosen: a point of the entry, or full depth where none passes on these rows.
    const PolicySpec& policy = here.points[i].policy;
    EXPECT_TRUE(policy == PolicySpec{} || policy == before.entries[0].points[0].policy ||
                policy == before.entries[0].points[1].policy)
        << str(policy);
  }
  ASSERT_TRUE(here.certificate);
  EXPECT_EQ(here.certificate->certify.row_hashes, before.entries[0].certificate->certify.row_hashes);
  EXPECT_EQ(here.certificate->tries, 2) << "on rows that have certified before";
  EXPECT_TRUE(resolved().certificate);
  EXPECT_THAT(resolved().promise, HasSubstr("at most 20 % of answers to requests differ"));
  EXPECT_EQ(done.calibration.outcomes.size(), 2U);
}

TEST(Transfer, CertifiesGpuPolicyOnCpu) {
  const SmallModel model;
  const PolicyFile before = certified_elsewhere(model, "cuda/sm_90");
  const auto resolved = [&](const EngineTraits& engine) {
    return resolve(Checkpoint::open(model.folder), {.precision = Precision::fp32, .engine = engine});
  };
  const EngineTraits here = engine_traits(Device{}), gpu{.name = "cuda/sm_90", .numerics = before.entries[0].numerics};
  EXPECT_TRUE(resolved(gpu).certificate);
  EXPECT_THAT(resolved(here).promise, HasSubstr("none (certified on cuda/sm_90, not on cpu/"));
  (void)transfer_policy(options_for(model), quiet());
  const PolicyFile after = read_policy_file(model.folder / "policy.json");
  ASSERT_EQ(after.entries.size(), 2U) << "the GPU's entry stays";
  EXPECT_EQ(after.entries[1].device, "cpu");
  EXPECT_TRUE(resolved(here).certificate);
  EXPECT_TRUE(resolved(gpu).certificate);
}

// Another split would certify the policy on rows that chose it.
TEST(Transfer, SplitsRowsByTheSeedOfTheCertificate) {
  const SmallModel model;
  const Certificate before = certified_elsewhere(model, "cpu/other", 7).entries.at(0).certificate.value();
  const Certificate after = transfer_policy(options_for(model), quiet()).calibration.entry.certificate.value();
  EXPECT_EQ(after.fit.row_hashes, before.fit.row_hashes);
  EXPECT_EQ(after.certify.row_hashes, before.certify.row_hashes);
}

TEST(Transfer, TestsEveryGroupAgain) {
  const SmallModel model;
  CalibrateOptions options = options_for(model);
  options.run.data.path = model.scratch.write("many.csv", varied_texts(600)).string();
  options.plan.max_drops = {0.4};
  options.group = "length";
  (void)calibrate_model(options, quiet());
  PolicyFile file = read_policy_file(model.folder / "policy.json");
  const std::vector<CertifiedGroup> before = file.entries.at(0).certificate->groups;
  ASSERT_GT(before.size(), 1U);
  EXPECT_EQ(file.entries[0].certificate->group_by, "length");
  file.entries[0].engine = "cpu/other";
  write_atomically(model.folder / "policy.json", policy_file_text(file));

  options.group.clear();  // the certificate knows
  const Calibrated done = transfer_policy(options, quiet());
  ASSERT_TRUE(done.calibration.entry.certificate);
  const Certificate& here = *done.calibration.entry.certificate;
  EXPECT_EQ(here.group_by, "length");
  ASSERT_EQ(here.groups.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(here.groups[i].name, before[i].name);
    EXPECT_EQ(here.groups[i].rows, before[i].rows);
  }
}

TEST(Transfer, RejectsFileWithoutCertifiedPolicy) {
  const SmallModel model;
  const Error none = error_of([&] { (void)transfer_policy(options_for(model), quiet()); });
  EXPECT_EQ(none.code(), Code::bad_file);
  EXPECT_THAT(none.what(), HasSubstr("no certified policy for fp32 to transfer"));
  EXPECT_FALSE(std::filesystem::exists(model.folder / "policy.json"));
  PolicyFile file = certified_elsewhere(model);
  file.entries.at(0).precision_map = std::string(64, 'a');
  write_atomically(model.folder / "policy.json", policy_file_text(file));
  EXPECT_THAT(error_of([&] { (void)transfer_policy(options_for(model), quiet()); }).what(),
              HasSubstr("another precision.json"));
}

}  // namespace
}  // namespace exeunt
