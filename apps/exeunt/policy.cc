// SPDX-License-Identifier: Apache-2.0
// `exeunt policy show` and `exeunt policy set`: show and edit a model's policy.json.
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_file.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/promise.h"

namespace exeunt::apps {
namespace {

namespace fs = std::filesystem;

struct PolicyFlags {
  std::string model, exits, precision;
  std::vector<std::string> words;  // a policy, or KEY=VALUE of the extension's
  bool force = false;
  Extensions more;
};

ReadPath file_of(const std::string& model) {
  std::error_code ignored;
  return fs::is_directory(model, ignored) ? ReadPath::in(model, "policy.json") : ReadPath(model);
}

PolicyEntry uncertified(const Checkpoint& model, const PolicySpec& policy, const std::string& precision) {
  const ExitSites sites = exit_sites(model.exits());
  PolicyEntry entry{.engine = engine_name(choose_kernels()), .numerics = kNumerics, .precision = precision};
  entry.exits = policy.exits.empty() ? sites.layers : policy.exits;
  entry.decision_temperature.assign(sites.layers.size(), 1.0F);
  entry.score_temperature = entry.decision_temperature;
  entry.policy = policy;
  entry.policy.exits.clear();
  entry.precision_map = precision_map_of(model, entry.engine, precision);
  return entry;
}

// policy.json, or what the model's own files ask for: the rule in an original's config.json.
PolicyFile policies_of(const std::string& name) {
  if (!path_exists(name)) throw Error(Code::bad_file, fmt::format("{}: no such folder or file", name));
  const ReadPath path = file_of(name);
  if (path_exists(path.path())) return read_policy_file(path);
  if (path_exists(fs::path(name) / "config.json")) {
    const Checkpoint model = Checkpoint::open(name);
    if (const auto& native = model.native_policy()) {
      PolicyFile file{claimed_sha256(model), std::string(name_of(resolve(model, {}).precision))};
      file.put(uncertified(model, parse_policy(*native), file.default_precision));
      return file;
    }
  }
  throw Error(Code::bad_file, fmt::format("{}: no policy yet: the model runs at full depth", path.string()),
              "certify one with 'exeunt calibrate', or choose one with 'exeunt policy set'");
}

void show(const Common& common, const PolicyFlags& flags) {
  const PolicyFile file = policies_of(flags.model);
  if (common.json) {
    fmt::print("{}", policy_file_text(file));
    return;
  }
  for (const PolicyEntry& entry : file.entries) {
    std::vector<std::pair<std::string, std::string>> rows{
        {"precision", entry.precision + (entry.precision == file.default_precision ? " (default)" : "")},
        {"engine", entry.engine.empty() ? "any" : entry.engine},
        {"policy", str(entry.policy)},
        {"exits", fmt::format("{}", fmt::join(entry.exits, ", "))}};
    rows.emplace_back("promise", promise_of(entry));
    if (entry.certificate) {
      const Certificate& c = *entry.certificate;
      rows.emplace_back("certificate", fmt::format("{}, {} {}", name_of(c.method), c.rows,
                                                   names_of(CertifiedUnit{})[static_cast<size_t>(c.unit)]));
      if (c.max_length > 0) rows.back().second += fmt::format(", max-length {}", c.max_length);
      if (c.tries > 0) rows.back().second += fmt::format(", tries known here: {}", c.tries);
    }
    print_pairs(rows);
    for (const PolicyPoint& point : entry.points) {
      fmt::print("  budget {:g} %: {} at {:.0f} % of the layers\n", 100 * point.max_drop, str(point.policy),
                 100 * point.cost_fraction);
    }
    fmt::print("\n");
  }
}

// "threshold=0.4" rather than "window:0.4,8,bias_3,range=0.2".
bool is_key(const std::string& word) {
  return word.find('=') != std::string::npos && word.find(':') == std::string::npos;
}

PolicySpec policy_of_words(const PolicyFlags& flags, const Checkpoint& model, const PolicyEntry* entry) {
  const std::vector<std::string>& words = flags.words;
  if (!is_key(words.front())) {
    if (words.size() > 1) {
      throw Error(Code::usage, fmt::format("got '{}' after the policy '{}', want one policy", words[1], words[0]));
    }
    return parse_policy(words.front());
  }
  if (flags.more.policy_of_keys == nullptr)
    throw Unknown(Code::usage, fmt::format("got '{}', want a policy", words.front()), "for example entropy:0.2");
  return flags.more.policy_of_keys(words, model, entry);
}

void set(const Common& common, const PolicyFlags& flags) {
  const Checkpoint model = Checkpoint::open(flags.model);
  require_heads(model);
  const fs::path path = policy_path(model);
  const PolicyLock lock(path);
  const std::string precision =
      flags.precision.empty() ? std::string(name_of(resolve(model, {}).precision)) : flags.precision;
  PolicyFile file = policies_at(path, weights_sha256(model), precision);
  const std::string engine = engine_name(choose_kernels());
  const PolicyEntry* stored = file.find(engine, precision);
  if (stored != nullptr && stored->certificate && !flags.force) {
    throw Error(
        Code::usage,
        fmt::format("{}: has a certified policy for {}: {}", path.string(), precision, promise_of(*stored)),
        "add --force to give up the certificate, or try a policy without storing it: exeunt predict MODEL --policy");
  }
  PolicySpec policy = policy_of_words(flags, model, stored);
  policy.exits = layer_list(flags.exits, "--exits");
  const ExitSites sites = exit_sites(model.exits());
  (void)bind(policy, sites);  // throws if it does not fit
  if (const std::string why = never_early(policy, sites.layers.size()); !why.empty()) notice(common, why);

  if (stored != nullptr && stored->certificate) {
    const std::string old = path.string() + ".old";
    write_atomically(old, policy_file_text(file));
    notice(common, fmt::format("the certified policies are kept in {}", old));
  }
  file.put(uncertified(model, policy, precision));
  lock.write(file);
  refresh_card(model);
  const std::string text = str(policy);
  if (common.json) return print_json({{"out", path.string()}, {"precision", precision}, {"policy", text}});
  fmt::print("{}: {} runs {}, without a certificate\n", path.string(), precision, text);
}

}  // namespace

void add_policy(CommandLine& line) {
  CLI::App* policy = line.app.add_subcommand("policy", "Show or set a model's exit policy");
  policy->require_subcommand(1);
  CommandLine inner{*policy, line.common, line.chosen};
  const auto flags = std::make_shared<PolicyFlags>();
  CLI::App* shown = add_verb(inner, "show", "Show policy.json", {"exeunt policy show models/sst2"},
                             [flags, &common = line.common] { show(common, *flags); });
  shown->add_option("MODEL", flags->model, "Model folder, or a policy file")->required();
  CLI::App* edited = add_verb(
      inner, "set", "Set a policy by hand, without a certificate",
      {"exeunt policy set models/sst2 entropy:0.2", "exeunt policy set models/sst2 patience:4 --exits 6,8,10,12"},
      [flags, &common = line.common] { set(common, *flags); });
  edited->add_option("MODEL", flags->model, "Model folder in Exeunt's format")->required();
  flags->more = line.more;
  edited
      ->add_option("POLICY", flags->words,
                   fmt::format("e.g. entropy:0.2, patience:6, window:0.1,8,bias_1{}", line.more.keys_help))
      ->required();
  edited->add_option("--exits", flags->exits, "Comma-separated layers whose exits are used")->default_str("all");
  edited->add_option("--precision", flags->precision, "Precision to set it for")
      ->default_str("the one the model runs in")
      ->check(one_of(policy_precisions()));
  edited->add_flag("--force", flags->force, "Replace a certified policy");
}

}  // namespace exeunt::apps
