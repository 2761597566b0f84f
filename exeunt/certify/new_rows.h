// SPDX-License-Identifier: Apache-2.0
// Which rows of a trace may test a promise: those whose texts the model has not learned.
#pragma once

#include <span>
#include <string>

#include "exeunt/eval/measure.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// Removes the rows that the model was trained on; if `strict`, those that contain or are contained in a learned text,
// too. Traces of several models over the same rows lose what any of these models learned. Notices say how many, or that
// it is not known what a model learned. Throws Error (usage) if most of the rows were learned, or none is left.
void keep_new_rows(std::span<ExitTrace* const> traces, bool strict, const Observer& observer);

// That scores on a trace are too good, because the model learned some of its rows; empty where it did not.
[[nodiscard]] std::string learned_text(const ExitTrace& trace);

}  // namespace exeunt
