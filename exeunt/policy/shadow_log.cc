// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/shadow_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/sha256.h"

namespace exeunt {
namespace {

constexpr std::array<std::string_view, 1> kFormats = {"exeunt.shadows/3"};

constexpr std::string_view kTimeForm = "0000-00-00T00:00:00Z";  // any digits
constexpr size_t kDateForm = 10;                                // so much of it is a date

std::string line_of(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

[[noreturn]] void throw_system(const std::filesystem::path& path, std::string_view what) {
  throw Error(Code::resources, fmt::format("{}: {}: {}", path.string(), what, std::generic_category().message(errno)));
}

// Everything up to the last end of a line.
std::string_view whole_lines(std::string_view text) {
  const size_t end = text.rfind('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

void append(std::vector<float>& all, const std::vector<float>& part) {
  all.insert(all.end(), part.begin(), part.end());
}

void require_size(const std::vector<float>& values, size_t want, std::string_view name, const std::string& where) {
  if (values.size() != want) throw_bad_file(where, "{}: got {} numbers, want {}", name, values.size(), want);
}

}  // namespace

template <class Self, class Visit>
void ShadowLogHead::fields(Self& self, Visit&& visit) {
  visit(Field{.name = "format", .choices = kFormats, .required = true}, self.format);
  visit(Field{.name = "weights", .help = "sha256 of the weights", .required = true}, self.weights);
  visit(Field{.name = "tokenizer", .help = "sha256 of the tokenizer", .required = true}, self.tokenizer);
  visit(Field{.name = "engine", .required = true}, self.engine);
  visit(Field{.name = "numerics", .help = "Version of the engine's arithmetic"}, self.numerics);
  visit(Field{.name = "precision", .required = true}, self.precision);
  visit(Field{.name = "precision_map", .help = "sha256 of the precision map; empty without one"}, self.precision_map);
  visit(Field{.name = "max_length", .help = "Maximum tokens per text", .required = true}, self.max_length);
  visit(Field{.name = "last_head", .help = "Which head answers at the last layer"}, self.last_head);
  // The file has two booleans for the problem.
  OutputSpec meaning = self;
  bool regression = meaning.problem == Problem::regression, multi_label = meaning.problem == Problem::multi_label;
  visit(Field{.name = "regression", .required = true}, regression);
  visit(Field{.name = "multi_label", .help = "Each label is given or not", .omit_empty = true}, multi_label);
  visit(Field{.name = "cuts", .help = "Logits above which labels are given", .omit_empty = true},
        meaning.logit_thresholds);
  visit(Field{.name = "outputs", .help = "Logits per exit", .low = 1, .high = 1 << 20, .required = true}, self.outputs);
  visit(Field{.name = "labels", .help = "One per output; empty for regression"}, meaning.labels);
  meaning.problem = multi_label ? Problem::multi_label : regression ? Problem::regression : Problem::classification;
  if constexpr (!std::is_const_v<Self>) static_cast<OutputSpec&>(self) = std::move(meaning);
  visit(Field{.name = "layers", .help = "After which the exits sit", .low = 0, .required = true}, self.layers);
}

template <class Self, class Visit>
void ShadowLogRow::fields(Self& self, Visit&& visit) {
  visit(Field{.name = "time", .help = "When it was compared, as 2026-03-01T12:34:56Z", .required = true}, self.time);
  visit(Field{.name = "row_hash", .help = "Of the token ids, 16 hex digits", .required = true}, self.row_hash);
  visit(Field{.name = "tokens", .low = 1, .required = true}, self.tokens);
  visit(Field{.name = "logits", .help = "Of every exit, one exit after the other", .required = true}, self.logits);
  visit(Field{.name = "lte", .help = "Scores of the learning-to-exit heads", .omit_empty = true}, self.lte);
  visit(Field{.name = "ramp", .help = "Logits of the last layer's ramp", .omit_empty = true}, self.ramp);
  visit(Field{.name = "reference", .help = "Logits of fp32 at full depth", .required = true}, self.reference);
  visit(Field{.name = "dropped", .help = "Texts drawn and dropped since the line before"}, self.dropped);
}

ShadowLogWriter::ShadowLogWriter(const std::filesystem::path& path, const ShadowLogHead& head, uint64_t most_bytes)
    : descriptor_(open_to_append(path, 0600)), most_bytes_(most_bytes) {
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      throw Error(Code::resources, fmt::format("{}: another server writes to it", path.string()),
                  "give every server a log of its own");
    }
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) {
      throw Error(Code::usage, fmt::format("{}: want a regular file for the shadow log", path.string()));
    }
    const std::string first = line_of(fields_json(head));
    if (info.st_size > 0) {
      const auto file = MappedFile::open(path);
      const std::string_view lines = whole_lines(file->text());
      if (!lines.empty() && lines.substr(0, lines.find('\n') + 1) != first) {
        throw Error(Code::usage,
                    fmt::format("{}: not a shadow log of this model, precision, engine and version", path.string()),
                    "name another file, or remove this one");
      }
      size_ = lines.size();
      if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0) throw_system(path, "cannot write");
    }
    if (size_ == 0 && !append(first)) throw_system(path, "cannot write");
  } catch (...) {
    (void)::close(descriptor_);
    throw;
  }
}

