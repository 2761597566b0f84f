// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/resolve.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/profile.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

bool names_file(const std::string& policy) {
  return policy.ends_with(".json");
}

// The policy file that counts: the one the user names, else the model's own.
struct StoredPolicies {
  std::string path = {};
  bool named = false;  // by the user: it must fit; the model's own is passed over with a notice where it does not
  std::optional<PolicyFile> file = {};
  std::vector<std::string> notices = {};
};

template <class WeightsOf>
StoredPolicies find_policies(const fs::path& folder, const RunRequest& request, WeightsOf&& weights_of) {
  StoredPolicies source;
  source.named = names_file(request.policy);
  source.path = source.named ? request.policy : (folder / "policy.json").string();
  if (!source.named && (folder.empty() || !path_exists(source.path))) return source;
  PolicyFile file = read_policy_file(source.named ? ReadPath(source.path) : ReadPath::in(folder, "policy.json"));
  const std::string weights = weights_of();
  if (file.weights == weights) {
    source.file = std::move(file);
  } else if (source.named) {
    throw_bad_file(source.path, "made for other weights: got {:.12}, want {:.12}", file.weights, weights);
  } else if (request.policy.empty()) {
    source.notices.push_back(fmt::format("{}: made for other weights; running at full depth", source.path));
  }
  return source;
}

// What the model's profile says of this machine.
int pack_rows_of(const Checkpoint& model, std::string_view precision, std::string_view engine) {
  constexpr std::string_view kCpu = "cpu/";
  const fs::path& folder = model.folder();
  if (!engine.starts_with(kCpu) || folder.empty() || !path_exists(folder / kProfileFile)) return 0;
  return measured_pack_rows(read_profile(ReadPath::in(folder, kProfileFile), model.spec().layers), cpu_features().name,
                            precision, engine.substr(kCpu.size()));
}

// The entry for what runs; nothing, and a notice, where there is none.
std::optional<PolicyEntry> usable_entry(StoredPolicies& source, const RunRequest& request, std::string_view engine,
                                        std::string_view precision) {
  if (!source.file) return std::nullopt;
  if (const PolicyEntry* entry = source.file->find(engine, precision)) return *entry;
  if (source.named) throw_bad_file(source.path, "no entry for {}", precision);
  if (request.policy.empty())
    source.notices.push_back(fmt::format("{}: no entry for {}; running at full depth", source.path, precision));
  return std::nullopt;
}

// A policy's text means the same in every precision: where none was calibrated in this one, the temperatures of another
// are used, without its certificate.
std::optional<PolicyEntry> entry_of_other_precision(StoredPolicies& source, const RunRequest& request,
                                                    std::string_view engine, std::string_view precision) {
  if (!source.file || request.policy.empty() || source.named || parse_policy(request.policy) == PolicySpec{})
    return std::nullopt;
  for (auto entry = source.file->entries.rbegin(); entry != source.file->entries.rend(); ++entry) {
    if (entry->device != device_of(engine)) continue;
    source.notices.push_back(fmt::format("{}: no entry for {}; {} runs with the temperatures that were fitted in {}",
                                         source.path, precision, request.policy, entry->precision));
    PolicyEntry out = *entry;
    out.certificate.reset();
    return out;
  }
  return std::nullopt;
}

