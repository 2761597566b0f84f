// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainingData rows(size_t count) {
  TrainingData data;
  data.eval.gold.assign(count, 0);
  data.metrics = {Metric::accuracy};
  return data;
}

OrderedJson scored(const std::vector<double>& accuracies) {
  OrderedJson exits = OrderedJson::array();
  for (size_t i = 0; i < accuracies.size(); ++i)
    exits.push_back(OrderedJson{{"layer", i + 1}, {"accuracy", accuracies[i]}});
  return OrderedJson{{"exits", exits}};
}

TEST(Verdicts, SayThatTrainingHasNotConvergedAndWhatHelps) {
  const auto verdicts = [](const std::vector<double>& losses) {
    return verdicts_on(OrderedJson{{"train_epoch_losses", losses}}, rows(100));
  };
  EXPECT_THAT(
      verdicts({4.3, 4.0, 3.5, 3.0}),
      ElementsAre("training has not converged: the loss was still falling, from 4.3 in the first epoch to 3.5 and 3 "
                  "in the last two; --epochs 8 trains longer"));
  EXPECT_THAT(verdicts({4.3, 2.0, 1.0}), IsEmpty()) << "most of it is gone";
  EXPECT_THAT(verdicts({0.70, 0.69, 0.69}), IsEmpty()) << "it no longer falls";
  EXPECT_THAT(verdicts({0.70, 0.60, 0.65}), IsEmpty()) << "it rises";
  EXPECT_THAT(verdicts({4.3, 3.0}), IsEmpty()) << "two epochs show no trend";
  EXPECT_THAT(verdicts({}), IsEmpty());
}

// Smoothed labels leave most of the loss where the rows are learned: 15.1, 12.3, 11.4 belongs to a model that is right
// on 97 % of CLINC150.
TEST(Verdicts, CallTrainingConvergedWhereTheTrainingRowsAreAnsweredRight) {
  const auto verdicts = [](const std::vector<double>& losses, double right) {
    return verdicts_on(OrderedJson{{"train_epoch_losses", losses}, {"train_accuracy", right}}, rows(100));
  };
  EXPECT_THAT(verdicts({15.1, 12.3, 11.4}, 0.97), IsEmpty());
  EXPECT_THAT(
      verdicts({15.1, 12.3, 11.4}, 0.614),
      ElementsAre("training has not converged: the loss was still falling, from 15.1 in the first epoch to 12.3 and "
                  "11.4 in the last two, training accuracy 61 %; --epochs 6 trains longer"));
  EXPECT_THAT(verdicts({4.3, 2.0, 1.0}, 0.7), ElementsAre(HasSubstr("training accuracy 70 %")))
      << "much of the loss is gone, but the rows are not learned";
  EXPECT_THAT(verdicts({0.70, 0.69, 0.69}, 0.5), IsEmpty()) << "it no longer falls";
}

TEST(Verdicts, NameTheBestExitWhereItIsNotTheLast) {
  EXPECT_THAT(verdicts_on(scored({0.90, 0.9933, 0.9667}), rows(300)),
              ElementsAre("the exit after layer 2 is the best, accuracy 99.33 against 96.67 at the last, which every "
                          "promise is measured against: --layers 2 trains a model that ends there"));
  EXPECT_THAT(verdicts_on(scored({0.90, 0.97, 0.9667}), rows(300)), IsEmpty()) << "one row of 300 says nothing";
  EXPECT_THAT(verdicts_on(scored({0.90, 0.96, 0.97}), rows(300)), IsEmpty());
}

TEST(Verdicts, ReportsNetworkWorseThanBaseline) {
  TrainingData data = rows(300);
  data.baseline = {{"majority class", {{Metric::accuracy, 0.5}}}, {"linear model", {{Metric::accuracy, 0.8}}}};
  EXPECT_THAT(lost_to_baseline(scored({0.9, 0.7}), data), HasSubstr("the linear model does better than the network"))
      << "its last exit counts";
  EXPECT_EQ(lost_to_baseline(scored({0.4, 0.8}), data), "");
  EXPECT_EQ(lost_to_baseline(OrderedJson::object(), data), "") << "nothing was evaluated";
}

}  // namespace
}  // namespace exeunt
