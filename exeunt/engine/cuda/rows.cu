// SPDX-License-Identifier: Apache-2.0
// What happens to rows one by one: embeddings, norms, what exits read, and moving those that stay.
#include <algorithm>
#include <type_traits>

#include "exeunt/engine/cuda/numbers.cuh"
#include "exeunt/engine/cuda/start.cuh"

namespace exeunt::cuda {
namespace {

constexpr int kWarps = 8;

// One warp per row. A lane holds kVectors times eight neighbours: columns ≤ 256 kVectors, a multiple of 8.
template <int kVectors>
struct RowInRegisters {
  Eight part[kVectors];

  template <class Read>
  __device__ void load(int columns, int lane, Read read) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = (i * 32 + lane) * 8;
      if (at < columns) part[i] = read(at);
    }
  }
  template <class T>
  __device__ void load_sum(int columns, int lane, const T* a, const T* b) {
    RowInRegisters other;
    load(columns, lane, [&](int c) { return load_eight(a + c); });
    other.load(columns, lane, [&](int c) { return load_eight(b + c); });
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
      for (int c = 0; c < 8; ++c) part[i].v[c] += other.part[i].v[c];
    }
  }
  // (x − mean) / √(variance + ε) · weight + bias
  template <class T>
  __device__ void normalize(int columns, int lane, float epsilon, const RowInRegisters& weight,
                            const RowInRegisters& bias, T* out) {
    normalize_by(
        columns, lane, epsilon, [&](int i) { return weight.part[i]; }, [&](int i) { return bias.part[i]; }, out);
  }
  // The same with weights that are read when they are needed, which leaves registers free.
  template <class T>
  __device__ void normalize(int columns, int lane, const Norm& norm, T* out) {
    normalize_by(
        columns, lane, norm.epsilon, [&](int i) { return load_eight(norm.weight + (i * 32 + lane) * 8); },
        [&](int i) { return load_eight(norm.bias + (i * 32 + lane) * 8); }, out);
  }
  template <class Weight, class Bias, class T>
  __device__ void normalize_by(int columns, int lane, float epsilon, Weight weight, Bias bias, T* out) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if ((i * 32 + lane) * 8 < columns)
        for (float x : part[i].v) sum += x;
    }
    const float mean = warp_sum(sum) / static_cast<float>(columns);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if ((i * 32 + lane) * 8 < columns)
        for (float x : part[i].v) squares += (x - mean) * (x - mean);
    }
    const float scale = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(columns) + epsilon);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = (i * 32 + lane) * 8;
      if (at >= columns) continue;
      const Eight w = weight(i), b = bias(i);
      Eight y;
#pragma unroll
      for (int c = 0; c < 8; ++c) y.v[c] = (part[i].v[c] - mean) * scale * w.v[c] + b.v[c];
      store_eight(out + at, y);
      part[i] = y;
    }
  }
  // As int8 what normalize() wrote last, in bf16; `row` is that of the job.
  __device__ void quantize(const AddNormJob& job, int lane, int row) {
    float most = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if ((i * 32 + lane) * 8 >= job.columns) continue;
#pragma unroll
      for (float& x : part[i].v) {
        x = wide(__float2bfloat16_rn(x));
        most = fmaxf(most, fabsf(x));
      }
    }
    const float scale = int8_scale(warp_max(most)), inverse = 1.0F / scale;
    int8_t* to = job.quantized + static_cast<size_t>(row) * static_cast<size_t>(job.columns);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = (i * 32 + lane) * 8;
      if (at < job.columns) *reinterpret_cast<uint2*>(to + at) = int8_of(part[i], inverse);
    }
    if (lane == 0) job.scale[row] = scale;
  }
};

// The same for any number of columns, with `read` called three times for each.
template <class T, class Read>
__device__ void normalize_any(int columns, int lane, const Norm& norm, T* out, Read read) {
  float sum = 0;
  for (int c = lane; c < columns; c += 32) sum += read(c);
  const float mean = warp_sum(sum) / static_cast<float>(columns);
  float squares = 0;
  for (int c = lane; c < columns; c += 32) squares += (read(c) - mean) * (read(c) - mean);
  const float scale = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(columns) + norm.epsilon);
  for (int c = lane; c < columns; c += 32) {
    store(out + c, (read(c) - mean) * scale * norm.weight[c] + norm.bias[c]);
  }
}

