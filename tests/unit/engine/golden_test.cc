// SPDX-License-Identifier: Apache-2.0
// The reference forward against Hugging Face transformers: every model under tests/fixtures/golden (made by
// scripts/golden/models.py) is opened as a user would, and must agree after every layer and at every exit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/safetensors.h"
#include "tests/reference/reference.h"
#include "tests/unit/engine/goldens.h"

namespace exeunt {
namespace {

constexpr float kTolerance = 1e-5F;

// One slice of a golden tensor [texts, …], or nothing if the model has no such thing.
class Golden {
 public:
  Golden(const TensorSet& set, const std::string& name, size_t texts) : name_(name) {
    if (set.find(name) == nullptr) return;
    all_ = golden_values<float>(set, name);
    size_ = all_.size() / texts;
  }

  // Takes the next values of text `n`, which must be `got`.
  void expect(size_t n, size_t& at, std::span<const float> got) const {
    if (all_.empty()) return;
    ASSERT_LE(at + got.size(), size_) << name_;
    float worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const float difference = std::abs(got[i] - all_[n * size_ + at + i]);
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    }
    EXPECT_LE(worst, kTolerance) << name_ << " of text " << n << " from " << at;
    at += got.size();
  }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return all_.empty(); }

 private:
  std::string name_;
  std::vector<float> all_ = {};
  size_t size_ = 0;
};

std::vector<float> mean_of(const ReferenceOutput& out, int layer) {
  std::vector<double> sum(static_cast<size_t>(out.hidden), 0.0);
  for (int t = 0; t < out.tokens; ++t) {
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += out.row(layer, t)[c];
  }
  std::vector<float> mean(sum.size());
  for (size_t c = 0; c < sum.size(); ++c) mean[c] = static_cast<float>(sum[c] / out.tokens);
  return mean;
}

class GoldenModel : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, MatchesGoldenAtEveryLayerAndExit) {
  const std::string folder = std::string(EXEUNT_TEST_DATA "/golden/") + GetParam();
  const Reference reference(Checkpoint::open(folder));
  const TensorSet set = read_safetensors(folder + "/golden.safetensors");
  const auto ids = golden_values<int32_t>(set, "ids"), lengths = golden_values<int32_t>(set, "lengths");
  const auto types = golden_values<uint8_t>(set, "types");
  const size_t texts = lengths.size();
  ASSERT_GE(texts, 8U);
  const Golden row0(set, "row0", texts), mean(set, "mean", texts), pooled(set, "pooled", texts),
      logits(set, "logits", texts), lte(set, "lte", texts), ramp(set, "ramp", texts);
  std::vector<int> exits;
  for (const ExitSite& site : reference.exits().sites) exits.push_back(site.after);
  EXPECT_EQ(exits, set.find("exits") ? golden_values<int32_t>(set, "exits") : std::vector<int>{});
  EXPECT_EQ(reference.exits().lte, !lte.empty());
  EXPECT_EQ(reference.exits().last_ramp.has_value(), !ramp.empty());

