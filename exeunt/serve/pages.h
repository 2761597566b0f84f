// SPDX-License-Identifier: Apache-2.0
// Pages that do not change while the server runs: the playground and the OpenAPI document.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "exeunt/serve/http_message.h"

namespace exeunt {

// A file of web/ built into the server by cmake/embed.cmake: "playground.html", "openapi.json"; empty if there is none.
[[nodiscard]] std::string_view serve_asset(std::string_view name) noexcept;

}  // namespace exeunt

namespace exeunt::serve {

// A file of the playground by its path ("/", "/playground.css", "/playground.js"), with the fields that keep a browser
// from running anything else.
[[nodiscard]] std::optional<HttpResponse> playground_page(std::string_view path, std::string_view if_none_match);

}  // namespace exeunt::serve
