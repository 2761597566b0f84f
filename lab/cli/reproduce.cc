// SPDX-License-Identifier: Apache-2.0
// `exeunt reproduce`: trains and measures a paper's method with the paper's settings and shows its published figures
// beside ours; or beside scores that a file holds.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/program.h"
#include "exeunt/base/files.h"
#include "exeunt/base/process.h"
#include "exeunt/data/task.h"
#include "exeunt/eval/policy_times.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "lab/cli/verbs.h"
#include "lab/papers/reproduction.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

// Enough for a mean, few enough to run every setting three times within minutes.
constexpr size_t kTimedTexts = 64;

struct ReproduceFlags {
  std::string paper, task, data, model, out, from;
  int layers = 0;
  std::optional<int64_t> seed;
  bool overwrite = false;
  MeasureOptions engine;  // of these: precision, engine, threads, max_length
  std::vector<std::string> train_flags;
};

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// Rejects a task for which there is nothing to compare with, before anything is trained.
const Task& task_for(const Paper& paper, const std::string& name) {
  const std::vector<std::string> known = tasks_of(paper);
  if (name.empty()) throw Error(Code::usage, "--task is required", fmt::format("one of {}", joined(known)));
  const Task& named = find_task(name);
  const Task& task = named.name == "MNLI-mm" ? find_task("MNLI") : named;  // which shows both of its dev sets
  if (std::find(known.begin(), known.end(), task.name) == known.end()) {
    throw Error(Code::usage, fmt::format("{} has no published figure for {}", paper.name, task.name),
                fmt::format("there are: {}", joined(known)));
  }
  return task;
}

// A finished run in `out` is measured again instead of trained, if it is the one that is asked for.
bool is_trained(const Common& common, const ReproduceFlags& flags, const Paper& paper, const Task& task) {
  const fs::path out = flags.out;
  if (!path_exists(out / "all_results.json") || !path_exists(out / "recipe.json")) return false;
  const Json recipe = read_json(ReadPath::in(out, "recipe.json"));
  const std::string where = (out / "recipe.json").string();
  JsonObject object(recipe, where);
  JsonObject run(object.get("run"), where + ": run"), provenance(object.get("provenance"), where + ": provenance");
  const std::string name = object.string("name"), on = run.string("task"), base = provenance.string("base");
  const int64_t seed = run.integer("seed", 0, INT64_MAX);
  const auto refuse = [&](const std::string& holds, const std::string& want) {
    throw Error(Code::usage, fmt::format("{}: holds a run of {}, want {}", out.string(), holds, want),
                "name another folder with --out, or add --overwrite");
  };
  if (name != paper.recipe || on != task.name)
    refuse(fmt::format("recipe {} on {}", name, on), fmt::format("{} on {}", paper.recipe, task.name));
  if (flags.seed && *flags.seed != seed) refuse(fmt::format("seed {}", seed), fmt::format("{}", *flags.seed));
  const ModelSpec spec = Checkpoint::open(out.string()).spec();
  if (flags.layers > 0 && spec.layers != flags.layers)
    refuse(fmt::format("{} layers", spec.layers), fmt::format("{}", flags.layers));
  if (!flags.model.empty()) {
    const Checkpoint model = Checkpoint::open(flags.model);
    ModelSpec wanted = model.spec();
    wanted.layers = spec.layers;  // a truncated model has a hash of its own: it is told by its shape
    const bool same = flags.layers > 0 ? backbone_name(wanted) == backbone_name(spec) : weights_sha256(model) == base;
    if (!same) refuse("another model", flags.model);
  }
  notice(common, fmt::format("{}: already trained with seed {} from {} with the weights {}; measured again "
                             "(--overwrite trains it anew){}",
                             out.string(), seed, backbone_name(spec), base.substr(0, 12),
                             flags.train_flags.empty() ? "" : "; the flags after -- are not used"));
  return true;
}

bool names(const std::vector<std::string>& words, const std::string& flag) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
}

