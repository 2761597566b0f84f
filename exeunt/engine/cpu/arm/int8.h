// SPDX-License-Identifier: Apache-2.0
// The two int8 products of the base table. Both read the same layout and give the same bits.
#pragma once

#include "exeunt/engine/cpu/cpu_kernels.h"

namespace exeunt::kernel {

void multiply_dot(const Product& product);       // by sdot, for processors with dotprod
void multiply_widening(const Product& product);  // by smull and pairwise additions, for all

}  // namespace exeunt::kernel
