// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/defaults.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

constexpr int kNarrow = 256;

// MiniLM where `make demo` has brought it, else our own small one: both lie where the program finds them.
std::string default_model() {
  const char* chosen = std::getenv("EXEUNT_MODEL");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* name : {"minilm", "tiny-en"}) {
    for (const char* up : {"..", "../.."}) {  // from bin, or from libexec/exeunt
      const fs::path folder = (program / up / "share/exeunt/models" / name).lexically_normal();
      if (fs::exists(folder / "config.json", ignored)) return folder.string();
    }
  }
  throw Error(Code::usage, "--model is required: none was installed with this program",
              "name a model folder, or set EXEUNT_MODEL to one");
}

}  // namespace

void complete(TrainFlags& flags) {
  const fs::path file = flags.train_features.empty() ? flags.data : flags.train_features;
  const std::string name = flags.task.empty() ? file.stem().string() : flags.task;
  if (flags.out.empty() && name.empty()) {
    throw Error(Code::usage, "--data is required", "name a data folder with --task, or a file of your own");
  }
  if (flags.out.empty()) flags.out = (fs::path("runs") / name).string();
  if (flags.model.empty()) flags.model = default_model();
}

std::string suit_narrow(TrainFlags& flags, int width) {
  if (width >= kNarrow || flags.recipe != "exeunt" || flags.lr || flags.head_lr || flags.epochs) return {};
  flags.lr = 5e-4;
  flags.head_lr = 1;
  flags.epochs = 8;
  return "--lr 5e-4 --head-lr 1 --epochs 8";
}

// The smallest usual budget that so many rows can certify with confidence 95 %: 'calibrate' tests on 60 % of them.
std::string next_step(const std::string& out, size_t rows) {
  for (const int percent : {2, 5, 10, 20}) {
    if (std::floor(0.6 * static_cast<double>(rows)) * std::log(1 - percent / 100.0) > std::log(0.05)) continue;
    return fmt::format("next: exeunt calibrate {0} --max-drop {1}%, then exeunt serve {0}", out, percent);
  }
  return fmt::format("next: exeunt serve {} (too few rows for a promise)", out);
}

}  // namespace exeunt::apps
