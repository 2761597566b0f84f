// SPDX-License-Identifier: Apache-2.0
// Data-parallel training: each process holds the whole model and a part of every batch; an all-reduce sums their
// gradients before each step, so all of them take the same one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/train/torch.h"

namespace exeunt::nn {

// How the processes of a world communicate: Gloo, or NCCL between GPUs. If one of them is missing at build time, a stub
// whose error says so takes its place.
struct Rendezvous {
  std::string host;  // or file:///path of a file that all of them can write, on one machine
  int port = 29500, rank = 0, size = 1;

  [[nodiscard]] std::optional<std::string> file() const {
    constexpr std::string_view kScheme = "file://";
    return host.starts_with(kScheme) ? std::optional(host.substr(kScheme.size())) : std::nullopt;
  }
};

// Sums a tensor over all processes, in place. Throws what c10d throws if another process is gone.
using AllReduce = std::function<void(torch::Tensor&)>;

// Whether this build has them.
[[nodiscard]] bool has_gloo() noexcept;
[[nodiscard]] bool has_nccl() noexcept;
// Both throw Error (resources) if this build does not, and what c10d throws if the others cannot be reached.
[[nodiscard]] AllReduce join_over_gloo(const Rendezvous& rendezvous);
[[nodiscard]] AllReduce join_over_nccl(const Rendezvous& rendezvous);

// This process alone, or those it has joined.
class World {
 public:
  // Joins the processes that the environment names: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets
  // them, or Slurm's variables; through Gloo, or NCCL where they train on GPUs. Without these this process is alone.
  // Throws Error.
  static World join(bool on_gpus);
  // Whether the environment names no other process, or this one as the first.
  static bool is_first_rank();
  // LOCAL_RANK or SLURM_LOCALID, or 0.
  static int local_rank();

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  // Sums over all processes, in place; every process ends with the same bits. Tensors that only some processes have
  // count as zero in the others; those that none has stay undefined. `like` gives their shapes.
  void all_reduce(std::vector<torch::Tensor>& tensors, const std::vector<torch::Tensor>& like) const;
  [[nodiscard]] double all_reduce(double value) const;
  // Waits until every process is here.
  void barrier() const { (void)all_reduce(0.0); }
  // The same tensor of every process, by rank.
  [[nodiscard]] std::vector<torch::Tensor> gather(const torch::Tensor& tensor) const;

 private:
  void reduce(torch::Tensor& tensor) const;

  int rank_ = 0, size_ = 1;
  AllReduce all_reduce_;
};

}  // namespace exeunt::nn
