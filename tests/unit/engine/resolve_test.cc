// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/resolve.h"

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/profile.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kImported = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";

// A folder of ours with a policy.json whose one entry was certified in fp32 on this engine, under what runs by default.
struct CertifiedFolder {
  CertifiedFolder() {
    (void)write_exeunt_folder(Checkpoint::open(kImported), path);
    const Checkpoint model = Checkpoint::open(path);
    PolicyEntry entry{.engine = engine_name(choose_kernels()),
                      .numerics = kNumerics,
                      .precision = "fp32",
                      .exits = {1, 3},
                      .decision_temperature = {2, 1, 0.5F},
                      .score_temperature = {1, 1, 3},
                      .policy = parse_policy("entropy:0.1")};
    entry.points = {{entry.policy, 0.01, 0.5, {0.25F, 0.75F}}, {parse_policy("entropy:0.3"), 0.02, 0.4}};
    Certificate certificate;
    certificate.max_drop = 0.01;
    certificate.delta = 0.05;
    certificate.rows = 100;
    certificate.fit = certificate.certify = {.data = std::string(64, 'a'), .rows = 100};
    certificate.max_length = 48;
    certificate.tokenizer = tokenizer_sha256(path);
    certificate.last_head = LastHead::final;
    entry.certificate = certificate;
    file = {.weights = weights_sha256(model), .default_precision = "fp32", .entries = {entry}};
    save();
  }
  void save() const { write_atomically(path / "policy.json", policy_file_text(file)); }
  PolicyEntry& entry() { return file.entries.front(); }
  [[nodiscard]] Resolved run(const RunRequest& request = {}) const { return resolve(Checkpoint::open(path), request); }

  Scratch scratch = Scratch(quick_parent());
  std::filesystem::path path = scratch.path() / "model";
  PolicyFile file = {};
};

TEST(Resolve, NoticesPolicyThatNeverLeavesEarly) {
  const Checkpoint model = Checkpoint::open(kImported);
  EXPECT_THAT(resolve(model, {.policy = "patience:99"}).notices, ElementsAre(HasSubstr("no text can leave early")));
  EXPECT_THAT(resolve(model, {.policy = "patience:1"}).notices, IsEmpty());
  EXPECT_THAT(resolve(model, {.policy = "patience:1", .exits = {1, 3}}).notices,
              ElementsAre(HasSubstr("more than 2 exits, and 2 are")));
}

TEST(Resolve, RunsModelPolicyUnderItsCertificate) {
  const CertifiedFolder folder;
  const Resolved what = folder.run();
  EXPECT_EQ(str(what.policy), "entropy:0.1");
  EXPECT_EQ(what.policy.exits, (std::vector<int>{1, 3}));
  EXPECT_EQ(what.policy.temperature, (std::vector<float>{2, 1, 0.5F}));
  EXPECT_EQ(what.policy.score_temperature, (std::vector<float>{1, 1, 3}));
  EXPECT_EQ(what.exit_rates, (std::vector<float>{0.25F, 0.75F}));
  EXPECT_EQ(what.max_length, 48);
  EXPECT_EQ(what.precision, Precision::fp32);
  ASSERT_TRUE(what.certificate);
  EXPECT_EQ(what.promise,
            "at most 1 % of answers to distinct texts differ from the fp32 model at full depth, confidence 95 %");
  EXPECT_THAT(what.notices, ElementsAre(HasSubstr("policy entropy:0.1; promise: " + what.promise)));
}

// A rule in words is measured and served with the same exits and temperatures.
TEST(Resolve, ExplicitPolicyUsesCalibratedExitsAndTemperatures) {
  const CertifiedFolder folder;
  const Resolved other = folder.run({.policy = "confidence:0.9"});
  EXPECT_EQ(other.policy.exits, (std::vector<int>{1, 3}));
  EXPECT_EQ(other.policy.temperature, (std::vector<float>{2, 1, 0.5F}));
  EXPECT_EQ(other.policy.score_temperature, (std::vector<float>{1, 1, 3}));
  EXPECT_FALSE(other.certificate);
  EXPECT_EQ(other.promise, "none (confidence:0.9 is not one of the certified policies)");
  const Resolved point = folder.run({.policy = "entropy:0.3"});
  ASSERT_TRUE(point.certificate);
  EXPECT_EQ(point.certificate->max_drop, 0.02);
  EXPECT_THAT(point.promise, HasSubstr("at most 2 % of answers"));
  const Resolved fewer = folder.run({.policy = "entropy:0.3", .exits = {3}});
  EXPECT_EQ(fewer.policy.exits, (std::vector<int>{3}));
  EXPECT_FALSE(fewer.certificate);
}

