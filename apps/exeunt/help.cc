// SPDX-License-Identifier: Apache-2.0
// `exeunt help` and `exeunt completion`: the table of options on the screen, as a manual, and for shells.
#include <filesystem>
#include <memory>
#include <system_error>

#include "apps/exeunt/command.h"
#include "apps/exeunt/manual.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/base/unknown.h"

namespace exeunt::apps {
namespace fs = std::filesystem;
namespace {

struct HelpFlags {
  std::vector<std::string> words;
  bool markdown = false, man = false;
  std::string out;
};

const VerbTable& verb_at(const VerbTable& command, const std::vector<std::string>& words) {
  const VerbTable* verb = &command;
  for (const std::string& word : words) {
    const VerbTable* found = nullptr;
    std::vector<std::string> known;
    for (const VerbTable& inner : verb->verbs) {
      known.push_back(inner.word);
      if (inner.word == word) found = &inner;
    }
    if (found == nullptr) {
      throw Unknown(Code::usage, fmt::format("unknown verb '{}'", word),
                    known.empty() ? fmt::format("see '{} --help'", verb->name) : suggestion(word, known));
    }
    verb = found;
  }
  return *verb;
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(Code::resources, fmt::format("{}: cannot create folder: {}", folder.string(), error.message()));
  }
}

void write_man_pages(const VerbTable& command, const fs::path& folder) {
  create_folder(folder);
  write_atomically(folder / (command.word + ".1"), man_page(command));
  for (const VerbTable& verb : command.verbs) {
    write_atomically(folder / fmt::format("{}-{}.1", command.word, verb.word), man_page(command, verb));
  }
}

void run(const CLI::App& app, const HelpFlags& flags) {
  const VerbTable command = describe(app);
  if (!flags.out.empty()) return write_man_pages(command, flags.out);
  if (flags.markdown) {
    fmt::print("{}", markdown_manual(command));
  } else if (!flags.man) {
    fmt::print("{}", help_text(verb_at(command, flags.words)));
  } else if (flags.words.empty()) {
    fmt::print("{}", man_page(command));
  } else {
    fmt::print("{}", man_page(command, verb_at(command, {flags.words.front()})));
  }
}

void run_completion(const CLI::App& app, const std::string& shell, const std::string& out) {
  const VerbTable command = describe(app);
  const std::string script = shell == "bash"  ? bash_completion(command)
                             : shell == "zsh" ? zsh_completion(command)
                                              : fish_completion(command);
  if (out.empty()) {
    fmt::print("{}", script);
    return;
  }
  if (const fs::path folder = fs::path(out).parent_path(); !folder.empty()) create_folder(folder);
  write_atomically(out, script);
}

}  // namespace

void add_help(CommandLine& line) {
  const auto flags = std::make_shared<HelpFlags>();
  CLI::App* verb = add_verb(line, "help", "Show help for a verb, or the whole manual",
                            {"exeunt help calibrate", "exeunt help policy set", "exeunt help --man serve | man -l -",
                             "exeunt help --man --out ~/.local/share/man/man1"},
                            [flags, &app = line.app] { run(app, *flags); });
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
                            [shell, out, &app = line.app] { run_completion(app, *shell, *out); });
  verb->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->add_option("--out", *out, "Output file; its folders are created")
      ->default_str("standard output")
      ->type_name("FILE");
}

}  // namespace exeunt::apps
