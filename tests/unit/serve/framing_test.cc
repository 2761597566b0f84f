// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/framing.h"

#include "exeunt/serve/http_message.h"
#include "tests/fixtures/scratch.h"

namespace exeunt::serve {
namespace {

using Stage = RequestReader::Stage;

constexpr std::string_view kPost = "POST /predict?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
constexpr std::string_view kChunks =
    "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";

// Feeds pieces of `step` bytes and collects the requests.
std::vector<HttpRequest> read_all(std::string_view bytes, size_t step, const FramingLimits& limits = {}) {
  RequestReader reader(limits);
  std::vector<HttpRequest> out;
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, step);
    bytes.remove_prefix(piece.size());
    while (!piece.empty()) {
      piece.remove_prefix(reader.feed(piece));
      if (reader.stage() == Stage::complete) out.push_back(reader.take());
    }
  }
  return out;
}

int framing_status(std::string_view bytes, const FramingLimits& limits = {}, size_t step = 1000) {
  try {
    (void)read_all(bytes, step, limits);
  } catch (const Refusal& refusal) {
    return refusal.status();
  }
  return 200;
}

TEST(Framing, ParsesPipelinedRequestsSplitAtAnyByte) {
  const std::string bytes =
      std::string(kPost) + std::string(kChunks) + "\r\nGET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    const auto requests = read_all(bytes, step);
    ASSERT_EQ(requests.size(), 3U) << step;
    EXPECT_EQ(requests[0].path, "/predict");
    EXPECT_EQ(requests[0].body, "hello");
    EXPECT_EQ(requests[1].method, "POST");
    EXPECT_EQ(requests[1].body, "hello");
    EXPECT_TRUE(requests[1].keep_alive);
    EXPECT_EQ(requests[2].path, "/last");
    EXPECT_FALSE(requests[2].keep_alive);
    EXPECT_EQ(requests[2].field("host"), "x");
  }
}

TEST(Framing, RejectsHeadBodyAndChunksOverLimit) {
  EXPECT_EQ(framing_status("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(kMaxHeadBytes, 'a')), 431);
  EXPECT_EQ(framing_status(std::string(kMaxHeadBytes + 5, 'a')), 431);
  const FramingLimits five{.body_bytes = 5};
  EXPECT_EQ(framing_status(kPost, five), 200);
  EXPECT_EQ(framing_status(kChunks, five), 200);
  const FramingLimits four{.body_bytes = 4};
  EXPECT_EQ(framing_status(kPost, four), 413);
  EXPECT_EQ(framing_status(kChunks, four), 413);
  EXPECT_EQ(framing_status(kChunks, {.chunks = 2}), 400);
  EXPECT_EQ(framing_status(kChunks, {.chunks = 3}), 200) << "with the last, empty one";
  const std::string head = "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(framing_status(head + "ffffffff\r\n"), 413);
  std::string tiny = head;
  for (int i = 0; i < 5000; ++i) tiny += "1\r\na\r\n";
  EXPECT_EQ(framing_status(tiny), 400);
}

TEST(Framing, RejectsMalformedChunks) {
  const std::string head = "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body :
       {"3;ext=1\r\nabc\r\n0\r\n\r\n", "-3\r\nabc\r\n", "0x3\r\nabc\r\n", "ffffffffffffffffff\r\nabc\r\n",
        "\r\nabc\r\n", "3\r\nabcd\r\n0\r\n\r\n", " 3\r\nabc\r\n0\r\n\r\n", "3\nabc\n0\n\n", "3 \r\nabc\r\n", "g\r\n",
        "3\r\nabc0\r\n\r\n"}) {
    EXPECT_EQ(framing_status(head + body), 400) << body;
    EXPECT_EQ(framing_status(head + body, {}, 1), 400) << body << " byte by byte";
  }
  // Size lines and trailers are limited.
  EXPECT_EQ(framing_status(head + std::string(10000, '0')), 400);
  EXPECT_EQ(framing_status(head + "0\r\n" + std::string(10000, 'a')), 400);
  EXPECT_EQ(framing_status(head + "0\r\n" + std::string(10000, 'a'), {}, 7), 400);
}

TEST(Framing, IgnoresTrailerFields) {
  const auto requests = read_all(
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nAuthorization: Bearer x\r\n\r\n",
      9);
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].field("authorization"), "");
}

// No state is carried from one request of a connection to the next.
TEST(Framing, ResetsLimitsForEachRequest) {
  const FramingLimits limits{.body_bytes = 5, .chunks = 3};
  const std::string trailer = "A: " + std::string(1000, 'a') + "\r\n";
  const std::string chunked =
      "POST /c?q=1 HTTP/1.1\r\nHost: x\r\nX-First: 1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nhel\r\n2\r\nlo\r\n0\r\n" +
      trailer + trailer + trailer + trailer + "\r\n";
  EXPECT_EQ(framing_status(chunked + trailer, limits), 200);
  for (const size_t step : {1, 7, 100'000}) {
    std::string bytes;
    for (int i = 0; i < 20; ++i) bytes += chunked + std::string(kPost);
    const auto requests = read_all(bytes, step, limits);
    ASSERT_EQ(requests.size(), 40U);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(requests[i].body, "hello");
      EXPECT_EQ(requests[i].fields.size(), i % 2 == 0 ? 4U : 2U);
      EXPECT_EQ(requests[i].path, i % 2 == 0 ? "/c" : "/predict");
    }
  }
  RequestReader reader(limits);
  std::string_view bytes = chunked;
  bytes.remove_prefix(reader.feed(bytes.substr(0, bytes.find("3\r\nhel"))));
  reader.feed(bytes);
  (void)reader.take();  // without take_expect_continue()
  reader.feed(kPost.substr(0, kPost.size() - 1));
  EXPECT_EQ(reader.stage(), Stage::body);
  EXPECT_FALSE(reader.take_expect_continue());
}

TEST(Framing, ReportsExpectContinueOnce) {
  RequestReader reader({});
  reader.feed("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(reader.stage(), Stage::body);
  EXPECT_TRUE(reader.take_expect_continue());
  EXPECT_FALSE(reader.take_expect_continue());
  reader.feed("ab");
  EXPECT_EQ(reader.stage(), Stage::complete);
}

TEST(Framing, StopsAfterHeadOfRequestWithBody) {
  RequestReader reader({});
  EXPECT_EQ(reader.feed(kPost), kPost.size() - 5);
  HttpRequest* head = reader.take_head();
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->path, "/predict");
  EXPECT_EQ(reader.take_head(), nullptr);
  EXPECT_EQ(reader.declared_bytes(), 5U);
  reader.feed("he");
  EXPECT_EQ(reader.body_bytes(), 2U);
  reader.feed("llo");
  EXPECT_EQ(reader.take().body, "hello");
  reader.feed("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(reader.take_head(), nullptr);  // nothing follows it
  EXPECT_EQ(reader.stage(), Stage::complete);
}

TEST(Framing, RejectsDeclaredLengthOverLimitAtHead) {
  EXPECT_EQ(framing_status("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n"), 413);
}

}  // namespace
}  // namespace exeunt::serve
