// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/json.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

// Line and column (1-based, in bytes) of a byte offset.
std::string place_in(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const auto before = text.substr(0, offset);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {} column {}", line, offset - start + 1);
}

// Builds the document from the parser's events and keeps it within the limits. The library's own builder searches the
// whole parent after every child object when it is given a callback; this one never looks back.
using Place = std::function<std::string(size_t offset)>;
template <class Document>
class Builder {  // the interface nlohmann's sax_parse wants
 public:
  Builder(std::string_view where, const JsonLimits& limits, size_t text_bytes, Place place)
      : where_(where), limits_(limits), memory_(limits.memory + text_bytes), place_(std::move(place)) {}

  [[nodiscard]] Document take() { return std::move(root_); }

  bool null() { return add(nullptr, 0); }
  bool boolean(bool value) { return add(value, 0); }
  bool number_integer(typename Document::number_integer_t value) { return add(value, 0); }
  bool number_unsigned(typename Document::number_unsigned_t value) { return add(value, 0); }
  bool number_float(typename Document::number_float_t value, const std::string& /*text*/) { return add(value, 0); }
  bool string(const std::string& value) { return add(value, kStringBlock + bytes_of(value)); }
  bool binary(typename Document::binary_t& /*value*/) { return false; }  // not in JSON

  bool start_array(size_t /*unknown*/) { return open(Document::array(), kListBlock); }
  bool end_array() { return close(); }
  bool start_object(size_t /*unknown*/) { return open(Document::object(), kObjectBlock); }
  bool end_object() {
    if constexpr (kOrdered) refuse_repeated();
    return close();
  }

  bool key(const std::string& name) {
    charge(kMember + bytes_of(name));
    auto& members = open_.back()->template get_ref<typename Document::object_t&>();
    if constexpr (kOrdered) {
      member_ = &members.emplace_back(name, nullptr).second;
    } else {
      const auto [place, added] = members.emplace(name, nullptr);
      if (!added) throw_bad_file(where_, "duplicate field '{}'", name);
      member_ = &place->second;
    }
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    constexpr int kNumberOverflow = 406;
    throw_bad_file(where_, Hint{kNoJson}, "no valid JSON at {}{}", place_(position > 0 ? position - 1 : 0),
                   error.id == kNumberOverflow ? ": the number is out of range" : "");
  }

 private:
  // With the allocator's own bookkeeping: the 24 bytes of a list become 32.
  static constexpr size_t kListBlock = 32, kStringBlock = 48, kObjectBlock = 64;
  static constexpr size_t kElement = 2 * sizeof(Document);  // lists grow by doubling
  static constexpr size_t kMember = 112;                    // a node of the tree: key, value, links
  static constexpr size_t kAskStopEvery = 4096;
  static constexpr bool kOrdered = std::is_same_v<Document, OrderedJson>;
  static constexpr std::string_view kNoJson = "the file is damaged, truncated or not JSON";

  // Short strings are part of their block.
  static size_t bytes_of(const std::string& text) { return text.size() < 16 ? 0 : text.size() + 16; }

  void charge(size_t bytes) {
    if (bytes > memory_) {
      throw_bad_file(where_, "its values take more than {} MiB beyond the size of the text", limits_.memory >> 20);
    }
    memory_ -= bytes;
  }

  // Members in the order of the file are a plain list, which does not notice a name that comes twice.
  void refuse_repeated() {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : open_.back()->template get_ref<const typename Document::object_t&>())
      names.push_back(name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) throw_bad_file(where_, "duplicate field '{}'", *twice);
  }

  template <class Value>
  Document* place(Value&& value, size_t bytes) {
    if (++values_ > limits_.values) throw_bad_file(where_, "more than {} values", limits_.values);
    if (limits_.stop && values_ % kAskStopEvery == 0 && limits_.stop()) {
      throw Error(Code::failure, fmt::format("{}: no longer wanted", where_));
    }
    charge(bytes + kElement);
    if (open_.empty()) return &(root_ = Document(std::forward<Value>(value)));
    if (member_ != nullptr) return &(*std::exchange(member_, nullptr) = Document(std::forward<Value>(value)));
    return &open_.back()->template get_ref<typename Document::array_t&>().emplace_back(std::forward<Value>(value));
  }

  template <class Value>
  bool add(Value&& value, size_t bytes) {
    (void)place(std::forward<Value>(value), bytes);
    return true;
  }

  bool open(Document&& container, size_t bytes) {
    if (open_.size() >= static_cast<size_t>(limits_.depth)) {
      throw_bad_file(where_, "nested deeper than {} levels", limits_.depth);
    }
    open_.push_back(place(std::move(container), bytes));  // stays where it is: its parent grows only after its end
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view where_;
  const JsonLimits& limits_;
  size_t memory_;  // still free
  Place place_;
  Document root_ = {};
  std::vector<Document*> open_ = {};  // the lists and objects around the next value
  Document* member_ = nullptr;        // of the innermost object, whose key has been read
  size_t values_ = 0;
};

