// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/policy_file.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/exits/text_parts.h"

namespace exeunt {
namespace {

constexpr std::string_view kPolicyFormat = "exeunt.policy/1";
constexpr std::array<std::string_view, 3> kLosses{"disagreement", "zero_one_drop", "abs_diff"};
constexpr std::array<std::string_view, 4> kMethods{"ltt-binomial", "ltt-hb", "wsr", "crc"};

template <size_t N>
size_t place_of(std::string_view what, std::string_view name, const std::array<std::string_view, N>& names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  throw Error(Code::usage, fmt::format("unknown {} '{}'", what, name.substr(0, 64)), suggestion(name, known));
}

template <size_t N>
std::vector<std::string> texts(const std::array<std::string_view, N>& names) {
  return {names.begin(), names.end()};
}

double number_between(JsonObject& object, std::string_view name, double low, double high) {
  const double value = object.number(name);
  if (!(value >= low && value <= high))
    object.fail(name, fmt::format("{}", value), fmt::format("a number from {} to {}", low, high));
  return value;
}

double share(JsonObject& object, std::string_view name) {
  const double value = object.number(name);
  if (!(value > 0 && value < 1)) object.fail(name, fmt::format("{}", value), "a number above 0 and below 1");
  return value;
}

std::string hash(JsonObject& object, std::string_view name) {
  std::string value = object.string(name);
  const bool hex = value.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (value.size() != 64 || !hex) object.fail(name, fmt::format("\"{}\"", value.substr(0, 70)), "a sha256 in hex");
  return value;
}

std::vector<int> read_exits(JsonObject& object) {
  const Json& list = object.get("exits");
  std::vector<int> exits;
  if (!list.is_array() || list.empty() || list.size() > kMaxExits)
    object.fail("exits", glimpse(list), fmt::format("a list of 1 to {} layers", kMaxExits));
  for (const Json& layer : list) {
    const bool fits = layer.is_number_unsigned() && layer.get<uint64_t>() >= 1 && layer.get<uint64_t>() <= 1000;
    if (!fits || (!exits.empty() && layer.get<int>() <= exits.back()))
      object.fail("exits", glimpse(layer), "rising layers from 1 on");
    exits.push_back(layer.get<int>());
  }
  return exits;
}

std::vector<float> read_temperature(JsonObject& object) {
  const Json& list = object.get("temperature");
  std::vector<float> temperature;
  if (!list.is_array() || list.empty() || list.size() > kMaxExits)
    object.fail("temperature", glimpse(list), "a list of one number per exit of the model");
  for (const Json& value : list) {
    const float t = value.is_number() ? static_cast<float>(value.get<double>()) : -1.0F;
    if (!(t > 0) || std::isinf(t)) object.fail("temperature", glimpse(value), "finite numbers above 0");
    temperature.push_back(t);
  }
  return temperature;
}

DataPart read_part(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  DataPart part;
  part.data = hash(object, "data");
  part.rows = object.integer("rows", 0, int64_t{1} << 40);
  object.finish();
  return part;
}

Certificate read_certificate(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  Certificate certificate;
  certificate.loss = loss_named(object.choice("loss", texts(kLosses)));
  certificate.method = method_named(object.choice("method", texts(kMethods)));
  const std::string wanted = certificate.method == RiskMethod::crc ? "expectation" : "probability";
  const std::string guarantee = object.choice("guarantee", {"probability", "expectation"});
  if (guarantee != wanted)
    object.fail("guarantee", fmt::format("\"{}\"", guarantee),
                fmt::format("\"{}\": that is what {} gives", wanted, name_of(certificate.method)));
  certificate.epsilon = share(object, "epsilon");
  certificate.delta = share(object, "delta");
  certificate.rows = object.integer("n", 1, int64_t{1} << 40);
  const auto rows = static_cast<double>(certificate.rows);
  certificate.losses = number_between(object, "losses", -rows, rows);
  certificate.budgets = static_cast<int>(object.integer("budgets", 1, 1000));
  certificate.families = static_cast<int>(object.integer("families", 1, 1000));
  certificate.fit = read_part(object.get("fit"), where + ".fit");
  certificate.certify = read_part(object.get("certify"), where + ".certify");
  certificate.engine = object.string("engine");
  certificate.tool = object.string("tool");
  certificate.created = object.string("created");
  object.finish();
  return certificate;
}

// Shares of the rows that left at each evaluated exit; they sum to 1 within what floats lose.
std::vector<float> read_exit_rates(JsonObject& point, size_t exits) {
  const Json* list = point.find("exit_rates");
  if (list == nullptr) return {};
  if (!list->is_array() || list->size() != exits)
    point.fail("exit_rates", glimpse(*list), fmt::format("a list of {} shares, one per evaluated exit", exits));
  std::vector<float> rates;
  double sum = 0;
  for (const Json& value : *list) {
    const double rate = value.is_number() ? value.get<double>() : -1.0;
    if (!(rate >= 0 && rate <= 1)) point.fail("exit_rates", glimpse(value), "shares from 0 to 1");
    rates.push_back(static_cast<float>(rate));
    sum += rate;
  }
  if (std::abs(sum - 1) > 1e-3) point.fail("exit_rates", fmt::format("a sum of {:g}", sum), "shares that sum to 1");
  return rates;
}

std::vector<PolicyPoint> read_points(JsonObject& entry, size_t exits) {
  const Json& list = entry.get("points");
  if (!list.is_array() || list.size() > 1000) entry.fail("points", glimpse(list), "a list of at most 1000 points");
  std::vector<PolicyPoint> points;
  for (const Json& value : list) {
    const std::string where = fmt::format("{}.points[{}]", entry.where(), points.size());
    JsonObject object(value, where);
    PolicyPoint point;
    point.policy = parse_policy(object.string("policy"), where + ".policy");
    point.epsilon = share(object, "epsilon");
    point.cost_fraction = number_between(object, "cost_fraction", 0, 1);
    if (!points.empty() && point.epsilon <= points.back().epsilon)
      object.fail("epsilon", fmt::format("{}", point.epsilon), "points of rising epsilon");
    point.exit_rates = read_exit_rates(object, exits);
    object.finish();
    points.push_back(std::move(point));
  }
  return points;
}

PolicyEntry read_entry(const Json& value, const std::string& where) {
  JsonObject object(value, where);
  PolicyEntry entry;
  if (object.find("precision_map") != nullptr) entry.precision_map = hash(object, "precision_map");
  entry.exits = read_exits(object);
  entry.temperature = read_temperature(object);
  entry.policy = parse_policy(object.string("policy"), where + ".policy");
  entry.points = read_points(object, entry.exits.size());
  if (!entry.points.empty() && entry.points.front().policy != entry.policy)
    object.fail("points", fmt::format("'{}' first", str(entry.points.front().policy)),
                fmt::format("the entry's own policy '{}' first", str(entry.policy)));
  if (const Json* certificate = object.find("certificate"))
    entry.certificate = read_certificate(*certificate, where + ".certificate");
  object.finish();
  return entry;
}

// A float as JSON prints it shortest: 0.3, not the 0.30000001192092896 of its double.
double short_double(float value) {
  return *number_of<double>(shortest(value));
}

OrderedJson part_json(const DataPart& part) {
  return {{"data", part.data}, {"rows", part.rows}};
}

OrderedJson certificate_json(const Certificate& c) {
  return {{"loss", name_of(c.loss)},
          {"epsilon", c.epsilon},
          {"delta", c.delta},
          {"guarantee", c.method == RiskMethod::crc ? "expectation" : "probability"},
          {"method", name_of(c.method)},
          {"n", c.rows},
          {"losses", c.losses},
          {"budgets", c.budgets},
          {"families", c.families},
          {"fit", part_json(c.fit)},
          {"certify", part_json(c.certify)},
          {"engine", c.engine},
          {"tool", c.tool},
          {"created", c.created}};
}

OrderedJson entry_json(const PolicyEntry& entry) {
  OrderedJson json;
  json["precision_map"] = entry.precision_map ? OrderedJson(*entry.precision_map) : OrderedJson(nullptr);
  json["exits"] = entry.exits;
  json["temperature"] = OrderedJson::array();
  for (const float t : entry.temperature) json["temperature"].push_back(short_double(t));
  json["policy"] = str(entry.policy);
  json["points"] = OrderedJson::array();
  for (const PolicyPoint& point : entry.points) {
    OrderedJson made{{"policy", str(point.policy)}, {"epsilon", point.epsilon}, {"cost_fraction", point.cost_fraction}};
    for (const float rate : point.exit_rates) made["exit_rates"].push_back(short_double(rate));
    json["points"].push_back(std::move(made));
  }
  json["certificate"] = entry.certificate ? certificate_json(*entry.certificate) : OrderedJson(nullptr);
  return json;
}

}  // namespace

std::string_view name_of(Loss loss) noexcept {
  return kLosses[static_cast<size_t>(loss)];
}
std::string_view name_of(RiskMethod method) noexcept {
  return kMethods[static_cast<size_t>(method)];
}
Loss loss_named(std::string_view name) {
  return static_cast<Loss>(place_of("loss", name, kLosses));
}
RiskMethod method_named(std::string_view name) {
  return static_cast<RiskMethod>(place_of("method", name, kMethods));
}

PolicySpec PolicyEntry::complete(const PolicySpec& rule) const {
  PolicySpec spec = rule;
  spec.exits = exits;
  spec.temperature = temperature;
  return spec;
}

std::vector<float> PolicyEntry::exit_rates(const PolicySpec& rule) const {
  const auto found =
      std::find_if(points.begin(), points.end(), [&](const PolicyPoint& point) { return point.policy == rule; });
  return found == points.end() ? std::vector<float>{} : found->exit_rates;
}

const std::vector<std::string>& policy_precisions() {
  static const std::vector<std::string> names{"fp32", "bf16", "int8", "external"};
  return names;
}

PolicyFile parse_policy_file(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  const std::string format = object.string("format");
  if (format != kPolicyFormat)
    throw_bad_file(where, "got the format '{}', want '{}'", format.substr(0, 64), kPolicyFormat);
  PolicyFile file;
  file.weights = hash(object, "weights");
  file.default_precision = object.choice("default_precision", policy_precisions());
  const Json& entries = object.get("entries");
  if (!entries.is_object()) object.fail("entries", glimpse(entries), "an object by precision");
  for (const auto& [precision, value] : entries.items()) {
    const std::vector<std::string>& known = policy_precisions();
    if (std::find(known.begin(), known.end(), precision) == known.end())
      throw_bad_file(where, Hint{suggestion(precision, known)}, "entries: unknown precision '{}'", precision);
    file.entries.emplace(precision, read_entry(value, fmt::format("{}: entries.{}", where, precision)));
  }
  object.finish();
  return file;
}

PolicyFile read_policy_file(const std::filesystem::path& path) {
  return parse_policy_file(read_json(path, size_t{1} << 24), path.string());
}

std::string policy_file_text(const PolicyFile& file) {
  OrderedJson json;
  json["format"] = kPolicyFormat;
  json["weights"] = file.weights;
  json["default_precision"] = file.default_precision;
  json["entries"] = OrderedJson::object();
  for (const std::string& precision : policy_precisions()) {
    const auto found = file.entries.find(precision);
    if (found != file.entries.end()) json["entries"][precision] = entry_json(found->second);
  }
  return json_text(json);
}

}  // namespace exeunt
