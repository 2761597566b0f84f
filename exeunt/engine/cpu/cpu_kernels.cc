// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/cpu_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt {

const Kernels& kernels_named(std::string_view name, std::string_view where) {
  const std::vector<const Kernels*>& tables = all_kernels();
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const Kernels* t) { return t->name == name; });
  if (found == tables.end()) {
    std::vector<std::string> names;
    for (const Kernels* table : tables) names.emplace_back(table->name);
    throw Error(Code::usage, fmt::format("{}: got '{}', want the name of kernels this build has", where, name),
                suggestion(name, names));
  }
  if (!(*found)->runs_on(cpu_features()) || !(*found)->prepare()) {
    throw Error(Code::resources, fmt::format("{}: this processor does not run the kernels '{}'", where, name),
                "leave EXEUNT_ISA unset: the best kernels that run here are chosen");
  }
  return **found;
}

const std::vector<const Kernels*>& all_kernels() {
  static const std::vector<const Kernels*> tables = {
      &kernel::kGeneric,
#ifdef EXEUNT_X86_KERNELS
      &kernel::kAvx2,    &kernel::kAvx512,       &kernel::kAvx512Vnni, &kernel::kAvx512Bf16, &kernel::kAmx,
#endif
#ifdef EXEUNT_NEON_KERNELS
      &kernel::kNeon,    &kernel::kNeonBf16I8mm,
#endif
  };
  return tables;
}

const Kernels& choose_kernels() {
  if (const char* name = std::getenv("EXEUNT_ISA"); name != nullptr && *name != '\0')
    return kernels_named(name, "EXEUNT_ISA");
  const CpuFeatures features = cpu_features();
  const std::vector<const Kernels*>& tables = all_kernels();
  const auto best = std::find_if(tables.rbegin(), tables.rend(),
                                 [&](const Kernels* table) { return table->runs_on(features) && table->prepare(); });
  check(best != tables.rend(), "the generic kernels run everywhere");
  return **best;
}

}  // namespace exeunt
