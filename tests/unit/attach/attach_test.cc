// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/attach.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

std::vector<Encoding> random_texts(const ModelSpec& spec, size_t count, uint32_t seed) {
  std::vector<Encoding> texts;
  for (size_t i = 0; i < count; ++i) {
    texts.push_back(random_text(spec, 3 + static_cast<int>((i * 7) % 17), seed + static_cast<uint32_t>(i)));
  }
  return texts;
}

ExitLayout one_head(const ModelSpec& spec) {
  ExitLayout layout = own_exits(spec);
  layout.sites = {{.after = spec.layers, .pooler = 0, .classifier = 0}};
  return layout;
}

struct Attached {
  std::vector<AttachedExit> exits;
  Checkpoint model;
};

Attached attached(const Checkpoint& source, const AttachOptions& options, size_t learn = 70, size_t choose = 20) {
  const Checkpoint finished = finished_model(source);
  Engine engine(finished, {.precision = Precision::fp32, .threads = options.threads});
  AttachedExits found =
      train_exits(engine, random_texts(source.spec(), learn, 1), random_texts(source.spec(), choose, 900), options);
  Checkpoint model = with_exits(finished, found);
  return {std::move(found.exits), std::move(model)};
}

std::vector<float> new_weights(const Attached& done) {
  std::vector<float> all;
  for (const AttachedExit& exit : done.exits) {
    all.insert(all.end(), exit.weights.all().begin(), exit.weights.all().end());
  }
  return all;
}

const AttachOptions kShort{.heads = {.epochs = 3, .batch = 8}, .threads = 1};

class AttachFamilies : public testing::TestWithParam<Family> {};

