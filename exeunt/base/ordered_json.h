// SPDX-License-Identifier: Apache-2.0
// JSON that is read and written again in its order, such as logs that are continued. As strict and as linear as
// read_json(): the library's own reader of ordered JSON looks through an object for each of its names.
#pragma once

#include "exeunt/base/json.h"

namespace exeunt {

[[nodiscard]] OrderedJson parse_ordered_json(std::string_view text, std::string_view where);
[[nodiscard]] OrderedJson read_ordered_json(const ReadPath& path, size_t limit);  // of bytes

}  // namespace exeunt
