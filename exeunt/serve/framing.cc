// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/framing.h"

#include <algorithm>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

#include "exeunt/base/ascii.h"
#include "exeunt/base/number.h"
#include "exeunt/serve/head_check.h"
#include "exeunt/serve/refusal.h"

namespace exeunt::serve {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

constexpr size_t kMaxLine = 1024;  // of a chunked body: a size or a trailer field
constexpr size_t kMaxTrailerBytes = 4096;
constexpr size_t kMaxSizeDigits = 8;

[[noreturn]] void bad_body(std::string_view what) {
  throw Refusal(400, ErrorType::validation, fmt::format("bad body: {}", what));
}

[[noreturn]] void too_large(const FramingLimits& limits) {
  throw Refusal(413, ErrorType::validation, fmt::format("the body is larger than {} bytes", limits.body_bytes),
                "send fewer or shorter texts, or start the server with a larger --payload-limit");
}

[[noreturn]] void refuse(const error_code& error, const FramingLimits& limits) {
  if (error == http::error::body_limit) too_large(limits);
  if (error == http::error::header_limit) throw Refusal(431, ErrorType::validation, "the header is too large");
  throw Refusal(400, ErrorType::validation, "bad request: not HTTP/1.1");
}

// Hexadecimal digits and nothing else: parsers differ in what they make of "0x3" or " 3".
size_t chunk_size(std::string_view line) {
  const auto size = number_of<size_t>(line, 16);
  if (!size || line.size() > kMaxSizeDigits) {
    bad_body("the chunk size is not a hexadecimal number; chunk extensions are not accepted");
  }
  return *size;
}

}  // namespace

struct RequestReader::State {
  explicit State(const FramingLimits& l) : limits(l) {}
  enum class Part { plain, size, data, data_end, trailer };

  FramingLimits limits;
  Stage stage = Stage::idle;
  bool expectation = false, fresh_head = false;
  std::string head, line;
  HttpRequest request;
  Part part = Part::plain;
  uint64_t rest = 0;  // bytes of the body or of this chunk still to come
  int chunks = 0;
  size_t trailer_bytes = 0;

  size_t feed_head(std::string_view bytes);
  void read_head();
  size_t feed_body(std::string_view bytes);
  void take_byte_of_line(char byte);
  void take_line();
};

RequestReader::RequestReader(const FramingLimits& limits) : state_(std::make_unique<State>(limits)) {}
RequestReader::~RequestReader() = default;

RequestReader::Stage RequestReader::stage() const noexcept {
  return state_->stage;
}

bool RequestReader::take_expectation() noexcept {
  return std::exchange(state_->expectation, false);
}

HttpRequest* RequestReader::take_head() noexcept {
  return std::exchange(state_->fresh_head, false) ? &state_->request : nullptr;
}

size_t RequestReader::declared_bytes() const noexcept {
  return state_->part == State::Part::plain ? static_cast<size_t>(state_->rest) : 0;
}

size_t RequestReader::body_bytes() const noexcept {
  return state_->request.body.size();
}

size_t RequestReader::feed(std::string_view bytes) {
  if (state_->stage == Stage::body) return state_->feed_body(bytes);
  size_t taken = 0;
  while (taken < bytes.size() && (state_->stage == Stage::idle || state_->stage == Stage::head)) {
    taken += state_->feed_head(bytes.substr(taken));
  }
  return taken;
}

