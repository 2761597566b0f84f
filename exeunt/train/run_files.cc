// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/run_files.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/locate.h"
#include "exeunt/model/manifest.h"

namespace exeunt {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kCheckpoint = "checkpoint-";

// A configuration as this version would have stored it.
OrderedJson modernised(const OrderedJson& stored, const OrderedJson& now) {
  OrderedJson out = stored;
  const OrderedJson defaults = fields_json(TrainSettings{}, kShapesWeights);
  for (const auto& [key, value] : defaults.items()) {
    if (now.contains(key) && !out.contains(key)) out[key] = value;
  }
  if (!out.contains("recipe")) return out;
  try {
    out["recipe"] = recipe_json(parse_recipe(Json(out["recipe"]), "recipe"));
  } catch (const Error&) {  // of a newer version; what it has more is named as a difference
  }
  return out;
}

bool holds_run(const fs::path& out) {
  std::error_code ignored;
  if (path_exists(out / kLogFile)) return true;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    if (entry.path().filename().string().starts_with(kCheckpoint)) return true;
  }
  return false;
}

}  // namespace

RunLog::RunLog(const fs::path& out, const OrderedJson& entries) : path_(out / kLogFile) {
  std::string text;
  for (const OrderedJson& entry : entries) text += entry.dump() + "\n";
  write_atomically(path_, text);
}

void RunLog::add(const OrderedJson& entry) {
  append_text(path_, entry.dump() + "\n");
}

OrderedJson run_configuration(const RunFacts& facts) {
  const TrainingData& data = facts.data;
  OrderedJson out;
  out["recipe"] = recipe_json(facts.options.recipe);
  out["base"] = facts.base;
  out["data"] = data.train.info.data;
  out["rows"] = data.train.rows();
  out["eval_data"] = data.eval.info.data;
  out["tokenizer"] = data.train.info.tokenizer;
  out["max_length"] = data.train.info.max_length;
  out["labels"] = data.outcome.labels;
  out["task"] = data.task;
  out["seed"] = facts.options.recipe.seed;
  out.update(fields_json<TrainSettings>(facts.options, kShapesWeights));
  out["world"] = facts.processes;
  out["device"] = facts.device.starts_with("cuda") ? "cuda" : "cpu";
  out["torch"] = facts.torch;
  for (const StagePlan& plan : facts.plans) {  // what the recipe's cases, the flags and the data come to
    out["stages"].push_back(OrderedJson{{"lr", plan.lr}, {"steps", plan.steps}, {"warmup", plan.schedule.warmup}});
  }
  return out;
}

std::string recipe_text(const RunFacts& facts) {
  const TrainingData& data = facts.data;
  OrderedJson out = recipe_json(facts.options.recipe);
  OrderedJson& run = out["run"];
  run["task"] = data.task;
  run["data"] = data.train.info.data;
  run["max_length"] = data.train.info.max_length;
  run["texts"] = data.of_pairs ? 2 : 1;
  run["seed"] = facts.options.recipe.seed;
  run.update(fields_json<TrainSettings>(facts.options, kShapesWeights));
  run["world"] = facts.processes;
  if (data.columns) run["columns"] = columns_json(*data.columns);
  out["provenance"] = {{"tool", version()},      {"commit", commit()}, {"torch", facts.torch},
                       {"device", facts.device}, {"base", facts.base}, {"created", now_rfc3339()}};
  return json_text(out);
}

std::string settings_difference(const OrderedJson& stored, const OrderedJson& now) {
  const Json before = Json(modernised(stored, now)).flatten(), after = Json(now).flatten();
  const auto text = [](const Json& object, const std::string& key) {
    return object.contains(key) ? glimpse(object.at(key)) : std::string("nothing");
  };
  for (const Json* side : {&before, &after}) {
    for (const auto& [key, value] : side->items()) {
      if (before.contains(key) && after.contains(key) && before.at(key) == after.at(key)) continue;
      std::string name = key.substr(1);
      std::replace(name.begin(), name.end(), '/', '.');
      return fmt::format("{}: the checkpoint has {}, this run {}", name, text(before, key), text(after, key));
    }
  }
  return {};
}

