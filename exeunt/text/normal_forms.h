// SPDX-License-Identifier: Apache-2.0
// Unicode normal forms of a text that tracks its origin.
#pragma once

#include "exeunt/text/normalized_text.h"
#include "exeunt/text/normalizer.h"

namespace exeunt {

// Decomposes, orders the combining marks and, for nfc and nfkc, composes again.
void apply(NormalForm form, NormalizedText& text);

}  // namespace exeunt
