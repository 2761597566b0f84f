// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/zip_reader.h"

#include <functional>

#include "exeunt/model/bytes.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/zip_builder.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;
using testing::HasSubstr;

std::string zip_error(const std::string& archive) {
  return error_of([&] { (void)parse_zip(bytes_of(archive), "f"); }).what();
}

// Two good entries, one of them changed.
std::string message_with(const std::function<void(ZipPart&)>& change, const ZipStyle& style = {}) {
  std::vector<ZipPart> parts{{.name = "a/x", .data = "hello"}, {.name = "a/y", .data = std::string(100, 'y')}};
  change(parts[1]);
  return zip_error(build_zip(parts, style));
}

TEST(Zip, FindsEntries) {
  const std::vector<ZipPart> parts{{.name = "a/x", .data = "hello"},
                                   {.name = "a/empty", .data = "", .flags = 0x0800},
                                   {.name = "a/plain", .data = "no descriptor", .flags = 0},
                                   {.name = "a/wide", .data = "sizes in a zip64 field", .wide = true}};
  for (const bool zip64 : {true, false}) {
    const std::string archive = build_zip(parts, {.zip64 = zip64});
    const auto entries = parse_zip(bytes_of(archive), "f");
    ASSERT_EQ(entries.size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(entries[i].name, parts[i].name);
      EXPECT_EQ(text_of(entries[i].bytes), parts[i].data);
    }
  }
  EXPECT_TRUE(parse_zip(bytes_of(build_zip({})), "f").empty());
}

TEST(Zip, VerifiesChecksumUnlessAbsent) {
  EXPECT_THAT(message_with([](ZipPart& part) { part.crc = 5; }), HasSubstr("f: entry 'a/y': its bytes do not match"));
  const std::string without = build_zip({{.name = "a", .data = "hello", .crc = 0}});
  EXPECT_EQ(parse_zip(bytes_of(without), "f").size(), 1U);
  const std::string wrong = build_zip({{.name = "a", .data = "hello", .crc = 5}});
  EXPECT_EQ(parse_zip(bytes_of(wrong), "f", CrcCheck::skip).size(), 1U);
}

struct Refusal {
  const char* what;
  std::function<void(ZipPart&)> change;
  const char* message;
};

TEST(Zip, RejectsHostileEntries) {
  const std::vector<Refusal> refusals{
      {"compressed", [](ZipPart& p) { p.method = 8; }, "it is compressed (method 8), want it stored"},
      {"compressed, says only the entry", [](ZipPart& p) { p.local_method = 8; }, "disagree"},
      {"encrypted", [](ZipPart& p) { p.flags = 0x0809; }, "it is encrypted"},
      {"strongly encrypted", [](ZipPart& p) { p.flags = 0x0848; }, "it is encrypted"},
      {"masked directory", [](ZipPart& p) { p.flags = 0x2808; }, "it is encrypted"},
      {"unknown flag", [](ZipPart& p) { p.flags = 0x0828; }, "got zip flags 0x0828"},
      {"flags differ", [](ZipPart& p) { p.local_flags = 0x0809; }, "disagree"},
      {"name differs", [](ZipPart& p) { p.local_name = "a/z"; }, "disagree"},
      {"CRC differs", [](ZipPart& p) { p.local_crc = 7; }, "disagree"},
      {"size differs", [](ZipPart& p) { p.local_size = 7; }, "disagree"},
      {"descriptor differs", [](ZipPart& p) { p.descriptor_size = 7; }, "its descriptor and the zip directory"},
      {"descriptor missing", [](ZipPart& p) { p.flags = 0, p.local_flags = 8; }, "disagree"},
      {"packed size differs", [](ZipPart& p) { p.packed_size = 7; }, "but takes 7 bytes for 100"},
      {"twice", [](ZipPart& p) { p.name = "a/x"; }, "entry 'a/x': it appears twice"},
      {"same place", [](ZipPart& p) { p.local_name = "a/x", p.header = 0; }, "disagree"},
      {"too long", [](ZipPart& p) { p.size = 1000; }, "its 1000 bytes do not fit"},
      {"far too long", [](ZipPart& p) { p.size = ~uint64_t{0}, p.wide = true; }, "do not fit"},
      {"a little too long", [](ZipPart& p) { p.size = 104, p.flags = 0; }, "its 104 bytes do not fit"},
      {"a little too short", [](ZipPart& p) { p.size = 96, p.flags = 0; }, "4 bytes behind it belong to no entry"},
      {"a byte too short", [](ZipPart& p) { p.size = 99, p.flags = 0; }, "1 bytes behind it belong to no entry"},
      {"hole", [](ZipPart& p) { p.before = "hidden"; }, "entry 'a/x': got 22 bytes behind it, want a descriptor"},
      {"elsewhere", [](ZipPart& p) { p.header = 10; }, "no entry starts at byte 10"},
      {"outside", [](ZipPart& p) { p.header = 1U << 30; }, "no entry starts at byte 1073741824"},
      {"far outside", [](ZipPart& p) { p.header = ~uint64_t{0} - 3, p.wide = true; }, "no entry starts"},
      {"no name", [](ZipPart& p) { p.name = ""; }, "entry name of 0 bytes"},
      {"long name", [](ZipPart& p) { p.name = std::string(513, 'n'); }, "entry name of 513 bytes"},
      {"NUL in the name", [](ZipPart& p) { p.name = "a/y\0.txt"s; }, "holds a NUL"},
      {"backslash in the name", [](ZipPart& p) { p.name = "a\\y"; }, "holds a NUL, a backslash"},
      {"broken name", [](ZipPart& p) { p.name = "a/\xff"; }, "broken UTF-8"},
      {"broken extra", [](ZipPart& p) { p.extra = "abc"; }, "extra fields are truncated"},
      {"long extra", [](ZipPart& p) { p.extra = "ab\x09\x00x"s; }, "extra fields are truncated"},
      {"two zip64", [](ZipPart& p) { p.wide = true, p.extra = "\1\0\0\0"s; }, "it has two zip64 fields"},
      {"zip64 missing", [](ZipPart& p) { p.size = 0xffffffff; }, "its zip64 sizes are missing"},
      {"zip64 too short", [](ZipPart& p) { p.size = 0xffffffff, p.extra = "\1\0\4\0\1\0\0\0"s; }, "sizes are missing"}};
  for (const Refusal& refusal : refusals)
    EXPECT_THAT(message_with(refusal.change), HasSubstr(refusal.message)) << refusal.what;
}

