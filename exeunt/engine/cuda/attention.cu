// SPDX-License-Identifier: Apache-2.0
// Attention within each text of a batch, whatever its length: softmax(Q Kᵀ / √d) V, without padding.
// By tensor cores: a block has 64 queries of one head of one text and goes through the keys 64 at a time with a running
// maximum and sum, so that scores never leave registers (Dao et al., FlashAttention). Plainly: one warp per query.
#include <algorithm>

#include "exeunt/engine/cuda/numbers.cuh"
#include "exeunt/engine/cuda/start.cuh"

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

// One warp: its 16 queries attend to the next `here` of up to 64 keys.
template <int kWidth>
__device__ inline void attend_to(const uint32_t (&query)[kWidth / 16][4], const bf16* keys, const bf16* values,
                                 int here, float scale, float (&out)[kWidth / 8][4], float& top0, float& top1,
                                 float& sum0, float& sum1) {
  constexpr int kRow = kWidth + 8, kSteps = kWidth / 16, kParts = kWidth / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32, q = lane % 4;
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
  const float shrink0 = quick_exp2((top0 - new0) * scale),
              shrink1 = quick_exp2((top1 - new1) * scale);  // 0 at first
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
      score[j][i] = quick_exp2(fmaf(score[j][i], scale, shift0));
      score[j][2 + i] = quick_exp2(fmaf(score[j][2 + i], scale, shift1));
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
}

// Blocks stay: a block goes from one tile and head to the next, and the queries, keys and values of the next 64 keys
// come while these are used, also where they belong to the next tile.
template <int kWidth>  // columns of a head
struct TensorAttention {
  static constexpr int kRow = kWidth + 8;  // padded: the eight rows of a matrix lie in different banks
  static constexpr int kSteps = kWidth / 16, kParts = kWidth / 8;
  static constexpr int kPart = kKeys * kRow;                   // numbers of 64 padded rows
  static constexpr size_t kShared = 6 * kPart * sizeof(bf16);  // two of queries, of keys and of values
  static constexpr int kTogether = kWidth <= 64 ? 4 : 2;

  // 64 keys of one head for 64 queries of one text.
  struct Step {
    int item, begin, tokens, query, key, head;
  };
};

// Starts to copy the keys and values of a step to shared memory, and at the first keys its queries.
template <int kWidth>
__device__ inline void fetch_step(const AttentionJob& job, const typename TensorAttention<kWidth>::Step& step,
                                  bf16* queries, bf16* keys, bf16* values) {
  constexpr int kRow = TensorAttention<kWidth>::kRow, kParts = TensorAttention<kWidth>::kParts;
  const auto stride = static_cast<size_t>(3 * job.hidden);
  const bf16* base = static_cast<const bf16*>(job.qkv) + static_cast<size_t>(step.begin) * stride + step.head * kWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kKeys * kParts; i += 128) {
    const int row = i / kParts, part = i % kParts * 8;
    const bool inside = step.key + row < step.tokens;
    const bf16* from = base + static_cast<size_t>(inside ? step.key + row : 0) * stride + part;
    copy_ahead(keys + row * kRow + part, from + job.hidden, inside);
    copy_ahead(values + row * kRow + part, from + 2 * job.hidden, inside);
    if (step.key > 0) continue;
    const bool asked = step.query + row < step.tokens;
    copy_ahead(queries + row * kRow + part, base + static_cast<size_t>(asked ? step.query + row : 0) * stride + part,
               asked);
  }
  end_copies();
}

// One warp: its 16 queries, divided by the sums of their weights.
template <int kWidth>
__device__ inline void store_output(const AttentionJob& job, const typename TensorAttention<kWidth>::Step& at,
                                    const float (&out)[kWidth / 8][4], float sum0, float sum1) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int step = 1; step <= 2; step *= 2) {
    sum0 += __shfl_xor_sync(0xffffffffU, sum0, step);
    sum1 += __shfl_xor_sync(0xffffffffU, sum1, step);
  }
  const auto hidden = static_cast<size_t>(job.hidden);
  bf16* to = static_cast<bf16*>(job.out) + static_cast<size_t>(at.begin) * hidden + at.head * kWidth;
  const float share0 = 1.0F / sum0, share1 = 1.0F / sum1;
  const int row0 = at.query + warp * 16 + lane / 4, row1 = row0 + 8;
#pragma unroll
  for (int p = 0; p < kWidth / 8; ++p) {
    const int column = p * 8 + 2 * (lane % 4);
    if (row0 < at.tokens)
      *reinterpret_cast<uint32_t*>(to + static_cast<size_t>(row0) * hidden + column) =
          packed(out[p][0] * share0, out[p][1] * share0);
    if (row1 < at.tokens)
      *reinterpret_cast<uint32_t*>(to + static_cast<size_t>(row1) * hidden + column) =
          packed(out[p][2] * share1, out[p][3] * share1);
  }
}

