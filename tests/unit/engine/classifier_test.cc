// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/classifier.h"

#include "exeunt/base/files.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kModel = EXEUNT_TEST_DATA "/checkpoints/bert-deebert";

// A folder of ours with a policy.json that has one entry.
struct Folder {
  explicit Folder(const std::string& precision, const std::optional<Certificate>& certificate = {}) {
    const Checkpoint model = Checkpoint::open(kModel);
    (void)write_exeunt_folder(model, path);
    file.weights = weights_sha256(model);
    file.default_precision = precision;
    PolicyEntry& entry = file.entries.emplace_back();
    entry.precision = precision;
    entry.exits = {1, 2, 3};
    entry.decision_temperature = entry.score_temperature = {1, 1, 1};
    entry.policy = parse_policy("layer:2");
    entry.points = {{.policy = entry.policy, .max_drop = 0.01, .cost_fraction = 0.5, .exit_rates = {0, 1, 0}}};
    entry.certificate = certificate;
    save();
  }
  void save() const { write_atomically(path / "policy.json", policy_file_text(file)); }

  Scratch scratch = Scratch(quick_parent());
  std::filesystem::path path = scratch.path() / "model";
  PolicyFile file = {};
};

Certificate some_certificate() {
  Certificate certificate;
  certificate.max_drop = 0.01;
  certificate.delta = 0.05;
  certificate.rows = 100;
  certificate.fit = certificate.certify = {.data = std::string(64, 'a'), .rows = 100};
  certificate.tool = "0.1.0";
  certificate.created = "2026-01-01T00:00:00Z";
  return certificate;
}

TEST(Classifier, RunsModelPolicyAndReportsPromise) {
  const Folder folder("fp32", some_certificate());
  Classifier classifier(folder.path.string());
  EXPECT_EQ(classifier.engine().precision(), Precision::fp32);  // the file's default, whatever the processor has
  EXPECT_EQ(classifier.answer("a great film").layer, 2);
  EXPECT_TRUE(classifier.ask().policy->exit_rates.empty());  // one exit alone: nothing to plan by
  ASSERT_TRUE(classifier.resolved().certificate);
  EXPECT_THAT(classifier.notices(),
              ElementsAre(HasSubstr("policy layer:2; promise: at most 1 % of answers to distinct texts differ from "
                                    "the fp32 model at full depth, confidence 95 %")));
}

// A model of more than 1 MiB, whose weights are not hashed when it is opened.
TEST(Classifier, RefusesCertificateOverOtherWeights) {
  Folder folder("fp32", some_certificate());
  const Checkpoint small = Checkpoint::open(folder.path);
  ModelSpec spec = small.spec();
  spec.positions = 40000;
  TensorSet tensors = small.tensors();
  TensorView& positions = tensors.tensors.at("embeddings.position.weight");
  const std::vector<float> more(static_cast<size_t>(spec.positions * spec.hidden), 0.01F);
  positions = view_of(DType::f32, more, {spec.positions, spec.hidden});
  folder.path = folder.scratch.path() / "large";
  (void)write_exeunt_folder(Checkpoint(spec, small.exits(), tensors, {.folder = small.folder()}), folder.path);
  folder.file.weights = weights_sha256(Checkpoint::open(folder.path));
  folder.save();
  EXPECT_TRUE(Classifier(folder.path.string()).resolved().certificate);

  const std::filesystem::path weights = folder.path / kWeightsFile;
  std::string bytes = read_text(weights);
  bytes[bytes.size() / 2] ^= 0x01;
  write_atomically(weights, bytes);
  const Error error = error_of([&] { Classifier{folder.path.string()}; });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("as the manifest says"));
  EXPECT_EQ(Classifier(folder.path.string(), {.policy = "layer:1"}).resolved().promise,
            "none (layer:1 is not one of the certified policies)");
}

TEST(Classifier, UsesExitRatesOfCalibration) {
  Folder folder("fp32");
  PolicyEntry& entry = folder.file.entries.at(0);
  entry.policy = entry.points.front().policy = parse_policy("entropy:0.2");
  folder.save();
  EXPECT_EQ(Classifier(folder.path.string()).ask().policy->exit_rates, (std::vector<float>{0, 1, 0}));
}

