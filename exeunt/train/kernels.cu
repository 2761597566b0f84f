// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <cuda_bf16.h>

#include "exeunt/train/kernels.h"

namespace exeunt::nn::kernels {
namespace {

constexpr int kWarps = 8;  // to a block
constexpr int64_t kBlocks = 264;

struct Four {
  float v[4];
};

__device__ Four load(const Bf16* from) {
  const uint2 raw = *reinterpret_cast<const uint2*>(from);
  const float2 a = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&raw.x));
  const float2 b = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&raw.y));
  return {{a.x, a.y, b.x, b.y}};
}

__device__ Four load(const float* from) {
  const float4 raw = *reinterpret_cast<const float4*>(from);
  return {{raw.x, raw.y, raw.z, raw.w}};
}

// Rounds the four values in place, so that whoever goes on with them sees what memory holds.
__device__ void store(Bf16* to, Four& values) {
  uint2 raw;
  __nv_bfloat162 a = __floats2bfloat162_rn(values.v[0], values.v[1]),
                 b = __floats2bfloat162_rn(values.v[2], values.v[3]);
  raw.x = *reinterpret_cast<uint32_t*>(&a);
  raw.y = *reinterpret_cast<uint32_t*>(&b);
  *reinterpret_cast<uint2*>(to) = raw;
  const float2 c = __bfloat1622float2(a), d = __bfloat1622float2(b);
  values = {{c.x, c.y, d.x, d.y}};
}

__device__ float over_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

// Philox with 4 × 32 bits and 7 rounds: four random numbers for the four elements at `place`.
__device__ uint4 random_four(uint64_t seed, uint32_t site, uint64_t place) {
  uint4 c = {static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), site, 0};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 7; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53U, c.x), low0 = 0xD2511F53U * c.x;
    const uint32_t high1 = __umulhi(0xCD9E8D57U, c.z), low1 = 0xCD9E8D57U * c.z;
    c = {high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

// Kept elements grow by 1 / (1 − rate), the others become 0.
struct Mask {
  uint64_t seed;
  uint32_t site, limit;
  float grow;

  __device__ explicit Mask(const Dropout& dropout)
      : seed(dropout.rate > 0 ? static_cast<uint64_t>(*dropout.seed) : 0),
        site(dropout.site),
        limit(static_cast<uint32_t>(dropout.rate * 4294967296.0F)),
        grow(1.0F / (1.0F - dropout.rate)) {}

  __device__ void apply(Four& values, int64_t place) const {
    if (limit == 0) return;
    const uint4 random = random_four(seed, site, static_cast<uint64_t>(place) / 4);
    values.v[0] = random.x < limit ? 0.0F : values.v[0] * grow;
    values.v[1] = random.y < limit ? 0.0F : values.v[1] * grow;
    values.v[2] = random.z < limit ? 0.0F : values.v[2] * grow;
    values.v[3] = random.w < limit ? 0.0F : values.v[3] * grow;
  }
};

// One warp per row; V vectors of four to a lane.
template <int V>
__global__ void add_norm_rows(AddNorm task) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= task.rows) return;
  const int lane = threadIdx.x % 32;
  const Mask mask(task.dropout);
  Four sum[V];
  float total = 0;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const int64_t at = row * task.columns + (j * 32 + lane) * 4;
    sum[j] = load(task.sum + at);
    mask.apply(sum[j], at);
    const Four residual = load(task.residual + at);
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[j].v[k] += residual.v[k];
    store(task.sum + at, sum[j]);
#pragma unroll
    for (int k = 0; k < 4; ++k) total += sum[j].v[k];
  }
  const float mean = over_warp(total) / static_cast<float>(task.columns);
  float squares = 0;
#pragma unroll
  for (int j = 0; j < V; ++j) {
#pragma unroll
    for (int k = 0; k < 4; ++k) squares += (sum[j].v[k] - mean) * (sum[j].v[k] - mean);
  }
  const float scale = rsqrtf(over_warp(squares) / static_cast<float>(task.columns) + task.epsilon);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const int column = (j * 32 + lane) * 4;
    const Four weight = load(task.weight + column), bias = load(task.bias + column);
    Four out;
#pragma unroll
    for (int k = 0; k < 4; ++k) out.v[k] = (sum[j].v[k] - mean) * scale * weight.v[k] + bias.v[k];
    store(task.out + row * task.columns + column, out);
  }
  if (lane == 0) {
    task.mean[row] = mean;
    task.scale[row] = scale;
  }
}

