// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/text_parts.h"

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr size_t kMaxText = 4096;  // per-exit values for the most exits take less

}  // namespace

std::vector<std::string_view> split(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (size_t from = 0;;) {
    const size_t to = text.find(mark, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string_view::npos) return parts;
    from = to + 1;
  }
}

std::string shortest(float value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value == 0 ? 0.0F : value);
  check(error == std::errc(), "a float fits in 32 characters");
  return {buffer, end};
}

PolicySource::PolicySource(std::string_view text, std::string_view where) : text_(text), where_(where) {
  if (text.size() > kMaxText) fail(fmt::format("got {} bytes, want at most {}", text.size(), kMaxText));
}

void PolicySource::fail(std::string_view why, std::string hint) const {
  const std::string message = fmt::format("policy '{}': {}", text_.substr(0, 200), why);
  if (where_.empty()) throw Error(Code::usage, message, std::move(hint));
  throw Error(Code::bad_file, fmt::format("{}: {}", where_, message), std::move(hint));
}

}  // namespace exeunt
