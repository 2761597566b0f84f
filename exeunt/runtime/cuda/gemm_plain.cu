// SPDX-License-Identifier: Apache-2.0
// Matrix products by plain fp32 arithmetic (never TF32), for any shape: the reference mode, and bf16 where the tensor
// cores' shapes do not fit. An output is the sum over inputs from the first to the last, then the bias.
#include "exeunt/runtime/cuda/numbers.cuh"

namespace exeunt::cuda {
namespace {

// A block of 256 threads computes 64 × 64 outputs, a thread 4 × 4, 16 inputs at a time.
constexpr int kSide = 64, kDepth = 16, kThreads = 256, kEach = 4;

template <class T>
__device__ void fill(float (*to)[kSide], const T* from, int rows, int inputs, int first_row, int first_input) {
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kDepth; i += kThreads) {
    const int row = i / kDepth, depth = i % kDepth;
    const bool inside = first_row + row < rows && first_input + depth < inputs;
    to[depth][row] = inside ? wide(from[static_cast<size_t>(first_row + row) * static_cast<size_t>(inputs) +
                                        static_cast<size_t>(first_input + depth)])
                            : 0.0F;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) plain_product(Product job) {
  __shared__ float x[kDepth][kSide], w[kDepth][kSide];
  const int rows = job.live->rows;
  const int first_row = static_cast<int>(blockIdx.y) * kSide, first_column = static_cast<int>(blockIdx.x) * kSide;
  if (first_row >= rows) return;
  const int across = static_cast<int>(threadIdx.x) % 16 * kEach, down = static_cast<int>(threadIdx.x) / 16 * kEach;
  float sum[kEach][kEach] = {};
  for (int at = 0; at < job.inputs; at += kDepth) {
    fill(x, static_cast<const T*>(job.input), rows, job.inputs, first_row, at);
    fill(w, static_cast<const T*>(job.weight), job.outputs, job.inputs, first_column, at);
    __syncthreads();
    for (int depth = 0; depth < kDepth; ++depth) {
      for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) sum[i][j] = fmaf(x[depth][down + i], w[depth][across + j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i) {
    const int row = first_row + down + i;
    if (row >= rows) continue;
    for (int j = 0; j < kEach; ++j) {
      const int column = first_column + across + j;
      if (column >= job.outputs) continue;
      const float value = finished(sum[i][j] + job.bias[column], job.finish, false);
      store(static_cast<T*>(job.out) + static_cast<size_t>(row) * static_cast<size_t>(job.outputs) + column, value);
    }
  }
}

}  // namespace

void multiply_plainly(const Product& job, Stream stream) {
  const dim3 blocks(blocks_of(static_cast<size_t>(job.outputs), kSide),
                    blocks_of(static_cast<size_t>(job.max_rows), kSide));
  with_type(job.number, [&]<class T>(T*) { plain_product<T><<<blocks, kThreads, 0, stream>>>(job); });
  check_launch("starting a matrix product");
}

void multiply(const Product& job, const Chip& chip, Stream stream) {
  if (tensor_cores_fit(job, chip)) return multiply_by_tensor_cores(job, chip, -1, stream);
  multiply_plainly(job, stream);
}

}  // namespace exeunt::cuda
