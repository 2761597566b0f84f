// SPDX-License-Identifier: Apache-2.0
// BERT's normalisation: clean up, put spaces around ideographs, strip accents, lower case.
#pragma once

#include "exeunt/text/normalized_text.h"
#include "exeunt/text/normalizer.h"

namespace exeunt {

void apply(const BertCleanup& cleanup, NormalizedText& text);

// Lower case code point by code point.
void apply_lowercase(NormalizedText& text);

}  // namespace exeunt
