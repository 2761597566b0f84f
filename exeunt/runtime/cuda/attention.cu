// SPDX-License-Identifier: Apache-2.0
// Attention within each text of a batch, whatever its length: softmax(Q Kᵀ / √d) V, without padding.
// By tensor cores: a block has 64 queries of one head of one text and goes through the keys 64 at a time with a running
// maximum and sum, so that scores never leave registers (Dao et al., FlashAttention). Plainly: one warp per query.
#include "exeunt/runtime/cuda/numbers.cuh"

namespace exeunt::cuda {
namespace {

constexpr int kKeys = 64;
constexpr float kLog2E = 1.44269504F;

__device__ inline uint32_t shared_at(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Four 8 × 8 matrices of bf16 from shared memory, as operands of mma.
__device__ inline void load_matrices(uint32_t (&out)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_transposed(uint32_t (&out)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
__device__ inline float power_of_2(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}
// d += a b: 16 × 16 times 16 × 8.
__device__ inline void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Copies 16 bytes to shared memory without passing registers; zeros if not `inside`.
__device__ inline void copy_ahead(void* to, const void* from, bool inside) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_at(to)), "l"(from), "r"(inside ? 16 : 0)
               : "memory");
#endif
}
__device__ inline void end_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most kPending of the groups are still under way.
template <int kPending>
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

template <int kWidth>  // columns of a head
__global__ void __launch_bounds__(128, kWidth <= 64 ? 4 : 2) tensor_attention(AttentionJob job) {
  constexpr int kRow = kWidth + 8;  // padded: the eight rows of a matrix lie in different banks
  constexpr int kSteps = kWidth / 16, kParts = kWidth / 8;
  constexpr int kStages = kWidth <= 64 ? 2 : 1;  // the next keys and values come while these are used
  __shared__ __align__(16) bf16 keys_of[kStages][kKeys * kRow], values_of[kStages][kKeys * kRow];
  if (static_cast<int>(blockIdx.x) >= job.list.live->tiles) return;
  const Tile tile = job.list.tiles[blockIdx.x];
  if (job.first_only && tile.first > 0) return;
  const int head = static_cast<int>(blockIdx.y);
  const int begin = job.list.begin[tile.text], tokens = job.list.begin[tile.text + 1] - begin;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, q = lane % 4;
  const auto stride = static_cast<size_t>(3 * job.hidden);
  const bf16* base = static_cast<const bf16*>(job.qkv) + static_cast<size_t>(begin) * stride + head * kWidth;

  const auto fetch = [&](int first, int stage) {
    for (int i = static_cast<int>(threadIdx.x); i < kKeys * kParts; i += 128) {
      const int row = i / kParts, part = i % kParts * 8;
      const bool inside = first + row < tokens;
      const bf16* from = base + static_cast<size_t>(inside ? first + row : 0) * stride + part;
      copy_ahead(keys_of[stage] + row * kRow + part, from + job.hidden, inside);
      copy_ahead(values_of[stage] + row * kRow + part, from + 2 * job.hidden, inside);
    }
  };
  fetch(0, 0);
  end_copies();

  // Queries as operands: rows g and g + 8 of this warp's 16.
  const int row0 = tile.first + warp * 16 + g, row1 = row0 + 8;
  uint32_t query[kSteps][4];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const int column = k * 16 + 2 * q;
    const auto read = [&](int row, int c) {
      return row < tokens ? *reinterpret_cast<const uint32_t*>(base + static_cast<size_t>(row) * stride + c) : 0U;
    };
    query[k][0] = read(row0, column);
    query[k][1] = read(row1, column);
    query[k][2] = read(row0, column + 8);
    query[k][3] = read(row1, column + 8);
  }