template <int kWidth>
__global__ void __launch_bounds__(128, TensorAttention<kWidth>::kTogether) tensor_attention(AttentionJob job) {
  using S = TensorAttention<kWidth>;
  constexpr int kRow = S::kRow, kSteps = S::kSteps, kParts = S::kParts;
  extern __shared__ __align__(16) uint8_t memory[];
  bf16* const shared = reinterpret_cast<bf16*>(memory);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  let_next_begin();
  wait_for_previous();
  const int items = job.list.live->tiles * job.heads;

  // The first step of the first item from `item` on that is wanted.
  const auto enter = [&](int item) {
    for (; item < items; item += static_cast<int>(gridDim.x)) {
      const Tile tile = job.list.tiles[item / job.heads];
      if (job.first_only && tile.first > 0) continue;
      const int begin = job.list.begin[tile.text];
      return typename S::Step{item, begin, job.list.begin[tile.text + 1] - begin, tile.first, 0, item % job.heads};
    }
    return typename S::Step{items, 0, 0, 0, 0, 0};
  };
  const auto after = [&](typename S::Step step) {
    step.key += kKeys;
    return step.key < step.tokens ? step : enter(step.item + static_cast<int>(gridDim.x));
  };
  const auto fetch = [&](const typename S::Step& step, int stage, int turn) {
    fetch_step<kWidth>(job, step, shared + turn * S::kPart, shared + (2 + stage) * S::kPart,
                       shared + (4 + stage) * S::kPart);
  };

  typename S::Step at = enter(static_cast<int>(blockIdx.x));
  if (at.item >= items) return;
  int stage = 0, turn = 0;  // of keys and values, and of queries
  fetch(at, stage, turn);
  uint32_t query[kSteps][4];
  float out[kParts][4];
  float top0 = 0, top1 = 0, sum0 = 0, sum1 = 0;
  const float scale = kLog2E / sqrtf(static_cast<float>(kWidth));
  while (at.item < items) {
    const typename S::Step next = after(at);
    const bool ends = next.item != at.item;
    if (next.item < items) {
      fetch(next, 1 - stage, ends ? 1 - turn : turn);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const bf16 *keys = shared + (2 + stage) * S::kPart, *values = shared + (4 + stage) * S::kPart;
    const int here = min(kKeys, at.tokens - at.key);
    const bool asks = at.query + warp * 16 < at.tokens;  // some query of this warp
    if (asks && at.key == 0) {
      // Lanes 0–15 name rows 0–15 of columns 0–7, lanes 16–31 of columns 8–15.
#pragma unroll
      for (int k = 0; k < kSteps; ++k)
        load_matrices(query[k],
                      shared_at(shared + turn * S::kPart + (warp * 16 + lane % 16) * kRow + k * 16 + lane / 16 * 8));
#pragma unroll
      for (int p = 0; p < kParts; ++p) out[p][0] = out[p][1] = out[p][2] = out[p][3] = 0;
      top0 = top1 = -INFINITY;
      sum0 = sum1 = 0;
    }
    if (asks) attend_to<kWidth>(query, keys, values, here, scale, out, top0, top1, sum0, sum1);
    if (asks && ends) store_output<kWidth>(job, at, out, sum0, sum1);
    __syncthreads();  // before this stage is written again
    at = next;
    stage = 1 - stage;
    if (ends) turn = 1 - turn;
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

// Shared memory that a block of this GPU can have.
size_t most_shared() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return 0;
  return static_cast<size_t>(bytes);
}

template <int kWidth>
void attend_in_width(const AttentionJob& job, Stream stream) {
  using S = TensorAttention<kWidth>;
  allow_shared("preparing attention", tensor_attention<kWidth>, S::kShared);
  const auto items = static_cast<unsigned>(job.capacity.tiles() * job.heads);
  const auto most = static_cast<unsigned>(S::kTogether * job.processors);
  start("starting attention", tensor_attention<kWidth>,
        {.blocks = dim3(std::min(items, most)),
         .threads = 128,
         .shared = S::kShared,
         .stream = stream,
         .early = few_rows(job.capacity.rows)},
        job);
}

}  // namespace

void attend_by_tensor_cores(const AttentionJob& job, Stream stream) {
  switch (job.hidden / job.heads) {
    case 32:
      return attend_in_width<32>(job, stream);
    case 64:
      return attend_in_width<64>(job, stream);
    default:
      return attend_in_width<128>(job, stream);
  }
}

void attend_plainly(const AttentionJob& job, Stream stream) {
  const size_t shared = 4 * static_cast<size_t>(job.max_tokens) * sizeof(float);
  with_type(job.number, [&]<class T>(T*) {
    if (shared > 48 * 1024) allow_shared("preparing attention", plain_attention<T>, shared);
    const dim3 blocks(static_cast<unsigned>(job.capacity.tiles()), static_cast<unsigned>(job.heads));
    plain_attention<T><<<blocks, 128, shared, stream>>>(job);
  });
  check_launch("starting attention");
}

void attend(const AttentionJob& job, Stream stream) {
  const int width = job.hidden / job.heads;
  const bool fits = job.number == Number::bf16 && job.hidden % 8 == 0 &&
                    (width == 32 || width == 64 || (width == 128 && most_shared() >= TensorAttention<128>::kShared));
  return fits ? attend_by_tensor_cores(job, stream) : attend_plainly(job, stream);
}

}  // namespace exeunt::cuda
