// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/certificate.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

// The value whose name this is, or an error with the nearest one.
template <class Choice>
Choice choice_named(std::string_view what, std::string_view name) {
  const auto names = names_of(Choice{});
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<Choice>(found - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  throw Error(Code::usage, fmt::format("unknown {} '{}'", what, name.substr(0, 64)), suggestion(name, known));
}

}  // namespace

RiskLoss loss_named(std::string_view name) {
  return choice_named<RiskLoss>("loss", name);
}

RiskMethod method_named(std::string_view name) {
  return choice_named<RiskMethod>("method", name);
}

}  // namespace exeunt