// Adds up what the warps of a block hold, warp after warp, into shared memory and from there to `to`.
template <int V>
__device__ void sum_warps(const Four (&values)[V], float* shared, int columns, float* to) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int turn = 0; turn < kWarps; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          float& place = shared[(j * 32 + lane) * 4 + k];
          place = turn == 0 ? values[j].v[k] : place + values[j].v[k];
        }
      }
    }
    __syncthreads();
  }
  for (int column = threadIdx.x; column < columns; column += blockDim.x) to[column] = shared[column];
  __syncthreads();
}

template <int V>
__global__ void add_norm_back_rows(AddNormBack task) {
  __shared__ float shared[V * 128];
  const int lane = threadIdx.x % 32;
  const Mask mask(task.dropout);
  const float part = 1.0F / static_cast<float>(task.columns);
  Four weights[V] = {}, biases[V] = {}, xs[V] = {};
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; row < task.rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const float mean = task.mean[row], scale = task.scale[row];
    Four gradient[V], unit[V];
    float plain = 0, along = 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int column = (j * 32 + lane) * 4;
      gradient[j] = load(task.gradient + row * task.columns + column);
      unit[j] = load(task.sum + row * task.columns + column);
      const Four weight = load(task.weight + column);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        unit[j].v[k] = (unit[j].v[k] - mean) * scale;
        biases[j].v[k] += gradient[j].v[k];
        weights[j].v[k] += gradient[j].v[k] * unit[j].v[k];
        gradient[j].v[k] *= weight.v[k];
        plain += gradient[j].v[k];
        along += gradient[j].v[k] * unit[j].v[k];
      }
    }
    plain = over_warp(plain) * part;
    along = over_warp(along) * part;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const int64_t at = row * task.columns + (j * 32 + lane) * 4;
      Four back;
#pragma unroll
      for (int k = 0; k < 4; ++k) back.v[k] = scale * (gradient[j].v[k] - plain - unit[j].v[k] * along);
      Four x = back;
      store(task.residual + at, back);
      mask.apply(x, at);
      store(task.x + at, x);
#pragma unroll
      for (int k = 0; k < 4; ++k) xs[j].v[k] += x.v[k];
    }
  }
  float* to = task.partial + static_cast<int64_t>(blockIdx.x) * 3 * task.columns;
  const int columns = static_cast<int>(task.columns);
  sum_warps(weights, shared, columns, to);
  sum_warps(biases, shared, columns, to + columns);
  sum_warps(xs, shared, columns, to + 2 * columns);
}

// sums[c] = Σ_strip partial[strip, c]: 32 columns to a block, strips shared among its warps.
__global__ void reduce_strips(const float* partial, int64_t strips, int64_t columns, float* sums) {
  __shared__ float shared[kWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (column < columns) {
    for (int64_t strip = warp; strip < strips; strip += kWarps) sum += partial[strip * columns + column];
  }
  shared[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int other = 1; other < kWarps; ++other) sum += shared[other][lane];
  sums[column] = sum;
}

void sum_strips(const float* partial, int64_t strips, int64_t columns, float* sums, cudaStream_t stream) {
  reduce_strips<<<static_cast<unsigned>((columns + 31) / 32), 32 * kWarps, 0, stream>>>(partial, strips, columns, sums);
}

__device__ float slope(Curve curve, float x) {
  if (curve == Curve::gelu) {
    const float share = 0.5F * (1.0F + erff(x * 0.70710678118654752F));
    return share + x * 0.39894228040143268F * __expf(-0.5F * x * x);
  }
  if (curve == Curve::gelu_new) {
    const float inner = 0.79788456080286536F * (x + 0.044715F * x * x * x), t = tanhf(inner);
    return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * 0.79788456080286536F * (1.0F + 0.134145F * x * x);
  }
  return x > 0.0F ? 1.0F : 0.0F;
}

// 128 columns and one strip of rows to a block.
__global__ void column_sums_strip(ColumnSums task) {
  __shared__ float shared[128];
  const int lane = threadIdx.x % 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 128 + lane * 4;
  Four sum[1] = {};
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * kWarps + threadIdx.x / 32; row < task.rows;
       row += static_cast<int64_t>(gridDim.y) * kWarps) {
    const int64_t at = row * task.columns + column;
    Four gradient = load(task.gradient + at);
    if (task.curve != Curve::none) {
      const Four input = load(task.input + at);
#pragma unroll
      for (int k = 0; k < 4; ++k) gradient.v[k] *= slope(task.curve, input.v[k]);
      store(task.gradient + at, gradient);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[0].v[k] += gradient.v[k];
  }
  sum_warps(sum, shared, 128, task.partial + static_cast<int64_t>(blockIdx.y) * task.columns + blockIdx.x * 128);
}

__global__ void round_pieces(const Piece* pieces) {
  const Piece piece = pieces[blockIdx.x];
  for (int i = threadIdx.x; i < piece.count; i += blockDim.x) {
    const __nv_bfloat16 value = __float2bfloat16_rn(piece.parameter[i]);
    piece.copy[i] = *reinterpret_cast<const Bf16*>(&value);
  }
}

__device__ float over_block(float value) {
  __shared__ float shared[32];
  value = over_warp(value);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < static_cast<int>(blockDim.x) / 32; ++warp) sum += shared[warp];
  __syncthreads();
  return sum;
}