// A warp normalises row after row, with the weights in registers. kVectors = 0: any number of columns.
template <class T, int kVectors>
__global__ void __launch_bounds__(kWarps * 32) add_norm_rows(AddNormJob job) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const auto columns = static_cast<size_t>(job.columns);
  const T *a = static_cast<const T*>(job.a), *b = static_cast<const T*>(job.b);
  T* out = static_cast<T*>(job.out);
  let_next_begin();
  if constexpr (kVectors > 0) {
    RowInRegisters<kVectors> weight, bias;
    weight.load(job.columns, lane, [&](int c) { return load_eight(job.norm.weight + c); });
    bias.load(job.columns, lane, [&](int c) { return load_eight(job.norm.bias + c); });
    wait_for_previous();
    const int rows = job.live->rows;
    for (; row < rows; row += static_cast<int>(gridDim.x) * kWarps) {
      const size_t at = static_cast<size_t>(row) * columns;
      RowInRegisters<kVectors> held;
      held.load_sum(job.columns, lane, a + at, b + at);
      held.normalize(job.columns, lane, job.norm.epsilon, weight, bias, out + at);
      if (job.quantized != nullptr) held.quantize(job, lane, row);
    }
  } else {
    wait_for_previous();
    const int rows = job.live->rows;
    for (; row < rows; row += static_cast<int>(gridDim.x) * kWarps) {
      const size_t at = static_cast<size_t>(row) * columns;
      // `out` may be `b`: each lane reads its columns before it writes them.
      normalize_any(job.columns, lane, job.norm, out + at, [&](int c) { return wide(a[at + c]) + wide(b[at + c]); });
    }
  }
}

// The same for bf16, with the next row under way while this one is summed. The weights are read again for each row.
template <int kVectors>
__global__ void __launch_bounds__(kWarps * 32, kVectors <= 3 ? 3 : 2) add_norm_ahead(AddNormJob job) {
  const int lane = static_cast<int>(threadIdx.x) % 32, stride = static_cast<int>(gridDim.x) * kWarps;
  const auto columns = static_cast<size_t>(job.columns);
  const bf16 *a = static_cast<const bf16*>(job.a), *b = static_cast<const bf16*>(job.b);
  uint4 next_a[kVectors] = {}, next_b[kVectors] = {};
  const auto fetch = [&](int row) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int at = (i * 32 + lane) * 8;
      if (at >= job.columns) continue;
      const size_t place = static_cast<size_t>(row) * columns + static_cast<size_t>(at);
      next_a[i] = *reinterpret_cast<const uint4*>(a + place);
      next_b[i] = *reinterpret_cast<const uint4*>(b + place);
    }
  };
  let_next_begin();
  wait_for_previous();
  const int rows = job.live->rows;
  int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (row < rows) fetch(row);
  for (; row < rows; row += stride) {
    RowInRegisters<kVectors> held;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const Eight x = eight_of(next_a[i]), y = eight_of(next_b[i]);
#pragma unroll
      for (int c = 0; c < 8; ++c) held.part[i].v[c] = x.v[c] + y.v[c];
    }
    if (row + stride < rows) fetch(row + stride);
    held.normalize(job.columns, lane, job.norm, static_cast<bf16*>(job.out) + static_cast<size_t>(row) * columns);
    if (job.quantized != nullptr) held.quantize(job, lane, row);
  }
}

// norm(a + b) of one row, by a warp, into row `row` of the job's int8 if it has that.
template <class T, int kVectors>
__device__ void add_and_normalize(const AddNormJob& job, const T* a, const T* b, int lane, T* out, int row) {
  const int columns = job.columns;
  const Norm& norm = job.norm;
  if constexpr (kVectors > 0) {
    RowInRegisters<kVectors> held;
    held.load_sum(columns, lane, a, b);
    held.normalize(columns, lane, norm, out);
    if (job.quantized != nullptr) held.quantize(job, lane, row);
  } else {
    normalize_any(columns, lane, norm, out, [&](int c) { return wide(a[c]) + wide(b[c]); });
  }
}

