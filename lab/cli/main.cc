// SPDX-License-Identifier: Apache-2.0
// The program `exeunt-lab`: the command with the papers' flags, figures and benchmarks. `exeunt` becomes it where it is
// asked for something it does not know.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "apps/exeunt/manual.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/program.h"
#include "exeunt/base/ascii.h"
#include "lab/cli/auto_flags.h"
#include "lab/cli/verbs.h"
#include "lab/papers/flags.h"

namespace exeunt::apps {
namespace {

bool has_any(const std::vector<std::string>& words, std::initializer_list<std::string_view> names) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(names.begin(), names.end(), word.substr(0, word.find('='))) != names.end();
  });
}

// Whether exeunt-train cannot do it alone.
bool needs_lab(const std::vector<std::string>& words) {
  if (words.front() == "pretrain" || has_any(words, {"--try", "--target-speedup"})) return true;
  std::string recipe;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--recipe=")) recipe = words[i].substr(words[i].find('=') + 1);
    if (words[i] == "--recipe" && i + 1 < words.size()) recipe = words[i + 1];
  }
  return recipe == kAuto || recipe.starts_with("elbert");  // the latter follow the model's config.json
}

// Becomes the trainer, with the originals' flags under their current names.
[[noreturn]] void start_training(char* program, std::vector<std::string> typed) {
  Arguments arguments = with_current_training_names(std::move(typed));
  const Common common{.quiet = has_any(arguments.words, {"-q", "--quiet"})};
  for (const std::string& text : arguments.notices) notice(common, text);
  const std::string name = needs_lab(arguments.words) ? "exeunt-lab-train" : "exeunt-train";
  std::vector<char*> words{program};
  for (std::string& word : arguments.words) words.push_back(word.data());
  words.push_back(nullptr);
  ::setenv(kStartedByLab, "1", 1);
  become(name, words.data());
}

int run_lab(int argc, char** argv) {
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!words.empty() && !asks_for_help(argc, argv)) {
    if (words.front() == "train" || words.front() == "pretrain") start_training(argv[0], std::move(words));
    if (words.front() == "launch") return launch(argc, argv);
  }
  const bool completes = !words.empty() && words.front() == kComplete;
  const Arguments arguments =
      completes ? Arguments{.words = words, .notices = {}} : with_current_names(std::move(words));
  return run_program({.name = std::filesystem::path(argv[0]).filename().string(),  // "exeunt" where that became this
                      .summary = "exeunt-lab: exeunt with the papers' flags, figures, benchmarks and formats.",
                      .add_verbs = add_lab_verbs,
                      .examples = {"exeunt-lab reproduce deebert --task MRPC --data glue_data"},
                      .more = lab_extensions(),
                      .notices = arguments.notices},
                     arguments.words);
}

}  // namespace
}  // namespace exeunt::apps

int main(int argc, char** argv) {
  return exeunt::apps::guarded([&] { return exeunt::apps::run_lab(argc, argv); });
}
