// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy_grid.h"

#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/number.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

// "a..b/s" as texts; a plain value is itself.
std::vector<std::string> expand_range(std::string_view item, const PolicySource& source) {
  const size_t dots = item.find("..");
  if (dots == std::string_view::npos) return {std::string(item)};
  const std::string_view ends = item.substr(dots + 2);
  const size_t slash = ends.find('/');
  const bool stepless = slash == std::string_view::npos;
  const auto low = number_of<double>(item.substr(0, dots));
  const auto high = number_of<double>(ends.substr(0, slash));
  const auto step = stepless ? std::optional(1.0) : number_of<double>(ends.substr(slash + 1));
  const std::string hint = "ranges are written low..high/step, as in 0..0.7/0.05";
  if (!low || !high || !step) source.fail(fmt::format("'{}' is not a range", item.substr(0, 64)), hint);
  if (stepless && (*low != std::floor(*low) || *high != std::floor(*high)))
    source.fail(fmt::format("range '{}' has no step", item.substr(0, 64)), hint);
  if (!(*step > 0) || *high < *low)
    source.fail(fmt::format("range '{}': want an increasing range and a step above 0", item.substr(0, 64)), hint);
  const double steps = std::floor((*high - *low) / *step + 1e-6);  // 0.7 / 0.05 is a hair below 14
  if (steps >= static_cast<double>(kMaxSettings))
    source.fail(fmt::format("range '{}' has more than {} values", item.substr(0, 64), kMaxSettings));
  std::vector<std::string> values;
  for (size_t i = 0; i <= static_cast<size_t>(steps); ++i)
    values.push_back(shortest(static_cast<float>(*low + static_cast<double>(i) * *step)));
  return values;
}

// All values of one comma-separated position, each prefixed by its "name=".
std::vector<std::string> expand_place(std::string_view place, const PolicySource& source) {
  const size_t equals = place.find('=');
  const size_t prefix = equals == std::string_view::npos ? 0 : equals + 1;
  std::vector<std::string> values;
  for (const std::string_view item : split(place.substr(prefix), '|')) {
    for (const std::string& value : expand_range(item, source))
      values.push_back(std::string(place.substr(0, prefix)) + value);
    if (values.size() > kMaxSettings) source.fail(fmt::format("got more than {} settings", kMaxSettings));
  }
  return values;
}

}  // namespace

std::vector<PolicySpec> parse_sweep(std::string_view text) {
  const PolicySource source(text.substr(0, 64), {});
  if (text.size() > kMaxSweepText)
    source.fail(fmt::format("got {} bytes, want at most {}", text.size(), kMaxSweepText));
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {parse_policy(text)};
  std::vector<std::vector<std::string>> places;
  size_t count = 1;
  for (const std::string_view place : split(text.substr(colon + 1), ',')) {
    places.push_back(expand_place(place, source));
    count *= places.back().size();  // each factor and the product so far are at most kMaxSettings: no overflow
    if (count > kMaxSettings) source.fail(fmt::format("got more than {} settings", kMaxSettings));
  }
  if (count * text.size() > kMaxSweepBytes) source.fail(fmt::format("{} settings of this length are too many", count));
  std::vector<PolicySpec> policies;
  policies.reserve(count);
  for (size_t number = 0; number < count; ++number) {
    // The places as an odometer: the last one turns fastest.
    std::vector<size_t> turn(places.size());
    size_t rest = number;
    for (size_t i = places.size(); i-- > 0; rest /= places[i].size()) turn[i] = rest % places[i].size();
    std::string setting(text.substr(0, colon));
    for (size_t i = 0; i < places.size(); ++i) setting += (i == 0 ? ':' : ',') + places[i][turn[i]];
    policies.push_back(parse_policy(setting));
  }
  return policies;
}

}  // namespace exeunt
