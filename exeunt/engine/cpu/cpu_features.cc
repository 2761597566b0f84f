// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/cpu_features.h"

namespace exeunt {

std::vector<std::string_view> flag_names(const CpuFeatures& features) {
  const struct {
    bool set;
    std::string_view name;
  } flags[] = {{features.avx2, "avx2"},
               {features.avx512, "avx512"},
               {features.avx_vnni, "avx_vnni"},
               {features.avx512_vnni, "avx512_vnni"},
               {features.avx512_bf16, "avx512_bf16"},
               {features.amx_bf16, "amx_bf16"},
               {features.amx_int8, "amx_int8"},
               {features.neon, "neon"},
               {features.dotprod, "dotprod"},
               {features.bf16, "bf16"},
               {features.i8mm, "i8mm"},
               {features.sve, "sve"}};
  std::vector<std::string_view> names;
  for (const auto& flag : flags) {
    if (flag.set) names.push_back(flag.name);
  }
  return names;
}

}  // namespace exeunt
