// SPDX-License-Identifier: Apache-2.0
// `exeunt info`: what a model is.
#include <filesystem>
#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/config.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/family.h"
#include "exeunt/model/manifest.h"

namespace exeunt::apps {
namespace {

struct InfoOptions {
  std::string model, shape;
  int tokens = 128;
  OpenOptions open;
  TensorFlowReader read_tensorflow = nullptr;
};

// A model, or only the shape of one.
struct Subject {
  std::string name;
  ModelSpec spec;
  ExitLayout exits;
  ParameterCount parameters;
  std::string weights;                            // sha256, empty for a shape
  std::string verified = {};                      // the result of --verify; empty without it
  std::vector<double> loss_weights = {};          // of the exits, as training left them; empty unless they were learned
  std::string without_exits = "a bare backbone";  // what it is
};

// Learned loss weights are no part of the model; the run's results keep them.
std::vector<double> learned_weights(const std::filesystem::path& folder, size_t exits) {
  const Json weights = json_in(folder, "all_results.json", {"loss_weights"});
  if (!weights.is_array() || weights.size() != exits) return {};
  std::vector<double> out;
  for (const Json& weight : weights) out.push_back(weight.is_number() ? weight.get<double>() : 0);
  return out;
}

Subject open_subject(const Common& common, const InfoOptions& options) {
  if (!options.shape.empty()) {
    const KnownShape& known = find_shape(options.shape);
    return {std::string(known.name), known.spec, {}, count_parameters(known.spec, {}), {}};
  }
  const Checkpoint checkpoint = open_checkpoint(options.model, options.open, options.read_tensorflow);
  for (const std::string& text : checkpoint.notices()) notice(common, text);
  const bool has_manifest = path_exists(checkpoint.folder() / kManifestFile);
  const std::string task = checkpoint.exits().sites.empty() ? other_task_in(checkpoint.folder()) : "";
  return {options.model,
          checkpoint.spec(),
          checkpoint.exits(),
          count_parameters(checkpoint),
          claimed_sha256(checkpoint),
          !options.open.verify ? ""
          : has_manifest       ? "all files match manifest.json"
                               : "no: the folder has no manifest.json",
          learned_weights(checkpoint.folder(), checkpoint.exits().sites.size()),
          task.empty() ? "a bare backbone" : task};
}

std::string index_text(const std::optional<int>& index) {
  return index ? fmt::format("{}", *index) : "-";
}

OrderedJson as_json(const Subject& subject, int tokens) {
  const ModelSpec& spec = subject.spec;
  OrderedJson model;
  model["name"] = subject.name;
  model["family"] = std::string(name_of(spec.family));
  model["layers"] = spec.layers;
  model["hidden"] = spec.hidden;
  model["heads"] = spec.heads;
  model["inner"] = spec.inner;
  model["embedding"] = spec.embedding;
  model["vocabulary"] = spec.vocab;
  model["max_tokens"] = spec.max_tokens();
  model["activation"] = std::string(word_of(spec.activation));
  model["parameters"] = subject.parameters.total();
  model["backbone_parameters"] = subject.parameters.backbone;
  model["exit_parameters"] = subject.parameters.exits;
  model["added_parameters"] = subject.parameters.added;
  model["problem"] =
      subject.exits.sites.empty() ? OrderedJson(nullptr) : OrderedJson(std::string(name_of(subject.exits.problem)));
  model["labels"] = subject.exits.labels;
  if (subject.exits.problem == Problem::multi_label)
    model["thresholds"] = thresholds_json(subject.exits.labels, subject.exits.logit_thresholds);
  model["pool_input"] = std::string(word_of(subject.exits.input));
  model["exits"] = OrderedJson::array();
  for (const ExitSite& site : subject.exits.sites) {
    OrderedJson row;
    row["after"] = site.after;
    row["reader"] = site.reader ? OrderedJson(*site.reader) : OrderedJson(nullptr);
    row["pooler"] = site.pooler ? OrderedJson(*site.pooler) : OrderedJson(nullptr);
    row["classifier"] = site.after == 0 ? OrderedJson(nullptr) : OrderedJson(site.classifier);
    row["mflops"] = mflops(departure_macs(spec, subject.exits, {.after = site.after, .tokens = tokens}));
    if (!subject.loss_weights.empty()) row["loss_weight"] = subject.loss_weights[model["exits"].size()];
    model["exits"].push_back(std::move(row));
  }
  model["tokens"] = tokens;
  model["layer_mflops"] = mflops(layer_macs(spec, tokens));
  model["weights"] = subject.weights.empty() ? OrderedJson(nullptr) : OrderedJson(subject.weights);
  OrderedJson out;
  out["model"] = std::move(model);
  return out;
}

void print_subject(const Subject& subject, int tokens) {
  const ModelSpec& spec = subject.spec;
  std::vector<std::pair<std::string, std::string>> rows{
      {"model", subject.name},
      {"family", std::string(name_of(spec.family))},
      {"layers", fmt::format("{} of {} hidden, {} heads, {} inner", spec.layers, spec.hidden, spec.heads, spec.inner)},
      {"parameters",
       fmt::format("{} ({} backbone, {} exits)", short_count(static_cast<double>(subject.parameters.total())),
                   short_count(static_cast<double>(subject.parameters.backbone)),
                   short_count(static_cast<double>(subject.parameters.exits)))},
      {"vocabulary", fmt::format("{}", spec.vocab)},
      {"max length", fmt::format("{} tokens", spec.max_tokens())},
      {"one layer", fmt::format("{:.2f} MFLOPs at {} tokens", mflops(layer_macs(spec, tokens)), tokens)}};
  if (!subject.exits.labels.empty())
    rows.emplace_back(subject.exits.problem == Problem::multi_label ? "labels, several at once" : "labels",
                      fmt::format("{}", fmt::join(subject.exits.labels, ", ")));
  if (!subject.exits.logit_thresholds.empty())
    rows.emplace_back("thresholds", thresholds_by_label(subject.exits.labels, subject.exits.logit_thresholds));
  if (subject.exits.sites.empty()) rows.emplace_back("exits", "none: " + subject.without_exits);
  if (!subject.weights.empty()) rows.emplace_back("weights", subject.weights);
  if (!subject.verified.empty()) rows.emplace_back("verified", subject.verified);
  print_pairs(rows);
  if (subject.exits.sites.empty()) return;
  fmt::print("\n");
  std::vector<std::vector<std::string>> table;
  for (const ExitSite& site : subject.exits.sites) {
    const int64_t macs = departure_macs(spec, subject.exits, {.after = site.after, .tokens = tokens});
    table.push_back({fmt::format("{}", site.after), index_text(site.reader), index_text(site.pooler),
                     site.after == 0 ? "-" : fmt::format("{}", site.classifier), fmt::format("{:.2f}", mflops(macs))});
    if (!subject.loss_weights.empty())
      table.back().push_back(fmt::format("{:.4f}", subject.loss_weights[table.size() - 1]));
  }
  std::vector<std::string> header{"exit after", "reader", "pooler", "classifier", "MFLOPs to exit"};
  if (!subject.loss_weights.empty()) header.emplace_back("loss weight");
  print_table(header, table);
}

void run(const Common& common, const InfoOptions& options) {
  if (options.model.empty() && options.shape.empty())
    throw Error(Code::usage, "MODEL is required", "what this build and machine can do: exeunt doctor");
  const Subject subject = open_subject(common, options);
  common.json ? print_json(as_json(subject, options.tokens)) : print_subject(subject, options.tokens);
}

}  // namespace

void add_info(CommandLine& line) {
  const auto options = std::make_shared<InfoOptions>();
  options->read_tensorflow = line.more.read_tensorflow;
  CLI::App* verb = add_verb(line, "info", "Describe a model",
                            {"exeunt info models/sst2 --json", "exeunt info --shape albert-base-v2"},
                            [options, &common = line.common] { run(common, *options); });
  CLI::Option* model =
      verb->add_option("MODEL", options->model, "Model folder, or org/name in the local Hugging Face cache");
  verb->add_option("--shape", options->shape, "Known shape instead of a model, e.g. bert-base")->excludes(model);
  verb->add_option("--tokens", options->tokens, "Text length in tokens for the FLOP counts")
      ->check(number_in(1, 1 << 16))
      ->capture_default_str();
  verb->add_flag("--verify", options->open.verify, "Verify the weights against the checksums in the manifest");
}

}  // namespace exeunt::apps
