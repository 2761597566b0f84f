// SPDX-License-Identifier: Apache-2.0
// The kernels of the CUDA engine one by one: the fast ones against the plain ones, and the plain ones against
// engine/formulas.h. Skipped without a GPU.
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "exeunt/base/half.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/cuda/cuda_kernels.h"
#include "tests/reference/encoder_formulas.h"

namespace exeunt::cuda {
namespace {

#define SKIP_WITHOUT_GPU() \
  if (cuda_devices().devices.empty()) GTEST_SKIP() << cuda_devices().reason

std::vector<float> draw(size_t count, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(count);
  for (float& x : out) x = bf16_to_float(float_to_bf16(normal(random)));
  return out;
}

// An array on the device, of floats or of numbers.
class Array {
 public:
  Array(Number number, const std::vector<float>& values) : number_(number), count_(values.size()) {
    memory_ = device_memory(count_ * bytes_of(number), "a test");
    const DeviceMemory wide = device_memory(count_ * sizeof(float), "a test");
    const OwnStream stream;
    copy_to_device(wide.data(), values.data(), count_ * sizeof(float), stream.get());
    narrow(number, reinterpret_cast<const float*>(wide.data()), memory_.data(), count_, stream.get());
    stream.wait();
  }
  Array(Number number, size_t count) : Array(number, std::vector<float>(count, 12345.0F)) {}

  [[nodiscard]] void* data() const { return memory_.data(); }
  [[nodiscard]] float* floats() const { return reinterpret_cast<float*>(memory_.data()); }
  [[nodiscard]] std::vector<float> values() const {
    const DeviceMemory wide = device_memory(count_ * sizeof(float), "a test");
    const OwnStream stream;
    widen(number_, memory_.data(), reinterpret_cast<float*>(wide.data()), count_, stream.get());
    std::vector<float> out(count_);
    copy_to_host(out.data(), wide.data(), count_ * sizeof(float), stream.get());
    stream.wait();
    return out;
  }

