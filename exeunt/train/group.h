// SPDX-License-Identifier: Apache-2.0
// How the processes of a world communicate: Gloo, or NCCL between GPUs. If one of them is missing at build time, a stub
// whose error says so takes its place.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "exeunt/train/torch.h"

namespace exeunt::nn {

struct Rendezvous {
  std::string host;  // or file:///path of a file that all of them can write, on one machine
  int port = 29500, rank = 0, size = 1;

  [[nodiscard]] std::optional<std::string> file() const {
    constexpr std::string_view kScheme = "file://";
    return host.starts_with(kScheme) ? std::optional(host.substr(kScheme.size())) : std::nullopt;
  }
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  // Throws what c10d throws if another process is gone.
  virtual void all_reduce(torch::Tensor& tensor) = 0;
};

// Whether this build has them.
[[nodiscard]] bool has_gloo() noexcept;
[[nodiscard]] bool has_nccl() noexcept;
// Both throw Error (resources) if this build does not, and what c10d throws if the others cannot be reached.
[[nodiscard]] std::unique_ptr<ProcessGroup> join_over_gloo(const Rendezvous& rendezvous);
[[nodiscard]] std::unique_ptr<ProcessGroup> join_over_nccl(const Rendezvous& rendezvous);

}  // namespace exeunt::nn
