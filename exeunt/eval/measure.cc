// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/measure.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/data/inspect.h"
#include "exeunt/data/task.h"
#include "exeunt/engine/engine.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/eval/label_names.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/shadow_log.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// How to name data for this model: as it was trained, if its recipe records that.
std::string data_hint(const Checkpoint& model) {
  const std::string usual = "name a data folder with --task and --data, or a file of your own with --data";
  const Json columns = json_in(model.folder(), "recipe.json", {"run", "columns"});
  if (columns.is_null()) return usual;
  return fmt::format(
      "name labelled rows that the model was not trained on: --data FILE{}; or train with --hold-out, which keeps some",
      flags_for(columns_from(columns)));
}

// The model's labels get the names that fit the data.
ExitTrace trace_opened(const MeasureOptions& options, Checkpoint& model, const Observer& observer) {
  observer.notices(model.notices());
  require_heads(model);
  const auto precision = precision_named(options.precision);
  if (!options.precision.empty() && !precision) {
    throw Error(Code::usage, fmt::format("a model runs in fp32, bf16 or int8: got precision '{}'", options.precision),
                "pass a trace recorded in that precision with --trace");
  }
  Dataset data = data_for(options, model, observer);
  model =
      model.with_labels(label_names(model.exits(), model.spec().family, options.data.columns.labels, data, observer));
  const fs::path tokenizer_folder = options.tokenizer.empty() ? model.folder() : fs::path(options.tokenizer);
  const auto tokenizer = load_tokenizer(tokenizer_folder);
  int64_t truncated = 0;
  const auto run = [&](const Dataset& rows, std::optional<Precision> in, int max_length) {
    Progress progress("trace", static_cast<int64_t>(rows.examples.size()), observer.progress);
    return make_trace(model, *tokenizer, rows,
                      {.max_length = max_length,
                       .threads = options.threads,
                       .device = options.device,
                       .precision = in,
                       .tokenizer = tokenizer_folder,
                       .advance = [&](int64_t texts) { progress.advance(texts); },
                       .truncated = [&](int64_t texts) { truncated = texts; }});
  };
  ExitTrace trace = run(data, precision, options.max_length);
  if (truncated > 0) {
    observer.notice(
        fmt::format("{} of {} texts were truncated to {} tokens", truncated, trace.rows, trace.info.max_length));
  }
  if (options.fp32_answers && trace.info.precision != name_of(Precision::fp32))
    set_reference(trace, run(data, Precision::fp32, trace.info.max_length));
  return trace;
}

ExitTrace trace_of_server(const MeasureOptions& options, const Observer& observer) {
  const std::string& path = options.from_server;
  const ShadowLog log = read_shadow_log(path);
  const size_t last = options.last == 0 ? log.trace.rows : static_cast<size_t>(options.last);
  std::vector<size_t> rows;
  uint64_t dropped = 0;
  for (size_t row = 0; row < log.trace.rows; ++row) {
    if (log.times[row] < options.since || row + last < log.trace.rows) continue;
    rows.push_back(row);
    dropped += log.dropped[row];
  }
  if (rows.empty() && log.trace.rows > 0)
    throw Error(Code::usage,
                fmt::format("{}: no text since {}: the last is of {}", path, options.since, log.times.back()));
  observer.notice(fmt::format("{}: {} texts that the server drew from its traffic{}", path, rows.size(),
                              rows.empty() ? "" : fmt::format(", from {} on", log.times[rows.front()])));
  if (dropped > 0) {
    observer.notice(
        fmt::format("{}: {} more were drawn and dropped under load: what is certified from this log does "
                    "not cover such times",
                    path, dropped));
  }
  return select_rows(log.trace, rows);
}

