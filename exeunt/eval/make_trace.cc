// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/make_trace.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/parallel.h"
#include "exeunt/base/version.h"
#include "exeunt/engine/engine.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/model/exeunt_folder.h"

namespace exeunt {
namespace {

std::string_view answers_of(Problem problem) {
  switch (problem) {
    case Problem::classification:
      break;
    case Problem::multi_label:
      return "several labels at once";
    case Problem::regression:
      return "a number";
  }
  return "one label";
}

TraceInfo describe(const Checkpoint& model, const Dataset& data, const TraceOptions& options, int max_length) {
  TraceInfo info;
  info.weights = options.weights.empty() ? weights_sha256(model) : options.weights;
  info.tokenizer = tokenizer_sha256(options.tokenizer.empty() ? model.folder() : options.tokenizer);
  info.data = data.sha256;
  info.task = data.task;
  info.split = data.split;
  info.tool = version();
  info.created = now_rfc3339();
  static_cast<OutputSpec&>(info) = model.exits();
  info.layers = exit_sites(model.exits()).layers;
  info.max_length = max_length;
  info.last_head = model.exits().compat_last_ramp;
  return info;
}

// Rows that belong to nothing are alone, also beside those of other data.
uint64_t cluster_number(const Dataset& data, size_t row) {
  const std::string_view name = cluster_of(data.examples[row]);
  const std::string alone = name.empty() ? fmt::format("{} {}", data.sha256, row) : "";
  return hash_of(std::as_bytes(name.empty() ? std::span(alone) : std::span(name)));
}

void append(std::vector<float>& all, const std::vector<float>& part) {
  all.insert(all.end(), part.begin(), part.end());
}

}  // namespace

Overlap overlap_of(const LearnedRows& learned, const Encoding& text, int max_length,
                   const std::function<Encoding(int)>& encode) {
  Overlap most = Overlap::none;
  for (const int64_t trained : learned.max_lengths()) {
    const auto length = static_cast<int64_t>(text.ids.size());
    const bool same = trained == max_length || (!text.truncated && length <= trained);
    most = std::max(most, learned.overlap(same ? text.ids : encode(static_cast<int>(trained)).ids));
  }
  return most;
}

void require_same_problem(const Checkpoint& model, const Dataset& data) {
  const Problem problem = model.exits().problem;
  if (!data.labelled || problem == data.problem) return;
  throw Error(Code::bad_file,
              fmt::format("the model predicts {}, but the rows of {} have {}", answers_of(problem),
                          data.where.empty() ? "the data" : data.where, answers_of(data.problem)),
              problem == Problem::multi_label
                  ? "--multi-label reads \"a|b\" and lists, --label-columns a,b a column for each label"
              : data.problem == Problem::multi_label ? "omit --multi-label and --label-columns"
                                                     : "choose the task the model was trained for");
}

ExitTrace make_trace(const Checkpoint& model, const Tokenizer& tokenizer, Dataset data, const TraceOptions& options) {
  require_heads(model);
  require_same_problem(model, data);
  if (data.labelled && data.problem != Problem::regression) reorder_labels(data, model.exits().labels);
  if (!data.labelled) {
    data.labels = model.exits().labels;
    data.problem = model.exits().problem;
  }
  const Resolved resolved = resolve(model, {.precision = options.precision,
                                            .exceptions = options.exceptions,
                                            .max_length = options.max_length,
                                            .engine = engine_traits(model, options.device)});
  const EncodeOptions encode{.max_length = resolved.max_length};

  ExitTrace trace;
  trace.info = describe(model, data, options, resolved.max_length);
  trace.rows = data.examples.size();
  trace.exits = static_cast<int>(model.exits().sites.size());
  trace.width = model.exits().outputs;
  const EngineOptions chosen = engine_options(resolved, {.device = options.device, .threads = options.threads});
  Engine engine(model, chosen);
  trace.info.engine = engine.name();
  trace.info.precision = name_of(engine.precision());
  trace.info.numerics = engine.traits().numerics;
  trace.info.precision_map = precision_map_sha256(chosen.exceptions).value_or("");
  const std::optional<LearnedRows> learned = learned_in(model.folder());
  if (learned) trace.learned.resize(trace.rows);
  int64_t truncated = 0;
  // In blocks, so that the tokens of a large data set need not all be in memory.
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < trace.rows; begin += kBlock) {
    const auto examples = std::span(data.examples).subspan(begin, std::min(kBlock, trace.rows - begin));
    std::vector<Encoding> texts(examples.size());
    parallel_for(static_cast<int64_t>(texts.size()), options.threads, [&](int64_t i) {
      const Example& example = examples[static_cast<size_t>(i)];
      Encoding& text = texts[static_cast<size_t>(i)];
      text = tokenizer.encode(example.text, example.pair, encode);
      if (!learned) return;
      const Overlap overlap = overlap_of(*learned, text, encode.max_length, [&](int max_length) {
        return tokenizer.encode(example.text, example.pair, {.max_length = max_length});
      });
      trace.learned[begin + static_cast<size_t>(i)] = static_cast<uint8_t>(overlap);
    });
    const ExitTrace block = engine.trace(texts, options.advance);
    append(trace.logits, block.logits);
    append(trace.lte, block.lte);
    append(trace.ramp, block.ramp);
    for (size_t i = 0; i < texts.size(); ++i) {
      const Encoding& text = texts[i];
      trace.lengths.push_back(static_cast<int32_t>(text.ids.size()));
      trace.row_hash.push_back(row_hash_of(text.ids));
      trace.text_hash.push_back(text_hash_of(examples[i].text, examples[i].pair.value_or("")));
      trace.cluster.push_back(cluster_number(data, begin + i));
      truncated += text.truncated ? 1 : 0;
    }
  }
  if (options.truncated) options.truncated(truncated);
  for (const Example& example : data.examples) {
    append_gold(data, example, trace.gold);
    trace.index.push_back(example.index);
  }
  check_trace(trace, data.task.empty() ? "trace" : data.task);
  return trace;
}

}  // namespace exeunt
