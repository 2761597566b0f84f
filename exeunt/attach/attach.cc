// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/attach.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>

#include "exeunt/attach/kept_rows.h"
#include "exeunt/base/error.h"
#include "exeunt/base/parallel.h"

namespace exeunt {
namespace {

using Numbers = std::span<const size_t>;  // of texts

// Each epoch has an order of its own.
std::vector<size_t> order_of_epoch(size_t texts, uint64_t seed, int epoch) {
  std::vector<size_t> order(texts);
  std::iota(order.begin(), order.end(), size_t{0});
  const uint64_t stream = random_bits(~seed, static_cast<uint64_t>(epoch));
  for (size_t i = texts; i-- > 1;) std::swap(order[i], order[random_bits(stream, i) % (i + 1)]);
  return order;
}

// Passes progress on, from several threads.
class Teller {
 public:
  Teller(const AttachOptions& options, std::string_view what, int64_t total)
      : options_(options), what_(what), total_(total) {}
  void operator()(int64_t steps) {
    if (!options_.advance) return;
    const std::scoped_lock lock(mutex_);
    options_.advance(what_, steps, total_);
  }

 private:
  const AttachOptions& options_;
  std::string_view what_;
  int64_t total_;
  std::mutex mutex_ = {};
};

HeadShape shape_of(const Engine& engine) {
  const ExitLayout& exits = engine.exits();
  return {
      .hidden = engine.spec().hidden, .width = exits.width, .outputs = exits.outputs, .inner = exits.inner.value_or(0)};
}

// Some of the texts and their rows: all rows by the text's number, or just theirs, in their order.
struct Piece {
  Numbers texts;
  const KeptRows& rows;
  bool all;

  [[nodiscard]] TextRows at(size_t place, int layer) const { return rows.at(all ? texts[place] : place, layer); }
};

class Learner {
 public:
  Learner(Engine& engine, std::span<const Encoding> learn, std::span<const Encoding> choose,
          const AttachOptions& options)
      : engine_(engine), options_(options), layers_(engine.spec().layers), learned_(learn.size()) {
    check(!learn.empty() && !choose.empty(), "texts to learn from and texts to choose by");
    texts_.assign(learn.begin(), learn.end());
    texts_.insert(texts_.end(), choose.begin(), choose.end());
    choosing_.resize(choose.size());
    std::iota(choosing_.begin(), choosing_.end(), learned_);
    for (int epoch = 0; epoch < options.heads.epochs; ++epoch) {
      orders_.push_back(order_of_epoch(learned_, options.heads.seed, epoch));
    }
    for (int exit = 1; exit < layers_; ++exit) {
      exits_.push_back({.trainer = {}, .found = {.after = exit, .weights = HeadArray(shape_of(engine))}});
    }
  }

  // An exit takes the rows of its layer and a trainer.
  std::vector<AttachedExit> run() {
    const size_t trainer = HeadTrainer::bytes(shape_of(engine_));
    const size_t rows = KeptRows::bytes(texts_, engine_.spec().hidden, 1);
    if (const size_t together = std::min(options_.memory / (rows + trainer), exits_.size()); together > 0) {
      keep_rows(static_cast<int>(together));
    } else {
      const size_t trainers = exits_.size() * trainer;
      run_again(options_.memory > trainers ? options_.memory - trainers : 0);
    }
    std::vector<AttachedExit> out;
    for (Exit& exit : exits_) out.push_back(std::move(exit.found));
    return out;
  }

 private:
  struct Exit {
    std::optional<HeadTrainer> trainer;  // while it learns
    AttachedExit found;
    HeadTrainer::Judged sums = {};  // over the texts for choosing, in the epoch at hand
  };

  void take_answers(const std::vector<float>& logits) {
    const ExitLayout& exits = engine_.exits();
    const size_t learned = learned_ * static_cast<size_t>(exits.outputs);
    if (options_.answers) options_.answers(std::span(logits).first(learned));
    targets_.emplace(logits, exits, options_.heads.temperature);
  }

  // Groups of layers whose rows fit into memory, the deepest first: the first pass runs all layers for the last exit's
  // answers anyway, and later ones end at the deepest layer of their group.
  void keep_rows(int together) {
    for (int last = layers_ - 1; last >= 1; last -= together) {
      const LayerSpan span{.first = std::max(1, last - together + 1), .last = last};
      Teller told(options_, "running the model", static_cast<int64_t>(texts_.size()));
      const KeptRows rows(engine_, texts_, span, targets_ ? last : layers_, [&](int64_t texts) { told(texts); });
      if (!targets_) take_answers(rows.logits());
      Teller heads(options_, "learning exits", int64_t{span.count()} * static_cast<int64_t>(orders_.size()));
      parallel_for(span.count(), options_.threads, [&](int64_t nth) {
        Exit& exit = exits_[static_cast<size_t>(span.first - 1 + nth)];
        begin(exit);
        for (size_t epoch = 0; epoch < orders_.size(); ++epoch) {
          learn(exit, {.texts = orders_[epoch], .rows = rows, .all = true});
          judge(exit, {.texts = choosing_, .rows = rows, .all = true});
          end_epoch(exit, static_cast<int>(epoch));
          heads(1);
        }
        finish(exit);
      });
    }
  }

