// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/policy_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <tuple>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

constexpr std::string_view kPolicyFormat = "exeunt.policy/3";
constexpr double kMostRows = double{1ULL << 40};
constexpr std::string_view kPrecisions[] = {"fp32", "bf16", "int8", kExternalPrecision};

// Fields that every file has: of any value, numbers in a range, and above 0, below `high`.
constexpr Field required(std::string_view name, std::string_view help) {
  return {.name = name, .help = help, .required = true};
}
constexpr Field required(std::string_view name, std::string_view help, double low, double high = INFINITY) {
  return {.name = name, .help = help, .low = low, .high = high, .required = true};
}
constexpr Field positive(std::string_view name, std::string_view help, double high = 1) {
  return {.name = name, .help = help, .low = 0, .high = high, .open = true, .required = true};
}
constexpr Field optional(std::string_view name, std::string_view help, double low = -INFINITY, double high = INFINITY) {
  return {.name = name, .help = help, .low = low, .high = high};
}

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
template <>
std::string wanted<RiskLoss>(const Field&) {
  return "one of " + loss_forms();
}
static void read_field(JsonObject& object, const Field& field, RiskLoss& loss) {
  try {
    loss = loss_named(object.string(field.name));
  } catch (const Error& error) {
    if (error.code() != Code::usage) throw;
    object.fail(field.name, glimpse(object.get(field.name)), wanted<RiskLoss>(field));
  }
}
static OrderedJson field_json(const RiskLoss& loss) {
  return name_of(loss);
}
static void read_field(JsonObject& object, const Field& field, PolicySpec& policy) {
  policy = parse_policy(object.string(field.name), fmt::format("{}.{}", object.where(), field.name));
}
static OrderedJson field_json(const PolicySpec& policy) {
  return str(policy);
}

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
  visit(required("data", "SHA-256 of the data"), self.data);
  visit(required("rows", "Rows", 0, kMostRows), self.rows);
  visit(optional("row_hashes", "SHA-256 over their sorted `row_hash` of the trace; empty = not known"),
        self.row_hashes);
}

template <class Self, class Visit>
void CertifiedGroup::fields(Self& self, Visit&& visit) {
  visit(required("name", "A value of the column, a label, a range of lengths, or a layer"), self.name);
  visit(required("rows", "Rows of the certify part", 0, kMostRows), self.rows);
  visit(required("losses", "Their sum over these rows"), self.losses);
}

template <class Self, class Visit>
void Certificate::fields(Self& self, Visit&& visit) {
  Guarantee guarantee{self.method};
  visit(required("loss", "What an early answer loses against full depth"), self.loss);
  visit(positive("max_drop", "Largest mean loss"), self.max_drop);
  visit(positive("delta", "1 - confidence, shared by all budgets"), self.delta);
  visit(required("guarantee", "Follows from the method"), guarantee);
  visit(required("method", "The risk bound"), self.method);
  visit(required("n", "Rows of the certify part that the loss is about, or questions", 1, kMostRows), self.rows);
  visit(required("losses", "Their sum over these rows, from -n to n"), self.losses);
  visit(required("budgets", "Budgets certified together", 1, 1000), self.budgets);
  visit(required("families", "Families tested on these rows", 1, 1000), self.families);
  visit(required("fit", "The part that chose temperatures, family and order"), self.fit);
  visit(required("certify", "The part that tested"), self.certify);
  visit(required("tool", "Version of exeunt"), self.tool);
  visit(required("created", "RFC 3339"), self.created);
  visit(optional("reference", "Whose answers at full depth the loss is measured against"), self.reference);
  visit(optional("max_length", "Maximum tokens per text; 0 = not known", 0, 1 << 20), self.max_length);
  visit(optional("tokenizer", "SHA-256 of the tokenizer; empty = not known"), self.tokenizer);
  visit(optional("last_head", "Which head answers at the last layer; null = not known"), self.last_head);
  visit(optional("range", "Least and greatest value of a regression; empty = none"), self.range);
  visit(optional("seed", "Seed of the split; null = not known", 0), self.seed);
  visit(optional("unit", "What counts: distinct texts, or requests"), self.unit);
  visit(optional("distinct", "Distinct texts of the certify part; 0 = not known", 0, kMostRows), self.distinct);
  visit(optional("clusters", "Clusters of the certify part, where rows are drawn together; 0 = every row is a draw", 0,
                 kMostRows),
        self.clusters);
  visit(optional("cluster_by", "The column that names the clusters; empty = the first text of pairs"), self.cluster_by);
  visit(optional("tries", "Known uses of these rows to certify, this one included; 0 = not known", 0, 1e6), self.tries);
  visit(optional("ledger", "SHA-256 over the earlier tries on these rows; empty = none, or not known"), self.ledger);
  visit(optional("group_by", "What the groups go by: label, length, exit, or a column of the data; empty = none"),
        self.group_by);
  visit(optional("groups", "Parts of the rows that keep the promise on their own"), self.groups);
  Field exits = optional("exits", "The layers at which texts left, and what they lost there");
  exits.omit_empty = true;
  visit(exits, self.exits);
  visit(optional("answers",
                 "How often full depth gives each answer on the certify part, in label order; empty = not known", 0,
                 kMostRows),
        self.answers);
}