template <class T, int kVectors>
__global__ void __launch_bounds__(kWarps * 32) norm_firsts(FirstNormJob job) {
  let_next_begin();
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32, texts = job.list.live->texts;
  if (blockIdx.x == 0 && threadIdx.x == 0 && job.first_live != nullptr) *job.first_live = {texts, texts, 0};
  const auto columns = static_cast<size_t>(job.rows.columns);
  for (int text = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32; text < texts;
       text += static_cast<int>(gridDim.x) * kWarps) {
    const int place = job.place == nullptr ? text : job.place[text];
    if (place < 0) continue;
    const size_t at = static_cast<size_t>(job.list.begin[text]) * columns;
    const T* b = static_cast<const T*>(job.rows.b) + at;
    T* out = static_cast<T*>(job.rows.out) + static_cast<size_t>(place) * columns;
    if (job.rows.a == nullptr) {
      for (int c = lane; c < job.rows.columns; c += 32) out[c] = b[c];
    } else {
      add_and_normalize<T, kVectors>(job.rows, static_cast<const T*>(job.rows.a) + at, b, lane, out, place);
    }
  }
}

// A block has the rows of one of attention's tiles.
template <class T, int kVectors>
__global__ void __launch_bounds__(kWarps * 32) norm_and_move_rows(MoveNormJob job) {
  let_next_begin();
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int tiles = job.after.live->tiles;
  const auto columns = static_cast<size_t>(job.rows.columns);
  for (int i = static_cast<int>(blockIdx.x); i < tiles; i += static_cast<int>(gridDim.x)) {
    const Tile tile = job.after.tiles[i];
    const int to = job.after.begin[tile.text] + tile.first, from = job.before.begin[job.from[tile.text]] + tile.first;
    const int rows = min(kTileRows, job.after.begin[tile.text + 1] - to);
    for (int row = warp; row < rows; row += kWarps) {
      const size_t at = static_cast<size_t>(from + row) * columns;
      add_and_normalize<T, kVectors>(job.rows, static_cast<const T*>(job.rows.a) + at,
                                     static_cast<const T*>(job.rows.b) + at, lane,
                                     static_cast<T*>(job.rows.out) + static_cast<size_t>(to + row) * columns, to + row);
    }
  }
}

template <class T, int kVectors>
__global__ void __launch_bounds__(kWarps * 32) embed_rows(EmbedJob job) {
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= job.live->rows) return;
  const auto columns = static_cast<size_t>(job.columns);
  const float* word = job.word + static_cast<size_t>(job.ids[row]) * columns;
  const float* segment = job.segment == nullptr ? nullptr : job.segment + static_cast<size_t>(job.types[row]) * columns;
  const float* position =
      job.position == nullptr ? nullptr : job.position + static_cast<size_t>(job.positions[row]) * columns;
  T* out = static_cast<T*>(job.out) + static_cast<size_t>(row) * columns;
  if constexpr (kVectors > 0) {
    RowInRegisters<kVectors> held, weight, bias;
    weight.load(job.columns, lane, [&](int c) { return load_eight(job.norm.weight + c); });
    bias.load(job.columns, lane, [&](int c) { return load_eight(job.norm.bias + c); });
    held.load(job.columns, lane, [&](int c) {
      Eight x = load_eight(word + c);
      for (const float* other : {segment, position}) {
        if (other == nullptr) continue;
        const Eight y = load_eight(other + c);
        for (int i = 0; i < 8; ++i) x.v[i] += y.v[i];
      }
      return x;
    });
    held.normalize(job.columns, lane, job.norm.epsilon, weight, bias, out);
  } else {
    normalize_any(job.columns, lane, job.norm, out, [&](int c) {
      return word[c] + (segment == nullptr ? 0.0F : segment[c]) + (position == nullptr ? 0.0F : position[c]);
    });
  }
}

// Calls run<T, kVectors>() for rows of `columns` numbers: kVectors vectors of eight for each lane of a warp, or 0 where
// registers do not suit.
template <class Run>
void with_row(Number number, int columns, Run run) {
  const int vectors = columns % 8 == 0 ? (columns + 255) / 256 : 0;
  with_type(number, [&]<class T>(T*) {
    if (vectors == 1) return run.template operator()<T, 1>();
    if (vectors == 2) return run.template operator()<T, 2>();
    if (vectors == 3) return run.template operator()<T, 3>();
    if (vectors == 4) return run.template operator()<T, 4>();
    if (vectors > 4 && vectors <= 8) return run.template operator()<T, 8>();
    run.template operator()<T, 0>();
  });
}

// Calls run<Unit>() with what rows of `row_bytes` are copied by.
template <class Run>
void with_unit(size_t row_bytes, Run run) {
  if (row_bytes % sizeof(uint4) == 0) return run.template operator()<uint4>();
  run.template operator()<uint16_t>();
}

