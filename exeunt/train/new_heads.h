// SPDX-License-Identifier: Apache-2.0
// A network that starts from a checkpoint: its backbone as it is, its heads kept where they already are what the recipe
// asks for, otherwise new ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exeunt/data/features.h"
#include "exeunt/recipes/recipe.h"
#include "exeunt/train/network.h"

namespace exeunt::nn {

struct Start {
  Network network{nullptr};
  std::vector<std::string> notices;  // one line each, worth telling the user
  bool new_heads = true;             // not those the checkpoint had
};

// New heads are drawn as draw_weights() has it. copy_pooler copies the pretrained pooler of the exit's
// layer, else the only one, to every pooler (the left half of one behind a reader); without any, poolers are drawn too.
// keep_last takes the last exit from the checkpoint, where that has one of the same form for the same labels.
// Random numbers come from torch's generator, seeded with `seed`.
[[nodiscard]] Start start_network(const Checkpoint& base, const ExitLayout& layout, HeadInit init, uint64_t seed);

// New weights N(0, 0.02) for the parameters whose names begin with `prefix`; biases and readers' queries 0, norms 1.
void draw_weights(torch::nn::Module& module, const std::string& prefix = "");

// Sets the bias of every classifier to the mean of the labels that are numbers, so that it answers that at first: a
// regression that has to find it by small steps bends the backbone to it instead of its biases, and forgets what it
// knew.
void set_output_biases(NetworkImpl& network, std::span<const float> gold);

// Classifiers that know the classes before the first step: linear discriminants of what an untrained exit reads. With
// few rows for each of many classes most of a short training is else spent on finding them. Sets every classifier that
// one exit has for itself, from at most a few thousand of the rows, spread evenly. Classes without a row answer like
// the mean of all. Classifiers of two layers and those that exits share stay as they are.
void start_from_prototypes(Network& network, const Features& rows);

}  // namespace exeunt::nn
