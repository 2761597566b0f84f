// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/certify.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "apps/exeunt-train/defaults.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/process.h"
#include "exeunt/base/suggest.h"
#include "exeunt/certify/thresholds.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

// It lies beside the trainer, or where the trainer is in libexec/exeunt, in bin. Empty if it is in neither.
fs::path find_command() {
  const fs::path folder = program_folder();
  for (const fs::path& place : {folder / "exeunt", folder / ".." / ".." / "bin" / "exeunt"})
    if (::access(place.c_str(), X_OK) == 0) return place;
  return {};
}

}  // namespace

std::string budget_for(const TrainFlags& flags, size_t rows) {
  if (flags.no_calibrate || !flags.target_speedup.empty() || rows == 0) return {};
  if (!flags.max_drop.empty())
    return rows < held_out_for(share_of(flags.max_drop, "--max-drop")) ? std::string() : flags.max_drop;
  for (const int percent : {2, 5})
    if (rows >= held_out_for(percent / 100.0)) return fmt::format("{}%", percent);
  return {};
}

void require_thresholds_fit(const TrainFlags& flags, const OutputSpec& outcome) {
  if (flags.thresholds.empty()) return;
  if (outcome.problem != Problem::multi_label)
    throw Error(Code::usage, "--thresholds: the rows have one label each",
                "--multi-label reads \"a|b\" and lists, --label-columns a,b a column for each label");
  if (flags.thresholds != "fit") (void)parse_thresholds(flags.thresholds, outcome.labels, {});
}

OrderedJson certify_trained(const Common& common, const TrainFlags& flags, size_t rows) {
  const std::string budget = budget_for(flags, rows);
  const fs::path program = find_command();
  if (budget.empty() || program.empty()) {
    if (!flags.thresholds.empty())
      notice(common, fmt::format("--thresholds: not set, because nothing is certified now; 'exeunt calibrate {} "
                                 "--thresholds {}' does both",
                                 shell_word(flags.out), shell_word(flags.thresholds)));
    for (const std::string& text : next_steps(flags, rows)) notice(common, text);
    return nullptr;
  }
  std::vector<std::string> words{program.string(), "calibrate", flags.out, "--max-drop", budget};
  if (flags.threads > 0) words.insert(words.end(), {"--threads", fmt::format("{}", flags.threads)});
  std::string command = fmt::format("exeunt calibrate {} --max-drop {}", shell_word(flags.out), budget);
  if (!flags.thresholds.empty()) {
    words.insert(words.end(), {"--thresholds", flags.thresholds});
    command += fmt::format(" --thresholds {}", shell_word(flags.thresholds));
  }
  notice(common, fmt::format("certifying what was trained: {}", command));
  if (common.quiet) words.emplace_back("--quiet");
  if (common.json) words.emplace_back("--json");
  std::fflush(stdout);
  const std::optional<ChildEnd> end = run_child(words, {.keep_output = common.json});
  if (!end || end->status != 0) {
    const std::string how = end ? fmt::format("ended with status {}", end->status) : "could not be started";
    notice(common, fmt::format("the model carries no promise yet: '{}' {}", command, how));
    return nullptr;
  }
  notice(common, fmt::format("next: exeunt serve {}", shell_word(flags.out)));
  return common.json ? OrderedJson::parse(end->output) : OrderedJson(nullptr);
}

}  // namespace exeunt::apps
