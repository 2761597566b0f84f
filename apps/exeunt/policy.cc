// SPDX-License-Identifier: Apache-2.0
// `exeunt policy show` and `exeunt policy set`: look at and edit a model's policy.json.
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/exits/policy_file.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/flows/make_trace.h"
#include "exeunt/model/own_folder.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct PolicyFlags {
  std::string model, policy, exits, precision = "fp32";
};

fs::path policy_path(const std::string& model) {
  std::error_code ignored;
  return fs::is_directory(model, ignored) ? fs::path(model) / "policy.json" : fs::path(model);
}

void show(const Common& common, const PolicyFlags& flags) {
  const fs::path path = policy_path(flags.model);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw Error(Code::bad_file, fmt::format("{}: no policy yet: the model runs at full depth", path.string()),
                "certify one with 'exeunt calibrate', or choose one with 'exeunt policy set'");
  }
  const PolicyFile file = read_policy_file(path);
  if (common.json) {
    fmt::print("{}", policy_file_text(file));
    return;
  }
  for (const auto& [precision, entry] : file.entries) {
    std::vector<std::pair<std::string, std::string>> rows{
        {"precision", precision + (precision == file.default_precision ? " (default)" : "")},
        {"policy", str(entry.policy)},
        {"exits", fmt::format("{}", fmt::join(entry.exits, ", "))}};
    if (entry.certificate) {
      const Certificate& c = *entry.certificate;
      rows.emplace_back("certificate",
                        c.method == RiskMethod::crc
                            ? fmt::format("{} at most {:g} % in expectation ({}, {} texts)", name_of(c.loss),
                                          100 * c.epsilon, name_of(c.method), c.rows)
                            : fmt::format("{} at most {:g} % with confidence {:g} % ({}, {} texts)", name_of(c.loss),
                                          100 * c.epsilon, 100 * (1 - c.delta), name_of(c.method), c.rows));
    } else {
      rows.emplace_back("certificate", "none");
    }
    print_pairs(rows);
    for (const PolicyPoint& point : entry.points) {
      fmt::print("  budget {:g} %: {} at {:.0f} % of the layers\n", 100 * point.epsilon, str(point.policy),
                 100 * point.cost_fraction);
    }
    fmt::print("\n");
  }
}

void set(const Common& common, const PolicyFlags& flags) {
  const Checkpoint model = Checkpoint::open(flags.model);
  require_heads(model);
  PolicySpec policy = parse_policy(flags.policy);
  for (const std::string& layer : comma_list(flags.exits)) policy.exits.push_back(whole_number(layer, "--exits"));
  const ExitSites sites = exit_sites(model.exits());
  (void)bind(policy, sites);  // refuses what does not fit

  const fs::path path = policy_path(flags.model);
  const PolicyLock lock(path);
  PolicyFile file{.weights = weights_sha256(model), .default_precision = flags.precision, .entries = {}};
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    PolicyFile old = read_policy_file(path);
    if (old.weights == file.weights) file = std::move(old);
  }
  PolicyEntry entry;
  entry.exits = policy.exits.empty() ? sites.layers : policy.exits;
  entry.temperature.assign(sites.layers.size(), 1.0F);
  entry.policy = policy;
  entry.policy.exits.clear();
  file.entries[flags.precision] = std::move(entry);
  lock.write(file);
  if (common.json)
    return print_json({{"out", path.string()}, {"precision", flags.precision}, {"policy", flags.policy}});
  fmt::print("{}: {} runs {}, without a certificate\n", path.string(), flags.precision, flags.policy);
}

}  // namespace

void add_policy(CommandLine& line) {
  CLI::App* policy = line.app.add_subcommand("policy", "Look at or choose a model's exit policy");
  policy->require_subcommand(1);
  CommandLine inner{*policy, line.common, line.chosen};
  const auto flags = std::make_shared<PolicyFlags>();
  CLI::App* shown = add_verb(inner, "show", "Show policy.json", {"exeunt policy show models/sst2"},
                             [flags, &common = line.common] { show(common, *flags); });
  shown->add_option("MODEL", flags->model, "Model folder, or a policy file")->required();
  CLI::App* edited = add_verb(
      inner, "set", "Choose a policy by hand; it carries no certificate",
      {"exeunt policy set models/sst2 entropy:0.2", "exeunt policy set models/sst2 patience:4 --exits 6,8,10,12"},
      [flags, &common = line.common] { set(common, *flags); });
  edited->add_option("MODEL", flags->model, "Model folder of our own")->required();
  edited->add_option("POLICY", flags->policy, "e.g. entropy:0.2, patience:6, window:0.1,8,bias_1")->required();
  edited->add_option("--exits", flags->exits, "Layers whose exits are used, with commas; all if left out");
  edited->add_option("--precision", flags->precision, "Entry to write")
      ->check(CLI::IsMember(policy_precisions()))
      ->capture_default_str();
}

}  // namespace exeunt::apps
