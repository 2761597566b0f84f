// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/model_runs.h"

#include <charconv>

#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/progress.h"
#include "exeunt/exits/policy_file.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/flows/make_trace.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/manifest.h"
#include "exeunt/model/own_folder.h"
#include "exeunt/runtime/engine_choice.h"
#include "exeunt/tasks/hold_out.h"
#include "exeunt/tasks/task.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLastRamp = "deebert-last-ramp";

// How to name data for this model: as it was trained, where its recipe tells.
std::string data_hint(const Checkpoint& model) {
  const std::string usual = "name a data folder with --task, or a file of your own";
  const fs::path path = model.folder() / "recipe.json";
  if (!path_exists(path)) return usual;
  const Json recipe = read_json(path);
  const Json run = recipe.is_object() ? recipe.value("run", Json()) : Json();
  if (!run.is_object() || !run.contains("columns")) return usual;
  return fmt::format(
      "name labelled rows that were not learned: --data FILE{}; or train with --hold-out, which keeps some",
      column_words({.columns = columns_from(run.at("columns")), .labels = {}}));
}

}  // namespace

Dataset data_for(const Common& common, const RunFlags& flags, const Checkpoint& model) {
  const fs::path held_out = model.folder() / kHeldOutFile;
  if (!flags.data.data.empty()) {
    Dataset data = load_data(flags.data, &model.exits());
    for (const std::string& text : data.notices) notice(common, text);
    return data;
  }
  if (!flags.data.task.empty() || !path_exists(held_out)) {
    throw Error(Code::usage, "--data is required to run a model", data_hint(model));
  }
  UserColumns columns = held_out_columns(held_out);
  columns.labels = model.exits().labels;
  columns.regression = model.exits().problem == Problem::regression;
  Dataset data = read_user_data(held_out, columns);
  if (flags.data.limit > 0 && data.examples.size() > static_cast<size_t>(flags.data.limit)) {
    data.examples.resize(static_cast<size_t>(flags.data.limit));
  }
  notice(common,
         fmt::format("no --data: the {} rows that training held out, {}", data.examples.size(), held_out.string()));
  return data;
}

