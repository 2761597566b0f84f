// SPDX-License-Identifier: Apache-2.0
// How a recipe is run: the settings of `exeunt train` that belong to no recipe. A new one is a member, a line of the
// list, and its use; flag, help, run.json, recipe.json and the comparison on --resume follow from the list.
#pragma once

#include <array>
#include <string>

#include "exeunt/base/fields.h"

namespace exeunt {

// Field::in. Settings that shape the trained weights are stored with the run and must be the same on --resume; the
// others may change from one start to the next.
inline constexpr unsigned kShapesWeights = 1, kThisStart = 2;

[[nodiscard]] constexpr Field shapes_weights(Field field) noexcept {
  field.in = kShapesWeights;
  return field;
}
[[nodiscard]] constexpr Field this_start(Field field) noexcept {
  field.in = kThisStart;
  return field;
}

// Of `train` and `pretrain` alike.
struct RunSettings {
  std::string precision = "auto";
  bool deterministic = false;
  int log_every = 50, save_every = 500, keep_checkpoints = 2;
  bool resume = false, overwrite = false;
  std::string device = "auto";
  int threads = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    static constexpr std::array<std::string_view, 3> kTrainingPrecisions{"auto", "fp32", "bf16"};
    static constexpr std::array<std::string_view, 3> kTrainingDevices{"auto", "cpu", "cuda"};
    visit(shapes_weights({.name = "precision",
                          .help = "Of matrix products; auto = bf16 on a GPU that has it, else fp32",
                          .flag = "--precision",
                          .choices = kTrainingPrecisions}),
          self.precision);
    visit(shapes_weights(
              {"deterministic",
               "On CUDA: deterministic algorithms, so that a resumed run repeats bit for bit; prints what they cost",
               "--deterministic"}),
          self.deterministic);
    visit(this_start({"log_every", "Steps between lines of log.jsonl; 0 = none", "--log-every", 0}), self.log_every);
    visit(this_start({"save_every", "Steps between checkpoints; 0 = none", "--save-every", 0}), self.save_every);
    visit(this_start({"keep_checkpoints", "Checkpoints to keep; 0 = all", "--keep-checkpoints", 0}),
          self.keep_checkpoints);
    visit(this_start({"resume", "Continue from the newest intact checkpoint in --out", "--resume"}), self.resume);
    visit(this_start({"overwrite", "Replace an earlier run in --out", "--overwrite"}), self.overwrite);
    visit(this_start({.name = "device", .help = "Where to train", .flag = "--device", .choices = kTrainingDevices}),
          self.device);
    visit(this_start({"threads", "CPU threads; 0 = LibTorch's default", "--threads", 0, 4096}), self.threads);
  }
};

struct TrainSettings : RunSettings {
  int64_t max_steps = 0;
  double warmup_steps = -1;  // below 0: the recipe's share
  double adam_epsilon = 1e-8;
  int accumulation = 1;
  int window = 50;
  bool trace = false;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(shapes_weights(
              {"max_steps", "Steps per stage, instead of epochs; 0 = as many as the epochs have", "--max-steps", 0}),
          self.max_steps);
    visit(shapes_weights({"warmup_steps", "Warm-up steps, instead of a share", "--warmup-steps", 0}),
          self.warmup_steps);
    visit(shapes_weights(
              {.name = "adam_epsilon", .help = "AdamW's epsilon", .flag = "--adam-epsilon", .low = 0, .open = true}),
          self.adam_epsilon);
    visit(shapes_weights({"accumulation", "Gradient accumulation steps", "--accumulation", 1}), self.accumulation);
    visit(shapes_weights(
              {"window", "Group texts by length within windows of N batches; 0 = plain shuffling", "--window", 0}),
          self.window);
    visit(this_start({"trace", "Store every exit's logits of the final evaluation: trace-NAME.safetensors", "--trace"}),
          self.trace);
    RunSettings::fields(self, visit);
  }
};

}  // namespace exeunt