// A stored trace is used for the model only if it was made with it.
ExitTrace trace_of_model(const MeasureOptions& options, Checkpoint& model, const Observer& observer) {
  require_heads(model);
  const bool live = !options.from_server.empty();
  const std::string& path = live ? options.from_server : options.trace;
  ExitTrace trace = live ? trace_of_server(options, observer) : read_trace(path);
  // The trace has the names under which labels without names were measured.
  const bool named = generic_labels(model.exits().labels) || !options.data.columns.labels.empty();
  if (named && trace.info.labels.size() == model.exits().labels.size()) model = model.with_labels(trace.info.labels);
  TraceInfo owner;
  static_cast<OutputSpec&>(owner) = model.exits();
  owner.weights = weights_sha256(model);
  owner.layers = exit_sites(model.exits()).layers;
  owner.precision = options.precision.empty() ? trace.info.precision : options.precision;
  owner.tokenizer = tokenizer_sha256(options.tokenizer.empty() ? model.folder() : fs::path(options.tokenizer));
  owner.max_length = std::min(options.max_length, model.spec().max_tokens());
  owner.precision_map = precision_map_of(model, trace.info.engine, trace.info.precision).value_or("");
  require_owner(trace, owner, path);
  return trace;
}

ExitTrace trace_in_file(const MeasureOptions& options) {
  if (!options.trace.empty()) {
    throw Error(Code::usage, fmt::format("got two traces, {} and {}, want one", options.model, options.trace),
                "name the model first: exeunt VERB MODEL --trace FILE");
  }
  ExitTrace trace = read_trace(options.model);
  if (!options.precision.empty() && options.precision != trace.info.precision) {
    throw_bad_file(options.model, "wrong precision: got {}, want {}", trace.info.precision, options.precision);
  }
  return trace;
}

LastHead last_head(const MeasureOptions& options, const Measured& measured) {
  if (options.last_ramp && measured.trace.ramp.empty()) {
    throw Error(Code::usage, "the model has no ramp at its last layer",
                "only some imported checkpoints have one, beside their final head");
  }
  if (options.last_ramp) return LastHead::ramp;
  return measured.model ? measured.model->exits().compat_last_ramp : measured.trace.info.last_head;
}

}  // namespace

std::optional<ProfileEntry> profile_of(const MeasureOptions& options, const Measured& measured,
                                       const Observer& observer) {
  if (options.profile.empty() && !measured.model) return std::nullopt;
  const ReadPath path =
      options.profile.empty() ? ReadPath::in(measured.model->folder(), kProfileFile) : ReadPath(options.profile);
  if (options.profile.empty() && !path_exists(path.path())) return std::nullopt;
  const int layers = measured.model ? measured.model->spec().layers : measured.trace.info.layers.back();
  const Profile profile = read_profile(path, layers);
  const ProfileEntry* entry = find_entry(profile, measured.trace.info.precision, options.threads);
  if (entry != nullptr) return *entry;
  observer.notice(fmt::format("{}: nothing measured in {}, so no times are predicted", path.string(),
                              measured.trace.info.precision));
  return std::nullopt;
}

Dataset data_for(const MeasureOptions& options, const Checkpoint& model, const Observer& observer) {
  const fs::path held_out = model.folder() / kHeldOutFile;
  const auto take_labels = [&](UserColumns& columns) {
    if (!generic_labels(model.exits().labels)) columns.labels = model.exits().labels;
    columns.problem = model.exits().problem;
  };
  DataSource source = options.data;
  if (source.columns.labels.empty() && source.columns.problem != Problem::regression) take_labels(source.columns);
  if (!source.path.empty()) {
    const bool unlabelled = lacks_labels(source);
    if (unlabelled) source.columns.label.clear();
    Dataset data = load_data(source);
    if (unlabelled) {
      observer.notice(fmt::format(
          "{}: no labels: only agreement with full depth is measured; --label-column names a column of labels",
          source.path));
    }
    observer.notices(data.notices);
    if (source.task.empty()) observer.notices(warnings_of(inspect(data), data, DataUse::measure));
    return data;
  }
  if (!source.task.empty() || !path_exists(held_out)) {
    throw Error(Code::usage, "--data is required to run a model", data_hint(model));
  }
  UserColumns columns;
  columns.cluster = options.data.columns.cluster;
  take_labels(columns);
  Dataset data = read_held_out(model.folder(), columns);
  keep_first_rows(data, source.limit, held_out.string());
  observer.notice(
      fmt::format("no --data: using the {} rows that training held out, {}", data.examples.size(), held_out.string()));
  return data;
}