// `place` describes the byte offset of an error.
template <class Document = Json>
Document parse_limited(std::string_view text, std::string_view where, const JsonLimits& limits, Place place) {
  Builder<Document> builder(where, limits, text.size(), std::move(place));
  (void)Document::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  return parse_limited(text, where, limits, [&](size_t offset) { return place_in(text, offset); });
}

Json parse_json_line(std::string_view line, std::string_view where) {
  return parse_limited(line, where, {}, [](size_t offset) { return fmt::format("column {}", offset + 1); });
}

// The values get half of the 64 MiB, with what the text is granted: a list is copied while it grows and again when
// nlohmann frees it, a fragmented heap reuses none of that, and something is made of the values.
JsonLimits limits_of_file(size_t bytes) noexcept {
  constexpr size_t kValues = kMaxJsonMemory / 2;
  return {.memory = kValues - std::min(bytes, kValues)};
}

namespace {

// The parser holds each text three times while it reads it, before it can be refused.
void refuse_long_texts(std::string_view json, const std::string& where) {
  constexpr size_t kMaxText = size_t{1} << 20;
  size_t begin = json.find('"');
  while (begin < json.size()) {
    size_t end = json.find_first_of("\"\\", begin + 1);
    while (end < json.size() && json[end] == '\\') end = json.find_first_of("\"\\", end + 2);
    if (std::min(end, json.size()) - begin > kMaxText) throw_bad_file(where, "a text of more than {} bytes", kMaxText);
    begin = end < json.size() ? json.find('"', end + 1) : end;
  }
}

}  // namespace

Json read_json(const ReadPath& path, size_t limit) {
  const auto file = MappedFile::open(path);
  if (file->bytes().size() > limit) {
    throw_bad_file(path.string(), "got {} bytes of JSON, want at most {}", file->bytes().size(), limit);
  }
  if (limit > kMaxJsonFile) return parse_json(file->text(), path.string());
  refuse_long_texts(file->text(), path.string());
  return parse_json(file->text(), path.string(), limits_of_file(file->bytes().size()));
}

Json json_in(const std::filesystem::path& folder, const char* file, std::initializer_list<const char*> names) {
  if (folder.empty() || !path_exists(folder / file)) return {};
  Json value = read_json(ReadPath::in(folder, file));
  for (const char* name : names) value = value.is_object() ? value.value(name, Json()) : Json();
  return value;
}

OrderedJson parse_ordered_json(std::string_view text, std::string_view where) {
  return parse_limited<OrderedJson>(text, where, {}, [&](size_t offset) { return place_in(text, offset); });
}

OrderedJson read_ordered_json(const ReadPath& path, size_t limit) {
  return parse_ordered_json(read_text(path, limit), path.string());
}

std::string json_text(const OrderedJson& value) {
  return value.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string glimpse(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  constexpr size_t kMore = 256;  // than is shown of a text, which may be as long as its file
  if (value.is_string() && value.get_ref<const std::string&>().size() > kMore) {
    return glimpse(value.get_ref<const std::string&>().substr(0, kMore));
  }
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
  if (std::ranges::find(allowed, value) == allowed.end()) {
    throw Error(Code::bad_file,
                fmt::format("{}: field '{}': got '{}', want one of {}", where_, name, value, fmt::join(allowed, ", ")),
                suggestion(value, allowed));
  }
  return value;
}

void JsonObject::ignore(std::string_view name) {
  asked_.emplace_back(name);
}

int JsonObject::unread() const {
  return static_cast<int>(std::ranges::count_if(value_.get_ref<const Json::object_t&>(), [&](const auto& field) {
    return std::ranges::find(asked_, field.first) == asked_.end();
  }));
}

void JsonObject::finish() const {
  for (const auto& [key, value] : value_.items()) {
    if (std::ranges::find(asked_, key) != asked_.end()) continue;
    std::vector<std::string> known;  // a field may have been read twice
    for (const auto& name : asked_) {
      if (std::ranges::find(known, name) == known.end()) known.emplace_back(name);
    }
    throw Error(Code::bad_file, fmt::format("{}: unknown field '{}'", where_, key), suggestion(key, known));
  }
}

}  // namespace exeunt
