// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tensorboard.h"

#include <bit>
#include <chrono>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/protobuf.h"
#include "lab/tensorflow/crc32c.h"

namespace exeunt {
namespace {

// The bytes of a number, the lowest first.
template <class T>
std::string raw(T value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

uint32_t masked(std::string_view bytes) {
  return masked_crc32c(std::as_bytes(std::span(bytes)));
}

// Event: 1 wall_time double, 2 step, 3 file_version string, 5 summary { 1 value { 1 tag string, 2 simple_value float }
// }. `rest` is what follows the time.
std::string framed(double wall_time, const ProtoWriter& rest) {
  constexpr char kWallTime = 1 << 3 | 1;
  const std::string event = kWallTime + raw(wall_time) + rest.content();
  const std::string length = raw(static_cast<uint64_t>(event.size()));
  return length + raw(masked(length)) + event + raw(masked(event));
}

constexpr size_t kMaxLog = size_t{1} << 30;
constexpr int64_t kMaxStep = int64_t{1} << 53;

// The scalars of an entry, each exit's scores under names of their own.
std::vector<Scalar> scalars_of(const Json& entry, const std::string& where) {
  std::vector<Scalar> scalars;
  for (const auto& [key, value] : entry.items()) {
    if (value.is_number() && key != "step") scalars.push_back({key, value.get<double>()});
    if (key != "exits" || !value.is_array()) continue;
    for (const Json& exit : value) {
      const int64_t layer = JsonObject(exit, where + ": exits", /*partial=*/true).integer("layer", 0, kMaxStep);
      for (const auto& [metric, score] : exit.items()) {
        if (metric == "layer" || !score.is_number()) continue;
        scalars.push_back({fmt::format("exit_{}/{}", layer, metric), score.get<double>()});
      }
    }
  }
  return scalars;
}

}  // namespace

std::string event_record(double wall_time, int64_t step, const std::vector<Scalar>& scalars) {
  ProtoWriter event, summary;
  for (const Scalar& scalar : scalars) {
    ProtoWriter value;
    value.bytes(1, scalar.tag);
    value.real(2, static_cast<float>(scalar.value));
    summary.message(1, value);
  }
  event.integer(2, step);
  event.message(5, summary);
  return framed(wall_time, event);
}

std::filesystem::path write_events(const std::filesystem::path& run) {
  const std::filesystem::path log = run / "log.jsonl";
  if (!path_exists(log))
    throw Error(Code::bad_file, fmt::format("{}: no such file", log.string()), "want the folder of a training run");
  const auto changed = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(log));
  const double time = std::chrono::duration<double>(changed.time_since_epoch()).count();
  ProtoWriter head;
  head.integer(2, 0);
  head.bytes(3, "brain.Event:2");
  std::string out = framed(time, head);
  const std::string text = read_text(ReadPath::in(run, "log.jsonl"), kMaxLog);
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", log.string(), ++number);
    const Json entry = parse_json_line(line, where);
    out += event_record(time, JsonObject(entry, where, /*partial=*/true).integer("step", 0, kMaxStep),
                        scalars_of(entry, where));
  }
  const std::filesystem::path path = run / "events.out.tfevents.0.exeunt";
  write_atomically(path, out);
  return path;
}

}  // namespace exeunt
