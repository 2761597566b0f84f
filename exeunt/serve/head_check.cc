// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/head_check.h"

#include <algorithm>

#include "exeunt/base/ascii.h"
#include "exeunt/serve/refusal.h"

namespace exeunt::serve {
namespace {

[[noreturn]] void bad(std::string_view what) {
  throw Refusal(400, ErrorType::validation, fmt::format("bad request header: {}", what));
}

bool is_token(std::string_view text) noexcept {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           marks.find(c) != std::string_view::npos;
  });
}

bool is_digits(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Head {
  bool http_1_0 = false;
  int hosts = 0, lengths = 0, encodings = 0, types = 0, origins = 0;
};

void check_request_line(std::string_view line, Head& head) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) bad("want METHOD TARGET VERSION, separated by single spaces");
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (method.size() > 16 || !is_token(method)) bad("the method is not a token");
  const bool printable = std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!printable || (!target.starts_with('/') && target != "*")) bad("the target is not a path");
  head.http_1_0 = version == "HTTP/1.0";
  if (version != "HTTP/1.1" && !head.http_1_0) bad("want HTTP/1.1");
}

void check_field(std::string_view line, Head& head) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) bad("a field without a colon");
  if (!is_token(line.substr(0, colon))) bad("a field name that is not a token");
  std::string_view value = line.substr(colon + 1);
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) bad("a control character in a field");
  }
  value = trimmed(value, kHttpWhitespace);
  const std::string name = lower(line.substr(0, colon));
  if (name == "host") ++head.hosts;
  if (name == "content-type") ++head.types;
  if (name == "origin") ++head.origins;
  if (name == "content-length") {
    ++head.lengths;
    if (!is_digits(value)) bad("Content-Length is not a number");
  }
  if (name == "transfer-encoding") {
    ++head.encodings;
    if (lower(value) != "chunked") bad("Transfer-Encoding must be chunked");
  }
}

}  // namespace

void check_head(std::string_view text) {
  Head head;
  size_t lines = 0;
  while (!text.empty()) {
    const size_t end = text.find("\r\n");
    if (end == std::string_view::npos) bad("a line that does not end in CR LF");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    if (line.find_first_of("\r\n") != std::string_view::npos) bad("CR or LF alone");
    if (lines == 0) {
      check_request_line(line, head);
    } else if (line.empty()) {
      break;
    } else {
      if (line.front() == ' ' || line.front() == '\t') bad("a field folded over several lines");
      check_field(line, head);
    }
    if (++lines > kMaxFields + 1) {
      throw Refusal(431, ErrorType::validation, fmt::format("more than {} header fields", kMaxFields));
    }
  }
  if (!text.empty()) bad("bytes after the empty line");
  if (head.types > 1) bad("duplicate Content-Type");
  if (head.origins > 1) bad("duplicate Origin");
  if (head.lengths > 1) bad("duplicate Content-Length");
  if (head.encodings > 1) bad("duplicate Transfer-Encoding");
  if (head.lengths > 0 && head.encodings > 0) bad("both Content-Length and Transfer-Encoding");
  if (head.http_1_0 && head.encodings > 0) bad("Transfer-Encoding in HTTP/1.0");
  if (head.hosts > 1 || (head.hosts == 0 && !head.http_1_0)) bad("want exactly one Host");
}

}  // namespace exeunt::serve
