// SPDX-License-Identifier: Apache-2.0
// Matrix products by plain fp32 arithmetic (never TF32), for any shape: the reference mode, and bf16 where the tensor
// cores' shapes do not fit. An output is the sum over inputs from the first to the last, then the bias.
#include "exeunt/engine/cuda/numbers.cuh"

namespace exeunt::cuda {
namespace {

// A block of 256 threads computes kSide × kSide outputs, a thread kEach × kEach of them (in squares of four, so that
// neighbours read neighbours), 16 inputs at a time.
constexpr int kInputsAtOnce = 16, kPlainThreads = 256;

template <int kSide, class T>
__device__ void fill(float (*to)[kSide + 4], const T* from, int rows, int inputs, int first_row, int first_input) {
#pragma unroll
  for (int n = 0; n < kSide * kInputsAtOnce / kPlainThreads; ++n) {
    const int i = n * kPlainThreads + static_cast<int>(threadIdx.x);
    const int row = i / kInputsAtOnce, input = i % kInputsAtOnce;
    const bool inside = first_row + row < rows && first_input + input < inputs;
    to[input][row] = inside ? wide(from[static_cast<size_t>(first_row + row) * static_cast<size_t>(inputs) +
                                        static_cast<size_t>(first_input + input)])
                            : 0.0F;
  }
}

template <class T, int kSide>
__global__ void __launch_bounds__(kPlainThreads) plain_product(Product job) {
  constexpr int kEach = kSide / 16, kSquares = kEach / 4;
  __shared__ __align__(16) float x[kInputsAtOnce][kSide + 4], w[kInputsAtOnce][kSide + 4];
  const int rows = job.live->rows;
  const int first_row = static_cast<int>(blockIdx.y) * kSide, first_column = static_cast<int>(blockIdx.x) * kSide;
  if (first_row >= rows) return;
  const int across = static_cast<int>(threadIdx.x) % 16 * 4, down = static_cast<int>(threadIdx.x) / 16 * 4;
  // Row or column `i` of a thread's, within the tile.
  const auto place = [](int begin, int i) { return i / 4 * 64 + begin + i % 4; };
  float sum[kEach][kEach] = {};
  for (int at = 0; at < job.inputs; at += kInputsAtOnce) {
    fill<kSide>(x, static_cast<const T*>(job.input), rows, job.inputs, first_row, at);
    fill<kSide>(w, static_cast<const T*>(job.weight), job.outputs, job.inputs, first_column, at);
    __syncthreads();
#pragma unroll
    for (int input = 0; input < kInputsAtOnce; ++input) {
      float a[kEach], b[kEach];
#pragma unroll
      for (int n = 0; n < kSquares; ++n) {
        *reinterpret_cast<float4*>(a + 4 * n) = *reinterpret_cast<const float4*>(&x[input][place(down, 4 * n)]);
        *reinterpret_cast<float4*>(b + 4 * n) = *reinterpret_cast<const float4*>(&w[input][place(across, 4 * n)]);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = first_row + place(down, i);
    if (row >= rows) continue;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int column = first_column + place(across, j);
      if (column >= job.outputs) continue;
      const float value = finished(sum[i][j] + job.bias[column], job.finish, false);
      store(static_cast<T*>(job.out) + static_cast<size_t>(row) * static_cast<size_t>(job.outputs) + column, value);
    }
  }
}

template <class T, int kSide>
void launch_plainly(const Product& job, Stream stream) {
  const dim3 blocks(blocks_of(static_cast<size_t>(job.outputs), kSide),
                    blocks_of(static_cast<size_t>(job.max_rows), kSide));
  plain_product<T, kSide><<<blocks, kPlainThreads, 0, stream>>>(job);
}

}  // namespace

void multiply_plainly(const Product& job, Stream stream) {
  with_type(job.number, [&]<class T>(T*) {
    // Large tiles read less, but few of them leave processors idle.
    if (static_cast<int64_t>(job.max_rows) * job.outputs >= int64_t{128} * 128 * 132) {
      launch_plainly<T, 128>(job, stream);
    } else {
      launch_plainly<T, 64>(job, stream);
    }
  });
  check_launch("starting a matrix product");
}

void multiply(const Product& job, const Chip& chip, Stream stream) {
  if (job.column_scale != nullptr) return multiply_int8(job, chip, -1, stream);
  if (tensor_cores_fit(job, chip)) return multiply_by_tensor_cores(job, chip, -1, stream);
  multiply_plainly(job, stream);
}

}  // namespace exeunt::cuda
