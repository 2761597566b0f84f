// SPDX-License-Identifier: Apache-2.0
// Bytes as a configuration: config.json of any family, or, where it calls itself so, exits.json or precision.json over
// a small model, or manifest.json. What is accepted must give tensors and cost figures, and must come back the same
// from our writers.
#include "exeunt/base/json.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/model/config.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/manifest.h"
#include "exeunt/model/spec.h"
#include "tests/fuzz/fuzz.h"

namespace exeunt {
namespace {

const ModelSpec kSmall{.layers = 4, .hidden = 8, .heads = 2, .inner = 12, .vocab = 11, .embedding = 8};

void use(const ModelSpec& spec, const ExitLayout& exits) {
  check_layout(spec, exits, "input");
  // Thousands of layers' names would be most of the work, and each layer is like the one before.
  if (spec.layers <= 4) check(count_parameters(spec, exits).total() > 0, "every model has parameters");
  check(departure_macs(spec, exits, {.after = spec.layers, .tokens = spec.max_tokens()}) > 0, "costs stay in range");
}

void read_config(const Json& value) {
  const ModelConfig config = parse_config(value, "input", Family::bert);
  use(config.spec, {});
  const std::string written = json_text(exeunt_config(config.spec));
  const ModelSpec again = read_ours([&] { return parse_config(parse_json(written, "ours"), "ours").spec; });
  check(json_text(exeunt_config(again)) == written, "what we write reads as the same model");
  if (config.heads.exit_layers && config.heads.exit_layers->rule)
    (void)config_policy(*config.heads.exit_layers->rule, 2);
}

void read_exits(const Json& value) {
  const ExitLayout exits = parse_exits(value, kSmall, "input");
  use(kSmall, exits);
  const std::string written = json_text(exits_json(exits));
  const ExitLayout again = read_ours([&] { return parse_exits(parse_json(written, "ours"), kSmall, "ours"); });
  check(json_text(exits_json(again)) == written, "what we write reads as the same layout");
}

void read_precisions(std::string_view text) {
  const PrecisionMap map = parse_precision_map(text, "input", kSmall);
  const std::string written = precision_map_text(map);
  const PrecisionMap again = read_ours([&] { return parse_precision_map(written, "ours", kSmall); });
  check(precision_map_text(again) == written, "what we write reads as the same precisions");
}

}  // namespace
}  // namespace exeunt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return exeunt::read_or_refuse([&] {
    const exeunt::Json value = exeunt::parse_json(exeunt::text_of(data, size), "input");
    const bool named = value.is_object() && value.contains("format") && value["format"].is_string();
    const std::string format = named ? value["format"].get<std::string>() : "";
    if (format.starts_with("exeunt.exits")) {
      exeunt::read_exits(value);
    } else if (format.starts_with("exeunt.manifest")) {
      (void)exeunt::parse_manifest(value, "input");
    } else if (format.starts_with("exeunt.precision")) {
      exeunt::read_precisions(exeunt::text_of(data, size));
    } else {
      exeunt::read_config(value);
    }
  });
}