Grid row_grid(unsigned blocks, bool few, Stream stream) {
  return {.blocks = dim3(std::min(kMostBlocks, blocks)), .threads = kWarps * 32, .stream = stream, .early = few};
}

// One block per text; a thread sums a column from the first row to the last.
template <class T>
__global__ void pool_texts(PoolJob job) {
  extern __shared__ float scores[];  // [tokens], with a reader
  __shared__ float largest, total;
  const int text = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  if (text >= job.list.live->texts) return;
  const int begin = job.list.begin[text], tokens = job.list.begin[text + 1] - begin;
  const auto columns = static_cast<size_t>(job.columns);
  const T* rows = static_cast<const T*>(job.rows) + static_cast<size_t>(begin) * columns;
  if (job.reader == nullptr) {
    float* out = job.out + static_cast<size_t>(text) * columns;
    const bool mean =
        job.input == PoolInput::mean || job.input == PoolInput::cls_mean || job.input == PoolInput::mean_max;
    const bool most =
        job.input == PoolInput::max || job.input == PoolInput::cls_max || job.input == PoolInput::mean_max;
    const bool first =
        job.input == PoolInput::cls || job.input == PoolInput::cls_mean || job.input == PoolInput::cls_max;
    for (int c = thread; c < job.columns; c += threads) {
      float sum = wide(rows[c]), top = sum;
      for (int t = 1; t < tokens; ++t) {
        const float x = wide(rows[static_cast<size_t>(t) * columns + static_cast<size_t>(c)]);
        sum += x;
        top = fmaxf(top, x);
      }
      float value = first ? wide(rows[c]) : 0.0F;
      if (mean) value += sum / static_cast<float>(tokens);
      if (most) value += top;
      out[c] = value;
    }
    return;
  }
  const int lane = thread % 32, warp = thread / 32, warps = threads / 32;
  for (int t = warp; t < tokens; t += warps) {
    float sum = 0;
    for (int c = lane; c < job.columns; c += 32)
      sum += wide(rows[static_cast<size_t>(t) * columns + static_cast<size_t>(c)]) * job.reader[c];
    sum = warp_sum(sum);
    if (lane == 0) scores[t] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    float top = -INFINITY;
    for (int t = lane; t < tokens; t += 32) top = fmaxf(top, scores[t]);
    top = warp_max(top);
    float sum = 0;
    for (int t = lane; t < tokens; t += 32) sum += expf(scores[t] - top);
    sum = warp_sum(sum);
    if (lane == 0) {
      largest = top;
      total = sum;
    }
  }
  __syncthreads();
  for (int t = thread; t < tokens; t += threads) scores[t] = expf(scores[t] - largest) / total;
  __syncthreads();
  float* out = job.out + static_cast<size_t>(text) * 2 * columns;
  for (int c = thread; c < job.columns; c += threads) {
    float sum = 0;
    for (int t = 0; t < tokens; ++t)
      sum += scores[t] * wide(rows[static_cast<size_t>(t) * columns + static_cast<size_t>(c)]);
    out[c] = wide(rows[c]);
    out[columns + static_cast<size_t>(c)] = sum;
  }
}

// Blocks (text, part): a text's rows are one run of bytes, before and after.
template <class Unit>
__global__ void compact_rows(CompactJob job) {
  const int text = static_cast<int>(blockIdx.x);
  if (text >= job.after.live->texts) return;
  const int begin = job.after.begin[text], rows = job.after.begin[text + 1] - begin;
  const size_t units = job.row_bytes / sizeof(Unit);
  const Unit* from = static_cast<const Unit*>(job.rows) + static_cast<size_t>(job.before.begin[job.from[text]]) * units;
  Unit* to = static_cast<Unit*>(job.out) + static_cast<size_t>(begin) * units;
  const size_t count = static_cast<size_t>(rows) * units;
  for (size_t i = blockIdx.y * blockDim.x + threadIdx.x; i < count; i += static_cast<size_t>(gridDim.y) * blockDim.x)
    to[i] = from[i];
}

