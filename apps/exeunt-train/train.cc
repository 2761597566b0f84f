// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/train.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <fmt/ranges.h>

#include "apps/exeunt-train/auto.h"
#include "apps/exeunt-train/defaults.h"
#include "apps/exeunt-train/effective_recipe.h"
#include "apps/exeunt-train/summary.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/tasks/hold_out.h"
#include "exeunt/tasks/task.h"
#include "exeunt/text/tokenizer.h"
#include "exeunt/train/about.h"
#include "exeunt/train/first_layers.h"
#include "exeunt/train/run_files.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> stop_asked{false};

// SIGTERM and the first Ctrl-C save a checkpoint and end the run; a second Ctrl-C ends it at once.
void ask_to_stop(int signal) {
  stop_asked = true;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

std::optional<std::pair<double, double>> range_of(const Dataset& data) {
  if (data.range || !data.regression || data.examples.empty()) return data.range;
  const auto [low, high] = std::minmax_element(data.examples.begin(), data.examples.end(),
                                               [](const Example& a, const Example& b) { return a.gold < b.gold; });
  if (low->gold == high->gold) return std::nullopt;
  return std::pair{static_cast<double>(low->gold), static_cast<double>(high->gold)};
}

struct Texts {
  Dataset train, eval, certify;
};

// Rows kept back from a file that comes alone.
void hold_rows_out(const Common& common, const TrainFlags& flags, Texts& texts) {
  const double share = flags.hold_out == "0" ? 0 : share_of(flags.hold_out, "--hold-out");
  if (share == 0 || !texts.train.labelled) return;
  if (texts.train.examples.size() < kLeastToHoldOut) {
    notice(common, fmt::format("{}: {} rows are too few to hold some out; all are learned", flags.data,
                               texts.train.examples.size()));
    return;
  }
  HeldOut held = hold_out(texts.train, share);
  texts.eval = std::move(held.eval);
  texts.certify = std::move(held.certify);
  if (texts.certify.examples.empty()) {
    notice(common, fmt::format("{}: no label has rows enough to hold some out; all {} are learned", flags.data,
                               texts.train.examples.size()));
  }
}

// Nearly as many labels as rows: the column is probably one of numbers or texts, not of classes.
void doubt_labels(const Common& common, const TrainFlags& flags, const Dataset& data) {
  if (data.regression || data.labels.size() < 3 || 2 * data.labels.size() <= data.examples.size()) return;
  std::string text = fmt::format("{}: {} different labels in {} rows: is '{}' the right --label-column?", flags.data,
                                 data.labels.size(), data.examples.size(), flags.columns.label);
  if (!data.columns.empty()) text += fmt::format(" The file has {}", fmt::join(data.columns, ", "));
  notice(common, text);
}

Texts read_texts(const Common& common, const TrainFlags& flags, const Task* task) {
  Texts texts;
  if (task != nullptr) {
    texts.train = read_split(*task, Split::train, flags.data);
    texts.eval = read_split(*task, Split::dev, flags.data);
  } else {
    UserColumns columns = flags.columns;
    texts.train = read_user_data(flags.data, columns);
    for (const std::string& text : texts.train.notices) notice(common, text);
    if (flags.columns.labels.empty()) doubt_labels(common, flags, texts.train);
    columns.labels = texts.train.labels;
    columns.regression = texts.train.regression;
    if (!flags.eval_data.empty()) {
      texts.eval = read_user_data(flags.eval_data, columns);
      for (const std::string& text : texts.eval.notices) notice(common, text);
    }
  }
  if (flags.limit > 0 && static_cast<int64_t>(texts.train.examples.size()) > flags.limit) {
    texts.train.examples.resize(static_cast<size_t>(flags.limit));
  }
  if (task == nullptr && flags.eval_data.empty()) hold_rows_out(common, flags, texts);
  return texts;
}

void require_labels(const Features& features, const std::string& where) {
  if (features.rows() == 0) throw Error(Code::bad_file, fmt::format("{}: got no rows, want at least one", where));
  for (size_t row = 0; row < features.rows(); ++row) {
    if (std::isnan(features.gold[row])) {
      throw Error(Code::bad_file, fmt::format("{}: row {} has no label", where, features.index[row]),
                  "training needs a label in every row");
    }
  }
}

// Feature files need no tokenizer and no texts; everything else goes through the model's own.
void load_features(const Common& common, const TrainFlags& flags, const Checkpoint& model, Loaded& loaded) {
  TrainingData& data = loaded.data;
  const Task* task = flags.task.empty() ? nullptr : &find_task(flags.task);
  if (!flags.train_features.empty()) {
    data.train = read_features(flags.train_features);
    if (!flags.eval_features.empty()) data.eval = read_features(flags.eval_features);
    data.outcome.labels = data.train.info.labels;
    data.outcome.problem = data.outcome.labels.empty() ? Problem::regression : Problem::classification;
    if (!data.eval.info.labels.empty() && data.eval.info.labels != data.train.info.labels) {
      throw Error(Code::bad_file,
                  fmt::format("{}: its labels are not those of the training features", flags.eval_features));
    }
    data.task = data.train.info.task;
    if (const Task* known = find_task_or_null(data.task)) data.outcome.range = known->range;
    return;
  }
  if (flags.data.empty()) {
    throw Error(Code::usage, "--data is required", "name a data folder with --task and --data, or a file of your own with --data");
  }
  Texts texts = read_texts(common, flags, task);
  loaded.own_file = task == nullptr;
  if (loaded.own_file) data.columns = flags.columns;
  loaded.held_out_rows = texts.certify.examples.size();
  if (loaded.held_out_rows > 0) loaded.held_out = held_out_text(texts.certify);
  data.outcome.problem = texts.train.regression ? Problem::regression : Problem::classification;
  data.outcome.labels = texts.train.labels;
  data.outcome.range = range_of(texts.train);
  data.task = texts.train.task;
  const auto tokenizer = load_tokenizer(model.folder());
  const FeatureOptions options{.max_length = std::min(flags.max_length, model.spec().max_tokens()),
                               .threads = flags.threads,
                               .tokenizer = tokenizer_sha256(model.folder())};
  data.train = make_features(texts.train, *tokenizer, options);
  if (task != nullptr && task->name == "MNLI" && find_split(find_task("MNLI-mm"), Split::dev, flags.data)) {
    const Dataset other = read_split(find_task("MNLI-mm"), Split::dev, flags.data);
    data.also.push_back({.name = "mm", .features = make_features(other, *tokenizer, options)});
  }
  if (!texts.eval.examples.empty()) data.eval = make_features(texts.eval, *tokenizer, options);
}

// The feature files of --also, which must speak of the same labels.
void load_also(const TrainFlags& flags, TrainingData& data) {
  for (const std::string& text : flags.also) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      throw Error(Code::usage, fmt::format("--also: got '{}', want NAME=FILE, e.g. held-out=rows.safetensors", text));
    }
    ExtraSet set{.name = text.substr(0, equals), .features = read_features(text.substr(equals + 1))};
    if (set.name.find('/') != std::string::npos) {
      throw Error(Code::usage, fmt::format("--also: got the name '{}', want one without '/'", set.name));
    }
    if (set.features.info.labels != data.train.info.labels) {
      throw Error(Code::bad_file,
                  fmt::format("{}: its labels are not those of the training features", text.substr(equals + 1)));
    }
    require_labels(set.features, text.substr(equals + 1));
    data.also.push_back(std::move(set));
  }
}

