// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/exeunt/output.h"
#include "apps/exeunt/program.h"
#include "apps/exeunt/train_flags.h"
#include "exeunt/base/error.h"
#include "exeunt/base/number.h"

namespace exeunt::apps {

namespace fs = std::filesystem;

bool asks_for_help(int argc, char** argv) noexcept {
  return std::any_of(argv, argv + argc, [](const char* word) {
    return std::string_view(word) == "--help" || std::string_view(word) == "-h";
  });
}

void add_train(CommandLine& line) {
  add_train_verb(line, [](const TrainFlags&) {});
}

namespace {

constexpr const char* kHint = "want: exeunt launch --nproc N [--port P] train …";
constexpr int kMaxProcesses = 1024;
constexpr unsigned kPauseUs = 20000;

volatile sig_atomic_t asked_to_stop = 0;

void remember(int signal) {
  asked_to_stop = signal;
}

int whole(const char* text, const char* flag, int low, int high) {
  const auto value = number_of<int>(text);
  if (!value || *value < low || *value > high) {
    throw Error(Code::usage, fmt::format("{}: got '{}', want a whole number from {} to {}", flag, text, low, high),
                kHint);
  }
  return *value;
}

// Where the ranks meet: a file in a folder that only this user may enter. LibTorch's servers listen on every interface.
class RendezvousFolder {
 public:
  RendezvousFolder() : path_((std::filesystem::temp_directory_path() / "exeunt-launch-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw Error(Code::resources, fmt::format("{}: cannot be made: {}", path_, std::strerror(errno)),
                  "set TMPDIR to a folder you may write to");
    }
  }
  ~RendezvousFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;

  [[nodiscard]] std::string file() const { return path_ + "/ranks"; }

 private:
  std::string path_;
};

// How a rank ended, in words.
std::string fate(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

struct Plan {
  int processes = 0, port = 0;
  char** verb = nullptr;          // "train" or "pretrain", and what follows
  const char* program = nullptr;  // that has it
};

Plan read_plan(int argc, char** argv) {
  Plan plan;
  int i = 2;
  for (; i + 1 < argc && std::strncmp(argv[i], "--", 2) == 0; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--nproc") {
      plan.processes = whole(argv[i + 1], "--nproc", 1, kMaxProcesses);
    } else if (flag == "--port") {
      plan.port = whole(argv[i + 1], "--port", 1, 65535);
    } else {
      throw Error(Code::usage, fmt::format("unknown flag '{}'", flag), kHint);
    }
  }
  if (plan.processes == 0) throw Error(Code::usage, "--nproc is required", kHint);
  const std::string_view verb = i < argc ? argv[i] : "";
  if (verb != "train" && verb != "pretrain") throw Error(Code::usage, "got no verb to launch", kHint);
  plan.verb = argv + i;
  plan.program = verb == "train" ? "exeunt-train" : "exeunt-lab";
  return plan;
}

[[noreturn]] void become_rank(const Plan& plan, const RendezvousFolder& rendezvous, int rank, char* program) {
  const auto set = [](const char* name, int value) { ::setenv(name, std::to_string(value).c_str(), 1); };
  ::setenv("MASTER_ADDR", plan.port == 0 ? ("file://" + rendezvous.file()).c_str() : "127.0.0.1", 1);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);  // GPUs of one machine
  if (plan.port != 0) set("MASTER_PORT", plan.port);
  set("WORLD_SIZE", plan.processes);
  set("RANK", rank);
  set("LOCAL_RANK", rank);
  std::vector<char*> arguments{program};
  for (char** word = plan.verb; *word != nullptr; ++word) arguments.push_back(*word);
  arguments.push_back(nullptr);
  try {
    become(plan.program, arguments.data());
  } catch (const Error& error) {
    ::_exit(report(error));
  }
}

int rank_of(const std::vector<pid_t>& children, pid_t child) {
  for (size_t rank = 0; rank < children.size(); ++rank) {
    if (children[rank] == child) return static_cast<int>(rank);
  }
  return -1;
}

}  // namespace

int launch(int argc, char** argv) {
  const Plan plan = read_plan(argc, argv);
  const RendezvousFolder rendezvous;
  struct sigaction action {};
  action.sa_handler = remember;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < plan.processes; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) become_rank(plan, rendezvous, rank, argv[0]);
    if (child < 0) throw Error(Code::resources, fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)));
    children.push_back(child);
  }
  const auto tell_all = [&](int signal) {
    for (const pid_t child : children) {
      if (child > 0) ::kill(child, signal);
    }
  };
  int verdict = 0;
  for (size_t left = children.size(); left > 0;) {
    if (asked_to_stop != 0) {
      asked_to_stop = 0;
      tell_all(SIGTERM);
    }
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, WNOHANG);
    if (child < 0) break;
    if (child == 0) {
      ::usleep(kPauseUs);
      continue;
    }
    const int rank = rank_of(children, child);
    if (rank < 0) continue;
    children[static_cast<size_t>(rank)] = 0;
    --left;
    if (status == 0 || verdict != 0) continue;
    verdict = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(Code::failure);
    // A rank has already reported bad flags or files, and starting again does not help.
    const bool said = verdict == static_cast<int>(Code::usage) || verdict == static_cast<int>(Code::bad_file);
    if (!said) {
      (void)report(Error(Code::failure, fmt::format("rank {} of {} {}", rank, plan.processes, fate(status)),
                         "the other ranks were stopped; resume with --resume"));
    }
    tell_all(SIGKILL);  // they are waiting for the dead one and cannot save
  }
  return verdict;
}

void add_launch(CommandLine& line) {
  // Read by hand in launch(): what follows the verb belongs to the trainer.
  const auto numbers = std::make_shared<std::array<int, 2>>();
  CLI::App* verb = add_verb(
      line, "launch", "Train with several processes on one machine",
      {"exeunt launch --nproc 2 train --model bert-base --task RTE --data glue_data --out runs/rte"}, [numbers] {});
  verb->add_option("--nproc", numbers->at(0), "Number of processes, usually one per GPU")->required();
  verb->add_option("--port", numbers->at(1), "Rendezvous over this port, on every interface, instead of a file");
  verb->add_option("train", "The verb train, or pretrain of exeunt-lab, and its flags")->required();
}

}  // namespace exeunt::apps
