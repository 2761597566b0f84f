// SPDX-License-Identifier: Apache-2.0
// The verbs of exeunt-lab: those of the command, more of some of them, and its own.
#pragma once

#include "apps/exeunt/command.h"

namespace exeunt::apps {

// One function per verb, each in its own file.
void add_sweep(CommandLine& line);
void add_lab_trace(CommandLine& line);
void add_recommend(CommandLine& line);
void add_report(CommandLine& line);
void add_submit(CommandLine& line);
void add_reproduce(CommandLine& line);
void add_tensorboard(CommandLine& line);

// Declares all verbs on `line`.
void add_lab_verbs(CommandLine& line);

// Prints what is wrong in a folder of GLUE's or ELUE's; false: it is another one.
bool check_task_folder(const Common& common, const std::string& folder);

// What the lab adds to the other verbs: TensorFlow checkpoints, --compat, ELBERT's keys, folders of benchmarks.
[[nodiscard]] Extensions lab_extensions();

}  // namespace exeunt::apps
