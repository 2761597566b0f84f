// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/gpu.h"

#include <cstring>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "exeunt/base/error.h"
#include "exeunt/train/kernels.h"

namespace exeunt::nn::gpu {
namespace {

cudaStream_t stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

void launched() {
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

kernels::Bf16* bits(const Tensor& tensor) {
  check(tensor.scalar_type() == torch::kBFloat16 && tensor.is_contiguous(), "rows are bf16 without gaps");
  return static_cast<kernels::Bf16*>(tensor.data_ptr());
}

float* floats(const Tensor& tensor) {
  check(tensor.scalar_type() == torch::kFloat && tensor.is_contiguous(), "sums are fp32 without gaps");
  return static_cast<float*>(tensor.data_ptr());
}

kernels::Dropout dropout_of(const DropoutAt& dropout) {
  const auto* seed = dropout.rate > 0 ? dropout.seed.const_data_ptr<int64_t>() : nullptr;
  return {.seed = seed, .site = static_cast<uint32_t>(dropout.site), .rate = static_cast<float>(dropout.rate)};
}

Tensor space(at::IntArrayRef sides, const Tensor& like) {
  return torch::empty(sides, like.options().dtype(torch::kFloat));
}

kernels::Curve curve_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return kernels::Curve::gelu;
    case Activation::gelu_new:
      return kernels::Curve::gelu_new;
    case Activation::relu:
      return kernels::Curve::relu;
  }
  return kernels::Curve::none;
}

Tensor sums_with(kernels::ColumnSums task, const Tensor& gradient) {
  task.rows = gradient.size(0);
  task.columns = gradient.size(1);
  task.gradient = bits(gradient);
  task.strips = kernels::column_strips(task.rows, task.columns);
  const Tensor sums = space({task.columns}, gradient), partial = space({task.strips, task.columns}, gradient);
  task.sums = floats(sums);
  task.partial = floats(partial);
  kernels::column_sums(task, stream());
  launched();
  return sums;
}

}  // namespace

bool present() {
  return true;
}

c10::DeviceIndex use(int place) {
  const auto index = static_cast<c10::DeviceIndex>(place % c10::cuda::device_count());
  c10::cuda::set_device(index);
  return index;
}

bool has_bf16(c10::DeviceIndex index) {
  constexpr int kAmpere = 8;
  int major = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  return major >= kAmpere;
}

bool takes_width(int64_t columns, int64_t inner) {
  return kernels::knows_width(columns) && inner % 128 == 0;
}

struct Pool::State {
  at::cuda::MempoolId_t id = at::cuda::graph_pool_handle();
  c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
};

Pool::Pool() : state_(std::make_unique<State>()) {}
Pool::~Pool() = default;

struct Recording::Graph {
  at::cuda::CUDAGraph graph;
};

Recording::Recording(const Pool& pool, const std::function<void()>& work) : graph_(std::make_unique<Graph>()) {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  const c10::cuda::CUDAStreamGuard side(pool.state().side);
  graph_->graph.capture_begin(pool.state().id);
  work();
  graph_->graph.capture_end();
}

Recording::~Recording() = default;
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;

void Recording::play() {
  graph_->graph.replay();
}

void warm_up(const Pool& pool, const std::function<void()>& work) {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  {
    const c10::cuda::CUDAStreamGuard side(pool.state().side);
    work();
  }
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}

struct Sent::State {
  Tensor host;
  at::cuda::CUDAEvent event;
};

Sent::Sent(const Tensor& from) : state_(std::make_unique<State>()) {
  state_->host = torch::empty(from.sizes(), torch::TensorOptions(torch::kFloat).pinned_memory(true));
  state_->host.copy_(from, /*non_blocking=*/true);
  state_->event.record();
}

Sent::~Sent() = default;
Sent::Sent(Sent&&) noexcept = default;
Sent& Sent::operator=(Sent&&) noexcept = default;

std::vector<float> Sent::values() {
  state_->event.synchronize();
  const auto* from = state_->host.const_data_ptr<float>();
  return {from, from + state_->host.numel()};
}

TensorWalk::TensorWalk(const std::vector<Tensor>& all) {
  int64_t pieces = 0;
  for (const Tensor& tensor : all) pieces += (tensor.numel() + kernels::kPiece - 1) / kernels::kPiece;
  const int64_t bytes = pieces * static_cast<int64_t>(sizeof(kernels::Piece));
  host_ = torch::zeros({bytes}, torch::TensorOptions(torch::kByte).pinned_memory(true));
  table_ = torch::zeros({bytes}, all.front().options().dtype(torch::kByte));
  partial_ = torch::zeros({pieces}, all.front().options().dtype(torch::kFloat));
}

