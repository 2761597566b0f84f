// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/new_heads.h"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "exeunt/train/evaluate.h"
#include "exeunt/train/stepper.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt::nn {
namespace {

Tensor parameter(Network& network, const std::string& name) {
  return network->named_parameters()[name].detach();
}

Tensor stored(const Checkpoint& checkpoint, const std::string& name) {
  const TensorView& view = checkpoint.get(name);
  Tensor out = torch::empty(view.shape, torch::kFloat);
  copy_to_float(view, {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
  return out;
}

TEST(NewHeads, CopyThePretrainedPoolerToEveryExit) {
  const ModelSpec spec = small_spec();
  const Checkpoint base = make_model(spec, ExitLayout{});
  Start start = start_network(base, own_exits(spec), HeadInit::copy_pooler, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::equal(parameter(start.network, fmt::format("exits.pooler.{}.weight", i)),
                             stored(base, "pooler.weight")));
    EXPECT_TRUE(
        torch::equal(parameter(start.network, fmt::format("exits.pooler.{}.bias", i)), stored(base, "pooler.bias")));
  }
  EXPECT_TRUE(torch::equal(parameter(start.network, "layer.2.ffn1.weight"), stored(base, "layer.2.ffn1.weight")));
  EXPECT_TRUE(start.notices.empty());
}

TEST(NewHeads, CopyEachLayersOwnPoolerWhereThereIsOne) {
  const ModelSpec spec = small_spec(Family::elasticbert);
  const Checkpoint base = make_model(spec, ExitLayout{});
  Start start = start_network(base, own_exits(spec), HeadInit::copy_pooler, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::equal(parameter(start.network, fmt::format("exits.pooler.{}.weight", i)),
                             stored(base, fmt::format("pooler.{}.weight", i))));
  }
}

TEST(NewHeads, CopyToTheLeftHalfBehindAReader) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec);
  for (size_t i = 0; i < 3; ++i) layout.sites[i].reader = static_cast<int>(i);
  const Checkpoint base = make_model(spec, ExitLayout{});
  Start start = start_network(base, layout, HeadInit::copy_pooler, 1);
  const Tensor pooler = parameter(start.network, "exits.pooler.1.weight");
  EXPECT_TRUE(torch::equal(pooler.narrow(1, 0, 12), stored(base, "pooler.weight")));
  EXPECT_LT(pooler.narrow(1, 12, 12).abs().max().item<double>(), .12);  // N(0, 0.02)
  EXPECT_GT(pooler.narrow(1, 12, 12).abs().max().item<double>(), .01);
  EXPECT_EQ(parameter(start.network, "exits.reader.1.weight").abs().max().item<double>(), 0);
}

TEST(NewHeads, DrawsPoolersWithNoticeWhereTheModelHasNone) {
  const ModelSpec spec = small_spec();
  const Checkpoint full = make_model(spec, ExitLayout{});
  TensorSet set = full.tensors();
  set.tensors.erase("pooler.weight");
  set.tensors.erase("pooler.bias");
  const Checkpoint base(spec, ExitLayout{}, std::move(set));
  Start start = start_network(base, own_exits(spec), HeadInit::copy_pooler, 1);
  EXPECT_THAT(start.notices, testing::ElementsAre(testing::HasSubstr("no pooler to copy")));
  const Tensor drawn = parameter(start.network, "exits.pooler.0.weight");
  EXPECT_NEAR(drawn.std().item<double>(), .02, .005);
  EXPECT_FALSE(torch::equal(drawn, parameter(start.network, "exits.pooler.1.weight")));
  EXPECT_EQ(parameter(start.network, "exits.classifier.0.bias").abs().max().item<double>(), 0);
}

TEST(NewHeads, DependOnTheSeedAlone) {
  const ModelSpec spec = small_spec();
  const Checkpoint base = make_model(spec, ExitLayout{});
  const auto draw = [&](uint64_t seed) {
    Start start = start_network(base, own_exits(spec), HeadInit::normal, seed);
    return parameter(start.network, "exits.classifier.2.weight");
  };
  EXPECT_TRUE(torch::equal(draw(5), draw(5)));
  EXPECT_FALSE(torch::equal(draw(5), draw(6)));
}

TEST(NewHeads, AreTheModelsOwnWhereItHasTheSameExits) {
  const ModelSpec spec = small_spec();
  const Checkpoint base = make_model(spec, own_exits(spec));
  Start same = start_network(base, own_exits(spec), HeadInit::copy_pooler, 1);
  EXPECT_TRUE(
      torch::equal(parameter(same.network, "exits.classifier.0.weight"), stored(base, "exits.classifier.0.weight")));
  // Other labels: new heads, whose poolers come from the last exit.
  Start other = start_network(base, own_exits(spec, 4), HeadInit::copy_pooler, 1);
  EXPECT_TRUE(torch::equal(parameter(other.network, "exits.pooler.0.weight"), stored(base, "exits.pooler.2.weight")));
  EXPECT_THAT(other.notices, testing::ElementsAre(testing::HasSubstr("replaced by new ones")));
}

