// SPDX-License-Identifier: Apache-2.0
// One list of a struct's fields, from which come its JSON reader and writer, its command-line flags
// (apps/exeunt/field_flags.h), the comparison of two of them and the table in docs:
//
//   struct Point {
//     double epsilon = 0.01;  // the default, where the file leaves it out
//     std::optional<std::string> note;
//
//     template <class Self, class Visit>
//     static void fields(Self& self, Visit&& visit) {
//       visit(Field{"epsilon", "Largest loss", "--epsilon", 0, 1}, self.epsilon);  // name, help, flag, low, high
//       visit(Field{.name = "note"}, self.note);
//     }
//   };
//   const Point point = read_fields<Point>(json, "points.json");  // Error: got, wanted, nearest known name
//   const OrderedJson text = fields_json(point);
//
// A field may be a bool, a number, a string, an enumeration that has names_of(), an optional or a list of these, a
// struct with fields of its own, or any type with overloads of read_field() and field_json(). Fields are visited in
// order and may depend on those before them: Field{.name = "layer", .applies = self.kind == Kind::limit}.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/json.h"
#include "exeunt/base/number.h"

namespace exeunt {

inline constexpr unsigned kEverywhere = ~0U;

struct Field {
  std::string_view name;                                  // key in JSON
  std::string_view help = {};                             // one sentence without a full stop
  std::string_view flag = {};                             // "--head-lr"; empty: no flag
  double low = -std::numeric_limits<double>::infinity();  // numbers: the range, ends included …
  double high = std::numeric_limits<double>::infinity();
  bool open = false;                               // … or excluded
  std::span<const std::string_view> choices = {};  // strings: all that are allowed; empty: any
  bool required = false;                           // an error where a file leaves it out
  bool omit_empty = false;                         // left out of the file while null or empty
  bool applies = true;        // false where fields before it make it meaningless; it is then unknown in files
  unsigned in = kEverywhere;  // which files have it, as bits the struct's owner defines
};

namespace detail {

struct AnyVisit {
  template <class T>
  void operator()(const Field&, T&) const {}
};
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;

}  // namespace detail

template <class T>
concept HasFields = requires(T& value) {
  T::fields(value, detail::AnyVisit{});
};
template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  names_of(value);
};

template <NamedEnum T>
[[nodiscard]] constexpr std::string_view word_of(T value) noexcept {
  return names_of(value)[static_cast<size_t>(value)];
}

// The inverse; nothing for an unknown name.
template <NamedEnum T>
[[nodiscard]] constexpr std::optional<T> named(std::string_view name) noexcept {
  const auto& names = names_of(T{});
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<T>(found - names.begin()));
}

// What a field may be, for errors and docs: "a whole number from 1 to 64", "one of cls, mean".
template <class T>
[[nodiscard]] std::string wanted(const Field& field) {
  if constexpr (detail::is_optional<T>) {
    return wanted<typename T::value_type>(field) + ", or null";
  } else if constexpr (detail::is_list<T>) {
    return "a list, each " + wanted<typename T::value_type>(field);
  } else if constexpr (std::same_as<T, bool>) {
    return "true or false";
  } else if constexpr (NamedEnum<T>) {
    return fmt::format("one of {}", fmt::join(names_of(T{}), ", "));
  } else if constexpr (std::is_arithmetic_v<T>) {
    const char* kind = std::integral<T> ? "a whole number" : "a number";
    if (field.low == -INFINITY && field.high == INFINITY) return kind;
    if (field.high == INFINITY) return fmt::format("{} {} {}", kind, field.open ? "above" : "of at least", field.low);
    if (field.open) return fmt::format("{} above {} and below {}", kind, field.low, field.high);
    return fmt::format("{} from {} to {}", kind, field.low, field.high);
  } else if constexpr (std::convertible_to<T, std::string_view>) {
    return field.choices.empty() ? "a text" : fmt::format("one of {}", fmt::join(field.choices, ", "));
  } else if constexpr (requires { T::kWanted; }) {
    return std::string(T::kWanted);
  } else {
    return "an object";
  }
}

template <class T>
[[nodiscard]] T read_fields(const Json& value, const std::string& where, unsigned in = kEverywhere);
template <class T>
void read_fields(JsonObject& object, T& into, unsigned in = kEverywhere);

