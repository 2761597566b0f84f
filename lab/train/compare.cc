// SPDX-License-Identifier: Apache-2.0
#include "lab/train/compare.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/manifest.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/train/run_files.h"
#include "lab/choose/recommend.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

using std::chrono::steady_clock;

constexpr const char* kRecord = "auto.json";
constexpr const char* kRecordFormat = "exeunt.auto/1";
constexpr const char* kTrace = "trace-eval.safetensors";

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

OrderedJson candidate_configuration(const TrainOptions& options, const TrainingData& data, const std::string& base) {
  OrderedJson out;
  out["recipe"] = recipe_json(options.recipe);
  out["base"] = base;
  out["data"] = data.train.info.data;
  out["rows"] = data.train.rows();
  out["eval_data"] = data.eval.info.data;
  out["eval_rows"] = data.eval.rows();
  out["max_length"] = data.train.info.max_length;
  out["labels"] = data.outcome.labels;
  out["seed"] = options.recipe.seed;
  out.update(fields_json<TrainSettings>(options, kShapesWeights));
  return out;
}

// Files of the winner appear in `to`, too: as links to the same bytes, or copies where the disk has no links. The
// manifest comes last, so a folder that has one is whole.
void link_files(const fs::path& from, const fs::path& to) {
  const auto bring = [&](const fs::path& name) {
    std::error_code error;
    fs::remove(to / name, error);
    fs::create_hard_link(from / name, to / name, error);
    if (error) fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing, error);
    if (error) throw Error(Code::resources, fmt::format("{}: cannot write: {}", (to / name).string(), error.message()));
  };
  std::error_code ignored;
  fs::remove(to / kManifestFile, ignored);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const fs::path name = entry.path().filename();
    if (entry.is_regular_file() && name != kManifestFile && name.string().front() != '.') bring(name);
  }
  bring(kManifestFile);
}

}  // namespace

double smallest_drop_shown(size_t rows, double drop) {
  const size_t half = rows / 2;
  const double least = 1 / static_cast<double>(half + 1);
  for (const double usual : {0.02, 0.05, 0.1}) {
    if (drop < least) drop = usual;
  }
  return drop;
}

RecipeComparison::RecipeComparison(const Checkpoint& base, const TrainingData& data, CompareOptions options,
                                   std::vector<ComparedRecipe> candidates)
    : base_(base), data_(data), options_(std::move(options)), candidates_(std::move(candidates)) {
  if (data_.eval.rows() < kFewestRows) {
    throw Error(
        Code::failure,
        fmt::format("too few rows to compare recipes on: got {}, want at least {}", data_.eval.rows(), kFewestRows),
        "name evaluation data with --eval-data or --eval-features, or bring more rows");
  }
  const std::string hash = weights_sha256(base_);
  for (ComparedRecipe& candidate : candidates_) {
    (void)layout_of(candidate.options.recipe, base_.spec(), data_.outcome);  // refuses before anything is trained
    candidate.options.out = options_.out / "candidates" / candidate.name;
    candidate.options.trace = true;
    candidate.work = workload_of(static_cast<int64_t>(data_.train.rows()), candidate.options);
    candidate.configuration = candidate_configuration(candidate.options, data_, hash);
  }
}

void RecipeComparison::open() {
  std::error_code ignored;
  const fs::path path = options_.out / kRecord;
  const bool plain_run = path_exists(options_.out / kLogFile) && !path_exists(path);
  if (plain_run || (path_exists(path) && !options_.resume)) {
    if (!options_.overwrite) {
      throw Error(Code::usage, fmt::format("{}: already holds a run", options_.out.string()),
                  plain_run ? "choose another --out, or add --overwrite to start again"
                            : "add --resume to continue it, or --overwrite to start again");
    }
    remove_run(options_.out);
    for (const ComparedRecipe& candidate : candidates_) fs::remove_all(candidate.options.out, ignored);
    fs::remove(path, ignored);
  }
  if (path_exists(path)) {
    const Json record = read_json(ReadPath::in(options_.out, kRecord));
    JsonObject object(record, path.string());
    if (object.string("format") != kRecordFormat) object.fail("format", glimpse(record["format"]), kRecordFormat);
    for (const auto& [name, entry] : object.get("candidates").items()) {
      const auto known = std::find_if(candidates_.begin(), candidates_.end(),
                                      [&, &wanted = name](const ComparedRecipe& one) { return one.name == wanted; });
      if (known == candidates_.end()) continue;
      JsonObject fields(entry, fmt::format("{}: candidates.{}", path.string(), name));
      require_same_settings(fmt::format("{}: {}", path.string(), name), OrderedJson(fields.get("configuration")),
                            known->configuration);
      known->seconds = fields.number("seconds");
      known->done = path_exists(known->options.out / kManifestFile) && path_exists(known->options.out / kTrace);
    }
  }
  std::error_code error;
  fs::create_directories(options_.out, error);
  if (error) throw Error(Code::resources, fmt::format("{}: cannot create: {}", options_.out.string(), error.message()));
}

