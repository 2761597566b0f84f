// SPDX-License-Identifier: Apache-2.0
// Exeunt's only exception type. It says what failed, where, what was found and expected, and what to do next.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace exeunt {

// What went wrong, as the exit status the command ends with.
enum class Code { failure = 1, usage = 2, resources = 3, bad_file = 4 };

// Something outside our control (a file, a flag, data, a request) is not as it should be.
// `message` is one line, "where: what: got X, want Y"; `hint` is what the user can do about it, or empty.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message, std::string hint = {})
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

  [[nodiscard]] Code code() const noexcept { return code_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  Code code_;
  std::string hint_;
};

// A name or a format that this program does not know. A larger one beside it may: run_program() asks it first.
class Unknown : public Error {
 public:
  using Error::Error;
};

// An invalid file: Code::bad_file with a formatted message. `where` names the file and, if known, the tensor, line or
// field: "model.safetensors: tensor 'x'".
template <class... Args>
[[noreturn]] void throw_bad_file(std::string_view where, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Code::bad_file, fmt::format("{}: {}", where, fmt::format(text, std::forward<Args>(args)...)));
}

// What the user can do about an error, as the first thing after `where`: throw_bad_file(where, Hint{"…"}, "got {}", x).
struct Hint {
  std::string_view text;
};
template <class... Args>
[[noreturn]] void throw_bad_file(std::string_view where, Hint hint, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Code::bad_file, fmt::format("{}: {}", where, fmt::format(text, std::forward<Args>(args)...)),
              std::string(hint.text));
}

// Returns act(). Adds `hint` to an Error about a bad file that has no hint yet: readers report what is wrong, their
// callers often know better how to fix it.
template <class Act>
decltype(auto) with_hint(std::string_view hint, Act&& act) {
  try {
    return act();
  } catch (const Error& error) {
    if (error.code() != Code::bad_file || !error.hint().empty()) throw;
    throw Error(Code::bad_file, error.what(), std::string(hint));
  }
}

// For our own bugs, never for bad input: throws std::logic_error that names the location.
// (clang 14 lacks std::source_location.)
void check(bool condition, std::string_view what, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace exeunt
