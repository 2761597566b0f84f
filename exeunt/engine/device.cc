// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/device.h"

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/engine.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/family.h"

namespace exeunt {

namespace {

// Why a GPU does not run such a model; empty if it does: its engine is made for BERT's layer and pooler.
std::string refused_on_gpu(const ModelSpec& spec, const ExitLayout& exits) {
  if (!spec.has_plain_layers()) return fmt::format("the layers of {} run on the CPU alone", name_of(spec.family));
  if (spec.segments == 0 || !spec.position_table)
    return fmt::format("the embeddings of {} run on the CPU alone", name_of(spec.family));
  if (exits.pooler != PoolerShape{}) return fmt::format("the pooler of {} runs on the CPU alone", name_of(spec.family));
  return {};
}

}  // namespace

Device parse_device(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "auto") return {.kind = Device::Kind::automatic};
  if (text == "cuda") return {.kind = Device::Kind::cuda};
  constexpr std::string_view kNumbered = "cuda:";
  if (text.starts_with(kNumbered)) {
    const auto index = number_of<int>(text.substr(kNumbered.size()));
    if (index && *index >= 0) return {.kind = Device::Kind::cuda, .index = *index};
  }
  throw Error(Code::usage, fmt::format("device: got '{}', want cpu, cuda, cuda:N or auto", text));
}

std::string str(const Device& device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return "cpu";
    case Device::Kind::cuda:
      return fmt::format("cuda:{}", device.index);
    case Device::Kind::automatic:
      return "auto";
  }
  return {};
}

Device find_device(const Device& wanted) {
  if (wanted.kind == Device::Kind::cpu) return wanted;
  if (wanted.kind == Device::Kind::automatic) {
    const bool usable = cuda_built() && !cuda_devices().devices.empty();
    return usable ? Device{.kind = Device::Kind::cuda} : Device{};
  }
  if (!cuda_built()) {
    throw Error(Code::resources, fmt::format("device {}: this build has no CUDA backend", str(wanted)),
                "build with -DEXEUNT_CUDA=ON on a machine that has nvcc, or run with --device cpu");
  }
  const CudaDevices found = cuda_devices();
  if (found.devices.empty()) {
    throw Error(Code::resources, fmt::format("device {}: {}", str(wanted), found.reason),
                "'exeunt doctor' says what was found; --device cpu runs without a GPU");
  }
  if (wanted.index >= static_cast<int>(found.devices.size())) {
    throw Error(Code::resources, fmt::format("device {}: this machine has {} GPU{}, numbered from 0", str(wanted),
                                             found.devices.size(), found.devices.size() == 1 ? "" : "s"));
  }
  return wanted;
}

Device find_device(const Checkpoint& model, const Device& wanted) {
  const Device found = find_device(wanted);
  if (found.kind == Device::Kind::cpu) return found;
  const std::string refused = refused_on_gpu(model.spec(), model.exits());
  if (refused.empty()) return found;
  if (wanted.kind == Device::Kind::automatic) return {};
  throw Error(Code::resources, fmt::format("device {}: {}", str(wanted), refused), "run it with --device cpu");
}

bool supports(const EngineTraits& engine, Precision precision) noexcept {
  return precision == Precision::fp32 || (precision == Precision::bf16 ? engine.bf16 : engine.int8);
}

EngineTraits engine_traits(const Device& device, const Kernels* kernels) {
  const Device found = find_device(device);
  if (found.kind == Device::Kind::cuda) return cuda_traits(found);
  const Kernels& table = kernels != nullptr ? *kernels : choose_kernels();
  return {.name = engine_name(table), .numerics = kNumerics, .bf16 = table.bf16};
}

EngineTraits engine_traits(const Checkpoint& model, const Device& device, const Kernels* kernels) {
  return engine_traits(find_device(model, device), kernels);
}

}  // namespace exeunt
