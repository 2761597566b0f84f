// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/npy.h"

#include <cstring>

#include <fmt/format.h>

#include "tests/fixtures/scratch.h"
#include "tests/unit/lab/papers/numpy.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string header(std::string_view dictionary, int version = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(version);
  bytes += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) bytes += static_cast<char>(dictionary.size() >> (8 * i));
  return bytes + std::string(dictionary);
}

template <class Number>
std::string data(std::initializer_list<Number> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(Number)};
}

TensorView parse(const std::string& bytes) {
  return parse_npy(std::as_bytes(std::span(bytes)), "a.npy");
}

Error npy_error(const std::string& bytes) {
  const Error error = error_of([&] { (void)parse(bytes); });
  EXPECT_EQ(error.code(), Code::bad_file);
  return error;
}

constexpr std::string_view kMatrix = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

TEST(Npy, ReadsEveryVersion) {
  for (const int version : {1, 2, 3}) {
    const std::string bytes = header(kMatrix, version) + data<float>({1, 2, 3, 4, 5, 6});
    const TensorView view = parse(bytes);
    EXPECT_THAT(view.shape, ElementsAre(2, 3));
    EXPECT_THAT(to_floats(view), ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST(Npy, FortranOrderComesOutRowByRow) {
  const std::string bytes =
      header("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }") + data<double>({1, 4, 2, 5, 3, 6});
  EXPECT_THAT(to_doubles(parse(bytes)), ElementsAre(1, 2, 3, 4, 5, 6));
  const std::string cube = header("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 2), }") +
                           data<double>({1, 7, 3, 9, 5, 11, 2, 8, 4, 10, 6, 12});
  EXPECT_THAT(to_doubles(parse(cube)), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

TEST(Npy, ReadsTheTypesPeopleSave) {
  const auto values = [](std::string_view type, const std::string& content) {
    const std::string bytes =
        header(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (2,), }}", type)) + content;
    return to_doubles(parse(bytes));
  };
  EXPECT_THAT(values("<f8", data<double>({1.5, -2})), ElementsAre(1.5, -2));
  EXPECT_THAT(values("<f4", data<float>({1.5, -2})), ElementsAre(1.5, -2));
  EXPECT_THAT(values("<f2", data<uint16_t>({0x3E00, 0xC000})), ElementsAre(1.5, -2));
  EXPECT_THAT(values("<i8", data<int64_t>({7, -2})), ElementsAre(7, -2));
  EXPECT_THAT(values("<i4", data<int32_t>({7, -2})), ElementsAre(7, -2));
  EXPECT_THAT(values("<i2", data<int16_t>({7, -2})), ElementsAre(7, -2));
  EXPECT_THAT(values("|i1", data<int8_t>({7, -2})), ElementsAre(7, -2));
  EXPECT_THAT(values("|u1", data<uint8_t>({7, 200})), ElementsAre(7, 200));
  EXPECT_THAT(values("|b1", data<uint8_t>({0, 1})), ElementsAre(0, 1));
}

TEST(Npy, RejectsOtherThanArraysOfNumbers) {
  const auto with = [](std::string_view descr) {
    return header(fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (1,), }}", descr)) + data<double>({1});
  };
  EXPECT_THAT(npy_error(with("'|O'")).what(), HasSubstr("got an array of Python objects"));
  EXPECT_THAT(npy_error(with("'>f8'")).what(), HasSubstr("got elements of type '>f8'"));
  EXPECT_THAT(npy_error(with("'>f8'")).hint(), HasSubstr("astype('<f4')"));
  EXPECT_THAT(npy_error(with("'<u8'")).what(), HasSubstr("'<u8'"));
  EXPECT_THAT(npy_error(with("'<c8'")).what(), HasSubstr("'<c8'"));
  EXPECT_THAT(npy_error(with("[('a', '<f8')]")).what(), HasSubstr("structured array"));
}

TEST(Npy, BrokenFilesAreRefused) {
  EXPECT_THAT(npy_error("").what(), HasSubstr("does not start as an .npy file"));
  EXPECT_THAT(npy_error("PK\x03\x04 something longer").what(), HasSubstr("does not start as an .npy file"));
  EXPECT_THAT(npy_error(header(kMatrix, 4)).what(), HasSubstr("got .npy version 4"));
  EXPECT_THAT(npy_error(header(kMatrix).substr(0, 30)).what(), HasSubstr("cut short in its header"));
  EXPECT_THAT(npy_error(header(kMatrix, 2).substr(0, 11)).what(), HasSubstr("cut short in its header"));
  EXPECT_THAT(npy_error(header(kMatrix) + data<float>({1, 2, 3})).what(), HasSubstr("got 12 bytes of data"));
  EXPECT_THAT(npy_error(header(kMatrix) + data<float>({1, 2, 3, 4, 5, 6, 7})).what(),
              HasSubstr("got 28 bytes of data"));
  for (const char* dictionary :
       {"", "{", "{}", "nonsense", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 3, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (1,), }"})
    EXPECT_EQ(npy_error(header(dictionary) + data<float>({1})).code(), Code::bad_file) << dictionary;
}

TEST(Npy, HugeShapesDoNotAllocate) {
  EXPECT_THAT(
      npy_error(
          header("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }"))
          .what(),
      HasSubstr("got 0 bytes of data"));
  EXPECT_THAT(npy_error(header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }")).what(),
              HasSubstr("field 'shape'"));
}

TEST(Npy, ZeroDoesNotHideOverflow) {
  EXPECT_THAT(
      npy_error(header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 9223372036854775807, 0), }")).what(),
      HasSubstr("got 0 bytes of data"));
  EXPECT_TRUE(to_doubles(parse(header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 0), }"))).empty());
}

TEST(Npy, WritesWhatItReads) {
  const Scratch scratch;
  write_npy(scratch.path() / "a.npy", std::vector<double>{1, 2.5, -3, 4, 5, 6}, {3, 2});
  const NpyArray array = read_npy(scratch.path() / "a.npy");
  EXPECT_THAT(array.view.shape, ElementsAre(3, 2));
  EXPECT_THAT(to_doubles(array.view), ElementsAre(1, 2.5, -3, 4, 5, 6));
  EXPECT_EQ(std::filesystem::file_size(scratch.path() / "a.npy") - array.view.bytes.size(), 2 * 64U)
      << "the data start on a multiple of 64";
}

class Numpy : public testing::Test {
 protected:
  void SetUp() override {
    if (!numpy_says(scratch_.path(), "")) GTEST_SKIP() << "no NumPy for /usr/bin/python3";
  }
  Scratch scratch_;
};

TEST_F(Numpy, LoadsOurArrays) {
  write_npy(scratch_.path() / "a.npy", std::vector<double>{0.5, 0.25, 1}, {3});
  write_npy(scratch_.path() / "b.npy", std::vector<double>{1, 2, 3, 4}, {2, 2});
  EXPECT_TRUE(numpy_says(scratch_.path(), R"(
a, b = np.load('a.npy'), np.load('b.npy')
assert a.dtype == np.float64 and a.tolist() == [0.5, 0.25, 1.0], a
assert b.shape == (2, 2) and b.tolist() == [[1, 2], [3, 4]], b
# and the bytes are those it would have written
import io
f = io.BytesIO(); np.save(f, a); assert f.getvalue() == open('a.npy', 'rb').read()
)"));
}

TEST_F(Numpy, LoadsDeebertsObjectArray) {
  write_deebert_npy(
      scratch_.path() / "entropy_0.1.npy",
      {.exits = {{1, 0}, {2, 408}, {12, 5'000'000'000}}, .seconds = 12.5, .cost_fraction = 0.9314, .score = 0.9072});
  EXPECT_TRUE(numpy_says(scratch_.path(), R"(
a = np.load('entropy_0.1.npy', allow_pickle=True)
assert a.dtype == object and a.shape == (4,), a
assert a[0] == {1: 0, 2: 408, 12: 5000000000} and list(a[0]) == [1, 2, 12], a[0]
assert a[1:].tolist() == [12.5, 0.9314, 0.9072], a
)"));
}

TEST_F(Numpy, WritesWhatWeRead) {
  ASSERT_TRUE(numpy_says(scratch_.path(), R"(
a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
np.save('c.npy', a)
np.save('f.npy', np.asfortranarray(a))
np.save('d.npy', a.astype(np.float64))
with open('v2.npy', 'wb') as f: np.lib.format.write_array(f, a, version=(2, 0))
with open('v3.npy', 'wb') as f: np.lib.format.write_array(f, a, version=(3, 0))
np.save('scalar.npy', np.float32(3))
np.save('gold.npy', np.array([1, 0, 2]))
np.save('object.npy', np.array([{}, 1]), allow_pickle=True)
)"));
  for (const char* name : {"c.npy", "f.npy", "d.npy", "v2.npy", "v3.npy"}) {
    const NpyArray array = read_npy(scratch_.path() / name);
    EXPECT_THAT(array.view.shape, ElementsAre(2, 3, 4)) << name;
    const std::vector<float> values = to_floats(array.view);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i)) << name;
  }
  EXPECT_TRUE(read_npy(scratch_.path() / "scalar.npy").view.shape.empty());
  EXPECT_THAT(to_doubles(read_npy(scratch_.path() / "gold.npy").view), ElementsAre(1, 0, 2));
  EXPECT_THAT(error_of([&] { (void)read_npy(scratch_.path() / "object.npy"); }).what(), HasSubstr("Python objects"));
}

}  // namespace
}  // namespace exeunt
