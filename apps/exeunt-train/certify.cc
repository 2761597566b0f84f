// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/certify.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/exeunt-train/defaults.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

// It lies beside the trainer, or where the trainer is in libexec/exeunt, in bin. Empty if it is in neither.
fs::path find_command() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& place : {folder / "exeunt", folder / ".." / ".." / "bin" / "exeunt"})
    if (::access(place.c_str(), X_OK) == 0) return place;
  return {};
}

struct Ran {
  int status = 0;      // 127: it could not be started
  std::string output;  // what it wrote to stdout, if that is kept
};

Ran run_command(const fs::path& program, std::vector<std::string> words, bool keep_output) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends{-1, -1};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (keep_output) {
    if (::pipe(ends.data()) != 0) throw Error(Code::resources, "cannot start another program: no pipe is left");
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    for (const int end : ends) posix_spawn_file_actions_addclose(&actions, end);
  }
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  Ran ran{.status = failed == 0 ? 0 : 127, .output = {}};
  if (keep_output) {
    ::close(ends[1]);
    std::array<char, 4096> block{};
    for (ssize_t got = 0; failed == 0;) {
      got = ::read(ends[0], block.data(), block.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      ran.output.append(block.data(), static_cast<size_t>(got));
    }
    ::close(ends[0]);
  }
  if (failed != 0) return ran;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(Code::failure);
  return ran;
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

OrderedJson certify_trained(const Common& common, const TrainFlags& flags, size_t rows) {
  const std::string budget = budget_for(flags, rows);
  const fs::path program = find_command();
  if (budget.empty() || program.empty()) {
    for (const std::string& text : next_steps(flags, rows)) notice(common, text);
    return nullptr;
  }
  std::vector<std::string> words{"exeunt", "calibrate", flags.out, "--max-drop", budget};
  if (flags.threads > 0) words.insert(words.end(), {"--threads", fmt::format("{}", flags.threads)});
  const std::string command = fmt::format("exeunt calibrate {} --max-drop {}", shell_word(flags.out), budget);
  notice(common, fmt::format("certifying what was trained: {}", command));
  if (common.quiet) words.emplace_back("--quiet");
  if (common.json) words.emplace_back("--json");
  std::fflush(stdout);
  const Ran ran = run_command(program, words, common.json);
  if (ran.status != 0) {
    notice(common, fmt::format("the model carries no promise yet: '{}' ended with status {}", command, ran.status));
    return nullptr;
  }
  notice(common, fmt::format("next: exeunt serve {}", shell_word(flags.out)));
  return common.json ? OrderedJson::parse(ran.output) : OrderedJson(nullptr);
}

}  // namespace exeunt::apps
