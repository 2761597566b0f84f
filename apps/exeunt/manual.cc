// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/manual.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/utf8.h"
#include "exeunt/base/version.h"

namespace exeunt::apps {
namespace {

constexpr std::string_view kCache = "cache in which models named org/name are looked up";
constexpr std::string_view kWorld = "distributed training; set by 'exeunt launch', torchrun or Slurm";

constexpr std::array<Variable, 16> kVariables{{
    {"EXEUNT_ISA", "kernels to use instead of the best this CPU supports, e.g. generic or avx2"},
    {"EXEUNT_MODEL", "default of --model for 'exeunt train'"},
    {"HF_HUB_CACHE", kCache},
    {"HUGGINGFACE_HUB_CACHE", kCache},
    {"HF_HOME", "cache in which models named org/name are looked up: its folder hub"},
    {"XDG_CACHE_HOME", "cache in which models named org/name are looked up: its folder huggingface/hub"},
    {"NO_COLOR", "disables colours"},
    {"FORCE_COLOR", "forces colours even when stderr is not a terminal"},
    {"CUDA_VISIBLE_DEVICES", "GPUs that the trainer may see"},
    {"OMP_NUM_THREADS", "default number of LibTorch threads"},
    {"RANK", kWorld},
    {"LOCAL_RANK", kWorld},
    {"WORLD_SIZE", kWorld},
    {"MASTER_ADDR", kWorld},
    {"MASTER_PORT", kWorld},
    {"SLURM_NTASKS", "like WORLD_SIZE, with SLURM_PROCID and SLURM_LOCALID, in a Slurm job"},
}};

constexpr std::array<ExitStatus, 5> kStatuses{{
    {0, "success"},
    {1, "failure: a guarantee that cannot be given, a comparison that does not hold"},
    {2, "invalid command line"},
    {3, "missing resource: memory, disk, a port, a library"},
    {4, "invalid file"},
}};

}  // namespace

std::span<const Variable> variables() noexcept {
  return kVariables;
}

std::span<const ExitStatus> exit_statuses() noexcept {
  return kStatuses;
}

namespace {

constexpr std::string_view kOpening =
    "# Command line\n\n"
    "Written by `exeunt help --markdown` from the command's table of options; a test compares the two.\n"
    "`exeunt VERB --help` shows the same on a terminal, `man exeunt-VERB` the same where it is installed, and\n"
    "`exeunt completion bash`, `zsh` or `fish` prints shell completion.\n";

// Escapes markup in a table cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<' || c == '[' || c == ']' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

// In a cell a bar ends the column even inside code.
std::string code(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return "`" + text + "`";
}

std::string first_column(const OptionRow& option) {
  std::string out;
  if (!option.argument.empty()) out = code(option.argument + (option.many ? "…" : ""));
  for (const std::string& name : option.names) {
    out += (out.empty() ? "" : ", ") +
           code(&name == &option.names.back() && !option.value.empty() ? name + " " + option.value : name);
  }
  return out;
}

std::string row(const OptionRow& option) {
  return fmt::format("| {} | {} |\n", first_column(option), cell(meaning_of(option)));
}

std::string section(const VerbTable& verb) {
  std::string out = fmt::format("\n## {}\n{}\n", verb.name, cell(verb.summary));
  out += fmt::format("```\n{}\n```\n", usage_of(verb));
  for (const std::string& group : groups_of(verb.options)) {
    if (group == kEverywhere) continue;
    out += fmt::format("| {} | |\n| --- | --- |\n", group == "Options" ? "" : group);
    for (const OptionRow& option : verb.options) {
      if (option.group == group) out += row(option);
    }
    out += "\n";
  }
  if (!verb.examples.empty()) out += fmt::format("```\n{}\n```\n", fmt::join(verb.examples, "\n"));
  for (const VerbTable& inner : verb.verbs) out += section(inner);
  return out;
}

std::string anchor(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

}  // namespace

std::string markdown_manual(const VerbTable& command) {
  std::string out(kOpening);
  if (!command.examples.empty()) out += fmt::format("```\n{}\n```\n", fmt::join(command.examples, "\n"));
  for (const std::string& group : groups_of(command.verbs)) {
    out += fmt::format("\n| {} | |\n| --- | --- |\n", group);
    for (const VerbTable& verb : command.verbs) {
      if (verb.group != group) continue;
      out += fmt::format("| [{}](#{}) | {} |\n", verb.word, anchor(verb.name), cell(verb.summary));
    }
  }
  out += "\nEvery verb also takes:\n\n| | |\n| --- | --- |\n";
  const VerbTable& any = command.verbs.front();
  for (const OptionRow& option : any.options) {
    if (option.group == kEverywhere) out += row(option);
  }
  out +=
      "\n`exeunt --version` prints the version. With [exeunt-lab](lab.md) flags may be spelled with `_` for `-`,\n"
      "and the original implementations' names are accepted.\n";
  out += "\n| exit status | |\n| --- | --- |\n";
  for (const ExitStatus& status : exit_statuses()) out += fmt::format("| {} | {} |\n", status.value, status.meaning);
  out += "\n| environment | |\n| --- | --- |\n";
  for (const Variable& variable : variables()) {
    out += fmt::format("| `{}` | {} |\n", variable.name, cell(variable.effect));
  }
  for (const VerbTable& verb : command.verbs) out += section(verb);
  return out;
}

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

std::string man_options(const VerbTable& verb) {
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
  out += ".SH OPTIONS\n" + man_options(command) + closing() + ".SH ENVIRONMENT\n";
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
  out += ".SH OPTIONS\n" + man_options(verb);
  for (const VerbTable& inner : verb.verbs) {
    out +=
        fmt::format(".SS \"{}\"\n{}.\n.PP\n\\fB{}\\fR\n", roff(inner.name), roff(inner.summary), roff(usage_of(inner)));
    out += man_options(inner);
    if (!inner.examples.empty()) out += ".PP\nExamples:\n.PP\n" + examples(inner);
  }
  if (!verb.examples.empty()) out += ".SH EXAMPLES\n" + examples(verb);
  out += closing();
  out += fmt::format(".SH \"SEE ALSO\"\n\\fB{}\\fR(1)\n", roff(command.word));
  return out;
}

}  // namespace exeunt::apps
