// SPDX-License-Identifier: Apache-2.0
// `exeunt train --recipe auto`: several recipes on the user's data, compared on rows that none of them learned from,
// at the speed or the loss that is asked for. The winner becomes the model of --out.
#pragma once

#include <string_view>

#include "apps/exeunt/command.h"
#include "apps/exeunt/train_flags.h"

namespace exeunt::apps {

inline constexpr std::string_view kAuto = "auto";

// For another recipe than auto: throws Error (usage) that names a flag which only goes with it.
void refuse_auto_flags(const TrainFlags& flags);

// Throws Error.
void train_auto(const Common& common, TrainFlags flags);

}  // namespace exeunt::apps
