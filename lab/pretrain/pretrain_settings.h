// SPDX-License-Identifier: Apache-2.0
// Settings of `exeunt pretrain`; like those of `train` (settings.h) one list, from which flag, help, run.json and the
// comparison on --resume follow.
#pragma once

#include <cstdint>
#include <string>

#include "exeunt/recipes/settings.h"

namespace exeunt {

struct PretrainSettings : RunSettings {
  PretrainSettings() { save_every = 1000; }

  int64_t steps = 0;
  double epochs = 1;
  int batch = 256, accumulation = 1, tokens = 128;
  double lr = 2e-4, warmup = 0.06, weight_decay = 0.01, clip = 1, adam_epsilon = 1e-6;
  double mask_share = 0.15, hold_out = 0.01;
  int groups = 2;
  bool no_equilibrium = false;
  int64_t seed = 42;
  int eval_every = 0;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(shapes_weights({"steps", "Steps, instead of epochs; 0 = as many as the epochs have", "--max-steps", 0}),
          self.steps);
    visit(shapes_weights(
              {.name = "epochs", .help = "Passes over the corpus", .flag = "--epochs", .low = 0, .open = true}),
          self.epochs);
    visit(shapes_weights({"batch", "Batch size, in rows of all processes together", "--batch", 1}), self.batch);
    visit(shapes_weights({"accumulation", "Gradient accumulation steps: batches in a step", "--accumulation", 1}),
          self.accumulation);
    visit(shapes_weights({"tokens", "Tokens of a row, special tokens included", "--max-length", 8, 1 << 14}),
          self.tokens);
    visit(shapes_weights({.name = "lr", .help = "Learning rate", .flag = "--lr", .low = 0, .open = true}), self.lr);
    visit(shapes_weights({"warmup", "Share of the steps with learning-rate warm-up, 0 to 1", "--warmup", 0, 1}),
          self.warmup);
    visit(shapes_weights({"weight_decay", "Weight decay", "--weight-decay", 0}), self.weight_decay);
    visit(shapes_weights({"clip", "Maximum gradient norm; 0 = no clipping", "--clip", 0}), self.clip);
    visit(shapes_weights(
              {.name = "adam_epsilon", .help = "AdamW's epsilon", .flag = "--adam-epsilon", .low = 0, .open = true}),
          self.adam_epsilon);
    visit(shapes_weights({"mask_share", "Share of the tokens to mask and predict, 0 to 1", "--mask-share", 0, 1}),
          self.mask_share);
    visit(shapes_weights(
              {"hold_out", "Share of the documents that is held out for evaluation, 0 to 0.5", "--hold-out", 0, 0.5}),
          self.hold_out);
    visit(
        shapes_weights({"groups", "Groups of exits that take turns from step to step; the last exit is in all of them",
                        "--groups", 1, 64}),
        self.groups);
    visit(shapes_weights({"no_equilibrium", "Plain sum of the exits' gradients instead of ElasticBERT's equilibrium",
                          "--no-equilibrium"}),
          self.no_equilibrium);
    visit(shapes_weights({"seed", "Random seed", "--seed", 0}), self.seed);
    visit(this_start({"eval_every", "Steps between evaluations on the held-out documents; 0 = only at the end",
                      "--eval-every", 0}),
          self.eval_every);
    RunSettings::fields(self, visit);
  }
};

}  // namespace exeunt
