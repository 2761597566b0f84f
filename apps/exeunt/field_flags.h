// SPDX-License-Identifier: Apache-2.0
// Command-line flags from lists of fields (exeunt/base/fields.h): every field that names a flag gets one, with its
// help, range, choices and default.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "apps/exeunt/command.h"
#include "exeunt/base/fields.h"

namespace exeunt::apps {

// The checks of a field, for a flag that takes a T.
template <class T>
void check_flag(CLI::Option& option, const Field& field) {
  if constexpr (std::same_as<T, std::string>) {
    if (!field.choices.empty()) option.check(one_of({field.choices.begin(), field.choices.end()}));
  } else if (field.low >= 0 || field.high < INFINITY) {
    option.check(number_in(field.low, field.high, field.open && field.high == INFINITY));
  }
}

// Flags that set the fields of `into`. A default outside the field's range stands for "not given" and is not shown.
template <class T>
void add_field_flags(CLI::App& verb, T& into) {
  T::fields(into, [&](const Field& field, auto& value) {
    if (field.flag.empty()) return;
    using Value = std::remove_cvref_t<decltype(value)>;
    const std::string flag(field.flag), help(field.help);
    CLI::Option* option = nullptr;
    if constexpr (std::same_as<Value, bool>) {
      option = verb.add_flag(flag, value, help);
    } else {
      option = verb.add_option(flag, value, help);
      check_flag<Value>(*option, field);
      bool shown = true;
      if constexpr (std::is_arithmetic_v<Value>) shown = static_cast<double>(value) >= field.low;
      if (shown) option->capture_default_str();
    }
  });
}

// Flags that collect what is given as JSON, by field, to be put into a T later (a partial JsonObject).
template <class T>
void add_change_flags(CLI::App& verb, Json& changes) {
  const T defaults{};
  T::fields(defaults, [&](Field field, const auto& value) {
    if (field.flag.empty()) return;
    using Value = std::remove_cvref_t<decltype(value)>;
    const std::string flag(field.flag), help(field.help), name(field.name);
    CLI::Option* option = nullptr;
    const auto add = [&]<class Given>(Given) {
      option = verb.add_option_function<Given>(
          flag, [&changes, name](const Given& given) { changes[name] = given; }, help);
      check_flag<Given>(*option, field);
    };
    if constexpr (NamedEnum<Value>) {
      const auto& names = names_of(Value{});
      field.choices = {names.begin(), names.end()};
      add(std::string());
    } else if constexpr (std::same_as<Value, std::string>) {
      add(std::string());
    } else if constexpr (std::integral<Value> || std::same_as<Value, std::optional<int>>) {
      add(int64_t{});
    } else {
      add(double{});
    }
  });
}

}  // namespace exeunt::apps
