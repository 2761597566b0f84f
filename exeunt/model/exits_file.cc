// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/exits_file.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/manifest.h"

namespace exeunt {
namespace {

constexpr std::string_view kExitsFormat = "exeunt.exits/1";

std::optional<int> index_of(JsonObject& fields, std::string_view name) {
  if (fields.find(name) == nullptr) return std::nullopt;
  return static_cast<int>(fields.integer(name, 0, kMaxLayers));
}

// `reader` and `pooler` may be null but must be written: leaving one out by accident would change the model.
ExitSite parse_site(const Json& value, const std::string& where) {
  JsonObject fields(value, where);
  ExitSite site{.after = static_cast<int>(fields.integer("after", 0, kMaxLayers))};
  for (const char* name : {"reader", "pooler"}) {
    if (!value.contains(name)) throw_bad_file(where, "field '{}' is missing: want an index, or null for none", name);
  }
  site.reader = index_of(fields, "reader");
  site.pooler = index_of(fields, "pooler");
  const bool exit_0 = site.after == 0 && index_of(fields, "classifier") == std::nullopt;
  site.classifier = exit_0 ? kNoClassifier : static_cast<int>(fields.integer("classifier", 0, kMaxLayers));
  fields.finish();
  return site;
}

void parse_ngrams(JsonObject& fields, ExitLayout& exits) {
  const Json* ngrams = fields.find("ngrams");
  if (ngrams == nullptr) return;
  JsonObject parts(*ngrams, fields.where() + ": ngrams");
  exits.ngrams = NgramShape{.bits = static_cast<int>(parts.integer("bits", 1, kMaxNgramBits)),
                            .rank = static_cast<int>(parts.integer("rank", 1, kMaxNgramRank)),
                            .piece_bytes = parts.integer("piece_bytes", 0, kMaxPieceBytes)};
  parts.finish();
}

void parse_ramp(JsonObject& fields, ExitLayout& exits) {
  if (const Json* ramp = fields.find("last_ramp")) {
    JsonObject parts(*ramp, fields.where() + ": last_ramp");
    exits.last_ramp = ExitLayout::Ramp{static_cast<int>(parts.integer("pooler", 0, kMaxLayers)),
                                       static_cast<int>(parts.integer("classifier", 0, kMaxLayers))};
    parts.finish();
  }
  if (const Json* compat = fields.find("compat")) {
    JsonObject parts(*compat, fields.where() + ": compat");
    read_field(parts, {.name = "last_ramp", .required = true}, exits.compat_last_ramp);
    parts.finish();
  }
}

std::pair<double, double> parse_range(JsonObject& fields, const Json& range) {
  if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number()) {
    fields.fail("range", glimpse(range), "[low, high] or null");
  }
  return {range[0].get<double>(), range[1].get<double>()};
}

// Written with six digits, which survive the way to a logit and back; what they would make 0 or 1 could not be read.
std::vector<float> parse_thresholds(JsonObject& fields, const Json& thresholds) {
  std::vector<float> logit_thresholds;
  const auto fits = [](const Json& one) { return one.is_number() && one >= 0.000001 && one <= 0.999999; };
  if (!thresholds.is_array() || !std::all_of(thresholds.begin(), thresholds.end(), fits))
    fields.fail("thresholds", glimpse(thresholds), "a list of numbers from 0.000001 to 0.999999, or null");
  for (const Json& one : thresholds) {
    logit_thresholds.push_back(logit_of(one.get<double>()));
  }
  return logit_thresholds;
}

OrderedJson thresholds_json(const std::vector<float>& logit_thresholds) {
  OrderedJson out = OrderedJson::array();
  for (const float logit : logit_thresholds) out.push_back(threshold_of(logit));
  return out;
}

}  // namespace