namespace {

ExitTrace trace_opened(const Common& common, const RunFlags& flags, const Checkpoint& model) {
  for (const std::string& text : model.notices()) notice(common, text);
  require_heads(model);
  const auto precision = precision_named(flags.precision);
  if (!flags.precision.empty() && !precision) {
    throw Error(Code::usage,
                fmt::format("--precision: got '{}', want fp32, bf16 or int8 to run a model", flags.precision),
                "name a trace that was made in that precision with --trace");
  }
  Dataset data = data_for(common, flags, model);
  const fs::path tokenizer_folder = flags.tokenizer.empty() ? model.folder() : fs::path(flags.tokenizer);
  const auto tokenizer = load_tokenizer(tokenizer_folder);
  Progress progress("trace", static_cast<int64_t>(data.examples.size()), progress_on_stderr(common.quiet));
  return make_trace(model, *tokenizer, std::move(data),
                    {.max_length = flags.max_length,
                     .threads = flags.threads,
                     .precision = precision,
                     .reference = flags.engine == "reference",
                     .tokenizer = tokenizer_folder,
                     .advance = [&](int64_t texts) { progress.advance(texts); }});
}

// A trace made before speaks for the model only if it is the model's own.
ExitTrace trace_of_model(const RunFlags& flags, const Checkpoint& model) {
  require_heads(model);
  ExitTrace trace = read_trace(flags.trace);
  require_owner(trace,
                {.weights = weights_sha256(model),
                 .labels = model.exits().labels,
                 .layers = exit_sites(model.exits()).layers,
                 .precision = flags.precision.empty() ? trace.info.precision : flags.precision},
                flags.trace);
  return trace;
}

Measured measure_trace_file(const RunFlags& flags) {
  if (!flags.trace.empty()) {
    throw Error(Code::usage, fmt::format("--trace: got one beside the trace file {}, want a model", flags.model),
                "name the model first: exeunt VERB MODEL --trace FILE");
  }
  Measured measured{.trace = read_trace(flags.model), .model = {}, .profile = {}};
  const std::string& own = measured.trace.info.precision;
  if (!flags.precision.empty() && flags.precision != own) {
    throw Error(Code::bad_file,
                fmt::format("{}: has another precision: got {}, want {}", flags.model, own, flags.precision));
  }
  return measured;
}

std::optional<ProfileEntry> profile_of(const Common& common, const RunFlags& flags, const Measured& measured) {
  const fs::path path = !flags.profile.empty() ? fs::path(flags.profile)
                        : measured.model       ? measured.model->folder() / kProfileFile
                                               : fs::path();
  if (path.empty() || (flags.profile.empty() && !path_exists(path))) return std::nullopt;
  const int layers = measured.model ? measured.model->spec().layers : measured.trace.info.layers.back();
  const Profile profile = read_profile(path, layers);
  const ProfileEntry* entry = find_entry(profile, measured.trace.info.precision, flags.threads);
  if (entry != nullptr) return *entry;
  notice(common, fmt::format("{}: nothing measured in {}, so no times are predicted", path.string(),
                             measured.trace.info.precision));
  return std::nullopt;
}

LastHead last_head(const RunFlags& flags, const Measured& measured) {
  const bool asked = flags.compat == kLastRamp;
  const bool stored = measured.model && measured.model->exits().compat_last_ramp == LastRamp::ramp;
  if (asked && measured.trace.ramp.empty()) {
    throw Error(Code::usage, fmt::format("--compat {}: the model has no ramp at its last layer", kLastRamp),
                "only imported checkpoints of DeeBERT and RomeBERT have one");
  }
  return asked || stored ? LastHead::ramp : LastHead::final;
}

std::string certificate_text(const PolicyEntry& entry) {
  if (!entry.certificate) return "without a certificate";
  const Certificate& c = *entry.certificate;
  return fmt::format("certified: {} at most {:g} % {}", name_of(c.loss), 100 * c.epsilon,
                     c.method == RiskMethod::crc ? std::string("in expectation")
                                                 : fmt::format("with confidence {:g} %", 100 * (1 - c.delta)));
}

ChosenPolicy policy_in(const Common& common, const PolicyFile& file, const std::string& precision,
                       const std::string& where) {
  const PolicyEntry& entry = file.entries.at(precision);
  notice(common, fmt::format("{}: policy {}, {}", where, str(entry.policy), certificate_text(entry)));
  ChosenPolicy chosen{entry.complete(), std::nullopt};
  if (entry.certificate) {
    const OrderedJson whole = OrderedJson::parse(policy_file_text(file));
    chosen.certificate = whole["entries"][precision]["certificate"];
  }
  return chosen;
}

// A file that the user names must fit; the model's own is passed over with a notice where it does not.
ChosenPolicy named_policy(const Common& common, const Measured& measured, const std::string& path) {
  const PolicyFile file = read_policy_file(path);
  const TraceInfo& info = measured.trace.info;
  if (file.weights != info.weights) {
    throw Error(Code::bad_file, fmt::format("{}: made for other weights: got {}, want {}", path,
                                            file.weights.substr(0, 12), info.weights.substr(0, 12)));
  }
  if (!file.entries.contains(info.precision))
    throw Error(Code::bad_file, fmt::format("{}: has no entry for precision {}", path, info.precision));
  return policy_in(common, file, info.precision, path);
}

}  // namespace

void add_run_flags(CLI::App& verb, RunFlags& flags, Takes takes) {
  CLI::Option* model =
      verb.add_option("MODEL", flags.model,
                      takes == Takes::model_or_trace ? "Model folder, trace file, or org/name in the Hugging Face cache"
                                                     : "Model folder, or org/name in the local Hugging Face cache");
  if (takes == Takes::model_or_trace) model->required();
  add_text_flags(verb, flags);
}

void add_text_flags(CLI::App& verb, RunFlags& flags) {
  add_data_flags(verb, flags.data);
  CLI::Option* data = verb.get_option("--data");
  data->description(data->get_description() + "; left out: the rows that training held out");
  verb.add_option("--max-length", flags.max_length, "Most tokens of a text; longer ones are cut")
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--threads", flags.threads, "Threads; 0 = as many as the machine has")
      ->check(CLI::Range(0, 4096))
      ->type_name("N")
      ->capture_default_str();
}

void add_trace_flags(CLI::App& verb, RunFlags& flags) {
  verb.add_option("--trace", flags.trace, "Trace of this model, made before; refused if it is another's")
      ->type_name("FILE");
  add_precision_flags(verb, flags);
}

void add_precision_flags(CLI::App& verb, RunFlags& flags) {
  verb.add_option("--precision", flags.precision,
                  "fp32, bf16 or int8 (or external: of arrays made elsewhere); left out: the trace's, else that of the "
                  "model's policy.json, else bf16 where the processor has it")
      ->check(CLI::IsMember(policy_precisions()))
      ->type_name("P");
  verb.add_option("--engine", flags.engine, "cpu, or reference: plain fp32 loops, exact and slow")
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->type_name("NAME")
      ->capture_default_str();
}