size_t RequestReader::State::feed_head(std::string_view bytes) {
  constexpr std::string_view end_mark = "\r\n\r\n";
  // An empty line before a request is allowed (RFC 9112, 2.2): old clients end a body with one.
  if (head.empty() && bytes.front() == '\r') {
    head.assign(1, '\r');
    return 1;
  }
  if (head == "\r" && bytes.front() == '\n') {
    head.clear();
    return 1;
  }
  stage = Stage::head;
  const size_t before = head.size();
  const size_t from = before < 3 ? 0 : before - 3;
  const std::string_view next = bytes.substr(0, kMaxHeadBytes + 1 - std::min(before, kMaxHeadBytes));
  head.reserve(before + next.size());  // no more than that: the client has shown no key yet
  head.append(next);
  const size_t end = head.find(end_mark, from);
  if (end == std::string::npos) {
    if (head.size() > kMaxHeadBytes) {
      throw Refusal(431, ErrorType::validation, fmt::format("the header is larger than {} bytes", kMaxHeadBytes));
    }
    return head.size() - before;
  }
  head.resize(end + end_mark.size());
  const size_t taken = head.size() - before;
  check_head(head);
  read_head();
  return taken;
}

void RequestReader::State::read_head() {
  http::request_parser<http::empty_body> parser;
  parser.header_limit(static_cast<uint32_t>(kMaxHeadBytes));
  parser.body_limit(limits.body_bytes);
  error_code error;
  const size_t used = parser.put(boost::asio::const_buffer(head.data(), head.size()), error);
  if (error && error != http::error::need_more) refuse(error, limits);
  if (used != head.size() || !parser.is_header_done()) refuse(http::error::bad_field, limits);
  head = {};

  request = {};
  const auto& message = parser.get();
  request.method = text_of(message.method_string());
  const std::string target = text_of(message.target());
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  for (const auto& field : message) {
    request.fields.emplace_back(lower(text_of(field.name_string())), text_of(field.value()));
  }
  request.keep_alive = parser.keep_alive();
  part = parser.chunked() ? Part::size : Part::plain;
  rest = parser.content_length() ? *parser.content_length() : 0;
  chunks = 0;
  trailer_bytes = 0;
  line.clear();
  stage = part == Part::plain && rest == 0 ? Stage::whole : Stage::body;
  fresh_head = stage == Stage::body;
  expectation = stage == Stage::body && list_holds(request.field("expect"), "100-continue");
}

size_t RequestReader::State::feed_body(std::string_view bytes) {
  size_t taken = 0;
  fresh_head = false;
  if (part == Part::plain && request.body.empty()) request.body.reserve(static_cast<size_t>(rest));  // never copied
  while (taken < bytes.size() && stage == Stage::body) {
    if (part != Part::plain && part != Part::data) {
      take_byte_of_line(bytes[taken++]);
      continue;
    }
    const auto step = static_cast<size_t>(std::min<uint64_t>(rest, bytes.size() - taken));
    request.body.append(bytes.substr(taken, step));
    taken += step;
    rest -= step;
    if (rest > 0) continue;
    if (part == Part::plain) stage = Stage::whole;
    part = Part::data_end;
  }
  return taken;
}

void RequestReader::State::take_byte_of_line(char byte) {
  const bool after_cr = line.ends_with('\r');
  if ((byte == '\n') != after_cr) bad_body("CR or LF alone");
  line += byte;
  if (line.size() > kMaxLine) bad_body("a line is too long");
  if (byte != '\n') return;
  line.resize(line.size() - 2);
  take_line();
  line.clear();
}

void RequestReader::State::take_line() {
  if (part == Part::data_end) {
    if (!line.empty()) bad_body("a chunk is longer than its size");
    part = Part::size;
  } else if (part == Part::size) {
    rest = chunk_size(line);
    if (++chunks > limits.chunks) bad_body(fmt::format("more than {} chunks", limits.chunks));
    if (rest > limits.body_bytes - request.body.size()) too_large(limits);
    part = rest == 0 ? Part::trailer : Part::data;
  } else if (line.empty()) {
    stage = Stage::whole;
  } else {  // trailer fields are ignored
    trailer_bytes += line.size();
    if (trailer_bytes > kMaxTrailerBytes || line.find(':') == std::string::npos) bad_body("bad trailer fields");
  }
}

HttpRequest RequestReader::take() {
  check(state_->stage == Stage::whole, "the request is complete");
  state_->stage = Stage::idle;
  return std::move(state_->request);
}

}  // namespace exeunt::serve
