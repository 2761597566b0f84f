// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/baseline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kMostWeights = size_t{1} << 24;  // 64 MiB, however many classes there are
constexpr uint32_t kMostBuckets = 1U << 18, kLeastBuckets = 1U << 12;
constexpr size_t kMostWords = 512;  // of one text
constexpr int kMostEpochs = 30, kLeastEpochs = 3;
constexpr double kMostWork = 3e9;  // multiplications: a few seconds
constexpr double kRate = 0.5, kDecay = 1e-6;

constexpr uint64_t kStart = 14695981039346656037ULL, kPrime = 1099511628211ULL;

uint64_t mixed(uint64_t hash, std::string_view bytes) noexcept {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return hash;
}

// The last steps of MurmurHash3, so that the low bits depend on all of them.
uint64_t finished(uint64_t hash) noexcept {
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdULL;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return hash ^ (hash >> 33);
}

bool in_word(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || byte == '\'';
}

// Words in lower case (of ASCII), between blanks that mark their ends.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (!word.empty() && words.size() < kMostWords) words.push_back(' ' + word + ' ');
    word.clear();
  };
  for (const char c : lower(text)) in_word(c) ? word.push_back(c) : end();
  end();
  return words;
}

// Calls use(hash) for every term; those of a second text are other ones.
template <class Use>
void each_term(std::string_view text, uint64_t start, Use&& use) {
  const std::vector<std::string> words = words_of(text);
  for (size_t i = 0; i < words.size(); ++i) {
    use(mixed(start ^ 1, words[i]));
    if (i > 0) use(mixed(mixed(start ^ 2, words[i - 1]), words[i]));
    for (size_t length = 3; length <= 5; ++length) {
      for (size_t at = 0; at + length <= words[i].size(); ++at) {
        use(mixed(start ^ length, std::string_view(words[i]).substr(at, length)));
      }
    }
  }
}

// A permutation that depends on the number alone (splitmix64).
void shuffle(std::vector<size_t>& order, uint64_t seed) {
  for (size_t i = order.size(); i > 1; --i) {
    seed += 0x9e3779b97f4a7c15ULL;
    std::swap(order[i - 1], order[finished(seed) % i]);
  }
}

std::vector<float> gold_of(const Dataset& data) {
  std::vector<float> out;
  for (const Example& example : data.examples) append_gold(data, example, out);
  return out;
}

// Enough for a baseline, and few enough to stay in memory: evenly from all of them.
Dataset some_rows(const Dataset& data) {
  constexpr size_t kMostRows = 20000;
  Dataset out = data;
  if (data.examples.size() <= kMostRows) return out;
  out.examples.clear();
  for (size_t i = 0; i < kMostRows; ++i) out.examples.push_back(data.examples[i * data.examples.size() / kMostRows]);
  return out;
}

std::string majority_name(Problem problem) {
  switch (problem) {
    case Problem::classification:
      break;
    case Problem::multi_label:
      return "majority set";
    case Problem::regression:
      return "mean of the labels";
  }
  return "majority class";
}

}  // namespace

LinearModel::Terms LinearModel::terms_of(const Example& example) const {
  std::map<uint32_t, int> counts;
  const auto count = [&](uint64_t hash) { ++counts[static_cast<uint32_t>(finished(hash) & (buckets_ - 1))]; };
  each_term(example.text, kStart, count);
  if (example.pair) each_term(*example.pair, mixed(kStart, "second"), count);
  Terms terms;
  double square = 0;
  for (const auto& [bucket, times] : counts) {
    const double rarity = idf_.empty() ? 1 : idf_[bucket];
    const double weight = (1 + std::log(times)) * rarity;
    terms.push_back({bucket, static_cast<float>(weight)});
    square += weight * weight;
  }
  const auto scale = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
  for (Term& term : terms) term.weight *= scale;
  return terms;
}

void LinearModel::logits_of(const Terms& terms, std::vector<float>& out) const {
  const float* bias = weights_.data() + static_cast<size_t>(buckets_) * width_;
  std::copy(bias, bias + width_, out.begin());
  for (const Term& term : terms) {
    const float* row = weights_.data() + static_cast<size_t>(term.bucket) * width_;
    for (size_t k = 0; k < width_; ++k) out[k] += term.weight * row[k];
  }
}

void LinearModel::take_gradient(std::vector<float>& out, const float* gold) const {
  switch (problem_) {
    case Problem::classification:
      break;
    case Problem::multi_label:
      for (size_t k = 0; k < width_; ++k) out[k] = 1 / (1 + std::exp(-out[k])) - gold[k];
      return;
    case Problem::regression:
      out[0] -= *gold;
      return;
  }
  const float top = *std::max_element(out.begin(), out.end());
  float sum = 0;
  for (float& value : out) sum += value = std::exp(value - top);
  for (float& value : out) value /= sum;
  out[static_cast<size_t>(*gold)] -= 1;
}

// AdaGrad with one step size per bucket: what is rare takes larger steps.
void LinearModel::learn(const std::vector<Terms>& texts, const std::vector<float>& gold) {
  double work = 0;
  for (const Terms& terms : texts) work += 2.0 * static_cast<double>(terms.size() * width_);
  const int epochs = std::clamp(static_cast<int>(kMostWork / std::max(1.0, work)), kLeastEpochs, kMostEpochs);
  std::vector<float> seen(buckets_ + 1, 1e-8F), out(width_);
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  float* bias = weights_.data() + static_cast<size_t>(buckets_) * width_;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    shuffle(order, static_cast<uint64_t>(epoch));
    for (const size_t text : order) {
      logits_of(texts[text], out);
      take_gradient(out, gold.data() + text * (gold.size() / texts.size()));
      float square = 0;
      for (const float value : out) square += value * value;
      const auto step = [&](uint32_t bucket, float weight, float* row) {
        seen[bucket] += square * weight * weight;
        const auto rate = static_cast<float>(kRate / std::sqrt(seen[bucket]));
        for (size_t k = 0; k < width_; ++k) row[k] -= rate * (weight * out[k] + static_cast<float>(kDecay) * row[k]);
      };
      for (const Term& term : texts[text]) {
        step(term.bucket, term.weight, weights_.data() + static_cast<size_t>(term.bucket) * width_);
      }
      step(buckets_, 1, bias);
    }
  }
}

