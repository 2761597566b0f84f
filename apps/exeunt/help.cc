// SPDX-License-Identifier: Apache-2.0
// `exeunt help` and `exeunt completion`: the manual on the screen, as Markdown and as man pages, and scripts for
// shells.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/manual.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/base/utf8.h"
#include "exeunt/base/version.h"

namespace exeunt::apps {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOpening =
    "# Command line\n\n"
    "Written by `exeunt help --markdown` from the flags that the verbs declare; a test compares the two.\n"
    "`exeunt VERB --help` shows the same on a terminal, `man exeunt-VERB` the same where it is installed, and\n"
    "`exeunt completion bash`, `zsh` or `fish` prints shell completion.\n";

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

// Escapes markup in a table cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("|*_<[]`").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// In a cell a bar ends the column even inside code.
std::string code_cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return "`" + text + "`";
}

std::string markdown_group(const Page& page, const EntryGroup& group) {
  std::string out = fmt::format("| {} | |\n| --- | --- |\n", group.title);
  for (const auto& [heading, meaning] : group.entries) {
    const std::string left =
        group.verbs ? fmt::format("[{}](#{}-{})", heading, dashed(page.name), heading) : code_cell(heading);
    out += fmt::format("| {} | {} |\n", left, cell(meaning));
  }
  return out + "\n";
}

std::string markdown_examples(const Page& page) {
  return page.examples.empty() ? "" : fmt::format("```\n{}\n```\n", fmt::join(page.examples, "\n"));
}

// How many verbs have an option with the same meaning. Those that many have are told in one place.
using OptionCounts = std::map<Entry, int>;
constexpr int kManyVerbs = 4;

void count_options(const CLI::App& app, OptionCounts& counts) {
  for (const CLI::App* verb : verbs_of(app)) {
    for (const EntryGroup& group : page_of(*verb).groups)
      for (const Entry& entry : group.entries) counts[entry] += entry.first.starts_with("--") ? 1 : 0;
    count_options(*verb, counts);
  }
}

std::string markdown_section(const CLI::App& verb, const OptionCounts& counts) {
  Page page = page_of(verb);
  std::string out = fmt::format("\n## {}\n{}\n```\n{}\n```\n", page.name, cell(page.summary), page.usage);
  std::vector<std::string> shared;
  for (EntryGroup& group : page.groups) {
    if (group.title == kCommonOptions) continue;
    std::erase_if(group.entries, [&](const Entry& entry) {
      const bool told = counts.at(entry) >= kManyVerbs;
      if (told) shared.push_back(code_cell(entry.first.substr(0, entry.first.find(' '))));
      return told;
    });
    if (!group.entries.empty()) out += markdown_group(page, group);
  }
  if (!shared.empty())
    out += fmt::format("and [as several verbs](#options-of-several-verbs) {}\n\n", fmt::join(shared, ", "));
  out += markdown_examples(page);
  for (const CLI::App* inner : verbs_of(verb)) out += markdown_section(*inner, counts);
  return out;
}

// docs/cli.md
std::string markdown_manual(const CLI::App& app) {
  const Page top = page_of(app), any = page_of(*verbs_of(app).front());
  std::string out = std::string(kOpening) + markdown_examples(top) + "\n";
  for (const EntryGroup& group : top.groups) {
    if (group.verbs) out += markdown_group(top, group);
  }
  out += "Every verb also takes:\n\n" + markdown_group(any, any.groups.back());
  out +=
      "`exeunt --version` prints the version. With [exeunt-lab](lab.md) flags may be spelled with `_` for `-`,\n"
      "and the original implementations' names are accepted.\n";
  out += "\n| exit status | |\n| --- | --- |\n";
  for (const auto& [status, meaning] : exit_statuses()) out += fmt::format("| {} | {} |\n", status, meaning);
  out += "\n| environment | |\n| --- | --- |\n";
  for (const auto& [name, effect] : variables()) out += fmt::format("| `{}` | {} |\n", name, cell(effect));
  OptionCounts counts;
  count_options(app, counts);
  EntryGroup shared{"Option"};
  for (const auto& [entry, verbs] : counts)
    if (verbs >= kManyVerbs && entry.first != "--json") shared.entries.push_back(entry);
  out += "\n## Options of several verbs\n" + markdown_group(top, shared);
  for (const CLI::App* verb : verbs_of(app)) out += markdown_section(*verb, counts);
  return out;
}

