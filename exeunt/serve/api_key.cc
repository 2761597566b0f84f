// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/api_key.h"

#include <algorithm>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/sha256.h"
#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;  // volatile: no early exit
  for (size_t i = 0; i < a.size(); ++i) {
    difference =
        static_cast<unsigned char>(difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) hashes_.push_back(sha256_hex(key));
}

bool ApiKeys::allow(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (lower(authorization.substr(0, scheme.size())) != scheme) return false;
  const std::string hash = sha256_hex(authorization.substr(scheme.size()));
  bool found = false;
  for (const std::string& known : hashes_) found |= equal_in_constant_time(hash, known);
  return found;
}

std::vector<std::string> parse_keys(std::string_view text, std::string_view where) {
  std::vector<std::string> keys;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const bool clean = std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7f; });
    if (!clean || line.size() < 8) {
      throw Error(Code::usage,
                  fmt::format("{}: line {}: want a key of 8 or more visible ASCII characters", where, number),
                  "make one with 'openssl rand -hex 32'");
    }
    keys.emplace_back(line);
  }
  if (keys.empty()) throw Error(Code::usage, fmt::format("{}: no key", where), "want one key per line");
  return keys;
}

}  // namespace exeunt::serve