// How many rows there are if they are pairs, which a second segment shows; models without segments (RoBERTa) show none.
int64_t pairs_in(const Features& features) {
  const bool pairs = std::find(features.types.begin(), features.types.end(), 1) != features.types.end();
  return pairs ? static_cast<int64_t>(features.rows()) : 0;
}

void run(const Common& asked, TrainFlags flags) {
  if (flags.recipe == kAuto) return train_auto(asked, flags);
  refuse_auto_flags(flags);
  Common common = asked;
  if (!first_process()) common.quiet = true;
  (void)effective_recipe(flags, {}, 0);  // slips in the recipe's flags are found before any file is read
  const Checkpoint model = open_base(common, flags);
  if (first_process() && !flags.resume && !flags.overwrite) require_free(flags.out);
  const Loaded loaded = load_training(common, flags, model);
  const TrainingData& data = loaded.data;
  const int width = model.spec().hidden;
  if (const std::string changed = suit_narrow(flags, width); !changed.empty())
    notice(common, narrow_text(width, changed));
  TrainOptions options = options_of(common, flags, loaded);
  options.started = [&](const RunStart& start) {
    notice_pairs(common, summary_of({.flags = flags, .model = model, .loaded = loaded, .options = options}, start));
  };
  const TrainResult result = train(model, data, options);
  if (!first_process()) return;
  if (common.json) return print_json(result.stopped ? OrderedJson{{"stopped_at", result.steps}} : result.results);
  if (result.stopped) {
    fmt::print("stopped at step {}; go on with --resume\n", result.steps);
    return;
  }
  std::vector<std::string> header{"exit after"};
  std::vector<std::vector<std::string>> rows;
  if (result.results.contains("exits")) {
    for (const OrderedJson& exit : result.results.at("exits")) {
      std::vector<std::string> row;
      for (const auto& [key, value] : exit.items()) {
        if (key != "layer" && rows.empty()) header.push_back(key);
        row.push_back(key == "layer" ? value.dump()
                                     : fmt::format("{:.2f}", 100 * (value.is_number() ? value.get<double>() : NAN)));
      }
      rows.push_back(std::move(row));
    }
    print_table(header, rows);
  }
  fmt::print("wrote {} after {} steps\n", flags.out, result.steps);
  std::fflush(stdout);  // what comes next is said last, in a pipe, too
  if (!loaded.own_file) return;
  for (const std::string& text : next_steps(flags, loaded.held_out_rows)) notice(common, text);
}

}  // namespace

