// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy_text.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

constexpr size_t kMaxText = 4096;  // values for the maximum number of exits fit

// A policy text, and the file and field it comes from, for errors.
class PolicySource {
 public:
  PolicySource(std::string_view text, std::string_view where) : text_(text), where_(where) {
    if (text.size() > kMaxText) fail(fmt::format("got {} bytes, want at most {}", text.size(), kMaxText));
  }
  [[noreturn]] void fail(std::string_view why, std::string hint = {}) const {
    const std::string message = fmt::format("policy '{}': {}", text_.substr(0, 200), why);
    if (where_.empty()) throw Error(Code::usage, message, std::move(hint));
    throw Error(Code::bad_file, fmt::format("{}: {}", where_, message), std::move(hint));
  }

 private:
  std::string_view text_, where_;
};

Rule rule_named(std::string_view name, const PolicySource& source) {
  std::vector<std::string> known;
  for (size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i].name == name) return Rule{static_cast<uint8_t>(i)};
    known.emplace_back(kRules[i].name);
  }
  const size_t equals = name.find('=');
  const bool known_before =
      equals != std::string_view::npos && std::find(known.begin(), known.end(), name.substr(0, equals)) != known.end();
  source.fail(fmt::format("unknown rule '{}'", name.substr(0, 64)),
              known_before ? fmt::format("did you mean '{}:{}'?", name.substr(0, equals), name.substr(equals + 1))
                           : suggestion(name, known));
}

float word_value(std::string_view text, const ParamInfo& param, const PolicySource& source) {
  std::vector<std::string> known;
  for (size_t i = 0; i < param.words.size(); ++i) {
    if (param.words[i] == text) return static_cast<float>(i);
    known.emplace_back(param.words[i]);
  }
  source.fail(fmt::format("{}: got '{}'", param.name, text.substr(0, 64)), suggestion(text, known));
}

float param_value(std::string_view text, const ParamInfo& param, const PolicySource& source) {
  if (param.kind == ParamKind::word) return word_value(text, param, source);
  const auto value = number_of<float>(text);
  const bool whole = param.kind == ParamKind::whole;
  if (!value || (whole && *value != std::floor(*value)) || *value < param.low || *value > param.high) {
    source.fail(fmt::format("{}: got '{}', want {} from {} to {}", param.name, text.substr(0, 64),
                            whole ? "a whole number" : "a number", shortest(param.low), shortest(param.high)));
  }
  return *value;
}

size_t keyed_param(std::string_view key, const RuleInfo& info, const PolicySource& source) {
  std::vector<std::string> known;
  for (size_t i = 0; i < info.params.size(); ++i) {
    if (!info.params[i].keyed) continue;
    if (info.params[i].name == key) return i;
    known.emplace_back(info.params[i].name);
  }
  if (known.empty()) source.fail(fmt::format("{} takes no '{}='", info.name, key.substr(0, 64)));
  source.fail(fmt::format("unknown parameter '{}='", key.substr(0, 64)), suggestion(key, known));
}

// "entropy:S", "window:S,N,mode[,margin=…]": how a rule is written, for messages.
std::string form_of(const RuleInfo& info) {
  std::string form(info.name);
  char mark = ':';
  for (const ParamInfo& param : info.params) {
    form += param.keyed ? fmt::format("[{}{}=…]", mark, param.name) : fmt::format("{}{}", mark, param.name);
    mark = ',';
  }
  if (info.per_exit == PerExit::threshold) form += " or one per exit";
  if (info.per_exit == PerExit::weight) form += "[,weight per exit]";
  return form;
}

void take_positional(const std::vector<std::string_view>& values, PolicySpec& spec, const PolicySource& source) {
  const RuleInfo& info = info_of(spec.rule);
  std::vector<size_t> places;
  for (size_t i = 0; i < info.params.size(); ++i)
    if (!info.params[i].keyed) places.push_back(i);
  if (values.size() < places.size() || (values.size() > places.size() && info.per_exit == PerExit::none)) {
    source.fail(fmt::format("got {} value{}, want {}", values.size(), values.size() == 1 ? "" : "s", places.size()),
                fmt::format("syntax: {}", form_of(info)));
  }
  const bool thresholds = values.size() > places.size() && info.per_exit == PerExit::threshold;
  size_t next = 0;
  if (!thresholds)
    for (; next < places.size(); ++next)
      spec.params[places[next]] = param_value(values[next], info.params[places[next]], source);
  const ParamInfo& each = thresholds ? info.params[0] : kWeightParam;
  if (values.size() - next > kMaxExits)
    source.fail(fmt::format("got {} per-exit values, want at most {}", values.size() - next, kMaxExits));
  for (; next < values.size(); ++next) spec.per_exit.push_back(param_value(values[next], each, source));
}

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

PolicySpec parse_policy(std::string_view text, std::string_view where) {
  const PolicySource source(text, where);
  const size_t colon = text.find(':');
  PolicySpec spec;
  spec.rule = rule_named(text.substr(0, colon), source);
  const RuleInfo& info = info_of(spec.rule);
  for (size_t i = 0; i < info.params.size(); ++i)
    if (info.params[i].keyed) spec.params[i] = info.params[i].absent;

  std::vector<std::string_view> positional;
  std::vector<bool> given(info.params.size());
  if (colon != std::string_view::npos) {
    for (const std::string_view item : split(text.substr(colon + 1), ',')) {
      const size_t equals = item.find('=');
      if (equals == std::string_view::npos) {
        positional.push_back(item);
        continue;
      }
      const size_t place = keyed_param(item.substr(0, equals), info, source);
      if (given[place]) source.fail(fmt::format("duplicate '{}='", info.params[place].name));
      given[place] = true;
      spec.params[place] = param_value(item.substr(equals + 1), info.params[place], source);
    }
  }
  take_positional(positional, spec, source);
  if (const auto why = info.conflict(spec.params.data()); !why.empty()) source.fail(why);
  return spec;
}

std::string str(const PolicySpec& spec) {
  const RuleInfo& info = info_of(spec.rule);
  const auto value_text = [&](size_t i) {
    const ParamInfo& param = info.params[i];
    const float value = spec.params[i];
    const bool word = param.kind == ParamKind::word && value >= 0 && value < static_cast<float>(param.words.size());
    return word ? std::string(param.words[static_cast<size_t>(value)]) : shortest(value);
  };
  std::vector<std::string> items;
  const bool thresholds = info.per_exit == PerExit::threshold && !spec.per_exit.empty();
  for (size_t i = thresholds ? 1 : 0; i < info.params.size(); ++i)
    if (!info.params[i].keyed) items.push_back(value_text(i));
  for (const float value : spec.per_exit) items.push_back(shortest(value));
  for (size_t i = 0; i < info.params.size(); ++i)
    if (info.params[i].keyed && spec.params[i] != info.params[i].absent)
      items.push_back(fmt::format("{}={}", info.params[i].name, value_text(i)));
  return items.empty() ? std::string(info.name) : fmt::format("{}:{}", info.name, fmt::join(items, ","));
}

std::string shortest(float value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value == 0 ? 0.0F : value);
  check(error == std::errc(), "a float fits in 32 characters");
  return {buffer, end};
}

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
