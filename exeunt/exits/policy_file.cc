// SPDX-License-Identifier: Apache-2.0
#include "exeunt/exits/policy_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/exits/policy_text.h"

namespace exeunt {
namespace {

constexpr std::string_view kPolicyFormat = "exeunt.policy/1";
constexpr double kMostRows = double{1ULL << 40};
constexpr std::string_view kPrecisions[] = {"fp32", "bf16", "int8", "external"};

// Follows from the method; stored for human readers.
struct Guarantee {
  RiskMethod method;
};

std::string_view name_of(Guarantee guarantee) {
  return guarantee.method == RiskMethod::crc ? "expectation" : "probability";
}

void read_field(JsonObject& object, const Field& field, Guarantee& guarantee) {
  const auto methods = names_of(RiskMethod{});
  guarantee.method = method_named(object.choice("method", {methods.begin(), methods.end()}));
  const std::string got = object.choice(field.name, {"probability", "expectation"});
  if (got == name_of(guarantee)) return;
  object.fail(field.name, fmt::format("\"{}\"", got),
              fmt::format("\"{}\": that is what {} gives", name_of(guarantee), name_of(guarantee.method)));
}
OrderedJson field_json(const Guarantee& guarantee) {
  return name_of(guarantee);
}

}  // namespace

// Custom formats, found by fields.h.
static void read_field(JsonObject& object, const Field& field, PolicySpec& policy) {
  policy = parse_policy(object.string(field.name), fmt::format("{}.{}", object.where(), field.name));
}
static OrderedJson field_json(const PolicySpec& policy) {
  return str(policy);
}
static void read_field(JsonObject& object, const Field& field, std::map<std::string, PolicyEntry>& entries);
static OrderedJson field_json(const std::map<std::string, PolicyEntry>& entries);

template <>
std::string wanted<PolicySpec>(const Field&) {
  return "a policy as text";
}
template <>
std::string wanted<Guarantee>(const Field&) {
  return "one of probability, expectation";
}

template <class Self, class Visit>
void DataPart::fields(Self& self, Visit&& visit) {
  visit(Field{.name = "data", .help = "SHA-256 of the data", .required = true}, self.data);
  visit(Field{.name = "rows", .help = "Rows", .low = 0, .high = kMostRows, .required = true}, self.rows);
}

template <class Self, class Visit>
void Certificate::fields(Self& self, Visit&& visit) {
  Guarantee guarantee{self.method};
  visit(Field{.name = "loss", .help = "What an early answer loses against full depth", .required = true}, self.loss);
  visit(Field{.name = "epsilon", .help = "Largest mean loss", .low = 0, .high = 1, .open = true, .required = true},
        self.epsilon);
  visit(Field{.name = "delta",
              .help = "1 - confidence, shared by all budgets",
              .low = 0,
              .high = 1,
              .open = true,
              .required = true},
        self.delta);
  visit(Field{.name = "guarantee", .help = "Follows from the method", .required = true}, guarantee);
  visit(Field{.name = "method", .help = "The risk bound", .required = true}, self.method);
  visit(Field{.name = "n", .help = "Rows of the certify part", .low = 1, .high = kMostRows, .required = true},
        self.rows);
  visit(Field{.name = "losses", .help = "Their sum over these rows, from -n to n", .required = true}, self.losses);
  visit(Field{.name = "budgets", .help = "Budgets certified together", .low = 1, .high = 1000, .required = true},
        self.budgets);
  visit(Field{.name = "families", .help = "Families tested on these rows", .low = 1, .high = 1000, .required = true},
        self.families);
  visit(Field{.name = "fit", .help = "The part that chose temperatures, family and order", .required = true}, self.fit);
  visit(Field{.name = "certify", .help = "The part that tested", .required = true}, self.certify);
  visit(Field{.name = "engine", .help = "What computed the trace", .required = true}, self.engine);
  visit(Field{.name = "tool", .help = "Version of exeunt", .required = true}, self.tool);
  visit(Field{.name = "created", .help = "RFC 3339", .required = true}, self.created);
}

template <class Self, class Visit>
void PolicyPoint::fields(Self& self, Visit&& visit) {
  visit(Field{.name = "policy", .help = "Rule and parameters", .required = true}, self.policy);
  visit(Field{.name = "epsilon",
              .help = "Its budget, increasing from point to point",
              .low = 0,
              .high = 1,
              .open = true,
              .required = true},
        self.epsilon);
  visit(Field{.name = "cost_fraction",
              .help = "Layers run over all layers, on the certify part",
              .low = 0,
              .high = 1,
              .required = true},
        self.cost_fraction);
  visit(Field{.name = "exit_rates",
              .help = "Share of the certify rows that left at each evaluated exit",
              .low = 0,
              .high = 1,
              .omit_empty = true},
        self.exit_rates);
}

template <class Self, class Visit>
void PolicyEntry::fields(Self& self, Visit&& visit) {
  visit(Field{.name = "precision_map", .help = "SHA-256 of this precision's part of precision.json"},
        self.precision_map);
  visit(Field{.name = "exits",
              .help = "Layers whose exits are evaluated, increasing, including the last exit",
              .low = 1,
              .high = 1000,
              .required = true},
        self.exits);
  visit(Field{.name = "temperature",
              .help = "One per exit of the model; 1 is no scaling",
              .low = 0,
              .open = true,
              .required = true},
        self.temperature);
  visit(Field{.name = "policy", .help = "What runs by default", .required = true}, self.policy);
  visit(Field{.name = "points", .help = "Policies to choose from by budget; the first is `policy`", .required = true},
        self.points);
  visit(Field{.name = "certificate", .help = "What was promised of `policy`, and by what test"}, self.certificate);
}

template <class Self, class Visit>
void PolicyFile::fields(Self& self, Visit&& visit) {
  visit(Field{.name = "weights", .help = "SHA-256 of the model's weights", .required = true}, self.weights);
  visit(Field{.name = "default_precision", .help = "What runs unless told", .choices = kPrecisions, .required = true},
        self.default_precision);
  visit(Field{.name = "entries", .help = "An entry for each precision that has one", .required = true}, self.entries);
}

namespace {

void require_hash(const std::string& where, std::string_view field, const std::string& text) {
  if (text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos) return;
  throw_bad_file(where, "field '{}': got \"{}\", want a sha256 in hex", field, text.substr(0, 70));
}

void check_points(const PolicyEntry& entry, const std::string& where) {
  if (entry.points.size() > 1000)
    throw_bad_file(where, "field 'points': got {}, want a list of at most 1000 points", entry.points.size());
  if (!entry.points.empty() && entry.points.front().policy != entry.policy)
    throw_bad_file(where, "field 'points': got '{}' first, want the entry's own policy '{}' first",
                   str(entry.points.front().policy), str(entry.policy));
  for (size_t i = 0; i < entry.points.size(); ++i) {
    const PolicyPoint& point = entry.points[i];
    const std::string here = fmt::format("{}: points[{}]", where, i);
    if (i > 0 && point.epsilon <= entry.points[i - 1].epsilon)
      throw_bad_file(here, "field 'epsilon': got {}, want points of increasing epsilon", point.epsilon);
    if (point.exit_rates.empty()) continue;
    if (point.exit_rates.size() != entry.exits.size())
      throw_bad_file(here, "field 'exit_rates': got {}, want a list of {} shares, one per evaluated exit",
                     point.exit_rates.size(), entry.exits.size());
    double sum = 0;
    for (const float rate : point.exit_rates) sum += rate;
    if (std::abs(sum - 1) > 1e-3)
      throw_bad_file(here, "field 'exit_rates': got a sum of {:g}, want shares that sum to 1", sum);
  }
}

// What a list of fields cannot say.
void check_entry(const PolicyEntry& entry, const std::string& where) {
  if (entry.precision_map) require_hash(where, "precision_map", *entry.precision_map);
  if (entry.exits.empty() || entry.exits.size() > kMaxExits)
    throw_bad_file(where, "field 'exits': got {}, want a list of 1 to {} layers", entry.exits.size(), kMaxExits);
  if (!std::is_sorted(entry.exits.begin(), entry.exits.end(), std::less_equal<>()))
    throw_bad_file(where, "field 'exits': got {}, want increasing layers", fmt::join(entry.exits, ", "));
  if (entry.temperature.empty() || entry.temperature.size() > kMaxExits)
    throw_bad_file(where, "field 'temperature': got {} numbers, want one per exit of the model",
                   entry.temperature.size());
  for (const float t : entry.temperature)
    if (!(t > 0) || std::isinf(t)) throw_bad_file(where, "field 'temperature': got {}, want finite numbers above 0", t);
  check_points(entry, where);
  if (!entry.certificate) return;
  if (std::abs(entry.certificate->losses) > static_cast<double>(entry.certificate->rows))
    throw_bad_file(where + ": certificate", "field 'losses': got {}, want a number from -{} to {}",
                   entry.certificate->losses, entry.certificate->rows, entry.certificate->rows);
  require_hash(where + ": certificate: fit", "data", entry.certificate->fit.data);
  require_hash(where + ": certificate: certify", "data", entry.certificate->certify.data);
}

// Is the file behind `descriptor` still the one at `path`? Its previous holder may have removed it in the meantime.
bool same_file(int descriptor, const std::filesystem::path& path) {
  struct stat held {
  }, found{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &found) == 0 && held.st_ino == found.st_ino &&
         held.st_dev == found.st_dev;
}

}  // namespace

static void read_field(JsonObject& object, const Field& field, std::map<std::string, PolicyEntry>& entries) {
  const Json& list = object.get(field.name);
  if (!list.is_object()) object.fail(field.name, glimpse(list), "an object by precision");
  for (const auto& [precision, value] : list.items()) {
    const std::vector<std::string>& known = policy_precisions();
    if (std::find(known.begin(), known.end(), precision) == known.end())
      throw_bad_file(object.where(), Hint{suggestion(precision, known)}, "entries: unknown precision '{}'", precision);
    const std::string where = fmt::format("{}: entries.{}", object.where(), precision);
    const PolicyEntry& entry = entries[precision] = read_fields<PolicyEntry>(value, where);
    check_entry(entry, where);
  }
}

static OrderedJson field_json(const std::map<std::string, PolicyEntry>& entries) {
  OrderedJson out = OrderedJson::object();
  for (const std::string& precision : policy_precisions())
    if (const auto found = entries.find(precision); found != entries.end()) out[precision] = fields_json(found->second);
  return out;
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
  static const std::vector<std::string> names(std::begin(kPrecisions), std::end(kPrecisions));
  return names;
}

PolicyFile parse_policy_file(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  JsonObject object(json, where);
  const std::string format = object.string("format");
  if (format != kPolicyFormat)
    throw_bad_file(where, "got the format '{}', want '{}'", format.substr(0, 64), kPolicyFormat);
  PolicyFile file;
  read_fields(object, file);
  require_hash(where, "weights", file.weights);
  object.finish();
  return file;
}

PolicyFile read_policy_file(const std::filesystem::path& path) {
  return parse_policy_file(read_text(path, size_t{1} << 24), path.string());
}

std::string policy_file_text(const PolicyFile& file) {
  OrderedJson json{{"format", kPolicyFormat}};
  json.update(fields_json(file));
  return json_text(json);
}

std::string policy_file_tables() {
  return fmt::format(
      "The file, after `\"format\": \"{}\"`:\n\n{}\nAn entry:\n\n{}\nA point:\n\n{}\nA certificate:"
      "\n\n{}\nIts `fit` and `certify`:\n\n{}",
      kPolicyFormat, field_table<PolicyFile>(), field_table<PolicyEntry>(), field_table<PolicyPoint>(),
      field_table<Certificate>(), field_table<DataPart>());
}

// A hidden file next to policy.json, locked with flock, so that the lock is released when its holder dies.
PolicyLock::PolicyLock(std::filesystem::path path)
    : path_(std::move(path)), lock_(path_.parent_path() / fmt::format(".{}.lock", path_.filename().string())) {
  while (true) {
    descriptor_ = ::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) {
      throw Error(Code::resources, fmt::format("{}: cannot lock: {}", path_.string(), std::strerror(errno)),
                  "choose a folder you may write to");
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const bool busy = errno == EWOULDBLOCK;
      const std::string why = busy ? "another calibration is using it" : std::strerror(errno);
      ::close(descriptor_);
      throw Error(Code::resources, fmt::format("{}: cannot lock: {}", path_.string(), why),
                  busy ? "wait until it is done, or write elsewhere with --out" : "");
    }
    if (same_file(descriptor_, lock_)) return;
    ::close(descriptor_);
  }
}

PolicyLock::~PolicyLock() {
  ::unlink(lock_.c_str());  // while still held, so that nobody locks a file that is about to go
  ::close(descriptor_);
}

void PolicyLock::write(const PolicyFile& file) const {
  write_atomically(path_, policy_file_text(file));
}

}  // namespace exeunt
