// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/run_files.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/manifest.h"
#include "exeunt/tasks/hold_out.h"

namespace exeunt {
namespace fs = std::filesystem;

LogFile::LogFile(fs::path path, const OrderedJson& entries) : path_(std::move(path)) {
  std::string text;
  for (const OrderedJson& entry : entries) text += entry.dump() + "\n";
  write_atomically(path_, text);
}

void LogFile::add(const OrderedJson& entry) {
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << entry.dump() << "\n";
  file.close();
  if (!file) {
    throw Error(Code::resources, fmt::format("{}: cannot write: {}", path_.string(), std::strerror(errno)),
                "free some space or choose another --out");
  }
}

void write_settings(const fs::path& out, const OrderedJson& configuration) {
  OrderedJson file{{"format", "exeunt.run/1"}};
  file.update(configuration);
  write_atomically(out / kRunFile, json_text(file));
}

std::vector<std::string> write_trained(const Checkpoint& checkpoint, const fs::path& out, const std::string& recipe) {
  const fs::path staging = out / ".final";
  std::error_code ignored;
  fs::remove_all(staging, ignored);
  std::vector<std::string> notices = write_exeunt_folder(checkpoint, staging, {.recipe = recipe});
  fs::remove(out / kManifestFile, ignored);
  const auto move = [&](const fs::path& name) {
    std::error_code error;
    fs::rename(staging / name, out / name, error);
    if (error)
      throw Error(Code::resources, fmt::format("{}: cannot write: {}", (out / name).string(), error.message()));
  };
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(staging)) names.push_back(entry.path().filename());
  for (const fs::path& name : names) {
    if (name != kManifestFile) move(name);
  }
  move(kManifestFile);
  fs::remove_all(staging, ignored);
  CardFacts facts = card_facts(out, out);
  facts.author.clear();  // an earlier run's card may lie there, of another base model and other data
  facts.origin.clear();
  write_card(out, checkpoint, facts);
  return notices;
}

bool holds_run(const fs::path& out) {
  std::error_code ignored;
  if (path_exists(out / "log.jsonl")) return true;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    if (entry.path().filename().string().starts_with("checkpoint-")) return true;
  }
  return false;
}

void require_free(const fs::path& out) {
  if (!holds_run(out)) return;
  throw Error(Code::usage, fmt::format("{}: already holds a run", out.string()),
              "add --resume to go on with it, or --overwrite to start again");
}

void remove_run(const fs::path& out) {
  // Rows held out from an earlier run's data may be learned by the next.
  std::vector<fs::path> ours{out / "log.jsonl", out / kRunFile, out / kManifestFile, out / kHeldOutFile};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool checkpoint = name.starts_with("checkpoint-") && path_exists(entry.path() / kManifestFile);
    if (checkpoint || name.starts_with("events.out.tfevents.")) ours.push_back(entry.path());
  }
  for (const fs::path& path : ours) fs::remove_all(path, ignored);
}

OrderedJson eval_entry(const std::vector<ExitScore>& exits) {
  OrderedJson out;
  check(!exits.empty(), "an evaluation has exits");
  for (const Score& score : exits.back().metrics) out[fmt::format("eval_{}", name_of(score.metric))] = score.value;
  OrderedJson& list = out["exits"] = OrderedJson::array();
  for (const ExitScore& exit : exits) {
    OrderedJson one;
    one["layer"] = exit.layer;
    for (const Score& score : exit.metrics) one[std::string(name_of(score.metric))] = score.value;
    list.push_back(std::move(one));
  }
  return out;
}

void write_results(const fs::path& out, const OrderedJson& results) {
  OrderedJson eval, train;
  std::map<std::string, std::string> lines;
  for (const auto& [key, value] : results.items()) {
    if (!key.starts_with("train_")) eval[key] = value;
    if (!key.starts_with("eval_") && !key.starts_with("exits")) train[key] = value;
    if (key.starts_with("eval_")) lines[key.substr(5)] = value.dump();
  }
  write_atomically(out / "all_results.json", json_text(results));
  write_atomically(out / "eval_results.json", json_text(eval));
  write_atomically(out / "train_results.json", json_text(train));
  std::string text;
  for (const auto& [key, value] : lines) text += fmt::format("{} = {}\n", key, value);
  write_atomically(out / "eval_results.txt", text);
}

std::string sparkline(const std::vector<double>& values) {
  static constexpr const char* kMarks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (values.empty()) return {};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double span = *high - *low;
  std::string out;
  for (const double value : values) {
    const double share = span > 0 ? (value - *low) / span : 1.0;
    out += kMarks[std::clamp(static_cast<int>(std::lround(7 * share)), 0, 7)];
  }
  return out;
}

}  // namespace exeunt
