// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/certify/split.h"
#include "exeunt/certify/tries.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/model/locate.h"
#include "exeunt/model/manifest.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"
#include "lab/choose/recommend.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

// The folder of an unfinished training stands for its newest checkpoint, a finished one for itself; the trace of its
// evaluation serves where no other data is named.
MeasureOptions resolved(MeasureOptions options, const Observer& observer) {
  std::error_code ignored;
  if (!fs::is_directory(options.model, ignored)) return options;
  if (!path_exists(fs::path(options.model) / "config.json")) {
    std::vector<fs::path> checkpoints = checkpoints_in(options.model);
    std::erase_if(checkpoints, [](const fs::path& folder) { return !path_exists(folder / kManifestFile); });
    if (!checkpoints.empty()) {
      observer.notice(
          fmt::format("{}: training is unfinished; using {}", options.model, checkpoints.back().filename().string()));
      options.model = checkpoints.back().string();
    }
  }
  if (path_exists(fs::path(options.model) / kHeldOutFile)) return options;  // rows that nothing has looked at yet
  const fs::path kept = fs::path(options.model) / "trace-eval.safetensors";
  if (options.data.path.empty() && options.trace.empty() && path_exists(kept)) {
    observer.notice(fmt::format("{}: measured on the data its training was evaluated on ({})", options.model,
                                kept.filename().string()));
    options.trace = kept.string();
  }
  return options;
}

// Several runs go by the last part of their paths where these differ.
std::vector<std::string> short_names(const std::vector<std::string>& runs) {
  std::vector<std::string> names;
  for (const std::string& run : runs) {
    const fs::path path(run);
    names.push_back((path.has_filename() ? path : path.parent_path()).filename().string());
  }
  const bool differ = std::set<std::string>(names.begin(), names.end()).size() == names.size();
  return runs.size() > 1 && differ ? names : runs;
}

// Where the policy of `run` would be written; refused before any model runs.
void require_place(const RecommendOptions& options, const std::string& run) {
  if (!options.apply || !options.out.empty()) return;
  if (is_trace_file(run)) {
    throw Error(Code::usage, fmt::format("--apply: {} is a trace, without a model to write the policy to", run),
                "name a file with --out");
  }
  (void)policy_path(Checkpoint::open(run));
}

// Precisions are not among the things that are chosen here.
void say_precision(const RecommendOptions& options, const std::deque<Contender>& contenders, const Observer& observer) {
  if (!options.measure.precision.empty()) return;
  std::set<std::string> precisions;
  for (const Contender& contender : contenders) {
    if (contender.measured.model && contender.options.trace.empty())
      precisions.insert(contender.measured.trace.info.precision);
  }
  if (precisions.empty()) return;
  observer.notice(
      fmt::format("exits are chosen in {}, the model's default; the precision is not chosen here, but by "
                  "'exeunt calibrate' without --precision",
                  fmt::join(precisions, " and ")));
}

// A certified policy is replaced by an uncertified one only on explicit request.
void require_no_promise(const RecommendOptions& options, const fs::path& path, const Measured& measured,
                        const Observer& observer) {
  const std::string promise = promise_at(path, measured.trace.info);
  if (promise.empty()) return;
  if (!options.replace_certified) {
    throw Error(
        Code::usage,
        fmt::format("{}: holds a certified policy ({}), and the new one would carry no certificate", path.string(),
                    promise),
        "add --replace-certified to give up the certificate, choose another file with --out, or ask for a loss with "
        "--max-drop and enough texts to certify it");
  }
  observer.notice(
      fmt::format("{}: the certified policy ({}) is replaced by one without a certificate", path.string(), promise));
}

}  // namespace

std::string promise_at(const fs::path& path, const TraceInfo& info) {
  const PolicyFile file = policies_at(path, info.weights, info.precision);
  const PolicyEntry* entry = file.find(info.engine, info.precision);
  if (entry == nullptr || !entry->certificate || entry->device != device_of(info.engine)) return {};
  return fmt::format("{}: {}", str(entry->policy), promise_of(*entry));
}

Recommended recommend_policy(const RecommendOptions& options, const Observer& observer) {
  if (options.runs.size() > 1 && !options.measure.trace.empty())
    throw Error(Code::usage, "--trace goes with a single run", "pass the traces as RUNs");
  Recommended done;
  for (const std::string& name : options.runs) {
    MeasureOptions one = options.measure;
    one.model = name;
    done.contenders.push_back({.options = resolved(std::move(one), observer)});
    require_place(options, done.contenders.back().options.model);
  }
  const std::vector<std::string> names = short_names(options.runs);
  std::vector<ExitTrace*> traces;
  for (Contender& contender : done.contenders) {
    // What is certified is certified against fp32.
    contender.options.fp32_answers = options.goal.max_drop.has_value() && options.goal.certify;
    contender.measured = measure(contender.options, observer);
    traces.push_back(&contender.measured.trace);
  }
  say_precision(options, done.contenders, observer);
  keep_new_rows(traces, options.measure.strict_new, observer);
  for (const Contender& contender : done.contenders) {
    done.runs.push_back({.name = names[done.runs.size()],
                         .trace = &contender.measured.trace,
                         .scoring = scorer_options(contender.measured),
                         .primary = primary_metric(contender.measured.trace),
                         .range = label_range(contender.measured)});
  }
  done.what = recommend(done.runs, options.goal, options.seed,
                        [&](const CalibrationData& data, CalibrationPlan& plan) { count_try(data, plan, observer); });
  return done;
}

fs::path keep_recommended(const RecommendOptions& options, const Recommended& done, const Observer& observer) {
  if (!done.what.met) {
    throw Error(Code::failure, "nothing was written: the target cannot be met",
                "choose a target that can be met (see above), or set a policy by hand: 'exeunt policy set'");
  }
  const Measured& measured = done.winner().measured;
  require_policy_precision(measured.trace);
  const fs::path path = options.out.empty() ? policy_path(*measured.model) : fs::path(options.out);
  const PolicyLock lock(path);
  if (!done.what.certified) require_no_promise(options, path, measured, observer);
  keep_policy(lock, path, measured, policy_entry(done.what.best(), measured.trace.info.layers));
  return path;
}

}  // namespace exeunt
