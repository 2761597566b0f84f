// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/trainer.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "exeunt/base/error.h"

namespace exeunt::apps {
namespace fs = std::filesystem;

bool is_trainers_verb(std::string_view verb) noexcept {
  return verb == "train";
}

void start_trainer(char** argv) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder / "exeunt-train", folder / ".." / "libexec" / "exeunt" / "exeunt-train"}) {
    if (::access(place.c_str(), X_OK) != 0) continue;
    ::execv(place.c_str(), argv);
    throw Error(Code::resources, fmt::format("{}: cannot start: {}", place.string(), std::strerror(errno)));
  }
  throw Error(Code::resources, fmt::format("exeunt-train is not installed beside {}", (folder / "exeunt").string()),
              "build it with LibTorch: cmake --preset release -DEXEUNT_TRAIN=ON");
}

void add_train(CommandLine& line) {
  (void)add_verb(line, "train", "Train a model with a recipe, ours or a paper's (needs exeunt-train)", {}, [] {});
}

}  // namespace exeunt::apps
