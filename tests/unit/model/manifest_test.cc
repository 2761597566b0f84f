// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/manifest.h"

#include <fmt/format.h>

#include "exeunt/base/sha256.h"
#include "tests/fixtures/growth.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

std::string manifest_refusal(const std::string& text) {
  return error_of([&] { (void)parse_manifest(parse_json(text, "m"), "manifest.json"); }).what();
}

TEST(Manifest, RoundTrips) {
  const Manifest manifest{{"a.json", {3, sha256_hex("abc")}}};
  const Manifest again = parse_manifest(parse_json(json_text(manifest_json(manifest)), "m"), "m");
  EXPECT_EQ(again.at("a.json").bytes, 3U);
  EXPECT_EQ(again.at("a.json").sha256, sha256_hex("abc"));
}

TEST(Manifest, WritesManyFilesInLinearTime) {
  const auto files = [](size_t count) {
    Manifest manifest;
    for (size_t i = 0; i < count; ++i) manifest.emplace(fmt::format("{}", i), ManifestEntry{3, "0"});
    return manifest;
  };
  EXPECT_LT(growth_exponent(3000, files, [](const Manifest& manifest) { (void)manifest_json(manifest); }), 1.5);
}

TEST(Manifest, RejectsInvalidManifest) {
  EXPECT_THAT(manifest_refusal(R"({"format":"exeunt.manifest/9","files":{}})"), HasSubstr("want 'exeunt.manifest/1'"));
  EXPECT_THAT(manifest_refusal(R"({"format":"exeunt.manifest/1","files":[]})"), HasSubstr("want an object"));
  EXPECT_THAT(manifest_refusal(R"({"format":"exeunt.manifest/1","files":{},"x":1})"), HasSubstr("unknown field 'x'"));
  EXPECT_THAT(manifest_refusal(R"({"format":"exeunt.manifest/1","files":{"../x":{"bytes":1,"sha256":"0"}}})"),
              HasSubstr("got the file name '../x', want one inside the folder"));
  for (const char* name : {"", ".", ".."}) {
    EXPECT_THAT(manifest_refusal(fmt::format(
                    R"({{"format":"exeunt.manifest/1","files":{{"{}":{{"bytes":1,"sha256":"0"}}}}}})", name)),
                HasSubstr("want one inside the folder"));
  }
  EXPECT_THAT(manifest_refusal(R"({"format":"exeunt.manifest/1","files":{"x":{"bytes":1,"sha256":"0"}}})"),
              HasSubstr("want 64 hexadecimal digits"));
  EXPECT_THAT(manifest_refusal(R"({"format":"exeunt.manifest/1","files":{"x":{"bytes":-1,"sha256":"0"}}})"),
              HasSubstr("got -1"));
}

TEST(Manifest, DetectsMissingTruncatedAndChangedFiles) {
  const Scratch scratch;
  scratch.write("small", "abc");
  const std::string big((1 << 20) + 1, 'x');
  scratch.write("big", big);
  const Manifest manifest{{"big", {big.size(), sha256_hex(big)}}, {"small", {3, sha256_hex("abc")}}};
  const auto complaint = [&](Verify verify) {
    return std::string(error_of([&] { verify_manifest(manifest, scratch.path(), verify); }).what());
  };
  EXPECT_NO_THROW(verify_manifest(manifest, scratch.path(), Verify::full));
  scratch.write("small", "abd");
  EXPECT_THAT(complaint(Verify::quick), HasSubstr("small: got SHA-256"));
  scratch.write("small", "ab");
  EXPECT_THAT(complaint(Verify::quick), HasSubstr("small: got 2 bytes, want 3"));
  scratch.write("small", "abc");
  scratch.write("big", big + "x");
  EXPECT_THAT(complaint(Verify::quick), HasSubstr(fmt::format("big: got {} bytes", big.size() + 1)));
  scratch.write("big", big);
  std::filesystem::remove(scratch.path() / "small");
  EXPECT_THAT(complaint(Verify::quick), HasSubstr("small: is missing, but the manifest lists it"));
  scratch.write("small", "abc");
  scratch.write("big", std::string(big.size(), 'y'));
  EXPECT_NO_THROW(verify_manifest(manifest, scratch.path(), Verify::quick));
  EXPECT_THAT(complaint(Verify::full), HasSubstr("big: got SHA-256"));
}

// They say what the weights mean, however long they are.
TEST(Manifest, HashesConfigurationOfAnySize) {
  const Scratch scratch;
  const std::string big((1 << 20) + 1, 'x');
  for (const char* name : {"config.json", "exits.json"}) {
    scratch.write(name, std::string(big.size(), 'y'));
    const Manifest manifest{{name, {big.size(), sha256_hex(big)}}};
    EXPECT_THAT(error_of([&] { verify_manifest(manifest, scratch.path(), Verify::quick); }).what(),
                HasSubstr(fmt::format("{}: got SHA-256", name)));
  }
}

}  // namespace
}  // namespace exeunt
