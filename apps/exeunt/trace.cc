// SPDX-License-Identifier: Apache-2.0
// `exeunt trace`: every exit's logits on a dataset, from one pass of a model or from arrays of other software.
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/version.h"
#include "exeunt/originals/trace_import.h"

namespace exeunt::apps {
namespace {

struct TraceFlags {
  MeasureOptions run{.fp32_answers = true};
  std::string out, logits, gold, exits;
};

ExitTrace imported(const TraceFlags& flags) {
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

void run(const Common& common, const TraceFlags& flags) {
  const bool importing = !flags.logits.empty();
  if (importing == !flags.run.model.empty()) {
    throw Error(Code::usage,
                importing ? "got both MODEL and --import, want one of them" : "MODEL or --import is required",
                "see 'exeunt trace --help'");
  }
  const ExitTrace trace = importing ? imported(flags) : trace_model(flags.run, observer(common));
  write_trace(flags.out, trace);
  if (common.json) {
    OrderedJson out;
    out["out"] = flags.out;
    out["rows"] = trace.rows;
    out["exits"] = trace.info.layers;
    out["outputs"] = trace.width;
    out["labelled"] = trace.labelled();
    out["precision"] = trace.info.precision;
    out["reference"] = !trace.reference.empty();
    return print_json(out);
  }
  fmt::print("wrote {}: {} texts, {} exits, {}{}\n", flags.out, trace.rows, trace.exits,
             trace.info.regression ? "one value each" : fmt::format("{} classes", trace.width),
             trace.reference.empty() ? "" : ", and the answers of fp32 at full depth");
}

}  // namespace

void add_trace(CommandLine& line) {
  const auto flags = std::make_shared<TraceFlags>();
  CLI::App* verb =
      add_verb(line, "trace", "Record every exit's logits on a dataset, to evaluate policies without the model",
               {"exeunt trace models/sst2 --task SST-2 --data glue_data --out sst2.safetensors",
                "exeunt trace models/topics --data my.csv --text-column body --out my.safetensors",
                "exeunt trace --import logits.npy --gold gold.npy --labels no,yes --out theirs.safetensors"},
               [flags, &common = line.common] { run(common, *flags); });
  add_run_flags(*verb, flags->run, Takes::model);
  add_precision_flags(*verb, flags->run);
  verb->add_flag("!--no-reference", flags->run.fp32_answers,
                 "In another precision than fp32: do not run fp32 as well, whose answers at full depth a promise is "
                 "about");
  verb->add_option("--out", flags->out, "Output trace file (safetensors)")->required();
  constexpr const char* kGroup = "Import from other software";
  verb->add_option("--import", flags->logits, "logits.npy [texts, exits, classes] instead of a model")->group(kGroup);
  verb->add_option("--gold", flags->gold, "gold.npy [texts]: label indices or values")->group(kGroup);
  verb->add_option("--exits", flags->exits, "Comma-separated layers of the exits")
      ->default_str("1, 2, …")
      ->group(kGroup);
}

}  // namespace exeunt::apps
