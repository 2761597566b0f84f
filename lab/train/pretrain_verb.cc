// SPDX-License-Identifier: Apache-2.0
#include "apps/exeunt-train/train.h"
#include "apps/exeunt/output.h"
#include "exeunt/text/tokenizer.h"
#include "exeunt/train/run.h"
#include "exeunt/train/run_files.h"
#include "lab/cli/auto_flags.h"
#include "lab/pretrain/pretrain.h"
#include "lab/train/lab_train_verbs.h"

namespace exeunt::apps {
namespace {

// The model's shape with what the flags change in it.
ModelSpec reshaped(ModelSpec spec, const PretrainFlags& flags) {
  const auto take = [](int& size, int wanted) { size = wanted > 0 ? wanted : size; };
  const bool tied = spec.embedding == spec.hidden;
  take(spec.layers, flags.layers);
  take(spec.hidden, flags.hidden);
  take(spec.heads, flags.heads);
  take(spec.inner, flags.inner);
  if (tied) spec.embedding = spec.hidden;
  if (spec.hidden % spec.heads != 0) {
    throw Error(Code::usage, fmt::format("--hidden: got {}, want a multiple of the {} heads", spec.hidden, spec.heads));
  }
  return spec;
}

void run_pretrain(const Common& asked, const PretrainFlags& flags) {
  Common common = asked;
  if (!first_process()) common.quiet = true;
  if (!flags.scratch && (flags.layers > 0 || flags.hidden > 0 || flags.heads > 0 || flags.inner > 0)) {
    throw Error(Code::usage, "--layers, --hidden, --heads and --inner need --scratch",
                "weights that exist have their shape; begin with new ones by --scratch");
  }
  if (first_process() && !flags.resume && !flags.overwrite) require_free(flags.out);
  const Checkpoint model = Checkpoint::open(flags.model);
  for (const std::string& line : model.notices()) notice(common, line);
  const auto tokenizer = load_tokenizer(model.folder());
  PretrainOptions options;
  static_cast<PretrainSettings&>(options) = flags;
  options.out = flags.out;
  if (flags.scratch) options.scratch = reshaped(model.spec(), flags);
  options.shape = shape_for(*tokenizer, options.scratch.value_or(model.spec()), flags);
  options.progress = progress_on_stderr(common.quiet);
  options.notice = [&](std::string_view text) { notice(common, text); };
  const Corpus corpus = read_corpus({flags.data.begin(), flags.data.end()}, *tokenizer,
                                    {.most = options.shape.room(), .threads = flags.threads});
  options.stop = stop_on_signals();
  const PretrainResult result = pretrain(model, corpus, options);
  if (!first_process()) return;
  if (common.json) return print_json(result.stopped ? OrderedJson{{"stopped_at", result.steps}} : result.results);
  if (result.stopped) {
    fmt::print("stopped at step {}; continue with --resume\n", result.steps);
    return;
  }
  fmt::print("wrote {} after {} steps\n", (std::filesystem::path(flags.out) / "model").string(), result.steps);
  if (!result.results.contains("eval_token_losses")) return;
  const auto& tokens = result.results.at("eval_token_losses");
  const auto& order = result.results.at("eval_order_losses");
  fmt::print("{:>4}  {:>12}  {:>14}\n", "exit", "masked token", "sentence order");
  for (size_t i = 0; i < tokens.size(); ++i) {
    fmt::print("{:>4}  {:>12.4f}  {:>14.4f}\n", i + 1, tokens[i].get<double>(), order[i].get<double>());
  }
}

}  // namespace

void add_pretrain(CommandLine& line) {
  add_pretrain_verb(line, [&common = line.common](const PretrainFlags& flags) { run_pretrain(common, flags); });
}

}  // namespace exeunt::apps
