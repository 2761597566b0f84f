// SPDX-License-Identifier: Apache-2.0
// Runs measured and put side by side in one report.
#pragma once

#include <string>
#include <vector>

#include "exeunt/eval/measure.h"
#include "exeunt/eval/sweep_model.h"
#include "lab/report/report.h"

namespace exeunt {

struct ReportPlan {
  std::vector<std::string> runs = {};      // models, folders of trainings, trace files
  std::vector<std::string> policies = {};  // policy files, each for the run of its weights; a policy for the others
  MeasureOptions measure = {};             // for runs that are models; its data also gives the texts of examples
  SettingsFor settings = {};
  std::string title = "Exeunt report";
  bool published = true;  // with the papers' published figures
};

// Throws Error: bad_file for a policy file that fits no run, failure if the page would be too large.
[[nodiscard]] Report report_runs(const ReportPlan& plan, const Observer& observer);

}  // namespace exeunt