TEST_P(AttachFamilies, KeepsFullDepthAnswersBitForBit) {
  const ModelSpec spec = small_spec(GetParam());
  const Checkpoint source = make_model(spec, one_head(spec));
  const Attached done = attached(source, kShort);
  ASSERT_EQ(done.model.exits().sites.size(), static_cast<size_t>(spec.layers));
  for (const auto& [name, view] : source.tensors().tensors) {
    if (name.starts_with("exits.")) continue;
    EXPECT_EQ(done.model.get(name).bytes.data(), view.bytes.data()) << name;
  }
  for (const Precision precision : {Precision::fp32, Precision::int8}) {
    Engine before(source, {.precision = precision, .threads = 2}), after(done.model, {.precision = precision});
    for (const Encoding& text : random_texts(spec, 1000, 5000)) {
      const std::vector<float> old = before.full_pass(text).logits, now = after.full_pass(text).logits;
      ASSERT_TRUE(std::equal(old.begin(), old.end(), now.end() - static_cast<ptrdiff_t>(old.size())));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttachFamilies,
                         testing::Values(Family::bert, Family::roberta, Family::albert, Family::elasticbert,
                                         Family::distilbert, Family::electra, Family::xlm_roberta, Family::camembert,
                                         Family::modernbert, Family::deberta_v2));

TEST(Attach, IsIndependentOfThreadsAndMemory) {
  const ModelSpec spec = small_spec();
  const Checkpoint source = make_model(spec, one_head(spec));
  const std::vector<float> wanted = new_weights(attached(source, kShort));
  AttachOptions options = kShort;
  options.threads = 3;
  EXPECT_EQ(new_weights(attached(source, options)), wanted);
  // One exit at a time: 90 texts of about 11 tokens and 12 columns take some 24 kB a layer.
  const size_t trainers = 2 * HeadTrainer::bytes({.hidden = spec.hidden, .width = spec.hidden, .outputs = 3});
  options.memory = trainers + 30000;
  EXPECT_EQ(new_weights(attached(source, options)), wanted);
  // A few batches at a time, the model run again in every epoch.
  options.memory = trainers + 10000;
  EXPECT_EQ(new_weights(attached(source, options)), wanted);
  options.memory = 0;
  EXPECT_EQ(new_weights(attached(source, options)), wanted);
  options.heads.seed = 43;
  EXPECT_NE(new_weights(attached(source, options)), wanted);
}

// What learning ends with, within the rounding of other processors.
TEST(Attach, LearnsAsStored) {
  const ModelSpec spec = small_spec();
  AttachOptions options = kShort;
  options.heads.rate = 1e-2;
  options.heads.epochs = 4;
  const Attached done = attached(make_model(spec, one_head(spec)), options);
  ASSERT_EQ(done.exits.size(), 2U);
  EXPECT_EQ(done.exits[0].after, 1);
  EXPECT_EQ(done.exits[1].after, 2);
  EXPECT_NEAR(done.exits[0].loss, 0.03496, 5e-4);
  EXPECT_NEAR(done.exits[1].loss, 0.02640, 5e-4);
  EXPECT_NEAR(done.exits[0].agreement, 0.95, 0.051);
  EXPECT_NEAR(done.exits[1].agreement, 0.9, 0.051);
  EXPECT_EQ(done.exits[0].epoch, 4);
  EXPECT_EQ(done.exits[1].epoch, 4);
}

TEST(Attach, ReportsProgress) {
  const ModelSpec spec = small_spec();
  const Checkpoint source = make_model(spec, one_head(spec));
  AttachOptions options = kShort;
  std::string shown;
  double seconds = 0;
  options.progress = {.write = [&](std::string_view text) { shown += text; },
                      .now = [&] { return std::chrono::duration<double>(seconds += 11); }};
  (void)attached(source, options);
  EXPECT_THAT(shown, testing::HasSubstr("running the model 100% 90/90 ["));
  EXPECT_THAT(shown, testing::HasSubstr("training exits 100% 6/6 ["));
}

TEST(Attach, AgreesWithLastExitAboveChance) {
  const ModelSpec spec = small_spec();
  const Checkpoint source = make_model(spec, one_head(spec));
  AttachOptions options = kShort;
  options.heads.epochs = 20;
  options.heads.rate = 1e-2;
  const Attached done = attached(source, options, 400, 100);
  for (const AttachedExit& exit : done.exits) {
    EXPECT_GT(exit.agreement, 0.6) << exit.after;
    EXPECT_GE(exit.epoch, 1);
  }
  // What was measured on rounded rows is what the engine gives, but for that rounding.
  Engine engine(done.model, {.precision = Precision::fp32});
  const ExitTrace trace = engine.trace(random_texts(spec, 100, 900));
  for (int exit = 0; exit + 1 < trace.exits; ++exit) {
    int same = 0;
    for (size_t row = 0; row < trace.rows; ++row) {
      const auto label = [&](int of) {
        const std::span<const float> logits = trace.at(row, of);
        return std::max_element(logits.begin(), logits.end()) - logits.begin();
      };
      same += label(exit) == label(trace.exits - 1);
    }
    EXPECT_NEAR(same / 100.0, done.exits[static_cast<size_t>(exit)].agreement, 0.021);
  }
}

TEST(Attach, DistillsRegressionInItsUnit) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = one_head(spec);
  layout.problem = Problem::regression;
  layout.outputs = 1;
  layout.labels.clear();
  const Checkpoint source = make_model(spec, layout, {{"exits.classifier.0.bias", {40}}});
  AttachOptions options = kShort;
  options.heads.epochs = 20;
  options.heads.rate = 1e-2;
  const Attached done = attached(source, options, 400, 100);
  Engine engine(done.model, {.precision = Precision::fp32});
  const ExitTrace trace = engine.trace(random_texts(spec, 50, 900));
  for (size_t row = 0; row < trace.rows; ++row) EXPECT_NEAR(trace.at(row, 1)[0], trace.at(row, 2)[0], 5);
}

TEST(Attach, AcceptsEveryHeadLayout) {
  const ModelSpec spec = small_spec();
  ExitLayout fc2 = one_head(spec), readers = own_exits(spec), plain = one_head(spec), ramp = own_exits(spec);
  fc2.inner = 5;
  fc2.width = 7;
  for (size_t i = 0; i < readers.sites.size(); ++i) readers.sites[i].reader = static_cast<int>(i);
  readers.lte = true;
  plain.sites.front().pooler.reset();
  plain.input = PoolInput::cls_mean;
  ramp.last_ramp = ExitLayout::Ramp{.pooler = 3, .classifier = 3};
  ramp.compat_last_ramp = LastHead::ramp;
  for (const ExitLayout& layout : {fc2, readers, plain, ramp}) {
    const Checkpoint source = make_model(spec, layout);
    const Attached done = attached(source, kShort, 20, 5);
    Engine before(source, {.precision = Precision::fp32}), after(done.model, {.precision = Precision::fp32});
    const Encoding text = random_text(spec, 9);
    const Engine::FullPass old = before.full_pass(text), now = after.full_pass(text);
    const std::vector<float>& wanted = layout.last_ramp ? old.ramp : old.logits;
    EXPECT_TRUE(std::equal(now.logits.end() - 3, now.logits.end(), wanted.end() - 3));
    EXPECT_TRUE(done.model.exits().sites.front().reader.has_value());
  }
}

TEST(Attach, RejectsBareBackbone) {
  const ModelSpec spec = small_spec();
  EXPECT_THROW((void)finished_model(make_model(spec, ExitLayout{})), Error);
}

TEST(Attach, StopsWhenTeacherLogitsAreRejected) {
  const ModelSpec spec = small_spec();
  const Checkpoint source = make_model(spec, one_head(spec));
  AttachOptions options = kShort;
  size_t seen = 0;
  options.on_teacher_logits = [&](std::span<const float> logits) {
    seen = logits.size();
    throw Error(Code::failure, "no");
  };
  EXPECT_THROW((void)attached(source, options), Error);
  EXPECT_EQ(seen, 70U * 3);
}

}  // namespace
}  // namespace exeunt
