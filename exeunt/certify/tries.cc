// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/tries.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/base/sha256.h"
#include "exeunt/certify/losses.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/data/learned_rows.h"
#include "exeunt/model/exeunt_folder.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kLook = "look ";  // begins the test of a model that was looked at alone

// Tries are counted one at a time, whoever else is calibrating.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX) != 0)
      throw Error(Code::resources, fmt::format("{}: cannot be locked: {}", path.string(), std::strerror(errno)));
  }
  ~FolderLock() { ::close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// For nobody but the user, also where an earlier version let others read it. Where a file is another user's, it stays.
void keep_private(const fs::path& path, fs::perms allowed = fs::perms::owner_read | fs::perms::owner_write) {
  std::error_code not_ours;
  fs::permissions(path, allowed, not_ours);
}

// One per user, so that others cannot compare the hashes.
RowSalt salt_in(const fs::path& folder) {
  const fs::path path = folder / "salt";
  if (!path_exists(path)) {
    const RowSalt drawn = draw_salt();
    write_atomically(path, fmt::format("{} {}\n", drawn[0], drawn[1]));
  }
  keep_private(path);
  const std::string text = read_text(path, 128);
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  const size_t blank = std::min(line.find(' '), line.size());
  const auto first = number_of<uint64_t>(line.substr(0, blank));
  const auto second = number_of<uint64_t>(line.substr(std::min(blank + 1, line.size())));
  if (!first || !second) {  // with another salt no earlier try would be known again
    throw_bad_file(path.string(), Hint{"restore it; if you remove the folder, earlier tries are no longer counted"},
                   "got '{}', want two numbers", line.substr(0, 64));
  }
  return {*first, *second};
}

std::vector<int64_t> salted(std::span<const uint64_t> hashes, const RowSalt& salt) {
  std::vector<int64_t> out;
  for (const uint64_t hash : hashes) {
    const int32_t words[] = {static_cast<int32_t>(hash), static_cast<int32_t>(hash >> 32)};
    // As a row between two special tokens, which row_hash leaves out.
    const int32_t row[] = {0, words[0], words[1], 0};
    out.push_back(static_cast<int64_t>(row_hash(row, salt)));
  }
  return out;
}

std::vector<int64_t> sorted(std::vector<int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

struct Try {
  std::string test;
  int number = 1;
  TriedIn in;
  std::vector<int64_t> rows = {}, beside = {}, known = {};
};

// Whether an earlier try shares its delta with a new one.
bool share_delta(const TriedIn& earlier, const TriedIn& now) {
  return earlier.family.empty() || now.family.empty() || earlier.family == now.family;
}

// A file that cannot be parsed counts as a try that shares rows.
std::optional<Try> read_try(const fs::path& path) {
  try {
    const TensorSet set = read_safetensors(path);
    const TensorView* rows = set.find("rows");
    const auto test = set.metadata.find("test"), counted = set.metadata.find("number");
    if (rows == nullptr || rows->dtype != DType::i64 || test == set.metadata.end() || counted == set.metadata.end())
      return std::nullopt;
    const auto number = number_of<int>(counted->second);
    if (!number) return std::nullopt;
    Try made{.test = test->second, .number = *number, .in = {}};
    const auto text = [&](const char* name) {
      const auto found = set.metadata.find(name);
      return found == set.metadata.end() ? std::string() : found->second;
    };
    made.in = {.family = text("family"),
               .weights = text("weights"),
               .elsewhere = number_of<int>(text("elsewhere")).value_or(0)};
    for (const auto& [name, into] : {std::pair("rows", &made.rows), {"beside", &made.beside}, {"known", &made.known}}) {
      const TensorView* values = set.find(name);
      if (values == nullptr || values->dtype != DType::i64) continue;
      into->resize(static_cast<size_t>(values->elements()));
      copy_raw(*values, std::as_writable_bytes(std::span(*into)));
    }
    return made;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has(const std::vector<int64_t>& sorted, int64_t row) {
  return std::binary_search(sorted.begin(), sorted.end(), row);
}

bool share_a_row(const std::vector<int64_t>& sorted, const std::vector<int64_t>& others) {
  return std::any_of(others.begin(), others.end(), [&](int64_t row) { return has(sorted, row); });
}

// Texts are known by the hashes of their tokens and, whatever reads them, of themselves; rows of a trace that has
// neither by their place in their source.
std::vector<uint64_t> ids_of(const ExitTrace& part) {
  std::vector<uint64_t> ids = part.row_hash;
  ids.insert(ids.end(), part.text_hash.begin(), part.text_hash.end());
  if (!ids.empty()) return ids;
  for (const int64_t index : part.index) {
    const std::string digest = sha256_hex(fmt::format("{} {}", part.info.data, index));
    ids.push_back(number_of<uint64_t>(std::string_view(digest).substr(0, 16), 16).value());
  }
  return ids;
}

std::string digest_of(const ExitTrace& part) {
  std::vector<float> full_depth;  // the same whether the last exit is also written down as the reference or not
  for (size_t row = 0; row < part.rows; ++row) {
    const std::span<const float> values = part.full_depth(row);
    full_depth.insert(full_depth.end(), values.begin(), values.end());
  }
  std::string all;
  for (const auto values : {std::span(part.logits), std::span(part.lte), std::span(part.ramp),
                            std::span<const float>(full_depth), std::span(part.gold)})
    all += sha256_hex(std::as_bytes(values));
  return sha256_hex(all + sha256_hex(std::as_bytes(std::span(part.row_hash))));
}

// What a test is: the numbers it reads, which weights, engine, precision and split have made, and the plan. Where the
// plan names what makes these numbers, that, so that it is known before them.
std::string digest_of(const CalibrationData& data, const CalibrationPlan& plan) {
  if (plan.tries_elsewhere > 0) {
    CalibrationPlan here = plan;
    here.tries_elsewhere = 0;
    return fmt::format("{} elsewhere {}", digest_of(data, here), plan.tries_elsewhere);
  }
  if (!plan.test.empty()) return fmt::format("{} {} {}", plan.test, data.certify.info.precision, plan.or_full_depth);
  const ExitTrace& fit = data.fit;
  const ValueRange range = range_or_observed(plan.range, fit);
  const std::string text = fmt::format(
      "{} {} budgets {} delta {} loss {} method {} families {} exits {} range {} temperatures {} unit {} group {} {}",
      digest_of(fit), digest_of(data.certify), fmt::join(plan.max_drops, ","), plan.delta,
      plan.loss ? name_of(*plan.loss) : "", plan.method ? name_of(*plan.method) : "", fmt::join(plan.families, ","),
      fmt::join(plan.exits.empty() ? fit.info.layers : plan.exits, ","),
      range ? fmt::format("{},{}", range->first, range->second) : "", plan.temperatures,
      static_cast<int>(certified_unit(plan, fit)), plan.group.by, fmt::join(plan.group.values, "\n"));
  return sha256_hex(text);
}

// The earlier tries: which number a test has, or would have, and how many of other families used its rows. `begins`: a
// test that begins like this counts as the same.
struct Counted {
  std::optional<int> number = {};  // of the test, where it has been counted before
  int next = 1;
  Ledger ledger = {};
  std::vector<int64_t> known = {};  // of the rows: in the test as it was counted, else in earlier tries
  bool apart = true;                // it is known of every earlier try which rows it told something about
};

// More of them cost more than a later try does.
constexpr size_t kKnownAtMost = 5;  // one in so many

Counted count_earlier(const fs::path& folder, std::string_view test, const std::vector<int64_t>& rows,
                      const TriedIn& in, bool begins = false) {
  Counted out;
  int elsewhere = in.elsewhere;
  std::vector<std::string> used;
  std::vector<int64_t> counted_then;
  std::set<std::string> looked_at, certified{in.weights};  // by their weights
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "tries")) {
    if (entry.path().extension() != kSuffix) continue;
    keep_private(entry.path());
    const std::optional<Try> earlier = read_try(entry.path());
    if (earlier && (begins ? earlier->test.starts_with(test) : earlier->test == test))
      out.number = std::min(earlier->number, out.number.value_or(earlier->number));
    if (earlier && earlier->test == test) counted_then = earlier->known;
    const bool shares = earlier && earlier->test != test && share_delta(earlier->in, in);
    for (size_t i = 0; shares && i < rows.size(); ++i)
      if (has(earlier->rows, rows[i]) || has(earlier->beside, rows[i])) out.known.push_back(rows[i]);
    if (earlier && !share_a_row(rows, earlier->rows)) continue;
    if (earlier && earlier->test == test) continue;
    if (!earlier || (shares && (earlier->beside.empty() || earlier->in.elsewhere > 0))) out.apart = false;
    used.push_back(earlier ? fmt::format("{} {}", earlier->test, earlier->number) : entry.path().filename().string());
    const bool look = earlier && earlier->test.starts_with(kLook);
    if (earlier && share_delta(earlier->in, in)) (look ? looked_at : certified).insert(earlier->in.weights);
    if (!earlier || (!look && share_delta(earlier->in, in))) ++out.next;
    if (earlier && share_delta(earlier->in, in)) elsewhere = std::max(elsewhere, earlier->in.elsewhere);
    if (earlier && !look && !share_delta(earlier->in, in)) ++out.ledger.other_models;
  }
  for (const std::string& weights : looked_at) out.next += certified.contains(weights) ? 0 : 1;
  out.next = std::max(out.next + elsewhere, in.least);
  out.known = out.number ? counted_then : sorted(std::move(out.known));
  std::sort(used.begin(), used.end());
  if (!used.empty()) out.ledger.digest = sha256_hex(fmt::format("{}", fmt::join(used, "\n")));
  return out;
}

}  // namespace

void hash_rows_by_logits(ExitTrace& trace) {
  const size_t width = trace.logits.size() / trace.rows;
  trace.row_hash.clear();
  for (size_t row = 0; row < trace.rows; ++row)
    trace.row_hash.push_back(hash_of(std::as_bytes(std::span(trace.logits).subspan(row * width, width))));
}

std::string model_family(const Checkpoint& model) {
  const fs::path& folder = model.folder();
  for (const Json& known :
       {json_in(folder, "attach.json", {"family"}), json_in(folder, "recipe.json", {"run", "data"})})
    if (known.is_string() && !known.get_ref<const std::string&>().empty()) return known.get<std::string>();
  return weights_sha256(model);
}

int next_try(std::string_view test, std::span<const uint64_t> row_hashes, const TriedIn& in) {
  const fs::path folder = state_folder();
  if (folder.empty() || !path_exists(folder / "tries")) return 1;
  try {
    const FolderLock lock(folder / "lock");
    const Counted counted = count_earlier(folder, test, sorted(salted(row_hashes, salt_in(folder))), in, true);
    return counted.number.value_or(counted.next);
  } catch (const Error& error) {
    if (error.code() != Code::resources) throw;
    return 1;  // which is said when the try is counted
  }
}

fs::path state_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fs::path(state) / "exeunt";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? fs::path(home) / ".local/state/exeunt" : fs::path();
}