LinearModel::LinearModel(const Dataset& train) : problem_(train.problem) {
  check(train.labelled && !train.examples.empty(), "a linear model learns from labelled rows");
  width_ = problem_ == Problem::regression ? 1 : train.labels.size();
  buckets_ = kMostBuckets;
  while (buckets_ > kLeastBuckets && static_cast<size_t>(buckets_) * width_ > kMostWeights) buckets_ /= 2;
  std::vector<float> rows_with(buckets_, 0);
  for (const Example& example : train.examples) {
    for (const Term& term : terms_of(example)) ++rows_with[term.bucket];
  }
  const auto rows = static_cast<double>(train.examples.size());
  for (float& value : rows_with) value = static_cast<float>(std::log((1 + rows) / (1 + value)) + 1);
  idf_ = std::move(rows_with);

  std::vector<Terms> texts;
  for (const Example& example : train.examples) texts.push_back(terms_of(example));
  std::vector<float> gold = gold_of(train);
  if (problem_ == Problem::regression) {
    double sum = 0, square = 0;
    for (const float value : gold) sum += value;
    centre_ = static_cast<float>(sum / rows);
    for (const float value : gold) square += (value - centre_) * (value - centre_);
    scale_ = square > 0 ? static_cast<float>(std::sqrt(square / rows)) : 1;
    for (float& value : gold) value = (value - centre_) / scale_;
  }
  weights_.assign((static_cast<size_t>(buckets_) + 1) * width_, 0);
  learn(texts, gold);
}

std::vector<float> LinearModel::answers(const Dataset& data) const {
  std::vector<float> answers, out(width_);
  for (const Example& example : data.examples) {
    logits_of(terms_of(example), out);
    switch (problem_) {
      case Problem::classification:
        answers.push_back(static_cast<float>(std::max_element(out.begin(), out.end()) - out.begin()));
        break;
      case Problem::multi_label:
        for (const float value : out) answers.push_back(value > 0 ? 1.0F : 0.0F);
        break;
      case Problem::regression:
        answers.push_back(out[0] * scale_ + centre_);
        break;
    }
  }
  return answers;
}

std::vector<float> majority_answer(const Dataset& train) {
  check(!train.examples.empty(), "rows have a majority answer");
  const std::vector<float> gold = gold_of(train);
  const size_t width = gold.size() / train.examples.size();
  std::map<std::vector<float>, int64_t> rows;  // with each answer
  switch (train.problem) {
    case Problem::classification:
    case Problem::multi_label:
      for (auto at = gold.begin(); at != gold.end(); at += static_cast<ptrdiff_t>(width))
        ++rows[{at, at + static_cast<ptrdiff_t>(width)}];
      return std::max_element(rows.begin(), rows.end(),
                              [](const auto& a, const auto& b) { return a.second < b.second; })
          ->first;
    case Problem::regression:
      break;
  }
  return {static_cast<float>(std::accumulate(gold.begin(), gold.end(), 0.0) / static_cast<double>(gold.size()))};
}

std::vector<BaselineScore> baseline(const Dataset& train, const Dataset& data, const std::vector<Metric>& metrics) {
  const std::vector<float> gold = gold_of(data), majority = majority_answer(train);
  std::vector<float> always;
  for (size_t row = 0; row < data.examples.size(); ++row) always.insert(always.end(), majority.begin(), majority.end());
  const auto scores = [&](const std::vector<float>& answers) {
    switch (train.problem) {
      case Problem::classification:
      case Problem::regression:
        return score(metrics, answers, gold);
      case Problem::multi_label:
        return score_sets(metrics, answers, gold, data.labels.size());
    }
    return std::vector<Score>();
  };
  return {{majority_name(train.problem), scores(always)},
          {"linear model", scores(LinearModel(some_rows(train)).answers(data))}};
}

std::vector<std::string> baseline_lines(const std::vector<BaselineScore>& baseline) {
  std::vector<std::string> lines;
  for (const BaselineScore& other : baseline) {
    std::vector<std::string> figures;
    for (const Score& score : other.metrics)
      figures.push_back(fmt::format("{} {:.2f}", name_of(score.metric), 100 * score.value));
    lines.push_back(fmt::format("{}: {}", other.name, fmt::join(figures, ", ")));
  }
  return lines;
}

std::string lost_to_baseline(const std::vector<BaselineScore>& baseline, Metric metric, double reached) {
  const BaselineScore* better = nullptr;
  double best = reached;
  for (const BaselineScore& other : baseline) {
    for (const Score& score : other.metrics) {
      if (score.metric != metric || !(score.value > best)) continue;
      best = score.value;
      better = &other;
    }
  }
  if (better == nullptr) return {};
  return fmt::format(
      "the {} does better than the network, {} {:.2f} against {:.2f}: train longer (--epochs) or faster (--lr), bring "
      "more rows, or start from another encoder (--model)",
      better->name, name_of(metric), 100 * best, 100 * reached);
}

}  // namespace exeunt