// Texts of a class hold a token that no other class has.
Features telling_rows(int classes, size_t rows) {
  Features features;
  for (size_t row = 0; row < rows; ++row) {
    const auto gold = static_cast<int32_t>(row % static_cast<size_t>(classes));
    for (const int32_t id : {1, 8 + gold, 8 + gold, static_cast<int32_t>(12 + row % 3), 8 + gold}) {
      features.ids.push_back(id);
      features.types.push_back(0);
    }
    features.offsets.push_back(static_cast<int64_t>(features.ids.size()));
    features.gold.push_back(static_cast<float>(gold));
    features.index.push_back(static_cast<int64_t>(row));
  }
  return features;
}

TEST(Prototypes, AnswerTheRowsBeforeTheFirstStep) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec, 4);
  for (size_t i = 0; i < 3; ++i) layout.sites[i].reader = static_cast<int>(i);
  Start start = start_network(make_model(spec, ExitLayout{}), layout, HeadInit::prototypes, 1);
  const Features rows = telling_rows(3, 30);  // the fourth class has none
  start_from_prototypes(start.network, rows);
  start.network->eval();
  std::vector<size_t> all(rows.rows());
  std::iota(all.begin(), all.end(), size_t{0});
  const TrainBatch batch = batch_tensors(rows, all, {.pad_id = spec.pad_id});
  for (const Tensor& logits : start.network->forward(batch.texts).logits) {
    EXPECT_TRUE(torch::equal(logits.argmax(1), batch.gold));
    const Tensor lead = logits.gather(1, batch.gold.unsqueeze(1)).squeeze(1) - logits.mean(1);
    EXPECT_NEAR(lead.mean().item<double>(), 1 + std::log(4.0), 1e-3);
  }
  const Tensor weight = parameter(start.network, "exits.classifier.1.weight");
  EXPECT_EQ(weight[3].abs().max().item<double>(), 0);
  EXPECT_GT(weight[2].abs().max().item<double>(), 0);
}

// Every second row has a wrong label: rows that are spread evenly over all show it, and every second one does not.
TEST(Evaluate, SharesAreOfRowsFromAllOverTheData) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec, 3);
  for (size_t i = 0; i < 3; ++i) layout.sites[i].reader = static_cast<int>(i);
  Start start = start_network(make_model(spec, ExitLayout{}), layout, HeadInit::prototypes, 1);
  Features rows = telling_rows(3, 60);
  start_from_prototypes(start.network, rows);
  EXPECT_EQ(share_right(start.network, rows, 1000), 1);
  for (size_t row = 1; row < rows.rows(); row += 2) rows.gold[row] = static_cast<float>((row + 1) % 3);
  EXPECT_EQ(share_right(start.network, rows, 60), 0.5);
  EXPECT_EQ(share_right(start.network, rows, 30), 1);
  EXPECT_EQ(share_right(start.network, rows, 20), 0.5) << "rows 0, 3, 6 and so on";
}

TEST(Prototypes, LeaveWhatExitsShareAlone) {
  const ModelSpec spec = small_spec();
  ExitLayout layout = own_exits(spec, 3);
  layout.sites[1].classifier = layout.sites[0].classifier;
  layout.sites[2].classifier = 1;
  Start start = start_network(make_model(spec, ExitLayout{}), layout, HeadInit::prototypes, 1);
  const Tensor shared = parameter(start.network, "exits.classifier.0.weight").clone();
  const Tensor own = parameter(start.network, "exits.classifier.1.weight").clone();
  start_from_prototypes(start.network, telling_rows(3, 12));
  EXPECT_TRUE(torch::equal(parameter(start.network, "exits.classifier.0.weight"), shared));
  EXPECT_FALSE(torch::equal(parameter(start.network, "exits.classifier.1.weight"), own));
}

// The last exit of a finished classifier stays, whatever its number is in the new layout.
TEST(NewHeads, KeepTheLastExitOfAFinishedModel) {
  const ModelSpec spec = small_spec();
  ExitLayout finished = own_exits(spec);
  finished.sites = {{.after = spec.layers, .pooler = 0, .classifier = 0}};
  const Checkpoint base = make_model(spec, finished);
  ExitLayout wanted = own_exits(spec);
  for (int i = 0; i + 1 < spec.layers; ++i) wanted.sites[static_cast<size_t>(i)].reader = i;
  Start start = start_network(base, wanted, HeadInit::keep_last, 1);
  const auto last = std::to_string(spec.layers - 1);
  for (const char* part : {"pooler", "classifier"}) {
    for (const char* kind : {"weight", "bias"}) {
      const auto name = [&](const std::string& number) { return fmt::format("exits.{}.{}.{}", part, number, kind); };
      EXPECT_TRUE(torch::equal(parameter(start.network, name(last)), stored(base, name("0")))) << part << kind;
      EXPECT_FALSE(torch::equal(parameter(start.network, name("0")), stored(base, name("0")))) << part << kind;
    }
  }
  EXPECT_FALSE(start.new_heads);  // a regression's bias is not set anew
  EXPECT_THAT(start.notices, testing::ElementsAre(testing::HasSubstr("last exit is kept")));

  ExitLayout others = own_exits(spec, 4);
  Start other = start_network(base, others, HeadInit::keep_last, 1);
  EXPECT_TRUE(other.new_heads);
  EXPECT_THAT(other.notices, testing::ElementsAre(testing::HasSubstr("replaced by new ones")));
}

}  // namespace
}  // namespace exeunt::nn
