// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/draw_texts.h"

#include <cmath>
#include <limits>

#include "exeunt/base/error.h"
#include "exeunt/base/parallel.h"
#include "exeunt/base/random.h"
#include "exeunt/base/sha256.h"

namespace exeunt {
namespace {

constexpr size_t kBlock = 4096;  // rows tokenized together

// Which text this is, as a number that looks random for each seed.
uint64_t place_of(const Encoding& text, uint64_t seed) {
  uint64_t hash = mix_bits(seed + SplitMix64::kStep);
  for (size_t t = 0; t < text.ids.size(); ++t) {
    hash = mix_bits(hash ^ (static_cast<uint64_t>(static_cast<uint32_t>(text.ids[t])) << 8 | text.types[t])) + t;
  }
  return mix_bits(hash);
}

// The texts with the smallest places: each distinct text has the same chance, and no more than `limit` are in memory.
class Draw {
 public:
  Draw(const DrawOptions& options, const Tokenizer& tokenizer) : options_(options), tokenizer_(tokenizer) {}

  void add(Example&& text) {
    ++out_.rows;
    if (is_blank(text.text, text.pair)) {
      ++out_.blank;
      return;
    }
    waiting_.push_back(std::move(text));
    if (waiting_.size() == kBlock) take_block();
  }

  DrawnTexts finish() {
    take_block();
    const auto count = static_cast<int64_t>(drawn_.size());
    out_.distinct = count;
    if (dropped_) {
      const double share = static_cast<double>(drawn_.rbegin()->first) * 0x1p-64;
      out_.distinct = std::max(count, static_cast<int64_t>(static_cast<double>(count) / share));
    }
    for (auto& [place, text] : drawn_) {
      out_.texts.push_back(std::move(text.example));
      out_.tokens.push_back(std::move(text.tokens));
    }
    return std::move(out_);
  }

 private:
  struct Drawn {
    Example example;
    Encoding tokens;
  };

  void take_block() {
    std::vector<Encoding> tokens(waiting_.size());
    parallel_for(static_cast<int64_t>(waiting_.size()), options_.threads, [&](int64_t i) {
      const Example& text = waiting_[static_cast<size_t>(i)];
      tokens[static_cast<size_t>(i)] = tokenizer_.encode(text.text, text.pair, {.max_length = options_.max_length});
    });
    for (size_t i = 0; i < waiting_.size(); ++i) {
      out_.truncated += tokens[i].truncated ? 1 : 0;
      take(std::move(waiting_[i]), std::move(tokens[i]));
    }
    waiting_.clear();
  }

  void take(Example&& example, Encoding&& tokens) {
    const uint64_t place = place_of(tokens, options_.seed);
    const auto found = drawn_.lower_bound(place);
    if (found != drawn_.end() && found->first == place) {
      if (std::isnan(found->second.example.gold)) found->second.example.gold = example.gold;
      return;
    }
    if (dropped_ && found == drawn_.end()) return;
    drawn_.emplace_hint(found, place, Drawn{std::move(example), std::move(tokens)});
    if (static_cast<int64_t>(drawn_.size()) <= options_.limit) return;
    drawn_.erase(std::prev(drawn_.end()));
    dropped_ = true;
  }

  const DrawOptions& options_;
  const Tokenizer& tokenizer_;
  DrawnTexts out_ = {};
  std::vector<Example> waiting_ = {};
  std::map<uint64_t, Drawn> drawn_ = {};
  bool dropped_ = false;
};

}  // namespace

DrawnTexts draw_texts(const DrawOptions& options, const Dataset* labelled, const Tokenizer& tokenizer,
                      const Observer& observer) {
  Draw draw(options, tokenizer);
  std::string hashes;
  for (const std::string& file : options.files) {
    TextStream stream(file, options.columns);
    Progress progress(fmt::format("reading {}", file), stream.size().value_or(0), observer.progress);
    int64_t shown = 0;
    for (TextRow row; stream.next(row); row = {}) {
      draw.add({.text = std::move(row.text),
                .pair = std::move(row.pair),
                .gold = std::numeric_limits<float>::quiet_NaN(),
                .index = row.index});
      progress.advance(stream.size() ? stream.bytes_read() - shown : 1);
      shown = stream.bytes_read();
    }
    hashes += stream.sha256();
  }
  if (labelled != nullptr) {
    for (const Example& example : labelled->examples) draw.add(Example(example));
    hashes += labelled->sha256;
  }
  DrawnTexts drawn = draw.finish();
  drawn.sha256 = sha256_hex(hashes);
  if (drawn.texts.empty())
    throw Error(Code::bad_file, fmt::format("got {} rows without a word, want texts", drawn.rows));
  return drawn;
}

}  // namespace exeunt
