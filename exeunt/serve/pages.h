// SPDX-License-Identifier: Apache-2.0
// Pages that do not change while the server runs: the playground's files and the description of the interface.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "exeunt/serve/http_message.h"

namespace exeunt::serve {

// A file of the playground by its path ("/", "/playground.css", "/playground.js"), with the fields that keep a browser
// from running anything else.
[[nodiscard]] std::optional<HttpResponse> playground_page(std::string_view path, std::string_view if_none_match);

[[nodiscard]] std::string openapi_text();

}  // namespace exeunt::serve