void train(const Common& common, const ReproduceFlags& flags, const Paper& paper, const Task& task) {
  std::vector<std::string> words{require_program("exeunt-train").string(),
                                 "train",
                                 "--recipe",
                                 std::string(paper.recipe),
                                 "--model",
                                 flags.model,
                                 "--task",
                                 std::string(task.name),
                                 "--data",
                                 flags.data,
                                 "--out",
                                 flags.out,
                                 "--as-written"};  // the paper's numbers, whatever the backbone
  for (const auto& [flag, value] :
       {std::pair{"--precision", "fp32"}, std::pair{"--max-length", "128"}, std::pair{"--window", "0"}})
    if (!names(flags.train_flags, flag)) words.push_back(fmt::format("{}={}", flag, value));
  if (flags.layers > 0) words.insert(words.end(), {"--layers", fmt::format("{}", flags.layers)});
  if (flags.seed) words.insert(words.end(), {"--seed", fmt::format("{}", *flags.seed)});
  if (common.quiet) words.emplace_back("-q");
  if (flags.overwrite) {
    words.emplace_back("--overwrite");
  } else if (path_exists(flags.out)) {
    words.emplace_back("--resume");
  }
  words.insert(words.end(), flags.train_flags.begin(), flags.train_flags.end());
  const auto before = std::signal(SIGINT, [](int) {});  // left to the trainer, which saves a checkpoint
  const std::optional<ChildEnd> end = run_child(words, {.keep_output = common.json || common.quiet});
  std::signal(SIGINT, before);
  const int status = end ? end->status : static_cast<int>(Code::failure);
  if (status != 0) {
    const bool known = status >= static_cast<int>(Code::failure) && status <= static_cast<int>(Code::bad_file);
    throw Error(known ? static_cast<Code>(status) : Code::failure, "training failed", "see the message above");
  }
  if (!path_exists(fs::path(flags.out) / "all_results.json")) {
    throw Error(Code::failure, fmt::format("{}: training stopped before it finished", flags.out),
                "run the same command to continue");
  }
}

std::vector<PolicySpec> settings_of(const Paper& paper, const ExitTrace& trace) {
  std::vector<PolicySpec> out;
  for (const std::string_view text : paper.settings) {
    // A regression's answers are equal within a tolerance; 0.1 is what PABEE's README uses.
    const std::string whole = std::string(text) + (trace.info.problem == Problem::regression ? ",tol=0.1" : "");
    for (PolicySpec& policy : parse_sweep(whole)) out.push_back(std::move(policy));
  }
  return out;
}

// Whether a policy gives every text the same answer.
bool one_answer(const ExitTrace& trace, const PolicySpec& policy) {
  const Departures departures = replay(trace, policy, trace.info.last_head);
  const auto answer = [&](size_t row) { return answer_text(trace.info, trace.at(row, departures.exit[row])); };
  for (size_t row = 1; row < trace.rows; ++row)
    if (answer(row) != answer(0)) return false;
  return true;
}

// What the run of a model of that family and its rows have that is not the paper's.
void note_differences(const ReproduceFlags& flags, const Paper& paper, const Task& task, Family family,
                      OurScores& reached) {
  reached.settings = other_settings(paper, read_json(ReadPath::in(flags.out, "recipe.json")), family);
  if (flags.engine.precision != "fp32")
    reached.settings.push_back(fmt::format("evaluated in {}, not fp32", flags.engine.precision));
  const SplitFile* train = find_task(task.name == "MNLI-mm" ? "MNLI" : task.name).find(Split::train);
  const Json rows = json_in(flags.out, "run.json", {"rows"});
  if (train != nullptr && rows.is_number_integer()) {
    reached.train_rows = rows.get<int64_t>();
    reached.all_train_rows = train->rows;
    reached.other_data = reached.train_rows > train->rows + train->slack;
  }
  const SplitFile* dev = task.find(Split::dev);
  if (dev != nullptr && std::abs(reached.rows - dev->rows) > dev->slack) reached.other_data = true;
}

OurScores reached_on(const Common& common, const ReproduceFlags& flags, const Paper& paper, const Task& task) {
  MeasureOptions run = flags.engine;
  run.model = flags.out;
  run.data.task = task.name;
  run.data.path = flags.data;
  const Measured measured = measure(run, observer(common));
  Scorer scorer(measured.trace, scorer_options(measured));
  OurScores reached{.task = std::string(task.name), .split = "dev", .backbone = backbone_name(measured.model->spec())};
  reached.recipe = paper.recipe;
  reached.caveat = paper.caveat;
  reached.rows = static_cast<int64_t>(measured.trace.rows);
  note_differences(flags, paper, task, measured.model->spec().family, reached);
  for (ExitScore& exit : scorer.each_exit()) {
    const bool constant = one_answer(measured.trace, parse_policy(fmt::format("layer:{}", exit.layer)));
    reached.exits.push_back({exit.layer, std::move(exit.metrics), constant});
  }
  const std::vector<PolicySpec> settings = settings_of(paper, measured.trace);
  const PolicyTimes times =
      time_policies(run, *measured.model, settings, {.seconds = 0, .texts = kTimedTexts}, observer(common));
  reached.clock_spread = times.spread;
  for (size_t i = 0; i < settings.size(); ++i) {
    PolicyScore score = scorer.score(settings[i]);
    reached.points.push_back({score.policy, score.cost.speedup_ratio, std::move(score.metrics),
                              times.rows[i].clock_speedup, one_answer(measured.trace, settings[i])});
  }
  return reached;
}

