// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/ngram_trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "exeunt/attach/head_trainer.h"
#include "exeunt/base/error.h"
#include "exeunt/base/half.h"
#include "exeunt/base/parallel.h"

namespace exeunt {
namespace {

constexpr int kMaxDirect = 32;  // outputs that are columns of the table; more are mapped from so many columns
constexpr std::array<float, 2> kRates = {0.05F, 0.2F};

// Weights with the sum of their squared gradients.
struct Adagrad {
  std::vector<float> values, squares;
  explicit Adagrad(size_t count = 0) : values(count), squares(count, 1e-6F) {}

  void step(size_t at, float gradient, float rate) noexcept {
    squares[at] += gradient * gradient;
    values[at] -= rate * gradient / std::sqrt(squares[at]);
  }
};

// Rows for twice the features of the texts, as far as `bytes` allow.
int bits_for(std::span<const Encoding> texts, const TokenPieces& pieces, int rank, size_t bytes) {
  constexpr int kWide = 22;
  const NgramFeatures features(pieces.bytes, pieces.begins, kWide);
  std::vector<bool> seen(size_t{1} << kWide);
  for (const Encoding& text : texts) features.each(text.ids, [&](uint32_t place) { seen[place] = true; });
  const auto distinct = static_cast<size_t>(std::count(seen.begin(), seen.end(), true));
  int bits = 10;
  const auto fits = [&](int more) {
    return (size_t{1} << more) * static_cast<size_t>(rank) * sizeof(uint16_t) <= bytes;
  };
  while (bits < kWide && (size_t{1} << bits) < 2 * distinct && fits(bits + 1)) ++bits;
  return bits;
}

class Run {
 public:
  Run(std::span<const Encoding> texts, size_t train, const Imitation& targets, const TrainedNgrams& shape, int outputs,
      uint64_t seed, float rate)
      : texts_(texts),
        train_(train),
        targets_(targets),
        features_(shape.pieces.bytes, shape.pieces.begins, shape.shape.bits),
        rank_(static_cast<size_t>(shape.shape.rank)),
        outputs_(static_cast<size_t>(outputs)),
        seed_(seed),
        rate_(rate),
        table_((size_t{1} << shape.shape.bits) * rank_),
        output_(rank_ < outputs_ ? rank_ * outputs_ : 0),
        bias_(outputs_),
        hidden_(rank_),
        hidden_gradient_(rank_),
        logits_(outputs_),
        gradient_(outputs_) {
    if (output_.values.empty()) return;
    for (size_t i = 0; i < table_.values.size(); ++i) {  // a product of zeros would stay one
      const double uniform = static_cast<double>(random_bits(seed, i) >> 11) * 0x1p-53;
      table_.values[i] = static_cast<float>((2 * uniform - 1) / static_cast<double>(rank_));
    }
  }

  void epoch(int number) {
    for (const size_t text : epoch_order(train_, seed_, number)) step(text);
  }

  // Mean loss and agreement over the validation texts.
  std::pair<double, double> validate() {
    double loss = 0, agreement = 0;
    for (size_t text = train_; text < texts_.size(); ++text) {
      forward(text);
      loss += targets_.loss({&text, 1}, logits_, {});
      agreement += targets_.agreement({&text, 1}, logits_);
    }
    const auto count = static_cast<double>(texts_.size() - train_);
    return {loss / count, agreement / count * targets_.spread()};
  }

  void keep(TrainedNgrams& out) const {
    out.table.resize(table_.values.size());
    const auto spread = static_cast<float>(targets_.spread()), mean = static_cast<float>(targets_.mean());
    std::ranges::transform(table_.values, out.table.begin(), [&](float one) { return float_to_bf16(one * spread); });
    out.output = output_.values;
    out.bias.resize(outputs_);
    std::ranges::transform(bias_.values, out.bias.begin(), [&](float one) { return one * spread + mean; });
  }