void add_score_flags(CLI::App& verb, RunFlags& flags) {
  verb.add_option("--profile", flags.profile, "Measured times to predict milliseconds from; the model's profile.json")
      ->type_name("FILE");
  verb.add_option("--compat", flags.compat, "deebert-last-ramp: the untrained ramp of the last layer answers, as coded")
      ->check(CLI::IsMember({kLastRamp}))
      ->type_name("NAME");
}

bool is_trace_file(const std::string& name) {
  std::error_code ignored;
  return name.ends_with(".safetensors") && fs::is_regular_file(name, ignored) &&
         !path_exists(fs::path(name).parent_path() / "config.json");
}

ExitTrace trace_model(const Common& common, const RunFlags& flags) {
  return trace_opened(common, flags, Checkpoint::open(flags.model));
}

Measured measure(const Common& common, const RunFlags& flags) {
  Measured measured;
  if (is_trace_file(flags.model)) {
    measured = measure_trace_file(flags);
  } else {
    Checkpoint model = Checkpoint::open(flags.model);
    measured.trace = flags.trace.empty() ? trace_opened(common, flags, model) : trace_of_model(flags, model);
    measured.model = std::move(model);
  }
  measured.profile = profile_of(common, flags, measured);
  measured.last = last_head(flags, measured);
  return measured;
}

ScorerOptions scorer_options(const Measured& measured) {
  ScorerOptions options;
  options.last = measured.last;
  const Task* task = find_task_or_null(measured.trace.info.task);
  if (task != nullptr) options.metrics = task->metrics;
  if (measured.model) {
    options.mflops = [&model = *measured.model](int exit, int tokens, const std::vector<int>& evaluated) {
      const int after = model.exits().sites.at(static_cast<size_t>(exit)).after;
      return mflops(
          departure_macs(model.spec(), model.exits(), {.after = after, .tokens = tokens, .evaluated = evaluated}));
    };
  }
  if (measured.profile) {
    options.milliseconds = [&measured](int exit, int tokens, const std::vector<int>& evaluated) {
      const int after = measured.trace.info.layers.at(static_cast<size_t>(exit));
      const auto asked = std::upper_bound(evaluated.begin(), evaluated.end(), after) - evaluated.begin();
      return predicted_ms(*measured.profile, {.after = after, .tokens = tokens, .asked = static_cast<int>(asked)});
    };
  }
  return options;
}

Metric primary_metric(const ExitTrace& trace) {
  const Task* task = find_task_or_null(trace.info.task);
  if (task != nullptr) return task->primary;
  return default_metrics(trace.info.regression, trace.info.labels.size()).front();
}

ChosenPolicy choose_policy(const Common& common, const Measured& measured, const std::string& text) {
  if (text.ends_with(".json")) return named_policy(common, measured, text);
  if (!text.empty()) return {parse_policy(text), std::nullopt};
  ChosenPolicy full{parse_policy("full"), std::nullopt};
  if (!measured.model) return full;
  const fs::path path = measured.model->folder() / "policy.json";
  if (!path_exists(path)) return full;
  const PolicyFile file = read_policy_file(path);
  if (file.weights != measured.trace.info.weights) {
    notice(common, fmt::format("{}: made for other weights; running at full depth", path.string()));
    return full;
  }
  const std::string& precision = measured.trace.info.precision;
  if (!file.entries.contains(precision)) {
    notice(common, fmt::format("{}: no entry for {}; running at full depth", path.string(), precision));
    return full;
  }
  if (file.entries.at(precision).precision_map != precision_map_of(*measured.model, precision)) {
    notice(common, fmt::format("{}: {} was calibrated with another precision.json; running at full depth",
                               path.string(), precision));
    return full;
  }
  return policy_in(common, file, precision, path.string());
}

fs::path policy_path(const Checkpoint& model) {
  if (!path_exists(model.folder() / kManifestFile)) {
    throw Error(Code::usage, fmt::format("{}: policies are kept in folders of our own", model.folder().string()),
                fmt::format("make one first: exeunt convert {} --out FOLDER", model.folder().string()));
  }
  return model.folder() / "policy.json";
}

int whole_number(const std::string& text, std::string_view flag) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw Error(Code::usage, fmt::format("{}: got '{}', want a whole number", flag, text));
  }
  return value;
}

std::vector<int> layer_list(const std::string& text, std::string_view flag) {
  std::vector<int> layers;
  for (const std::string& layer : comma_list(text)) layers.push_back(whole_number(layer, flag));
  return layers;
}

}  // namespace exeunt::apps
