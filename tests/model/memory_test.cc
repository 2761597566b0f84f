// SPDX-License-Identifier: Apache-2.0
// Loading takes at most the file's size and 64 MiB more, whatever the file says. Each file is read in a process of its
// own, whose peak is then known.
#include <functional>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exeunt/model/tf_bundle.h"
#include "exeunt/model/torch_file.h"
#include "tests/model/pickle_builder.h"
#include "tests/model/tf_builder.h"
#include "tests/scratch.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;

constexpr long kAllowance = 64 << 10;  // in KiB, as the kernel counts

long peak() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// By how many KiB the peak of a new process grows while it runs `read`; an Error is an answer like any other.
long growth_of(const std::function<void()>& read) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  ::malloc_trim(0);  // what this process has freed would hide what the other takes
  const pid_t child = ::fork();
  if (child == 0) {
    const long before = peak();
    try {
      read();
    } catch (const Error&) {
    }
    const long grown = peak() - before;
    ::_exit(::write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  long grown = -1;
  if (::read(ends[0], &grown, sizeof grown) != sizeof grown) grown = -1;
  ::close(ends[0]);
  ::close(ends[1]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? grown : -1;
}

std::string repeated(std::string_view part, size_t times) {
  std::string out;
  out.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

class Memory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }
  // Writes the file before the new process starts, so that the test's own copy does not count.
  void expect_within(const char* what, const std::string& name, const std::string& content,
                     const std::function<void(const std::filesystem::path&)>& read) {
    const auto path = scratch_.write(name, content);
    const long grown = growth_of([&] { read(path); });
    RecordProperty(what, static_cast<int>(grown));
    EXPECT_GE(grown, 0) << what;
    EXPECT_LE(grown, static_cast<long>(content.size() >> 10) + kAllowance) << what;
  }
  void expect_torch_within(const char* what, const std::string& content) {
    expect_within(what, "f.bin", content, [](const auto& path) { (void)read_torch(path); });
  }

  Scratch scratch_;
};

TEST_F(Memory, AZipFileIsNotCopied) {
  using namespace pickled;
  constexpr int64_t kElements = 24 << 20;
  const std::string tensor_text =
      tensor({.storage = storage({.elements = kElements}), .shape = {kElements}, .strides = {1}});
  expect_torch_within("96 MiB of weights", build_zip({{.name = "a/data.pkl", .data = pickle(state_dict(tensor_text))},
                                                      {.name = "a/data/0", .data = std::string(kElements * 4, 'x')}}));
}

TEST_F(Memory, HostilePicklesStayWithinTheAllowance) {
  using pickled::legacy_file, pickled::name, pickled::pickle, pickled::tensor, pickled::text;
  expect_torch_within("tuples of one", legacy_file(pickle("](" + repeated("]\x85", 131000) + "e")));
  expect_torch_within("empty dicts in a list", legacy_file(pickle("](" + repeated("}", 262000) + "e")));
  std::string full_memo;
  for (uint64_t i = 0; i < 262000; ++i) full_memo += "Nr" + little(i, 4);
  expect_torch_within("a full memo", legacy_file(pickle(full_memo)));
  expect_torch_within("many items", legacy_file(pickle("Nq\0]"s + repeated("(" + repeated("h\0"s, 250000) + "e", 4))));
  expect_torch_within("many tensors", legacy_file(pickle("}(" + tensor({.storage = pickled::storage({.view = "N"})}) +
                                                         "q\0"s + repeated("X\1\0\0\0nh\0"s, 120000) + "u")));
  std::string names = "}(" + text("w") + tensor({.storage = pickled::storage({.view = "N"})}) + "q\1";
  for (int i = 0; i < 120000; ++i) names += text(std::to_string(i)) + "h\1";
  expect_torch_within("120,000 names for one tensor", legacy_file(pickle(names + "u")));
}

TEST_F(Memory, ManyZipEntriesStayWithinTheAllowance) {
  std::vector<ZipPart> parts;
  for (int i = 0; i < 100000; ++i) parts.push_back({.name = "a/" + std::to_string(i), .data = "x", .flags = 0});
  expect_torch_within("100,000 entries", build_zip(parts, {.narrow_count = 0xffff}));
}

TEST_F(Memory, ATableOfLongNamesStaysWithinTheAllowance) {
  // Keys that share all but their end with the one before: a few bytes each in the file, 160 in memory.
  std::string block = tf::varint(0) + tf::varint(0) + tf::varint(tf::header().size()) + tf::header();
  const std::string entry = tf::entry({.shape = {0}, .size = 0, .crc = mask_crc(0)});
  std::string last(160, 'k');
  block += tf::varint(0) + tf::varint(last.size()) + tf::varint(entry.size()) + last + entry;
  for (int i = 0; i < 49000; ++i) {
    const std::string key = std::string(155, 'k') + fmt::format("l{:05}", i);
    const size_t shared = i == 0 ? 155 : 156;
    block +=
        tf::varint(shared) + tf::varint(key.size() - shared) + tf::varint(entry.size()) + key.substr(shared) + entry;
  }
  block += little(0, 4) + little(1, 4);
  scratch_.write("m.data-00000-of-00001", "");
  expect_within("49,000 long names", "m.index", tf::table({.blocks = {block}}),
                [](const auto& path) { (void)read_tf_checkpoint(path); });
  EXPECT_EQ(read_tf_checkpoint(scratch_.path() / "m").tensors.size(), 49001U);
}

}  // namespace
}  // namespace exeunt