template <class Self, class Visit>
void PolicyPoint::fields(Self& self, Visit&& visit) {
  visit(required("policy", "Rule and parameters"), self.policy);
  visit(positive("max_drop", "Its budget, increasing from point to point"), self.max_drop);
  visit(required("cost_fraction", "Layers run over all layers, on the certify part", 0, 1), self.cost_fraction);
  Field rates = optional("exit_rates", "Share of the certify rows that left at each evaluated exit", 0, 1);
  rates.omit_empty = true;
  visit(rates, self.exit_rates);
}

template <class Self, class Visit>
void PolicyEntry::fields(Self& self, Visit&& visit) {
  Field precision = required("precision", "Precision of the engine");
  precision.choices = kPrecisions;
  visit(required("device", "Kind of device, as in the name of the engine"), self.device);
  visit(required("engine", "What computed the trace; empty = not known"), self.engine);
  visit(required("numerics", "Version of the engine's arithmetic; 0 = not known", 0, 1e6), self.numerics);
  visit(precision, self.precision);
  visit(optional("precision_map", "SHA-256 of this precision's part of precision.json"), self.precision_map);
  visit(required("exits", "Layers whose exits are evaluated, increasing, including the last exit", 0, 1000),
        self.exits);
  visit(positive("decision_temperature",
                 "Scales what the policy decides by; one per exit of the model, 1 is no scaling", INFINITY),
        self.decision_temperature);
  visit(positive("score_temperature", "Scales the probabilities that are shown; the same shape", INFINITY),
        self.score_temperature);
  visit(required("policy", "What runs by default"), self.policy);
  visit(required("points", "Policies to choose from by budget; the first is `policy`"), self.points);
  visit(optional("certificate", "What was promised of `policy`, and by what test"), self.certificate);
}

template <class Self, class Visit>
void PolicyFile::fields(Self& self, Visit&& visit) {
  Field precision = required("default_precision", "What runs unless told");
  precision.choices = kPrecisions;
  visit(required("weights", "SHA-256 of the model's weights"), self.weights);
  visit(precision, self.default_precision);
  visit(required("entries", "An entry for each engine and precision that has one"), self.entries);
}

namespace {

void require_hash(const std::string& where, std::string_view field, const std::string& text) {
  if (text.size() == 64 && is_hex(text)) return;
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
    if (i > 0 && point.max_drop <= entry.points[i - 1].max_drop)
      throw_bad_file(here, "field 'max_drop': got {}, want points of increasing max_drop", point.max_drop);
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

void check_temperatures(const std::vector<float>& temperatures, const std::string& where, std::string_view field) {
  if (temperatures.empty() || temperatures.size() > kMaxExits)
    throw_bad_file(where, "field '{}': got {} numbers, want one per exit of the model", field, temperatures.size());
  for (const float t : temperatures)
    if (!(t > 0) || std::isinf(t)) throw_bad_file(where, "field '{}': got {}, want finite numbers above 0", field, t);
}

void check_certificate(const Certificate& certificate, const std::string& where) {
  if (std::abs(certificate.losses) > static_cast<double>(certificate.rows))
    throw_bad_file(where, "field 'losses': got {}, want a number from -{} to {}", certificate.losses, certificate.rows,
                   certificate.rows);
  require_hash(where + ": fit", "data", certificate.fit.data);
  require_hash(where + ": certify", "data", certificate.certify.data);
  if (!certificate.tokenizer.empty()) require_hash(where, "tokenizer", certificate.tokenizer);
  const std::vector<double>& range = certificate.range;
  if (!range.empty() && (range.size() != 2 || range[0] >= range[1]))
    throw_bad_file(where, "field 'range': got {}, want the least and the greatest value", fmt::join(range, ", "));
}

// What a list of fields cannot check.
void check_entry(const PolicyEntry& entry, const std::string& where) {
  if (entry.precision_map) require_hash(where, "precision_map", *entry.precision_map);
  if (entry.exits.empty() || entry.exits.size() > kMaxExits)
    throw_bad_file(where, "field 'exits': got {}, want a list of 1 to {} layers", entry.exits.size(), kMaxExits);
  if (!std::is_sorted(entry.exits.begin(), entry.exits.end(), std::less_equal<>()))
    throw_bad_file(where, "field 'exits': got {}, want increasing layers", fmt::join(entry.exits, ", "));
  check_temperatures(entry.decision_temperature, where, "decision_temperature");
  check_temperatures(entry.score_temperature, where, "score_temperature");
  if (entry.decision_temperature.size() != entry.score_temperature.size())
    throw_bad_file(where, "field 'score_temperature': got {} numbers, want {}, as many as decision temperatures",
                   entry.score_temperature.size(), entry.decision_temperature.size());
  check_points(entry, where);
  if (entry.certificate) check_certificate(*entry.certificate, where + ": certificate");
}

void check_entries(const std::vector<PolicyEntry>& entries, const std::string& where) {
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> places;  // one entry may answer for each
  for (size_t i = 0; i < entries.size(); ++i) {
    const PolicyEntry& entry = entries[i];
    const std::string here = fmt::format("{}: entries[{}]", where, i);
    check_entry(entry, here);
    if (!places.emplace(entry.device, entry.engine, entry.precision).second)
      throw_bad_file(here, "got a second entry for device '{}', engine '{}' and precision {}, want one", entry.device,
                     entry.engine, entry.precision);
  }
}

// Is the file behind `descriptor` still the one at `path`? Its previous holder may have removed it in the meantime.
bool same_file(int descriptor, const std::filesystem::path& path) {
  struct stat held {
  }, found{};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &found) == 0 && held.st_ino == found.st_ino &&
         held.st_dev == found.st_dev;
}

}  // namespace

