// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/pages.h"

#include <array>

#include "exeunt/base/sha256.h"

namespace exeunt::serve {

std::optional<HttpResponse> playground_page(std::string_view path, std::string_view if_none_match) {
  struct Page {
    std::string_view path, asset, type;
    std::string tag = '"' + sha256_hex(serve_asset(asset)).substr(0, 16) + '"';
  };
  static const std::array<Page, 3> pages = {{{"/", "playground.html", "text/html; charset=utf-8"},
                                             {"/playground.css", "playground.css", "text/css; charset=utf-8"},
                                             {"/playground.js", "playground.js", "text/javascript; charset=utf-8"}}};
  if (path == "/favicon.ico") return HttpResponse{.status = 204, .type = {}};  // browsers ask; there is none
  for (const Page& page : pages) {
    if (page.path != path) continue;
    HttpResponse response;
    response.type = page.type;
    response.fields = {{"etag", page.tag},
                       {"cache-control", "no-cache"},  // revalidated each time, and answered with 304
                       {"content-security-policy",
                        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
                        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                       {"referrer-policy", "no-referrer"},
                       {"cross-origin-opener-policy", "same-origin"}};
    if (if_none_match == page.tag) {
      response.status = 304;
    } else {
      response.page = serve_asset(page.asset);
    }
    return response;
  }
  return std::nullopt;
}

}  // namespace exeunt::serve