 private:
  Number number_;
  size_t count_;
  DeviceMemory memory_ = {};
};

template <class T>
DeviceMemory on_device(const std::vector<T>& values) {
  DeviceMemory memory = device_memory(values.size() * sizeof(T), "a test");
  const OwnStream stream;
  copy_to_device(memory.data(), values.data(), values.size() * sizeof(T), stream.get());
  stream.wait();
  return memory;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::isnan(difference) ? INFINITY : std::sqrt(difference / std::max(size, 1e-30));
}

struct Sizes {
  int rows, inputs, outputs;
};
constexpr int kPlainly = -2;
constexpr int kManyRows = 20000;  // so that a warp has several

size_t count(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

struct Factors {
  std::vector<float> input, weight, bias;
};

// The first rows are the same for any number of rows.
Factors factors_of(const Sizes& sizes, int rows) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(sizes.inputs));
  return {.input = draw(count(rows, sizes.inputs), 1),
          .weight = draw(count(sizes.outputs, sizes.inputs), 2, scale),
          .bias = draw(static_cast<size_t>(sizes.outputs), 3)};
}

// Every element of input x weight^T + bias, summed in double and then given to `finish`.
template <class Function>
std::vector<float> product_in_double(const Factors& factors, const Sizes& sizes, Function finish) {
  std::vector<float> out;
  for (int r = 0; r < sizes.rows; ++r) {
    for (int o = 0; o < sizes.outputs; ++o) {
      const float* x = factors.input.data() + count(r, sizes.inputs);
      const float* w = factors.weight.data() + count(o, sizes.inputs);
      double sum = factors.bias[static_cast<size_t>(o)];
      for (int c = 0; c < sizes.inputs; ++c) sum += static_cast<double>(x[c]) * w[c];
      out.push_back(static_cast<float>(finish(sum)));
    }
  }
  return out;
}

std::vector<float> product_of(const Sizes& sizes, int max_rows, Number number, Finish finish, int shape) {
  const Factors factors = factors_of(sizes, max_rows);
  const Array input(number, factors.input), weight(number, factors.weight), bias(Number::fp32, factors.bias);
  const Array out(number, count(max_rows, sizes.outputs));
  const DeviceMemory live = on_device(std::vector<Live>{{.texts = 1, .rows = sizes.rows, .tiles = 1}});
  const Product job{.number = number,
                    .input = input.data(),
                    .weight = weight.data(),
                    .bias = bias.floats(),
                    .out = out.data(),
                    .inputs = sizes.inputs,
                    .outputs = sizes.outputs,
                    .finish = finish,
                    .live = reinterpret_cast<const Live*>(live.data()),
                    .max_rows = max_rows};
  const OwnStream stream;
  if (shape == kPlainly) {
    multiply_plainly(job, stream.get());
  } else {
    multiply_by_tensor_cores(job, chip_of(0), shape, stream.get());
  }
  stream.wait();
  std::vector<float> all = out.values();
  for (size_t i = count(sizes.rows, sizes.outputs); i < all.size(); ++i)
    EXPECT_EQ(all[i], bf16_to_float(float_to_bf16(12345.0F))) << "beyond the last row";
  all.resize(count(sizes.rows, sizes.outputs));
  return all;
}

TEST(CudaKernels, PlainProductMatchesFormula) {
  SKIP_WITHOUT_GPU();
  for (const Sizes sizes : {Sizes{1, 1, 1}, Sizes{7, 12, 20}, Sizes{70, 100, 65}, Sizes{1500, 37, 1450}}) {
    const std::vector<float> got = product_of(sizes, sizes.rows, Number::fp32, Finish::gelu, kPlainly);
    const std::vector<float> want = product_in_double(factors_of(sizes, sizes.rows), sizes,
                                                      [](double sum) { return gelu(static_cast<float>(sum)); });
    EXPECT_LT(relative_error(got, want), 1e-6) << sizes.rows;
  }
}

TEST(CudaKernels, TensorCoreProductIsBitEqualInEveryShape) {
  SKIP_WITHOUT_GPU();
  if (!chip_of(0).hopper()) GTEST_SKIP() << "no Hopper GPU";
  for (const Sizes sizes :
       {Sizes{1, 64, 8}, Sizes{130, 128, 64}, Sizes{300, 200, 136}, Sizes{257, 768, 768}, Sizes{128, 3072, 768},
        Sizes{70, 2200, 40}, Sizes{1000, 768, 2304}, Sizes{5000, 768, 1000}, Sizes{20000, 128, 384}}) {
    for (const Finish finish : {Finish::none, Finish::gelu}) {
      const std::vector<float> plain = product_of(sizes, sizes.rows, Number::bf16, finish, kPlainly);
      std::vector<float> before;
      for (int shape = 0; shape < static_cast<int>(std::size(kShapes)); ++shape) {
        if (!shape_fits({.inputs = sizes.inputs}, shape)) continue;
        SCOPED_TRACE(std::to_string(sizes.rows) + " x " + std::to_string(sizes.inputs) + " x " +
                     std::to_string(sizes.outputs) + ", shape " + std::to_string(shape));
        const std::vector<float> got = product_of(sizes, sizes.rows + 64, Number::bf16, finish, shape);
        EXPECT_LT(relative_error(got, plain), 3e-3);
        if (!before.empty()) {
          EXPECT_EQ(got, before);
        }
        before = got;
      }
    }
  }
}

TEST(CudaKernels, FourChainSumIsBitEqualInEveryShape) {
  SKIP_WITHOUT_GPU();
  if (!chip_of(0).hopper()) GTEST_SKIP() << "no Hopper GPU";
  for (const Sizes sizes : {Sizes{1, 2048, 32}, Sizes{128, 3072, 768}, Sizes{70, 2200, 40}, Sizes{300, 4096, 1024}}) {
    const std::vector<float> plain = product_of(sizes, sizes.rows, Number::bf16, Finish::gelu, kPlainly);
    std::vector<float> before;
    int shapes = 0;
    for (int shape = 0; shape < static_cast<int>(std::size(kShapes)); ++shape) {
      if (!shape_fits({.inputs = sizes.inputs}, shape)) continue;
      SCOPED_TRACE(std::to_string(sizes.rows) + " x " + std::to_string(sizes.inputs) + ", shape " +
                   std::to_string(shape));
      const std::vector<float> got = product_of(sizes, sizes.rows + 64, Number::bf16, Finish::gelu, shape);
      EXPECT_LT(relative_error(got, plain), 3e-3);
      if (!before.empty()) {
        EXPECT_EQ(got, before);
      }
      before = got;
      ++shapes;
    }
    EXPECT_EQ(shapes, 5);
  }
}

TEST(CudaKernels, TensorCorePoolerMatchesFormula) {
  SKIP_WITHOUT_GPU();
  if (!chip_of(0).hopper()) GTEST_SKIP() << "no Hopper GPU";
  for (const Sizes sizes : {Sizes{1, 768, 768}, Sizes{3, 128, 40}, Sizes{200, 384, 264}}) {
    const Factors factors = factors_of(sizes, sizes.rows);
    const std::vector<float> want = product_in_double(factors, sizes, [](double sum) { return std::tanh(sum); });
    const Array input(Number::bf16, factors.input), weight(Number::bf16, factors.weight),
        bias(Number::fp32, factors.bias);
    const DeviceMemory live = on_device(std::vector<Live>{{.texts = sizes.rows, .rows = sizes.rows}});
    std::vector<float> before;
    for (const int shape : {-1, 2, 3, 4}) {
      const Array out(Number::fp32, count(sizes.rows, sizes.outputs));
      const OwnStream stream;
      multiply_by_tensor_cores({.number = Number::bf16,
                                .input = input.data(),
                                .weight = weight.data(),
                                .bias = bias.floats(),
                                .inputs = sizes.inputs,
                                .outputs = sizes.outputs,
                                .finish = Finish::tanh,
                                .live = reinterpret_cast<const Live*>(live.data()),
                                .max_rows = sizes.rows,
                                .wide = out.floats()},
                               chip_of(0), shape, stream.get());
      stream.wait();
      const std::vector<float> got = out.values();
      EXPECT_LT(relative_error(got, want), 1e-4);
      if (!before.empty()) {
        EXPECT_EQ(got, before);
      }
      before = got;
    }
  }
}

TEST(CudaKernels, Int8ProductIsExactInEveryShape) {
  SKIP_WITHOUT_GPU();
  if (!chip_of(0).hopper()) GTEST_SKIP() << "no Hopper GPU";
  for (const Sizes sizes : {Sizes{1, 16, 8}, Sizes{130, 128, 64}, Sizes{70, 768, 136}, Sizes{129, 3072, 40}}) {
    const auto rows = static_cast<size_t>(sizes.rows), inputs = static_cast<size_t>(sizes.inputs),
               outputs = static_cast<size_t>(sizes.outputs);
    const Array x(Number::bf16, draw(rows * inputs, 1));
    const std::vector<float> values = x.values(), bias = draw(outputs, 3);
    std::mt19937 random(4);
    std::vector<int8_t> weight(outputs * inputs);
    for (int8_t& w : weight) w = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    std::vector<float> column_scale(outputs);
    for (float& scale : column_scale) scale = static_cast<float>(1 + random() % 9) / 1024;
    const DeviceMemory live = on_device(std::vector<Live>{{.texts = 1, .rows = sizes.rows, .tiles = 1}});
    const DeviceMemory weights = on_device(weight), scales = on_device(column_scale);
    const DeviceMemory quantized = device_memory(rows * inputs, "a test"),
                       row_scales = device_memory(rows * 4, "a test");
    const Array biases(Number::fp32, bias);
    const OwnStream stream;
    quantize({.rows = x.data(),
              .columns = sizes.inputs,
              .out = reinterpret_cast<int8_t*>(quantized.data()),
              .scale = reinterpret_cast<float*>(row_scales.data()),
              .live = reinterpret_cast<const Live*>(live.data()),
              .max_rows = sizes.rows},
             stream.get());
    std::vector<int8_t> got_x(rows * inputs);
    std::vector<float> got_scale(rows);
    copy_to_host(got_x.data(), quantized.data(), got_x.size(), stream.get());
    copy_to_host(got_scale.data(), row_scales.data(), rows * 4, stream.get());
    stream.wait();
    std::vector<float> want;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < inputs; ++c)
        ASSERT_NEAR(static_cast<float>(got_x[r * inputs + c]) * got_scale[r], values[r * inputs + c],
                    got_scale[r] * 0.501F);
      for (size_t o = 0; o < outputs; ++o) {
        int sum = 0;
        for (size_t c = 0; c < inputs; ++c) sum += got_x[r * inputs + c] * weight[o * inputs + c];
        want.push_back(static_cast<float>(sum) * (got_scale[r] * column_scale[o]) + bias[o]);
      }
    }
    std::vector<float> before;
    for (int shape = 0; shape < static_cast<int>(std::size(kShapes)); ++shape) {
      if (!shape_fits({.inputs = sizes.inputs, .column_scale = biases.floats()}, shape)) continue;
      SCOPED_TRACE(std::to_string(sizes.rows) + " x " + std::to_string(sizes.inputs) + ", shape " +
                   std::to_string(shape));
      const Array out(Number::bf16, rows * outputs);
      multiply_int8({.number = Number::bf16,
                     .input = quantized.data(),
                     .weight = weights.data(),
                     .bias = biases.floats(),
                     .out = out.data(),
                     .inputs = sizes.inputs,
                     .outputs = sizes.outputs,
                     .live = reinterpret_cast<const Live*>(live.data()),
                     .max_rows = sizes.rows,
                     .row_scale = reinterpret_cast<const float*>(row_scales.data()),
                     .column_scale = reinterpret_cast<const float*>(scales.data())},
                    chip_of(0), shape, stream.get());
      stream.wait();
      const std::vector<float> got = out.values();
      EXPECT_LT(relative_error(got, want), 3e-3);
      if (!before.empty()) {
        EXPECT_EQ(got, before);
      }
      before = got;
    }
  }
}