Checkpoint open_base(const Common& common, TrainFlags& flags) {
  const bool chosen = !flags.model.empty();
  complete(flags);
  if (!chosen) notice(common, fmt::format("no --model: starting from {}", flags.model));
  Checkpoint model = Checkpoint::open(flags.model);
  for (const std::string& line : model.notices()) notice(common, line);
  if (flags.layers > 0) model = first_layers(model, flags.layers);
  return model;
}

Loaded load_training(const Common& common, const TrainFlags& flags, const Checkpoint& model) {
  Loaded loaded;
  TrainingData& data = loaded.data;
  load_features(common, flags, model, loaded);
  require_labels(data.train, flags.train_features.empty() ? flags.data : flags.train_features);
  if (data.eval.rows() > 0) require_labels(data.eval, "evaluation data");
  load_also(flags, data);
  const bool regression = data.outcome.problem == Problem::regression;
  const Task* known = find_task_or_null(data.task);
  data.metrics = known != nullptr ? known->metrics : default_metrics(regression, data.outcome.labels.size());
  data.primary = known != nullptr ? known->primary : data.metrics.front();
  return loaded;
}

TrainOptions options_of(const Common& common, TrainFlags flags, const Loaded& loaded) {
  const TrainingData& data = loaded.data;
  apply_preset(flags, data.task, data.outcome.problem == Problem::regression);
  const Recipe recipe = parse_recipe(effective_recipe(flags, data.task, pairs_in(data.train)), flags.recipe);
  TrainOptions options{.out = flags.out, .recipe = recipe};
  options.seed = flags.seed.value_or(recipe.seed);
  options.max_steps = flags.max_steps;
  options.accumulation = flags.accumulation;
  options.window = flags.window;
  options.log_every = flags.log_every;
  options.save_every = flags.save_every;
  options.keep_checkpoints = flags.keep_checkpoints;
  options.trace = flags.trace;
  options.resume = flags.resume;
  options.overwrite = flags.overwrite;
  options.adam_epsilon = flags.adam_epsilon;
  options.warmup_steps = flags.warmup_steps;
  options.whole_warmup = !flags.preset.empty();
  options.threads = flags.threads;
  options.device = flags.device;
  options.precision = flags.precision;
  options.graphs = !flags.no_graphs;
  options.progress = progress_on_stderr(common.quiet);
  options.notice = [&common](std::string_view text) { notice(common, text); };
  options.stop = &stop_asked;
  if (!loaded.held_out.empty()) options.beside.emplace_back(kHeldOutFile, loaded.held_out);
  std::signal(SIGTERM, ask_to_stop);
  std::signal(SIGINT, ask_to_stop);
  return options;
}

void add_train_verbs(CommandLine& line) {
  // Asked by 'exeunt doctor'; people need not know it.
  add_verb(line, "about", "What this trainer was built with, as JSON", {}, [] {
    const TrainerAbout about = about_trainer();
    print_json({{"torch", about.torch}, {"gpus", about.gpus}, {"gloo", about.gloo}, {"nccl", about.nccl}});
  })->group("");
  add_train_verb(line, [&common = line.common](const TrainFlags& flags) { run(common, flags); });
}

}  // namespace exeunt::apps
