// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/command.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt/manual.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"

namespace exeunt::apps {

std::string alternatives(const std::vector<std::string>& words) {
  std::string out = words.front();
  for (size_t i = 1; i < words.size(); ++i) out += (i + 1 == words.size() ? " or " : ", ") + words[i];
  return out;
}

CLI::Validator one_of(const std::vector<std::string>& choices) {
  const auto check = [choices](const std::string& got) {
    if (std::find(choices.begin(), choices.end(), got) != choices.end()) return std::string();
    const std::string near = nearest(got == "fp16" ? "bf16" : got, choices);  // the other narrow one, not fp32
    return fmt::format("got '{}', want {}{}", got, alternatives(choices),
                       near.empty() ? "" : fmt::format("\ndid you mean '{}'?", near));
  };
  return {check, fmt::format("{{{}}}", fmt::join(choices, ","))};
}

CLI::Validator number_in(double low, double high, bool open) {
  const std::string want = high < HUGE_VAL ? fmt::format("{} to {}", low, high)
                           : open          ? fmt::format("more than {}", low)
                                           : fmt::format("{} or more", low);
  const auto check = [=](const std::string& got) {
    const double value = number_of<double>(got).value_or(NAN);
    return value >= low && value <= high && !(open && value == low) ? "" : fmt::format("got '{}', want {}", got, want);
  };
  return {check, ""};
}

CLI::App* add_verb(CommandLine& line, const std::string& name, const std::string& summary,
                   const std::vector<std::string>& examples, std::function<void()> run) {
  CLI::App* verb = line.app.add_subcommand(name, summary);
  verb->add_flag("--json", line.common.json, "Print results as JSON")->group(kCommonOptions);
  verb->add_flag("-q,--quiet", line.common.quiet, "Suppress notices and progress")->group(kCommonOptions);
  verb->footer(fmt::format("{}", fmt::join(examples, "\n")));
  verb->callback([&chosen = line.chosen, run = std::move(run)] { chosen = run; });
  return verb;
}

void add_verbose_flag(CommandLine& line, CLI::App& verb) {
  verb.add_flag("-v,--verbose", line.common.verbose, "Print tables and details before the summary")
      ->group(kCommonOptions);
}

}  // namespace exeunt::apps
