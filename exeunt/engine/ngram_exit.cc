// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/ngram_exit.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/base/half.h"
#include "exeunt/engine/backend.h"

namespace exeunt {
namespace {

template <class Value>
std::vector<Value> values_of(const Checkpoint& checkpoint, const char* name) {
  const TensorView& view = checkpoint.get(name);
  std::vector<Value> out(static_cast<size_t>(view.elements()));
  copy_raw(view, std::as_writable_bytes(std::span(out)));
  return out;
}

TokenPieces stored_pieces(const Checkpoint& checkpoint) {
  TokenPieces pieces{.bytes = values_of<uint8_t>(checkpoint, "exits.ngrams.pieces"),
                     .begins = values_of<int32_t>(checkpoint, "exits.ngrams.begins")};
  const auto size = static_cast<int32_t>(pieces.bytes.size());
  if (pieces.begins.front() != 0 || pieces.begins.back() != size || !std::ranges::is_sorted(pieces.begins)) {
    throw_bad_file("tensor 'exits.ngrams.begins'", "want rising numbers from 0 to {}", size);
  }
  return pieces;
}

}  // namespace

TokenPieces token_pieces(const Tokenizer& tokenizer, int vocabulary) {
  constexpr std::string_view kBlock = "\xe2\x96\x81", kSpace = "\xc4\xa0";  // ▁ of SentencePiece, Ġ of byte-level BPE
  const bool wordpiece = tokenizer.family() == "wordpiece";
  const std::vector<int32_t> special = tokenizer.encode("", "", {}).ids;
  TokenPieces out;
  for (int32_t id = 0; id < vocabulary; ++id) {
    out.begins.push_back(static_cast<int32_t>(out.bytes.size()));
    std::string token = tokenizer.token(id);
    if (token.empty() || std::ranges::find(special, id) != special.end()) continue;
    const auto marked = [&](std::string_view mark) { return token.size() > mark.size() && token.starts_with(mark); };
    if (wordpiece) {
      token = marked("##") ? token.substr(2) : " " + token;
    } else if (marked(kBlock) || marked(kSpace)) {
      token = " " + token.substr(marked(kBlock) ? kBlock.size() : kSpace.size());
    }
    out.bytes.insert(out.bytes.end(), token.begin(), token.end());
  }
  out.begins.push_back(static_cast<int32_t>(out.bytes.size()));
  return out;
}

NgramExit::NgramExit(const Checkpoint& checkpoint)
    : rank_(checkpoint.exits().ngrams->rank),
      outputs_(checkpoint.exits().outputs),
      owners_(checkpoint.tensors().owners),
      bias_(to_floats(checkpoint.get("exits.ngrams.bias"))),
      pieces_(stored_pieces(checkpoint)),
      features_(pieces_.bytes, pieces_.begins, checkpoint.exits().ngrams->bits) {
  check_finite("exits.ngrams.bias", bias_);
  if (rank_ < outputs_) {
    const TensorView& output = checkpoint.get("exits.ngrams.output");
    check_finite("exits.ngrams.output", to_floats(output));
    output_ = to_floats(transposed(output));  // [rank, outputs]
  }
  const TensorView& table = checkpoint.get("exits.ngrams.table");
  if (table.contiguous() && reinterpret_cast<uintptr_t>(table.bytes.data()) % alignof(uint16_t) == 0) {
    table_ = reinterpret_cast<const uint16_t*>(table.bytes.data());
  } else {
    own_table_ = values_of<uint16_t>(checkpoint, "exits.ngrams.table");
    table_ = own_table_.data();
  }
  const auto count = static_cast<size_t>(table.elements());
  for (size_t i = 0; i < count; ++i) {
    if ((table_[i] & 0x7f80U) == 0x7f80U) {
      const float value = bf16_to_float(table_[i]);
      check_finite("exits.ngrams.table", {&value, 1}, i);
    }
  }
}

void NgramExit::run(std::span<const int32_t> ids, float* logits) const noexcept {
  std::array<float, kMaxNgramRank> sum = {};
  const auto rank = static_cast<size_t>(rank_);
  constexpr size_t kAhead = 16;  // rows that are on their way from memory
  std::array<uint32_t, kAhead> places = {};
  size_t count = 0;
  const auto add = [&](uint32_t place) {
    const uint16_t* row = table_ + place * rank;
    for (size_t c = 0; c < rank; ++c) sum[c] += bf16_to_float(row[c]);
  };
  features_.each(ids, [&](uint32_t place) {
    __builtin_prefetch(table_ + place * rank);
    const uint32_t before = std::exchange(places[count % kAhead], place);
    if (count++ >= kAhead) add(before);
  });
  for (size_t i = count - std::min(count, kAhead); i < count; ++i) add(places[i % kAhead]);
  const float scale = 1 / std::sqrt(static_cast<float>(std::max(count, size_t{1})));
  for (size_t c = 0; c < rank; ++c) sum[c] *= scale;
  std::copy(bias_.begin(), bias_.end(), logits);
  if (output_.empty()) {
    for (size_t c = 0; c < rank; ++c) logits[c] += sum[c];
    return;
  }
  // Side by side for all outputs, which the compiler makes vectors of; each still sums over c in order.
  const float* column = output_.data();
  for (size_t c = 0; c < rank; ++c, column += outputs_) {
    for (int o = 0; o < outputs_; ++o) logits[o] += column[o] * sum[c];
  }
}

}  // namespace exeunt