struct Lengths {
  std::vector<int> begin = {0};
  std::vector<Tile> tiles = {};
  explicit Lengths(const std::vector<int>& lengths) {
    for (const int length : lengths) {
      for (int first = 0; first < length; first += kTileRows)
        tiles.push_back({.text = static_cast<int>(begin.size()) - 1, .first = first});
      begin.push_back(begin.back() + length);
    }
  }
};

std::vector<float> attention_of(const std::vector<int>& lengths, int hidden, int heads, Number number, bool fast) {
  const Lengths texts(lengths);
  const int rows = texts.begin.back(), count = static_cast<int>(lengths.size());
  const auto values = static_cast<size_t>(rows) * static_cast<size_t>(hidden);
  const Array qkv(number, draw(3 * values, 5));
  const Array out(number, values);
  const DeviceMemory live =
      on_device(std::vector<Live>{{.texts = count, .rows = rows, .tiles = static_cast<int>(texts.tiles.size())}});
  const DeviceMemory begin = on_device(texts.begin), tiles = on_device(texts.tiles);
  const AttentionJob job{.number = number,
                         .qkv = qkv.data(),
                         .hidden = hidden,
                         .heads = heads,
                         .out = out.data(),
                         .list = {.live = reinterpret_cast<Live*>(live.data()),
                                  .begin = reinterpret_cast<int*>(begin.data()),
                                  .tiles = reinterpret_cast<Tile*>(tiles.data())},
                         .capacity = {.texts = count, .rows = rows},
                         .max_tokens = *std::max_element(lengths.begin(), lengths.end())};
  const OwnStream stream;
  fast ? attend_by_tensor_cores(job, stream.get()) : attend_plainly(job, stream.get());
  stream.wait();
  return out.values();
}

