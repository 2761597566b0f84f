// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/framing.h"
#include "exeunt/serve/http_message.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/serve/smuggling.h"

namespace exeunt::serve {
namespace {

int status_of(const std::string& head) {
  try {
    check_head(head);
  } catch (const Refusal& refusal) {
    return refusal.status();
  }
  return 200;
}

TEST(HeadCheck, AcceptsOrdinaryHeads) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(status_of("POST /predict?x=1 HTTP/1.1\r\nhost: x\r\nContent-Length: 3\r\nX-Utf: \xc3\xa4\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"), 200);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost:x\r\nTransfer-Encoding:\t chunked \r\n\r\n"), 200);
}

TEST(HeadCheck, RejectsAmbiguousHeads) {
  for (const SmugglingCase& c : smuggling_heads()) {
    EXPECT_EQ(status_of(c.bytes), 400) << c.name;
  }
}

TEST(HeadCheck, RejectsBodyOfOtherMethodThanPost) {
  for (const std::string method : {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "post"}) {
    const std::string head = method + " /health HTTP/1.1\r\nHost: x\r\n";
    EXPECT_EQ(status_of(head + "\r\n"), 200) << method;
    EXPECT_EQ(status_of(head + "Content-Length: 1\r\n\r\n"), 400) << method;
    EXPECT_EQ(status_of(head + "Transfer-Encoding: chunked\r\n\r\n"), 400) << method;
  }
}

TEST(HeadCheck, RejectsTooManyFields) {
  std::string head = "GET / HTTP/1.1\r\nHost: x\r\n";
  for (size_t i = 1; i < kMaxFields; ++i) head += "a: b\r\n";
  EXPECT_EQ(status_of(head + "\r\n"), 200);
  EXPECT_EQ(status_of(head + "a: b\r\n\r\n"), 431);
}

}  // namespace
}  // namespace exeunt::serve
