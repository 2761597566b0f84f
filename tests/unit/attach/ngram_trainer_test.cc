// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/ngram_trainer.h"

#include <random>

#include <gtest/gtest.h>

#include "exeunt/attach/attach.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

constexpr int kVocabulary = 60;

// Texts of random tokens, of which one, the number of its answer among them, says the answer.
struct Task {
  std::vector<Encoding> texts = {};
  std::vector<float> teacher = {};  // [texts, outputs]
  ExitLayout exits = {};
  size_t train = 0;

  Task(Problem problem, int outputs, size_t count) : train(count * 3 / 4) {
    exits.problem = problem;
    exits.outputs = outputs;
    const bool value = problem == Problem::regression;
    for (int c = 0; c < outputs && !value; ++c) exits.labels.push_back(std::to_string(c));
    std::mt19937 random(7);
    const auto kinds = static_cast<uint32_t>(value ? 5 : outputs);
    for (size_t i = 0; i < count; ++i) {
      const auto answer = static_cast<int32_t>(random() % kinds);
      Encoding text;
      text.ids.push_back(0);
      for (int n = 0; n < 4; ++n)
        text.ids.push_back(static_cast<int32_t>(1 + kinds + random() % (kVocabulary - 1 - kinds)));
      text.ids.push_back(1 + answer);
      text.ids.push_back(0);
      text.types.resize(text.ids.size());
      texts.push_back(text);
      if (value) teacher.push_back(100.0F + 10.0F * static_cast<float>(answer));
      for (int c = 0; c < outputs && !value; ++c) teacher.push_back(c == answer ? 6.0F : -2.0F);
    }
  }
  [[nodiscard]] TrainedNgrams trained(int threads = 1, size_t bytes = NgramSettings{}.bytes, int epochs = 8) const {
    return train_ngrams(texts, train, Imitation(teacher, exits, 1), small_pieces(kVocabulary),
                        {.epochs = epochs, .bytes = bytes}, threads);
  }
};

TEST(NgramTrainer, LearnsAnswersThatWordsDecide) {
  const TrainedNgrams few = Task(Problem::classification, 3, 600).trained();
  EXPECT_GT(few.agreement, 0.98);
  EXPECT_GE(few.epoch, 1);
  EXPECT_EQ(few.shape.rank, 3);
  EXPECT_TRUE(few.output.empty());
  EXPECT_GT(Task(Problem::multi_label, 3, 600).trained().agreement, 0.9);
}

TEST(NgramTrainer, MapsManyLabelsFromANarrowTable) {
  const TrainedNgrams many = Task(Problem::classification, 40, 3000).trained();
  EXPECT_GT(many.agreement, 0.9);
  EXPECT_EQ(many.shape.rank, 32);
  EXPECT_EQ(many.output.size(), 40U * 32U);
}

TEST(NgramTrainer, LearnsValuesInTheirUnit) {
  const Task task(Problem::regression, 1, 600);
  const TrainedNgrams found = task.trained();
  EXPECT_LT(found.agreement, 5);  // of values 10 apart, 12 from their mean on average
  EXPECT_NEAR(found.bias[0], 120, 30);
}

TEST(NgramTrainer, IsIndependentOfThreads) {
  const Task task(Problem::classification, 4, 300);
  const TrainedNgrams one = task.trained(1), two = task.trained(2);
  EXPECT_EQ(one.table, two.table);
  EXPECT_EQ(one.bias, two.bias);
  EXPECT_EQ(one.epoch, two.epoch);
}

TEST(NgramTrainer, IsIndependentOfMemory) {
  const Task task(Problem::classification, 4, 300);
  const TrainedNgrams tight = train_ngrams(task.texts, task.train, Imitation(task.teacher, task.exits, 1),
                                           small_pieces(kVocabulary), {.epochs = 8, .memory = 0}, 2);
  EXPECT_EQ(tight.table, task.trained(2).table);
}

TEST(NgramTrainer, KeepsTheEpochWithTheLowestLoss) {
  const Task task(Problem::classification, 4, 300);
  EXPECT_LE(task.trained(1, NgramSettings{}.bytes, 6).loss, task.trained(1, NgramSettings{}.bytes, 2).loss);
}

TEST(NgramTrainer, StaysWithinItsBytes) {
  const Task task(Problem::classification, 4, 300);
  const TrainedNgrams small = task.trained(1, 8 << 10), large = task.trained();
  EXPECT_EQ(small.table.size(), size_t{1} << 12);
  EXPECT_GT(large.table.size(), small.table.size());
}

TEST(NgramTrainer, ModelAnswersAsWasTrained) {
  ModelSpec spec = small_spec();
  spec.vocab = kVocabulary;
  const Task task(Problem::classification, 3, 600);
  ExitLayout layout = own_exits(spec);
  layout.sites = {{.after = spec.layers, .pooler = 0, .classifier = 0}};
  AttachedExits attached;
  attached.ngrams = task.trained();
  const Checkpoint model = with_exits(make_model(spec, layout), attached);
  Engine engine(model, {.threads = 1});
  const std::span<const Encoding> validation = std::span(task.texts).subspan(task.train);
  double right = 0;
  const std::vector<Answer> answers = engine.answer(validation, {.max_layers = 0});
  for (size_t i = 0; i < answers.size(); ++i)
    right += task.teacher[(task.train + i) * 3 + static_cast<size_t>(answers[i].evidence.label)] > 0 ? 1 : 0;
  EXPECT_NEAR(right / static_cast<double>(answers.size()), attached.ngrams->agreement, 0.01);
}

}  // namespace
}  // namespace exeunt
