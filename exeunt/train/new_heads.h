// SPDX-License-Identifier: Apache-2.0
// A network that starts from a checkpoint: its backbone as it is, its heads kept where they already are what the recipe
// asks for, otherwise new ones.
#pragma once

#include <string>
#include <vector>

#include "exeunt/recipes/recipe.h"
#include "exeunt/train/network.h"

namespace exeunt::nn {

struct Start {
  Network network{nullptr};
  std::vector<std::string> notices;  // one line each, worth telling the user
  bool new_heads = true;             // not those the checkpoint had
};

// New weights are N(0, 0.02), biases and readers' queries 0. copy_pooler copies the pretrained pooler of the exit's
// layer, else the only one, to every pooler (the left half of one behind a reader); without any, poolers are drawn too.
// keep_last takes the last exit from the checkpoint, where that has one of the same form for the same labels.
// Random numbers come from torch's generator, seeded with `seed`.
[[nodiscard]] Start start_network(const Checkpoint& base, const ExitLayout& layout, HeadInit init, uint64_t seed);

// Sets the bias of every classifier to `value`, so that it answers that at first: a regression that has to find the
// mean of its labels by small steps bends the backbone to it instead of its biases, and forgets what it knew.
void set_output_biases(NetworkImpl& network, double value);

}  // namespace exeunt::nn