std::string times(const std::optional<double>& speedup) {
  return speedup ? fmt::format("{:.2f}x", *speedup) : "";
}

bool any_clock(const std::vector<Comparison>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Comparison& row) { return row.clock.has_value(); });
}

void print_comparisons(const std::vector<Comparison>& rows) {
  const bool clocked = any_clock(rows);
  std::vector<std::string> header{"published", "backbone", "on",   "metric", "theirs", "speed-up",
                                  "ours",      "speed-up", "with", "+-",     "verdict"};
  if (clocked) header.insert(header.begin() + 8, "by clock");
  std::vector<std::vector<std::string>> table;
  for (const Comparison& row : rows) {
    const PublishedFigure& figure = *row.figure;
    table.push_back({figure.method, figure.backbone, fmt::format("{} {}", figure.task, figure.split),
                     std::string(name_of(figure.metric)), percent(figure.score), times(figure.speedup),
                     row.ours ? percent(*row.ours) : "", times(row.speedup), row.setting,
                     row.ours ? percent(row.tolerance) : "", verdict_text(row)});
    if (clocked) table.back().insert(table.back().begin() + 8, times(row.clock));
  }
  print_table(header, table);
}

void explain_columns(bool clocked, double spread) {
  if (clocked)
    fmt::print(
        "\nby clock: full depth's time over the setting's, at most {} texts run one at a time, in turns; from round to "
        "round\nit differs by up to {:.0f} %. speed-up counts layers\n",
        kTimedTexts, 100 * spread);
  fmt::print(
      "\n+-: tolerance between two measurements of one method: the error of reading the figure off a plot, and two "
      "standard\n"
      "errors of a score on that many rows. verdict: ours is within it, above or below; in brackets what else "
      "differs,\n"
      "so that it is no verdict on the method, and near means within it\n");
}

// "recipe deebert on gte-small, 3 seeds, 277 rows of dev"
std::string trained_text(const OurScores& reached) {
  std::string text = fmt::format("recipe {} on {}", reached.recipe,
                                 reached.backbone.empty() ? "an unnamed backbone" : reached.backbone);
  if (reached.cut_short) text += ", truncated";
  if (reached.seeds > 0) text += fmt::format(", {} {}", reached.seeds, reached.seeds == 1 ? "seed" : "seeds");
  if (reached.train_rows < reached.all_train_rows)
    text += fmt::format(", trained on {} of {} rows", reached.train_rows, reached.all_train_rows);
  text += fmt::format(", {} rows of {}", reached.rows, reached.split);
  if (!reached.settings.empty())
    text += fmt::format("\n  settings other than the paper's: {}", fmt::join(reached.settings, "; "));
  return text;
}

OrderedJson trained_json(const OurScores& reached) {
  OrderedJson out;
  out["recipe"] = reached.recipe;
  out["task"] = reached.task;
  out["backbone"] = reached.backbone;
  out["cut_short"] = reached.cut_short;
  out["seeds"] = reached.seeds;
  out["train_rows"] = reached.train_rows;
  out["rows"] = reached.rows;
  out["differs"] = reached.caveat;
  out["settings"] = reached.settings;
  if (reached.clock_spread > 0) out["clock_spread"] = reached.clock_spread;
  return out;
}

// Every set of scores with the rows of its own: which settings a row was reached with stands above it.
void show(const Common& common, const ReproduceFlags& flags, const Paper& paper, const std::vector<OurScores>& all) {
  if (common.json) {
    OrderedJson out;
    out["paper"] = std::string(paper.name);
    out["recipe"] = std::string(paper.recipe);
    out["task"] = all.front().task;
    out["backbone"] = all.front().backbone;
    if (flags.from.empty()) {
      out["model"] = flags.model;
      out["out"] = flags.out;
      out["run"] = trained_json(all.front());
    } else {
      out["from"] = flags.from;
      out["stored"] = OrderedJson::array();
    }
    out["rows"] = OrderedJson::array();
    for (const OurScores& reached : all) {
      const bool stored = reached.seeds > 0;
      for (const Comparison& row : compare(paper, reached)) {
        OrderedJson entry = comparison_json(row);
        if (!flags.from.empty()) entry["stored"] = stored ? OrderedJson(out["stored"].size()) : OrderedJson(nullptr);
        out["rows"].push_back(std::move(entry));
      }
      if (stored) out["stored"].push_back(trained_json(reached));
    }
    return print_json(out);
  }
  bool clocked = false, first = true;
  double spread = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<Comparison> rows = compare(paper, all[i]);
    if (rows.empty()) continue;  // RomeBERT's figures are of one of MNLI's sets
    fmt::print("{}{} on {}: {}\n\n", std::exchange(first, false) ? "" : "\n", paper.name, all[i].task,
               all[i].exits.empty() ? "nothing of ours" : trained_text(all[i]));
    print_comparisons(rows);
    clocked = clocked || any_clock(rows);
    spread = std::max(spread, all[i].clock_spread);
  }
  explain_columns(clocked, spread);
}

