// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt/keep_policy.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/clock.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/runtime/engine_choice.h"
#include "exeunt/tasks/task.h"

namespace exeunt::apps {

void require_policy_precision(const ExitTrace& trace) {
  const std::vector<std::string>& known = policy_precisions();
  if (std::find(known.begin(), known.end(), trace.info.precision) != known.end()) return;
  throw Error(Code::bad_file, fmt::format("the trace has the precision '{}', want one of {}", trace.info.precision,
                                          fmt::join(known, ", ")));
}

void keep_policy(const PolicyLock& lock, const std::filesystem::path& path, const Measured& measured,
                 PolicyEntry entry) {
  const std::string& precision = measured.trace.info.precision;
  if (entry.certificate) {
    entry.certificate->engine = measured.trace.info.engine;
    entry.certificate->tool = version();
    entry.certificate->created = now_rfc3339();
  }
  if (measured.model) entry.precision_map = precision_map_of(*measured.model, precision);
  PolicyFile file{.weights = measured.trace.info.weights, .default_precision = precision, .entries = {}};
  if (path_exists(path)) {
    PolicyFile old = read_policy_file(path);
    if (old.weights == file.weights) file = std::move(old);
  }
  file.entries[precision] = std::move(entry);
  lock.write(file);
  if (measured.model && path.parent_path() == measured.model->folder()) refresh_card(*measured.model);
}

std::optional<std::pair<double, double>> label_range(const Measured& measured) {
  if (measured.model && measured.model->exits().range) return measured.model->exits().range;
  const Task* task = find_task_or_null(measured.trace.info.task);
  return task != nullptr ? task->range : std::nullopt;
}

}  // namespace exeunt::apps
