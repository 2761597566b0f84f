// SPDX-License-Identifier: Apache-2.0
// Unicode normal forms of a text that tracks its origin.
#include <algorithm>
#include <optional>
#include <vector>

#include "exeunt/base/utf8.h"
#include "exeunt/text/normalizer.h"
#include "exeunt/text/unicode.h"

namespace exeunt {
namespace {

// Hangul syllables are composed by arithmetic (Unicode, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kVowelCount = 21, kTailCount = 28, kLeadCount = 19, kSyllableCount = 11172;

// A code point and how many of the old ones it replaces: 1 minus `change`. With change 1 it is new and belongs to the
// old code point before it; if negative, it replaces several in a row.
struct Step {
  char32_t c;
  uint8_t rank;
  int change;
};

void decompose(char32_t c, bool compatibility, std::vector<Step>& out) {
  const auto push = [&](char32_t part, bool first) {
    out.push_back({part, unicode::combining_rank(part), first ? 0 : 1});
  };
  if (c >= kSyllables && c < kSyllables + kSyllableCount) {
    const char32_t index = c - kSyllables;
    push(kLeads + index / (kVowelCount * kTailCount), true);
    push(kVowels + index % (kVowelCount * kTailCount) / kTailCount, false);
    if (index % kTailCount != 0) push(kTails + index % kTailCount, false);
    return;
  }
  const std::u32string_view parts = unicode::decomposition(c, compatibility);
  if (parts.empty()) return push(c, true);
  for (size_t i = 0; i < parts.size(); ++i) push(parts[i], i == 0);
}

// Sorts each run of marks by class. Changes move with their code points, as in the oracle.
void order_marks(std::vector<Step>& steps) {
  for (auto at = steps.begin(); at != steps.end();) {
    if (at->rank == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, steps.end(), [](const Step& step) { return step.rank == 0; });
    std::stable_sort(at, end, [](const Step& a, const Step& b) { return a.rank < b.rank; });
    at = end;
  }
}

char32_t compose_pair(char32_t a, char32_t b) {
  if (a >= kLeads && a < kLeads + kLeadCount && b >= kVowels && b < kVowels + kVowelCount) {
    return kSyllables + ((a - kLeads) * kVowelCount + (b - kVowels)) * kTailCount;
  }
  const bool open = a >= kSyllables && a < kSyllables + kSyllableCount && (a - kSyllables) % kTailCount == 0;
  if (open && b > kTails && b < kTails + kTailCount) return a + (b - kTails);
  return unicode::composition(a, b);
}

void compose(std::vector<Step>& steps) {
  std::vector<Step> out;
  out.reserve(steps.size());
  std::optional<size_t> starter;  // its place in `out`
  uint8_t last_rank = 0;          // of what follows the starter, 0 if nothing does
  for (const Step& step : steps) {
    const bool blocked = last_rank != 0 && last_rank >= step.rank;
    if (starter && !blocked) {
      if (const char32_t composed = compose_pair(out[*starter].c, step.c)) {
        out[*starter].c = composed;
        if (step.change == 0) --out[*starter].change;
        continue;
      }
    }
    if (step.rank == 0) {
      starter = out.size();
      last_rank = 0;
    } else {
      last_rank = step.rank;
    }
    out.push_back(step);
  }
  steps = std::move(out);
}

}  // namespace

void apply(NormalForm form, NormalizedText& text) {
  if (text.plain()) return;  // ASCII is the same in every form
  const bool compatibility = form == NormalForm::nfkc || form == NormalForm::nfkd;
  std::vector<Step> steps;
  std::vector<Offset> old;  // where each old code point came from
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.text().substr(at));
    old.push_back(text.origin(at));
    decompose(next.code_point, compatibility, steps);
    at += next.bytes;
  }
  order_marks(steps);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(steps);

  NormalizedText out(text.first());
  out.reserve(text.size());
  size_t taken = 0;
  for (const Step& step : steps) {
    if (step.change > 0) {
      out.append(step.c, taken > 0 ? old[taken - 1] : Offset{text.first(), text.first()});
    } else {
      out.append(step.c, old[taken]);
      taken += static_cast<size_t>(1 - step.change);
    }
  }
  text = std::move(out);
}

}  // namespace exeunt
