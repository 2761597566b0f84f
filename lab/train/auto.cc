// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt-train/train.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/base/suggest.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/manifest.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/train/run.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/stage_plan.h"
#include "lab/choose/recommend.h"
#include "lab/cli/goal_flags.h"
#include "lab/train/lab_train_verbs.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// Several recipes trained on the same rows and compared on rows that none of them was trained on, at the speed-up or
// the loss that is asked for. The winner becomes the model of the folder.

// One recipe, and how far it has come.
struct ComparedRecipe {
  std::string name;
  TrainOptions options;
  Workload work = {};
  OrderedJson configuration = {};  // what a finished training must match to be reused
  double seconds = 0;
  bool done = false;
};

struct CompareOptions {
  fs::path out;
  Goal goal = {};
  bool resume = false, overwrite = false;
  int64_t seed = 42;  // draws the rows that choose: recipes have seeds of their own
  Notice notice = {};
};

struct Compared {
  Recommendation what;
  size_t winner = 0;        // of the candidates
  bool new_policy = false;  // the recommended policy was stored with the winner; else it keeps its recipe's
  OrderedJson json;         // as auto.json has it
  std::deque<ExitTrace> traces;
  std::vector<RunOnTrial> runs;  // refer to `traces`
};

class RecipeComparison {
 public:
  // Throws Error (failure) if the evaluation rows are too few, (usage) if a recipe does not fit the model.
  RecipeComparison(const Checkpoint& base, const TrainingData& data, CompareOptions options,
                   std::vector<ComparedRecipe> candidates);

  // Finds what an earlier start finished. Throws Error (usage) where the folder is taken or was trained otherwise.
  void open();
  [[nodiscard]] const std::vector<ComparedRecipe>& candidates() const noexcept { return candidates_; }
  // How long a text takes to train on, from a few steps of the first recipe that is not done.
  [[nodiscard]] double seconds_per_text();
  // Trains what is not done. The name of the candidate in which it was asked to stop, or nothing. What is trained
  // stays: with `resume`, finished recipes are not trained again.
  [[nodiscard]] std::optional<std::string> train_all();
  // Chooses, and makes the winner the model of `out`.
  [[nodiscard]] Compared choose();

 private:
  void write_record(const OrderedJson& result) const;
  [[nodiscard]] bool train_one(ComparedRecipe& candidate);  // false if it was asked to stop
  [[nodiscard]] bool keep(const ComparedRecipe& winner, const Recommendation& what) const;

  const Checkpoint& base_;
  const TrainingData& data_;
  CompareOptions options_;
  std::vector<ComparedRecipe> candidates_;
};

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

// Without a target: the usual loss, or the smallest of 2, 5 and 10 % that so many rows can show. Half of the rows
// choose, and one loss more among one row more must stay within it.
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

}  // namespace
}  // namespace exeunt