TEST(Resolve, ChecksAndNamesEveryCondition) {
  const auto promise = [](auto&& change, const RunRequest& request = {}) {
    CertifiedFolder folder;
    change(folder.entry());
    folder.save();
    const Resolved what = folder.run(request);
    EXPECT_EQ(str(what.policy), "entropy:0.1") << "still runs";
    EXPECT_FALSE(what.certificate);
    EXPECT_THAT(what.notices, Contains(HasSubstr(what.promise)));
    return what.promise;
  };
  EXPECT_EQ(promise([](PolicyEntry&) {}, {.max_length = 64}), "none (certified with max-length 48, running with 64)");
  EXPECT_THAT(promise([](PolicyEntry& e) { e.certificate->tokenizer = std::string(64, 'b'); }),
              HasSubstr("none (certified with tokenizer bbbbbbbbbbbb, running with "));
  EXPECT_EQ(promise([](PolicyEntry& e) { e.certificate->last_head = LastHead::ramp; }),
            "none (certified with the last layer's ramp head, running with its final head)");
  EXPECT_EQ(promise([](PolicyEntry& e) { e.engine = "cpu/other"; }),
            fmt::format("none (certified on cpu/other, not on {}; 'exeunt calibrate --transfer' certifies it here)",
                        engine_name(choose_kernels())));
  EXPECT_THAT(promise([](PolicyEntry& e) { e.numerics = kNumerics + 1; }),
              HasSubstr(fmt::format("version {} of the arithmetic", kNumerics + 1)));
  EXPECT_EQ(promise([](PolicyEntry& e) { e.precision_map = std::string(64, 'c'); }),
            "none (certified with precision.json cccccccccccc, running with no precision.json)");
  EXPECT_EQ(promise([](PolicyEntry& e) { e.certificate.reset(); }), "none (not certified)");
}

// A file that the user names for a model with another precision.json: its policy runs, its promise does not.
TEST(Resolve, NamedFileOfOtherPrecisionMapHasNoPromise) {
  CertifiedFolder folder;
  folder.entry().precision_map = std::string(64, 'c');
  folder.save();
  const Resolved what = folder.run({.policy = (folder.path / "policy.json").string()});
  EXPECT_EQ(str(what.policy), "entropy:0.1");
  EXPECT_FALSE(what.certificate);
  EXPECT_THAT(what.notices, ElementsAre(HasSubstr("promise: none (certified with precision.json cccccccccccc")));
}

TEST(Resolve, SkipsConditionsMissingInOldCertificates) {
  CertifiedFolder folder;
  folder.entry().engine.clear();
  folder.entry().numerics = 0;
  folder.entry().certificate->max_length = 0;
  folder.entry().certificate->tokenizer.clear();
  folder.entry().certificate->last_head.reset();
  folder.save();
  EXPECT_TRUE(folder.run().certificate);
  EXPECT_TRUE(folder.run({.max_length = 64}).certificate);
}

TEST(Resolve, OtherWeightsOrPrecisionsRunAtFullDepthOrFail) {
  CertifiedFolder folder;
  const std::string named = (folder.path / "policy.json").string();
  EXPECT_TRUE(folder.run({.policy = named}).certificate);
  EXPECT_THAT(folder.run({.precision = Precision::int8}).notices,
              ElementsAre(HasSubstr("no entry for int8; running at full depth")));
  EXPECT_EQ(error_of([&] { (void)folder.run({.policy = named, .precision = Precision::int8}); }).code(),
            Code::bad_file);
  folder.file.weights = std::string(64, '0');
  folder.save();
  EXPECT_EQ(str(folder.run().policy), "full");
  EXPECT_THAT(folder.run().notices, ElementsAre(HasSubstr("made for other weights")));
  EXPECT_THAT(folder.run({.policy = "entropy:0.2"}).notices, IsEmpty());
  EXPECT_THAT(error_of([&] { (void)folder.run({.policy = named}); }).what(), HasSubstr("made for other weights"));
}

