// SPDX-License-Identifier: Apache-2.0
// What the batches of both kinds (batch_runner.h, continuous_batch.h) keep in memory: their input and their results, in
// the same layout in pinned memory and on the device, and what their exits need.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "exeunt/engine/cuda/device_model.h"
#include "exeunt/engine/memory_parts.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::cuda {

inline constexpr int kMaxPolicies = 16;  // different ones in one batch

// How one text of a batch runs.
struct SlotOptions {
  const Policy* policy = nullptr;     // stays alive until its batch has run; the same address is the same policy
  int stop = 0;                       // the site where the text leaves at the latest
  bool all_exits = false;             // evaluates every exit
  std::span<const float> state = {};  // of the policy after exit 0; empty: all zero
};

// The texts that go into a batch next.
struct InputTexts {
  std::vector<const Encoding*> encodings = {};
  std::vector<int> slots = {};
  std::vector<SlotAsk> asks = {};
  std::vector<float> states = {};                         // of a model with exit 0
  std::array<const Policy*, kMaxPolicies> policies = {};  // null: no such policy

  // False: there is no place for its policy.
  [[nodiscard]] bool add(const Encoding& text, int slot, const SlotOptions& options, const DeviceModel& model);
  void clear_texts();  // not the policies
};

struct BatchInput {
  BatchInput() = default;
  BatchInput(const DeviceModel& model, const Capacity& capacity, std::byte* base);  // null: only `bytes` is known

  void write(const InputTexts& texts, const DeviceModel& model);  // in pinned memory

  TextList list = {};
  SlotAsk* asks = nullptr;
  Policy* policies = nullptr;
  float* states = nullptr;  // of a model with exit 0
  int32_t *ids = nullptr, *types = nullptr, *positions = nullptr;
  size_t bytes = 0;
};

struct BatchResults {
  BatchResults() = default;
  BatchResults(const DeviceModel& model, int texts, std::byte* base);  // null: only `bytes` is known

  // Of one text, in pinned memory.
  [[nodiscard]] const float* logits_of(int text, int site) const {
    return logits + count(text * sites + site) * outputs;
  }
  [[nodiscard]] float lte_of(int text, int site) const { return lte[text * sites + site]; }
  [[nodiscard]] const float* ramp_of(int text) const { return ramp + count(text) * outputs; }

  int* exit_site = nullptr;  // [texts] where it left
  float *logits = nullptr, *lte = nullptr,
        *ramp = nullptr;   // [texts, sites, outputs], [texts, sites], [texts, outputs]
  int* decided = nullptr;  // exits of a single text
  size_t bytes = 0;

 private:
  int sites = 0;
  size_t outputs = 0;
};

// What exits need on the device: the state of policies and scratch.
struct ExitMemory {
  ExitMemory() = default;
  ExitMemory(const DeviceModel& model, int texts, size_t vector_sets, MemoryParts& parts);

  // An exit of a batch, as far as it is the same for all.
  [[nodiscard]] ExitJob job(const DeviceModel& model, const BatchResults& results) const;

  float *state = nullptr, *vectors = nullptr, *hidden = nullptr;
  int *leaves = nullptr, *from = nullptr;
  unsigned* arrived = nullptr;
  size_t arrived_bytes = 0;
};

[[nodiscard]] TextList take_list(const Capacity& capacity, MemoryParts& parts);
// The first that takes a batch; the last is the largest.
[[nodiscard]] const Capacity& fitting(const std::vector<Capacity>& capacities, int texts, int rows);

}  // namespace exeunt::cuda
