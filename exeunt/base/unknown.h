// SPDX-License-Identifier: Apache-2.0
// An error that another of our programs may not have.
#pragma once

#include "exeunt/base/error.h"

namespace exeunt {

// A name or a format that this program does not know. A larger one beside it may: run_program() asks it first.
class Unknown : public Error {
 public:
  using Error::Error;
};

}  // namespace exeunt
