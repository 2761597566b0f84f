// SPDX-License-Identifier: Apache-2.0
// `exeunt help` and `exeunt completion`: the manual on the screen, as JSON and as man pages, and scripts for shells.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
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

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

// The manual of a verb and of those in it. scripts/manual writes docs/cli.md of it.
OrderedJson manual_json(const CLI::App& app) {
  const Page page = page_of(app);
  OrderedJson out{{"name", page.name}, {"summary", page.summary}, {"usage", page.usage}, {"examples", page.examples}};
  for (const EntryGroup& group : page.groups)
    out["groups"].push_back({{"title", group.title}, {"of_verbs", group.verbs}, {"entries", group.entries}});
  out["verbs"] = OrderedJson::array();
  for (const CLI::App* verb : verbs_of(app)) out["verbs"].push_back(manual_json(*verb));
  return out;
}

void print_manual_json(const CLI::App& app) {
  OrderedJson out = manual_json(app);
  for (const auto& [status, meaning] : exit_statuses()) out["exit_statuses"][std::string(status)] = meaning;
  for (const auto& [name, effect] : variables()) out["environment"][std::string(name)] = effect;
  print_json(out);
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
  bool man = false;
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

void run_help(const Common& common, const CLI::App& app, const HelpFlags& flags) {
  if (common.json) return print_manual_json(verb_of(app, flags.words));
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
                            [flags, &common = line.common, &app = line.app] { run_help(common, app, *flags); });
  verb->add_option("VERB", flags->words, "Verb; without one, the list of verbs");
  CLI::Option* man = verb->add_flag("--man", flags->man, "A man page instead of text");
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
