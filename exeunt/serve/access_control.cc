// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/access_control.h"

#include <algorithm>

#include <arpa/inet.h>
#include <openssl/crypto.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/sha256.h"

namespace exeunt::serve {
namespace {

bool holds(const std::vector<std::string>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

// Without the port: "example.org", "127.0.0.1", "::1".
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) return lower(host.substr(1, host.find(']') - 1));
  return lower(host.substr(0, host.find(':')));
}

bool is_loopback_name(const std::string& name) {
  in_addr address{};
  if (::inet_pton(AF_INET, name.c_str(), &address) == 1) return (ntohl(address.s_addr) >> 24) == 127;
  return name == "localhost" || name.ends_with(".localhost") || name == "::1";
}

}  // namespace

void check_host(const HttpRequest& request, const AccessOptions& options) {
  if (!options.loopback && options.hosts.empty()) return;
  const std::string_view host = request.field("host");
  if (host.empty()) return;  // HTTP/1.0: not a browser
  const std::string name = host_name(host);
  if (holds(options.hosts, name) || (options.loopback && is_loopback_name(name))) return;
  throw Refusal(403, ErrorType::validation, "the Host field does not name this server",
                "start the server with --allowed-host and the name its clients use");
}

void check_origin(const HttpRequest& request, const AccessOptions& options) {
  const std::string_view origin = request.field("origin");
  if (origin.empty() || holds(options.origins, "*") || holds(options.origins, origin)) return;
  const std::string_view host = request.field("host");
  if (origin == fmt::format("http://{}", host) || origin == fmt::format("https://{}", host)) return;
  throw Refusal(403, ErrorType::validation, "pages of another origin may not send requests",
                "start the server with --cors-allow-origin and that origin");
}

void check_content_type(const HttpRequest& request) {
  const std::string_view type = request.field("content-type");
  if (type.empty() && request.field("origin").empty()) return;
  const bool one = type.find(',') == std::string_view::npos;
  if (one && lower(trimmed(type.substr(0, type.find(';')), kHttpWhitespace)) == "application/json") return;
  throw Refusal(415, ErrorType::validation, "the content type is not application/json",
                "send 'Content-Type: application/json'");
}

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) hashes_.push_back(sha256_hex(key));
}

bool ApiKeys::allow(std::string_view authorization) const {
  constexpr std::string_view scheme = "bearer ";
  if (lower(authorization.substr(0, scheme.size())) != scheme) return false;
  const std::string hash = sha256_hex(authorization.substr(scheme.size()));
  bool found = false;
  for (const std::string& known : hashes_) found |= CRYPTO_memcmp(hash.data(), known.data(), hash.size()) == 0;
  return found;
}

std::vector<std::string> parse_keys(std::string_view text, std::string_view where) {
  std::vector<std::string> keys;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const bool clean = std::ranges::all_of(line, [](char c) { return c > ' ' && c < 0x7f; });
    if (!clean || line.size() < 8) {
      throw Error(Code::usage,
                  fmt::format("{}: line {}: want a key of 8 or more visible ASCII characters", where, number),
                  "make one with 'openssl rand -hex 32'");
    }
    keys.emplace_back(line);
  }
  if (keys.empty()) throw Error(Code::usage, fmt::format("{}: no key", where), "want one key per line");
  return keys;
}

}  // namespace exeunt::serve