TEST(Resolve, MaxLengthComesFromCertificateThenTrainingThenModel) {
  CertifiedFolder folder;
  EXPECT_EQ(folder.run({.max_length = 20}).max_length, 20);
  EXPECT_EQ(folder.run({.max_length = 1000}).max_length, 64);  // positions of the model
  EXPECT_EQ(folder.run().max_length, 48);
  (void)folder.scratch.write("model/recipe.json", R"({"name": "x", "run": {"max_length": 32}})");
  EXPECT_EQ(folder.run().max_length, 48);
  folder.entry().certificate.reset();
  folder.save();
  EXPECT_EQ(folder.run().max_length, 32);
  EXPECT_EQ(folder.run({.precision = Precision::int8}).max_length, 32);
  std::filesystem::remove(folder.path / "recipe.json");
  EXPECT_EQ(folder.run().max_length, 64) << "the positions of the model";
  (void)folder.scratch.write("model/attach.json", R"({"max_length": 24, "texts_per_row": 1})");
  EXPECT_EQ(folder.run().max_length, 24);
}

TEST(Resolve, MaxLengthOfImportedModelIsItsTokenizersLimit) {
  const Scratch scratch(quick_parent());
  const std::filesystem::path path = scratch.path() / "model";
  std::filesystem::copy(kImported, path);
  const auto with = [&](const char* config) {
    (void)scratch.write("model/tokenizer_config.json", config);
    return resolve(Checkpoint::open(path), {}).max_length;
  };
  EXPECT_EQ(with(R"({"model_max_length": 40})"), 40);
  EXPECT_EQ(with(R"({"model_max_length": 1e30})"), 64) << "as transformers writes it where a tokenizer has no limit";
  EXPECT_EQ(with(R"({"model_max_length": 1000000000000000019884624838656})"), 64);
  EXPECT_EQ(with(R"({"model_max_length": -3})"), 64);
  EXPECT_EQ(with("{}"), 64);
}

TEST(Resolve, TextsPerRowComeFromAttachOrTraining) {
  CertifiedFolder folder;
  EXPECT_EQ(texts_per_row(folder.path), 0);
  (void)folder.scratch.write("model/recipe.json", R"({"name": "x", "run": {"texts": 2}})");
  EXPECT_EQ(texts_per_row(folder.path), 2);
  (void)folder.scratch.write("model/attach.json", R"({"max_length": 24, "texts_per_row": 1})");
  EXPECT_EQ(texts_per_row(folder.path), 1);
}

// A text of a policy leaves out temperatures: those of another precision are better than none.
TEST(Resolve, PolicyTextMeansTheSameInEveryPrecision) {
  CertifiedFolder folder;
  const PolicySpec stored = folder.run({.policy = "entropy:0.2"}).policy;
  const Resolved other = folder.run({.policy = "entropy:0.2", .precision = Precision::int8});
  EXPECT_EQ(other.policy.temperature, stored.temperature);
  EXPECT_EQ(other.policy.exits, stored.exits);
  EXPECT_FALSE(other.certificate);
  ASSERT_EQ(other.notices.size(), 1U);
  EXPECT_THAT(other.notices[0],
              HasSubstr("no entry for int8; entropy:0.2 runs with the temperatures that were fitted in fp32"));
}

// A replay runs under the conditions of its trace.
TEST(Resolve, ReplayChecksSameConditions) {
  CertifiedFolder folder;
  const Checkpoint model = Checkpoint::open(folder.path);
  TraceInfo trace;
  trace.weights = folder.file.weights;
  trace.engine = folder.entry().engine;
  trace.numerics = kNumerics;
  trace.precision = "fp32";
  trace.precision_map = "";
  trace.max_length = 48;
  trace.tokenizer = folder.entry().certificate->tokenizer;
  const ResolvedPolicy live = folder.run(), replayed = resolve_replay(&model, trace, {});
  EXPECT_EQ(replayed.policy, live.policy);
  EXPECT_EQ(replayed.promise, live.promise);
  EXPECT_EQ(resolve_replay(&model, trace, {.policy = "margin:0.4"}).policy,
            folder.run({.policy = "margin:0.4"}).policy);
  trace.max_length = 8;
  EXPECT_EQ(resolve_replay(&model, trace, {}).promise, "none (certified with max-length 48, running with 8)");
  EXPECT_EQ(str(resolve_replay(nullptr, trace, {}).policy), "full");
  EXPECT_EQ(resolve_replay(nullptr, trace, {.policy = (folder.path / "policy.json").string()}).policy, live.policy);
}

