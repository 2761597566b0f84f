// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/model_runs.h"

#include <charconv>
#include <filesystem>

#include "apps/exeunt/output.h"
#include "exeunt/base/progress.h"
#include "exeunt/exits/policy_file.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/flows/make_trace.h"
#include "exeunt/model/cost.h"
#include "exeunt/tasks/task.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::apps {
namespace {

ExitTrace trace_opened(const Common& common, const RunFlags& flags, const Checkpoint& model) {
  for (const std::string& text : model.notices()) notice(common, text);
  require_heads(model);
  if (flags.data.data.empty()) {
    throw Error(Code::usage, "--data is required to run a model",
                "name a data folder with --task, or a file of your own");
  }
  Dataset data = load_data(flags.data);
  for (const std::string& text : data.notices) notice(common, text);
  const auto tokenizer = load_tokenizer(model.folder());
  Progress progress("trace", static_cast<int64_t>(data.examples.size()), progress_on_stderr(common.quiet));
  return make_trace(model, *tokenizer, std::move(data),
                    {.max_length = flags.max_length, .threads = flags.threads, .advance = [&](int64_t texts) {
                       progress.advance(texts);
                     }});
}

}  // namespace

void add_run_flags(CLI::App& verb, RunFlags& flags, Required required) {
  CLI::Option* model = verb.add_option("MODEL", flags.model,
                                       required == Required::yes
                                           ? "Model folder, org/name in the local Hugging Face cache, or a trace file"
                                           : "Model folder, or org/name in the local Hugging Face cache");
  if (required == Required::yes) model->required();
  add_data_flags(verb, flags.data);
  verb.add_option("--max-length", flags.max_length, "Most tokens of a text; longer ones are cut")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  verb.add_option("--threads", flags.threads, "Threads; 0 = as many as the machine has")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

bool is_trace_file(const std::string& name) {
  std::error_code ignored;
  return name.ends_with(".safetensors") && std::filesystem::is_regular_file(name, ignored) &&
         !std::filesystem::exists(std::filesystem::path(name).parent_path() / "config.json", ignored);
}

ExitTrace trace_model(const Common& common, const RunFlags& flags) {
  return trace_opened(common, flags, Checkpoint::open(flags.model));
}

Measured measure(const Common& common, const RunFlags& flags) {
  if (is_trace_file(flags.model)) return {read_trace(flags.model), std::nullopt};
  Checkpoint model = Checkpoint::open(flags.model);
  ExitTrace trace = trace_opened(common, flags, model);
  return {std::move(trace), std::move(model)};
}

ScorerOptions scorer_options(const Measured& measured) {
  ScorerOptions options;
  const Task* task = find_task_or_null(measured.trace.info.task);
  if (task != nullptr) options.metrics = task->metrics;
  if (measured.model) {
    const Checkpoint& model = *measured.model;
    options.mflops = [&model](int exit, int tokens, const std::vector<int>& evaluated) {
      const int after = model.exits().sites.at(static_cast<size_t>(exit)).after;
      return mflops(
          departure_macs(model.spec(), model.exits(), {.after = after, .tokens = tokens, .evaluated = evaluated}));
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
  if (!text.empty()) return {parse_policy(text), std::nullopt};
  const ChosenPolicy full{parse_policy("full"), std::nullopt};
  if (!measured.model) return full;
  const std::filesystem::path path = measured.model->folder() / "policy.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return full;
  const PolicyFile file = read_policy_file(path);
  if (file.weights != measured.trace.info.weights) {
    notice(common, fmt::format("{}: made for other weights; running at full depth", path.string()));
    return full;
  }
  const auto entry = file.entries.find(measured.trace.info.precision);
  if (entry == file.entries.end()) {
    notice(common,
           fmt::format("{}: no entry for {}; running at full depth", path.string(), measured.trace.info.precision));
    return full;
  }
  notice(common, fmt::format("{}: policy {}, {}", path.string(), str(entry->second.policy),
                             entry->second.certificate ? "certified" : "without a certificate"));
  ChosenPolicy chosen{entry->second.complete(), std::nullopt};
  if (entry->second.certificate) {
    const Json whole = parse_json(policy_file_text(file), path.string());
    chosen.certificate = OrderedJson(whole["entries"][entry->first]["certificate"]);
  }
  return chosen;
}

int whole_number(const std::string& text, std::string_view flag) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw Error(Code::usage, fmt::format("{}: got '{}', want a whole number", flag, text));
  }
  return value;
}

}  // namespace exeunt::apps
