// SPDX-License-Identifier: Apache-2.0
// Shell completion: verbs, flags, the choices of a flag, and files for anything else.
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt/manual.h"

namespace exeunt::apps {
namespace {

// Every verb with its full path: " policy show".
struct Place {
  std::string words;
  const VerbTable* verb;
};

void add_places(const VerbTable& verb, const std::string& words, std::vector<Place>& out) {
  out.push_back({words, &verb});
  for (const VerbTable& inner : verb.verbs) add_places(inner, words + " " + inner.word, out);
}

std::vector<Place> places_of(const VerbTable& command) {
  std::vector<Place> out;
  add_places(command, "", out);
  return out;
}

std::vector<std::string> words_of(const std::vector<VerbTable>& verbs) {
  std::vector<std::string> out;
  for (const VerbTable& verb : verbs) out.push_back(verb.word);
  return out;
}

// What may occur in place of a flag: nested verbs, the choices of an argument, the verbs for `help`.
std::vector<std::string> plain_words(const VerbTable& command, const VerbTable& verb) {
  if (!verb.verbs.empty()) return words_of(verb.verbs);
  for (const OptionRow& option : verb.options) {
    if (!option.choices.empty() && !option.argument.empty()) return option.choices;
    if (option.argument == "VERB") return words_of(command.verbs);
  }
  return {};
}

std::string without_dashes(const std::string& name) {
  return name.substr(name.find_first_not_of('-'));
}

std::string replaced(std::string_view text, char what, std::string_view with) {
  std::string out;
  for (const char c : text) out += c == what ? std::string(with) : std::string(1, c);
  return out;
}

// One clause of bash's inner case: the words after these flags, or `kind` of value.
std::string bash_clause(const OptionRow& option) {
  const std::string names = fmt::format("{}", fmt::join(option.names, " | "));
  if (!option.choices.empty()) {
    return fmt::format("        {}) words='{}' kind=value ;;\n", names, fmt::join(option.choices, " "));
  }
  return fmt::format("        {}) kind={} ;;\n", names, option.number ? "number" : "file");
}

std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionRow& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  return option.number ? " " : "_files";
}

// One argument of _arguments: '(-p --port)'{-p,--port}'[Port]:N: '
std::string zsh_spec(const OptionRow& option) {
  const std::string value =
      option.value.empty() ? "" : fmt::format(":{}:{}", zsh_text(option.value), zsh_action(option));
  const std::string tail = fmt::format("'[{}]{}'", zsh_text(option.text), value);
  if (option.names.size() == 1) return fmt::format("'{}{}{}", option.many ? "*" : "", option.names[0], tail.substr(1));
  const std::string all = fmt::format("{}", fmt::join(option.names, " "));
  return fmt::format("'{}'{{{}}}{}", option.many ? "*" : "(" + all + ")", fmt::join(option.names, ","), tail);
}

std::string zsh_function(const VerbTable& command, const Place& place) {
  const VerbTable& verb = *place.verb;
  std::string out = fmt::format("\n{}() {{\n", "_exeunt" + replaced(place.words, ' ', "-"));
  if (!verb.verbs.empty()) out += "  local state line\n  typeset -A opt_args\n";
  out += fmt::format("  _arguments{}", verb.verbs.empty() ? " -s -S" : " -C");
  for (const OptionRow& option : verb.options) {
    if (!option.names.empty()) out += " \\\n    " + zsh_spec(option);
  }
  if (verb.verbs.empty()) {
    const std::vector<std::string> words = plain_words(command, verb);
    int number = 0;
    for (const OptionRow& option : verb.options) {
      if (option.argument.empty()) continue;
      const std::string action = words.empty() ? "_files" : fmt::format("({})", fmt::join(words, " "));
      const std::string position = option.many ? "*" : fmt::format("{}", ++number);
      out += fmt::format(" \\\n    '{}:{}:{}'", position, zsh_text(option.argument), action);
    }
    return out + "\n}\n";
  }
  out += " \\\n    '1: :->verb' '*:: :->rest'\n  case $state in\n    verb)\n      local -a verbs=(\n";
  for (const VerbTable& inner : verb.verbs) {
    out += fmt::format("        '{}:{}'\n", inner.word, zsh_text(inner.summary));
  }
  out += "      )\n      _describe verb verbs ;;\n";
  out += fmt::format("    rest) (( $+functions[{0}-$line[1]] )) && {0}-$line[1] ;;\n  esac\n}}\n",
                     "_exeunt" + replaced(place.words, ' ', "-"));
  return out;
}

std::string fish_text(std::string_view text) {
  return "'" + replaced(replaced(text, '\\', "\\\\"), '\'', "\\'") + "'";
}

std::string fish_line(const std::string& words, const OptionRow& option) {
  std::string out = fmt::format("complete -c exeunt -n '__exeunt_at \"{}\"'", words);
  for (const std::string& name : option.names) {
    out += fmt::format(" {} {}", name.starts_with("--") ? "-l" : "-s", without_dashes(name));
  }
  if (!option.choices.empty()) {
    out += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
  } else if (!option.value.empty()) {
    out += option.number ? " -x" : " -r -F";
  }
  return out + " -d " + fish_text(option.text) + "\n";
}

}  // namespace

