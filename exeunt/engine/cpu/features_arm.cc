// SPDX-License-Identifier: Apache-2.0
// aarch64: the capability words the kernel gives every process, and /proc/cpuinfo for a name.
#include <fstream>
#include <string>

#include <asm/hwcap.h>
#include <fmt/format.h>
#include <sys/auxv.h>

#include "exeunt/base/parallel.h"
#include "exeunt/engine/cpu/cpu_features.h"

namespace exeunt {
namespace {

struct Part {
  const char *implementer, *part, *name;
};
constexpr Part kParts[] = {
    {"0x41", "0xd08", "Cortex-A72"},  {"0x41", "0xd0b", "Cortex-A76"},  {"0x41", "0xd0c", "Neoverse N1"},
    {"0x41", "0xd40", "Neoverse V1"}, {"0x41", "0xd49", "Neoverse N2"}, {"0x41", "0xd4f", "Neoverse V2"},
    {"0x41", "0xd84", "Neoverse V3"}, {"0xc0", "0xac3", "AmpereOne"},
};

// The value of "key : value" in the first processor's paragraph.
std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

std::string model_name() {
  if (std::string name = cpuinfo("model name"); !name.empty()) return name;
  const std::string implementer = cpuinfo("CPU implementer"), part = cpuinfo("CPU part");
  for (const Part& known : kParts) {
    if (implementer == known.implementer && part == known.part) return known.name;
  }
  return part.empty() ? "unknown" : fmt::format("implementer {}, part {}", implementer, part);
}

}  // namespace

CpuFeatures cpu_features() {
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  CpuFeatures f;
  f.name = model_name();
  f.architecture = "aarch64";
  f.threads = thread_count(0);
  f.neon = (first & HWCAP_ASIMD) != 0;
  f.dotprod = (first & HWCAP_ASIMDDP) != 0;
  f.sve = (first & HWCAP_SVE) != 0;
  f.bf16 = (second & HWCAP2_BF16) != 0;
  f.i8mm = (second & HWCAP2_I8MM) != 0;
  return f;
}

}  // namespace exeunt
