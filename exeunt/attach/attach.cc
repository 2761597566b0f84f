// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/attach.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>

#include "exeunt/base/error.h"
#include "exeunt/base/half.h"
#include "exeunt/base/parallel.h"

namespace exeunt {
namespace {

using TextIndices = std::span<const size_t>;  // of texts

// A phase's progress bar, for several threads.
class PhaseProgress {
 public:
  PhaseProgress(std::string what, int64_t total, const ProgressStyle& style) : bar_(std::move(what), total, style) {}
  void operator()(int64_t steps) {
    const std::scoped_lock lock(mutex_);
    bar_.advance(steps);
  }

 private:
  Progress bar_;
  std::mutex mutex_ = {};
};

HeadShape shape_of(const Engine& engine) {
  const ExitLayout& exits = engine.exits();
  return {
      .hidden = engine.spec().hidden, .width = exits.width, .outputs = exits.outputs, .inner = exits.inner.value_or(0)};
}

struct LayerSpan {
  int first = 1, last = 1;  // layers, from 1
  [[nodiscard]] int count() const noexcept { return last - first + 1; }
};

// The rows of many texts after some layers of a model, as bf16: half the memory, and the same values whether they are
// kept or computed again.
class CachedRows {
 public:
  // Runs `texts` as deep as `depth` and keeps their rows after the layers of `span`.
  CachedRows(Engine& engine, std::span<const Encoding> texts, LayerSpan span, int depth,
             const std::function<void(int64_t)>& advance)
      : hidden_(static_cast<size_t>(engine.spec().hidden)), span_(span) {
    begins_.push_back(0);
    for (const Encoding& text : texts) begins_.push_back(begins_.back() + text.ids.size());
    rows_.resize(static_cast<size_t>(span.count()));
    for (std::vector<uint16_t>& rows : rows_) rows.resize(begins_.back() * hidden_);
    const auto keep = [&](size_t text, int layer, std::span<const float> rows) {
      if (layer < span.first || layer > span.last) return;
      uint16_t* out = rows_[static_cast<size_t>(layer - span.first)].data() + begins_[text] * hidden_;
      for (size_t i = 0; i < rows.size(); ++i) out[i] = float_to_bf16(rows[i]);
    };
    logits_ = engine.layer_rows(texts, depth, keep, advance);
  }

  [[nodiscard]] TextRows at(size_t text, int layer) const noexcept {
    const std::vector<uint16_t>& rows = rows_[static_cast<size_t>(layer - span_.first)];
    return {.rows = rows.data() + begins_[text] * hidden_,
            .tokens = static_cast<int>(begins_[text + 1] - begins_[text])};
  }
  // Of the last exit, [texts, outputs], where all layers were run.
  [[nodiscard]] const std::vector<float>& logits() const noexcept { return logits_; }

  [[nodiscard]] static size_t bytes(std::span<const Encoding> texts, int hidden, int layers) noexcept {
    size_t tokens = 0;
    for (const Encoding& text : texts) tokens += text.ids.size();
    return tokens * static_cast<size_t>(hidden) * static_cast<size_t>(layers) * sizeof(uint16_t);
  }

 private:
  size_t hidden_;
  LayerSpan span_;
  std::vector<size_t> begins_ = {};               // [texts + 1] first token of each text
  std::vector<std::vector<uint16_t>> rows_ = {};  // of each layer, [tokens, hidden]
  std::vector<float> logits_ = {};
};

// Some of the texts and their rows: `rows` holds those of all texts, or of these alone in this order.
struct TextSlice {
  TextIndices texts;
  const CachedRows& rows;
  bool rows_of_all;

  [[nodiscard]] TextRows at(size_t place, int layer) const {
    return rows.at(rows_of_all ? texts[place] : place, layer);
  }
};

class ExitTrainer {
 public:
  ExitTrainer(Engine& engine, std::span<const Encoding> train, std::span<const Encoding> validation,
              const AttachOptions& options)
      : engine_(engine), options_(options), layers_(engine.spec().layers), train_count_(train.size()) {
    check(!train.empty() && !validation.empty(), "training and validation texts");
    texts_.assign(train.begin(), train.end());
    texts_.insert(texts_.end(), validation.begin(), validation.end());
    validation_.resize(validation.size());
    std::iota(validation_.begin(), validation_.end(), train_count_);
    for (int epoch = 0; epoch < options.heads.epochs; ++epoch) {
      orders_.push_back(epoch_order(train_count_, options.heads.seed, epoch));
    }
    for (int exit = 1; exit < layers_; ++exit) {
      exits_.push_back({.trainer = {}, .found = {.after = exit, .weights = HeadArray(shape_of(engine))}});
    }
  }

