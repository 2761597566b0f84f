// SPDX-License-Identifier: Apache-2.0
// Scalars for TensorBoard: an event file of TensorFlow's record format. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace exeunt {

struct Scalar {
  std::string tag;
  double value = 0;
};

// One event with all its scalars as a record: length, its checksum, the event, its checksum.
[[nodiscard]] std::string event_record(double wall_time, int64_t step, const std::vector<Scalar>& scalars);

class EventFile {
 public:
  // Starts a file events.out.tfevents.* in `folder`; TensorBoard reads all files there as one run.
  explicit EventFile(const std::filesystem::path& folder);
  // Appends and closes, so that a killed run keeps what it had written. Throws Error.
  void add(int64_t step, const std::vector<Scalar>& scalars);

 private:
  std::filesystem::path path_;
};

}  // namespace exeunt
