// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/load/reply.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <stdexcept>

namespace exeunt::load {
namespace {

template <class Number>
Number number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw std::runtime_error("no number in an answer");
  return value;
}

}  // namespace

std::string_view Reply::field(std::string_view name) const {
  std::string_view rest = head;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find("\r\n"), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    const size_t colon = line.find(':');
    if (colon != name.size()) continue;
    const bool same = std::equal(name.begin(), name.end(), line.begin(),
                                 [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
    if (!same) continue;
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    return value;
  }
  return {};
}

std::optional<Reply> ReplyReader::next() {
  const size_t end = held_.find("\r\n\r\n");
  if (end == std::string::npos) return std::nullopt;
  if (!held_.starts_with("HTTP/1.1 ") || held_.size() < 12) throw std::runtime_error("no HTTP answer");
  Reply out;
  out.status = number<int>(std::string_view(held_).substr(9, 3));
  out.head = held_.substr(0, end + 2);
  size_t length = 0;
  if (const std::string_view text = out.field("content-length"); !text.empty()) length = number<size_t>(text);
  if (held_.size() - end - 4 < length) return std::nullopt;
  out.body = held_.substr(end + 4, length);
  out.closes = out.field("connection") == "close";
  held_.erase(0, end + 4 + length);
  return out;
}

}  // namespace exeunt::load