  // Each exit needs the rows of its layer and a trainer in memory.
  AttachedExits run() {
    const size_t trainer = HeadTrainer::bytes(shape_of(engine_));
    const size_t rows = CachedRows::bytes(texts_, engine_.spec().hidden, 1);
    if (const size_t together = std::min(options_.memory / (rows + trainer), exits_.size()); together > 0) {
      train_cached(static_cast<int>(together));
    } else {
      const size_t trainers = exits_.size() * trainer;
      train_recomputing(options_.memory > trainers ? options_.memory - trainers : 0);
    }
    AttachedExits out;
    for (Exit& exit : exits_) out.exits.push_back(std::move(exit.found));
    if (options_.pieces) {
      const NgramSettings settings{
          .bytes = options_.ngram_bytes, .memory = options_.memory, .seed = options_.heads.seed};
      out.ngrams = train_ngrams(texts_, train_count_, *targets_, *options_.pieces, settings, options_.threads);
    }
    return out;
  }

 private:
  struct Exit {
    std::optional<HeadTrainer> trainer;  // while it trains
    AttachedExit found;
    HeadTrainer::Validation sums = {};  // over the validation texts, in this epoch
  };

  void set_targets(const std::vector<float>& logits) {
    const ExitLayout& exits = engine_.exits();
    const size_t count = train_count_ * static_cast<size_t>(exits.outputs);
    if (options_.on_teacher_logits) options_.on_teacher_logits(std::span(logits).first(count));
    targets_.emplace(logits, exits, options_.heads.temperature);
  }

  // Groups of layers whose rows fit into memory, the deepest first: the first pass runs all layers for the teacher's
  // logits anyway, and later ones end at the deepest layer of their group.
  void train_cached(int together) {
    for (int last = layers_ - 1; last >= 1; last -= together) {
      const LayerSpan span{.first = std::max(1, last - together + 1), .last = last};
      PhaseProgress report("running the model", static_cast<int64_t>(texts_.size()), options_.progress);
      const CachedRows rows(engine_, texts_, span, targets_ ? last : layers_, [&](int64_t texts) { report(texts); });
      if (!targets_) set_targets(rows.logits());
      PhaseProgress heads("training exits", int64_t{span.count()} * static_cast<int64_t>(orders_.size()),
                          options_.progress);
      parallel_for(span.count(), options_.threads, [&](int64_t nth) {
        Exit& exit = exits_[static_cast<size_t>(span.first - 1 + nth)];
        begin(exit);
        for (size_t epoch = 0; epoch < orders_.size(); ++epoch) {
          train(exit, {.texts = orders_[epoch], .rows = rows, .rows_of_all = true});
          validate(exit, {.texts = validation_, .rows = rows, .rows_of_all = true});
          end_epoch(exit, static_cast<int>(epoch));
          heads(1);
        }
        finish(exit);
      });
    }
  }

  // Without memory for even one layer: all exits train side by side on the rows of a few batches at a time, and the
  // model runs again in every epoch.
  void train_recomputing(size_t memory) {
    const auto all = static_cast<int64_t>(texts_.size());
    PhaseProgress answering("running the model", all, options_.progress);
    set_targets(engine_.layer_rows(
        texts_, layers_, [](size_t, int, std::span<const float>) {}, [&](int64_t texts) { answering(texts); }));
    PhaseProgress report("training exits", all * static_cast<int64_t>(orders_.size()), options_.progress);
    const auto each_exit = [&](const auto& use) {
      parallel_for(static_cast<int64_t>(exits_.size()), options_.threads,
                   [&](int64_t nth) { use(exits_[static_cast<size_t>(nth)]); });
    };
    for (Exit& exit : exits_) begin(exit);
    for (size_t epoch = 0; epoch < orders_.size(); ++epoch) {
      for_slices(orders_[epoch], memory, report,
                 [&](const TextSlice& slice) { each_exit([&](Exit& exit) { train(exit, slice); }); });
      for_slices(validation_, memory, report,
                 [&](const TextSlice& slice) { each_exit([&](Exit& exit) { validate(exit, slice); }); });
      for (Exit& exit : exits_) end_epoch(exit, static_cast<int>(epoch));
    }
    for (Exit& exit : exits_) finish(exit);
  }

