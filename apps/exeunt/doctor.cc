// SPDX-License-Identifier: Apache-2.0
// `exeunt doctor`: what this machine can run, what is missing, and how to fix it.
#include "exeunt/eval/doctor.h"

#include <algorithm>
#include <cstdlib>

#include <unistd.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/manual.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/program.h"
#include "exeunt/base/version.h"

namespace exeunt::apps {
namespace {

// A value that must not be shown.
bool is_secret(std::string_view name) {
  return name.find("KEY") != std::string_view::npos || name.find("TOKEN") != std::string_view::npos;
}

void add_variable(std::string_view name, std::string_view effect, std::vector<Finding>& out) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return;
  const std::string shown = is_secret(name) ? "…" : value;
  out.push_back({.name = std::string(name),
                 .text = fmt::format("{}: {}", shown, effect),
                 .details = {{"value", shown}, {"effect", std::string(effect)}}});
}

void add_flag_variables(const CLI::App& verb, std::vector<Finding>& out) {
  for (const CLI::Option* option : options_of(verb)) {
    if (option->get_envname().empty()) continue;
    add_variable(option->get_envname(),
                 fmt::format("{} of '{}': {}", flag_names(*option).back(), full_name(verb), option->get_description()),
                 out);
  }
  for (const CLI::App* inner : verbs_of(verb)) add_flag_variables(*inner, out);
}

// Every variable that is set and read, and those that look like ours and are not read.
std::vector<Finding> environment(const CLI::App& command) {
  std::vector<Finding> out;
  for (const auto& [name, effect] : variables()) add_variable(name, effect, out);
  add_flag_variables(command, out);
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("EXEUNT_")) continue;
    if (std::any_of(out.begin(), out.end(), [&](const Finding& finding) { return finding.name == name; })) continue;
    out.push_back({.name = name,
                   .health = Health::note,
                   .text = "set, but nothing reads it",
                   .hint = "known: EXEUNT_ISA, EXEUNT_MODEL",
                   .details = {{"effect", nullptr}}});
  }
  return out;
}

void print_findings(const std::vector<Finding>& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, width_of(finding.name));
  for (const Finding& finding : findings) {
    fmt::print("{:<8} {:<{}}  {}\n", name_of(finding.health), finding.name, width, finding.text);
    if (!finding.hint.empty()) fmt::print("{:<8} {:<{}}  → {}\n", "", "", width, finding.hint);
  }
}

OrderedJson as_json(const std::vector<Finding>& findings) {
  OrderedJson out = OrderedJson::object();
  for (const Finding& finding : findings) {
    out[finding.name] = {{"state", std::string(name_of(finding.health))},
                         {"text", finding.text},
                         {"hint", finding.hint.empty() ? OrderedJson(nullptr) : OrderedJson(finding.hint)},
                         {"details", finding.details}};
  }
  return out;
}

void run(const Common& common, const CLI::App& app) {
  const std::vector<Finding> findings = examine_machine(find_program("exeunt-train"));
  const std::vector<Finding> set = environment(app);
  const bool usable = !any_of(findings, Health::broken);
  if (common.json) {
    OrderedJson out{{"version", std::string(version())}, {"commit", std::string(commit())}, {"usable", usable}};
    out["verdict"] = verdict(findings);
    out["findings"] = as_json(findings);
    out["environment"] = as_json(set);
    print_json(out);
  } else {
    fmt::print("exeunt {}{}\n\n", version(), commit().empty() ? "" : fmt::format(" ({})", commit()));
    print_findings(findings);
    if (!set.empty()) fmt::print("\nEnvironment variables that are set:\n");
    print_findings(set);
    fmt::print("\n{}\n", verdict(findings));
  }
  finish_output();
  if (!usable) throw Error(Code::resources, "models cannot run on this machine", "the line marked 'broken' says why");
}

}  // namespace

void add_doctor(CommandLine& line) {
  (void)add_verb(line, "doctor", "Check what this machine can run and what is missing",
                 {"exeunt doctor", "exeunt doctor --json"},
                 [&common = line.common, &app = line.app] { run(common, app); });
}

}  // namespace exeunt::apps