std::string bash_completion(const VerbTable& command) {
  std::string known, cases;
  for (const Place& place : places_of(command)) {
    if (!place.words.empty()) known += fmt::format("{}'{}'", known.empty() ? "" : " | ", place.words);
    std::vector<std::string> flags;
    std::string clauses;
    for (const OptionRow& option : place.verb->options) {
      flags.insert(flags.end(), option.names.begin(), option.names.end());
      if (!option.value.empty() && !option.names.empty()) clauses += bash_clause(option);
    }
    cases += fmt::format("    '{}')\n      flags='{}' words='{}'\n", place.words, fmt::join(flags, " "),
                         fmt::join(plain_words(command, *place.verb), " "));
    if (!clauses.empty()) cases += "      case $before in\n" + clauses + "      esac\n";
    cases += "      ;;\n";
  }
  return fmt::format(
      R"(# Completion of exeunt for bash, written by 'exeunt completion bash'.
_exeunt() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb= flags= words= kind= i
  # "--flag=value" is three words to bash.
  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$verb ${{COMP_WORDS[i]}}" in
      ' launch train') verb=' train' ;;
      {}) verb+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case $verb in
{}  esac
  COMPREPLY=()
  case $kind in
    number) compopt +o default +o bashdefault 2> /dev/null; return ;;
    file) return ;;
  esac
  [[ -z $kind && $word == -* ]] && words=$flags
  [[ -z $words ]] || COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _exeunt exeunt
)",
      known, cases);
}

std::string zsh_completion(const VerbTable& command) {
  std::string out = "#compdef exeunt\n# Completion of exeunt for zsh, written by 'exeunt completion zsh'.\n";
  for (const Place& place : places_of(command)) out += zsh_function(command, place);
  return out + "\n_exeunt \"$@\"\n";
}

std::string fish_completion(const VerbTable& command) {
  std::string known, lines;
  for (const Place& place : places_of(command)) {
    if (!place.words.empty()) known += fmt::format(" '{}'", place.words);
    for (const VerbTable& inner : place.verb->verbs) {
      lines += fmt::format("complete -c exeunt -n '__exeunt_at \"{}\"' -f -a {} -d {}\n", place.words, inner.word,
                           fish_text(inner.summary));
    }
    if (const auto words = plain_words(command, *place.verb); place.verb->verbs.empty() && !words.empty()) {
      lines +=
          fmt::format("complete -c exeunt -n '__exeunt_at \"{}\"' -f -a '{}'\n", place.words, fmt::join(words, " "));
    }
    for (const OptionRow& option : place.verb->options) {
      if (!option.names.empty()) lines += fish_line(place.words, option);
    }
  }
  return fmt::format(
      R"(# Completion of exeunt for fish, written by 'exeunt completion fish'.
function __exeunt_at
  set -l words (commandline -opc)
  set -e words[1]
  set -l verb ''
  for word in $words
    switch "$verb $word"
      case ' launch train'
        set verb ' train'
      case{}
        set verb "$verb $word"
    end
  end
  test "$verb" = "$argv[1]"
end

{})",
      known, lines);
}

}  // namespace exeunt::apps
