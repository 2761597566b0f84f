// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/train.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/process.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/verdicts.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void ask_to_stop(int signal) {
  stop_asked = true;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

// MiniLM where `make demo` has brought it, else our own small one: both lie where the program finds them.
std::string default_model() {
  const char* chosen = std::getenv("EXEUNT_MODEL");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  const fs::path program = program_folder();
  for (const char* name : {"minilm", "tiny-en"}) {
    for (const char* up : {"..", "../.."}) {  // from bin, or from libexec/exeunt
      const fs::path folder = (program / up / "share/exeunt/models" / name).lexically_normal();
      if (path_exists(folder / "config.json")) return folder.string();
    }
  }
  throw Error(Code::usage, "--model is required: none was installed with this program",
              "name a model folder, or set EXEUNT_MODEL to one");
}

// --out, or runs/ and the name of the data.
std::string out_folder(const std::string& chosen, const TrainDataFlags& rows) {
  if (!chosen.empty()) return chosen;
  const fs::path file = rows.train_features.empty() ? rows.data : rows.train_features;
  const std::string name = rows.task.empty() ? file.stem().string() : rows.task;
  if (!name.empty()) return (fs::path("runs") / name).string();
  throw Error(Code::usage, "--data is required",
              "name a data folder with --task and --data, or a file of your own with --data");
}

Checkpoint open_model(const Common& common, const std::string& name, int layers) {
  Checkpoint model = Checkpoint::open(name);
  for (const std::string& line : model.notices()) notice(common, line);
  if (model.exits().ngrams) {
    notice(common, "the exit before the first layer is left out: it is not trained here; attach it again afterwards");
    model = without_exit_0(model);
  }
  return layers > 0 ? first_layers(model, layers) : model;
}

LoadedData load_rows(const Common& common, const TrainDataFlags& flags, const Checkpoint& model, int threads) {
  const TrainingSource source{.task = flags.task,
                              .data = flags.data,
                              .eval_data = flags.eval_data,
                              .train_features = flags.train_features,
                              .eval_features = flags.eval_features,
                              .columns = flags.columns,
                              .hold_out = flags.hold_out,
                              .also = flags.also,
                              .limit = flags.limit,
                              .max_length = flags.max_length,
                              .threads = threads};
  return load_training(source, model, [&](std::string_view text) { notice(common, text); });
}

// "RTE in glue_data", "my.csv, evaluated on dev.csv".
std::string name_of_data(const TrainDataFlags& flags) {
  std::string text = flags.train_features.empty() ? flags.data : flags.train_features;
  if (!flags.task.empty()) text = fmt::format("{} in {}", flags.task, text);
  const std::string& eval = flags.train_features.empty() ? flags.eval_data : flags.eval_features;
  return eval.empty() ? text : fmt::format("{}, evaluated on {}", text, eval);
}

// The values of this job. The time is estimated where the user asks for it.
TrainPlan plan_of(const Common& common, const Recipe& recipe, PlanRequest request, const TrainJob& job,
                  const ModelSettingsOf& settings_of) {
  const ModelSettings named = settings_of ? settings_of(request.recipe, job.model) : ModelSettings{};
  for (const std::string& text : named.notices) notice(common, text);
  request.model_config = named.set;
  if (job.dry_run || request.time_limit > 0) {
    request.seconds = [&](const TrainPlan& plan) {
      const auto rows = static_cast<int64_t>(job.loaded.data.train.rows());
      return seconds_per_text(job.model, job.loaded.data, options_for(common, job, plan)) *
             workload_of(rows, plan).cost;
    };
  }
  TrainPlan plan = resolve_plan(recipe, request, job.model.spec(), job.loaded.data.facts());
  for (const std::string& text : plan.notices) notice(common, text);
  return plan;
}

void print_dry_run(const Common& common, const TrainJob& job, const TrainPlan& plan) {
  std::error_code ignored;
  fs::remove(job.out, ignored);  // where it is empty, it was made for the few steps that were timed
  const Workload work = workload_of(static_cast<int64_t>(job.loaded.data.train.rows()), plan);
  if (common.json) {
    return print_json({{"steps", work.steps},
                       {"texts", work.texts},
                       {"seconds", plan.seconds.value()},
                       {"values", values_json(plan)}});
  }
  fmt::print("split: {}\n{} steps, {} texts, about {} on this machine\n", split_text(job.loaded), work.steps,
             work.texts, duration_text(plan.seconds.value()));
  print_pairs(value_rows(plan));
}

