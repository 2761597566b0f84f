// SPDX-License-Identifier: Apache-2.0
// The interface to CUDA: steps recorded as graphs, results copied to the host, and the kernels over tensors.
// gpu.cc if LibTorch has CUDA; else gpu_stub.cc, which has none of it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exeunt/train/fused_ops.h"
#include "exeunt/train/torch.h"

namespace exeunt::nn::gpu {

[[nodiscard]] bool present();  // built with CUDA
// Uses GPU `place` of this machine, modulo their number; returns its index.
c10::DeviceIndex use(int place);
[[nodiscard]] bool has_bf16(c10::DeviceIndex index);  // whether that GPU multiplies bf16 matrices
// Whether the kernels below take rows of this width (and an inner width) in bf16.
[[nodiscard]] bool takes_width(int64_t columns, int64_t inner);

// Launches recorded once and replayed. Recordings of one pool share memory for intermediate results: nothing computed
// inside one may be used after it was replayed, except what has memory of its own.
class Pool {
 public:
  Pool();
  ~Pool();
  struct State;
  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

class Recording {
 public:
  // Runs `work` with its launches recorded instead of done. It must not wait for the GPU.
  Recording(const Pool& pool, const std::function<void()>& work);
  ~Recording();
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  void play();

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};
// Runs `work` for real where recordings are made, so that what libraries set up at first use is there.
void warm_up(const Pool& pool, const std::function<void()>& work);

// A small fp32 tensor being copied to the host. values() waits for it.
class Sent {
 public:
  explicit Sent(const Tensor& from);
  ~Sent();
  Sent(Sent&&) noexcept;
  Sent& operator=(Sent&&) noexcept;
  [[nodiscard]] std::vector<float> values();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A list of tensors that a kernel walks in one launch. Built at any time, sent to the GPU by upload().
struct ListEntry {
  Tensor parameter = {}, gradient = {}, m = {}, v = {}, copy = {};
  int slot = 0;
};
class TensorWalk {
 public:
  // Room for lists over all of these tensors.
  explicit TensorWalk(const std::vector<Tensor>& all);
  void set(const std::vector<ListEntry>& entries);
  void upload();

  void round_copies() const;
  // norm and factor: [1] fp32 on the GPU.
  void clip_factor(double most, Tensor& norm, Tensor& factor) const;
  // numbers [slots, 4] fp32 on the GPU: size, epsilon, keep before, keep after.
  void adam(const Tensor& numbers, const Tensor& factor, double beta1, double beta2) const;

 private:
  Tensor table_, host_, partial_;
  int64_t count_ = 0;
};

[[nodiscard]] AddNormTape add_norm(const AddNormInput& input);
[[nodiscard]] AddNormGradients add_norm_back(const Tensor& gradient, const AddNormTape& tape, const Tensor& weight,
                                             const DropoutAt& dropout);
Tensor activation_back(Tensor& gradient, const Tensor& input, Activation activation);
[[nodiscard]] Tensor column_sums(const Tensor& gradient);
[[nodiscard]] ReaderTape read_texts(const Tensor& rows, const Tensor& real, const Tensor& query);
[[nodiscard]] Tensor read_texts_back(const Tensor& gradient, const ReaderInput& input, Tensor& back);

}  // namespace exeunt::nn::gpu
