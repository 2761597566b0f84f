// SPDX-License-Identifier: Apache-2.0
// `exeunt export onnx`: a model as graphs for other runtimes.
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/output.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/onnx_export.h"

namespace exeunt::apps {
namespace {

struct ExportFlags {
  std::string model, out;
  bool force = false;
};

void run_onnx(const Common& common, const ExportFlags& flags) {
  const Checkpoint model = Checkpoint::open(flags.model, {.verify = true});
  for (const std::string& text : model.notices()) notice(common, text);
  const WriteOptions write{.replace = flags.force, .beside = card_writer(model, flags.out, CardFor::onnx)};
  for (const std::string& text : export_onnx(model, flags.out, write)) notice(common, text);
  const size_t exits = model.exits().sites.size() - (model.exits().ngrams ? 1 : 0);  // which is left out
  if (common.json) return print_json({{"out", flags.out}, {"format", "onnx"}, {"exits", exits}, {"segments", exits}});
  fmt::print("wrote {}: all_exits.onnx, {} and weights.bin\n", flags.out,
             exits == 1 ? "segment-01.onnx" : fmt::format("segment-01.onnx to segment-{:02}.onnx", exits));
}

}  // namespace

void add_export(CommandLine& line) {
  CLI::App* verb = line.app.add_subcommand("export", "Export a model for other runtimes");
  verb->require_subcommand(1);
  CommandLine inner{*verb, line.common, line.chosen};
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* onnx = add_verb(
      inner, "onnx", "Export fp32 ONNX graphs: one with all exits, and one per segment between exits",
      {"exeunt export onnx models/sst2 --out sst2-onnx"}, [flags, &common = line.common] { run_onnx(common, *flags); });
  onnx->add_option("MODEL", flags->model, "Model folder, or org/name in the local Hugging Face cache")->required();
  onnx->add_option("--out", flags->out, "Output folder, written atomically")->required()->type_name("DIR");
  onnx->add_flag("--force", flags->force, "Replace an existing folder");
}

}  // namespace exeunt::apps