  float out[kParts][4] = {};
  float top0 = -INFINITY, top1 = -INFINITY, sum0 = 0, sum1 = 0;
  const float scale = kLog2E / sqrtf(static_cast<float>(kWidth));
  for (int first = 0; first < tokens; first += kKeys) {
    const int here = min(kKeys, tokens - first), stage = kStages == 2 ? first / kKeys % 2 : 0;
    if constexpr (kStages == 2) {
      if (first + kKeys < tokens) fetch(first + kKeys, 1 - stage);
      end_copies();
      wait_for_copies<1>();
    } else {
      if (first > 0) fetch(first, 0);
      end_copies();
      wait_for_copies<0>();
    }
    __syncthreads();
    const bf16 *keys = keys_of[stage], *values = values_of[stage];
    const auto use = [&] {
      if (tile.first + warp * 16 >= tokens) return;  // no query of this warp
      float score[kKeys / 8][4] = {};
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {  // 16 keys at a time
        if (n * 16 >= here) break;
#pragma unroll
        for (int k = 0; k < kSteps; ++k) {
          // Lanes 0–7 and 8–15 name keys 0–7, columns 0–7 and 8–15; lanes 16–31 the same of keys 8–15.
          uint32_t b[4];
          const int row = n * 16 + lane % 8 + lane / 16 * 8, column = k * 16 + lane / 8 % 2 * 8;
          load_matrices(b, shared_at(keys + row * kRow + column));
          multiply_add(score[2 * n], query[k], b[0], b[1]);
          multiply_add(score[2 * n + 1], query[k], b[2], b[3]);
        }
      }
      if (here < kKeys) {
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (j * 8 + 2 * q + i >= here) score[j][i] = score[j][2 + i] = -INFINITY;
          }
        }
      }
      float new0 = top0, new1 = top1;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
        new0 = fmaxf(new0, fmaxf(score[j][0], score[j][1]));
        new1 = fmaxf(new1, fmaxf(score[j][2], score[j][3]));
      }
      for (int step = 1; step <= 2; step *= 2) {  // the four lanes of a row
        new0 = fmaxf(new0, __shfl_xor_sync(0xffffffffU, new0, step));
        new1 = fmaxf(new1, __shfl_xor_sync(0xffffffffU, new1, step));
      }
      const float shrink0 = power_of_2((top0 - new0) * scale),
                  shrink1 = power_of_2((top1 - new1) * scale);  // 0 at first
      top0 = new0;
      top1 = new1;
      sum0 *= shrink0;
      sum1 *= shrink1;
      const float shift0 = -top0 * scale, shift1 = -top1 * scale;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        out[p][0] *= shrink0;
        out[p][1] *= shrink0;
        out[p][2] *= shrink1;
        out[p][3] *= shrink1;
      }
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          score[j][i] = power_of_2(fmaf(score[j][i], scale, shift0));
          score[j][2 + i] = power_of_2(fmaf(score[j][2 + i], scale, shift1));
          sum0 += score[j][i];
          sum1 += score[j][2 + i];
        }
      }
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        if (n * 16 >= here) break;
        const uint32_t weights[4] = {packed(score[2 * n][0], score[2 * n][1]), packed(score[2 * n][2], score[2 * n][3]),
                                     packed(score[2 * n + 1][0], score[2 * n + 1][1]),
                                     packed(score[2 * n + 1][2], score[2 * n + 1][3])};
#pragma unroll
        for (int p = 0; p < kParts; p += 2) {
          // Lanes 0–15 name keys 0–15 of columns 0–7, lanes 16–31 of columns 8–15.
          uint32_t b[4];
          const int row = n * 16 + lane % 16, column = p * 8 + lane / 16 * 8;
          load_transposed(b, shared_at(values + row * kRow + column));
          multiply_add(out[p], weights, b[0], b[1]);
          multiply_add(out[p + 1], weights, b[2], b[3]);
        }
      }
    };
    use();
    __syncthreads();  // before this stage is written again
  }
  for (int step = 1; step <= 2; step *= 2) {
    sum0 += __shfl_xor_sync(0xffffffffU, sum0, step);
    sum1 += __shfl_xor_sync(0xffffffffU, sum1, step);
  }
  bf16* to = static_cast<bf16*>(job.out) + static_cast<size_t>(begin) * static_cast<size_t>(job.hidden) + head * kWidth;
  const float share0 = 1.0F / sum0, share1 = 1.0F / sum1;
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int column = p * 8 + 2 * q;
    if (row0 < tokens)
      *reinterpret_cast<uint32_t*>(to + static_cast<size_t>(row0) * static_cast<size_t>(job.hidden) + column) =
          packed(out[p][0] * share0, out[p][1] * share0);
    if (row1 < tokens)
      *reinterpret_cast<uint32_t*>(to + static_cast<size_t>(row1) * static_cast<size_t>(job.hidden) + column) =
          packed(out[p][2] * share1, out[p][3] * share1);
  }
}

