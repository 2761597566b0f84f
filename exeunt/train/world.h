// SPDX-License-Identifier: Apache-2.0
// Data-parallel training: each process holds the whole model and a part of every batch; an all-reduce sums their
// gradients before each step, so all of them take the same one.
#pragma once

#include <memory>
#include <vector>

#include "exeunt/train/group.h"

namespace exeunt::nn {

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
  std::unique_ptr<ProcessGroup> group_;
};

}  // namespace exeunt::nn
