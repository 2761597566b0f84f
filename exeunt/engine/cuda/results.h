// SPDX-License-Identifier: Apache-2.0
// What the device found for the texts of a batch, in memory of the host.
#pragma once

namespace exeunt::cuda {

class Results {
 public:
  virtual ~Results() = default;
  [[nodiscard]] virtual int left(int text) const = 0;  // the site
  [[nodiscard]] virtual const float* logits(int text, int site) const = 0;
  [[nodiscard]] virtual float lte(int text, int site) const = 0;
  [[nodiscard]] virtual const float* ramp(int text) const = 0;
};

}  // namespace exeunt::cuda