bool is_trace_file(const std::string& name) {
  std::error_code ignored;
  if (!name.ends_with(".safetensors") || !fs::is_regular_file(name, ignored)) return false;
  return !path_exists(fs::path(name).parent_path() / "config.json") || names_itself_trace(name);
}

ExitTrace trace_model(const MeasureOptions& options, const Observer& observer) {
  Checkpoint model = Checkpoint::open(options.model);
  return trace_opened(options, model, observer);
}

Measured measure(const MeasureOptions& options, const Observer& observer) {
  Measured measured;
  if (is_trace_file(options.model)) {
    if (!options.from_server.empty())
      throw Error(Code::usage, "--from-server: got a trace, want the model that the server ran");
    measured.trace = trace_in_file(options);
  } else {
    Checkpoint model = Checkpoint::open(options.model);
    const bool traced = !options.trace.empty() || !options.from_server.empty();
    measured.trace = traced ? trace_of_model(options, model, observer) : trace_opened(options, model, observer);
    measured.model = std::move(model);
  }
  measured.profile = profile_of(options, measured, observer);
  measured.trace.info.last_head = last_head(options, measured);
  return measured;
}

CostOf mflops_of(const Checkpoint& model) {
  return [&model](int exit, int tokens, const std::vector<int>& evaluated) {
    const int after = model.exits().sites.at(static_cast<size_t>(exit)).after;
    return mflops(
        departure_macs(model.spec(), model.exits(), {.after = after, .tokens = tokens, .evaluated = evaluated}));
  };
}

ScorerOptions scorer_options(const Measured& measured) {
  ScorerOptions options;
  options.last = measured.trace.info.last_head;
  const Task* task = find_task_or_null(measured.trace.info.task);
  if (task != nullptr) options.metrics = task->metrics;
  if (measured.model) options.mflops = mflops_of(*measured.model);
  if (measured.profile) {
    options.milliseconds = [&measured](int exit, int tokens, const std::vector<int>& evaluated) {
      const int after = measured.trace.info.layers.at(static_cast<size_t>(exit));
      const auto asked = std::upper_bound(evaluated.begin(), evaluated.end(), after) - evaluated.begin();
      return predicted_ms(*measured.profile, {.after = after,
                                              .tokens = tokens,
                                              .asked = static_cast<int>(asked),
                                              .exit_0 = asked > 0 && evaluated.front() == 0});
    };
  }
  return options;
}

Metric primary_metric(const ExitTrace& trace) {
  const Task* task = find_task_or_null(trace.info.task);
  if (task != nullptr) return task->primary;
  return default_metrics(trace.info.problem, trace.info.labels.size()).front();
}

std::optional<std::pair<double, double>> label_range(const Measured& measured) {
  if (measured.model && measured.model->exits().range) return measured.model->exits().range;
  const Task* task = find_task_or_null(measured.trace.info.task);
  return task != nullptr ? task->range : std::nullopt;
}

void set_reference(ExitTrace& trace, const ExitTrace& fp32) {
  check(trace.rows == fp32.rows && trace.width == fp32.width, "a reference has the same rows");
  trace.reference.clear();
  for (size_t row = 0; row < fp32.rows; ++row) {
    const std::span<const float> last = fp32.at(row, fp32.exits - 1);
    trace.reference.insert(trace.reference.end(), last.begin(), last.end());
  }
}

std::vector<BaselineScore> baseline_for(const std::string& train, const MeasureOptions& options,
                                        const Measured& measured, const std::vector<Metric>& metrics) {
  if (!measured.model || !options.trace.empty() || !measured.trace.labelled()) {
    throw Error(Code::usage, "--baseline: got no labelled texts to score simple models on",
                "name a model, and with --data labelled texts");
  }
  Dataset data = data_for(options, *measured.model, Observer{});
  reorder_labels(data, measured.trace.info.labels);
  UserColumns columns = options.data.columns;
  columns.labels = measured.trace.info.labels;
  columns.problem = measured.trace.info.problem;
  return baseline(read_user_data(train, columns), data, metrics);
}

}  // namespace exeunt