Json scores_of(const fs::path& file) {
  if (fs::is_directory(file)) {
    throw Error(Code::bad_file, fmt::format("{}: got a folder, want a file of scores", file.string()),
                "lab/studies/reproducing.py --scores FILE writes one of the repository's results");
  }
  return read_json(file, size_t{1} << 24);
}

void run_reproduce(const Common& common, ReproduceFlags flags) {
  if (!flags.train_flags.empty() && !flags.train_flags.front().starts_with("-")) {
    throw Error(Code::usage, fmt::format("unexpected argument '{}'", flags.train_flags.front()),
                "name the task with --task; flags for 'exeunt train' follow after --");
  }
  if (flags.paper.empty())
    throw Error(Code::usage, "name a paper", "for example: exeunt reproduce deebert --task MRPC --data glue_data");
  const Paper& paper = paper_named(flags.paper);
  const Task& task = task_for(paper, flags.task);
  if (!flags.from.empty())
    return show(common, flags, paper, reached_in(scores_of(flags.from), flags.from, paper, std::string(task.name)));
  if (flags.data.empty()) throw Error(Code::usage, "--data is required", "name the folder that holds the task folders");
  if (flags.out.empty()) flags.out = fmt::format("reproduce/{}-{}", paper.name, plain_name(task.name));
  const bool trained = !flags.overwrite && is_trained(common, flags, paper, task);
  if (flags.model.empty()) flags.model = paper.model;
  if (!trained) train(common, flags, paper, task);
  std::vector<OurScores> all{reached_on(common, flags, paper, task)};
  if (task.name == "MNLI") {
    const Task& mismatched = find_task("MNLI-mm");
    all.push_back(find_split(mismatched, Split::dev, flags.data)
                      ? reached_on(common, flags, paper, mismatched)
                      : OurScores{.task = "MNLI-mm", .split = "dev", .backbone = all.front().backbone});
  }
  show(common, flags, paper, all);
}

}  // namespace

void add_reproduce(CommandLine& line) {
  const auto flags = std::make_shared<ReproduceFlags>();
  flags->engine.precision = "fp32";
  CLI::App* verb =
      add_verb(line, "reproduce", "Train and evaluate as a paper did, and compare with its figures",
               {"exeunt reproduce deebert --task MRPC --data glue_data",
                "exeunt reproduce pabee --task SST-2 --data glue_data --model models/albert -- --device cpu",
                "exeunt reproduce romebert --task RTE --from scores.json"},
               [flags, &common = line.common] { run_reproduce(common, *flags); });
  verb->add_option("PAPER", flags->paper,
                   "deebert, deebert-sd, romebert, romebert-sd, pabee, elasticbert, elbert or elbert-equal");
  verb->add_option("FLAGS", flags->train_flags, "After --: further flags for 'exeunt train'");
  verb->add_option("--task", flags->task, "GLUE task the paper has figures for");
  verb->add_option("--data", flags->data, "Folder that holds the task folders");
  verb->add_option("--model", flags->model,
                   "Model to train from; the paper's, from the local Hugging Face cache, if omitted");
  verb->add_option("--out", flags->out, "Output folder; reproduce/PAPER-TASK if omitted")->type_name("DIR");
  verb->add_option("--layers", flags->layers, "elasticbert: train only the first K layers")->check(positive());
  verb->add_option("--seed", flags->seed, "Seed; the paper's if omitted");
  verb->add_flag("--overwrite", flags->overwrite, "Train again even if --out holds a finished run");
  verb->add_option("--from", flags->from, "Compare scores in this JSON file instead of training (lab/docs/formats.md)");
  add_precision_flags(*verb, flags->engine);
  verb->get_option("--precision")
      ->description("Precision of the evaluation: fp32, as in the papers, bf16 or int8")
      ->default_str("fp32");
  verb->add_option("--threads", flags->engine.threads, "Threads of the evaluation; 0 = all cores")
      ->check(number_in(0, 4096))
      ->capture_default_str();
}

}  // namespace exeunt::apps
