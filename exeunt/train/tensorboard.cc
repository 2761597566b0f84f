// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/tensorboard.h"

#include <bit>
#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "exeunt/base/files.h"
#include "exeunt/model/crc32c.h"

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

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
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

EventFile::EventFile(const std::filesystem::path& folder) {
  const double now = now_seconds();
  path_ = folder / fmt::format("events.out.tfevents.{}.{}.exeunt", static_cast<int64_t>(now), ::getpid());
  std::string event = event_head(now, 0);
  put_bytes(event, 3, "brain.Event:2");
  append_text(path_, framed(event));
}

void EventFile::add(int64_t step, const std::vector<Scalar>& scalars) {
  append_text(path_, event_record(now_seconds(), step, scalars));
}

}  // namespace exeunt
