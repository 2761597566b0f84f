// SPDX-License-Identifier: Apache-2.0
// Output of the command: results on stdout, messages on stderr, colour only on a terminal that supports it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt/command.h"
#include "exeunt/base/error.h"
#include "exeunt/base/json.h"

namespace exeunt::apps {

// "error: …" and its hint on stderr. Returns the exit status that goes with it.
int report(const Error& error);

// A remark that needs no action, on stderr, unless --quiet.
void notice(const Common& common, std::string_view text);

// One result document on stdout.
void print_json(const OrderedJson& value);
// One result per line, for streams.
void print_json_line(const OrderedJson& value);

// Flushes stdout; a closed pipe or a full disk is an Error. Returns 0.
int finish_output();

// Columns of a text on a terminal, counted in code points (our tables hold no wide characters).
[[nodiscard]] size_t width_of(std::string_view text);

// Two columns, aligned: "layers   12".
void print_pairs(const std::vector<std::pair<std::string, std::string>>& rows);
// The same on stderr, unless --quiet.
void notice_pairs(const Common& common, const std::vector<std::pair<std::string, std::string>>& rows);

// A table with aligned columns; numbers (cells that start with a digit, '-' or '.') are right-aligned.
void print_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

// The problems of a file, and how many of its `count` are not among them.
void print_problems(const std::vector<std::string>& problems, int64_t count, const std::string& where);

// 33212160 → "33.2 M"; 1863843840 → "1.86 G".
[[nodiscard]] std::string short_count(double value);
// 0.9174 → "91.74".
[[nodiscard]] std::string percent(double share);

}  // namespace exeunt::apps
