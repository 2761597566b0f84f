// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "apps/exeunt/environment.h"
#include "apps/exeunt/manual.h"
#include "exeunt/base/utf8.h"
#include "exeunt/base/version.h"

namespace exeunt::apps {
namespace {

constexpr uint32_t kEllipsis = 0x2026;  // which not every terminal's font has

// Text as troff takes it on every machine: dashes that can be searched and copied, other letters by their numbers.
std::string roff(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x80) {
      const Decoded letter = decode_utf8(text.substr(at));
      const auto number = static_cast<uint32_t>(letter.code_point);
      out += number == kEllipsis ? "..." : fmt::format("\\[u{:04X}]", number);
      at += letter.bytes;
      continue;
    }
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '"') {
      out += "\\(dq";
    } else if (c == '.' && at == 0) {
      out += "\\&.";
    } else {
      out += c;
    }
    ++at;
  }
  return out;
}

std::string title(std::string name) {
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH \"{}\" 1 \"\" \"exeunt {}\" \"Exeunt\"\n", roff(upper), roff(version()));
}

std::string options(const VerbTable& verb) {
  std::string out;
  for (const std::string& group : groups_of(verb.options)) {
    if (group != "Options") out += fmt::format(".PP\n{}:\n", roff(group));
    for (const OptionRow& option : verb.options) {
      if (option.group != group) continue;
      out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(heading_of(option)), roff(meaning_of(option)));
    }
  }
  return out;
}

std::string examples(const VerbTable& verb) {
  std::string out;
  for (const std::string& line : verb.examples) out += fmt::format(".nf\n{}\n.fi\n", roff(line));
  return out;
}

std::string closing() {
  std::string out = ".SH \"EXIT STATUS\"\n";
  for (const ExitStatus& status : exit_statuses()) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", status.value, roff(status.meaning));
  }
  return out;
}

std::string usage(const VerbTable& verb) {
  return fmt::format(".SH SYNOPSIS\n.nf\n\\fB{}\\fR\n.fi\n", roff(usage_of(verb)));
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

}  // namespace

std::string man_page(const VerbTable& command) {
  std::string out = title(command.word);
  out += fmt::format(".SH NAME\n{} \\- {}\n", roff(command.word), roff(command.summary));
  out += usage(command);
  out += ".SH VERBS\n";
  for (const std::string& group : groups_of(command.verbs)) {
    out += fmt::format(".SS \"{}\"\n", roff(group));
    for (const VerbTable& verb : command.verbs) {
      if (verb.group != group) continue;
      out += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", roff(dashed(verb.name)), roff(verb.summary));
    }
  }
  out += ".SH OPTIONS\n" + options(command) + closing() + ".SH ENVIRONMENT\n";
  for (const Variable& variable : variables()) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", variable.name, roff(variable.effect));
  }
  if (!command.examples.empty()) out += ".SH EXAMPLES\n" + examples(command);
  return out;
}

std::string man_page(const VerbTable& command, const VerbTable& verb) {
  std::string out = title(dashed(verb.name));
  out += fmt::format(".SH NAME\n{} \\- {}\n", roff(dashed(verb.name)), roff(verb.summary));
  out += usage(verb);
  out += ".SH OPTIONS\n" + options(verb);
  for (const VerbTable& inner : verb.verbs) {
    out +=
        fmt::format(".SS \"{}\"\n{}.\n.PP\n\\fB{}\\fR\n", roff(inner.name), roff(inner.summary), roff(usage_of(inner)));
    out += options(inner);
    if (!inner.examples.empty()) out += ".PP\nExamples:\n.PP\n" + examples(inner);
  }
  if (!verb.examples.empty()) out += ".SH EXAMPLES\n" + examples(verb);
  out += closing();
  out += fmt::format(".SH \"SEE ALSO\"\n\\fB{}\\fR(1)\n", roff(command.word));
  return out;
}

}  // namespace exeunt::apps
