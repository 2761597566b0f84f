// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/framing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "exeunt/base/ascii.h"
#include "exeunt/base/number.h"

namespace exeunt::serve {
namespace {

[[noreturn]] void bad(std::string_view what) {
  throw Refusal(400, ErrorType::validation, fmt::format("bad request header: {}", what));
}

bool is_token(std::string_view text) noexcept {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return is_letter_or_digit(c) || marks.find(c) != std::string_view::npos;
  });
}

bool is_digits(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 18 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

struct Head {
  bool post = false, http_1_0 = false, body = false;
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
  const bool printable = std::ranges::all_of(target, [](char c) { return c > ' ' && c < 0x7f; });
  if (!printable || (!target.starts_with('/') && target != "*")) bad("the target is not a path");
  head.post = method == "POST";
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
    head.body = head.body || value.find_first_not_of('0') != std::string_view::npos;
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
  // No route reads one, and those that need no key would let anybody fill the memory for bodies.
  if (!head.post && (head.body || head.encodings > 0)) bad("only POST may have a body");
  if (head.hosts > 1 || (head.hosts == 0 && !head.http_1_0)) bad("want exactly one Host");
}

namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

constexpr std::string_view kEmptyLine = "\r\n\r\n";
constexpr size_t kMaxTrailerBytes = 4096;
constexpr size_t kMaxSizeDigits = 8;

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

[[noreturn]] void not_http() {
  throw Refusal(400, ErrorType::validation, "bad request: not HTTP/1.1");
}

[[noreturn]] void bad_body(std::string_view what) {
  throw Refusal(400, ErrorType::validation, fmt::format("bad body: {}", what));
}

// The size of a chunk, once its line is complete; the line before any but the first begins with the end of the chunk
// before it. Hexadecimal digits and nothing else: parsers differ in what they make of "0x3", " 3", "3;a" or a bare LF.
std::optional<size_t> chunk_size(std::string_view line, bool first) {
  constexpr std::string_view line_end = "\r\n";
  if (!first) {
    if (!line_end.starts_with(line.substr(0, 2))) bad_body("a chunk is longer than its size");
    line.remove_prefix(std::min<size_t>(line.size(), 2));
  }
  const size_t digits = std::min(line.find_first_not_of("0123456789abcdefABCDEF"), line.size());
  const std::string_view end = line.substr(digits, 2);
  if (digits > kMaxSizeDigits || !line_end.starts_with(end) || (digits == 0 && !end.empty())) {
    bad_body("the chunk size is not a hexadecimal number; chunk extensions are not accepted");
  }
  return end == line_end ? number_of<size_t>(line.substr(0, digits), 16) : std::nullopt;
}

}  // namespace

struct RequestReader::State {
  explicit State(const FramingLimits& l) : limits(l) {}

  FramingLimits limits;
  Stage stage = Stage::idle;
  bool expect_continue = false, head_is_new = false;
  std::string held;  // what Beast wants in one piece: a head, the line before a chunk, the trailer
  std::optional<http::request_parser<http::string_body>> parser;
  HttpRequest request;
  size_t chunk_rest = 0;  // bytes of this chunk still to come
  int chunks = 0;

  size_t put(std::string_view bytes);
  size_t feed_head(std::string_view bytes);
  void parse_head();
  size_t feed_body(std::string_view bytes);
  size_t feed_chunk_line(std::string_view bytes);
};

RequestReader::RequestReader(const FramingLimits& limits) : state_(std::make_unique<State>(limits)) {}
RequestReader::~RequestReader() = default;

RequestReader::Stage RequestReader::stage() const noexcept {
  return state_->stage;
}

bool RequestReader::take_expect_continue() noexcept {
  return std::exchange(state_->expect_continue, false);
}

HttpRequest* RequestReader::take_head() noexcept {
  return std::exchange(state_->head_is_new, false) ? &state_->request : nullptr;
}

size_t RequestReader::declared_bytes() const noexcept {
  return static_cast<size_t>(state_->parser->content_length().value_or(0));
}

size_t RequestReader::body_bytes() const noexcept {
  return state_->parser ? state_->parser->get().body().size() : 0;
}