constexpr std::array<std::pair<char, std::string_view>, 7> kRoffEscapes{
    {{'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}}};

// Text as troff takes it on every machine: dashes that can be searched and copied, other letters by their numbers.
std::string roff(std::string_view text) {
  std::string out = text.starts_with('.') ? "\\&" : "";
  for (size_t at = 0; at < text.size();) {
    const Decoded letter = decode_utf8(text.substr(at));
    const auto number = static_cast<uint32_t>(letter.code_point);
    at += letter.bytes;
    const auto* escape = std::find_if(kRoffEscapes.begin(), kRoffEscapes.end(),
                                      [&](const auto& one) { return static_cast<uint32_t>(one.first) == number; });
    if (escape != kRoffEscapes.end()) {
      out += escape->second;
    } else if (number < 0x80) {
      out += static_cast<char>(number);
    } else {
      out += number == 0x2026 ? "..." : fmt::format("\\[u{:04X}]", number);  // not every font has the ellipsis
    }
  }
  return out;
}

std::string man_entry(std::string_view heading, std::string_view meaning) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(heading), roff(meaning));
}

std::string man_examples(const Page& page) {
  std::string out;
  for (const std::string& line : page.examples) out += fmt::format(".nf\n{}\n.fi\n", roff(line));
  return out;
}

// What a verb's --help says; `macro` begins its groups.
std::string man_body(const Page& page, std::string_view macro) {
  std::string out = fmt::format(".nf\n\\fB{}\\fR\n.fi\n", roff(page.usage));
  for (const EntryGroup& group : page.groups) {
    out += fmt::format("{} \"{}\"\n", macro, roff(group.title));
    for (const auto& [heading, meaning] : group.entries) {
      out += man_entry(group.verbs ? dashed(page.name) + "-" + heading : heading, meaning);
    }
  }
  if (!page.examples.empty()) out += fmt::format("{} Examples\n{}", macro, man_examples(page));
  return out;
}

// exeunt.1, or exeunt-VERB.1 with the verbs of that verb.
std::string man_page(const CLI::App& app) {
  const Page page = page_of(app);
  std::string upper = dashed(page.name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string out = fmt::format(".TH \"{}\" 1 \"\" \"exeunt {}\" \"Exeunt\"\n", roff(upper), roff(version()));
  out += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n", roff(dashed(page.name)), roff(page.summary));
  out += man_body(page, ".SH");
  const CLI::App* command = app.get_parent();
  if (command != nullptr) {
    for (const CLI::App* verb : verbs_of(app)) {
      const Page inner = page_of(*verb);
      out += fmt::format(".SH \"{}\"\n{}.\n.PP\n{}", roff(inner.name), roff(inner.summary), man_body(inner, ".SS"));
    }
  }
  out += ".SH \"EXIT STATUS\"\n";
  for (const auto& [status, meaning] : exit_statuses()) out += man_entry(status, meaning);
  if (command != nullptr) return out + fmt::format(".SH \"SEE ALSO\"\n\\fB{}\\fR(1)\n", roff(command->get_name()));
  out += ".SH ENVIRONMENT\n";
  for (const auto& [name, effect] : variables()) out += man_entry(name, effect);
  return out;
}

struct HelpFlags {
  std::vector<std::string> words;
  bool markdown = false, man = false;
  std::string out;
};

const CLI::App& verb_of(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* verb = &app;
  for (const std::string& word : words) {
    const CLI::App* found = nullptr;
    std::vector<std::string> known;
    for (const CLI::App* inner : verbs_of(*verb)) {
      known.push_back(inner->get_name());
      if (known.back() == word) found = inner;
    }
    if (found == nullptr) {
      throw Unknown(Code::usage, fmt::format("unknown verb '{}'", word),
                    known.empty() ? fmt::format("see '{} --help'", full_name(*verb)) : suggestion(word, known));
    }
    verb = found;
  }
  return *verb;
}

// Into a file, whose folders are created, or onto the screen.
void write_to(const fs::path& file, std::string_view text) {
  if (file.empty()) return fmt::print("{}", text);
  const fs::path folder = file.parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw Error(Code::resources, fmt::format("{}: cannot create folder: {}", folder.string(), error.message()));
  write_atomically(file, text);
}

void run_help(const CLI::App& app, const HelpFlags& flags) {
  if (flags.markdown) return write_to("", markdown_manual(app));
  if (!flags.man) return write_to("", help_text(verb_of(app, flags.words)));
  if (flags.out.empty()) {
    return write_to("", man_page(flags.words.empty() ? app : verb_of(app, {flags.words.front()})));
  }
  const fs::path folder = flags.out;
  write_to(folder / (app.get_name() + ".1"), man_page(app));
  for (const CLI::App* verb : verbs_of(app)) write_to(folder / (dashed(full_name(*verb)) + ".1"), man_page(*verb));
}

}  // namespace

void add_help(CommandLine& line) {
  const auto flags = std::make_shared<HelpFlags>();
  CLI::App* verb = add_verb(line, "help", "Show help for a verb, or the whole manual",
                            {"exeunt help calibrate", "exeunt help policy set", "exeunt help --man serve | man -l -",
                             "exeunt help --man --out ~/.local/share/man/man1"},
                            [flags, &app = line.app] { run_help(app, *flags); });
  verb->add_option("VERB", flags->words, "Verb; without one, the list of verbs");
  CLI::Option* markdown = verb->add_flag("--markdown", flags->markdown, "All verbs, as docs/cli.md");
  CLI::Option* man = verb->add_flag("--man", flags->man, "A man page instead of text")->excludes(markdown);
  verb->add_option("--out", flags->out, "With --man: output folder for the pages of all verbs")
      ->needs(man)
      ->type_name("DIR");
}

void add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>(), out = std::make_shared<std::string>();
  CLI::App* verb = add_verb(line, "completion", "Print a shell completion script",
                            {"source <(exeunt completion bash)", "exeunt completion zsh --out ~/.zfunc/_exeunt",
                             "exeunt completion fish --out ~/.config/fish/completions/exeunt.fish"},
                            [shell, out] { write_to(*out, completion_script("completion." + *shell)); });
  verb->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(one_of({"bash", "zsh", "fish"}));
  verb->add_option("--out", *out, "Output file; its folders are created")
      ->default_str("standard output")
      ->type_name("FILE");
}

}  // namespace exeunt::apps
