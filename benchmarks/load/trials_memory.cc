// SPDX-License-Identifier: Apache-2.0
// Memory that is not there: one allocation after the other fails, while the server starts and while it answers. The
// first must end it with status 3 and a word of why; the second may cost a request or a connection, never the server.
#include <csignal>
#include <filesystem>
#include <map>
#include <new>
#include <stdexcept>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "benchmarks/load/fail_new.h"
#include "benchmarks/load/load.h"
#include "benchmarks/load/server_process.h"
#include "benchmarks/load/trials.h"

namespace exeunt::load {
namespace {

// Bytes from which on an allocation is large: beyond what small things cost that must not fail.
constexpr size_t kLarge = 4096;

// What the server's shim shares with us.
class SharedCount {
 public:
  SharedCount() : path_(std::filesystem::temp_directory_path() / ("exeunt-load-" + std::to_string(::getpid()))) {
    const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(FailNew)) != 0) throw std::runtime_error("no file to share a number in");
    void* shared = ::mmap(nullptr, sizeof(FailNew), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (shared == MAP_FAILED) throw std::runtime_error("no memory to share a number in");
    fail_ = new (shared) FailNew;
  }
  ~SharedCount() {
    ::munmap(fail_, sizeof(FailNew));
    std::filesystem::remove(path_);
  }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;

  void set(int64_t value) const { fail_->left = value; }
  [[nodiscard]] int64_t get() const { return fail_->left; }
  // From here on: only allocations of so many bytes, and whether a reserve helps.
  void choose(size_t bytes, bool for_good) const {
    fail_->bytes = bytes;
    fail_->for_good = for_good;
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
  FailNew* fail_ = nullptr;
};

struct Starts {
  int64_t tried = 0, refused = 0, went_on = 0, wrong = 0;
  std::string example = {};
};

std::map<std::string, std::string> shimmed(const Setting& setting, const SharedCount& count) {
  return {{"LD_PRELOAD", std::filesystem::absolute(setting.shim)}, {"EXEUNT_FAIL_NEW", count.path()}};
}

// A server that has the C++ library inside, as some compilers link it, calls an operator new of its own.
void require_effect(const Setting& setting, const SharedCount& count) {
  constexpr int64_t kNever = int64_t{1} << 40;
  count.set(kNever);
  ServerProcess server(setting.server, shimmed(setting, count));
  server.signal(SIGTERM);
  (void)server.wait();
  if (count.get() == kNever)
    throw CannotTry("memory: the shim sees no allocation: link the server with a shared libstdc++");
  count.set(0);
}

// While it starts. The first thousand one by one, then wider and wider apart, until one is not reached any more.
Starts fail_while_starting(const Setting& setting, const SharedCount& count) {
  Starts out;
  for (int64_t nth = 1; count.get() <= 0 && out.tried < setting.count; nth += 1 + nth / 1000) {
    ++out.tried;
    count.set(nth);
    try {
      ServerProcess server(setting.server, shimmed(setting, count));
      ++out.went_on;  // not reached, or made good
      server.signal(SIGTERM);
      out.wrong += server.wait() == 0 ? 0 : 1;
    } catch (const NotStarted& end) {
      const bool named = end.status == 3 && std::string(end.what()).find("out of memory") != std::string::npos;
      out.refused += named ? 1 : 0;
      out.wrong += named ? 0 : 1;
      if (!named) out.example = std::to_string(nth) + ": " + end.what();
    }
  }
  return out;
}

struct Requests {
  int64_t tried = 0, answered = 0, refused = 0, closed = 0, other = 0, dead = 0;

  void add(const Requests& more) {
    tried += more.tried;
    answered += more.answered;
    refused += more.refused;
    closed += more.closed;
    other += more.other;
    dead += more.dead;
  }
  [[nodiscard]] OrderedJson json() const {
    return {{"tried", tried}, {"answered_200", answered}, {"answered_503", refused}, {"connection_closed", closed}};
  }
};

// One request: the first allocation behind its sending fails, then the second …
Requests fail_one_by_one(const ServerProcess& server, const SharedCount& count, const std::string& request) {
  Requests out;
  for (int64_t nth = 1;; ++nth) {
    count.set(nth);
    const Exchange got = converse(server.port(), request, 5, 0.2);
    const bool reached = count.get() <= 0;
    count.set(0);
    ++out.tried;
    const int status = got.replies.empty() ? 0 : got.replies.front().status;
    ++(status == 0 ? out.closed : status == 200 ? out.answered : status == 503 ? out.refused : out.other);
    out.dead += ask(server.port(), post_request("/predict", R"({"inputs":"still there"})")).status == 200 ? 0 : 1;
    if (!reached || out.dead > 3) return out;
  }
}

Requests fail_while_answering(const ServerProcess& server, const SharedCount& count) {
  const std::string fields = "Connection: close\r\n";
  const std::string padded = R"({"inputs":"a film","padding":")" + std::string(5000, 'x') + "\"}";
  Requests all;
  for (const std::string& request :
       {post_request("/predict", R"({"inputs":"a fine film","exit":{"details":true}})", fields),
        post_request("/predict", R"({"inputs":[["a film"],["a","pair"]]})", fields),
        post_request("/predict", padded, fields),
        std::string("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")}) {
    all.add(fail_one_by_one(server, count, request));
  }
  return all;
}

}  // namespace

void memory(const Setting& setting, Record& record) {
  if (setting.shim.empty()) throw std::runtime_error("memory: want --shim, the library that makes allocations fail");
  const SharedCount count;
  require_effect(setting, count);
  const Starts starts = fail_while_starting(setting, count);
  count.set(0);
  ServerProcess server(setting.server, shimmed(setting, count));
  const Requests any = fail_while_answering(server, count);
  count.choose(kLarge, true);
  const Requests large = fail_while_answering(server, count);
  server.signal(SIGTERM);
  const int end = server.wait();
  record.set("starts", {{"tried", starts.tried}, {"refused_with_3", starts.refused}, {"started", starts.went_on}});
  if (!starts.example.empty()) record.set("example", starts.example);
  record.set("any_allocation", any.json());
  record.set("large_allocations_for_good", large.json());
  record.at_least("allocations that failed while it started", static_cast<double>(starts.refused), 100);
  record.at_most("starts that ended otherwise than with status 3 and a message", static_cast<double>(starts.wrong), 0);
  record.at_least("allocations that failed while it answered", static_cast<double>(any.tried + large.tried), 100);
  record.at_most("answers other than 200 and 503", static_cast<double>(any.other + large.other), 0);
  record.at_most("next requests without a 200", static_cast<double>(any.dead + large.dead), 0);
  record.at_most("exit statuses other than 0", end == 0 ? 0 : 1, 0);
}

}  // namespace exeunt::load