int count_try(const fs::path& folder, std::string_view test, std::span<const uint64_t> row_hashes, const TriedIn& in,
              Ledger* ledger, const std::function<void(int)>& require) {
  std::error_code failed;
  fs::create_directories(folder / "tries", failed);
  if (failed) throw Error(Code::resources, fmt::format("{}: cannot be made: {}", folder.string(), failed.message()));
  keep_private(folder, fs::perms::owner_all);
  keep_private(folder / "tries", fs::perms::owner_all);
  const FolderLock lock(folder / "lock");
  keep_private(folder / "lock");
  const RowSalt salt = salt_in(folder);
  const std::vector<int64_t> hashes = salted(row_hashes, salt), rows = sorted(hashes);
  Counted counted = count_earlier(folder, test, rows, in);
  const auto require_as = [&](int number) {
    if (ledger != nullptr) *ledger = counted.ledger;
    for (size_t i = 0; ledger != nullptr && !counted.known.empty() && i < hashes.size(); ++i)
      ledger->known.push_back(has(counted.known, hashes[i]));
    require(number);
    return number;
  };
  if (counted.number) return require_as(*counted.number);
  const bool few =
      !in.beside.empty() && counted.apart && counted.next > 1 && kKnownAtMost * counted.known.size() <= rows.size();
  std::optional<int> as_first;
  if (few) {
    try {
      as_first = require_as(std::max(1 + in.elsewhere, in.least));
    } catch (const Error& error) {  // the others are too few
      if (error.code() != Code::failure) throw;
    }
  }
  if (!as_first) counted.known.clear();
  const int number = as_first ? *as_first : require_as(counted.next);
  const std::vector<int64_t> beside = sorted(salted(in.beside, salt));
  const fs::path path = folder / "tries" / (sha256_hex(std::as_bytes(std::span(test))) + std::string(kSuffix));
  write_safetensors(path,
                    {{"rows", view_of(DType::i64, rows)},
                     {"beside", view_of(DType::i64, beside)},
                     {"known", view_of(DType::i64, counted.known)}},
                    {{"format", "exeunt.try/1"},
                     {"test", std::string(test)},
                     {"number", fmt::format("{}", number)},
                     {"family", in.family},
                     {"weights", in.weights},
                     {"elsewhere", fmt::format("{}", in.elsewhere)}});
  keep_private(path);
  return number;
}

