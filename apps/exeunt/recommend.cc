// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/recommend.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <set>

#include "apps/exeunt/command.h"
#include "apps/exeunt/goal_flags.h"
#include "apps/exeunt/keep_policy.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/shell_word.h"
#include "exeunt/eval/recommend.h"
#include "exeunt/eval/recommend_text.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/model/manifest.h"
#include "exeunt/tasks/hold_out.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct RecommendFlags {
  RunFlags run;
  std::vector<std::string> runs;
  GoalFlags goal;
  std::string out;
  uint64_t seed = 42;
  bool apply = false, replace_certified = false;
};

// One run as it is measured, and what it was measured with.
struct Contender {
  RunFlags flags;
  Measured measured = {};
};

// The folder of an unfinished training stands for its newest checkpoint, a finished one for itself; what it kept of its
// evaluation serves where no other data is named.
RunFlags resolved(const Common& common, RunFlags flags) {
  std::error_code error;
  if (!fs::is_directory(flags.model, error)) return flags;
  if (!path_exists(fs::path(flags.model) / "config.json")) {
    int64_t newest = -1;
    for (const fs::directory_entry& entry : fs::directory_iterator(flags.model, error)) {
      const std::string name = entry.path().filename().string();
      constexpr std::string_view kPrefix = "checkpoint-";
      if (!name.starts_with(kPrefix) || !path_exists(entry.path() / kManifestFile)) continue;
      newest = std::max<int64_t>(newest, std::atoll(name.c_str() + kPrefix.size()));
    }
    if (newest >= 0) {
      notice(common, fmt::format("{}: not trained to the end; its checkpoint-{} stands for it", flags.model, newest));
      flags.model = (fs::path(flags.model) / fmt::format("checkpoint-{}", newest)).string();
    }
  }
  const fs::path kept = fs::path(flags.model) / "trace-eval.safetensors";
  if (path_exists(fs::path(flags.model) / kHeldOutFile)) return flags;  // rows that nothing has looked at yet
  if (flags.data.data.empty() && flags.trace.empty() && path_exists(kept)) {
    notice(common,
           fmt::format("{}: measured on what its training was evaluated on (trace-eval.safetensors)", flags.model));
    flags.trace = kept.string();
  }
  return flags;
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

// The flags by which the same rows are measured again.
std::string run_words(const RunFlags& flags) {
  std::string out = data_words(flags.data);
  const auto add = [&](const char* flag, const std::string& value, const std::string& absent = {}) {
    if (value != absent) out += fmt::format(" {} {}", flag, shell_word(value));
  };
  add("--trace", flags.trace);
  add("--max-length", fmt::format("{}", flags.max_length), "128");
  add("--precision", flags.precision);
  add("--engine", flags.engine, "cpu");
  return out;
}

constexpr const char* kPolicyOfTrace = "policy.json";

std::string calibrate_command(const RecommendFlags& flags, const RunFlags& where, const Alternative& best,
                              const Measured& measured) {
  std::string out = fmt::format("exeunt calibrate {}{} --max-drop {:g}% --policy {}", shell_word(where.model),
                                run_words(where), 100 * *goal_of(flags.goal).drop, best.family);
  if (flags.goal.confidence != GoalFlags{}.confidence) out += fmt::format(" --confidence {:g}", flags.goal.confidence);
  if (!flags.goal.loss.empty()) out += fmt::format(" --loss {}", flags.goal.loss);
  const std::string exits = chosen_exits(best.policy, measured.trace.info.layers);
  if (!exits.empty()) out += " --exits " + exits;
  if (flags.seed != RecommendFlags{}.seed) out += fmt::format(" --seed {}", flags.seed);
  if (!measured.model) out += fmt::format(" --out {}", kPolicyOfTrace);
  return out;
}

// What to type next, in order.
std::vector<std::string> commands(const RecommendFlags& flags, const Contender& winner, const Recommendation& what) {
  const Alternative& best = what.best();
  const std::string policy = shell_word(str(best.policy));
  std::vector<std::string> out;
  std::string folder = winner.measured.model ? winner.flags.model : "MODEL";
  if (winner.measured.model && !path_exists(fs::path(folder) / kManifestFile)) {
    const std::string from = folder;
    folder = fs::path(folder).filename().string() + "-exeunt";
    out.push_back(fmt::format("exeunt convert {} --out {}", shell_word(from), shell_word(folder)));
  }
  if (!flags.apply && what.certified) {
    RunFlags where = winner.flags;
    if (winner.measured.model) where.model = folder;
    out.push_back(calibrate_command(flags, where, best, winner.measured));
  } else if (!flags.apply) {
    const std::string exits = chosen_exits(best.policy, winner.measured.trace.info.layers);
    out.push_back(fmt::format("exeunt policy set {} {}{} --precision {}", shell_word(folder), policy,
                              exits.empty() ? "" : " --exits " + exits, winner.measured.trace.info.precision));
  }
  const std::string written = flags.apply ? flags.out : !winner.measured.model && what.certified ? kPolicyOfTrace : "";
  if (!written.empty())
    out.push_back(fmt::format("cp {} {}", shell_word(written), shell_word(folder + "/policy.json")));
  out.push_back(fmt::format("exeunt serve {}", shell_word(folder)));
  return out;
}

// Refusals that need no model to have run.
void check_flags(const RecommendFlags& flags) {
  (void)goal_of(flags.goal);
  if (flags.runs.size() > 1 && !flags.run.trace.empty())
    throw Error(Code::usage, "--trace: one trace cannot speak for several runs", "name the traces themselves as RUNs");
  if (!flags.out.empty() && !flags.apply) throw Error(Code::usage, "--out: goes with --apply");
  if (flags.replace_certified && !flags.apply) throw Error(Code::usage, "--replace-certified: goes with --apply");
}

// Where the policy of `run` would be written; refused before any model runs.
void require_place(const RecommendFlags& flags, const RunFlags& run) {
  if (!flags.apply || !flags.out.empty()) return;
  if (is_trace_file(run.model)) {
    throw Error(Code::usage,
                fmt::format("--apply: {} is a trace alone, without a model to keep a policy in", run.model),
                "name a file with --out");
  }
  (void)policy_path(Checkpoint::open(run.model));
}

// The certificate in words that lies at `path` for what was measured; empty = none, or of other weights.
std::string promise_at(const fs::path& path, const Measured& measured) {
  if (!path_exists(path)) return {};
  const PolicyFile file = read_policy_file(path);
  const auto entry = file.entries.find(measured.trace.info.precision);
  if (file.weights != measured.trace.info.weights || entry == file.entries.end() || !entry->second.certificate)
    return {};
  const Certificate& kept = *entry->second.certificate;
  return fmt::format("{}, {} at most {:g} %", str(entry->second.policy), name_of(kept.loss), 100 * kept.epsilon);
}

// A promise is given up by who says so, not by who asks for another speed.
void require_no_promise(const Common& common, const RecommendFlags& flags, const fs::path& path,
                        const Measured& measured) {
  const std::string promise = promise_at(path, measured);
  if (promise.empty()) return;
  if (!flags.replace_certified) {
    throw Error(Code::usage,
                fmt::format("{}: holds a certified policy ({}), and the new one would carry no certificate",
                            path.string(), promise),
                "add --replace-certified to give the promise up, name another file with --out, or ask for a loss with "
                "--max-drop and enough texts to certify it");
  }
  notice(common,
         fmt::format("{}: the certified policy ({}) is replaced by one without a certificate", path.string(), promise));
}

std::string applied(const Common& common, const RecommendFlags& flags, const Contender& winner,
                    const Recommendation& what) {
  if (!what.met) {
    throw Error(Code::failure, "nothing was written: the target cannot be met",
                "ask for what can be met, as said above, or choose a policy by hand: 'exeunt policy set'");
  }
  require_policy_precision(winner.measured.trace);
  const fs::path path = flags.out.empty() ? policy_path(*winner.measured.model) : fs::path(flags.out);
  const PolicyLock lock(path);
  if (!what.certified) require_no_promise(common, flags, path, winner.measured);
  keep_policy(lock, path, winner.measured, policy_entry(what.best(), winner.measured.trace.info.layers));
  return path.string();
}

void run(const Common& common, const RecommendFlags& flags) {
  check_flags(flags);
  const Goal goal = goal_of(flags.goal);
  std::deque<Contender> contenders;  // stay in their places: scoring points to them
  for (const std::string& name : flags.runs) {
    RunFlags one = flags.run;
    one.model = name;
    contenders.push_back({resolved(common, std::move(one)), {}});
    require_place(flags, contenders.back().flags);
  }
  const std::vector<std::string> names = short_names(flags.runs);
  std::vector<RunOnTrial> runs;
  for (Contender& contender : contenders) {
    contender.measured = measure(common, contender.flags);
    runs.push_back({.name = names[runs.size()],
                    .trace = &contender.measured.trace,
                    .scoring = scorer_options(contender.measured),
                    .primary = primary_metric(contender.measured.trace),
                    .range = label_range(contender.measured)});
  }
  const Recommendation what = recommend(runs, goal, flags.seed);
  const Contender& winner = contenders[what.best().run];
  const std::vector<std::string> next = commands(flags, winner, what);
  if (common.json) {
    OrderedJson out = recommendation_json(what, runs, goal);
    out["commands"] = what.met ? OrderedJson(next) : OrderedJson::array();
    if (flags.apply) out["out"] = applied(common, flags, winner, what);
    return print_json(out);
  }
  print_recommendation(what, runs, goal);
  if (flags.apply) fmt::print("wrote {}\n", applied(common, flags, winner, what));
  if (!what.met) return;
  fmt::print("\nnext:\n  {}\n", fmt::join(next, "\n  "));
  if (flags.apply || what.certified || !winner.measured.model) return;
  const fs::path path = winner.measured.model->folder() / "policy.json";
  std::fflush(stdout);  // what is said of these commands comes behind them, in a pipe, too
  if (const std::string promise = promise_at(path, winner.measured); !promise.empty())
    notice(common, fmt::format("{}: 'policy set' would replace its certified policy ({}) by one without a certificate",
                               path.string(), promise));
}

}  // namespace