ExitLayout parse_exits(const Json& value, const ModelSpec& spec, const std::string& where) {
  JsonObject fields(value, where);
  const std::string format = fields.string("format");
  if (format != kExitsFormat) {
    throw Error(Code::bad_file, fmt::format("{}: got format '{}', want '{}'", where, format, kExitsFormat),
                "the file was written by another version");
  }
  ExitLayout exits;
  exits.problem = *problem_named(fields.choice("problem", {"classification", "regression", "multi_label"}));
  exits.outputs = static_cast<int>(fields.integer("outputs", 0, kMaxOutputs));
  exits.labels = fields.strings("labels");
  if (const Json* thresholds = fields.find("thresholds"))
    exits.logit_thresholds = parse_thresholds(fields, *thresholds);
  if (const Json* range = fields.find("range")) exits.range = parse_range(fields, *range);
  read_field(fields, {.name = "pool_input", .required = true}, exits.input);
  const Json& sites = fields.get("exits");
  if (!sites.is_array()) fields.fail("exits", glimpse(sites), "a list of exits");
  for (size_t i = 0; i < sites.size(); ++i) {
    exits.sites.push_back(parse_site(sites[i], fmt::format("{}: exits[{}]", where, i)));
  }
  exits.width = static_cast<int>(fields.integer("width", 0, kMaxHidden));
  if (fields.find("inner") != nullptr) exits.inner = static_cast<int>(fields.integer("inner", 1, kMaxHidden));
  read_field(fields, {.name = "activation", .required = true}, exits.pooler.activation);
  exits.pooler.bias = fields.boolean_or("pooler_bias", true);
  exits.pooler.norm = fields.boolean_or("pooler_norm", false);
  exits.lte = fields.boolean_or("lte", false);
  parse_ramp(fields, exits);
  parse_ngrams(fields, exits);
  fields.finish();
  check_layout(spec, exits, where);
  return exits;
}

OrderedJson exits_json(const ExitLayout& exits) {
  OrderedJson out;
  out["format"] = std::string(kExitsFormat);
  out["problem"] = std::string(name_of(exits.problem));
  out["outputs"] = exits.outputs;
  out["labels"] = exits.labels;
  if (exits.problem == Problem::multi_label && !exits.logit_thresholds.empty())
    out["thresholds"] = thresholds_json(exits.logit_thresholds);
  out["range"] = exits.range ? OrderedJson{exits.range->first, exits.range->second} : OrderedJson(nullptr);
  out["pool_input"] = word_of(exits.input);
  out["exits"] = OrderedJson::array();
  for (const ExitSite& site : exits.sites) {
    out["exits"].push_back({{"after", site.after},
                            {"reader", field_json(site.reader)},
                            {"pooler", field_json(site.pooler)},
                            {"classifier", site.after == 0 ? OrderedJson(nullptr) : OrderedJson(site.classifier)}});
  }
  out["width"] = exits.width;
  out["inner"] = field_json(exits.inner);
  out["activation"] = word_of(exits.pooler.activation);
  // Only where a model needs them: files of others stay as they were.
  if (!exits.pooler.bias) out["pooler_bias"] = false;
  if (exits.pooler.norm) out["pooler_norm"] = true;
  out["lte"] = exits.lte;
  out["last_ramp"] = nullptr;
  if (exits.last_ramp) {
    out["last_ramp"] = {{"pooler", exits.last_ramp->pooler}, {"classifier", exits.last_ramp->classifier}};
  }
  out["compat"] = {{"last_ramp", word_of(exits.compat_last_ramp)}};
  if (exits.ngrams) {
    out["ngrams"] = {
        {"bits", exits.ngrams->bits}, {"rank", exits.ngrams->rank}, {"piece_bytes", exits.ngrams->piece_bytes}};
  }
  return out;
}

void write_thresholds(const std::filesystem::path& folder, const std::vector<float>& logit_thresholds) {
  const Checkpoint model = Checkpoint::open(folder.string());
  ExitLayout layout = model.exits();
  layout.logit_thresholds = logit_thresholds;
  check_layout(model.spec(), layout, (folder / kExitsFile).string());
  const std::string exits = json_text(exits_json(layout));
  const std::filesystem::path path = folder / kManifestFile;
  Manifest manifest = parse_manifest(read_json(ReadPath::in(folder, kManifestFile)), path.string());
  const auto write = [&] { write_atomically(path, json_text(manifest_json(manifest))); };
  manifest.erase(kExitsFile);  // two files cannot change at once: in between, the list says nothing of this one
  write();
  write_atomically(folder / kExitsFile, exits);
  manifest[kExitsFile] = {exits.size(), sha256_hex(exits)};
  write();
}

}  // namespace exeunt
