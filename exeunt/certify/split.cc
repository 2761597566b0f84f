// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/split.h"

#include <algorithm>
#include <map>
#include <random>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

PartRows distinct_texts(const ExitTrace& trace) {
  PartRows texts;
  std::map<uint64_t, size_t> place;  // of hashes that a file tells: none may collide with others
  for (size_t row = 0; row < trace.rows; ++row) {
    const auto [at, fresh] = trace.row_hash.empty() ? std::pair(place.end(), true)
                                                    : place.try_emplace(trace.row_hash[row], texts.row.size());
    if (fresh) {
      texts.row.push_back(row);
      texts.repeats.push_back(1);
    } else {
      ++texts.repeats[at->second];
    }
  }
  return texts;
}

PartRows take(const PartRows& texts, std::span<const size_t> places) {
  PartRows part;
  for (const size_t place : places) {
    part.row.push_back(texts.row[place]);
    part.repeats.push_back(texts.repeats[place]);
  }
  return part;
}

}  // namespace

CalibrationData split_for_calibration(const ExitTrace& trace, uint64_t seed, SplitShares shares) {
  const double reported = 1 - shares.fit - shares.certify;
  check(shares.fit > 0 && shares.certify > 0 && reported > -1e-9, "the shares make one at most");
  const size_t kept = reported > 1e-9 ? 1 : 0;  // rows that report at least
  const PartRows texts = distinct_texts(trace);
  const size_t count = texts.row.size();
  if (count < 2 + kept)
    throw Error(Code::failure, fmt::format("not enough data: got {} examples, want at least {}", count, 2 + kept));
  std::vector<size_t> places(count);
  for (size_t i = 0; i < count; ++i) places[i] = i;
  // Fisher-Yates by hand: std::shuffle may differ between libraries, and a split must not.
  std::mt19937_64 random(seed);
  for (size_t i = count - 1; i > 0; --i) std::swap(places[i], places[random() % (i + 1)]);
  const auto share = [&](double part) {
    return std::max<size_t>(1, static_cast<size_t>(part * static_cast<double>(count)));
  };
  const size_t fit = share(shares.fit);
  const size_t certify = kept == 0 ? count - fit : std::min(share(shares.certify), count - fit - kept);
  const std::span<const size_t> all(places);
  CalibrationData data;
  data.seed = seed;
  data.fit_rows = take(texts, all.first(fit));
  data.certify_rows = take(texts, all.subspan(fit, certify));
  data.report_rows = take(texts, all.subspan(fit + certify));
  data.fit = select_rows(trace, data.fit_rows.row);
  data.certify = select_rows(trace, data.certify_rows.row);
  data.report = select_rows(trace, data.report_rows.row);
  return data;
}

}  // namespace exeunt