size_t RequestReader::feed(std::string_view bytes) {
  if (state_->stage == Stage::body) return state_->feed_body(bytes);
  size_t taken = 0;
  while (taken < bytes.size() && (state_->stage == Stage::idle || state_->stage == Stage::head)) {
    taken += state_->feed_head(bytes.substr(taken));
  }
  return taken;
}

size_t RequestReader::State::put(std::string_view bytes) {
  error_code error;
  const size_t used = parser->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error == http::error::body_limit) {
    throw Refusal(413, ErrorType::validation, fmt::format("the body is larger than {} bytes", limits.body_bytes),
                  "send fewer or shorter texts, or start the server with a larger --payload-limit");
  }
  if (error && error != http::error::need_more) not_http();
  return used;
}

size_t RequestReader::State::feed_head(std::string_view bytes) {
  // An empty line before a request is allowed (RFC 9112, 2.2): old clients end a body with one.
  if (held.empty() && bytes.front() == '\r') {
    held.assign(1, '\r');
    return 1;
  }
  if (held == "\r" && bytes.front() == '\n') {
    held.clear();
    return 1;
  }
  stage = Stage::head;
  const size_t before = held.size();
  const size_t from = before < 3 ? 0 : before - 3;
  const std::string_view next = bytes.substr(0, kMaxHeadBytes + 1 - std::min(before, kMaxHeadBytes));
  held.reserve(before + next.size());  // no more than that: the client has shown no key yet
  held.append(next);
  const size_t end = held.find(kEmptyLine, from);
  if (end == std::string::npos) {
    if (held.size() > kMaxHeadBytes) {
      throw Refusal(431, ErrorType::validation, fmt::format("the header is larger than {} bytes", kMaxHeadBytes));
    }
    return held.size() - before;
  }
  held.resize(end + kEmptyLine.size());
  const size_t taken = held.size() - before;
  check_head(held);
  parse_head();
  return taken;
}

void RequestReader::State::parse_head() {
  parser.emplace();
  parser->header_limit(static_cast<uint32_t>(kMaxHeadBytes));
  parser->body_limit(limits.body_bytes);
  const size_t used = put(held);
  if (used != held.size() || !parser->is_header_done()) not_http();
  held = {};
  request = {};
  const auto& message = parser->get();
  request.method = text_of(message.method_string());
  request.path = text_of(message.target());
  request.path.resize(std::min(request.path.find('?'), request.path.size()));
  for (const auto& field : message) {
    request.fields.emplace_back(lower(text_of(field.name_string())), text_of(field.value()));
  }
  request.keep_alive = parser->keep_alive();
  chunks = 0;
  stage = parser->is_done() ? Stage::complete : Stage::body;
  head_is_new = stage == Stage::body;
  expect_continue = stage == Stage::body && list_contains(request.field("expect"), "100-continue");
}

size_t RequestReader::State::feed_body(std::string_view bytes) {
  size_t taken = 0;
  head_is_new = false;
  while (taken < bytes.size() && !parser->is_done()) {
    const std::string_view next = bytes.substr(taken);
    if (parser->chunked() && chunk_rest == 0) {
      taken += feed_chunk_line(next);
      continue;
    }
    const size_t used = put(next);
    taken += used;
    if (parser->chunked()) chunk_rest -= used;
  }
  if (parser->is_done()) stage = Stage::complete;
  return taken;
}

// With the last chunk, the trailer; its fields are ignored.
size_t RequestReader::State::feed_chunk_line(std::string_view bytes) {
  const size_t before = held.size();
  held.append(bytes.substr(0, kMaxTrailerBytes + 1 - before));
  const auto size = chunk_size(held, chunks == 0);
  if (!size || (*size == 0 && held.find(kEmptyLine) == std::string::npos)) {
    if (held.size() > kMaxTrailerBytes) bad_body("bad trailer fields");
    return held.size() - before;
  }
  if (++chunks > limits.chunks) bad_body(fmt::format("more than {} chunks", limits.chunks));
  const size_t used = put(held);
  check(used > before, "a whole line was parsed");
  held.clear();
  chunk_rest = *size;
  return used - before;
}

HttpRequest RequestReader::take() {
  check(state_->stage == Stage::complete, "the request is complete");
  state_->stage = Stage::idle;
  state_->request.body = std::move(state_->parser->get().body());
  state_->parser.reset();
  return std::move(state_->request);
}

}  // namespace exeunt::serve