// One block of 128 threads per tile and head, one warp per query; its scores are in shared memory.
template <class T>
__global__ void __launch_bounds__(128) plain_attention(AttentionJob job) {
  extern __shared__ float scores[];  // [4, max_tokens]
  if (static_cast<int>(blockIdx.x) >= job.list.live->tiles) return;
  const Tile tile = job.list.tiles[blockIdx.x];
  if (job.first_only && tile.first > 0) return;
  const int width = job.hidden / job.heads, head = static_cast<int>(blockIdx.y);
  const int begin = job.list.begin[tile.text], tokens = job.list.begin[tile.text + 1] - begin;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const auto stride = static_cast<size_t>(3 * job.hidden);
  const T* base = static_cast<const T*>(job.qkv) + static_cast<size_t>(begin) * stride + head * width;
  float* mine = scores + static_cast<size_t>(warp) * static_cast<size_t>(job.max_tokens);
  const float root = sqrtf(static_cast<float>(width));
  for (int t = tile.first + warp; t < min(tokens, tile.first + kTileRows); t += 4) {
    const T* query = base + static_cast<size_t>(t) * stride;
    float top = -INFINITY;
    for (int other = lane; other < tokens; other += 32) {
      const T* key = base + static_cast<size_t>(other) * stride + job.hidden;
      float sum = 0;
      for (int c = 0; c < width; ++c) sum = fmaf(wide(query[c]), wide(key[c]), sum);
      mine[other] = sum / root;
      top = fmaxf(top, mine[other]);
    }
    top = warp_max(top);
    float sum = 0;
    for (int other = lane; other < tokens; other += 32) {
      mine[other] = expf(mine[other] - top);
      sum += mine[other];
    }
    sum = warp_sum(sum);
    __syncwarp();
    T* to = static_cast<T*>(job.out) + static_cast<size_t>(begin + t) * static_cast<size_t>(job.hidden) + head * width;
    for (int c = lane; c < width; c += 32) {
      float value = 0;
      for (int other = 0; other < tokens; ++other)
        value = fmaf(mine[other], wide(base[static_cast<size_t>(other) * stride + 2 * job.hidden + c]), value);
      store(to + c, value / sum);
    }
    __syncwarp();
  }
}

dim3 blocks_for(const AttentionJob& job) {
  return {static_cast<unsigned>(job.room.tiles()), static_cast<unsigned>(job.heads)};
}

}  // namespace

void attend_by_tensor_cores(const AttentionJob& job, Stream stream) {
  switch (job.hidden / job.heads) {
    case 32:
      tensor_attention<32><<<blocks_for(job), 128, 0, stream>>>(job);
      break;
    case 64:
      tensor_attention<64><<<blocks_for(job), 128, 0, stream>>>(job);
      break;
    default:
      tensor_attention<128><<<blocks_for(job), 128, 0, stream>>>(job);
      break;
  }
  check_launch("starting attention");
}

void attend_plainly(const AttentionJob& job, Stream stream) {
  const size_t shared = 4 * static_cast<size_t>(job.max_tokens) * sizeof(float);
  with_type(job.number, [&]<class T>(T*) {
    if (shared > 48 * 1024)
      cudaFuncSetAttribute(plain_attention<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    plain_attention<T><<<blocks_for(job), 128, shared, stream>>>(job);
  });
  check_launch("starting attention");
}

void attend(const AttentionJob& job, Stream stream) {
  const int width = job.hidden / job.heads;
  const bool fits = job.number == Number::bf16 && job.hidden % 8 == 0 && (width == 32 || width == 64 || width == 128);
  return fits ? attend_by_tensor_cores(job, stream) : attend_plainly(job, stream);
}

}  // namespace exeunt::cuda