TEST(CudaKernels, AttentionStaysWithinTexts) {
  SKIP_WITHOUT_GPU();
  const std::vector<int> lengths = {1, 5, 16, 17, 63, 64, 65, 128, 200, 3};
  const int hidden = 24, heads = 2;
  const std::vector<float> got = attention_of(lengths, hidden, heads, Number::fp32, false);
  const std::vector<float> qkv = draw(got.size() * 3, 5);
  size_t row = 0;
  std::vector<float> want;
  for (const int length : lengths) {
    std::vector<float> parts[3];
    for (int t = 0; t < length; ++t, ++row) {
      for (size_t p = 0; p < 3; ++p) {
        const auto from = qkv.begin() + static_cast<ptrdiff_t>((row * 3 + p) * hidden);
        parts[p].insert(parts[p].end(), from, from + hidden);
      }
    }
    const std::vector<float> context =
        exeunt::attend({.query = parts[0], .key = parts[1], .value = parts[2], .hidden = hidden, .heads = heads});
    want.insert(want.end(), context.begin(), context.end());
  }
  EXPECT_LT(relative_error(got, want), 1e-6);
}

TEST(CudaKernels, TensorCoreAttentionMatchesPlain) {
  SKIP_WITHOUT_GPU();
  const std::vector<int> lengths = {1, 5, 16, 17, 63, 64, 65, 128, 129, 200, 511, 3};
  for (const int width : {32, 64, 128}) {
    SCOPED_TRACE(width);
    const std::vector<float> plain = attention_of(lengths, 3 * width, 3, Number::bf16, false);
    const std::vector<float> fast = attention_of(lengths, 3 * width, 3, Number::bf16, true);
    EXPECT_LT(relative_error(fast, plain), 1e-2);
  }
}