TEST(Zip, RejectsOverlappingEntries) {
  // The second entry lies whole inside the data of the first.
  const std::string inner = build_zip({{.name = "b", .data = "inside", .flags = 0}}, {.zip64 = false});
  const std::string body = inner.substr(0, inner.find("PK\1\2"));
  std::string outer = build_zip({{.name = "a", .data = body, .flags = 0}, {.name = "b", .data = "inside", .flags = 0}});
  const size_t begin = outer.find(body);
  const size_t second = outer.rfind("PK\1\2");
  outer.replace(second + 42, 4, little(begin, 4));
  EXPECT_THAT(zip_error(outer), HasSubstr("f: entry 'a': it overlaps what follows at byte"));
  // The first entry claims one byte of the second.
  const ZipPart longer{.name = "a", .data = "hello", .flags = 0, .size = 6};
  EXPECT_THAT(zip_error(build_zip({longer, {.name = "b", .data = "world", .flags = 0}})),
              HasSubstr("f: entry 'a': it overlaps what follows at byte"));
}

TEST(Zip, RejectsBrokenDirectories) {
  const std::vector<ZipPart> parts{{.name = "a", .data = "hello"}};
  const std::string good = build_zip(parts);
  EXPECT_THAT(zip_error("PK"), HasSubstr("got 2 bytes: no zip archive"));
  EXPECT_THAT(zip_error(good + "x"), HasSubstr("truncated or has trailing bytes"));
  EXPECT_THAT(zip_error(build_zip(parts, {.comment = "hi"})), HasSubstr("truncated or has trailing bytes"));
  EXPECT_THAT(zip_error("prefix" + good), HasSubstr("zip64 record is not where"));
  EXPECT_THAT(zip_error("prefix" + build_zip(parts, {.zip64 = false})), HasSubstr("want it to end at"));
  EXPECT_THAT(zip_error(build_zip(parts, {.locator = 3})), HasSubstr("zip64 record is not where"));
  EXPECT_THAT(zip_error(build_zip(parts, {.locator = ~uint64_t{0}})), HasSubstr("zip64 record is not where"));
  EXPECT_THAT(zip_error(build_zip(parts, {.narrow_count = 7})), HasSubstr("disagree"));
  EXPECT_THAT(zip_error(build_zip(parts, {.disk = 2})), HasSubstr("split in parts"));
  EXPECT_THAT(zip_error(build_zip(parts, {.zip64 = false, .disk = 2})), HasSubstr("split in parts"));
  EXPECT_THAT(zip_error(build_zip(parts, {.count = 2})), HasSubstr("got 2 entries in a zip directory of"));
  EXPECT_THAT(zip_error(build_zip(parts, {.count = 60000})), HasSubstr("got 60000 entries"));
  EXPECT_THAT(zip_error(build_zip(parts, {.count = 0})), HasSubstr("bytes behind the last entry"));
  EXPECT_THAT(zip_error(build_zip(parts, {.directory_tail = "x"})), HasSubstr("got 1 bytes behind the last entry"));
  EXPECT_THAT(zip_error(build_zip(parts, {.offset = ~uint64_t{0}})), HasSubstr("want it to end at"));
  EXPECT_THAT(zip_error(build_zip({{.name = "a", .data = "hello", .before = "MZ"}})),
              HasSubstr("the first 2 bytes belong to no entry"));
  std::string damaged = good;
  damaged[good.find("PK\1\2")] = 'X';
  EXPECT_THAT(zip_error(damaged), HasSubstr("directory is truncated or damaged"));
  std::string long_comment = good;
  long_comment[good.find("PK\1\2") + 32] = 100;
  EXPECT_THAT(zip_error(long_comment), HasSubstr("directory is truncated or damaged"));
}

TEST(Zip, RejectsEveryTruncation) {
  const std::string good = build_zip({{.name = "a", .data = "hello"}, {.name = "b", .data = "world"}});
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(error_of([&] { (void)parse_zip(bytes_of(good).first(size), "f"); }).code(), Code::bad_file) << size;
}

}  // namespace
}  // namespace exeunt
