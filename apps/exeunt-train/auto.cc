// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/auto.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/exeunt-train/defaults.h"
#include "apps/exeunt-train/summary.h"
#include "apps/exeunt-train/train.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/goal_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/eval/recommend.h"
#include "exeunt/eval/recommend_text.h"
#include "exeunt/exits/policy_file.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/manifest.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/workload.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr int64_t kSeed = 42;  // draws the rows that choose, where none is given: recipes have seeds of their own
constexpr const char* kRecord = "auto.json";
constexpr const char* kRecordFormat = "exeunt.auto/1";
constexpr const char* kTrace = "trace-eval.safetensors";

// One recipe, and how far it has come.
struct Candidate {
  std::string name;
  TrainOptions options;
  Workload work;
  OrderedJson configuration;  // what a finished training must agree with to be taken as it is
  double seconds = 0;
  bool done = false;
};

// Recipes are compared on the evaluation data, which none of them learns from.
void require_rows(const TrainingData& data) {
  if (data.eval.rows() >= kFewestRows) return;
  throw Error(Code::failure,
              fmt::format("too little data to compare recipes on: got {} rows, want at least {}", data.eval.rows(),
                          kFewestRows),
              "name evaluation data with --eval-data or --eval-features, or bring more rows");
}

OrderedJson configuration_of(const TrainOptions& options, const TrainingData& data, const std::string& base) {
  OrderedJson out;
  out["recipe"] = recipe_json(options.recipe);
  out["base"] = base;
  out["data"] = data.train.info.data;
  out["rows"] = data.train.rows();
  out["eval_data"] = data.eval.info.data;
  out["eval_rows"] = data.eval.rows();
  out["max_length"] = data.train.info.max_length;
  out["labels"] = data.outcome.labels;
  out["seed"] = options.seed;
  out["max_steps"] = options.max_steps;
  out["accumulation"] = options.accumulation;
  out["precision"] = options.precision;
  return out;
}

// Nothing is certified here: the rows have chosen the recipe.
Goal asked(const TrainFlags& flags) {
  GoalFlags goal;
  goal.speedup = flags.target_speedup;
  goal.drop = flags.max_drop;
  if (!goal.given()) goal.drop = kAutoDrop;
  Goal out = goal_of(goal);
  out.certify = false;
  return out;
}

// Without a target, the usual loss or the next that so many rows can show: half of them choose, and one loss more among
// one row more must stay within it.
double shown_by(size_t rows, double drop) {
  const size_t choosing = rows / 2;
  const double least = 1 / static_cast<double>(choosing + 1);
  for (const double usual : {0.02, 0.05, 0.1})
    if (drop < least) drop = usual;
  return drop;
}

class Auto {
 public:
  Auto(const Common& common, const TrainFlags& flags)
      : common_(common), flags_(flags), goal_(asked(flags)), base_(open_base(common, flags_)), out_(flags_.out) {
    loaded_ = load_training(common, flags_, base_);
    require_rows(data_);
    settle_goal();
    add_candidates();
  }

  void go();

 private:
  void settle_goal();
  void add_candidates();
  void read_record();
  void write_record(const OrderedJson& result) const;
  [[nodiscard]] double seconds_a_text();
  void announce();
  [[nodiscard]] bool train_one(Candidate& candidate);  // false if it was asked to stop
  void compare();
  [[nodiscard]] bool keeps_policy(const Recommendation& what) const { return what.met || goal_.drop.has_value(); }
  void keep(const Candidate& winner, const Recommendation& what);
  [[nodiscard]] std::vector<std::string> next_of(const Candidate& winner, const ExitTrace& trace) const;

  const Common& common_;
  TrainFlags flags_;
  Goal goal_;
  Checkpoint base_;
  fs::path out_;
  Loaded loaded_;
  const TrainingData& data_ = loaded_.data;
  std::deque<Candidate> candidates_;
};

void Auto::settle_goal() {
  if (!flags_.target_speedup.empty() || !flags_.max_drop.empty()) return;
  const double least = shown_by(data_.eval.rows(), *goal_.drop);
  if (least == *goal_.drop) return;
  goal_.drop = least;
  notice(common_, fmt::format("no target: compared within a loss of {:g} %, as {} rows to compare on can show no "
                              "smaller one; ask with --target-speedup or --max-drop",
                              100 * least, data_.eval.rows()));
}

