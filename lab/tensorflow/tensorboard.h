// SPDX-License-Identifier: Apache-2.0
// Scalars for TensorBoard: an event file of TensorFlow's record format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace exeunt {

struct Scalar {
  std::string tag;
  double value = 0;
};

// One event with all its scalars as a record: length, its checksum, the event, its checksum.
[[nodiscard]] std::string event_record(double wall_time, int64_t step, const std::vector<Scalar>& scalars);

// The events of a run's log.jsonl, one for each entry, as a file in its folder, which replaces the one of an earlier
// call; the time of the log's last change is that of all events. Returns the file. Throws Error.
std::filesystem::path write_events(const std::filesystem::path& run);

}  // namespace exeunt