void count_try(const CalibrationData& data, CalibrationPlan& plan, const Observer& observer) {
  plan.tries_known = false;
  Ledger ledger;
  const auto require = [&](int number) {
    plan.tries = number;
    plan.known.assign(ledger.known.empty() ? 0 : data.certify.rows, false);
    for (size_t i = 0; i < ledger.known.size(); ++i)  // rows may have several hashes, all of one kind before the next
      if (ledger.known[i]) plan.known[i % data.certify.rows] = true;
    if (!plan.or_full_depth) require_enough_rows(data, plan);
  };
  require(std::max(1 + plan.tries_elsewhere, plan.least_try));
  const fs::path folder = state_folder();
  if (folder.empty()) {
    observer.warn("tries on these texts cannot be counted: neither XDG_STATE_HOME nor HOME names a folder");
    return;
  }
  try {
    TriedIn in{.family = plan.family,
               .weights = data.certify.info.weights,
               .elsewhere = plan.tries_elsewhere,
               .least = plan.least_try};
    // With a test that is known by what makes it, more was learned than these parts show.
    if (plan.test.empty() && counts_losses(data, plan)) {
      for (const ExitTrace* part : {&data.fit, &data.report}) {
        const std::vector<uint64_t> ids = ids_of(*part);
        in.beside.insert(in.beside.end(), ids.begin(), ids.end());
      }
    }
    plan.tries = count_try(folder, digest_of(data, plan), ids_of(data.certify), in, &ledger, require);
    plan.tries_known = true;
    plan.ledger = ledger.digest;
    if (!plan.known.empty())
      observer.notice(fmt::format("{} of {} texts that certify were used before: of these, only losses count",
                                  std::count(plan.known.begin(), plan.known.end(), true), plan.known.size()));
    if (ledger.other_models > 0)
      observer.notice(
          fmt::format("{} certificate{} of other models used some of these texts: each has a promise of its own, which "
                      "is no ground "
                      "to choose between the models",
                      ledger.other_models, ledger.other_models == 1 ? "" : "s"));
  } catch (const Error& error) {
    if (error.code() != Code::resources) throw;
    observer.warn(fmt::format("tries on these texts cannot be counted: {}", error.what()));
  }
}

void count_look(const Measured& measured) {
  const ExitTrace& rows = measured.trace;
  const fs::path folder = state_folder();
  if (!measured.model || rows.info.split != kHeldOutSplit || folder.empty()) return;
  try {
    (void)count_try(folder, fmt::format("{}{}", kLook, rows.info.weights), ids_of(rows),
                    {.family = model_family(*measured.model), .weights = rows.info.weights});
  } catch (const Error& error) {  // said when a try is counted
    if (error.code() != Code::resources) throw;
  }
}

}  // namespace exeunt