void Auto::add_candidates() {
  const int width = base_.spec().hidden;
  std::string suited;
  const std::string listed = flags_.try_recipes.empty() ? kAutoRecipes : flags_.try_recipes;
  const std::string base = weights_sha256(base_);
  for (const std::string& name : comma_list(listed)) {
    const std::string label = fs::path(name).stem().string();
    for (const Candidate& other : candidates_)
      if (other.name == label) throw Error(Code::usage, fmt::format("--try: got '{}' twice", label));
    if (name == kAuto) throw Error(Code::usage, "--try: got 'auto', want recipes");
    TrainFlags one = flags_;
    one.recipe = name;
    one.out = (out_ / "candidates" / label).string();
    one.trace = true;
    if (const std::string changed = suit_narrow(one, width); !changed.empty()) suited = changed;
    Candidate candidate{.name = label, .options = options_of(common_, one, loaded_), .work = {}, .configuration = {}};
    (void)layout_of(candidate.options.recipe, base_.spec(), data_.outcome);  // refuses before anything is trained
    candidate.work = workload_of(base_, data_, candidate.options);
    candidate.configuration = configuration_of(candidate.options, data_, base);
    candidates_.push_back(std::move(candidate));
  }
  if (candidates_.empty()) throw Error(Code::usage, "--try: got no recipe", "for example --try plain,exeunt");
  if (!suited.empty()) notice(common_, narrow_text(width, suited));
}

// What an earlier start finished; refuses what was trained otherwise, naming the first difference.
void Auto::read_record() {
  std::error_code ignored;
  const fs::path path = out_ / kRecord;
  const bool plain_run = path_exists(out_ / "log.jsonl") && !path_exists(path);
  if (plain_run || (path_exists(path) && !flags_.resume)) {
    if (!flags_.overwrite) {
      throw Error(Code::usage, fmt::format("{}: already holds a run", out_.string()),
                  plain_run ? "choose another --out, or add --overwrite to start again"
                            : "add --resume to go on with it, or --overwrite to start again");
    }
    remove_run(out_);
    for (const Candidate& candidate : candidates_) fs::remove_all(candidate.options.out, ignored);
    fs::remove(path, ignored);
  }
  if (!path_exists(path)) return;
  const Json record = read_json(path);
  JsonObject object(record, path.string());
  if (object.string("format") != kRecordFormat) object.fail("format", glimpse(record["format"]), kRecordFormat);
  for (const auto& [name, entry] : object.get("candidates").items()) {
    const auto known = std::find_if(candidates_.begin(), candidates_.end(),
                                    [&, &wanted = name](const Candidate& one) { return one.name == wanted; });
    if (known == candidates_.end()) continue;
    JsonObject fields(entry, fmt::format("{}: candidates.{}", path.string(), name));
    const Json& stored = fields.get("configuration");
    const Json now = Json::parse(known->configuration.dump());
    for (const auto& [key, value] : now.items()) {
      if (stored.is_object() && stored.contains(key) && stored[key] == value) continue;
      throw Error(
          Code::usage,
          fmt::format("cannot go on with {}: {}: '{}' was {}, now {}", path.string(), name, key,
                      stored.is_object() && stored.contains(key) ? glimpse(stored[key]) : "not there", glimpse(value)),
          "resume with the settings and data of the first start, or choose another --out");
    }
    known->seconds = fields.number("seconds");
    known->done = path_exists(known->options.out / kManifestFile) && path_exists(known->options.out / kTrace);
  }
}

void Auto::write_record(const OrderedJson& result) const {
  OrderedJson out;
  out["format"] = kRecordFormat;
  OrderedJson& list = out["candidates"] = OrderedJson::object();
  for (const Candidate& candidate : candidates_) {
    if (!candidate.done) continue;
    list[candidate.name] = {
        {"seconds", candidate.seconds}, {"steps", candidate.work.steps}, {"configuration", candidate.configuration}};
  }
  if (!result.is_null()) out["result"] = result;
  write_atomically(out_ / kRecord, json_text(out));
}

