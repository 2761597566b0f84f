// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/model_policy.h"

#include <algorithm>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/model/manifest.h"

namespace exeunt {
namespace fs = std::filesystem;

ResolvedPolicy resolve_measured(const Measured& measured, const RunRequest& request, const Observer& observer) {
  ResolvedPolicy resolved = resolve_replay(measured.model ? &*measured.model : nullptr, measured.trace.info, request);
  observer.notices(resolved.notices);
  return resolved;
}

fs::path policy_path(const Checkpoint& model) {
  if (!path_exists(model.folder() / kManifestFile)) {
    throw Error(
        Code::usage, fmt::format("{}: only a folder in Exeunt's format keeps a policy", model.folder().string()),
        model.exits().sites.size() > 1
            ? fmt::format("make one first: exeunt convert {} --out FOLDER", model.folder().string())
            : fmt::format("its only exit is the last layer's; exits of its own, and a policy for them: exeunt attach "
                          "{} --texts FILE --out FOLDER",
                          model.folder().string()));
  }
  return model.folder() / "policy.json";
}

PolicyFile policies_at(const fs::path& path, const std::string& weights, const std::string& default_precision) {
  if (path_exists(path)) {
    PolicyFile file = read_policy_file(ReadPath::in(path.parent_path(), path.filename()));
    if (file.weights == weights) return file;
  }
  return {.weights = weights, .default_precision = default_precision, .entries = {}};
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

void keep_policy(const PolicyLock& lock, const fs::path& path, const Measured& measured, PolicyEntry entry,
                 bool becomes_default) {
  const TraceInfo& info = measured.trace.info;
  set_origin(entry, info);  // as it was measured, whatever the model's precision.json says by now
  if (entry.certificate) {
    entry.certificate->tool = version();
    entry.certificate->created = now_rfc3339();
  }
  PolicyFile file = policies_at(path, info.weights, info.precision);
  file.put(std::move(entry));
  if (becomes_default) file.default_precision = info.precision;
  lock.write(file);
  if (measured.model && path.parent_path() == measured.model->folder()) refresh_card(*measured.model);
}

}  // namespace exeunt
