// SPDX-License-Identifier: Apache-2.0
// `exeunt trace` with the import of arrays that other software wrote.
#include <memory>

#include "apps/exeunt/model_flags.h"
#include "exeunt/base/error.h"
#include "exeunt/base/version.h"
#include "lab/cli/verbs.h"
#include "lab/papers/trace_import.h"

namespace exeunt::apps {
namespace {

struct ImportFlags : TraceFlags {
  std::string logits, gold, exits;
};

ExitTrace imported(const ImportFlags& flags) {
  const TraceImport source{.logits = flags.logits,
                           .gold = flags.gold,
                           .labels = flags.run.data.columns.labels,
                           .layers = layer_list(flags.exits, "--exits"),
                           .task = flags.run.data.task,
                           .split = {},
                           .tool = std::string(version()),
                           .created = now_rfc3339()};
  return import_trace(source);
}

void run_trace(const Common& common, const ImportFlags& flags) {
  const bool importing = !flags.logits.empty();
  if (importing == !flags.run.model.empty()) {
    throw Error(Code::usage,
                importing ? "got both MODEL and --import, want one of them" : "MODEL or --import is required",
                "see 'exeunt trace --help'");
  }
  write_and_report(common, flags.out, importing ? imported(flags) : trace_model(flags.run, observer(common)));
}

}  // namespace

void add_lab_trace(CommandLine& line) {
  const auto flags = std::make_shared<ImportFlags>();
  CLI::App* verb = add_trace_verb(
      line, *flags, {"exeunt trace --import logits.npy --gold gold.npy --labels no,yes --out theirs.safetensors"},
      [flags, &common = line.common] { run_trace(common, *flags); });
  const OptionGroup group(*verb, "Import from other software");
  verb->add_option("--import", flags->logits, "logits.npy [texts, exits, classes] instead of a model");
  verb->add_option("--gold", flags->gold, "gold.npy [texts]: label indices or values");
  verb->add_option("--exits", flags->exits, "Comma-separated layers of the exits")->default_str("1, 2, …");
}

}  // namespace exeunt::apps
