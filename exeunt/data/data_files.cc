// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/data_files.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kText = ".txt";

// In the order of their names, without hidden ones.
std::set<fs::path> entries_of(const fs::path& folder) {
  std::set<fs::path> out;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    if (!entry->path().filename().string().starts_with('.')) out.insert(entry->path());
  }
  if (failure) throw_bad_file(folder.string(), "cannot read the folder: {}", failure.message());
  return out;
}

std::vector<DataFile> files_in(const fs::path& folder) {
  std::vector<DataFile> tables, texts;
  std::vector<std::string> folders;
  for (const fs::path& entry : entries_of(folder)) {
    std::error_code ignored;
    if (format_of(entry)) tables.push_back({entry});
    if (!fs::is_directory(entry, ignored)) continue;
    folders.push_back(entry.filename().string());
    for (const fs::path& file : entries_of(entry)) {
      if (file.extension() == kText) texts.push_back({file, folders.back()});
    }
  }
  if (!tables.empty()) return tables;
  const auto is_split = [](const std::string& name) { return name == "train" || name == "test" || name == "dev"; };
  if (std::any_of(folders.begin(), folders.end(), is_split)) {
    throw Error(
        Code::usage, fmt::format("{}: got a folder of splits, {}", folder.string(), fmt::join(folders, ", ")),
        fmt::format("name one of them: --data {}, with --eval-data for another", (folder / folders.back()).string()));
  }
  if (!texts.empty()) return texts;
  throw Error(Code::usage,
              fmt::format("{}: got a folder without data, want .csv, .tsv or .jsonl files in it, or for each label a "
                          "folder of .txt files",
                          folder.string()),
              "for a GLUE or ELUE task add --task; its folder is named after it");
}

}  // namespace

std::vector<DataFile> data_files(const std::string& name) {
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) return files_in(name);
  if (path_exists(name) || name.find(',') == std::string::npos) return {{name}};
  std::vector<DataFile> out;
  for (const std::string_view part : split(name, ','))
    if (!part.empty()) out.push_back({std::string(part)});
  return out;
}

}  // namespace exeunt