__global__ void squares_of_pieces(const Piece* pieces, float* partial) {
  const Piece piece = pieces[blockIdx.x];
  float sum = 0;
  for (int i = threadIdx.x; i < piece.count; i += blockDim.x) sum += piece.gradient[i] * piece.gradient[i];
  sum = over_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void factor_of_squares(const float* partial, int64_t count, float most, float* norm, float* factor) {
  float sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = over_block(sum);
  if (threadIdx.x != 0) return;
  *norm = sqrtf(sum);
  const float wanted = most / (*norm + 1e-6F);
  *factor = most > 0 && wanted < 1 ? wanted : 1.0F;  // a norm that is no number leaves the gradients as they are
}

__global__ void adam_pieces(AdamTask task) {
  const Piece piece = task.pieces[blockIdx.x];
  const AdamNumbers numbers = task.numbers[piece.slot];
  const float factor = *task.factor;
  for (int i = threadIdx.x; i < piece.count; i += blockDim.x) {
    const float gradient = piece.gradient[i] * factor;
    const float m = task.beta1 * piece.m[i] + (1.0F - task.beta1) * gradient;
    const float v = task.beta2 * piece.v[i] + (1.0F - task.beta2) * gradient * gradient;
    piece.m[i] = m;
    piece.v[i] = v;
    const float moved = piece.parameter[i] * numbers.keep_before + numbers.size * (m / (sqrtf(v) + numbers.epsilon));
    piece.parameter[i] = moved * numbers.keep_after;
  }
}

constexpr int kReaderThreads = 128;

// Shared memory: tokens floats.
__global__ void read_text(Reader task) {
  extern __shared__ float share[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tokens = static_cast<int>(task.tokens), columns = static_cast<int>(task.columns);
  const Bf16* rows = task.rows + static_cast<int64_t>(blockIdx.x) * tokens * columns;
  const bool* real = task.real + static_cast<int64_t>(blockIdx.x) * tokens;
  for (int t = warp; t < tokens; t += kReaderThreads / 32) {
    float dot = 0;
    for (int c = lane * 4; c < columns; c += 128) {
      const Four row = load(rows + static_cast<int64_t>(t) * columns + c), query = load(task.query + c);
      for (int k = 0; k < 4; ++k) dot += row.v[k] * query.v[k];
    }
    dot = over_warp(dot);
    if (lane == 0) share[t] = real[t] ? dot : -INFINITY;
  }
  __syncthreads();
  float most = -INFINITY, sum = 0;
  for (int t = 0; t < tokens; ++t) most = fmaxf(most, share[t]);
  for (int t = 0; t < tokens; ++t) sum += expf(share[t] - most);
  __syncthreads();
  for (int t = threadIdx.x; t < tokens; t += kReaderThreads) {
    share[t] = expf(share[t] - most) / sum;
    task.shares[static_cast<int64_t>(blockIdx.x) * tokens + t] = share[t];
  }
  __syncthreads();
  float* out = task.out + static_cast<int64_t>(blockIdx.x) * 2 * columns;
  for (int c = threadIdx.x * 4; c < columns; c += kReaderThreads * 4) {
    const Four first = load(rows + c);
    Four read = {};
    for (int t = 0; t < tokens; ++t) {
      const Four row = load(rows + static_cast<int64_t>(t) * columns + c);
      for (int k = 0; k < 4; ++k) read.v[k] += share[t] * row.v[k];
    }
    for (int k = 0; k < 4; ++k) {
      out[c + k] = first.v[k];
      out[columns + c + k] = read.v[k];
    }
  }
}

// With r = Σ a h and s the scores: da_t = dr · h_t, ds_t = a_t (da_t − Σ a da), dh_t = a_t dr + ds_t query, and
// dquery = Σ ds_t h_t. Shared memory: 2 · tokens floats.
__global__ void read_text_back(ReaderBack task) {
  extern __shared__ float share[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int tokens = static_cast<int>(task.tokens), columns = static_cast<int>(task.columns);
  float* score = share + tokens;
  const Bf16* rows = task.rows + static_cast<int64_t>(blockIdx.x) * tokens * columns;
  const float *first = task.gradient + static_cast<int64_t>(blockIdx.x) * 2 * columns, *read = first + columns;
  for (int t = warp; t < tokens; t += kReaderThreads / 32) {
    float dot = 0;
    for (int c = lane * 4; c < columns; c += 128) {
      const Four row = load(rows + static_cast<int64_t>(t) * columns + c), gradient = load(read + c);
      for (int k = 0; k < 4; ++k) dot += row.v[k] * gradient.v[k];
    }
    dot = over_warp(dot);
    if (lane == 0) {
      share[t] = task.shares[static_cast<int64_t>(blockIdx.x) * tokens + t];
      score[t] = dot;
    }
  }
  __syncthreads();
  float mean = 0;
  for (int t = 0; t < tokens; ++t) mean += share[t] * score[t];
  __syncthreads();
  for (int t = threadIdx.x; t < tokens; t += kReaderThreads) score[t] = share[t] * (score[t] - mean);
  __syncthreads();
  for (int c = threadIdx.x * 4; c < columns; c += kReaderThreads * 4) {
    const Four gradient = load(read + c), start = load(first + c), query = load(task.query + c);
    Four sum = {};
    for (int t = 0; t < tokens; ++t) {
      const int64_t at = static_cast<int64_t>(t) * columns + c;
      Bf16* place = task.back + static_cast<int64_t>(blockIdx.x) * tokens * columns + at;
      const Four row = load(rows + at);
      Four back = load(place);
      for (int k = 0; k < 4; ++k) {
        back.v[k] += share[t] * gradient.v[k] + score[t] * query.v[k] + (t == 0 ? start.v[k] : 0.0F);
        sum.v[k] += score[t] * row.v[k];
      }
      store(place, back);
    }
    for (int k = 0; k < 4; ++k) task.queries[static_cast<int64_t>(blockIdx.x) * columns + c + k] = sum.v[k];
  }
}

// Calls `work` with the number of vectors a lane holds.
template <class Work>
void with_width(int64_t columns, const Work& work) {
  switch (columns / 128) {
    case 1:
      return work(std::integral_constant<int, 1>{});
    case 2:
      return work(std::integral_constant<int, 2>{});
    case 3:
      return work(std::integral_constant<int, 3>{});
    case 4:
      return work(std::integral_constant<int, 4>{});
    case 6:
      return work(std::integral_constant<int, 6>{});
    default:
      return work(std::integral_constant<int, 8>{});
  }
}

}  // namespace

void add_norm(const AddNorm& task, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((task.rows + kWarps - 1) / kWarps);
  with_width(task.columns, [&](auto v) { add_norm_rows<v.value><<<blocks, 32 * kWarps, 0, stream>>>(task); });
}

int64_t add_norm_strips(int64_t rows) {
  return std::min<int64_t>(kBlocks, (rows + kWarps - 1) / kWarps);
}

void add_norm_back(const AddNormBack& task, cudaStream_t stream) {
  with_width(task.columns, [&](auto v) {
    add_norm_back_rows<v.value><<<static_cast<unsigned>(task.strips), 32 * kWarps, 0, stream>>>(task);
  });
  sum_strips(task.partial, task.strips, 3 * task.columns, task.sums, stream);
}

int64_t column_strips(int64_t rows, int64_t columns) {
  return std::clamp<int64_t>(4 * kBlocks / (columns / 128), 1, (rows + kWarps - 1) / kWarps);
}

void column_sums(const ColumnSums& task, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(task.columns / 128), static_cast<unsigned>(task.strips));
  column_sums_strip<<<grid, 32 * kWarps, 0, stream>>>(task);
  sum_strips(task.partial, task.strips, task.columns, task.sums, stream);
}

void round_copies(const Piece* pieces, int64_t count, cudaStream_t stream) {
  round_pieces<<<static_cast<unsigned>(count), 256, 0, stream>>>(pieces);
}

void clip_factor(const Piece* pieces, int64_t count, float most, float* partial, float* norm, float* factor,
                 cudaStream_t stream) {
  squares_of_pieces<<<static_cast<unsigned>(count), 256, 0, stream>>>(pieces, partial);
  factor_of_squares<<<1, 1024, 0, stream>>>(partial, count, most, norm, factor);
}

void adam(const AdamTask& task, cudaStream_t stream) {
  adam_pieces<<<static_cast<unsigned>(task.count), 256, 0, stream>>>(task);
}

void reader(const Reader& task, cudaStream_t stream) {
  const size_t shared = static_cast<size_t>(task.tokens) * sizeof(float);
  read_text<<<static_cast<unsigned>(task.texts), kReaderThreads, shared, stream>>>(task);
}

void reader_back(const ReaderBack& task, cudaStream_t stream) {
  const size_t shared = 2 * static_cast<size_t>(task.tokens) * sizeof(float);
  read_text_back<<<static_cast<unsigned>(task.texts), kReaderThreads, shared, stream>>>(task);
}

}  // namespace exeunt::nn::kernels