void add_recommend(CommandLine& line) {
  const auto flags = std::make_shared<RecommendFlags>();
  CLI::App* verb =
      add_verb(line, "recommend", "Say which exit policy to use for a speed or a loss, and what others would give",
               {"exeunt recommend models/sst2 --task SST-2 --data glue_data --target-speedup 3x",
                "exeunt recommend runs/mine --data held.csv --max-drop 0.5% --apply",
                "exeunt recommend runs/exeunt runs/pabee runs/romebert --data held.csv --target-speedup 2x",
                "exeunt recommend x.safetensors --max-drop 1% --json"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("RUN", flags->runs, "Model folder, folder of a training, or a trace file; several to choose among")
      ->required();
  add_goal_flags(*verb, flags->goal);
  add_text_flags(*verb, flags->run);
  add_trace_flags(*verb, flags->run);
  verb->add_option("--profile", flags->run.profile,
                   "Measured times to predict milliseconds from; the model's profile.json")
      ->type_name("FILE");
  verb->add_option("--seed", flags->seed, "Draws the rows that choose and those that report")->capture_default_str();
  verb->add_flag("--apply", flags->apply, "Write the policy: certified where the rows suffice for --max-drop");
  verb->add_flag("--replace-certified", flags->replace_certified,
                 "With --apply: write a policy without a certificate over a certified one, too");
  verb->add_option("--out", flags->out, "Policy file of --apply; the model's own policy.json if left out")
      ->type_name("FILE");
}

}  // namespace exeunt::apps