void TensorWalk::set(const std::vector<ListEntry>& entries) {
  count_ = 0;
  auto* to = static_cast<kernels::Piece*>(host_.data_ptr());
  for (const ListEntry& entry : entries) {
    const auto at = [](const Tensor& tensor, int64_t place) {
      return tensor.defined() ? floats(tensor) + place : nullptr;
    };
    const int64_t elements = (entry.parameter.defined() ? entry.parameter : entry.gradient).numel();
    for (int64_t place = 0; place < elements; place += kernels::kPiece) {
      check(count_ < partial_.numel(), "a walk has room for its list");
      to[count_++] = {.parameter = at(entry.parameter, place),
                      .gradient = at(entry.gradient, place),
                      .m = at(entry.m, place),
                      .v = at(entry.v, place),
                      .copy = entry.copy.defined() ? bits(entry.copy) + place : nullptr,
                      .count = static_cast<int32_t>(std::min(kernels::kPiece, elements - place)),
                      .slot = entry.slot};
    }
  }
}

void TensorWalk::upload() {
  table_.copy_(host_);
}

void TensorWalk::round_copies() const {
  if (count_ == 0) return;
  kernels::round_copies(static_cast<const kernels::Piece*>(table_.data_ptr()), count_, stream());
  launched();
}

void TensorWalk::clip_factor(double most, Tensor& norm, Tensor& factor) const {
  kernels::clip_factor(static_cast<const kernels::Piece*>(table_.data_ptr()), count_, static_cast<float>(most),
                       floats(partial_), floats(norm), floats(factor), stream());
  launched();
}

void TensorWalk::adam(const Tensor& numbers, const Tensor& factor, double beta1, double beta2) const {
  if (count_ == 0) return;
  kernels::adam({.pieces = static_cast<const kernels::Piece*>(table_.data_ptr()),
                 .count = count_,
                 .numbers = reinterpret_cast<const kernels::AdamNumbers*>(floats(numbers)),
                 .factor = floats(factor),
                 .beta1 = static_cast<float>(beta1),
                 .beta2 = static_cast<float>(beta2)},
                stream());
  launched();
}

AddNormTape add_norm(const AddNormInput& input) {
  AddNormTape tape{.out = torch::empty_like(input.x),
                   .sum = input.x,
                   .mean = space({input.x.size(0)}, input.x),
                   .scale = space({input.x.size(0)}, input.x)};
  kernels::add_norm({.rows = input.x.size(0),
                     .columns = input.x.size(1),
                     .residual = bits(input.residual),
                     .sum = bits(input.x),
                     .weight = floats(input.weight),
                     .bias = floats(input.bias),
                     .epsilon = static_cast<float>(input.epsilon),
                     .dropout = dropout_of(input.dropout),
                     .out = bits(tape.out),
                     .mean = floats(tape.mean),
                     .scale = floats(tape.scale)},
                    stream());
  launched();
  return tape;
}

AddNormGradients add_norm_back(const Tensor& gradient, const AddNormTape& tape, const Tensor& weight,
                               const DropoutAt& dropout) {
  const int64_t rows = gradient.size(0), columns = gradient.size(1), strips = kernels::add_norm_strips(rows);
  const Tensor residual = torch::empty_like(gradient), x = torch::empty_like(gradient);
  const Tensor sums = space({3, columns}, gradient), partial = space({strips, 3, columns}, gradient);
  kernels::add_norm_back({.rows = rows,
                          .columns = columns,
                          .gradient = bits(gradient),
                          .sum = bits(tape.sum),
                          .weight = floats(weight),
                          .mean = floats(tape.mean),
                          .scale = floats(tape.scale),
                          .dropout = dropout_of(dropout),
                          .residual = bits(residual),
                          .x = bits(x),
                          .sums = floats(sums),
                          .partial = floats(partial),
                          .strips = strips},
                         stream());
  launched();
  return {residual, x, sums.select(0, 0), sums.select(0, 1), sums.select(0, 2)};
}

Tensor activation_back(Tensor& gradient, const Tensor& input, Activation activation) {
  return sums_with({.curve = curve_of(activation), .input = bits(input)}, gradient);
}

Tensor column_sums(const Tensor& gradient) {
  return sums_with({.curve = kernels::Curve::none, .input = nullptr}, gradient);
}

ReaderTape read_texts(const Tensor& rows, const Tensor& real, const Tensor& query) {
  const int64_t texts = rows.size(0), tokens = rows.size(1), columns = rows.size(2);
  ReaderTape tape{.out = space({texts, 2 * columns}, rows), .shares = space({texts, tokens}, rows)};
  kernels::reader({.texts = texts,
                   .tokens = tokens,
                   .columns = columns,
                   .rows = bits(rows),
                   .real = real.const_data_ptr<bool>(),
                   .query = floats(query),
                   .shares = floats(tape.shares),
                   .out = floats(tape.out)},
                  stream());
  launched();
  return tape;
}

Tensor read_texts_back(const Tensor& gradient, const ReaderInput& input, Tensor& back) {
  const int64_t texts = input.rows.size(0), tokens = input.rows.size(1), columns = input.rows.size(2);
  const Tensor queries = space({texts, columns}, gradient);
  kernels::reader_back({.texts = texts,
                        .tokens = tokens,
                        .columns = columns,
                        .rows = bits(input.rows),
                        .query = floats(input.query),
                        .shares = floats(input.shares),
                        .gradient = floats(gradient),
                        .back = bits(back),
                        .queries = floats(queries)},
                       stream());
  launched();
  return queries.sum(0);
}

}  // namespace exeunt::nn::gpu