void require_same_settings(const std::string& checkpoint, const OrderedJson& stored, const OrderedJson& now) {
  const std::string difference = settings_difference(stored, now);
  if (difference.empty()) return;
  throw Error(Code::usage, fmt::format("cannot resume {}: {}", checkpoint, difference),
              "resume with the settings and data of the first start, or choose another --out");
}

bool load_newest(const fs::path& out, const Notice& notice, const std::function<void(const fs::path&)>& load) {
  for (const fs::path& path : checkpoints_in(out) | std::views::reverse) {
    try {
      load(path);
      notice(fmt::format("resuming from {}", path.string()));
      return true;
    } catch (const Error& error) {
      if (error.code() == Code::usage) throw;
      notice(fmt::format("{} is damaged and skipped: {}", path.filename().string(), error.what()));
    }
  }
  return false;
}

void remove_partial(const fs::path& out) {
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(".checkpoint-") || name.starts_with("..final");
    if (ours && (name.find(".partial-") != std::string::npos || name.find(".old-") != std::string::npos)) {
      stale.push_back(entry.path());
    }
  }
  for (const fs::path& path : stale) fs::remove_all(path, ignored);
}

void remove_older_checkpoints(const fs::path& out, int keep) {
  if (keep <= 0) return;
  const std::vector<fs::path> all = checkpoints_in(out);
  std::error_code ignored;
  for (size_t i = 0; i + static_cast<size_t>(keep) < all.size(); ++i) fs::remove_all(all[i], ignored);
}

void prepare_folder(const fs::path& out, bool resume, bool overwrite) {
  if (!resume && !overwrite) require_free(out);
  if (!resume && holds_run(out)) remove_run(out);
  std::error_code error;
  fs::create_directories(out, error);
  if (error) throw Error(Code::resources, fmt::format("{}: cannot create: {}", out.string(), error.message()));
  remove_partial(out);
}

void write_settings(const fs::path& out, const OrderedJson& configuration, const OrderedJson& values) {
  OrderedJson file{{"format", "exeunt.run/1"}};
  file.update(configuration);
  if (!values.empty()) file["values"] = values;
  write_atomically(out / kRunFile, json_text(file));
}

std::vector<std::string> write_trained(const SavedWeights& weights, const fs::path& out) {
  const fs::path staging = out / ".final";
  std::error_code ignored;
  fs::remove_all(staging, ignored);
  std::vector<std::string> notices = write_exeunt_folder(
      weights.checkpoint, staging, {.recipe = weights.recipe, .beside = [&](const fs::path& folder) {
                                      weights.learned.write(folder / kLearnedFile);
                                      return std::vector<std::string>{kLearnedFile};
                                    }});
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
  write_card(out, weights.checkpoint, facts);
  return notices;
}

void require_free(const fs::path& out) {
  if (!holds_run(out)) return;
  throw Error(Code::usage, fmt::format("{}: already holds a run", out.string()),
              "add --resume to continue it, or --overwrite to start again");
}

void remove_run(const fs::path& out) {
  // Rows held out from an earlier run's data may be learned by the next.
  std::vector<fs::path> ours{out / kLogFile, out / kRunFile, out / kManifestFile, out / kHeldOutFile};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool checkpoint = name.starts_with(kCheckpoint) && path_exists(entry.path() / kManifestFile);
    if (checkpoint || name.starts_with("events.out.tfevents.")) ours.push_back(entry.path());
  }
  for (const fs::path& path : ours) fs::remove_all(path, ignored);
}

OrderedJson eval_entry(const std::vector<ExitScore>& exits) {
  OrderedJson out;
  check(!exits.empty(), "an evaluation has exits");
  for (const Score& score : exits.back().metrics) out[fmt::format("eval_{}", name_of(score.metric))] = score.value;
  if (exits.back().loss) out["eval_loss"] = *exits.back().loss;
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
    if (!key.starts_with("eval_") && !key.starts_with("exits") && key != "baselines") train[key] = value;
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
