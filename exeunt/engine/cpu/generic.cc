// SPDX-License-Identifier: Apache-2.0
// The portable table for every processor: vectors of four floats, which compilers map to the base architecture. It also
// documents Lanes; the faster tables have the same functions.
#include "exeunt/engine/cpu/table.h"

namespace exeunt::kernel {
namespace {

// A vector of kWidth floats and its operations. +, −, · and / are built in.
struct Lanes {
  static constexpr int kWidth = 4;
  static constexpr bool kBf16 = false;          // has load_bf16, store_bf16 and store_bf16_part
  static constexpr size_t kQuantizedBytes = 1;  // of one quantised value in an operand
  using F = float __attribute__((vector_size(16)));
  using I = int32_t __attribute__((vector_size(16)));

  static F set(float x) { return F{x, x, x, x}; }
  static F load(const float* p) {
    F x;
    std::memcpy(&x, p, sizeof(x));
    return x;
  }
  static void store(float* p, F x) { std::memcpy(p, &x, sizeof(x)); }
  // The first n < kWidth values, and zeros.
  static F load_part(const float* p, int n) {
    F x{};
    std::memcpy(&x, p, static_cast<size_t>(n) * sizeof(float));
    return x;
  }
  static void store_part(float* p, F x, int n) { std::memcpy(p, &x, static_cast<size_t>(n) * sizeof(float)); }
  static F first(F x, int n) { return n >= kWidth ? x : load_part(reinterpret_cast<const float*>(&x), n); }
  static F from_int(const int32_t* p) {
    I x;
    std::memcpy(&x, p, sizeof(x));
    return __builtin_convertvector(x, F);
  }

  static F fma(F a, F b, F c) { return a * b + c; }
  static F max(F a, F b) { return a > b ? a : b; }
  static F min(F a, F b) { return a < b ? a : b; }
  static F abs(F a) { return max(a, -a); }
  // To the nearest integer, for |a| < 2^22: the sum has no fraction bits.
  static F round(F a) { return (a + set(0x1.8p23F)) - set(0x1.8p23F); }
  // a · 2^n for whole n between −126 and 127.
  static F times_power_of_two(F a, F n) {
    const I bits = (__builtin_convertvector(n, I) + 127) << 23;
    F power;
    std::memcpy(&power, &bits, sizeof(power));
    return a * power;
  }
  // Row r and column c of kWidth × kWidth values change places.
  static void transpose(F (&x)[kWidth]) {
    for (int r = 0; r < kWidth; ++r) {
      for (int c = r + 1; c < kWidth; ++c) {
        const float other = x[r][c];
        x[r][c] = x[c][r];
        x[c][r] = other;
      }
    }
  }
  static float sum(F a) { return (a[0] + a[2]) + (a[1] + a[3]); }
  static float largest(F a) {
    const float x = a[0] > a[1] ? a[0] : a[1], y = a[2] > a[3] ? a[2] : a[3];
    return x > y ? x : y;
  }
  // kWidth values between −127 and 127, rounded, into kWidth · kQuantizedBytes bytes.
  static void store_quantized(std::byte* p, F a) {
    const I q = __builtin_convertvector(round(a), I);
    for (int i = 0; i < kWidth; ++i) p[i] = static_cast<std::byte>(q[i]);
  }
};

// int8: two inputs at a time. A product of two int8 values of at most 127 fits int16, and so does the sum of two.
struct Int8Block {
  using Weight = int8_t;
  static constexpr int kRows = 4, kColumns = 8, kOffset = 0;
  static constexpr size_t place(int k, int c) { return static_cast<size_t>(k) * kColumns + static_cast<size_t>(c); }
  static constexpr int stored_inputs(int inputs) { return (inputs + 1) / 2 * 2; }

  using Bytes = int8_t __attribute__((vector_size(8)));
  using Shorts = int16_t __attribute__((vector_size(16)));
  using Ints = Lanes::I;
  static Shorts load(const std::byte* p) {
    Bytes x;
    std::memcpy(&x, p, sizeof(x));
    return __builtin_convertvector(x, Shorts);
  }
  static Ints widen(Shorts x, int half) {
    int16_t parts[8];
    std::memcpy(parts, &x, sizeof(parts));
    const int16_t* p = parts + half * 4;
    return Ints{p[0], p[1], p[2], p[3]};
  }

  template <int rows>
  static void run_rows(const Block& block) {
    Ints sums[rows][2] = {};
    const std::byte* w = block.panel;
    for (int k = 0; k < block.inputs; k += 2, w += 2 * kColumns) {
      const Shorts even = load(w), odd = load(w + kColumns);
      for (int r = 0; r < rows; ++r) {
        const std::byte* x = block.input + static_cast<size_t>(r) * block.stride + k;
        const auto first = static_cast<int16_t>(static_cast<int8_t>(x[0]));
        const auto second = static_cast<int16_t>(static_cast<int8_t>(x[1]));
        const Shorts pair = even * first + odd * second;
        sums[r][0] += widen(pair, 0);
        sums[r][1] += widen(pair, 1);
      }
    }
    std::memcpy(block.sums, sums, sizeof(sums));
  }
};

struct Parts {
  using Lanes = kernel::Lanes;
  using Floats = FloatBlock<Lanes, 4, 2>;
  using Bf16s = void;
  using Int8s = Int8Block;
  using FloatAttention = kernel::FloatAttention<Lanes, Floats>;

  static bool runs_on(const CpuFeatures&) { return true; }
};

}  // namespace

constinit const Kernels kGeneric = TableOf<Parts>::make("generic");

}  // namespace exeunt::kernel
