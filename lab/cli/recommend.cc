// SPDX-License-Identifier: Apache-2.0
// `exeunt recommend`: which exit policy, and of which run, for a target speed-up or a maximum loss.
#include "lab/choose/recommend.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/suggest.h"
#include "exeunt/model/manifest.h"
#include "exeunt/policy/policy_text.h"
#include "lab/cli/goal_flags.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct RecommendFlags : RecommendOptions {
  GoalFlags goal_flags;
};

// The flags that measure the same rows again, in the same precision: a test that was made is then no new try.
std::string flags_for(const MeasureOptions& options, const std::string& precision) {
  std::string out = exeunt::flags_for(options.data);
  const auto add = [&](const char* flag, const std::string& value, const std::string& absent = {}) {
    if (value != absent) out += fmt::format(" {} {}", flag, shell_word(value));
  };
  add("--trace", options.trace);
  add("--max-length", fmt::format("{}", options.max_length), "0");
  add("--precision", precision);
  return out;
}

constexpr const char* kPolicyOfTrace = "policy.json";

std::string calibrate_command(const RecommendFlags& flags, const MeasureOptions& where, const Alternative& best,
                              const Measured& measured) {
  std::string out = fmt::format("exeunt calibrate {}{} --max-drop {:g}% --policy {}", shell_word(where.model),
                                flags_for(where, measured.model ? measured.trace.info.precision : ""),
                                100 * *flags.goal.max_drop, best.family);
  if (flags.goal_flags.confidence != GoalFlags{}.confidence)
    out += fmt::format(" --confidence {:g}", flags.goal_flags.confidence);
  if (!flags.goal_flags.loss.empty()) out += " --loss " + shell_word(flags.goal_flags.loss);
  const std::string exits = chosen_exits(best.policy, measured.trace.info.layers);
  if (!exits.empty()) out += " --exits " + exits;
  if (flags.seed != RecommendFlags{}.seed) out += fmt::format(" --seed {}", flags.seed);
  if (shares_for(measured.trace, {}, {}).certify == kNoReport.certify) out += " --report";
  if (!measured.model) out += fmt::format(" --out {}", kPolicyOfTrace);
  return out;
}

// The next commands, in order.
std::vector<std::string> commands(const RecommendFlags& flags, const Contender& winner, const Recommendation& what) {
  const Alternative& best = what.best();
  const std::string policy = shell_word(str(best.policy));
  std::vector<std::string> out;
  std::string folder = winner.measured.model ? winner.options.model : "MODEL";
  if (winner.measured.model && !path_exists(fs::path(folder) / kManifestFile)) {
    const std::string from = folder;
    folder = fs::path(folder).filename().string() + "-exeunt";
    out.push_back(fmt::format("exeunt convert {} --out {}", shell_word(from), shell_word(folder)));
  }
  if (!flags.apply && what.certified) {
    MeasureOptions where = winner.options;
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

void run(const Common& common, RecommendFlags& flags) {
  flags.goal = goal_of(flags.goal_flags);
  if (!flags.out.empty() && !flags.apply) throw Error(Code::usage, "--out goes with --apply");
  if (flags.replace_certified && !flags.apply) throw Error(Code::usage, "--replace-certified goes with --apply");
  const Recommended done = recommend_policy(flags, observer(common));
  const Recommendation& what = done.what;
  const Contender& winner = done.winner();
  const std::vector<std::string> next = commands(flags, winner, what);
  if (common.json) {
    OrderedJson out = recommendation_json(what, done.runs, flags.goal);
    out["commands"] = what.met ? OrderedJson(next) : OrderedJson::array();
    if (flags.apply) out["out"] = keep_recommended(flags, done, observer(common)).string();
    return print_json(out);
  }
  print_recommendation(what, done.runs, flags.goal);
  if (flags.apply) fmt::print("wrote {}\n", keep_recommended(flags, done, observer(common)).string());
  if (!what.met) return;
  fmt::print("\nnext:\n  {}\n", fmt::join(next, "\n  "));
  if (flags.apply || what.certified || !winner.measured.model) return;
  const fs::path path = winner.measured.model->folder() / "policy.json";
  std::fflush(stdout);  // notices about these commands come after them, in a pipe, too
  if (const std::string promise = promise_at(path, winner.measured.trace.info); !promise.empty())
    notice(common, fmt::format("{}: 'policy set' would replace its certified policy ({}) by one without a certificate",
                               path.string(), promise));
}

}  // namespace

void add_recommend(CommandLine& line) {
  const auto flags = std::make_shared<RecommendFlags>();
  CLI::App* verb =
      add_verb(line, "recommend", "Recommend an exit policy for a target speed-up or a maximum loss",
               {"exeunt recommend models/sst2 --task SST-2 --data glue_data --target-speedup 3x",
                "exeunt recommend runs/mine --data held.csv --max-drop 0.5% --apply",
                "exeunt recommend runs/exeunt runs/pabee runs/romebert --data held.csv --target-speedup 2x",
                "exeunt recommend x.safetensors --max-drop 1% --json"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("RUN", flags->runs, "Model, training run or trace file; several to choose among")->required();
  add_goal_flags(*verb, flags->goal_flags);
  add_text_flags(*verb, flags->measure);
  add_trace_flags(*verb, flags->measure);
  add_new_rows_flag(*verb, flags->measure);
  add_profile_flag(*verb, flags->measure);
  verb->add_option("--seed", flags->seed, "Seed of the split into rows that choose and rows that report")
      ->capture_default_str();
  verb->add_flag("--apply", flags->apply,
                 "Write the policy; certified if --max-drop is given and there are enough rows");
  verb->add_flag("--replace-certified", flags->replace_certified,
                 "With --apply: replace a certified policy even by one without a certificate");
  verb->add_option("--out", flags->out, "With --apply: output policy file")
      ->default_str("the model's policy.json")
      ->type_name("FILE");
}

}  // namespace exeunt::apps
