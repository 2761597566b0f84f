// SPDX-License-Identifier: Apache-2.0
// Admission control. A request is admitted or refused as a whole: by its declared size before its body is read, by its
// bytes as they arrive and before they are parsed, by its texts before any of them runs, by its response before that is
// sent.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

namespace exeunt::serve {

struct AdmissionLimits {
  size_t requests = 512;  // --max-concurrent-requests
  size_t texts = 4096;    // --queue-size
  size_t bytes = size_t{64} << 20;
};

// Used by the network thread alone.
class Admission {
 public:
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // Why a request would not be admitted now: asked at its head, so that its body need not be read. What connections
  // hold does not count: they can be closed.
  [[nodiscard]] std::optional<std::string_view> full(size_t bytes) const noexcept {
    if (requests_ >= limits_.requests) return "requests";
    const size_t admitted = bytes_ - held_;
    if (admitted > 0 && bytes > limits_.bytes - (admitted < limits_.bytes ? admitted : limits_.bytes)) return "bytes";
    return std::nullopt;
  }
  // More bytes for a connection that holds `so_far`; false if there is no room.
  [[nodiscard]] bool hold(size_t so_far, size_t bytes) noexcept {
    const bool alone = bytes_ == so_far;
    if (!alone && bytes > limits_.bytes - (bytes_ < limits_.bytes ? bytes_ : limits_.bytes)) return false;
    bytes_ += bytes;
    held_ += bytes;
    return true;
  }
  void release(size_t bytes) noexcept {
    bytes_ -= bytes;
    held_ -= bytes;
  }

  // Why not; nothing if admitted. A request that is alone is bounded by the body limit only.
  [[nodiscard]] std::optional<std::string_view> enter(size_t bytes) noexcept {
    if (const auto why = full(bytes)) return why;
    ++requests_;
    bytes_ += bytes;
    return std::nullopt;
  }
  // The texts of a request that has entered; admitted or not, it must leave in the end.
  [[nodiscard]] std::optional<std::string_view> add(size_t texts) noexcept {
    if (requests_ > 1 && texts > limits_.texts - (texts_ < limits_.texts ? texts_ : limits_.texts)) return "queue";
    texts_ += texts;
    return std::nullopt;
  }
  void leave(size_t texts, size_t bytes) noexcept {
    --requests_;
    texts_ -= texts;
    bytes_ -= bytes;
  }

  [[nodiscard]] size_t requests() const noexcept { return requests_; }
  [[nodiscard]] size_t texts() const noexcept { return texts_; }
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }
  // How full the queue is, from 0 to 1: the fullest of the three.
  [[nodiscard]] double fill() const noexcept {
    const double r = static_cast<double>(requests_) / static_cast<double>(limits_.requests);
    const double t = static_cast<double>(texts_) / static_cast<double>(limits_.texts);
    const double b = static_cast<double>(bytes_) / static_cast<double>(limits_.bytes);
    return r > t ? (r > b ? r : b) : (t > b ? t : b);
  }

 private:
  AdmissionLimits limits_;
  size_t requests_ = 0, texts_ = 0, bytes_ = 0, held_ = 0;  // the last: part of the bytes
};

// What a connection holds: a body as it arrives, or a response until it is sent.
class HeldBytes {
 public:
  explicit HeldBytes(Admission& admission) : admission_(admission) {}
  ~HeldBytes() { admission_.release(bytes_); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  [[nodiscard]] bool add(size_t bytes) noexcept {
    if (!admission_.hold(bytes_, bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

 private:
  Admission& admission_;
  size_t bytes_ = 0;
};

// Rate limit of refusals (a token bucket), so that clients who are refused and try again take little from the others.
// While a client waits for its slot, nothing is read from it.
class RefusalLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kMaxWait{2000};

  // 0 per second: no limit.
  RefusalLimiter(int per_second, int burst) noexcept
      : interval_(per_second > 0 ? Time::duration(std::chrono::seconds(1)) / per_second : Time::duration(0)),
        ahead_(std::max(burst - 1, 0) * interval_) {}

  struct Slot {
    Time at;
    bool answered;  // else the connection ends without a response: too many are waiting
  };
  [[nodiscard]] Slot next(Time now) noexcept {
    const Time free = std::max(free_, now);
    const Time at = std::max(now, free - ahead_);
    if (at > now + kMaxWait) return {now + kMaxWait, false};
    free_ = free + interval_;
    return {at, true};
  }

 private:
  Time::duration interval_, ahead_;
  Time free_ = {};  // when all slots that were given have passed
};

}  // namespace exeunt::serve