ShadowLogWriter::~ShadowLogWriter() {
  (void)::close(descriptor_);
}

bool ShadowLogWriter::write(const ShadowLogRow& row) {
  return append(line_of(fields_json(row)));
}

// A line that does not fit whole, because the disk is full, is taken back.
bool ShadowLogWriter::append(const std::string& line) {
  if (size_ + line.size() > most_bytes_) return false;
  const ssize_t written = ::write(descriptor_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    (void)!::ftruncate(descriptor_, static_cast<off_t>(size_));
    return false;
  }
  size_ += line.size();
  return true;
}

ShadowLog read_shadow_log(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse_shadow_log(file->text(), path.string());
}

ShadowLog parse_shadow_log(std::string_view all, const std::string& name) {
  std::string_view text = whole_lines(all);
  if (text.empty()) throw_bad_file(name, "empty: want a log that 'exeunt serve --shadow-log' wrote");
  for (const std::string_view earlier : {"1", "2"}) {
    if (!text.starts_with(fmt::format(R"({{"format":"exeunt.shadows/{}")", earlier))) continue;
    throw Error(Code::bad_file, fmt::format("{}: an earlier version wrote it, without the times of its texts", name),
                "let 'exeunt serve --shadow-log' write a new one");
  }
  int64_t line = 1;
  const auto where = [&] { return fmt::format("{}:{}", name, line); };
  ShadowLog log;
  ExitTrace& trace = log.trace;
  const std::string digest = sha256_hex(text);
  const auto head = read_fields<ShadowLogHead>(parse_json_line(take_line(text), where()), where());
  trace.info = head;
  trace.info.data = digest;
  trace.info.split = "server";
  trace.exits = static_cast<int>(head.layers.size());
  trace.width = head.outputs;
  if (head.layers.empty() || head.layers.size() > kMaxExits)
    throw_bad_file(where(), "layers: got {}, want 1 to {}", head.layers.size(), kMaxExits);
  const auto exits = head.layers.size(), outputs = static_cast<size_t>(head.outputs);
  size_t lte = 0, ramp = 0;  // as in the first row
  while (!text.empty()) {
    ++line;
    const auto row = read_fields<ShadowLogRow>(parse_json_line(take_line(text), where()), where());
    require_size(row.logits, exits * outputs, "logits", where());
    if (trace.rows == 0) {
      lte = row.lte.empty() ? 0 : exits;
      ramp = row.ramp.empty() ? 0 : outputs;
    }
    require_size(row.lte, lte, "lte", where());
    require_size(row.ramp, ramp, "ramp", where());
    require_size(row.reference, outputs, "reference", where());
    const auto hash = number_of<uint64_t>(row.row_hash, 16);
    if (row.row_hash.size() != 16 || !hash)
      throw_bad_file(where(), "row_hash: got '{}', want 16 hex digits", row.row_hash.substr(0, 64));
    if (row.time.size() != kTimeForm.size() || !is_time(row.time))
      throw_bad_file(where(), "time: got '{}', want one like 2026-03-01T12:34:56Z", row.time.substr(0, 64));
    append(trace.logits, row.logits);
    append(trace.lte, row.lte);
    append(trace.ramp, row.ramp);
    append(trace.reference, row.reference);
    trace.row_hash.push_back(*hash);
    trace.lengths.push_back(row.tokens);
    trace.gold.insert(trace.gold.end(), trace.gold_width(), std::numeric_limits<float>::quiet_NaN());
    trace.index.push_back(static_cast<int64_t>(trace.rows++));
    log.times.push_back(row.time);
    log.dropped.push_back(row.dropped);
  }
  check_trace(trace, name);
  return log;
}

bool is_time(std::string_view text) noexcept {
  if (text.size() != kTimeForm.size() && text.size() != kDateForm) return false;
  return std::equal(text.begin(), text.end(), kTimeForm.begin(),
                    [](char c, char form) { return form == '0' ? c >= '0' && c <= '9' : c == form; });
}

std::string hash_text(uint64_t row_hash) {
  return fmt::format("{:016x}", row_hash);
}

std::string shadow_log_tables() {
  return "The first line:\n\n" + field_table<ShadowLogHead>() + "\nEvery other line:\n\n" + field_table<ShadowLogRow>();
}

}  // namespace exeunt