  // Without room for even one layer: all exits learn side by side from the rows of a few batches at a time, and the
  // model runs again in every epoch.
  void run_again(size_t room) {
    const auto all = static_cast<int64_t>(texts_.size());
    Teller answering(options_, "running the model", all);
    take_answers(engine_.layer_rows(
        texts_, layers_, [](size_t, int, std::span<const float>) {}, [&](int64_t texts) { answering(texts); }));
    Teller told(options_, "learning exits", all * static_cast<int64_t>(orders_.size()));
    const auto each_exit = [&](const auto& use) {
      parallel_for(static_cast<int64_t>(exits_.size()), options_.threads,
                   [&](int64_t nth) { use(exits_[static_cast<size_t>(nth)]); });
    };
    for (Exit& exit : exits_) begin(exit);
    for (size_t epoch = 0; epoch < orders_.size(); ++epoch) {
      for_pieces(orders_[epoch], room, told,
                 [&](const Piece& piece) { each_exit([&](Exit& exit) { learn(exit, piece); }); });
      for_pieces(choosing_, room, told,
                 [&](const Piece& piece) { each_exit([&](Exit& exit) { judge(exit, piece); }); });
      for (Exit& exit : exits_) end_epoch(exit, static_cast<int>(epoch));
    }
    for (Exit& exit : exits_) finish(exit);
  }

  void begin(Exit& exit) const {
    const auto batch = static_cast<size_t>(options_.heads.batch);
    const auto steps = static_cast<int64_t>((learned_ + batch - 1) / batch) * options_.heads.epochs;
    exit.trainer.emplace(shape_of(engine_), engine_.kernels(), options_.heads, exit.found.after, steps);
  }

  void finish(Exit& exit) const {
    exit.found.weights = exit.trainer->best();
    targets_->finish(exit.found.weights);
    exit.trainer.reset();
  }

  // Pieces of whole batches, as many as fit into `room`, one at least.
  template <class Use>
  void for_pieces(Numbers order, size_t room, Teller& told, const Use& use) {
    const auto batch = static_cast<size_t>(options_.heads.batch);
    const LayerSpan span{.first = 1, .last = layers_ - 1};
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      std::vector<Encoding> texts;
      size_t bytes = 0;
      while (end < order.size() && (end == begin || bytes < room)) {
        const size_t next = std::min(order.size(), end + batch);
        for (; end < next; ++end) {
          texts.push_back(texts_[order[end]]);
          bytes += KeptRows::bytes({&texts.back(), 1}, engine_.spec().hidden, span.count());
        }
      }
      const KeptRows rows(engine_, texts, span, span.last, [&](int64_t count) { told(count); });
      use(Piece{.texts = order.subspan(begin, end - begin), .rows = rows, .all = false});
    }
  }

  // Calls use(texts, rows) for every batch of a piece.
  template <class Use>
  void for_batches(const Piece& piece, int layer, const Use& use) const {
    const auto batch = static_cast<size_t>(options_.heads.batch);
    std::vector<TextRows> rows;
    for (size_t begin = 0; begin < piece.texts.size(); begin += batch) {
      const Numbers texts = piece.texts.subspan(begin, std::min(batch, piece.texts.size() - begin));
      rows.clear();
      for (size_t i = 0; i < texts.size(); ++i) rows.push_back(piece.at(begin + i, layer));
      use(texts, rows);
    }
  }

  void learn(Exit& exit, const Piece& piece) const {
    for_batches(piece, exit.found.after,
                [&](Numbers texts, std::span<const TextRows> rows) { exit.trainer->step(*targets_, texts, rows); });
  }

  void judge(Exit& exit, const Piece& piece) const {
    for_batches(piece, exit.found.after, [&](Numbers texts, std::span<const TextRows> rows) {
      const HeadTrainer::Judged judged = exit.trainer->judge(*targets_, texts, rows);
      exit.sums.loss += judged.loss;
      exit.sums.agreement += judged.agreement;
    });
  }

  void end_epoch(Exit& exit, int epoch) const {
    const auto count = static_cast<double>(choosing_.size());
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
  size_t learned_;                                // the first texts are learned,
  std::vector<Encoding> texts_ = {};              // the others choose
  std::vector<size_t> choosing_ = {};             // their numbers
  std::vector<std::vector<size_t>> orders_ = {};  // of the learned ones, in each epoch
  std::vector<Exit> exits_ = {};
  std::optional<Imitation> targets_ = {};
};

}  // namespace

std::vector<AttachedExit> learn_exits(Engine& engine, std::span<const Encoding> learn, std::span<const Encoding> choose,
                                      const AttachOptions& options) {
  return Learner(engine, learn, choose, options).run();
}

}  // namespace exeunt
