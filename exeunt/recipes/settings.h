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

struct TrainSettings {
  int64_t max_steps = 0;
  double warmup_steps = -1;  // below 0: the recipe's share
  double adam_epsilon = 1e-8;
  int accumulation = 1;
  int window = 50;
  std::string precision = "fp32";
  int log_every = 50, save_every = 500, keep_checkpoints = 2;
  bool trace = false, resume = false, overwrite = false;
  std::string device = "auto";
  bool no_cuda_graphs = false;
  int threads = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    static constexpr std::array<std::string_view, 2> kTrainingPrecisions{"fp32", "bf16"};
    static constexpr std::array<std::string_view, 3> kDevices{"auto", "cpu", "cuda"};
    const auto kept = [&](Field field, auto& value) {
      field.in = kShapesWeights;
      visit(field, value);
    };
    const auto now = [&](Field field, auto& value) {
      field.in = kThisStart;
      visit(field, value);
    };
    kept(Field{"max_steps", "Steps per stage, instead of epochs; 0 = as many as the epochs have", "--max-steps", 0},
         self.max_steps);
    kept(Field{"warmup_steps", "Warm-up steps, instead of a share", "--warmup-steps", 0}, self.warmup_steps);
    kept(Field{.name = "adam_epsilon", .help = "AdamW's epsilon", .flag = "--adam-epsilon", .low = 0, .open = true},
         self.adam_epsilon);
    kept(Field{"accumulation", "Gradient accumulation steps", "--accumulation", 1}, self.accumulation);
    kept(Field{"window", "Batches sorted by length together; 0 = plain shuffling", "--window", 0}, self.window);
    kept(Field{.name = "precision",
               .help = "fp32, or bf16 on CUDA",
               .flag = "--precision",
               .choices = kTrainingPrecisions},
         self.precision);
    now(Field{"log_every", "Steps between lines of log.jsonl; 0 = none", "--log-every", 0}, self.log_every);
    now(Field{"save_every", "Steps between checkpoints; 0 = none", "--save-every", 0}, self.save_every);
    now(Field{"keep_checkpoints", "Checkpoints to keep; 0 = all", "--keep-checkpoints", 0}, self.keep_checkpoints);
    now(Field{"trace", "Store every exit's logits of the final evaluation: trace-NAME.safetensors", "--trace"},
        self.trace);
    now(Field{"resume", "Continue from the newest intact checkpoint in --out", "--resume"}, self.resume);
    now(Field{"overwrite", "Replace an earlier run in --out", "--overwrite"}, self.overwrite);
    now(Field{.name = "device", .help = "Where to train", .flag = "--device", .choices = kDevices}, self.device);
    now(Field{"no_cuda_graphs", "On CUDA: launch each operation separately, for comparison", "--no-cuda-graphs"},
        self.no_cuda_graphs);
    now(Field{"threads", "CPU threads; 0 = LibTorch's default", "--threads", 0, 4096}, self.threads);
  }
};

}  // namespace exeunt
