// SPDX-License-Identifier: Apache-2.0
// Admission control. A request is admitted or refused as a whole: by its bytes before it is parsed, by its texts before
// any of them runs.
#pragma once

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

  // Why not; nothing if admitted. A request that is alone is bounded by the body limit only.
  [[nodiscard]] std::optional<std::string_view> enter(size_t bytes) noexcept {
    if (requests_ >= limits_.requests) return "requests";
    if (requests_ > 0 && bytes > limits_.bytes - (bytes_ < limits_.bytes ? bytes_ : limits_.bytes)) return "bytes";
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
  size_t requests_ = 0, texts_ = 0, bytes_ = 0;
};

}  // namespace exeunt::serve