namespace exeunt::apps {
namespace {

// Nothing is certified here: the rows have chosen the recipe. Without a target, a loss that the rows can show.
Goal goal_for(const Common& common, const TrainFlags& flags, const AutoFlags& choice, size_t rows) {
  GoalFlags asked;
  asked.speedup = choice.target_speedup;
  if (flags.certify.max_drop) asked.max_drop = fmt::format("{}", *flags.certify.max_drop);
  const bool given = asked.given();
  if (!given) asked.max_drop = kAutoDrop;
  Goal goal = goal_of(asked);
  goal.certify = false;
  if (given || smallest_drop_shown(rows, *goal.max_drop) == *goal.max_drop) return goal;
  goal.max_drop = smallest_drop_shown(rows, *goal.max_drop);
  notice(common,
         fmt::format("no target: comparing at a loss of at most {:g} %, the smallest that {} rows can show; set "
                     "one with --target-speedup or --max-drop",
                     100 * *goal.max_drop, rows));
  return goal;
}

std::vector<ComparedRecipe> candidates_of(const Common& common, const TrainFlags& flags, const std::string& names,
                                          const TrainJob& job) {
  std::vector<ComparedRecipe> out;
  std::vector<std::pair<std::string, std::vector<std::string>>> adapted;  // what is to be said, and of which recipes
  for (const std::string& name : comma_list(names.empty() ? kAutoRecipes : names)) {
    const std::string label = fs::path(name).stem().string();
    if (std::any_of(out.begin(), out.end(), [&](const ComparedRecipe& other) { return other.name == label; }))
      throw Error(Code::usage, fmt::format("--try: duplicate '{}'", label));
    if (name == kAuto) throw Error(Code::usage, "--try: got 'auto', want recipes");
    PlanRequest request = flags.plan;
    request.recipe = name;
    const TrainPlan plan = resolve_plan(find_recipe(name), request, job.model.spec(), job.loaded.data.facts());
    if (const std::string text = data_defaults_text(plan); !text.empty()) {
      auto place = std::find_if(adapted.begin(), adapted.end(), [&](const auto& said) { return said.first == text; });
      if (place == adapted.end()) place = adapted.insert(adapted.end(), {text, {}});
      place->second.push_back(label);
    }
    out.push_back({.name = label, .options = options_for(common, job, plan)});
  }
  if (out.empty()) throw Error(Code::usage, "--try: got no recipe", "for example --try plain,exeunt");
  for (const auto& [text, recipes] : adapted)
    notice(common, recipes.size() == out.size() ? text : fmt::format("{}: {}", fmt::join(recipes, ", "), text));
  return out;
}

// What this is going to cost, before it is spent.
void announce(const Common& common, bool print, RecipeComparison& comparison, const LoadedData& loaded) {
  int64_t steps = 0, texts = 0;
  double cost = 0;
  std::vector<std::string> names, done;
  for (const ComparedRecipe& candidate : comparison.candidates()) {
    (candidate.done ? done : names).push_back(candidate.name);
    if (candidate.done) continue;
    steps += candidate.work.steps;
    texts += candidate.work.texts;
    cost += candidate.work.cost;
  }
  const auto say = [&](const std::string& text) {
    if (print) {
      fmt::print("{}\n", text);
    } else {
      notice(common, text);
    }
  };
  say(fmt::format("split: {}", split_text(loaded)));
  if (!done.empty()) say(fmt::format("already trained: {}", fmt::join(done, ", ")));
  if (names.empty()) return;
  say(fmt::format("{} to train: {}; {} steps, {} texts in all, about {} on this machine", names.size(),
                  fmt::join(names, ", "), steps, texts, duration_text(comparison.seconds_per_text() * cost)));
}

// The winner gets its promise from rows that did not choose it, where there are any.
OrderedJson certify_winner(const Common& common, const TrainJob& job) {
  if (job.loaded.held_out_rows > 0) return certify_trained(common, job.certification);
  notice(common, fmt::format("next, with texts that were not used here: exeunt calibrate {0} --data FILE{1} --max-drop "
                             "1%, then exeunt serve {0}",
                             shell_word(job.out), flags_for(job.certification.columns)));
  return nullptr;
}

void print_compared(const RecipeComparison& comparison, const Compared& compared, const Goal& goal,
                    const TrainingData& data) {
  std::vector<std::vector<std::string>> rows;
  const std::vector<ComparedRecipe>& candidates = comparison.candidates();
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::vector<ExitScore> exits = Scorer(compared.traces[i], {.metrics = data.metrics}).each_exit();
    rows.push_back({candidates[i].name, fmt::format("{}", candidates[i].work.steps),
                    duration_text(candidates[i].seconds), fmt::format("{}", exits.size()),
                    percent(primary_of(exits.front().metrics, data.primary)),
                    percent(primary_of(exits.back().metrics, data.primary)), i == compared.winner ? "*" : ""});
  }
  fmt::print("trained, with {} of the first and the last exit on the validation split, {} rows:\n",
             name_of(data.primary), data.eval.rows());
  print_table({"recipe", "steps", "time", "exits", "first", "last", "kept"}, rows);
  for (const std::string& line : baseline_lines(data.baseline)) fmt::print("{}\n", line);
  fmt::print("\n");
  print_recommendation(compared.what, compared.runs, goal, Asker::train);
}

// Candidates are trained one after the other; several processes would have to agree on all of it.
void require_one_process() {
  for (const char* name : {"WORLD_SIZE", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0' || number_of<int>(value) == 1) continue;
    throw Error(Code::usage, fmt::format("--recipe auto runs in one process, and {} is {}", name, value),
                "compare with one, then train the winner with several");
  }
}

}  // namespace

void train_auto(const Common& common, const TrainFlags& flags, const AutoFlags& choice) {
  if (flags.plan.recipe != kAuto)
    throw Error(Code::usage,
                fmt::format("{}: only with --recipe auto", choice.try_recipes.empty() ? "--target-speedup" : "--try"));
  require_one_process();
  if (flags.plan.time_limit > 0)
    throw Error(Code::usage, "--time-limit: not with --recipe auto", "--epochs gives every candidate less time");
  if (!flags.certify.thresholds.empty())
    throw Error(Code::usage, "--thresholds: not with --recipe auto",
                "give them to what was kept: exeunt calibrate MODEL --thresholds fit");
  TrainJob job = open_job(common, flags);
  if (!choice.target_speedup.empty()) job.certification.skip = true;  // the winner's policy is for that speed
  const LoadedData& loaded = job.loaded;
  const Goal goal = goal_for(common, flags, choice, loaded.data.eval.rows());
  CompareOptions options{.out = job.out, .goal = goal, .resume = flags.plan.resume, .overwrite = flags.plan.overwrite};
  options.seed = flags.plan.changes.recipe.value("seed", options.seed);
  options.notice = [&common](std::string_view text) { notice(common, text); };
  RecipeComparison comparison(job.model, loaded.data, options, candidates_of(common, flags, choice.try_recipes, job));
  comparison.open();
  announce(common, flags.dry_run, comparison, loaded);
  if (flags.dry_run) {
    std::error_code ignored;
    fs::remove(job.out, ignored);  // where it is empty, it was made for the few steps that were timed
    return;
  }
  if (const auto stopped = comparison.train_all()) {
    if (common.json) return print_json({{"stopped_in", *stopped}});
    fmt::print("stopped in {}; continue with --resume\n", *stopped);
    return;
  }
  const Compared compared = comparison.choose();
  if (common.json) {
    OrderedJson out = compared.json;
    out["calibration"] = certify_winner(common, job);
    return print_json(out);
  }
  print_compared(comparison, compared, goal, loaded.data);
  const std::string& winner = comparison.candidates()[compared.winner].name;
  fmt::print("wrote {} ({}{}); the other models are in {}\n", job.out, winner,
             compared.new_policy ? ", policy " + str(compared.what.best().policy) : "",
             (fs::path(job.out) / "candidates").string());
  std::fflush(stdout);  // what comes next is said last, in a pipe, too
  (void)certify_winner(common, job);
  const std::vector<ExitScore> exits =
      Scorer(compared.traces[compared.winner], {.metrics = loaded.data.metrics}).each_exit();
  const double last = primary_of(exits.back().metrics, loaded.data.primary);
  if (const std::string text = lost_to_baseline(loaded.data.baseline, loaded.data.primary, last); !text.empty())
    notice(common, text);
}

}  // namespace exeunt::apps