  size_t begin = 0;
  for (size_t n = 0; n < texts; ++n) {
    const auto length = static_cast<size_t>(lengths[n]);
    const ReferenceOutput out =
        reference.run(std::span(ids).subspan(begin, length), std::span(types).subspan(begin, length));
    begin += length;
    size_t at_row0 = 0, at_mean = 0, at_pooled = 0, at_logits = 0, at_lte = 0, at_ramp = 0;
    for (int layer = 0; layer <= reference.spec().layers; ++layer) {
      row0.expect(n, at_row0, out.row(layer, 0));
      mean.expect(n, at_mean, mean_of(out, layer));
    }
    for (const ReferenceExit& exit : out.exits) {
      pooled.expect(n, at_pooled, exit.pooled);
      logits.expect(n, at_logits, exit.logits);
      if (exit.lte) lte.expect(n, at_lte, std::span(&*exit.lte, 1));
    }
    if (out.ramp) ramp.expect(n, at_ramp, out.ramp->logits);
    EXPECT_EQ(at_row0, row0.size());
    EXPECT_EQ(at_mean, mean.size());
    EXPECT_EQ(at_pooled, pooled.size());
    EXPECT_EQ(at_logits, logits.size());
    EXPECT_EQ(at_lte, lte.size());
    EXPECT_EQ(at_ramp, ramp.size());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, ::testing::ValuesIn(golden_names()),
                         [](const auto& model) { return model.param; });

// Of several labels at once, other software's sigmoids are the scores, and they decide by any thresholds.
TEST(GoldenModels, MultiLabelAnswersAreLabelsAboveThresholds) {
  const std::string folder = EXEUNT_TEST_DATA "/golden/hf_bert_multi_label";
  const Checkpoint checkpoint = Checkpoint::open(folder);
  ASSERT_EQ(checkpoint.exits().problem, Problem::multi_label);
  const Reference reference(checkpoint);
  const TensorSet set = read_safetensors(folder + "/golden.safetensors");
  const auto ids = golden_values<int32_t>(set, "ids"), lengths = golden_values<int32_t>(set, "lengths");
  const auto types = golden_values<uint8_t>(set, "types");
  const auto scores = golden_values<float>(set, "scores");
  const auto labels = static_cast<size_t>(checkpoint.exits().outputs);
  ASSERT_EQ(scores.size(), lengths.size() * labels);
  std::set<std::vector<int>> seen;
  size_t begin = 0;
  for (size_t n = 0; n < lengths.size(); ++n) {
    const auto length = static_cast<size_t>(lengths[n]);
    const ReferenceOutput out =
        reference.run(std::span(ids).subspan(begin, length), std::span(types).subspan(begin, length));
    begin += length;
    const std::vector<float>& logits = out.exits.back().logits;
    std::vector<float> got(labels);
    probabilities(checkpoint.exits().exit_logits(logits), got.data());
    for (size_t c = 0; c < labels; ++c) EXPECT_NEAR(got[c], scores[n * labels + c], 1e-6) << n;
    for (const std::vector<double>& thresholds : {std::vector<double>{0.5, 0.5, 0.5}, {0.3, 0.7, 0.45}}) {
      ExitLayout exits = checkpoint.exits();
      std::vector<int> want;
      for (size_t c = 0; c < labels; ++c) {
        exits.logit_thresholds.push_back(logit_of(thresholds[c]));
        const double score = scores[n * labels + c];
        ASSERT_GT(std::abs(score - thresholds[c]), 1e-4) << "too near to decide anything here";
        if (score > thresholds[c]) want.push_back(static_cast<int>(c));
      }
      EXPECT_EQ(labels_of(exits, logits), want) << n;
      seen.insert(want);
    }
  }
  EXPECT_GE(seen.size(), 3U) << "texts differ in their labels";
}

// Guards the loop above against an empty folder: these must be among the models.
TEST(GoldenModels, CoverEveryFamilyLayoutAndSystem) {
  const std::vector<std::string> names = golden_names();
  EXPECT_GE(names.size(), 61U);
  for (const char* name : {"hf_bert",
                           "hf_roberta",
                           "hf_albert",
                           "elasticbert",
                           "heads_own",
                           "heads_shared_pooler",
                           "heads_shared_all",
                           "heads_groups",
                           "heads_no_pooler",
                           "heads_fc2",
                           "heads_lte",
                           "heads_ramp",
                           "heads_pool_mean",
                           "heads_pool_max",
                           "heads_pool_cls_mean",
                           "heads_pool_cls_max",
                           "heads_pool_mean_max",
                           "heads_reader",
                           "heads_reader_roberta",
                           "heads_reader_albert",
                           "heads_reader_but_last",
                           "deebert_bert",
                           "deebert_roberta",
                           "romebert",
                           "berxit_bert",
                           "pabee_bert",
                           "pabee_albert",
                           "elbert",
                           "hf_distilbert",
                           "hf_electra",
                           "hf_xlm_roberta_classifier",
                           "hf_camembert",
                           "hf_deberta",
                           "hf_modernbert",
                           "hf_modernbert_mean",
                           "heads_modernbert",
                           "heads_distilbert",
                           "heads_electra",
                           "heads_deberta"}) {
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), name)) << name;
  }
}

}  // namespace
}  // namespace exeunt
