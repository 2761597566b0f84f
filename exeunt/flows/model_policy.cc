// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/model_policy.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/model/manifest.h"
#include "exeunt/runtime/engine_choice.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

std::string certificate_text(const PolicyEntry& entry) {
  if (!entry.certificate) return "without a certificate";
  const Certificate& c = *entry.certificate;
  return fmt::format("certified: {} at most {:g} % {}", name_of(c.loss), 100 * c.epsilon,
                     c.method == RiskMethod::crc ? std::string("in expectation")
                                                 : fmt::format("with confidence {:g} %", 100 * (1 - c.delta)));
}

ChosenPolicy policy_in(const PolicyFile& file, const std::string& engine, const std::string& precision,
                       const std::string& where, const Observer& observer) {
  const PolicyEntry& entry = *file.find("cpu", engine, precision);
  observer.notice(fmt::format("{}: policy {}, {}", where, str(entry.policy), certificate_text(entry)));
  ChosenPolicy chosen{.policy = entry.complete()};
  if (entry.certificate) chosen.certificate = certificate_json(*entry.certificate);
  return chosen;
}

// A file that the user names must fit; the model's own is passed over with a notice where it does not.
ChosenPolicy named_policy(const Measured& measured, const std::string& path, const Observer& observer) {
  const PolicyFile file = read_policy_file(path);
  const TraceInfo& info = measured.trace.info;
  if (file.weights != info.weights) {
    throw_bad_file(path, "made for other weights: got {}, want {}", file.weights.substr(0, 12),
                   info.weights.substr(0, 12));
  }
  if (file.find("cpu", info.engine, info.precision) == nullptr)
    throw_bad_file(path, "has no entry for precision {}", info.precision);
  return policy_in(file, info.engine, info.precision, path, observer);
}

// Why the entry of a model's own policy file does not hold for what was measured; empty = it does.
std::string misfit(const PolicyFile& file, const Measured& measured) {
  const TraceInfo& info = measured.trace.info;
  if (file.weights != info.weights) return "made for other weights";
  const PolicyEntry* entry = file.find("cpu", info.engine, info.precision);
  if (entry == nullptr) return fmt::format("no entry for {}", info.precision);
  if (entry->precision_map != precision_map_of(*measured.model, info.precision))
    return fmt::format("{} was calibrated with another precision.json", info.precision);
  return {};
}

}  // namespace

ChosenPolicy choose_policy(const Measured& measured, const std::string& text, const Observer& observer) {
  if (text.ends_with(".json")) return named_policy(measured, text, observer);
  if (!text.empty()) return {.policy = parse_policy(text)};
  const fs::path path = measured.model ? measured.model->folder() / "policy.json" : fs::path();
  if (path.empty() || !path_exists(path)) return {.policy = parse_policy("full")};
  const PolicyFile file = read_policy_file(path);
  if (const std::string why = misfit(file, measured); !why.empty()) {
    observer.notice(fmt::format("{}: {}; running at full depth", path.string(), why));
    return {.policy = parse_policy("full")};
  }
  const TraceInfo& info = measured.trace.info;
  return policy_in(file, info.engine, info.precision, path.string(), observer);
}

fs::path policy_path(const Checkpoint& model) {
  if (!path_exists(model.folder() / kManifestFile)) {
    throw Error(Code::usage,
                fmt::format("{}: only a folder in Exeunt's format keeps a policy", model.folder().string()),
                fmt::format("make one first: exeunt convert {} --out FOLDER", model.folder().string()));
  }
  return model.folder() / "policy.json";
}

PolicyFile policies_at(const fs::path& path, const std::string& weights, const std::string& default_precision) {
  if (path_exists(path)) {
    PolicyFile file = read_policy_file(path);
    if (file.weights == weights) return file;
  }
  return {.weights = weights, .default_precision = default_precision, .entries = {}};
}

std::string promise_at(const fs::path& path, const Measured& measured) {
  const TraceInfo& info = measured.trace.info;
  const PolicyFile file = policies_at(path, info.weights, info.precision);
  const PolicyEntry* entry = file.find("cpu", info.engine, info.precision);
  if (entry == nullptr || !entry->certificate) return {};
  const Certificate& kept = *entry->certificate;
  return fmt::format("{}, {} at most {:g} %", str(entry->policy), name_of(kept.loss), 100 * kept.epsilon);
}

void require_policy_precision(const ExitTrace& trace) {
  const std::vector<std::string>& known = policy_precisions();
  const TraceInfo& info = trace.info;
  if (std::find(known.begin(), known.end(), info.precision) == known.end()) {
    throw Error(Code::bad_file, fmt::format("the trace has the precision '{}', want one of {}", info.precision,
                                            fmt::join(known, ", ")));
  }
  const bool quantized = info.precision == "int8" || info.precision == "bf16";
  if (quantized && !info.precision_map && info.engine.starts_with("cpu/")) {
    throw Error(Code::bad_file, "the trace does not say which matrices were kept in another precision",
                "make it again with this model: exeunt trace MODEL --out FILE");
  }
}

void keep_policy(const PolicyLock& lock, const fs::path& path, const Measured& measured, PolicyEntry entry) {
  const TraceInfo& info = measured.trace.info;
  set_origin(entry, info);  // as it was measured, whatever the model's precision.json says by now
  if (entry.certificate) {
    entry.certificate->tool = version();
    entry.certificate->created = now_rfc3339();
  }
  PolicyFile file = policies_at(path, info.weights, info.precision);
  file.put(std::move(entry));
  lock.write(file);
  if (measured.model && path.parent_path() == measured.model->folder()) refresh_card(*measured.model);
}

}  // namespace exeunt