// Policy, certificate and promise under the conditions of the run.
ResolvedPolicy decide(const StoredPolicies& source, const std::optional<PolicyEntry>& entry, const RunConditions& run,
                      const RunRequest& request, const std::optional<std::string>& native) {
  ResolvedPolicy out;
  const bool own = request.policy.empty() || source.named;
  PolicySpec rule = parse_policy("full");
  if (!own) {
    rule = parse_policy(request.policy);
  } else if (entry) {
    rule = entry->policy;
  } else if (native && !source.file) {
    rule = parse_policy(*native);
    out.notices.push_back(fmt::format("policy {}, as the model's files ask for", *native));
  }
  rule.exits = request.exits;
  out.policy = entry ? entry->complete(rule) : rule;
  const bool full = rule.rule == rule_of<FullRule>;
  out.entry = entry;
  if (!entry) {
    out.promise = no_promise("not certified");
  } else {
    PolicySpec bare = rule;
    bare.exits.clear();
    if (out.policy == entry->complete(bare)) out.exit_rates = entry->exit_rates(bare);
    const std::string broken = broken_condition(*entry, run);
    out.certificate = broken.empty() ? certificate_for(*entry, rule) : std::nullopt;
    out.promise = out.certificate       ? request.weights_hashed ? promise_of(*out.certificate, entry->precision)
                                                                 : no_promise("the weights are not hashed yet")
                        : !entry->certificate ? promise_of(*entry)
                  : !broken.empty()     ? no_promise(broken)
                                        : no_promise(fmt::format("{} is not one of the certified policies", str(rule)));
    if (own || (entry->certificate && !full))
      out.notices.push_back(fmt::format("{}: policy {}; promise: {}", source.path, str(rule), out.promise));
  }
  out.notices.insert(out.notices.begin(), source.notices.begin(), source.notices.end());
  return out;
}

// A whole number of a file in the model's folder; 0 = there is none.
int number_in_file(const fs::path& folder, const char* file, std::initializer_list<const char*> path) {
  const Json value = json_in(folder, file, path);
  return value.is_number_integer() ? static_cast<int>(std::clamp<double>(value.get<double>(), 0, 1 << 20)) : 0;
}

int first_known(std::initializer_list<int> numbers) {
  for (const int number : numbers) {
    if (number > 0) return number;
  }
  return 0;
}

int max_length_of(const Checkpoint& model, const std::optional<PolicyEntry>& entry, int requested) {
  const int positions = model.spec().max_tokens();
  const int certified = entry && entry->certificate ? entry->certificate->max_length : 0;
  const fs::path& folder = model.folder();
  const int length = first_known({requested, certified, number_in_file(folder, "attach.json", {"max_length"}),
                                  number_in_file(folder, "recipe.json", {"run", "max_length"}),
                                  number_in_file(folder, "tokenizer_config.json", {"model_max_length"}), positions});
  return std::min(length, positions);
}

}  // namespace

int texts_per_row(const fs::path& folder) {
  return first_known({number_in_file(folder, "attach.json", {"texts_per_row"}),
                      number_in_file(folder, "recipe.json", {"run", "texts"})});
}

Precision default_precision(const PolicyFile* policies, const EngineTraits& engine) {
  const Precision own = engine.bf16 ? Precision::bf16 : Precision::fp32;
  if (policies == nullptr) return own;
  std::string_view name = policies->default_precision;
  bool here = false, elsewhere = false;
  const PolicyEntry* latest = nullptr;
  for (const PolicyEntry& entry : policies->entries) {
    const bool same_device = entry.device == device_of(engine.name);
    if (same_device) latest = &entry;
    if (entry.precision == name) (same_device ? here : elsewhere) = true;
  }
  if (elsewhere && !here && latest != nullptr) name = latest->precision;
  const auto named = precision_named(name);
  return named && supports(engine, *named) ? *named : own;  // the file may come from another machine
}

PrecisionMap precision_map_on(std::string_view engine, const fs::path& folder, const ModelSpec& spec) {
  const PrecisionMap map = find_precision_map(folder, spec);
  if (device_of(engine) == "cpu") return map;
  Exceptions wider;
  for (const auto& [matrix, precision] : map.exceptions(Precision::int8))
    if (precision != Precision::int8 && matrix != kPoolers) wider.emplace(matrix, Precision::bf16);
  if (wider.empty()) return {};
  return {.by_precision = {{Precision::int8, std::move(wider)}}};
}

std::optional<std::string> precision_map_of(const Checkpoint& model, std::string_view engine,
                                            std::string_view precision) {
  const auto named = precision_named(precision);
  if (!named) return std::nullopt;
  return precision_map_sha256(precision_map_on(engine, model.folder(), model.spec()).exceptions(*named));
}

