// SPDX-License-Identifier: Apache-2.0
// profile.json: times of a model's parts on one machine, measured by the runtime and used to predict times. One entry
// per precision, number of threads and instruction set; milliseconds for a few lengths.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/fields.h"
#include "exeunt/model/spec.h"

namespace exeunt {

inline constexpr const char* kProfileFile = "profile.json";
inline constexpr int kMaxPackRows = 4096;

struct ProfileEntry {
  static constexpr std::string_view kPrecisions[] = {"fp32", "bf16", "int8"};
  std::string precision = {};
  int threads = 1;
  std::string isa = {};                            // as `exeunt info` names it
  std::vector<int> lengths = {};                   // tokens, ascending; the columns of all that follows
  std::vector<double> embedding_ms = {};           // [lengths]
  std::vector<std::vector<double>> layer_ms = {};  // [layers][lengths] for a text that continues
  std::vector<std::vector<double>> leave_ms = {};  // [layers][lengths] for one that exits there; empty = the same
  std::vector<double> exit_ms = {};                // [lengths] per evaluated exit
  std::vector<double> exit_0_ms = {};              // [lengths] of the one before the first layer; empty = as any
  std::optional<int> pack_rows = {};  // texts that wait run together up to so many rows; none: not measured

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    constexpr double kMaxMs = 1e9;
    visit(Field{.name = "precision", .choices = kPrecisions, .required = true}, self.precision);
    visit(Field{.name = "threads", .low = 1, .high = 4096, .required = true}, self.threads);
    visit(Field{.name = "isa", .required = true}, self.isa);
    visit(Field{.name = "lengths", .low = 1, .high = kMaxPositions, .required = true}, self.lengths);
    visit(Field{.name = "embedding_ms", .low = 0, .high = kMaxMs, .required = true}, self.embedding_ms);
    visit(Field{.name = "layer_ms", .low = 0, .high = kMaxMs, .required = true}, self.layer_ms);
    visit(Field{.name = "leave_ms", .low = 0, .high = kMaxMs, .omit_empty = true}, self.leave_ms);
    visit(Field{.name = "exit_ms", .low = 0, .high = kMaxMs, .required = true}, self.exit_ms);
    visit(Field{.name = "exit_0_ms", .low = 0, .high = kMaxMs, .omit_empty = true}, self.exit_0_ms);
    visit(Field{.name = "pack_rows", .low = 1, .high = kMaxPackRows, .omit_empty = true}, self.pack_rows);
  }

  // "fp32, 1 thread, avx512"
  [[nodiscard]] std::string name() const;
};

struct Profile {
  std::string device = {}, tool = {}, created = {};
  std::vector<ProfileEntry> entries = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "device"}, self.device);
    visit(Field{.name = "tool"}, self.tool);
    visit(Field{.name = "created"}, self.created);
    visit(Field{.name = "entries", .required = true}, self.entries);
  }
};

// Strict, as all our files. `layers` is the model's number of layers. Throws Error (bad_file).
[[nodiscard]] Profile parse_profile(const Json& json, int layers, const std::string& where);
[[nodiscard]] Profile read_profile(const ReadPath& path, int layers);
[[nodiscard]] OrderedJson profile_json(const Profile& profile);

// The entry of a precision for that many threads; 0 or none that fits = the one with the fewest. Null if the precision
// was not measured.
[[nodiscard]] const ProfileEntry* find_entry(const Profile& profile, std::string_view precision, int threads = 0);

// The rows of a pack as measured for that precision and instruction set on that device; 0 = not measured.
[[nodiscard]] int measured_pack_rows(const Profile& profile, std::string_view device, std::string_view precision,
                                     std::string_view isa);

// One text of `tokens` tokens that exits after layer `after` with `asked` exits evaluated. Linear interpolation and
// extrapolation over the measured lengths; never below zero.
struct TimedDeparture {
  int after = 0, tokens = 0, asked = 0;
  bool exit_0 = false;  // the exit before the first layer is one of those asked
};
[[nodiscard]] double predicted_ms(const ProfileEntry& entry, const TimedDeparture& departure);

}  // namespace exeunt
