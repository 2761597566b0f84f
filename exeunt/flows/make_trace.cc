// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/make_trace.h"

#include <algorithm>
#include <mutex>

#include "exeunt/base/clock.h"
#include "exeunt/base/error.h"
#include "exeunt/base/parallel.h"
#include "exeunt/base/version.h"
#include "exeunt/model/own_folder.h"
#include "exeunt/runtime/reference.h"

namespace exeunt {
namespace {

void require_fit(const Checkpoint& model, const Dataset& data) {
  const bool regression = model.exits().problem == Problem::regression;
  if (data.labelled && regression != data.regression) {
    throw Error(Code::bad_file,
                fmt::format("the model predicts {}, but the data hold {}", regression ? "a number" : "classes",
                            data.regression ? "numbers" : "classes"),
                "choose the task the model was trained for");
  }
}

TraceInfo describe(const Checkpoint& model, const Dataset& data, const TraceOptions& options) {
  TraceInfo info;
  info.weights = weights_sha256(model);
  info.tokenizer = tokenizer_sha256(options.tokenizer.empty() ? model.folder() : options.tokenizer);
  info.data = data.sha256;
  info.task = data.task;
  info.split = data.split;
  info.precision = "fp32";
  info.engine = "reference";
  info.tool = version();
  info.created = now_rfc3339();
  info.regression = model.exits().problem == Problem::regression;
  info.labels = model.exits().labels;
  info.layers = exit_sites(model.exits()).layers;
  info.max_length = options.max_length;
  return info;
}

// Copies `values` to row `row` of an array of rows; the array is sized at the first row that has any.
void put_row(std::vector<float>& array, size_t rows, size_t row, const std::vector<float>& values) {
  if (values.empty()) return;
  if (array.empty()) array.resize(rows * values.size());
  std::copy(values.begin(), values.end(), array.begin() + static_cast<ptrdiff_t>(row * values.size()));
}

}  // namespace

ExitSites exit_sites(const ExitLayout& layout) {
  ExitSites sites{
      .layers = {}, .outputs = layout.outputs, .regression = layout.problem == Problem::regression, .lte = layout.lte};
  for (const ExitSite& site : layout.sites) sites.layers.push_back(site.after);
  return sites;
}

void require_heads(const Checkpoint& model) {
  if (!model.exits().sites.empty()) return;
  throw Error(Code::bad_file, fmt::format("{}: the model has no exits: it is a bare backbone", model.folder().string()),
              "train heads on it first");
}

ExitTrace make_trace(const Checkpoint& model, const Tokenizer& tokenizer, Dataset data, const TraceOptions& options) {
  require_heads(model);
  require_fit(model, data);
  if (data.labelled && !data.regression) reorder_labels(data, model.exits().labels);
  const Reference reference(model);
  const EncodeOptions encode{.max_length = std::min(options.max_length, model.spec().max_tokens())};

  ExitTrace trace;
  trace.info = describe(model, data, options);
  trace.rows = data.examples.size();
  trace.exits = static_cast<int>(model.exits().sites.size());
  trace.width = model.exits().outputs;
  trace.lengths.resize(trace.rows);
  for (const Example& example : data.examples) {
    trace.gold.push_back(example.gold);
    trace.index.push_back(example.index);
  }
  std::mutex finishing;
  parallel_for(static_cast<int64_t>(trace.rows), options.threads, [&](int64_t i) {
    const auto row = static_cast<size_t>(i);
    const Example& example = data.examples[row];
    const Encoding encoding = tokenizer.encode(example.text, example.pair, encode);
    const ExitLogits out = reference.trace(encoding);
    const std::scoped_lock lock(finishing);
    trace.lengths[row] = static_cast<int32_t>(encoding.ids.size());
    put_row(trace.logits, trace.rows, row, out.logits);
    put_row(trace.lte, trace.rows, row, out.lte);
    put_row(trace.ramp, trace.rows, row, out.ramp);
    if (options.advance) options.advance(1);
  });
  check_trace(trace, data.task.empty() ? "trace" : data.task);
  return trace;
}

}  // namespace exeunt
