// SPDX-License-Identifier: Apache-2.0
// Classifiers that know the classes before the first step: linear discriminants of what an untrained exit reads. With
// few rows for each of many classes most of a short training is else spent on finding them.
#pragma once

#include "exeunt/data/features.h"
#include "exeunt/train/network.h"

namespace exeunt::nn {

// Sets every classifier that is one exit's own, from at most a few thousand of the rows, spread evenly. Classes without
// a row answer like the mean of all. Classifiers of two layers and those that exits share stay as they are.
void start_from_prototypes(Network& network, const Features& rows);

}  // namespace exeunt::nn