void RecipeComparison::write_record(const OrderedJson& result) const {
  OrderedJson out{{"format", kRecordFormat}};
  OrderedJson& list = out["candidates"] = OrderedJson::object();
  for (const ComparedRecipe& candidate : candidates_) {
    if (!candidate.done) continue;
    list[candidate.name] = {
        {"seconds", candidate.seconds}, {"steps", candidate.work.steps}, {"configuration", candidate.configuration}};
  }
  if (!result.is_null()) out["result"] = result;
  write_atomically(options_.out / kRecord, json_text(out));
}

double RecipeComparison::seconds_per_text() {
  const auto next =
      std::find_if(candidates_.begin(), candidates_.end(), [](const ComparedRecipe& one) { return !one.done; });
  if (next == candidates_.end()) return 0;
  TrainOptions options = next->options;
  options.out = options_.out;
  return exeunt::seconds_per_text(base_, data_, std::move(options));
}

bool RecipeComparison::train_one(ComparedRecipe& candidate) {
  TrainOptions options = candidate.options;
  // An unfinished folder continues from its checkpoints with --resume, else it starts again.
  options.resume = options_.resume && path_exists(options.out);
  options.overwrite = true;
  options_.notice(fmt::format("training {}: {} steps", candidate.name, candidate.work.steps));
  const auto start = steady_clock::now();
  const TrainResult result = train(base_, data_, options);
  candidate.seconds += seconds_since(start);
  if (result.stopped) return false;
  candidate.done = true;
  write_record({});
  return true;
}

std::optional<std::string> RecipeComparison::train_all() {
  write_record({});  // from here on another start must say --resume
  for (ComparedRecipe& candidate : candidates_) {
    if (!candidate.done && !train_one(candidate)) return candidate.name;
  }
  return std::nullopt;
}

// The recommended policy, which is full depth where a loss cannot be kept otherwise; only a speed-up out of reach
// leaves the recipe's own. The card describes this folder and this policy.
bool RecipeComparison::keep(const ComparedRecipe& winner, const Recommendation& what) const {
  link_files(winner.options.out, options_.out);
  const bool new_policy = what.met || options_.goal.max_drop.has_value();
  if (new_policy) {
    const ExitTrace trace = read_trace(options_.out / kTrace);
    PolicyFile file{.weights = trace.info.weights, .default_precision = trace.info.precision, .entries = {}};
    PolicyEntry entry = policy_entry(what.best(), trace.info.layers);
    set_origin(entry, trace.info);
    file.put(std::move(entry));
    const PolicyLock lock(options_.out / "policy.json");
    lock.write(file);
  }
  write_card(options_.out, Checkpoint::open(options_.out), card_facts(options_.out, options_.out));
  return new_policy;
}

Compared RecipeComparison::choose() {
  Compared out;
  for (const ComparedRecipe& candidate : candidates_) {
    out.traces.push_back(read_trace(candidate.options.out / kTrace));
    ScorerOptions scoring;
    scoring.metrics = data_.metrics;
    out.runs.push_back({.name = candidate.name,
                        .trace = &out.traces.back(),
                        .scoring = std::move(scoring),
                        .primary = data_.primary,
                        .range = data_.outcome.range});
  }
  out.what = recommend(out.runs, options_.goal, static_cast<uint64_t>(options_.seed));
  out.winner = out.what.best().run;
  out.new_policy = keep(candidates_[out.winner], out.what);
  out.json = recommendation_json(out.what, out.runs, options_.goal);
  out.json["winner"] = candidates_[out.winner].name;
  write_record(out.json);
  return out;
}

}  // namespace exeunt