TEST(CudaKernels, AttentionIsIndependentOfBatch) {
  SKIP_WITHOUT_GPU();
  const std::vector<int> few = {1, 5, 16, 17, 63, 64, 65, 128, 129, 200, 511, 3};
  std::vector<int> many = few;
  for (int i = 0; i < 600; ++i) many.push_back(1 + i * 37 % 150);  // more than blocks
  size_t rows = 0;
  for (const int length : few) rows += static_cast<size_t>(length);
  for (const int width : {32, 64, 128}) {
    SCOPED_TRACE(width);
    const std::vector<float> alone = attention_of(few, 3 * width, 3, Number::bf16, true),
                             plain = attention_of(many, 3 * width, 3, Number::bf16, false);
    std::vector<float> together = attention_of(many, 3 * width, 3, Number::bf16, true);
    EXPECT_LT(relative_error(together, plain), 1e-2);
    together.resize(rows * 3 * static_cast<size_t>(width));
    EXPECT_EQ(together, alone);
  }
}

// norm(a + b) of texts of these lengths: all rows, row 0 of each, and the rows of those that stay, moved together.
TEST(CudaKernels, FirstAndMovedRowsMatchNormOfAllRows) {
  SKIP_WITHOUT_GPU();
  const std::vector<int> lengths = {3, 70, 1, 128, 64, 9, 200};
  const std::vector<int> stay = {1, 2, 4, 6};
  const Lengths before(lengths), after({70, 1, 64, 200});
  const auto rows = static_cast<size_t>(before.begin.back());
  const auto list_of = [](const DeviceMemory& live, const DeviceMemory& begin, const DeviceMemory& tiles) {
    return TextList{.live = reinterpret_cast<Live*>(live.data()),
                    .begin = reinterpret_cast<int*>(begin.data()),
                    .tiles = reinterpret_cast<Tile*>(tiles.data())};
  };
  const auto live_of = [](const Lengths& list) {
    return on_device(std::vector<Live>{{.texts = static_cast<int>(list.begin.size()) - 1,
                                        .rows = list.begin.back(),
                                        .tiles = static_cast<int>(list.tiles.size())}});
  };
  const DeviceMemory live = live_of(before), begin = on_device(before.begin), tiles = on_device(before.tiles);
  const DeviceMemory live2 = live_of(after), begin2 = on_device(after.begin), tiles2 = on_device(after.tiles);
  const DeviceMemory from = on_device(stay), first_live = device_memory(sizeof(Live), "a test");
  const OwnStream stream;
  for (const int columns : {12, 128, 768, 1024}) {
    for (const Number number : {Number::fp32, Number::bf16}) {
      SCOPED_TRACE(columns);
      const auto width = static_cast<size_t>(columns);
      const Array a(number, draw(rows * width, 1)), b(number, draw(rows * width, 2));
      const Array gain(Number::fp32, draw(width, 3)), shift(Number::fp32, draw(width, 4));
      const Array all(number, rows * width), first_rows(number, lengths.size() * width), moved(number, rows * width);
      AddNormJob job{.number = number,
                     .a = a.data(),
                     .b = b.data(),
                     .out = all.data(),
                     .columns = columns,
                     .norm = {.weight = gain.floats(), .bias = shift.floats(), .epsilon = 1e-5F},
                     .live = reinterpret_cast<const Live*>(live.data()),
                     .max_rows = static_cast<int>(rows)};
      add_norm(job, stream.get());
      const Capacity capacity{.texts = 32, .rows = 1024};
      const TextList list = list_of(live, begin, tiles), left = list_of(live2, begin2, tiles2);
      job.out = first_rows.data();
      norm_first_rows({.rows = job,
                       .list = list,
                       .first_live = reinterpret_cast<Live*>(first_live.data()),
                       .max_texts = capacity.texts},
                      stream.get());
      job.out = moved.data();
      norm_and_move({.rows = job,
                     .from = reinterpret_cast<const int*>(from.data()),
                     .before = list,
                     .after = left,
                     .capacity = capacity},
                    stream.get());
      Live counted;
      copy_to_host(&counted, first_live.data(), sizeof counted, stream.get());
      stream.wait();
      EXPECT_EQ(counted.texts, static_cast<int>(lengths.size()));
      EXPECT_EQ(counted.rows, static_cast<int>(lengths.size()));
      const std::vector<float> want = all.values(), first = first_rows.values(), some = moved.values();
      const auto row_of = [&](const std::vector<float>& values, size_t row) {
        const auto at = values.begin() + static_cast<ptrdiff_t>(row * width);
        return std::vector<float>(at, at + columns);
      };
      for (size_t t = 0; t < lengths.size(); ++t)
        EXPECT_EQ(row_of(first, t), row_of(want, static_cast<size_t>(before.begin[t])));
      for (size_t t = 0; t < stay.size(); ++t) {
        const auto old = static_cast<size_t>(before.begin[static_cast<size_t>(stay[t])]);
        const auto now = static_cast<size_t>(after.begin[t]);
        for (size_t r = 0; r < static_cast<size_t>(after.begin[t + 1]) - now; ++r)
          ASSERT_EQ(row_of(some, now + r), row_of(want, old + r)) << "text " << t << ", row " << r;
      }
      if (number == Number::fp32) continue;
      const Array again(number, rows * width);
      job.out = again.data();
      job.max_rows = kManyRows;  // as many rows are normalised
      add_norm(job, stream.get());
      stream.wait();
      EXPECT_EQ(again.values(), want);
      if (columns % 16 != 0) continue;
      const auto int8_and_scales = [&](bool by_norm, int max_rows) {
        const DeviceMemory bytes = device_memory(rows * width, "a test"), scales = device_memory(rows * 4, "a test");
        AddNormJob both = job;
        both.max_rows = max_rows;
        if (by_norm) {
          both.quantized = reinterpret_cast<int8_t*>(bytes.data());
          both.scale = reinterpret_cast<float*>(scales.data());
          add_norm(both, stream.get());
        } else {
          quantize({.rows = all.data(),
                    .columns = columns,
                    .out = reinterpret_cast<int8_t*>(bytes.data()),
                    .scale = reinterpret_cast<float*>(scales.data()),
                    .live = job.live,
                    .max_rows = job.max_rows},
                   stream.get());
        }
        std::pair<std::vector<int8_t>, std::vector<float>> out{std::vector<int8_t>(rows * width),
                                                               std::vector<float>(rows)};
        copy_to_host(out.first.data(), bytes.data(), bytes.size(), stream.get());
        copy_to_host(out.second.data(), scales.data(), scales.size(), stream.get());
        stream.wait();
        return out;
      };
      const auto expected = int8_and_scales(false, static_cast<int>(rows));
      EXPECT_EQ(int8_and_scales(true, static_cast<int>(rows)), expected);
      EXPECT_EQ(int8_and_scales(true, kManyRows), expected);
    }
  }
}