Resolved resolve(const Checkpoint& model, const RunRequest& request) {
  const EngineTraits engine = request.engine ? *request.engine : engine_traits(Device{});
  StoredPolicies source = find_policies(model.folder(), request, [&] { return claimed_sha256(model); });
  Resolved out;
  out.precision =
      request.precision ? *request.precision : default_precision(source.file ? &*source.file : nullptr, engine);
  out.exceptions = request.exceptions
                       ? *request.exceptions
                       : precision_map_on(engine.name, model.folder(), model.spec()).exceptions(out.precision);
  out.pack_rows = pack_rows_of(model, name_of(out.precision), engine.name);
  RunConditions run{.engine = engine.name,
                    .numerics = engine.numerics,
                    .precision_map = precision_map_sha256(out.exceptions).value_or(""),
                    .last_head = model.exits().compat_last_ramp};
  std::optional<PolicyEntry> entry = usable_entry(source, request, engine.name, name_of(out.precision));
  if (!entry) entry = entry_of_other_precision(source, request, engine.name, name_of(out.precision));
  out.max_length = run.max_length = max_length_of(model, entry, request.max_length);
  if (entry && entry->certificate) run.tokenizer = tokenizer_sha256(model.folder());
  static_cast<ResolvedPolicy&>(out) = decide(source, entry, run, request, model.native_policy());
  if (std::string notice = never_early(out.policy, model.exits().sites.size()); !notice.empty())
    out.notices.push_back(std::move(notice));
  return out;
}

ResolvedPolicy resolve_replay(const Checkpoint* model, const TraceInfo& trace, const RunRequest& request) {
  StoredPolicies source =
      find_policies(model != nullptr ? model->folder() : fs::path(), request, [&] { return trace.weights; });
  const std::optional<PolicyEntry> entry = usable_entry(source, request, trace.engine, trace.precision);
  return decide(source, entry, trace, request, model != nullptr ? model->native_policy() : std::nullopt);
}

std::vector<std::string> stored_promises(const PolicyFile& policies, const Checkpoint& model, const fs::path& folder) {
  const bool certified = std::any_of(policies.entries.begin(), policies.entries.end(),
                                     [](const PolicyEntry& entry) { return entry.certificate.has_value(); });
  const bool others = certified && policies.weights != weights_sha256(model);
  const std::string tokenizer = certified ? tokenizer_sha256(folder) : "";
  std::vector<std::string> out;
  for (const PolicyEntry& entry : policies.entries) {
    if (!entry.certificate) {
      out.push_back(promise_of(entry));
      continue;
    }
    RunConditions run{.engine = entry.engine,
                      .numerics = entry.numerics,
                      .max_length = entry.certificate->max_length,
                      .tokenizer = tokenizer,
                      .last_head = model.exits().compat_last_ramp};
    if (const auto precision = precision_named(entry.precision))
      run.precision_map =
          precision_map_sha256(precision_map_on(entry.engine, folder, model.spec()).exceptions(*precision))
              .value_or("");
    const std::string broken = others ? "made for other weights" : broken_condition(entry, run);
    out.push_back(broken.empty() ? promise_of(entry) : no_promise(broken));
  }
  return out;
}

OrderedJson promise_json(const Resolved& resolved, std::string_view engine, const std::vector<std::string>& notices) {
  OrderedJson out;
  out["format"] = "exeunt.promise/1";
  out["promise"] = resolved.promise;
  out["certificate"] = resolved.certificate ? certificate_json(*resolved.certificate) : OrderedJson(nullptr);
  out["policy"] = str(resolved.policy);
  out["exits"] = resolved.policy.exits;
  out["precision"] = name_of(resolved.precision);
  out["engine"] = engine;
  out["max_length"] = resolved.max_length;
  out["notices"] = notices;
  return out;
}

EngineOptions engine_options(const Resolved& resolved, EngineOptions options) {
  options.precision = resolved.precision;
  options.exceptions = resolved.exceptions;
  if (options.pack_rows == 0) options.pack_rows = resolved.pack_rows;
  return options;
}

}  // namespace exeunt
