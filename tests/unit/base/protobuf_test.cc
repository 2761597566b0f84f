// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/protobuf.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string protobuf_error(const std::string& message) {
  return error_of([&] {
           ProtoReader reader(bytes_of(message), "f");
           while (reader.next()) {
           }
         })
      .what();
}

TEST(Protobuf, ReadsEveryWireType) {
  const std::string message = "\x08\x96\x01\x12\x03xyz\x1d\x00\x00\x80\x3f\x21\x01\x00\x00\x00\x00\x00\x00\x80"s +
                              "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s;
  ProtoReader reader(bytes_of(message), "f");
  EXPECT_EQ(reader.next()->value, 150U);
  const auto text = reader.next();
  EXPECT_EQ(text->number, 2U);
  EXPECT_EQ(text->text(), "xyz");
  EXPECT_EQ(reader.next()->real(), 1.0F);
  EXPECT_EQ(reader.next()->value, 0x8000000000000001U);
  EXPECT_EQ(reader.next()->integer(), -1);
  EXPECT_FALSE(reader.next().has_value());
}

TEST(Protobuf, RoundTrips) {
  ProtoWriter inner, writer;
  inner.bytes(1, "xyz");
  writer.integer(1, 150);
  writer.real(300, -0.5F);
  writer.message(2, inner);
  writer.integer(5, -1);
  EXPECT_EQ(writer.content(),
            "\x08\x96\x01\xe5\x12\x00\x00\x00\xbf\x12\x05\x0a\x03xyz\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
  ProtoReader reader(bytes_of(writer.content()), "f");
  EXPECT_EQ(reader.next()->integer(), 150);
  EXPECT_EQ(reader.next()->real(), -0.5F);
  EXPECT_EQ(reader.next()->bytes.size(), 5U);
  EXPECT_EQ(reader.next()->integer(), -1);
  EXPECT_FALSE(reader.next().has_value());
}

TEST(Protobuf, NumbersTakeAsManyBytesAsTheyNeed) {
  for (const int64_t value :
       {int64_t{0}, int64_t{127}, int64_t{128}, int64_t{16383}, int64_t{16384}, INT64_MAX, int64_t{-1}, INT64_MIN}) {
    ProtoWriter writer;
    writer.integer(1, value);
    const std::string& bytes = writer.content();
    std::span<const std::byte> rest = std::as_bytes(std::span(bytes)).subspan(1);
    const size_t wanted = value < 0 ? 10 : value < 128 ? 1 : value < 16384 ? 2 : value == 16384 ? 3 : 9;
    EXPECT_EQ(rest.size(), wanted) << value;
    EXPECT_EQ(take_varint(rest), static_cast<uint64_t>(value));
    EXPECT_TRUE(rest.empty());
  }
}

TEST(Protobuf, RejectsBrokenBytesWithPosition) {
  EXPECT_THAT(protobuf_error("\x08\x96"s), HasSubstr("f: the protocol buffer is malformed or truncated at byte 0"));
  EXPECT_THAT(protobuf_error("\x08\x01\x12\x04xyz"s), HasSubstr("at byte 2"));
  EXPECT_THAT(protobuf_error("\x1d\x01\x02\x03"s), HasSubstr("truncated"));
  EXPECT_THAT(protobuf_error("\x21\x01\x02\x03\x04\x05\x06\x07"s), HasSubstr("truncated"));
  EXPECT_THAT(protobuf_error("\x00\x01"s), HasSubstr("truncated"));  // field 0 does not exist
  EXPECT_THAT(protobuf_error("\x0b\x0c"s), HasSubstr("got wire type 3"));
  EXPECT_THAT(protobuf_error("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"s), HasSubstr("truncated"));
  EXPECT_THAT(protobuf_error("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s), HasSubstr("truncated"));
}

TEST(Protobuf, NamesWrongWireType) {
  const std::string message = "\x08\x01";
  ProtoReader reader(bytes_of(message), "f");
  const auto field = reader.next();
  EXPECT_THAT(error_of([&] { reader.expect(*field, ProtoField::Type::bytes); }).what(),
              HasSubstr("f: field 1: got a varint, want counted bytes"));
}

}  // namespace
}  // namespace exeunt
