// SPDX-License-Identifier: Apache-2.0
// Parts of one job, run on different machines, and how they are merged into one file. A shard file is the answers'
// lines between two lines of JSON: what the shard is, and at the end how many rows the source had and their hash.
// merge() takes the parts in any order and gives the bytes that one machine would have written.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/fields.h"
#include "exeunt/predict/predict.h"

namespace exeunt {

// What the parts of one job share, and which part this is.
struct ShardInfo {
  std::string format = "exeunt.shard/1";
  Shard shard = {};
  std::string form = {};  // of the answers: "tsv" …
  std::string head = {};  // first line of the merged file, with its end; may be empty
  std::string weights = {}, policy = {}, precision = {}, engine = {};
  int max_length = 0;
  std::vector<std::string> keep = {};       // columns of the source that are handed on
  std::optional<std::string> keep_if = {};  // which answers are there; nothing: all

  // The first line of a part. `help` names what all parts have in common, for messages.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    static constexpr std::array<std::string_view, 1> kFormats = {"exeunt.shard/1"};
    visit(Field{.name = "format", .choices = kFormats, .required = true}, self.format);
    visit(Field{.name = "of", .help = "number of shards", .low = 1, .high = 1 << 20, .required = true}, self.shard.of);
    visit(Field{.name = "shard", .low = 1, .high = static_cast<double>(self.shard.of), .required = true},
          self.shard.number);
    visit(Field{.name = "form", .help = "form", .required = true}, self.form);
    visit(Field{.name = "head", .help = "head", .required = true}, self.head);
    visit(Field{.name = "weights", .help = "model", .required = true}, self.weights);
    visit(Field{.name = "policy", .help = "policy", .required = true}, self.policy);
    visit(Field{.name = "precision", .help = "precision", .required = true}, self.precision);
    visit(Field{.name = "engine", .required = true}, self.engine);
    visit(Field{.name = "max_length", .help = "max_length", .low = 1, .high = 1 << 20, .required = true},
          self.max_length);
    visit(Field{.name = "keep", .help = "--keep", .omit_empty = true}, self.keep);
    visit(Field{.name = "keep_if", .help = "--keep-if", .omit_empty = true}, self.keep_if);
  }
};

// The last line of a part.
struct ShardEnd {
  std::string format = "exeunt.shard_end/1";
  int64_t rows = 0;  // of the whole source
  std::string data = {};
  std::optional<int64_t> kept = {};  // answers in the part, where not all are

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    static constexpr std::array<std::string_view, 1> kFormats = {"exeunt.shard_end/1"};
    visit(Field{.name = "format", .choices = kFormats, .required = true}, self.format);
    visit(Field{.name = "rows", .low = 0, .high = 0x1p50, .required = true}, self.rows);
    visit(Field{.name = "data", .required = true}, self.data);
    visit(Field{.name = "kept", .low = 0, .high = 0x1p50, .omit_empty = true}, self.kept);
  }
};

[[nodiscard]] std::string shard_first_line(const ShardInfo& info);
[[nodiscard]] std::string shard_last_line(const ShardEnd& end);

struct Merged {
  int64_t rows = 0, written = 0;
  int shards = 0;
  std::vector<std::string> notices = {};
};

// Hands the merged lines to `sink`, one line of each part in memory. Throws Error (bad_file) that names the part: no
// shard at all, truncated, from other data or settings, duplicate; or which parts are missing. All of it
// is checked before the first line is handed out.
Merged merge_shards(const std::vector<std::filesystem::path>& parts, const std::function<void(std::string_view)>& sink);

}  // namespace exeunt
