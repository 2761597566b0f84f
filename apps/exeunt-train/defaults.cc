// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/defaults.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "apps/exeunt/data_flags.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/process.h"
#include "exeunt/base/suggest.h"
#include "exeunt/certify/calibrate.h"
#include "exeunt/certify/risk.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

// MiniLM where `make demo` has brought it, else our own small one: both lie where the program finds them.
std::string default_model() {
  const char* chosen = std::getenv("EXEUNT_MODEL");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  const fs::path program = program_folder();
  for (const char* name : {"minilm", "tiny-en"}) {
    for (const char* up : {"..", "../.."}) {  // from bin, or from libexec/exeunt
      const fs::path folder = (program / up / "share/exeunt/models" / name).lexically_normal();
      if (path_exists(folder / "config.json")) return folder.string();
    }
  }
  throw Error(Code::usage, "--model is required: none was installed with this program",
              "name a model folder, or set EXEUNT_MODEL to one");
}

}  // namespace

size_t held_out_for(double drop) {
  const auto tested = static_cast<double>(rows_needed(drop, CalibrationPlan{}.delta * share_of_try(1)));
  return static_cast<size_t>(std::ceil(tested / SplitShares{}.certify));
}

void complete(TrainFlags& flags) {
  const fs::path file = flags.train_features.empty() ? flags.data : flags.train_features;
  const std::string name = flags.task.empty() ? file.stem().string() : flags.task;
  if (flags.out.empty() && name.empty()) {
    throw Error(Code::usage, "--data is required",
                "name a data folder with --task and --data, or a file of your own with --data");
  }
  if (flags.out.empty()) flags.out = (fs::path("runs") / name).string();
  if (flags.model.empty()) flags.model = default_model();
}

std::vector<std::string> next_steps(const TrainFlags& flags, size_t rows) {
  const std::string out = shell_word(flags.out), columns = flags_for(flags.columns);
  if (rows == 0) {
    return {
        fmt::format("next, with labelled rows that were not trained on: exeunt calibrate {0} --data FILE{1} --max-drop "
                    "2%, then exeunt serve {0}",
                    out, columns)};
  }
  for (const int percent : {2, 5}) {
    if (rows < held_out_for(percent / 100.0)) continue;
    return {fmt::format("next: exeunt calibrate {0} --max-drop {1}%, then exeunt serve {0}", out, percent)};
  }
  UserColumns texts = flags.columns;  // alone, with neither labels nor a column of them
  texts.label = UserColumns{}.label;
  texts.labels.clear();
  texts.problem.reset();
  const double share = 2.0 / 3 * share_of(flags.hold_out, "--hold-out");
  const auto in_all = [&](int percent) {
    return 50 * std::lround(std::ceil(static_cast<double>(held_out_for(percent / 100.0)) / share / 50));
  };
  return {
      fmt::format(
          "{} rows held out for 'exeunt calibrate' are too few for a useful guarantee: 5 % takes {} (of about {} "
          "rows in all), 2 % takes {} (of about {})",
          rows, held_out_for(0.05), in_all(5), held_out_for(0.02), in_all(2)),
      fmt::format("next: exeunt serve {0}, whose policy carries no guarantee yet; for one, bring more rows, or texts "
                  "without labels: exeunt calibrate {0} --unlabelled FILE{1} --max-drop 5%",
                  out, flags_for(texts))};
}

}  // namespace exeunt::apps
