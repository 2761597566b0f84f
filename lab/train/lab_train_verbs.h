// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"
#include "lab/cli/auto_flags.h"

namespace exeunt::apps {

// `exeunt train --recipe auto`: several recipes on the user's data, compared on rows that none of them learned from,
// at the speed or the loss that is asked for. The winner becomes the model of --out. Throws Error; usage for another
// recipe than auto.
void train_auto(const Common& common, const TrainFlags& flags, const AutoFlags& choice);

// `exeunt pretrain`: flags to a corpus and options; the rest is lab/pretrain.
void add_pretrain(CommandLine& line);

}  // namespace exeunt::apps
