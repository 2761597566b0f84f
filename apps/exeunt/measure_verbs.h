// SPDX-License-Identifier: Apache-2.0
// `exeunt trace` in parts, for programs that have traces from elsewhere.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "exeunt/eval/measure.h"

namespace exeunt::apps {

// `exeunt trace`: every exit's logits on a dataset, from one pass of a model.
struct TraceFlags {
  MeasureOptions run{.fp32_answers = true};
  std::string out;
};

// The flags outlive the verb.
CLI::App* add_trace_verb(CommandLine& line, TraceFlags& flags, std::vector<std::string> examples,
                         std::function<void()> run);
void write_and_report(const Common& common, const std::string& out_path, const ExitTrace& trace);

}  // namespace exeunt::apps
