// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/world.h"

#include <cstdlib>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"

namespace exeunt::nn {
namespace {

using torch::Tensor;

std::string variable(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return {};
}

int number(const std::string& text, const char* name, int low, int high) {
  const auto value = number_of<int>(text);
  if (!value || *value < low || *value > high) {
    throw Error(Code::usage, fmt::format("{}: got '{}', want a whole number from {} to {}", name, text, low, high),
                "start several processes with 'exeunt launch', torchrun or srun");
  }
  return *value;
}

// Where the first process listens. torchrun itself listens on MASTER_PORT for its agents, and says so.
int rendezvous_port() {
  constexpr int kUsual = 29500, kLast = 65535;
  const std::string text = variable({"MASTER_PORT"});
  const int port = text.empty() ? kUsual : number(text, "MASTER_PORT", 1, kLast);
  if (variable({"TORCHELASTIC_USE_AGENT_STORE"}) != "True") return port;
  return port == kLast ? port - 1 : port + 1;
}

// c10d's messages have many lines; their beginning names the cause.
std::string beginning(const std::exception& cause) {
  return std::string(cause.what()).substr(0, 120);
}

}  // namespace

bool World::is_first_rank() {
  const std::string size = variable({"WORLD_SIZE", "SLURM_NTASKS"});
  const std::string rank = variable({"RANK", "SLURM_PROCID"});
  return size.empty() || size == "1" || rank.empty() || rank == "0";
}

int World::local_rank() {
  const std::string place = variable({"LOCAL_RANK", "SLURM_LOCALID"});
  return place.empty() ? 0 : number(place, "LOCAL_RANK", 0, 1 << 16);
}

World World::join(bool on_gpus) {
  World world;
  const std::string size = variable({"WORLD_SIZE", "SLURM_NTASKS"});
  if (size.empty() || size == "1") return world;
  world.size_ = number(size, "WORLD_SIZE", 2, 1 << 16);
  world.rank_ = number(variable({"RANK", "SLURM_PROCID"}), "RANK", 0, world.size_ - 1);
  const std::string host = variable({"MASTER_ADDR", "SLURM_LAUNCH_NODE_IPADDR"});
  if (host.empty()) throw Error(Code::usage, "MASTER_ADDR is not set", "start several processes with 'exeunt launch'");
  const Rendezvous rendezvous{.host = host, .port = rendezvous_port(), .rank = world.rank_, .size = world.size_};
  try {
    world.all_reduce_ = on_gpus ? join_over_nccl(rendezvous) : join_over_gloo(rendezvous);
  } catch (const Error&) {  // built without it
    throw;
  } catch (const std::exception& error) {
    throw Error(Code::resources,
                fmt::format("rank {} cannot reach the other ranks at {}:{}: {}", rendezvous.rank, rendezvous.host,
                            rendezvous.port, beginning(error)),
                "check that all ranks were started and the port is free");
  }
  return world;
}

void World::reduce(Tensor& tensor) const {
  try {
    all_reduce_(tensor);
  } catch (const std::exception& error) {
    throw Error(Code::failure, fmt::format("rank {} of {} lost another process: {}", rank_, size_, beginning(error)),
                "start again with --resume: the last checkpoint is intact");
  }
}

// One flat tensor goes over the wire, preceded by a mask of who has what.
void World::all_reduce(std::vector<Tensor>& tensors, const std::vector<Tensor>& like) const {
  if (size_ == 1) return;
  Tensor mask = torch::zeros({static_cast<int64_t>(tensors.size())}, torch::kFloat);
  for (size_t i = 0; i < tensors.size(); ++i) mask.data_ptr<float>()[i] = tensors[i].defined() ? 1.F : 0.F;
  reduce(mask);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (mask.data_ptr<float>()[i] == 0) continue;
    if (!tensors[i].defined()) tensors[i] = torch::zeros_like(like[i]);
    parts.push_back(tensors[i].reshape({-1}));
  }
  if (parts.empty()) return;
  Tensor flat = torch::cat(parts);
  reduce(flat);
  int64_t at = 0;
  for (Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    tensor = flat.narrow(0, at, tensor.numel()).view(tensor.sizes()).clone();
    at += tensor.numel();
  }
}

double World::all_reduce(double value) const {
  if (size_ == 1) return value;
  Tensor one = torch::full({1}, value, torch::kDouble);
  reduce(one);
  return one.item<double>();
}

std::vector<Tensor> World::gather(const Tensor& tensor) const {
  if (size_ == 1) return {tensor};
  // Each process puts its own into a row of zeros: the sum has them all.
  std::vector<int64_t> sides{size_};
  for (const int64_t side : tensor.sizes()) sides.push_back(side);
  Tensor all = torch::zeros(sides, torch::kInt);
  all.select(0, rank_).copy_(tensor.to(torch::kInt));
  reduce(all);
  std::vector<Tensor> out;
  for (int r = 0; r < size_; ++r) out.push_back(all.select(0, r).to(tensor.scalar_type()).contiguous());
  return out;
}

}  // namespace exeunt::nn