TEST(CudaKernels, NormHandlesEveryWidth) {
  SKIP_WITHOUT_GPU();
  for (const int columns : {7, 8, 12, 128, 384, 768, 1024, 2048, 4096}) {
    SCOPED_TRACE(columns);
    const size_t rows = 11, width = static_cast<size_t>(columns);
    const std::vector<float> a = draw(rows * width, 1), b = draw(rows * width, 2), gain = draw(width, 3),
                             shift = draw(width, 4);
    std::vector<float> want = a;
    for (size_t i = 0; i < want.size(); ++i) want[i] += b[i];
    layer_norm(want, {.weight = gain, .bias = shift, .epsilon = 1e-5F});
    const DeviceMemory live = on_device(std::vector<Live>{{.texts = 1, .rows = static_cast<int>(rows), .tiles = 1}});
    const Array gains(Number::fp32, gain), shifts(Number::fp32, shift);
    for (const Number number : {Number::fp32, Number::bf16}) {
      const Array left(number, a), right(number, b), out(number, rows * width);
      const OwnStream stream;
      add_norm({.number = number,
                .a = left.data(),
                .b = right.data(),
                .out = out.data(),
                .columns = columns,
                .norm = {.weight = gains.floats(), .bias = shifts.floats(), .epsilon = 1e-5F},
                .live = reinterpret_cast<const Live*>(live.data()),
                .max_rows = 64},
               stream.get());
      stream.wait();
      EXPECT_LT(relative_error(out.values(), want), number == Number::fp32 ? 1e-6 : 3e-3);
    }
  }
}

}  // namespace
}  // namespace exeunt::cuda
