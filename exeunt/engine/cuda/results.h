// SPDX-License-Identifier: Apache-2.0
// The results of a batch of texts, in host memory.
#pragma once

namespace exeunt::cuda {

class Results {
 public:
  virtual ~Results() = default;
  [[nodiscard]] virtual int exit_site(int text) const = 0;  // where it left
  [[nodiscard]] virtual const float* logits(int text, int site) const = 0;
  [[nodiscard]] virtual float lte(int text, int site) const = 0;
  [[nodiscard]] virtual const float* ramp(int text) const = 0;
};

}  // namespace exeunt::cuda