RiskMethod method_named(std::string_view name) {
  if (const auto found = named<RiskMethod>(name)) return *found;
  const auto names = names_of(RiskMethod{});
  const std::vector<std::string> known(names.begin(), names.end());
  throw Error(Code::usage, fmt::format("unknown method '{}'", name.substr(0, 64)), suggestion(name, known));
}

std::string_view device_of(std::string_view engine) noexcept {
  const size_t slash = engine.find('/');
  return slash == std::string_view::npos ? "cpu" : engine.substr(0, slash);
}

void set_origin(PolicyEntry& entry, const TraceInfo& info) {
  entry.device = device_of(info.engine);
  entry.engine = info.engine;
  entry.numerics = info.numerics;
  entry.precision = info.precision;
  entry.precision_map = info.precision_map.value_or("").empty() ? std::nullopt : info.precision_map;
  if (!entry.certificate) return;
  entry.certificate->max_length = info.max_length;
  entry.certificate->tokenizer = info.tokenizer;
  entry.certificate->last_head = info.last_head;
}

const PolicyEntry* PolicyFile::find(std::string_view engine, std::string_view precision) const {
  const PolicyEntry* best = nullptr;
  const auto closeness = [&](const PolicyEntry& entry) {
    return entry.device != device_of(engine) ? 0 : entry.engine == engine ? 3 : entry.engine.empty() ? 2 : 1;
  };
  for (const PolicyEntry& entry : entries) {
    if (entry.precision != precision) continue;
    if (best == nullptr || closeness(entry) > closeness(*best)) best = &entry;
  }
  return best;
}

PolicyEntry& PolicyFile::put(PolicyEntry entry) {
  std::erase_if(entries, [&](const PolicyEntry& old) {
    return old.device == entry.device && old.precision == entry.precision &&
           (old.engine == entry.engine || old.engine.empty());
  });
  return entries.emplace_back(std::move(entry));
}

PolicySpec PolicyEntry::complete(const PolicySpec& rule) const {
  PolicySpec spec = rule;
  if (spec.exits.empty()) spec.exits = exits;
  spec.temperature = decision_temperature;
  spec.score_temperature = score_temperature;
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

namespace {

PolicyFile policy_file_of(const Json& json, const std::string& where) {
  JsonObject object(json, where);
  const std::string format = object.string("format");
  if (format != kPolicyFormat)
    throw_bad_file(where, Hint{"remove the file and certify the model again: exeunt calibrate MODEL --max-drop 1%"},
                   "got the format '{}', want '{}'", format.substr(0, 64), kPolicyFormat);
  PolicyFile file;
  read_fields(object, file);
  require_hash(where, "weights", file.weights);
  check_entries(file.entries, where);
  object.finish();
  return file;
}

}  // namespace

PolicyFile parse_policy_file(std::string_view text, const std::string& where) {
  return policy_file_of(parse_json(text, where), where);
}

PolicyFile read_policy_file(const ReadPath& path) {
  return policy_file_of(read_json(path), path.string());
}

std::string policy_file_text(const PolicyFile& file) {
  OrderedJson json{{"format", kPolicyFormat}};
  json.update(fields_json(file));
  return json_text(json);
}

OrderedJson certificate_json(const Certificate& certificate) {
  return fields_json(certificate);
}

std::string policy_file_tables() {
  return fmt::format(
      "The file, after `\"format\": \"{}\"`:\n\n{}\nAn entry:\n\n{}\nA point:\n\n{}\nA certificate:"
      "\n\n{}\nIts `fit` and `certify`:\n\n{}\nA group:\n\n{}",
      kPolicyFormat, field_table<PolicyFile>(), field_table<PolicyEntry>(), field_table<PolicyPoint>(),
      field_table<Certificate>(), field_table<DataPart>(), field_table<CertifiedGroup>());
}

// A hidden file next to policy.json, locked with flock, so that the lock is released when its holder dies.
PolicyLock::PolicyLock(std::filesystem::path path)
    : path_(std::move(path)), lock_(path_.parent_path() / fmt::format(".{}.lock", path_.filename().string())) {
  while (true) {
    descriptor_ = ::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
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