void print_exits(const OrderedJson& exits) {
  std::vector<std::string> header{"exit after"};
  std::vector<std::vector<std::string>> rows;
  for (const OrderedJson& exit : exits) {
    std::vector<std::string> row;
    for (const auto& [key, value] : exit.items()) {
      if (key != "layer" && rows.empty()) header.push_back(key);
      row.push_back(key == "layer" ? value.dump() : percent(value.is_number() ? value.get<double>() : NAN));
    }
    rows.push_back(std::move(row));
  }
  print_table(header, rows);
}

void print_result(const Common& common, const TrainJob& job, const TrainPlan& plan, const TrainResult& result) {
  const LoadedData& loaded = job.loaded;
  if (common.json) {
    OrderedJson out = result.stopped ? OrderedJson{{"stopped_at", result.steps}} : result.results;
    out["values"] = values_json(plan);
    if (!result.stopped && loaded.user_file) out["calibration"] = certify_trained(common, job.certification);
    return print_json(out);
  }
  if (result.stopped) {
    fmt::print("stopped at step {}; continue with --resume\n", result.steps);
    return;
  }
  const bool measured = result.results.contains("exits");
  if (measured) print_exits(result.results.at("exits"));
  for (const std::string& line : baseline_lines(loaded.data.baseline)) fmt::print("{}\n", line);
  fmt::print("wrote {} after {} steps\n", job.out, result.steps);
  std::fflush(stdout);  // what comes next is said last, in a pipe, too
  for (const std::string& text : verdicts_on(result.results, loaded.data)) notice(common, text);
  if (!measured) notice(common, "quality unknown: no rows were held out to measure it; --eval-data FILE names some");
  if (loaded.user_file) (void)certify_trained(common, job.certification);
  // The last line, so that nobody overlooks it.
  if (const std::string text = lost_to_baseline(result.results, loaded.data); !text.empty()) notice(common, text);
}

}  // namespace

TrainJob open_job(const Common& common, const TrainFlags& flags) {
  const std::string out = out_folder(flags.out, flags.rows);
  const std::string name = flags.model.empty() ? default_model() : flags.model;
  if (flags.model.empty()) notice(common, fmt::format("no --model: starting from {}", name));
  Checkpoint model = open_model(common, name, flags.layers);
  LoadedData loaded = load_rows(common, flags.rows, model, flags.plan.threads);
  Certification certification{.model = out,
                              .max_drop = flags.certify.max_drop,
                              .skip = flags.certify.no_calibrate,
                              .thresholds = flags.certify.thresholds,
                              .exit_0 = !flags.certify.no_exit_0,
                              .threads = flags.plan.threads,
                              .data = flags.rows.data,
                              .columns = flags.rows.columns,
                              .rows = loaded.held_out_rows,
                              .split = loaded.hold_out};
  require_thresholds_fit(certification, loaded.data.outcome);
  return {.model_name = name,
          .data_name = name_of_data(flags.rows),
          .out = out,
          .model = std::move(model),
          .loaded = std::move(loaded),
          .certification = std::move(certification),
          .dry_run = flags.dry_run};
}

const std::atomic<bool>* stop_on_signals() {
  std::signal(SIGTERM, ask_to_stop);
  std::signal(SIGINT, ask_to_stop);
  return &stop_asked;
}

TrainOptions options_for(const Common& common, const TrainJob& job, const TrainPlan& plan) {
  TrainOptions options;
  static_cast<TrainPlan&>(options) = plan;
  options.out = job.out;
  options.progress = progress_on_stderr(common.quiet);
  options.notice = [&common](std::string_view text) { notice(common, text); };
  options.stop = stop_on_signals();
  if (job.certification.exit_0 && job.loaded.user_file) {
    options.complete = [&job](const Checkpoint& trained, const TracedRows& train, const TracedRows& eval) {
      return with_exit_0(job.certification, trained, train, eval);
    };
  }
  if (!job.loaded.held_out.empty()) options.beside.emplace_back(kHeldOutFile, job.loaded.held_out);
  return options;
}

void train_by_flags(const Common& asked, const Recipe& recipe, const TrainFlags& flags,
                    const ModelSettingsOf& settings_of) {
  Common common = asked;
  if (!first_process()) common.quiet = true;
  const bool may_exist = flags.plan.resume || flags.plan.overwrite;
  if (first_process() && !may_exist) require_free(out_folder(flags.out, flags.rows));
  const TrainJob job = open_job(common, flags);
  const TrainPlan plan = plan_of(common, recipe, flags.plan, job, settings_of);
  if (job.dry_run) return print_dry_run(common, job, plan);
  TrainOptions options = options_for(common, job, plan);
  options.estimate = !common.quiet && !common.json && !plan.resume;
  options.started = [&](const RunStart& start) { notice_pairs(common, summary_of(job, plan, start)); };
  const TrainResult result = train(job.model, job.loaded.data, options);
  if (first_process()) print_result(common, job, plan, result);
}

}  // namespace exeunt::apps
