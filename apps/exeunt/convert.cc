// SPDX-License-Identifier: Apache-2.0
// `exeunt convert`: any supported model, written in our format or in that of Hugging Face.
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/eval/label_names.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::apps {
namespace {

struct ConvertOptions {
  std::string source, out, to = "exeunt", reader, thresholds;
  UserColumns columns;  // its list of labels
  bool force = false;
  OpenOptions open{.verify = true};
  TensorFlowReader read_tensorflow = nullptr;
};

constexpr size_t kMaxTokenizerConfig = size_t{1} << 26;

// Puts how spiece.model is read into the new folder's tokenizer_config.json, as transformers 5 names it.
std::vector<std::string> write_reader(const std::filesystem::path& folder, const std::string& reader) {
  const char* const name = "tokenizer_config.json";
  if (!has_bare_spiece(folder)) {
    throw Error(Code::usage, "--tokenizer: the model has no spiece.model without tokenizer.json",
                "its tokenizer can be read in one way only; omit --tokenizer");
  }
  OrderedJson config = OrderedJson::object();
  if (path_exists(folder / name)) config = read_ordered_json(folder / name, kMaxTokenizerConfig);
  config["backend"] = reader == "spiece" ? "sentencepiece" : reader;
  write_atomically(folder / name, json_text(config));
  return {name};
}

void run(const Common& common, const ConvertOptions& options) {
  Checkpoint checkpoint = open_checkpoint(options.source, options.open, options.read_tensorflow);
  for (const std::string& text : checkpoint.notices()) notice(common, text);
  const Dataset no_data;
  checkpoint = checkpoint.with_labels(
      label_names(checkpoint.exits(), checkpoint.spec().family, options.columns.labels, no_data, observer(common)));
  checkpoint = with_thresholds(checkpoint, options.thresholds);
  const CardFor reader = options.to == "hf" ? CardFor::transformers : CardFor::exeunt;
  const auto card = card_writer(checkpoint, options.out, reader);
  const WriteOptions write{.replace = options.force, .beside = [&](const std::filesystem::path& folder) {
                             std::vector<std::string> names;
                             if (!options.reader.empty()) names = write_reader(folder, options.reader);
                             const auto more = card(folder);  // last: it describes what is there
                             names.insert(names.end(), more.begin(), more.end());
                             return names;
                           }};
  const auto notices = options.to == "hf" ? export_hugging_face(checkpoint, options.out, write)
                                          : write_exeunt_folder(checkpoint, options.out, write);
  for (const std::string& text : notices) notice(common, text);
  if (common.json) {
    OrderedJson out;
    out["out"] = options.out;
    out["format"] = options.to;
    out["family"] = std::string(name_of(checkpoint.spec().family));
    out["layers"] = checkpoint.spec().layers;
    out["exits"] = checkpoint.exits().sites.size();
    out["weights"] = weights_sha256(checkpoint);
    return print_json(out);
  }
  const size_t exits = checkpoint.exits().sites.size();
  fmt::print("wrote {}: {} with {} layers and {} exit{}\n", options.out, name_of(checkpoint.spec().family),
             checkpoint.spec().layers, exits, exits == 1 ? "" : "s");
}

}  // namespace

void add_convert(CommandLine& line) {
  const auto options = std::make_shared<ConvertOptions>();
  options->read_tensorflow = line.more.read_tensorflow;
  CLI::App* verb = add_verb(line, "convert", "Convert any supported model to Exeunt's or Hugging Face's format",
                            {"exeunt convert bert-base-uncased --out models/bert",
                             "exeunt convert saved_models/bert-base/MRPC --out models/mrpc",
                             "exeunt convert models/mrpc --out mrpc-hf --to hf"},
                            [options, &common = line.common] { run(common, *options); });
  verb->add_option(
          "SRC", options->source,
          "Model of Exeunt, of Hugging Face or of the early-exit papers' code; or org/name in the local Hugging "
          "Face cache")
      ->required();
  verb->add_option("--out", options->out, "Output folder, written atomically")->required();
  verb->add_option("--to", options->to, "Output format")
      ->check(CLI::Validator(
          [](const std::string& to) {
            return to == "onnx" ? "got 'onnx', want exeunt or hf\nexeunt export onnx MODEL --out FOLDER" : "";
          },
          ""))
      ->check(one_of({"exeunt", "hf"}))
      ->capture_default_str();
  add_tokenizer_flag(*verb, options->reader);
  add_labels_flag(*verb, options->columns);
  add_thresholds_flag(*verb, options->thresholds);
  verb->add_flag("--force", options->force, "Replace an existing folder");
}

}  // namespace exeunt::apps
