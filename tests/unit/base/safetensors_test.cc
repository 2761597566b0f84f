// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/safetensors.h"

#include <cstring>
#include <numeric>

#include "exeunt/base/files.h"
#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

std::string file_of(std::string header, size_t data_bytes) {
  uint64_t size = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &size, 8);
  return out + header + std::string(data_bytes, '\1');
}

std::string safetensors_error(const std::string& content) {
  return error_of([&] { (void)parse_safetensors(std::as_bytes(std::span(content)), "f"); }).what();
}

TEST(Safetensors, RoundTrips) {
  const Scratch scratch;
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const TensorView view{.dtype = DType::f32, .shape = {2, 3}, .strides = {}, .bytes = std::as_bytes(std::span(values))};
  write_safetensors(scratch.path() / "x",
                    {{"b", view},
                     {"a", transposed(view)},
                     {"none", {.dtype = DType::i64, .shape = {0, 4}, .strides = {}, .bytes = {}}}},
                    {{"format", "test"}});
  const TensorSet set = read_safetensors(scratch.path() / "x");
  EXPECT_EQ(set.metadata.at("format"), "test");
  EXPECT_EQ(to_floats(*set.find("b")), values);
  EXPECT_EQ(set.find("a")->shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(to_floats(*set.find("a")), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(set.find("none")->elements(), 0);
  EXPECT_EQ(set.find("c"), nullptr);
}

TEST(Safetensors, WritesLargeTransposedTensorInOrder) {
  const int64_t rows = 1100, columns = 2003;  // 8.4 MiB: three parts, the last one short
  std::vector<float> values(static_cast<size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 0.0F);
  const TensorView view{
      .dtype = DType::f32, .shape = {rows, columns}, .strides = {}, .bytes = std::as_bytes(std::span(values))};
  size_t parts = 0;
  std::vector<float> got;
  stream_safetensors({{"a", transposed(view)}}, {}, [&](std::span<const std::byte> bytes) {
    if (++parts <= 2) return;  // the header's length and the header
    const auto* floats = reinterpret_cast<const float*>(bytes.data());
    got.insert(got.end(), floats, floats + bytes.size() / sizeof(float));
  });
  EXPECT_EQ(parts, 5U);
  EXPECT_TRUE(got == to_floats(transposed(view)));
}

// Half of the columns of a larger matrix: its rows are neither contiguous nor one element apart.
TEST(Safetensors, WritesLargeSliceInOrder) {
  const int64_t rows = 3000, columns = 1000;  // 11.4 MiB in memory, 5.7 written: two parts
  std::vector<float> values(static_cast<size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 0.0F);
  const TensorView slice{.dtype = DType::f32,
                         .shape = {rows, columns / 2},
                         .strides = {columns, 1},
                         .bytes = std::as_bytes(std::span(values))};
  std::vector<float> got, wanted;
  size_t parts = 0;
  stream_safetensors({{"a", slice}}, {}, [&](std::span<const std::byte> bytes) {
    if (++parts <= 2) return;
    const auto* floats = reinterpret_cast<const float*>(bytes.data());
    got.insert(got.end(), floats, floats + bytes.size() / sizeof(float));
  });
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = values.begin() + row * columns;
    wanted.insert(wanted.end(), begin, begin + columns / 2);
  }
  EXPECT_TRUE(got == wanted);
  EXPECT_EQ(to_floats(transposed(transposed(slice))), wanted);
}

TEST(Safetensors, PadsHeaderToMultipleOfEight) {
  for (size_t extra = 0; extra < 8; ++extra) {
    std::vector<size_t> sizes;
    stream_safetensors({}, {{"format", std::string(extra, 'x')}},
                       [&](std::span<const std::byte> bytes) { sizes.push_back(bytes.size()); });
    const size_t plain = std::string_view(R"({"__metadata__":{"format":""}})").size() + extra;
    EXPECT_EQ(sizes.at(1), (plain + 7) / 8 * 8) << extra;
  }
}

TEST(Safetensors, StreamsTheBytesItWrites) {
  const Scratch scratch;
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const TensorView view{.dtype = DType::f32, .shape = {2, 3}, .strides = {}, .bytes = std::as_bytes(std::span(values))};
  const std::vector<NamedTensor> tensors{{"b", view}, {"a", transposed(view)}};
  write_safetensors(scratch.path() / "x", tensors, {{"format", "test"}});
  std::string streamed;
  stream_safetensors(tensors, {{"format", "test"}}, [&](std::span<const std::byte> bytes) {
    streamed.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  EXPECT_EQ(streamed, read_text(scratch.path() / "x"));
}

TEST(Safetensors, AllowsEmptyTensorAtOffsetOfAnother) {
  const std::string content = file_of(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
      4);
  const TensorSet set = parse_safetensors(std::as_bytes(std::span(content)), "f");
  EXPECT_EQ(set.find("a")->elements(), 4);
  EXPECT_EQ(set.find("b")->elements(), 0);
}

TEST(Safetensors, NamesHave512BytesAtMost) {
  const std::vector<float> one = {1};
  const auto named = [&](size_t bytes) {
    std::string file;
    stream_safetensors({{std::string(bytes, 'n'), view_of(DType::f32, one)}}, {}, [&](std::span<const std::byte> part) {
      file.append(reinterpret_cast<const char*>(part.data()), part.size());
    });
    return parse_safetensors(std::as_bytes(std::span(file)), "f").tensors.size();
  };
  EXPECT_EQ(named(512), 1U);
  EXPECT_STREQ(error_of([&] { (void)named(513); }).what(), "f: got a tensor name of 513 bytes, want 1 to 512");
  EXPECT_STREQ(error_of([&] { (void)named(0); }).what(), "f: got a tensor name of 0 bytes, want 1 to 512");
}

TEST(Safetensors, RejectsHostileFiles) {
  EXPECT_THAT(safetensors_error("abc"), HasSubstr("want at least 8"));
  EXPECT_THAT(safetensors_error(std::string(8, '\xff')), HasSubstr("want at most"));
  EXPECT_THAT(safetensors_error(file_of("{}", 0).substr(0, 9)), HasSubstr("truncated"));
  EXPECT_THAT(safetensors_error(file_of("[]", 0)), HasSubstr("does not start"));
  EXPECT_THAT(safetensors_error(file_of("{}", 3)), HasSubstr("trailing data"));
  EXPECT_THAT(safetensors_error(file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4)),
              HasSubstr("within the file's 4 bytes"));
  EXPECT_THAT(safetensors_error(file_of(R"({"x":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8)),
              HasSubstr("tensor 'x': got dtype F31"));
  EXPECT_THAT(safetensors_error(file_of(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8)),
              HasSubstr("does not take the 8 bytes"));
  EXPECT_THAT(safetensors_error(file_of(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8)),
              HasSubstr("want sizes from 0 on"));
  EXPECT_THAT(
      safetensors_error(file_of(R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0)),
      HasSubstr("does not take"));
  EXPECT_THAT(
      safetensors_error(file_of(
          R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6)),
      HasSubstr("'y' overlaps"));
  EXPECT_THAT(safetensors_error(file_of(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5)),
              HasSubstr("gap of 1 bytes"));
  EXPECT_THAT(
      safetensors_error(file_of(
          R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
          1)),
      HasSubstr("duplicate"));
  EXPECT_THAT(safetensors_error(file_of(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("want a string"));
}

// Tensors without elements: nothing but the header costs anything.
std::string empty_tensors(size_t count) {
  std::string header = "{";
  for (size_t i = 0; i < count; ++i) {
    header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
  }
  return file_of(header + "}", 0);
}

TEST(Safetensors, ReadsManyTensorsInLinearTime) {
  const auto read = [](const std::string& file) { (void)parse_safetensors(std::as_bytes(std::span(file)), "f"); };
  EXPECT_LT(growth_exponent(1000, empty_tensors, read), 1.5);
}

// At the size limit of the header: what it holds is bounded while it is parsed.
TEST(Safetensors, BoundsMemoryOfHeader) {
  constexpr size_t kHeader = 8 << 20;
  std::string lists = R"({"x":[[])";
  while (lists.size() < kHeader - 8) lists += ",[]";
  EXPECT_THAT(safetensors_error(file_of(lists + "]}", 0)), HasSubstr("more than 700000 values"));
  const std::string most = empty_tensors(50'000);
  EXPECT_EQ(parse_safetensors(std::as_bytes(std::span(most)), "f").tensors.size(), 50'000U);
  EXPECT_THAT(safetensors_error(empty_tensors(50'001)), HasSubstr("got 50001 tensors, want at most 50000"));
}

}  // namespace
}  // namespace exeunt
