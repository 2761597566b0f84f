// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/environment.h"

#include <array>

namespace exeunt::apps {
namespace {

constexpr std::string_view kCache = "where models named org/name are looked for";
constexpr std::string_view kWorld = "training in several processes; set by 'exeunt launch', torchrun or Slurm";

constexpr std::array<Variable, 16> kVariables{{
    {"EXEUNT_ISA", "kernels to use instead of the best this processor has, e.g. generic or avx2"},
    {"EXEUNT_MODEL", "model that 'exeunt train' starts from, where --model is left out"},
    {"HF_HUB_CACHE", kCache},
    {"HUGGINGFACE_HUB_CACHE", kCache},
    {"HF_HOME", "where models named org/name are looked for: in its folder hub"},
    {"XDG_CACHE_HOME", "where models named org/name are looked for: in its folder huggingface/hub"},
    {"NO_COLOR", "no colours in messages"},
    {"FORCE_COLOR", "colours even where messages go to no terminal"},
    {"CUDA_VISIBLE_DEVICES", "GPUs that the trainer may see"},
    {"OMP_NUM_THREADS", "threads of LibTorch, where --threads is left out"},
    {"RANK", kWorld},
    {"LOCAL_RANK", kWorld},
    {"WORLD_SIZE", kWorld},
    {"MASTER_ADDR", kWorld},
    {"MASTER_PORT", kWorld},
    {"SLURM_NTASKS", "the same as WORLD_SIZE, with SLURM_PROCID and SLURM_LOCALID, inside a job of Slurm"},
}};

constexpr std::array<ExitStatus, 5> kStatuses{{
    {0, "done"},
    {1, "failed: a promise that cannot be made, a comparison that does not hold"},
    {2, "the command line is wrong"},
    {3, "this machine lacks something: memory, disk, a port, a library"},
    {4, "a file does not hold what it should"},
}};

}  // namespace

std::span<const Variable> variables() noexcept {
  return kVariables;
}

std::span<const ExitStatus> exit_statuses() noexcept {
  return kStatuses;
}

}  // namespace exeunt::apps
