// SPDX-License-Identifier: Apache-2.0
// Readers report what is wrong; their caller often knows better how to fix it.
#pragma once

#include <string>
#include <string_view>

#include "exeunt/base/error.h"

namespace exeunt {

// Returns act(). Adds `hint` to an Error about a bad file that has no hint yet.
template <class Act>
decltype(auto) with_hint(std::string_view hint, Act&& act) {
  try {
    return act();
  } catch (const Error& error) {
    if (error.code() != Code::bad_file || !error.hint().empty()) throw;
    throw Error(Code::bad_file, error.what(), std::string(hint));
  }
}

}  // namespace exeunt
