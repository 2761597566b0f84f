// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "exeunt/model/bytes.h"
#include "lab/tensorflow/tf_table.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/zip_builder.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;

std::optional<std::string> unpacked(const std::string& packed, size_t limit = 1 << 20) {
  const auto out = unpack_snappy(bytes_of(packed), limit);
  if (!out) return std::nullopt;
  return std::string(text_of(*out));
}

TEST(Snappy, UnpacksEveryElementKind) {
  EXPECT_EQ(unpacked("\0"s), "");
  EXPECT_EQ(unpacked("\3\x08xyz"), "xyz");
  EXPECT_EQ(unpacked("\x08\x0c"s + "abcd" + "\x01\x04"), "abcdabcd");                 // one byte of offset
  EXPECT_EQ(unpacked("\x0a\x04"s + "ab" + "\x1e\x02\x00"s), "ababababab");            // two bytes, overlapping itself
  EXPECT_EQ(unpacked("\x0a\x04"s + "ab" + "\x1f\x02\x00\x00\x00"s), "ababababab");    // four bytes
  EXPECT_EQ(unpacked("\x40\xf0\x3f"s + std::string(64, 'x')), std::string(64, 'x'));  // a length of its own
  EXPECT_EQ(unpacked("\xac\x02\xf4\x2b\x01"s + std::string(300, 'x')), std::string(300, 'x'));
  std::string far(2000, 'a');
  far[0] = 'b';
  EXPECT_EQ(unpacked("\xd4\x0f\xf4\xcf\x07"s + far + "\xe1\xd0"s), far + "baaa");  // the upper bits of an offset
}

TEST(Snappy, RejectsBrokenData) {
  EXPECT_FALSE(unpacked(""));                                  // no length
  EXPECT_FALSE(unpacked("\3\x08xy"));                          // cut literal
  EXPECT_FALSE(unpacked("\2\x08xyz"));                         // more than promised
  EXPECT_FALSE(unpacked("\4\x08xyz"));                         // less than promised
  EXPECT_FALSE(unpacked("\x08\x0c"s + "abcd" + "\x01\x00"s));  // offset 0
  EXPECT_FALSE(unpacked("\x08\x0c"s + "abcd" + "\x01\x05"));   // before the start
  EXPECT_FALSE(unpacked("\x07\x0c"s + "abcd" + "\x01\x04"));   // copy beyond the promise
  EXPECT_FALSE(unpacked("\x08\x0c"s + "abcd" + "\x01"));       // no offset
  EXPECT_FALSE(unpacked("\x08\x0c"s + "abcd" + "\x0e\x04"));   // half an offset
  EXPECT_FALSE(unpacked("\x08\xf0"));                          // no length of a long literal
  EXPECT_FALSE(unpacked("\xff\xff\x7f\0"s));                   // a promise that cannot be kept
  EXPECT_FALSE(unpacked("\3\x08xyz", 2));                      // over the limit
  EXPECT_FALSE(unpacked("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\0"s));
}

}  // namespace
}  // namespace exeunt
