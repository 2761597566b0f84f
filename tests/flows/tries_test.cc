// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/tries.h"

#include <thread>
#include <vector>

#include "tests/scratch.h"

namespace exeunt {
namespace {

std::vector<uint64_t> rows(uint64_t from, uint64_t to) {
  std::vector<uint64_t> out;
  for (uint64_t i = from; i < to; ++i) out.push_back(i * 0x9e3779b97f4a7c15);
  return out;
}

TEST(Tries, CountThoseThatShareARowWhateverTheModel) {
  const Scratch scratch;
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 100)), 1);
  EXPECT_EQ(count_try(scratch.path(), "b", rows(99, 150)), 2) << "one row in common";
  EXPECT_EQ(count_try(scratch.path(), "c", rows(200, 300)), 1) << "rows of their own";
  EXPECT_EQ(count_try(scratch.path(), "d", rows(0, 300)), 4);
}

TEST(Tries, TheSameTestAgainIsNoNewTry) {
  const Scratch scratch;
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 10)), 1);
  EXPECT_EQ(count_try(scratch.path(), "b", rows(0, 10)), 2);
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 10)), 1);
  EXPECT_EQ(count_try(scratch.path(), "b", rows(0, 10)), 2);
}

TEST(Tries, ADamagedEntryCountsAsATry) {
  const Scratch scratch;
  EXPECT_EQ(count_try(scratch.path(), "a", rows(0, 10)), 1);
  scratch.write("tries/x.safetensors", "no tensors");
  EXPECT_EQ(count_try(scratch.path(), "b", rows(0, 10)), 3);
}

TEST(Tries, TellNoHashesOfOthers) {
  const Scratch one, two;
  (void)count_try(one.path(), "a", rows(0, 10));
  (void)count_try(two.path(), "a", rows(0, 10));
  const auto bytes = [](const std::filesystem::path& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / "tries")) {
      std::ifstream file(entry.path(), std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(file), {});
    }
    return std::string();
  };
  EXPECT_NE(bytes(one.path()), bytes(two.path())) << "each user has a salt of their own";
}

TEST(Tries, AreCountedOneAtATime) {
  const Scratch scratch;
  std::vector<int> numbers(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < numbers.size(); ++i)
      threads.emplace_back([&, i] { numbers[i] = count_try(scratch.path(), std::to_string(i), rows(0, 10)); });
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_THAT(numbers, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Tries, AFolderThatCannotBeMadeIsSaid) {
  const Scratch scratch;
  scratch.write("file", "");
  const Error error = error_of([&] { (void)count_try(scratch.path() / "file" / "x", "a", rows(0, 1)); });
  EXPECT_EQ(error.code(), Code::resources);
}

}  // namespace
}  // namespace exeunt
