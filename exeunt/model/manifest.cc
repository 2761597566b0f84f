// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/manifest.h"

#include <system_error>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/sha256.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kManifestFormat = "exeunt.manifest/1";
constexpr uint64_t kQuickLimit = uint64_t{1} << 20;

// A name that stays in its folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

}  // namespace

Manifest parse_manifest(const Json& value, const std::string& where) {
  JsonObject fields(value, where);
  const std::string format = fields.string("format");
  if (format != kManifestFormat) throw_bad_file(where, "got format '{}', want '{}'", format, kManifestFormat);
  const Json& files = fields.get("files");
  if (!files.is_object()) fields.fail("files", glimpse(files), "an object");
  fields.finish();
  Manifest manifest;
  for (const auto& [name, entry] : files.items()) {
    if (!is_plain_name(name)) throw_bad_file(where, "got the file name '{}', want one inside the folder", name);
    JsonObject parts(entry, fmt::format("{}: '{}'", where, name));
    ManifestEntry out{.bytes = static_cast<uint64_t>(parts.integer("bytes", 0, INT64_MAX))};
    out.sha256 = parts.string("sha256");
    if (out.sha256.size() != 64 || !is_hex(out.sha256))
      parts.fail("sha256", glimpse(entry["sha256"]), "64 hexadecimal digits");
    parts.finish();
    manifest.emplace(name, std::move(out));
  }
  return manifest;
}

OrderedJson manifest_json(const Manifest& manifest) {
  OrderedJson out;
  out["format"] = std::string(kManifestFormat);
  OrderedJson::object_t files;  // filled at its end: out["files"][name] would look through all before it
  for (const auto& [name, entry] : manifest)
    files.emplace_back(name, OrderedJson{{"bytes", entry.bytes}, {"sha256", entry.sha256}});
  out["files"] = std::move(files);
  return out;
}

void verify_manifest(const Manifest& manifest, const fs::path& folder, Verify verify) {
  for (const auto& [name, entry] : manifest) {
    const fs::path path = folder / name;
    std::error_code missing;
    const uint64_t bytes = fs::file_size(path, missing);
    if (missing) throw_bad_file(path.string(), "is missing, but the manifest lists it");
    if (bytes != entry.bytes) {
      throw Error(Code::bad_file,
                  fmt::format("{}: got {} bytes, want {} as the manifest says", path.string(), bytes, entry.bytes),
                  "the folder was changed or copied in part: copy or make it again");
    }
    const bool meaning = name == "config.json" || name == "exits.json";  // a certificate stands on it
    if (verify == Verify::quick && bytes > kQuickLimit && !meaning) continue;
    const std::string hash = sha256_file(ReadPath::in(folder, name));
    if (hash != entry.sha256) {
      throw Error(Code::bad_file,
                  fmt::format("{}: got SHA-256 {}, want {} as the manifest says", path.string(), hash, entry.sha256),
                  "the file was changed after it was written: copy or make the folder again");
    }
  }
}

}  // namespace exeunt