TEST(Classifier, ExplicitPolicyOverridesModelPolicy) {
  const Folder folder("fp32");
  Classifier classifier(folder.path.string(), {.policy = "layer:1"});
  EXPECT_EQ(classifier.answer("a great film").layer, 1);
  EXPECT_FALSE(classifier.resolved().certificate);
  EXPECT_THAT(classifier.notices(), IsEmpty());
}

TEST(Classifier, OtherPrecisionRunsAtFullDepthWithNotice) {
  const Folder folder("fp32");
  ClassifierOptions options;
  options.engine.precision = Precision::int8;
  Classifier classifier(folder.path.string(), options);
  EXPECT_EQ(classifier.answer("a great film").layer, 3);
  EXPECT_THAT(classifier.notices(), ElementsAre(HasSubstr("no entry for int8; running at full depth")));
}

TEST(Classifier, IgnoresPolicyOfOtherWeightsAndDropsPromiseOfOtherPrecisionMap) {
  Folder folder("int8");
  write_atomically(folder.path / kPrecisionFile,
                   precision_map_text({.by_precision = {{Precision::int8, {{"layer.1.ffn2", Precision::fp32}}}}}));
  Classifier other_map(folder.path.string());
  EXPECT_EQ(other_map.answer("a great film").layer, 2);
  EXPECT_FALSE(other_map.resolved().certificate);
  EXPECT_THAT(other_map.resolved().promise, HasSubstr("none ("));

  folder.file.entries.at(0).precision_map = precision_map_sha256({{"layer.1.ffn2", Precision::fp32}});
  folder.save();
  EXPECT_EQ(Classifier(folder.path.string()).answer("a great film").layer, 2);

  folder.file.weights = std::string(64, '0');
  folder.save();
  Classifier other_weights(folder.path.string());
  EXPECT_EQ(other_weights.answer("a great film").layer, 3);
  EXPECT_THAT(other_weights.notices(), ElementsAre(HasSubstr("made for other weights")));
  const Error error =
      error_of([&] { Classifier(folder.path.string(), {.policy = (folder.path / "policy.json").string()}); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("made for other weights"));
}

TEST(Classifier, RejectsBackboneWithoutHeads) {
  const Error error = error_of([] { Classifier(EXEUNT_TEST_DATA "/checkpoints/bert-backbone"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("the model has no head"));
}

TEST(Classifier, RejectsBlankTextsAndInvalidUtf8) {
  Classifier classifier(kModel);
  const Error blank = error_of([&] { (void)classifier.answer(" \t\n"); });
  EXPECT_EQ(blank.code(), Code::bad_file);
  EXPECT_THAT(blank.what(), HasSubstr("got an empty text"));
  EXPECT_THAT(error_of([&] { (void)classifier.answer("a", "\xFF"); }).what(), HasSubstr("byte 1 is 0xFF"));
  const std::vector<ClassifierText> texts{{.text = ""}, {.text = "a great film"}, {.text = " ", .pair = " "}};
  const std::vector<ClassifierAnswer> answers = classifier.answer_all(texts, classifier.ask());
  EXPECT_TRUE(answers[0].blank && answers[2].blank);
  EXPECT_FALSE(answers[1].blank);
  EXPECT_EQ(answers[1].answer.logits, classifier.answer("a great film").logits);
  const std::vector<ClassifierText> bad{{.text = ""}, {.text = "a \xC3"}};
  EXPECT_THAT(error_of([&] { (void)classifier.answer_all(bad, classifier.ask()); }).what(),
              HasSubstr("text 1: byte 3 is 0xC3"));
}

TEST(Classifier, RejectsPairsWhereTrainingHadSingleTexts) {
  const Folder folder("fp32");
  write_atomically(folder.path / "recipe.json", R"({"run": {"texts": 1}})");
  Classifier classifier(folder.path.string());
  const Error error = error_of([&] { (void)classifier.answer("a", "b"); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("the model was trained on single ones"));
}

TEST(Classifier, RejectsPolicyThatDoesNotFitModel) {
  EXPECT_EQ(error_of([] { Classifier(kModel, {.policy = "layer:9"}); }).code(), Code::usage);
  EXPECT_EQ(error_of([] { Classifier(kModel, {.policy = "entrpy:0.1"}); }).code(), Code::usage);
}

}  // namespace
}  // namespace exeunt
