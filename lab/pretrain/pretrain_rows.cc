// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/pretrain_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/base/random.h"

namespace exeunt {
namespace {

// A stream for every (seed, epoch, row).
SplitMix64 random_of(const Draw& draw, uint64_t row) {
  return SplitMix64(mix_bits(mix_bits(mix_bits(draw.seed) ^ draw.epoch) ^ row));
}

constexpr uint64_t kOrderOfRows = UINT64_MAX;  // a row number that no row has

size_t predictions(const PretrainShape& shape, size_t tokens) {
  const auto wanted = static_cast<int64_t>(std::llround(shape.mask_share * static_cast<double>(tokens)));
  return std::min(static_cast<size_t>(std::clamp<int64_t>(wanted, 1, shape.slots())), tokens);
}

int64_t any_token(const PretrainShape& shape, SplitMix64& random) {
  for (;;) {
    const auto id = static_cast<int64_t>(random.below(static_cast<size_t>(shape.vocab)));
    if (id != shape.cls && id != shape.sep && id != shape.mask && id != shape.pad && id != shape.unknown) return id;
  }
}

// One row of a batch being filled.
class RowWriter {
 public:
  RowWriter(const PretrainShape& shape, int64_t row, PretrainBatch& batch) : shape_(shape), row_(row), batch_(batch) {}

  void special(int id) { put(id); }
  void sentences(std::span<const int32_t> ids) {
    for (const int32_t id : ids) {
      ordinary_.push_back(place());
      put(id);
    }
  }
  void second_segment() { type_ = std::min(1, shape_.segments - 1); }

  // Hides some of the ordinary tokens: a random choice of them, by a partial shuffle.
  void hide(SplitMix64& random) {
    const size_t count = ordinary_.size(), wanted = predictions(shape_, count);
    for (size_t slot = 0; slot < wanted; ++slot) {
      std::swap(ordinary_[slot], ordinary_[slot + random.below(count - slot)]);
    }
    std::sort(ordinary_.begin(), ordinary_.begin() + static_cast<ptrdiff_t>(wanted));
    for (size_t slot = 0; slot < wanted; ++slot) {
      const int64_t at = ordinary_[slot];
      const size_t into = static_cast<size_t>(row_ * shape_.slots()) + slot;
      int64_t& id = batch_.ids[static_cast<size_t>(at)];
      batch_.places[into] = at;
      batch_.gold[into] = id;
      batch_.weight[into] = 1;
      const size_t fate = random.below(10);
      if (fate < 8) {
        id = shape_.mask;
      } else if (fate == 8) {
        id = any_token(shape_, random);
      }
    }
  }

 private:
  [[nodiscard]] int64_t place() const noexcept { return row_ * shape_.tokens + length_; }
  void put(int64_t id) {
    check(length_ < shape_.tokens, "a packed row fits");
    const auto at = static_cast<size_t>(place());
    batch_.ids[at] = id;
    batch_.types[at] = type_;
    batch_.real[at] = 1;
    ++length_;
  }

  const PretrainShape& shape_;
  int64_t row_;
  PretrainBatch& batch_;
  int64_t length_ = 0, type_ = 0;
  std::vector<int64_t> ordinary_;
};

}  // namespace

int PretrainShape::slots() const noexcept {
  return std::max(1, static_cast<int>(std::lround(mask_share * room())));
}

std::vector<PackedRow> pack_rows(const Corpus& corpus, const PretrainShape& shape) {
  check(shape.room() > 0, "a row has room for tokens");
  std::vector<PackedRow> out;
  for (int64_t document = 0; document < corpus.size(); ++document) {
    const int64_t end = corpus.documents[static_cast<size_t>(document) + 1];
    for (int64_t first = corpus.documents[static_cast<size_t>(document)]; first < end;) {
      int64_t last = first + 1;
      while (last < end && corpus.tokens_of(first, last + 1) <= shape.room()) ++last;
      check(corpus.tokens_of(first, last) <= shape.room(), "no sentence is longer than a row");
      out.push_back({first, last});
      first = last;
    }
  }
  return out;
}

HeldOutRows hold_out_documents(const Corpus& corpus, const std::vector<PackedRow>& rows, double share) {
  HeldOutRows out;
  const int64_t every = share > 0 ? std::max<int64_t>(2, std::llround(1 / share)) : INT64_MAX;
  int64_t document = 0;
  for (const PackedRow& row : rows) {
    while (corpus.documents[static_cast<size_t>(document) + 1] <= row.first) ++document;
    (document % every == every - 1 ? out.held_out : out.train).push_back(row);
  }
  return out;
}

PretrainCounts count_rows(const Corpus& corpus, const std::vector<PackedRow>& packed, std::span<const int64_t> which,
                          const PretrainShape& shape) {
  PretrainCounts out;
  for (const int64_t number : which) {
    const PackedRow& row = packed[static_cast<size_t>(number)];
    const int64_t tokens = corpus.tokens_of(row.first, row.last), ordered = row.last - row.first > 1 ? 1 : 0;
    out.tokens += tokens + 2 + ordered;  // [CLS], and [SEP] behind each half
    out.predictions += static_cast<int64_t>(predictions(shape, static_cast<size_t>(tokens)));
    out.ordered += ordered;
  }
  return out;
}

PretrainBatch make_pretrain_batch(const Corpus& corpus, const std::vector<PackedRow>& packed,
                                  std::span<const int64_t> which, const PretrainShape& shape, const Draw& draw) {
  PretrainBatch batch;
  batch.rows = static_cast<int64_t>(which.size());
  batch.counts = count_rows(corpus, packed, which, shape);
  const auto cells = which.size() * static_cast<size_t>(shape.tokens),
             slots = which.size() * static_cast<size_t>(shape.slots());
  batch.ids.assign(cells, shape.pad);
  batch.types.assign(cells, 0);
  batch.real.assign(cells, 0);
  batch.order.assign(which.size(), 0);
  batch.order_weight.assign(which.size(), 0);
  batch.places.assign(slots, 0);
  batch.gold.assign(slots, 0);
  batch.weight.assign(slots, 0);
  for (size_t n = 0; n < which.size(); ++n) {
    const PackedRow& row = packed[static_cast<size_t>(which[n])];
    SplitMix64 random = random_of(draw, static_cast<uint64_t>(which[n]));
    RowWriter writer(shape, static_cast<int64_t>(n), batch);
    const int64_t sentences = row.last - row.first;
    writer.special(shape.cls);
    if (sentences == 1) {
      writer.sentences(corpus.ids_of(row.first, row.last));
    } else {
      const int64_t cut = row.first + 1 + static_cast<int64_t>(random.below(static_cast<size_t>(sentences - 1)));
      const bool swapped = random.below(2) == 1;
      batch.order[n] = swapped ? 1 : 0;
      batch.order_weight[n] = 1;
      writer.sentences(swapped ? corpus.ids_of(cut, row.last) : corpus.ids_of(row.first, cut));
      writer.special(shape.sep);
      writer.second_segment();
      writer.sentences(swapped ? corpus.ids_of(row.first, cut) : corpus.ids_of(cut, row.last));
    }
    writer.special(shape.sep);
    writer.hide(random);
  }
  return batch;
}

std::vector<int64_t> shuffled_rows(int64_t rows, const Draw& draw) {
  std::vector<int64_t> out(static_cast<size_t>(rows));
  std::iota(out.begin(), out.end(), int64_t{0});
  SplitMix64 random = random_of(draw, kOrderOfRows);
  shuffle(out, random);
  return out;
}

}  // namespace exeunt
