// SPDX-License-Identifier: Apache-2.0
// Settings of `exeunt pretrain`; like those of `train` (settings.h) one list, from which flag, help, run.json and the
// comparison on --resume follow.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "exeunt/recipes/settings.h"

namespace exeunt {

struct PretrainSettings {
  int64_t steps = 0;
  double epochs = 1;
  int batch = 256, tokens = 128;
  double lr = 2e-4, warmup = 0.06, weight_decay = 0.01, clip = 1, adam_epsilon = 1e-6;
  double mask_share = 0.15, hold_out = 0.01;
  int groups = 2;
  bool no_equilibrium = false;
  int64_t seed = 42;
  std::string precision = "fp32";
  int log_every = 50, eval_every = 0, save_every = 1000, keep_checkpoints = 2;
  bool resume = false, overwrite = false;
  std::string device = "auto";
  bool no_cuda_graphs = false;
  int threads = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    static constexpr std::array<std::string_view, 2> kPretrainPrecisions{"fp32", "bf16"};
    static constexpr std::array<std::string_view, 3> kPretrainDevices{"auto", "cpu", "cuda"};
    const auto kept = [&](Field field, auto& value) {
      field.in = kShapesWeights;
      visit(field, value);
    };
    const auto now = [&](Field field, auto& value) {
      field.in = kThisStart;
      visit(field, value);
    };
    kept(Field{"steps", "Steps, instead of epochs; 0 = as many as the epochs have", "--steps", 0}, self.steps);
    kept(Field{.name = "epochs", .help = "Passes over the corpus", .flag = "--epochs", .low = 0, .open = true},
         self.epochs);
    kept(Field{"batch", "Rows of a step", "--batch", 1}, self.batch);
    kept(Field{"tokens", "Tokens of a row, special tokens included", "--max-length", 8, 1 << 14}, self.tokens);
    kept(Field{.name = "lr", .help = "Learning rate", .flag = "--lr", .low = 0, .open = true}, self.lr);
    kept(Field{"warmup", "Share of the steps with learning-rate warm-up, 0 to 1", "--warmup", 0, 1}, self.warmup);
    kept(Field{"weight_decay", "Weight decay", "--weight-decay", 0}, self.weight_decay);
    kept(Field{"clip", "Maximum gradient norm; 0 = no clipping", "--clip", 0}, self.clip);
    kept(Field{.name = "adam_epsilon", .help = "AdamW's epsilon", .flag = "--adam-epsilon", .low = 0, .open = true},
         self.adam_epsilon);
    kept(Field{"mask_share", "Share of the tokens that are predicted, 0 to 1", "--mask-share", 0, 1}, self.mask_share);
    kept(Field{"hold_out", "Share of the documents that is held out for evaluation, 0 to 0.5", "--hold-out", 0, 0.5},
         self.hold_out);
    kept(Field{"groups", "Groups of exits that take turns from step to step; the last exit is in all of them",
               "--groups", 1, 64},
         self.groups);
    kept(Field{"no_equilibrium", "Plain sum of the exits' gradients instead of ElasticBERT's equilibrium",
               "--no-equilibrium"},
         self.no_equilibrium);
    kept(Field{"seed", "Random seed", "--seed", 0}, self.seed);
    kept(Field{.name = "precision",
               .help = "fp32, or bf16 on CUDA",
               .flag = "--precision",
               .choices = kPretrainPrecisions},
         self.precision);
    now(Field{"log_every", "Steps between lines of log.jsonl; 0 = none", "--log-every", 0}, self.log_every);
    now(Field{"eval_every", "Steps between evaluations on the held-out documents; 0 = only at the end", "--eval-every",
              0},
        self.eval_every);
    now(Field{"save_every", "Steps between checkpoints; 0 = none", "--save-every", 0}, self.save_every);
    now(Field{"keep_checkpoints", "Checkpoints to keep; 0 = all", "--keep-checkpoints", 0}, self.keep_checkpoints);
    now(Field{"resume", "Continue from the newest intact checkpoint in --out", "--resume"}, self.resume);
    now(Field{"overwrite", "Replace an earlier run in --out", "--overwrite"}, self.overwrite);
    now(Field{.name = "device", .help = "Where to train", .flag = "--device", .choices = kPretrainDevices},
        self.device);
    now(Field{"no_cuda_graphs", "On CUDA: launch each operation separately, for comparison", "--no-cuda-graphs"},
        self.no_cuda_graphs);
    now(Field{"threads", "CPU threads; 0 = LibTorch's default", "--threads", 0, 4096}, self.threads);
  }
};

}  // namespace exeunt