// Reads one field into `value`, which keeps what it has where the field is absent or null. A type may bring an
// overload.
template <class T>
void read_field(JsonObject& object, const Field& field, T& value) {
  const Json* found = object.find(field.name);
  if (found == nullptr && field.required && !object.partial()) (void)object.get(field.name);
  if (found == nullptr) return;
  if constexpr (detail::is_optional<T>) {
    auto inner = value.value_or(typename T::value_type{});
    read_field(object, field, inner);
    value = std::move(inner);
  } else if constexpr (detail::is_list<T>) {
    if (!found->is_array()) object.fail(field.name, glimpse(*found), wanted<T>(field));
    value.clear();
    for (const Json& element : *found) {  // read as if it were the field itself
      const Json alone{{std::string(field.name), element}};
      JsonObject one(alone, object.where());
      Field named = field;
      named.required = true;
      const std::string place = fmt::format("{}[{}]", field.name, value.size());
      typename T::value_type item{};
      if constexpr (HasFields<typename T::value_type>) {
        item = read_fields<typename T::value_type>(element, fmt::format("{}: {}", object.where(), place));
      } else {
        read_field(one, named, item);
      }
      value.push_back(std::move(item));
    }
  } else if constexpr (HasFields<T>) {
    JsonObject inner(*found, fmt::format("{}: {}", object.where(), field.name), object.partial());
    read_fields(inner, value);
    inner.finish();
  } else if constexpr (std::same_as<T, bool>) {
    value = object.boolean_or(field.name, value);
  } else if constexpr (NamedEnum<T>) {
    const auto& names = names_of(T{});
    value = *named<T>(object.choice(field.name, {names.begin(), names.end()}));
  } else if constexpr (std::integral<T>) {
    constexpr int64_t kMost = std::min<uint64_t>(std::numeric_limits<T>::max(), int64_t{1} << 62);
    const int64_t low = field.low == -INFINITY ? std::max<int64_t>(std::numeric_limits<T>::min(), -kMost)
                                               : static_cast<int64_t>(field.low);
    const int64_t high = field.high == INFINITY ? kMost : static_cast<int64_t>(field.high);
    value = static_cast<T>(object.integer(field.name, low, high));
  } else if constexpr (std::floating_point<T>) {
    const double number = object.number(field.name);
    const bool fits =
        field.open ? number > field.low && number < field.high : number >= field.low && number <= field.high;
    if (!fits) object.fail(field.name, fmt::format("{}", number), wanted<T>(field));
    value = static_cast<T>(number);
  } else {
    value = field.choices.empty() ? object.string(field.name)
                                  : object.choice(field.name, {field.choices.begin(), field.choices.end()});
  }
}

// Into what `into` already holds. The caller ends with object.finish().
template <class T>
void read_fields(JsonObject& object, T& into, unsigned in) {
  T::fields(into, [&](const Field& field, auto& value) {
    if (field.applies && (field.in & in) != 0) read_field(object, field, value);
  });
}

template <class T>
T read_fields(const Json& value, const std::string& where, unsigned in) {
  T into{};
  JsonObject object(value, where);
  read_fields(object, into, in);
  object.finish();
  return into;
}

template <class T>
[[nodiscard]] OrderedJson fields_json(const T& value, unsigned in = kEverywhere);

// One value as its file has it. A type may bring an overload.
template <class T>
[[nodiscard]] OrderedJson field_json(const T& value) {
  if constexpr (detail::is_optional<T>) {
    return value ? field_json(*value) : OrderedJson(nullptr);
  } else if constexpr (detail::is_list<T>) {
    OrderedJson list = OrderedJson::array();
    for (const auto& element : value) list.push_back(field_json(element));
    return list;
  } else if constexpr (HasFields<T>) {
    return fields_json(value);
  } else if constexpr (NamedEnum<T>) {
    return OrderedJson(word_of(value));
  } else if constexpr (std::same_as<T, float>) {
    return OrderedJson(short_double(value));
  } else {
    return OrderedJson(value);
  }
}

template <class T>
OrderedJson fields_json(const T& value, unsigned in) {
  OrderedJson out = OrderedJson::object();
  T::fields(value, [&](const Field& field, const auto& one) {
    if (!field.applies || (field.in & in) == 0) return;
    OrderedJson json = field_json(one);
    if (!field.omit_empty || !json.empty()) out[std::string(field.name)] = std::move(json);
  });
  return out;
}

// A Markdown table of the fields: name, what it may be, default, help.
template <class T>
[[nodiscard]] std::string field_table(unsigned in = kEverywhere) {
  std::string text = "| field | | default | |\n| --- | --- | --- | --- |\n";
  const T defaults{};
  T::fields(defaults, [&](const Field& field, const auto& value) {
    if ((field.in & in) == 0) return;
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.name, wanted<std::remove_cvref_t<decltype(value)>>(field),
                        field.required ? "required" : fmt::format("`{}`", field_json(value).dump()), field.help);
  });
  return text;
}

}  // namespace exeunt
