// SPDX-License-Identifier: Apache-2.0
// Reading and writing activations: eight neighbours at once, as floats.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "exeunt/engine/cuda/cuda_kernels.h"

namespace exeunt::cuda {

using bf16 = __nv_bfloat16;

__device__ inline float wide(float x) {
  return x;
}
__device__ inline float wide(bf16 x) {
  return __bfloat162float(x);
}
__device__ inline void store(float* to, float x) {
  *to = x;
}
__device__ inline void store(bf16* to, float x) {
  *to = __float2bfloat16_rn(x);
}

struct Eight {
  float v[8];
};

__device__ inline float2 both(uint32_t packed) {
  __nv_bfloat162 pair;
  memcpy(&pair, &packed, 4);
  return __bfloat1622float2(pair);
}
__device__ inline uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t out;
  memcpy(&out, &pair, 4);
  return out;
}

// `from` is aligned to 16 bytes.
__device__ inline Eight load_eight(const float* from) {
  const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
__device__ inline Eight eight_of(const uint4& bits) {
  const float2 a = both(bits.x), b = both(bits.y), c = both(bits.z), d = both(bits.w);
  return {{a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y}};
}
__device__ inline Eight load_eight(const bf16* from) {
  return eight_of(*reinterpret_cast<const uint4*>(from));
}
__device__ inline void store_eight(float* to, const Eight& x) {
  *reinterpret_cast<float4*>(to) = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
  *reinterpret_cast<float4*>(to + 4) = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
}
__device__ inline void store_eight(bf16* to, const Eight& x) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(packed(x.v[0], x.v[1]), packed(x.v[2], x.v[3]), packed(x.v[4], x.v[5]), packed(x.v[6], x.v[7]));
}

// The sum or the maximum over a warp, the same in every lane.
__device__ inline float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, step));
  return x;
}

// By the units for special functions, within two units in the last place; what is too small for a normal number is 0.
__device__ inline float quick_inverse(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// x Φ(x) = max(x, 0) − |x| Φ(−|x|). Φ by 7.1.26 of Abramowitz and Stegun, within 1.5e-7: far below what bf16 keeps, and
// in 13 instructions, because the products of a large batch wait for nothing as long as for this.
__device__ inline float quick_gelu(float x) {
  const float t = quick_inverse(fmaf(fabsf(x), 0.3275911F * 0.70710678F, 1.0F));
  const float series =
      t * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 0.5307027145F, -0.7265760135F), 0.7107068705F), -0.142248368F), 0.127414796F);
  const float tail = series * quick_exp2(x * -0.72134752F * x);  // Φ(−|x|): e to the −x²/2
  return fmaf(-fabsf(x), tail, fmaxf(x, 0.0F));
}
__device__ inline float finished(float x, Finish finish, bool quick) {
  switch (finish) {
    case Finish::gelu:
      return quick ? quick_gelu(x) : 0.5F * x * (1.0F + erff(x * 0.70710678118654752F));
    case Finish::gelu_new:
      return 0.5F * x * (1.0F + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));
    case Finish::relu:
      return fmaxf(x, 0.0F);
    case Finish::tanh:
      return tanhf(x);
    default:
      return x;
  }
}

// What 1 stands for where the largest |x| becomes 127; and eight numbers as int8.
__device__ inline float int8_scale(float most) {
  return most > 0 ? most / 127.0F : 1.0F;
}
__device__ inline uint2 int8_of(const Eight& x, float inverse) {
  uint32_t bytes[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int q = max(-127, min(127, __float2int_rn(x.v[i] * inverse)));
    bytes[i / 4] |= (static_cast<uint32_t>(q) & 0xffU) << (i % 4 * 8);
  }
  return make_uint2(bytes[0], bytes[1]);
}

// Calls `run` with a pointer of the type that `number` stands for.
template <class Run>
void with_type(Number number, Run run) {
  if (number == Number::fp32) {
    run(static_cast<float*>(nullptr));
  } else {
    run(static_cast<bf16*>(nullptr));
  }
}

constexpr unsigned kMostBlocks = 1056;  // eight for each processor of the largest GPUs

[[nodiscard]] constexpr unsigned blocks_of(size_t count, size_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

}  // namespace exeunt::cuda
