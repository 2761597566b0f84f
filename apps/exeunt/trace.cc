// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"

namespace exeunt::apps {

void write_and_report(const Common& common, const std::string& out_path, const ExitTrace& trace) {
  write_trace(out_path, trace);
  if (common.json) {
    OrderedJson out;
    out["out"] = out_path;
    out["rows"] = trace.rows;
    out["exits"] = trace.info.layers;
    out["outputs"] = trace.width;
    out["labelled"] = trace.labelled();
    out["precision"] = trace.info.precision;
    out["reference"] = !trace.reference.empty();
    return print_json(out);
  }
  fmt::print("wrote {}: {} texts, {} exit{}, {}{}\n", out_path, trace.rows, trace.exits, trace.exits == 1 ? "" : "s",
             trace.info.problem == Problem::regression ? "one value each" : fmt::format("{} classes", trace.width),
             trace.reference.empty() ? "" : ", and the answers of fp32 at full depth");
}

CLI::App* add_trace_verb(CommandLine& line, TraceFlags& flags, std::vector<std::string> examples,
                         std::function<void()> run) {
  examples.insert(examples.begin(),
                  {"exeunt trace models/sst2 --task SST-2 --data glue_data --out sst2.safetensors",
                   "exeunt trace models/topics --data my.csv --text-column body --out my.safetensors"});
  CLI::App* verb =
      add_verb(line, "trace", "Record every exit's logits on a dataset, to evaluate policies without the model",
               examples, std::move(run));
  add_run_flags(*verb, flags.run, Takes::model);
  add_precision_flags(*verb, flags.run);
  verb->add_flag("!--no-reference", flags.run.fp32_answers,
                 "In another precision than fp32: do not run fp32 as well, whose answers at full depth a promise is "
                 "about");
  verb->add_option("--out", flags.out, "Output trace file (safetensors)")->required();
  return verb;
}

void add_trace(CommandLine& line) {
  const auto flags = std::make_shared<TraceFlags>();
  add_trace_verb(line, *flags, {},
                 [flags, &common = line.common] {
                   write_and_report(common, flags->out, trace_model(flags->run, observer(common)));
                 })
      ->get_option("MODEL")
      ->required();
}

}  // namespace exeunt::apps
