// SPDX-License-Identifier: Apache-2.0
// Stands in where LibTorch has no CUDA: present() says so, and nobody calls the rest.
#include "exeunt/base/error.h"
#include "exeunt/train/gpu.h"

namespace exeunt::nn::gpu {
namespace {

[[noreturn]] void absent() {
  throw Error(Code::resources, "this exeunt-train was built without CUDA", "build it with a LibTorch that has CUDA");
}

}  // namespace

struct Pool::State {};
struct Recording::Graph {};
struct Sent::State {};

bool present() {
  return false;
}
c10::DeviceIndex use(int) {
  return 0;
}
bool has_bf16(c10::DeviceIndex) {
  return false;
}
bool takes_width(int64_t, int64_t) {
  return false;
}

Pool::Pool() {
  absent();
}
Pool::~Pool() = default;
Recording::Recording(const Pool&, const std::function<void()>&) {
  absent();
}
Recording::~Recording() = default;
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;
void Recording::play() {
  absent();
}
void warm_up(const Pool&, const std::function<void()>&) {
  absent();
}

Sent::Sent(const Tensor&) {
  absent();
}
Sent::~Sent() = default;
Sent::Sent(Sent&&) noexcept = default;
Sent& Sent::operator=(Sent&&) noexcept = default;
std::vector<float> Sent::values() {
  absent();
}

TensorWalk::TensorWalk(const std::vector<Tensor>&) {
  absent();
}
void TensorWalk::set(const std::vector<ListEntry>&) {
  absent();
}
void TensorWalk::upload() {
  absent();
}
void TensorWalk::round_copies() const {
  absent();
}
void TensorWalk::clip_factor(double, Tensor&, Tensor&) const {
  absent();
}
void TensorWalk::adam(const Tensor&, const Tensor&, double, double) const {
  absent();
}

AddNormTape add_norm(const AddNormInput&) {
  absent();
}
AddNormGradients add_norm_back(const Tensor&, const AddNormTape&, const Tensor&, const DropoutAt&) {
  absent();
}
Tensor activation_back(Tensor&, const Tensor&, Activation) {
  absent();
}
Tensor column_sums(const Tensor&) {
  absent();
}
ReaderTape read_texts(const Tensor&, const Tensor&, const Tensor&) {
  absent();
}
Tensor read_texts_back(const Tensor&, const ReaderInput&, Tensor&) {
  absent();
}

}  // namespace exeunt::nn::gpu
