// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tensorboard.h"

#include <bit>
#include <chrono>

#include <fmt/format.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "lab/tensorflow/crc32c.h"

namespace exeunt {
namespace {

constexpr char kDouble = 1, kLength = 2, kFloat = 5;  // wire types beside 0, a number of variable length

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class T>
void put_raw(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  out += static_cast<char>(field << 3 | kLength);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: 1 wall_time double, 2 step, 3 file_version string, 5 summary { 1 value { 1 tag string, 2 simple_value float }
// }.
std::string event_head(double wall_time, int64_t step) {
  std::string out;
  out += static_cast<char>(1 << 3 | kDouble);
  put_raw(out, wall_time);
  out += static_cast<char>(2 << 3);
  put_varint(out, static_cast<uint64_t>(step));
  return out;
}

uint32_t masked(std::string_view bytes) {
  return masked_crc32c(std::as_bytes(std::span(bytes)));
}

std::string framed(const std::string& event) {
  std::string length;
  put_raw(length, static_cast<uint64_t>(event.size()));
  std::string out = length;
  put_raw(out, masked(length));
  out += event;
  put_raw(out, masked(event));
  return out;
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
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    value += static_cast<char>(2 << 3 | kFloat);
    put_raw(value, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string event = event_head(wall_time, step);
  put_bytes(event, 5, summary);
  return framed(event);
}

std::filesystem::path write_events(const std::filesystem::path& run) {
  const std::filesystem::path log = run / "log.jsonl";
  if (!path_exists(log))
    throw Error(Code::bad_file, fmt::format("{}: no such file", log.string()), "want the folder of a training run");
  const auto changed = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(log));
  const double time = std::chrono::duration<double>(changed.time_since_epoch()).count();
  std::string head = event_head(time, 0);
  put_bytes(head, 3, "brain.Event:2");
  std::string out = framed(head);
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