  void begin(Exit& exit) const {
    const auto batch = static_cast<size_t>(options_.heads.batch);
    const auto steps = static_cast<int64_t>((train_count_ + batch - 1) / batch) * options_.heads.epochs;
    exit.trainer.emplace(shape_of(engine_), engine_.kernels(), options_.heads, exit.found.after, steps);
  }

  void finish(Exit& exit) const {
    exit.found.weights = exit.trainer->best();
    targets_->finish(exit.found.weights);
    exit.trainer.reset();
  }

  // Pieces of whole batches, as many as fit into `memory`, one at least.
  template <class Use>
  void for_slices(TextIndices order, size_t memory, PhaseProgress& report, const Use& use) {
    const auto batch = static_cast<size_t>(options_.heads.batch);
    const LayerSpan span{.first = 1, .last = layers_ - 1};
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      std::vector<Encoding> texts;
      size_t bytes = 0;
      while (end < order.size() && (end == begin || bytes < memory)) {
        const size_t next = std::min(order.size(), end + batch);
        for (; end < next; ++end) {
          texts.push_back(texts_[order[end]]);
          bytes += CachedRows::bytes({&texts.back(), 1}, engine_.spec().hidden, span.count());
        }
      }
      const CachedRows rows(engine_, texts, span, span.last, [&](int64_t count) { report(count); });
      use(TextSlice{.texts = order.subspan(begin, end - begin), .rows = rows, .rows_of_all = false});
    }
  }

  // Calls use(texts, rows) for every batch of a slice.
  template <class Use>
  void for_batches(const TextSlice& slice, int layer, const Use& use) const {
    const auto batch = static_cast<size_t>(options_.heads.batch);
    std::vector<TextRows> rows;
    for (size_t begin = 0; begin < slice.texts.size(); begin += batch) {
      const TextIndices texts = slice.texts.subspan(begin, std::min(batch, slice.texts.size() - begin));
      rows.clear();
      for (size_t i = 0; i < texts.size(); ++i) rows.push_back(slice.at(begin + i, layer));
      use(texts, rows);
    }
  }

  void train(Exit& exit, const TextSlice& slice) const {
    for_batches(slice, exit.found.after,
                [&](TextIndices texts, std::span<const TextRows> rows) { exit.trainer->step(*targets_, texts, rows); });
  }

  void validate(Exit& exit, const TextSlice& slice) const {
    for_batches(slice, exit.found.after, [&](TextIndices texts, std::span<const TextRows> rows) {
      const HeadTrainer::Validation found = exit.trainer->validate(*targets_, texts, rows);
      exit.sums.loss += found.loss;
      exit.sums.agreement += found.agreement;
    });
  }

  void end_epoch(Exit& exit, int epoch) const {
    const auto count = static_cast<double>(validation_.size());
    const double loss = exit.sums.loss / count;
    if (exit.trainer->keep_if_best(loss)) {
      exit.found.epoch = epoch + 1;
      exit.found.loss = loss;
      exit.found.agreement = exit.sums.agreement / count * targets_->spread();
    }
    exit.sums = {};
  }

  Engine& engine_;
  const AttachOptions& options_;
  int layers_;
  size_t train_count_;                            // the first texts are for training,
  std::vector<Encoding> texts_ = {};              // the others for validation
  std::vector<size_t> validation_ = {};           // their numbers
  std::vector<std::vector<size_t>> orders_ = {};  // of the training texts, by epoch
  std::vector<Exit> exits_ = {};
  std::optional<Imitation> targets_ = {};
};

}  // namespace

AttachedExits train_exits(Engine& engine, std::span<const Encoding> train, std::span<const Encoding> validation,
                          const AttachOptions& options) {
  return ExitTrainer(engine, train, validation, options).run();
}

}  // namespace exeunt