std::string minutes(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

// A few steps of the first recipe that is still to be trained, in a folder that goes away again.
double Auto::seconds_a_text() {
  const auto next =
      std::find_if(candidates_.begin(), candidates_.end(), [](const Candidate& one) { return !one.done; });
  if (next == candidates_.end()) return 0;
  TrainOptions options = next->options;
  options.out = out_ / ".probe";
  options.overwrite = true;
  options.resume = options.trace = false;
  options.save_every = options.log_every = 0;
  options.progress.write = {};
  options.notice = {};
  options.recipe.stages.resize(1);
  options.recipe.stages.front().eval_every = 0;
  TrainingData data = data_;
  data.eval = {};
  data.also.clear();
  const auto timed = [&](int64_t steps) {
    options.max_steps = steps;
    const auto start = steady_clock::now();
    (void)train(base_, data, options);
    return std::chrono::duration<double>(steady_clock::now() - start).count();
  };
  (void)timed(1);  // the first one also wakes threads and reads what later ones find in memory
  const double one = timed(1), three = timed(3);
  std::error_code ignored;
  fs::remove_all(options.out, ignored);
  const double texts = 2.0 * options.recipe.stages.front().batch * options.accumulation;
  return (three > one ? three - one : three * 2 / 3) / texts;  // a busy machine may hide the difference
}

// What this is going to cost, before it is spent.
void Auto::announce() {
  int64_t steps = 0, texts = 0;
  std::vector<std::string> names, done;
  for (const Candidate& candidate : candidates_) {
    (candidate.done ? done : names).push_back(candidate.name);
    if (candidate.done) continue;
    steps += candidate.work.steps;
    texts += candidate.work.texts;
  }
  const auto say = [&](const std::string& text) {
    if (flags_.dry_run) {
      fmt::print("{}\n", text);
    } else {
      notice(common_, text);
    }
  };
  say(fmt::format("rows: {}", rows_text(loaded_)));
  if (!done.empty()) say(fmt::format("trained before: {}", fmt::join(done, ", ")));
  if (names.empty()) return;
  say(fmt::format("{} to train, from start to end: {}; {} steps, {} texts in all, about {} on this machine",
                  names.size(), fmt::join(names, ", "), steps, texts,
                  minutes(seconds_a_text() * static_cast<double>(texts))));
}

bool Auto::train_one(Candidate& candidate) {
  TrainOptions options = candidate.options;
  // A folder without a record of its end goes on from its checkpoints where that is asked for, else starts anew.
  options.resume = flags_.resume && path_exists(options.out);
  options.overwrite = true;
  notice(common_, fmt::format("training {}: {} steps", candidate.name, candidate.work.steps));
  const auto start = steady_clock::now();
  const TrainResult result = train(base_, data_, options);
  candidate.seconds += std::chrono::duration<double>(steady_clock::now() - start).count();
  if (result.stopped) return false;
  candidate.done = true;
  write_record({});
  return true;
}

void Auto::go() {
  read_record();
  std::error_code error;
  fs::create_directories(out_, error);
  if (error) throw Error(Code::resources, fmt::format("{}: cannot create: {}", out_.string(), error.message()));
  announce();
  if (flags_.dry_run) {
    fs::remove(out_, error);  // where it is empty, it was made for the few steps that were timed
    return;
  }
  write_record({});  // from here on another start must say --resume
  for (Candidate& candidate : candidates_) {
    if (candidate.done) continue;
    if (!train_one(candidate)) {
      if (common_.json) return print_json({{"stopped_in", candidate.name}});
      fmt::print("stopped in {}; go on with --resume\n", candidate.name);
      return;
    }
  }
  compare();
}

// Files of the winner appear in --out, too: as links to the same bytes, or copies where the disk has no links. The
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

// The policy that was recommended, which is full depth where a loss cannot be kept to otherwise; only a speed out of
// reach leaves the recipe's own. The card speaks of this folder and this policy.
void Auto::keep(const Candidate& winner, const Recommendation& what) {
  link_files(winner.options.out, out_);
  if (keeps_policy(what)) {
    const ExitTrace trace = read_trace(out_ / kTrace);
    PolicyFile file{.weights = trace.info.weights, .default_precision = trace.info.precision, .entries = {}};
    file.entries[trace.info.precision] = policy_entry(what.best(), trace.info.layers);
    const fs::path path = out_ / "policy.json";
    const PolicyLock lock(path);
    lock.write(file);
  }
  refresh_card(Checkpoint::open(out_));
}

// What to do with the winner; calibration is for those that have exits to choose among.
std::vector<std::string> Auto::next_of(const Candidate& winner, const ExitTrace& trace) const {
  const std::string out = shell_word(out_.string());
  if (trace.info.layers.size() == 1)
    return {fmt::format("next: exeunt serve {} ({} has one exit, so there is nothing to calibrate)", out, winner.name)};
  if (loaded_.held_out_rows > 0) return next_steps(flags_, loaded_.held_out_rows);
  return {
      fmt::format("next, with texts that chose nothing: exeunt recommend {0} --data FILE{1} --max-drop 1% --apply, "
                  "then exeunt serve {0}",
                  out, flags_for(flags_.columns))};
}

void Auto::compare() {
  std::deque<ExitTrace> traces;
  std::vector<RunOnTrial> runs;
  for (const Candidate& candidate : candidates_) {
    traces.push_back(read_trace(candidate.options.out / kTrace));
    ScorerOptions scoring;
    scoring.metrics = data_.metrics;
    runs.push_back({.name = candidate.name,
                    .trace = &traces.back(),
                    .scoring = std::move(scoring),
                    .primary = data_.primary,
                    .range = data_.outcome.range});
  }
  const Recommendation what = recommend(runs, goal_, static_cast<uint64_t>(flags_.seed.value_or(kSeed)));
  const Candidate& winner = candidates_[what.best().run];
  OrderedJson result = recommendation_json(what, runs, goal_);
  result["winner"] = winner.name;
  keep(winner, what);
  write_record(result);
  if (common_.json) return print_json(result);

  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const std::vector<ExitScore> exits = Scorer(traces[i], {.metrics = data_.metrics}).each_exit();
    rows.push_back({candidates_[i].name, fmt::format("{}", candidates_[i].work.steps), minutes(candidates_[i].seconds),
                    fmt::format("{}", exits.size()), percent(primary_of(exits.front().metrics, data_.primary)),
                    percent(primary_of(exits.back().metrics, data_.primary)), i == what.best().run ? "*" : ""});
  }
  fmt::print("trained, with {} of the first and the last exit on all {} held-out rows:\n", name_of(data_.primary),
             data_.eval.rows());
  print_table({"recipe", "steps", "time", "exits", "first", "last", "kept"}, rows);
  fmt::print("\n");
  print_recommendation(what, runs, goal_, Asker::train);
  fmt::print("wrote {} ({}{}); the others lie in {}\n", out_.string(), winner.name,
             keeps_policy(what) ? ", policy " + str(what.best().policy) : "", (out_ / "candidates").string());
  std::fflush(stdout);  // what comes next is said last, in a pipe, too
  for (const std::string& text : next_of(winner, traces[what.best().run])) notice(common_, text);
}

// Candidates are trained one after the other; several processes would have to agree on all of it.
void require_one_process() {
  for (const char* name : {"WORLD_SIZE", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || std::atoi(value) <= 1) continue;
    throw Error(Code::usage, fmt::format("--recipe auto runs in one process, and {} is {}", name, value),
                "compare with one, then train the winner with several");
  }
}

}  // namespace

void refuse_auto_flags(const TrainFlags& flags) {
  const std::pair<const char*, bool> given[] = {{"--try", !flags.try_recipes.empty()},
                                                {"--target-speedup", !flags.target_speedup.empty()},
                                                {"--max-drop", !flags.max_drop.empty()},
                                                {"--dry-run", flags.dry_run}};
  for (const auto& [name, is_given] : given)
    if (is_given) throw Error(Code::usage, fmt::format("{}: goes with --recipe auto", name));
}

void train_auto(const Common& common, const TrainFlags& flags) {
  require_one_process();
  Auto(common, flags).go();
}

}  // namespace exeunt::apps
