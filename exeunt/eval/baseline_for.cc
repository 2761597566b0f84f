// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/baseline_for.h"

#include "exeunt/base/error.h"

namespace exeunt {

std::vector<BaselineScore> baseline_for(const std::string& train, const MeasureOptions& options,
                                        const Measured& measured, const std::vector<Metric>& metrics) {
  if (!measured.model || !options.trace.empty() || !measured.trace.labelled()) {
    throw Error(Code::usage, "--baseline: got no labelled texts to score simple models on",
                "name a model, and with --data labelled texts");
  }
  Dataset data = data_for(options, *measured.model, Observer{});
  reorder_labels(data, measured.trace.info.labels);
  UserColumns columns = options.data.columns;
  columns.labels = measured.trace.info.labels;
  columns.problem = measured.trace.info.problem;
  return baseline(read_user_data(train, columns), data, metrics);
}

}  // namespace exeunt
