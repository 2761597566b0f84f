// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tensorboard.h"

#include <bit>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exeunt/base/files.h"
#include "exeunt/base/protobuf.h"
#include "lab/tensorflow/crc32c.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <class T>
T number_at(std::string_view text, size_t at) {
  T value{};
  std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

// The event inside a record whose length and checksums must be right. Takes the record off `rest`.
std::string_view take_event(std::string_view& rest) {
  const auto length = number_at<uint64_t>(rest, 0);
  EXPECT_EQ(number_at<uint32_t>(rest, 8), masked_crc32c(bytes_of(rest.substr(0, 8))));
  const std::string_view event = rest.substr(12, length);
  EXPECT_EQ(number_at<uint32_t>(rest, 12 + length), masked_crc32c(bytes_of(event)));
  rest.remove_prefix(16 + length);
  return event;
}

TEST(TensorBoard, RecordsHoldStepAndScalarsUnderChecksums) {
  const std::string record = event_record(12.5, 300, {{"loss", 0.25}, {"exit_3/accuracy", 1.0}});
  std::string_view rest = record;
  ProtoReader event(bytes_of(take_event(rest)), "event");
  EXPECT_TRUE(rest.empty());
  const auto time = event.next(), step = event.next(), summary = event.next();
  ASSERT_TRUE(time && step && summary);
  EXPECT_EQ(std::bit_cast<double>(time->value), 12.5);
  EXPECT_EQ(step->number, 2U);
  EXPECT_EQ(step->value, 300U);
  EXPECT_EQ(summary->number, 5U);
  ProtoReader values(summary->bytes, "summary");
  const auto first = values.next(), second = values.next();
  ASSERT_TRUE(first && second);
  ProtoReader loss(first->bytes, "value");
  EXPECT_EQ(loss.next()->text(), "loss");
  EXPECT_EQ(loss.next()->real(), 0.25F);
  ProtoReader accuracy(second->bytes, "value");
  EXPECT_EQ(accuracy.next()->text(), "exit_3/accuracy");
}

TEST(TensorBoard, WritesOneEventForEachEntryOfTheLog) {
  const Scratch scratch;
  scratch.write("log.jsonl",
                "{\"step\":1,\"loss\":2}\n"
                "{\"step\":2,\"exits\":[{\"layer\":3,\"accuracy\":0.5}]}\n");
  const std::filesystem::path path = write_events(scratch.path());
  EXPECT_EQ(write_events(scratch.path()), path);  // again, while the run goes on
  const std::string content = read_text(path);
  std::string_view rest = content;
  EXPECT_NE(take_event(rest).find("brain.Event:2"), std::string_view::npos);
  EXPECT_NE(take_event(rest).find("loss"), std::string_view::npos);
  EXPECT_NE(take_event(rest).find("exit_3/accuracy"), std::string_view::npos);
  EXPECT_TRUE(rest.empty());
}

TEST(TensorBoard, RejectsAFolderWithoutALogAndABrokenOne) {
  const Scratch scratch;
  EXPECT_EQ(error_of([&] { (void)write_events(scratch.path()); }).code(), Code::bad_file);
  scratch.write("log.jsonl", "{\"loss\":2}\n");
  EXPECT_THAT(error_of([&] { (void)write_events(scratch.path()); }).what(), testing::HasSubstr("log.jsonl:1"));
}

}  // namespace
}  // namespace exeunt