TEST(Resolve, DefaultsToBf16WhereSupported) {
  const Checkpoint model = Checkpoint::open(kImported);
  EXPECT_EQ(resolve(model, {}).precision, choose_kernels().bf16 ? Precision::bf16 : Precision::fp32);
  EXPECT_EQ(resolve(model, {.precision = Precision::int8}).precision, Precision::int8);
  const EngineTraits without{.name = "cpu/other", .bf16 = false}, with{.name = "cpu/other", .bf16 = true};
  PolicyFile file{.weights = {}, .default_precision = "bf16", .entries = {}};
  EXPECT_EQ(default_precision(&file, without), Precision::fp32);
  EXPECT_EQ(default_precision(&file, with), Precision::bf16);
  EXPECT_EQ(default_precision(nullptr, with), Precision::bf16);
  file.default_precision = "external";
  EXPECT_EQ(default_precision(&file, without), Precision::fp32);
  file.default_precision = "fp32";
  EXPECT_EQ(default_precision(&file, with), Precision::fp32);
  file.default_precision = "int8";
  EXPECT_EQ(default_precision(&file, with), Precision::int8);
  EXPECT_EQ(default_precision(&file, {.name = "cuda/sm_90", .bf16 = true, .int8 = false}), Precision::bf16);
}

TEST(Resolve, DefaultsToLatestPrecisionOfDevice) {
  const EngineTraits cpu{.name = "cpu/other", .bf16 = true};
  PolicyFile file{.weights = {}, .default_precision = "bf16", .entries = {}};
  for (const auto& [device, precision] : {std::pair("cpu", "int8"), {"cpu", "fp32"}, {"cuda", "bf16"}}) {
    PolicyEntry& entry = file.entries.emplace_back();
    entry.device = device;
    entry.precision = precision;
  }
  EXPECT_EQ(default_precision(&file, cpu), Precision::fp32);
  std::swap(file.entries[0], file.entries[1]);
  EXPECT_EQ(default_precision(&file, cpu), Precision::int8);
}

// A stand-in for a GPU's engine: what is resolved does not depend on one being there.
const EngineTraits kGpu{.name = "cuda/sm_90", .numerics = 7, .bf16 = true, .int8 = false};

TEST(Resolve, CpuCertificateDoesNotHoldOnGpu) {
  CertifiedFolder folder;
  const Resolved there = folder.run({.engine = kGpu});
  EXPECT_EQ(str(there.policy), "entropy:0.1") << "still runs";
  EXPECT_FALSE(there.certificate);
  EXPECT_EQ(there.promise,
            fmt::format("none (certified on {}, not on cuda/sm_90; 'exeunt calibrate --transfer' certifies it here)",
                        engine_name(choose_kernels())));
  EXPECT_THAT(there.notices, Contains(HasSubstr(there.promise)));

  // Not even where the file does not say which of the CPU's engines it was.
  folder.entry().engine.clear();
  folder.entry().numerics = 0;
  folder.save();
  EXPECT_TRUE(folder.run().certificate);
  EXPECT_THAT(folder.run({.engine = kGpu}).promise, HasSubstr("none (certified on cpu, not on cuda/sm_90"));
}

TEST(Resolve, UsesCertificateOfDevice) {
  CertifiedFolder folder;
  PolicyEntry on_gpu = folder.entry();
  on_gpu.device = "cuda";
  on_gpu.engine = kGpu.name;
  on_gpu.numerics = kGpu.numerics;
  on_gpu.precision = "bf16";
  on_gpu.policy = on_gpu.points[0].policy = parse_policy("entropy:0.2");
  folder.file.put(on_gpu);
  folder.file.default_precision = "bf16";  // as the calibration on the GPU chose
  folder.save();
  const Resolved there = folder.run({.engine = kGpu}), here = folder.run();
  EXPECT_EQ(there.precision, Precision::bf16);
  EXPECT_EQ(str(there.policy), "entropy:0.2");
  EXPECT_TRUE(there.certificate);
  EXPECT_EQ(here.precision, Precision::fp32) << "the precision that was calibrated here";
  EXPECT_EQ(str(here.policy), "entropy:0.1");
  EXPECT_TRUE(here.certificate);
  EngineTraits newer = kGpu;
  newer.numerics = 8;
  EXPECT_EQ(folder.run({.engine = newer}).promise,
            "none (certified with version 7 of the arithmetic of cuda/sm_90, running with 8)");
}

TEST(Resolve, IgnoresCpuProfileOnGpu) {
  const CertifiedFolder folder;
  const auto layers = static_cast<size_t>(Checkpoint::open(folder.path).spec().layers);
  ProfileEntry entry{.precision = "fp32", .isa = "sm_90", .lengths = {8}};
  entry.embedding_ms = entry.exit_ms = {1};
  entry.layer_ms.assign(layers, {1});
  entry.pack_rows = 96;
  write_atomically(folder.path / kProfileFile,
                   json_text(profile_json({.device = cpu_features().name, .entries = {entry}})));
  EXPECT_EQ(folder.run({.precision = Precision::fp32, .engine = kGpu}).pack_rows, 0);
}

