// SPDX-License-Identifier: Apache-2.0
// Requests as nobody should send them: sound ones of every protocol, damaged at random. The same seed gives the same
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace exeunt::load {

[[nodiscard]] const std::vector<std::string>& sound_requests();
[[nodiscard]] std::string mutated_request(uint64_t seed);

}  // namespace exeunt::load