template <class Unit>
__global__ void take_first_rows(TakeFirstJob job) {
  const int text = static_cast<int>(blockIdx.x), texts = job.list.live->texts;
  if (text == 0 && threadIdx.x == 0) *job.first_rows.live = {texts, texts, 0};
  if (text >= texts) return;
  const int begin = job.list.begin[text];
  if (threadIdx.x == 0) {
    job.first_rows.slot[text] = job.list.slot[text];
    job.first_rows.begin[text] = text;
    if (text + 1 == texts) job.first_rows.begin[texts] = texts;
  }
  const size_t units = job.row_bytes / sizeof(Unit), from = static_cast<size_t>(begin) * units;
  const size_t to = static_cast<size_t>(text) * units;
  for (size_t i = threadIdx.x; i < units; i += blockDim.x) {
    static_cast<Unit*>(job.first_of_a)[to + i] = static_cast<const Unit*>(job.a)[from + i];
    static_cast<Unit*>(job.first_of_b)[to + i] = static_cast<const Unit*>(job.b)[from + i];
  }
}

template <class From, class To>
__global__ void convert(const From* from, To* to, size_t count) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < count) store(to + i, wide(from[i]));
}

}  // namespace

void embed(const EmbedJob& job, Stream stream) {
  const unsigned blocks = blocks_of(count(job.max_rows), kWarps);
  with_row(job.number, job.columns,
           [&]<class T, int kVectors>() { embed_rows<T, kVectors><<<blocks, kWarps * 32, 0, stream>>>(job); });
  check_launch("starting the embeddings");
}

void add_norm(const AddNormJob& job, Stream stream) {
  const Grid grid = row_grid(blocks_of(count(job.max_rows), kWarps), few_rows(job.max_rows), stream);
  with_row(job.number, job.columns, [&]<class T, int kVectors>() {
    if constexpr (std::is_same_v<T, bf16> && kVectors > 0 && kVectors <= 4) {
      // Where every warp has at most one row, there is none to read ahead.
      if (job.max_rows > static_cast<int>(kMostBlocks) * kWarps)
        return start("starting a norm", add_norm_ahead<kVectors>, grid, job);
    }
    start("starting a norm", add_norm_rows<T, kVectors>, grid, job);
  });
}

void norm_first_rows(const FirstNormJob& job, Stream stream) {
  const Grid grid = row_grid(blocks_of(count(job.max_texts), kWarps), few_rows(job.max_texts), stream);
  with_row(job.rows.number, job.rows.columns, [&]<class T, int kVectors>() {
    start("starting a norm of first rows", norm_firsts<T, kVectors>, grid, job);
  });
}

void norm_and_move(const MoveNormJob& job, Stream stream) {
  const Grid grid = row_grid(static_cast<unsigned>(job.capacity.tiles()), few_rows(job.capacity.rows), stream);
  with_row(job.rows.number, job.rows.columns, [&]<class T, int kVectors>() {
    start("starting a norm of moved rows", norm_and_move_rows<T, kVectors>, grid, job);
  });
}

void pool(const PoolJob& job, Stream stream) {
  const size_t shared = job.reader != nullptr ? static_cast<size_t>(job.max_tokens) * sizeof(float) : 0;
  with_type(job.number, [&]<class T>(T*) {
    if (shared > 48 * 1024) allow_shared("preparing a reader", pool_texts<T>, shared);
    pool_texts<T><<<static_cast<unsigned>(job.max_texts), 256, shared, stream>>>(job);
  });
  check_launch("starting a reader");
}

void compact(const CompactJob& job, Stream stream) {
  const dim3 blocks(static_cast<unsigned>(job.max_texts), 8);
  with_unit(job.row_bytes, [&]<class Unit>() { compact_rows<Unit><<<blocks, 256, 0, stream>>>(job); });
  check_launch("starting to move rows");
}

void take_first(const TakeFirstJob& job, Stream stream) {
  const auto blocks = static_cast<unsigned>(job.max_texts);
  with_unit(job.row_bytes, [&]<class Unit>() { take_first_rows<Unit><<<blocks, 128, 0, stream>>>(job); });
  check_launch("starting to take first rows");
}

void widen(Number number, const void* from, float* to, size_t count, Stream stream) {
  if (count == 0) return;
  with_type(number, [&]<class T>(T*) {
    convert<T, float><<<blocks_of(count, 256), 256, 0, stream>>>(static_cast<const T*>(from), to, count);
  });
  check_launch("starting a conversion");
}

void narrow(Number number, const float* from, void* to, size_t count, Stream stream) {
  if (count == 0) return;
  with_type(number, [&]<class T>(T*) {
    convert<float, T><<<blocks_of(count, 256), 256, 0, stream>>>(from, static_cast<T*>(to), count);
  });
  check_launch("starting a conversion");
}

}  // namespace exeunt::cuda