TEST(Resolve, UsesExceptionsOfResolvedPrecision) {
  const CertifiedFolder folder;
  const Checkpoint model = Checkpoint::open(folder.path);
  EXPECT_FALSE(precision_map_of(model, "cpu/neon", "int8").has_value());
  const Exceptions exceptions{{"layer.1.ffn2", Precision::fp32}};
  (void)folder.scratch.write("model/precision.json",
                             precision_map_text({.by_precision = {{Precision::int8, exceptions}}}));
  EXPECT_EQ(resolve(model, {.precision = Precision::int8}).exceptions, exceptions);
  EXPECT_TRUE(resolve(model, {.precision = Precision::fp32}).exceptions.empty());
  EXPECT_TRUE(resolve(model, {.precision = Precision::int8, .exceptions = Exceptions{}}).exceptions.empty());
  EXPECT_EQ(precision_map_of(model, "cpu/neon", "int8"), precision_map_sha256(exceptions));
  EXPECT_FALSE(precision_map_of(model, "cpu/neon", "external").has_value());
}

TEST(Resolve, GpuKeepsInt8ExceptionsOfPrecisionMap) {
  const CertifiedFolder folder;
  const Checkpoint model = Checkpoint::open(folder.path);
  const EngineTraits gpu{.name = "cuda/sm_90", .numerics = 1, .bf16 = true, .int8 = true};
  const auto exceptions = [&](Precision precision) {
    return resolve(model, {.precision = precision, .engine = gpu}).exceptions;
  };
  EXPECT_TRUE(exceptions(Precision::int8).empty());
  const auto write = [&](const PrecisionMap& map) {
    (void)folder.scratch.write("model/precision.json", precision_map_text(map));
  };
  // Only int8 and bf16 run side by side there, so fp32 becomes bf16, and bf16 has no exceptions.
  write({.by_precision = {{Precision::int8,
                           {{"layer.0.qkv", Precision::int8},
                            {"layer.0.ffn2", Precision::bf16},
                            {"layer.1.ffn2", Precision::fp32},
                            {std::string(kPoolers), Precision::fp32}}},
                          {Precision::bf16, {{"layer.1.ffn1", Precision::fp32}}}}});
  const Exceptions wider{{"layer.0.ffn2", Precision::bf16}, {"layer.1.ffn2", Precision::bf16}};
  EXPECT_EQ(exceptions(Precision::int8), wider);
  EXPECT_TRUE(exceptions(Precision::bf16).empty());
  EXPECT_EQ(precision_map_of(model, gpu.name, "int8"), precision_map_sha256(wider));
  EXPECT_FALSE(precision_map_of(model, gpu.name, "bf16").has_value());
  // What changes nothing there is no exception there.
  write({.by_precision = {{Precision::int8, {{std::string(kPoolers), Precision::int8}}}}});
  EXPECT_FALSE(precision_map_of(model, gpu.name, "int8").has_value());
}

TEST(Resolve, PackRowsComeFromProfileUnlessSet) {
  const CertifiedFolder folder;
  EXPECT_EQ(folder.run().pack_rows, 0);
  const auto layers = static_cast<size_t>(Checkpoint::open(folder.path).spec().layers);
  ProfileEntry entry{.precision = "fp32", .isa = std::string(choose_kernels().name), .lengths = {8}};
  entry.embedding_ms = entry.exit_ms = {1};
  entry.layer_ms.assign(layers, {1});
  entry.pack_rows = 96;
  Profile profile{.device = cpu_features().name, .entries = {entry}};
  write_atomically(folder.path / kProfileFile, json_text(profile_json(profile)));
  const Resolved here = folder.run();
  EXPECT_EQ(here.pack_rows, 96);
  EXPECT_EQ(engine_options(here).pack_rows, 96);
  EXPECT_EQ(engine_options(here, {.pack_rows = 1}).pack_rows, 1);
  EXPECT_EQ(folder.run({.precision = Precision::int8}).pack_rows, 0);
  profile.device = "another machine";
  write_atomically(folder.path / kProfileFile, json_text(profile_json(profile)));
  EXPECT_EQ(folder.run().pack_rows, 0);
}

}  // namespace
}  // namespace exeunt
