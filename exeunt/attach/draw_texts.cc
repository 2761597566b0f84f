// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/draw_texts.h"

#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/base/parallel.h"
#include "exeunt/base/random.h"
#include "exeunt/base/sha256.h"

namespace exeunt {
namespace {

constexpr size_t kBlock = 4096;                   // rows tokenized together,
constexpr size_t kBlockBytes = size_t{16} << 20;  // and their bytes
constexpr size_t kOverhead = 320;                 // bytes of a drawn text beside its characters and tokens

// Which text this is, as a number that looks random for each seed.
uint64_t place_of(const Encoding& text, uint64_t seed) {
  uint64_t hash = mix_bits(seed + SplitMix64::kStep);
  for (size_t t = 0; t < text.ids.size(); ++t) {
    hash = mix_bits(hash ^ (static_cast<uint64_t>(static_cast<uint32_t>(text.ids[t])) << 8 | text.types[t])) + t;
  }
  return mix_bits(hash);
}

// The texts with the smallest places: each distinct text has the same chance, and no more than `limit`, nor than fit
// into `memory`, are kept at any time.
class Draw {
 public:
  Draw(const DrawOptions& options, const Tokenizer& tokenizer) : options_(options), tokenizer_(tokenizer) {}

  void add(Example&& text) {
    ++out_.rows;
    if (is_blank(text.text, text.pair)) {
      ++out_.blank;
      return;
    }
    waiting_bytes_ += text.text.size() + (text.pair ? text.pair->size() : 0);
    waiting_.push_back(std::move(text));
    if (waiting_.size() == kBlock || waiting_bytes_ >= kBlockBytes) take_block();
  }

  DrawnTexts finish() {
    take_block();
    const auto count = static_cast<int64_t>(drawn_.size());
    out_.distinct = count;
    if (dropped_ && count > 0) {
      const double share = static_cast<double>(drawn_.rbegin()->first) * 0x1p-64;
      out_.distinct = std::max(count, static_cast<int64_t>(static_cast<double>(count) / share));
    }
    out_.bytes = bytes_;
    out_.texts.reserve(drawn_.size());
    out_.tokens.reserve(drawn_.size());
    while (!drawn_.empty()) {  // each leaves the map as it enters the lists
      Drawn text = std::move(drawn_.extract(drawn_.begin()).mapped());
      out_.texts.push_back(std::move(text.example));
      out_.tokens.push_back(std::move(text.tokens));
    }
    return std::move(out_);
  }

 private:
  struct Drawn {
    Example example;
    Encoding tokens;

    [[nodiscard]] size_t bytes() const {
      return kOverhead + example.text.size() + (example.pair ? example.pair->size() : 0) +
             tokens.ids.size() * (sizeof tokens.ids[0] + sizeof tokens.types[0]);
    }
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
    waiting_bytes_ = 0;
  }

  void take(Example&& example, Encoding&& tokens) {
    const uint64_t place = place_of(tokens, options_.seed);
    if (dropped_ && place >= *dropped_) return;
    const auto found = drawn_.lower_bound(place);
    if (found != drawn_.end() && found->first == place) {
      Example& known = found->second.example;
      if (std::isnan(known.gold)) {
        known.gold = example.gold;
        known.given = std::move(example.given);
      }
      return;
    }
    tokens.offsets = std::vector<Offset>();  // nobody asks for them
    const auto added = drawn_.emplace_hint(found, place, Drawn{std::move(example), std::move(tokens)});
    bytes_ += added->second.bytes();
    while (static_cast<int64_t>(drawn_.size()) > options_.limit || bytes_ > options_.memory) {
      out_.crowded = out_.crowded || static_cast<int64_t>(drawn_.size()) <= options_.limit;
      const auto last = std::prev(drawn_.end());
      dropped_ = last->first;
      bytes_ -= last->second.bytes();
      drawn_.erase(last);
    }
  }

  const DrawOptions& options_;
  const Tokenizer& tokenizer_;
  DrawnTexts out_ = {};
  std::vector<Example> waiting_ = {};
  size_t waiting_bytes_ = 0;
  std::map<uint64_t, Drawn> drawn_ = {};
  size_t bytes_ = 0;                      // of these
  std::optional<uint64_t> dropped_ = {};  // the smallest place of a text that had to go: none from there on is drawn
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
      Example example{.text = std::move(row.text),
                      .pair = std::move(row.pair),
                      .gold = std::numeric_limits<float>::quiet_NaN(),
                      .index = row.index};
      if (!row.kept.empty()) example.cluster = std::move(row.kept.front());
      draw.add(std::move(example));
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
  if (drawn.texts.empty() && drawn.crowded) {
    throw Error(Code::resources, fmt::format("no text fits into {} MiB", options.memory >> 20));
  }
  if (drawn.texts.empty())
    throw Error(Code::bad_file, fmt::format("got {} rows without a word, want texts", drawn.rows));
  return drawn;
}

void add_texts(DrawnTexts& drawn, DrawnTexts&& more, int64_t limit) {
  drawn.sha256 = sha256_hex(drawn.sha256 + more.sha256);
  std::set<std::vector<int32_t>> there;
  for (const Encoding& text : drawn.tokens) there.insert(text.ids);
  for (size_t i = 0; i < more.texts.size() && static_cast<int64_t>(drawn.texts.size()) < limit; ++i) {
    if (!there.insert(more.tokens[i].ids).second) continue;
    drawn.texts.push_back(std::move(more.texts[i]));
    drawn.tokens.push_back(std::move(more.tokens[i]));
  }
}

}  // namespace exeunt
