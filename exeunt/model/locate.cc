// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/locate.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>

#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

std::optional<fs::path> from_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

std::string how_to_get(const std::string& name) {
  return fmt::format("nothing is downloaded: run 'hf download {}' (or 'huggingface-cli download {}'), or give a folder",
                     name, name);
}

bool is_plain(std::string_view part) {
  return !part.empty() && part.front() != '.' && part.front() != '-' &&
         std::ranges::all_of(part, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_inside(const fs::path& root, const fs::path& target) {
  return std::mismatch(root.begin(), root.end(), target.begin(), target.end()).first == root.end();
}

// Links of a snapshot point to blobs/ of the same repository; no download makes one that points elsewhere.
void check_links(const fs::path& snapshot, const fs::path& repository, const std::string& name) {
  const fs::path root = fs::canonical(repository);
  std::vector<fs::path> paths{snapshot};
  for (const auto& entry : fs::recursive_directory_iterator(snapshot)) paths.push_back(entry.path());
  for (const fs::path& path : paths) {
    std::error_code broken;
    const fs::path target = fs::canonical(path, broken);
    if (broken) {
      throw Error(Code::bad_file,
                  fmt::format("{}: its content is not there: the download is incomplete", path.string()),
                  how_to_get(name));
    }
    if (!is_inside(root, target)) {
      throw_bad_file(path.string(), "leads to {}, want a file inside {}", target.string(), root.string());
    }
  }
}

// A model folder is a tree of its own (see ReadPath). Links are looked at when it is named, so that the message comes
// first, and again when its files are opened, since a folder may change meanwhile.
void check_own_tree(const fs::path& folder) {
  constexpr size_t kMostEntries = 100'000;
  const fs::path whole = fs::canonical(folder), root = tree_of(folder);
  size_t entries = 0;
  for (const auto& entry : fs::recursive_directory_iterator(whole, fs::directory_options::skip_permission_denied)) {
    if (++entries > kMostEntries) throw_bad_file(folder.string(), "more than {} files: no model folder", kMostEntries);
    std::error_code broken;
    if (!entry.is_symlink()) continue;
    // By hand, since a link that leads nowhere yet counts as well.
    const fs::path target = fs::weakly_canonical(entry.path().parent_path() / fs::read_symlink(entry.path()), broken);
    if (!broken && is_inside(root, target)) continue;
    throw_bad_file(entry.path().string(), Hint{"copy the file into the folder if you trust it"},
                   "leads to {}, outside the model folder", target.string());
  }
}

// refs/main names the snapshot; without it there must be just one.
fs::path snapshot_of(const fs::path& repository, const std::string& name) {
  const fs::path reference = repository / "refs" / "main";
  const fs::path snapshots = repository / "snapshots";
  std::error_code ignored;
  if (fs::is_regular_file(reference, ignored)) {
    const std::string text = read_text(reference, 4096);
    const std::string_view commit = trimmed(text, " \r\n");
    if (!is_plain(commit)) throw_bad_file(reference.string(), "got '{}', want the name of a snapshot", commit);
    if (fs::is_directory(snapshots / commit, ignored)) return snapshots / commit;
    throw Error(Code::bad_file, fmt::format("{}: snapshot {} is not there", repository.string(), commit),
                how_to_get(name));
  }
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored)) {
    if (entry.is_directory(ignored)) found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  throw Error(Code::bad_file,
              fmt::format("{}: got {} snapshots and no refs/main, want one", repository.string(), found.size()),
              found.empty() ? how_to_get(name) : "give the folder of the snapshot you mean");
}

}  // namespace

fs::path hub_cache_folder() {
  if (const auto folder = from_environment("HF_HUB_CACHE")) return *folder;
  if (const auto folder = from_environment("HUGGINGFACE_HUB_CACHE")) return *folder;
  if (const auto home = from_environment("HF_HOME")) return *home / "hub";
  if (const auto caches = from_environment("XDG_CACHE_HOME")) return *caches / "huggingface" / "hub";
  return from_environment("HOME").value_or("/") / ".cache" / "huggingface" / "hub";
}

bool is_hub_name(std::string_view text) {
  const size_t slash = text.find('/');
  if (text.find("..") != std::string_view::npos || text.find("--") != std::string_view::npos) return false;
  if (slash == std::string_view::npos) return is_plain(text);
  return is_plain(text.substr(0, slash)) && is_plain(text.substr(slash + 1));
}

namespace {

// A name below a folder that is there is a path of the user's own, not one of the Hub: what lies beside it?
std::string what_is_there(const std::string& model) {
  const fs::path parent = fs::path(model).parent_path();
  std::error_code failure;
  if (parent.empty() || !fs::is_directory(parent, failure)) return {};
  std::vector<std::string> names;
  for (fs::directory_iterator entry(parent, failure), end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  if (names.empty()) return fmt::format("{} holds no folder", parent.string());
  const std::string near = nearest(fs::path(model).filename().string(), names);
  if (!near.empty()) return fmt::format("did you mean {}?", (parent / near).string());
  names.resize(std::min<size_t>(names.size(), 8));
  return fmt::format("{} holds {}", parent.string(), fmt::join(names, ", "));
}

}  // namespace

fs::path find_in_hub_cache(const std::string& name, const fs::path& cache) {
  std::string folder = "models--" + name;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  const fs::path repository = cache / folder;
  std::error_code ignored;
  if (!fs::is_directory(repository, ignored)) {
    throw Error(Code::bad_file,
                fmt::format("{}: no such folder, and not in the Hugging Face cache {}", name, cache.string()),
                how_to_get(name));
  }
  const fs::path snapshot = snapshot_of(repository, name);
  try {
    check_links(snapshot, repository, name);
  } catch (const fs::filesystem_error& error) {
    throw_bad_file(snapshot.string(), "cannot be read: {}", error.code().message());
  }
  return snapshot;
}

fs::path locate_model(const std::string& model) {
  if (path_exists(model)) {
    try {
      if (std::error_code ignored; fs::is_directory(model, ignored)) check_own_tree(model);
    } catch (const fs::filesystem_error& error) {
      throw_bad_file(model, "cannot be read: {}", error.code().message());
    }
    return model;
  }
  if (path_exists(model + ".index")) return model + ".index";
  if (const std::string there = what_is_there(model); !there.empty())
    throw Error(Code::bad_file, fmt::format("{}: no such model folder", model), there);
  if (is_hub_name(model)) return find_in_hub_cache(model, hub_cache_folder());
  throw Error(Code::bad_file, fmt::format("{}: no such file or folder", model));
}

fs::path model_folder(const std::string& model) {
  const fs::path place = locate_model(model);
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) return place;
  return place.has_parent_path() ? place.parent_path() : fs::path(".");
}

std::vector<fs::path> checkpoints_in(const fs::path& run) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(run, failure)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "checkpoint-";
    if (!name.starts_with(kPrefix) || !entry.is_directory(failure)) continue;
    const auto number = number_of<int64_t>(std::string_view(name).substr(kPrefix.size()));
    if (number && *number >= 0) found.emplace_back(*number, entry.path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> out;
  for (auto& [number, path] : found) out.push_back(std::move(path));
  return out;
}

}  // namespace exeunt
