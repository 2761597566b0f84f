// SPDX-License-Identifier: Apache-2.0
// Readers say what is wrong; whoever called them often knows better what to do about it.
#pragma once

#include <string>
#include <string_view>

#include "exeunt/base/error.h"

namespace exeunt {

// What `act` gives. An Error about a bad file that has no hint of its own leaves with `hint`.
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
