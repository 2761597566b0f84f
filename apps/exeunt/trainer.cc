// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/trainer.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/exeunt/output.h"
#include "apps/exeunt/program.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/base/error.h"
#include "exeunt/base/process.h"

namespace exeunt::apps {
namespace fs = std::filesystem;

bool asks_for_help(int argc, char** argv) noexcept {
  return std::any_of(argv, argv + argc, [](const char* word) {
    return std::string_view(word) == "--help" || std::string_view(word) == "-h";
  });
}

fs::path find_trainer() {
  return find_program("exeunt-train");
}

void start_trainer(char** argv) {
  const fs::path program = find_trainer();
  if (program.empty()) {
    throw Error(Code::resources,
                fmt::format("exeunt-train is not installed beside {}", (program_folder() / "exeunt").string()),
                "build it with LibTorch: cmake --preset release -DEXEUNT_TRAIN=ON");
  }
  ::execv(program.c_str(), argv);
  throw Error(Code::resources, fmt::format("{}: cannot start: {}", program.string(), std::strerror(errno)));
}

int run_trainer(const std::vector<std::string>& arguments, bool silent) {
  std::vector<std::string> words{"exeunt"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw Error(Code::resources, fmt::format("cannot start the trainer: {}", std::strerror(errno)));
  if (child == 0) {
    if (silent && std::freopen("/dev/null", "w", stdout) == nullptr) ::close(STDOUT_FILENO);
    try {
      start_trainer(argv.data());
    } catch (const Error& error) {
      ::_exit(report(error));
    }
  }
  const auto before = std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, before);
  return WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(Code::failure);
}

void add_train(CommandLine& line) {
  add_train_verb(line, [](const TrainFlags&) {});
}

}  // namespace exeunt::apps