 private:
  void forward(size_t text) {
    places_.clear();
    features_.each(texts_[text].ids, [&](uint32_t place) { places_.push_back(place * rank_); });
    scale_ = 1 / std::sqrt(static_cast<float>(std::max<size_t>(places_.size(), 1)));
    std::ranges::fill(hidden_, 0.0F);
    for (const size_t place : places_) {
      for (size_t c = 0; c < rank_; ++c) hidden_[c] += table_.values[place + c];
    }
    for (float& value : hidden_) value *= scale_;
    logits_ = bias_.values;
    for (size_t o = 0; o < outputs_; ++o) {
      if (output_.values.empty()) logits_[o] += hidden_[o];
      for (size_t c = 0; c < rank_ && !output_.values.empty(); ++c)
        logits_[o] += output_.values[o * rank_ + c] * hidden_[c];
    }
  }

  void step(size_t text) {
    forward(text);
    (void)targets_.loss({&text, 1}, logits_, gradient_);
    hidden_gradient_ = gradient_;
    if (!output_.values.empty()) {
      hidden_gradient_.assign(rank_, 0.0F);
      for (size_t o = 0; o < outputs_; ++o) {
        for (size_t c = 0; c < rank_; ++c) {
          hidden_gradient_[c] += gradient_[o] * output_.values[o * rank_ + c];
          output_.step(o * rank_ + c, gradient_[o] * hidden_[c], rate_);
        }
      }
    }
    for (size_t o = 0; o < outputs_; ++o) bias_.step(o, gradient_[o], rate_);
    for (float& value : hidden_gradient_) value *= scale_;
    for (const size_t place : places_) {
      for (size_t c = 0; c < rank_; ++c) table_.step(place + c, hidden_gradient_[c], rate_);
    }
  }

  std::span<const Encoding> texts_;
  size_t train_;
  const Imitation& targets_;
  NgramFeatures features_;
  size_t rank_, outputs_;
  uint64_t seed_;
  float rate_, scale_ = 1;
  Adagrad table_, output_, bias_;
  std::vector<float> hidden_, hidden_gradient_, logits_, gradient_;
  std::vector<size_t> places_ = {};
};

}  // namespace

TrainedNgrams train_ngrams(std::span<const Encoding> texts, size_t train, const Imitation& targets, TokenPieces pieces,
                           const NgramSettings& settings, int threads) {
  check(train > 0 && train < texts.size() && texts.size() == targets.texts(), "training and validation texts");
  const int outputs = targets.outputs();
  TrainedNgrams shape;
  shape.shape.rank = std::min(outputs, kMaxDirect);
  shape.shape.bits = bits_for(texts.first(train), pieces, shape.shape.rank, settings.bytes);
  shape.shape.piece_bytes = static_cast<int64_t>(pieces.bytes.size());
  shape.pieces = std::move(pieces);
  std::array<TrainedNgrams, kRates.size()> found;
  const size_t weights = (size_t{1} << shape.shape.bits) * static_cast<size_t>(shape.shape.rank);
  const size_t run_bytes = weights * (2 * sizeof(float) + sizeof(uint16_t));  // with their squares, and the best so far
  const bool together = kRates.size() * run_bytes <= settings.memory;
  parallel_for(static_cast<int64_t>(kRates.size()), together ? threads : 1, [&](int64_t nth) {
    TrainedNgrams& best = found[static_cast<size_t>(nth)];
    best.loss = std::numeric_limits<double>::infinity();
    Run run(texts, train, targets, shape, outputs, settings.seed, kRates[static_cast<size_t>(nth)]);
    for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
      run.epoch(epoch);
      const auto [loss, agreement] = run.validate();
      if (loss >= best.loss) continue;
      best.loss = loss;
      best.agreement = agreement;
      best.epoch = epoch;
      run.keep(best);
    }
  });
  TrainedNgrams& best = *std::ranges::min_element(found, {}, &TrainedNgrams::loss);
  best.shape = shape.shape;
  best.pieces = std::move(shape.pieces);
  return std::move(best);
}

}  // namespace exeunt
