// SPDX-License-Identifier: Apache-2.0
// Measuring a model: its trace over data, made now or before, and what the scores of a trace need besides: the task's
// metrics, the model's FLOPs and its predicted times.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exeunt/base/progress.h"
#include "exeunt/data/baseline.h"
#include "exeunt/data/user_data.h"
#include "exeunt/engine/device.h"
#include "exeunt/eval/scores.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/profile.h"
#include "exeunt/policy/trace.h"

namespace exeunt {

// Receives the notices and the progress of a flow.
struct Observer {
  std::function<void(const std::string&)> notice = [](const std::string&) {};  // a remark that needs no action
  std::function<void(const std::string&)> warning = {};  // what must not be hidden; empty: a notice
  ProgressStyle progress = {};

  void notices(const std::vector<std::string>& texts) const {
    for (const std::string& text : texts) notice(text);
  }
  void warn(const std::string& text) const { (warning ? warning : notice)(text); }
};

struct MeasureOptions {
  std::string model = {};  // a model, or a trace file (see is_trace_file)
  // Without a path: the rows that the model's training held out. Its list of labels also renames the model's outputs.
  DataSource data = {};
  int max_length = 0;  // 0: the certificate's, else the training's, else the model's
  int threads = 0;
  Device device = {};
  std::string trace = {};        // a trace of `model`, made before
  std::string from_server = {};  // a shadow log of `model`, taken for its trace
  std::string since = {};        // of that log, the texts from this time on (is_time); empty = all
  int64_t last = 0;              // of that log, so many texts; 0 = all
  std::string precision = {};    // empty = the model's default, and whatever a trace alone has
  bool fp32_answers = false;     // a model in another precision runs in fp32, too: ExitTrace::reference
  std::string profile = {};      // empty = the model's own profile.json, if it has one
  bool last_ramp = false;        // the untrained ramp of the last layer answers
  std::string tokenizer = {};    // folder; empty = the model's
  bool strict_new = false;       // where a promise is tested: without rows that overlap with what the model learned
};

// The data of the options; by default the hold-out split of the model's training run.
[[nodiscard]] Dataset data_for(const MeasureOptions& options, const Checkpoint& model, const Observer& observer);

[[nodiscard]] ExitTrace trace_model(const MeasureOptions& options, const Observer& observer);

// What was measured: a trace, and the model if there is one.
struct Measured {
  ExitTrace trace = {};
  std::optional<Checkpoint> model = {};
  std::optional<ProfileEntry> profile = {};
};
[[nodiscard]] Measured measure(const MeasureOptions& options, const Observer& observer);

// The model's profile for the precision of the trace; a notice if it has one without that precision.
[[nodiscard]] std::optional<ProfileEntry> profile_of(const MeasureOptions& options, const Measured& measured,
                                                     const Observer& observer);

// A file that ends in .safetensors and is not a model's weights: these have a config.json beside them.
[[nodiscard]] bool is_trace_file(const std::string& name);

// Metrics of the trace's task (or of its kind of problem), MFLOPs if the model is known, times if a profile is.
// `measured` must outlive them.
[[nodiscard]] ScorerOptions scorer_options(const Measured& measured);
[[nodiscard]] Metric primary_metric(const ExitTrace& trace);

// The cost of exiting at an exit of `model`, which must outlive the function.
[[nodiscard]] CostOf mflops_of(const Checkpoint& model);

// The range of regression labels, from the model or the task.
[[nodiscard]] std::optional<std::pair<double, double>> label_range(const Measured& measured);

// The answers at full depth of `fp32`, which has the same rows, become the reference of `trace`.
void set_reference(ExitTrace& trace, const ExitTrace& fp32);

// What simple models reach on the measured texts: the majority class and a linear model, learned from the rows of the
// file `train`, which has the columns of the measured data. Throws Error: usage where the texts are not at hand, as
// with a trace alone.
[[nodiscard]] std::vector<BaselineScore> baseline_for(const std::string& train, const MeasureOptions& options,
                                                      const Measured& measured, const std::vector<Metric>& metrics);

}  // namespace exeunt
