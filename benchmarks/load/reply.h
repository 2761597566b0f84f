// SPDX-License-Identifier: Apache-2.0
// Reads answers off a connection, as a client that wants every byte accounted for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace exeunt::load {

struct Reply {
  int status = 0;
  std::string head = {}, body = {};
  bool closes = false;

  // The first value of a field, by its name in lower case; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
};

class ReplyReader {
 public:
  void feed(std::string_view bytes) { held_.append(bytes); }
  // The next whole answer. Throws std::runtime_error where the bytes are no HTTP answer with a length.
  [[nodiscard]] std::optional<Reply> next();
  // Bytes of an answer that is not whole.
  [[nodiscard]] bool partial() const noexcept { return !held_.empty(); }

 private:
  std::string held_ = {};
};

}  // namespace exeunt::load
