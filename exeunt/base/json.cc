// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/json.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

// Line and column (1-based, in bytes) of a byte offset.
std::string place_in(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const auto before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {} column {}", line, offset - start + 1);
}

// Checks the parser's events: the nesting depth, and the keys of each open object.
class Guard {
 public:
  explicit Guard(std::string_view where) : where_(where) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMaxJsonDepth) throw_bad_file(where_, "nested deeper than {} levels", kMaxJsonDepth);
      if (event == Event::object_start) keys_.emplace_back();
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) throw_bad_file(where_, "duplicate field '{}'", key);
    } else if (event == Event::object_end) {
      keys_.pop_back();
    }
    return true;
  }

 private:
  std::string_view where_;
  std::vector<std::set<std::string>> keys_;
};

constexpr std::string_view kNoJson = "the file is damaged, truncated or not JSON";

// `place` describes the byte offset of an error.
template <class Place>
Json parse_guarded(std::string_view text, std::string_view where, Place&& place) {
  Guard guard(where);
  try {
    return Json::parse(text.begin(), text.end(), std::ref(guard));
  } catch (const Json::parse_error& error) {
    throw_bad_file(where, Hint{kNoJson}, "no valid JSON at {}", place(error.byte > 0 ? error.byte - 1 : 0));
  } catch (const Json::exception& error) {  // a number out of range
    throw_bad_file(where, Hint{kNoJson}, "no valid JSON: {}", error.what());
  }
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  return parse_guarded(text, where, [&](size_t offset) { return place_in(text, offset); });
}

Json parse_json_line(std::string_view line, std::string_view where) {
  return parse_guarded(line, where, [](size_t offset) { return fmt::format("column {}", offset + 1); });
}

Json read_json(const std::filesystem::path& path, size_t limit) {
  const auto file = MappedFile::open(path);
  if (file->bytes().size() > limit) {
    throw_bad_file(path.string(), "got {} bytes of JSON, want at most {}", file->bytes().size(), limit);
  }
  return parse_json(file->text(), path.string());
}

std::string json_text(const OrderedJson& value) {
  return value.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string glimpse(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "…";
  return text;
}

JsonObject::JsonObject(const Json& value, std::string where, bool partial)
    : value_(value), where_(std::move(where)), partial_(partial) {
  if (!value.is_object()) throw_bad_file(where_, "got {}, want an object", glimpse(value));
}

bool JsonObject::has(std::string_view name) const {
  const auto found = value_.find(name);
  return found != value_.end() && !found->is_null();
}

const Json* JsonObject::find(std::string_view name) {
  asked_.emplace_back(name);
  const auto found = value_.find(name);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonObject::get(std::string_view name) {
  const Json* found = find(name);
  if (found == nullptr) throw_bad_file(where_, "field '{}' is missing", name);
  return *found;
}

void JsonObject::fail(std::string_view name, std::string_view got, std::string_view want) const {
  throw_bad_file(where_, "field '{}': got {}, want {}", name, got, want);
}

int64_t JsonObject::integer(std::string_view name, int64_t low, int64_t high) {
  const Json& value = get(name);
  const std::string want = fmt::format("a whole number from {} to {}", low, high);
  // Configurations written by other software may have integers as 8.0.
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (!(std::nearbyint(number) == number && std::fabs(number) < 9e15)) fail(name, glimpse(value), want);
    const auto whole = static_cast<int64_t>(number);
    if (whole < low || whole > high) fail(name, glimpse(value), want);
    return whole;
  }
  if (!value.is_number_integer()) fail(name, glimpse(value), want);
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    fail(name, glimpse(value), want);
  }
  const auto number = value.get<int64_t>();
  if (number < low || number > high) fail(name, glimpse(value), want);
  return number;
}

int64_t JsonObject::integer_or(std::string_view name, int64_t low, int64_t high, int64_t absent) {
  return find(name) == nullptr ? absent : integer(name, low, high);
}

double JsonObject::number(std::string_view name) {
  const Json& value = get(name);
  if (!value.is_number() || !std::isfinite(value.get<double>())) fail(name, glimpse(value), "a finite number");
  return value.get<double>();
}

double JsonObject::number_or(std::string_view name, double absent) {
  return find(name) == nullptr ? absent : number(name);
}

bool JsonObject::boolean_or(std::string_view name, bool absent) {
  const Json* value = find(name);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) fail(name, glimpse(*value), "true or false");
  return value->get<bool>();
}

std::string JsonObject::string(std::string_view name) {
  const Json& value = get(name);
  if (!value.is_string()) fail(name, glimpse(value), "a string");
  return value.get<std::string>();
}

std::string JsonObject::string_or(std::string_view name, std::string absent) {
  return find(name) == nullptr ? std::move(absent) : string(name);
}

std::vector<std::string> JsonObject::strings(std::string_view name) {
  const Json& value = get(name);
  std::vector<std::string> out;
  const bool fits =
      value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); });
  if (!fits) fail(name, glimpse(value), "a list of strings");
  for (const Json& item : value) out.push_back(item.get<std::string>());
  return out;
}

std::string JsonObject::choice(std::string_view name, const std::vector<std::string>& allowed) {
  std::string value = string(name);
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    throw Error(Code::bad_file,
                fmt::format("{}: field '{}': got '{}', want one of {}", where_, name, value, fmt::join(allowed, ", ")),
                suggestion(value, allowed));
  }
  return value;
}

void JsonObject::ignore(std::string_view name) {
  asked_.emplace_back(name);
}

void JsonObject::finish() const {
  for (const auto& [key, value] : value_.items()) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    std::vector<std::string> known;  // a field may have been read twice
    for (const auto& name : asked_) {
      if (std::find(known.begin(), known.end(), name) == known.end()) known.emplace_back(name);
    }
    throw Error(Code::bad_file, fmt::format("{}: unknown field '{}'", where_, key), suggestion(key, known));
  }
}

}  // namespace exeunt
