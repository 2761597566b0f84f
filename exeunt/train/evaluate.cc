// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/evaluate.h"

#include <algorithm>

#include "exeunt/base/version.h"
#include "exeunt/data/batches.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace {

ExitTrace empty_trace(const NetworkImpl& network, const Features& features, const TraceSource& source) {
  const ExitLayout& layout = network.layout();
  ExitTrace trace;
  trace.info.weights = source.weights;
  trace.info.tokenizer = features.info.tokenizer;
  trace.info.data = features.info.data;
  trace.info.task = features.info.task;
  trace.info.split = features.info.split;
  trace.info.precision = source.precision;
  trace.info.engine = "torch " + compat::version();
  trace.info.tool = version();
  trace.info.created = now_rfc3339();
  static_cast<OutputSpec&>(trace.info) = layout;
  for (const ExitSite& site : layout.sites) trace.info.layers.push_back(site.after);
  trace.info.max_length = features.info.max_length;
  trace.rows = features.rows();
  trace.exits = static_cast<int>(layout.sites.size());
  trace.width = layout.outputs;
  trace.gold = trace.info.problem == Problem::multi_label ? features.sets : features.gold;
  trace.index = features.index;
  for (size_t row = 0; row < trace.rows; ++row) trace.lengths.push_back(static_cast<int32_t>(features.length(row)));
  return trace;
}

// Copies what a batch put out, [rows of the batch, …], to the rows of the trace it belongs to.
void scatter(const Tensor& batch, std::span<const size_t> rows, size_t all_rows, std::vector<float>& out) {
  const Tensor values = batch.to(torch::kCPU, torch::kFloat).contiguous();
  const size_t width = static_cast<size_t>(values.numel()) / rows.size();
  out.resize(all_rows * width);
  const float* from = values.data_ptr<float>();
  for (size_t n = 0; n < rows.size(); ++n) {
    std::copy_n(from + n * width, width, out.begin() + static_cast<ptrdiff_t>(rows[n] * width));
  }
}

}  // namespace

ExitTrace trace_network(Network& network, const Features& features, const TraceSource& source) {
  const torch::NoGradGuard no_grad;
  const bool training = network->is_training();
  network->eval();
  ExitTrace trace = empty_trace(*network, features, source);
  const BatchShape shape{.pad_id = network->spec().pad_id,
                         .problem = Problem::regression,  // gold as it is: a test split has none
                         .device = network->parameters().front().device()};
  for (const Batch& rows : bucketed_batches(features.offsets, {.rows = 256, .tokens = source.max_tokens})) {
    const ExitOutputs out = network->forward(batch_tensors(features, rows, shape).texts);
    scatter(torch::stack(out.logits, 1), rows, trace.rows, trace.logits);
    if (!out.lte.empty()) scatter(torch::stack(out.lte, 1), rows, trace.rows, trace.lte);
    if (out.ramp.defined()) scatter(out.ramp, rows, trace.rows, trace.ramp);
  }
  network->train(training);
  return trace;
}

std::vector<ExitScore> score_exits(Network& network, const Features& features, const std::vector<Metric>& metrics) {
  const ExitTrace trace = trace_network(network, features);
  return Scorer(trace, {.metrics = metrics}).each_exit();
}

Features spread_evenly(const Features& all, size_t most) {
  const size_t count = std::min(most, all.rows());
  const size_t labels = all.rows() == 0 ? 0 : all.sets.size() / all.rows();
  Features out;
  out.info = all.info;
  for (size_t i = 0; i < count; ++i) {
    const size_t row = i * all.rows() / count;
    out.ids.insert(out.ids.end(), all.ids_of(row).begin(), all.ids_of(row).end());
    out.types.insert(out.types.end(), all.types_of(row).begin(), all.types_of(row).end());
    out.offsets.push_back(static_cast<int64_t>(out.ids.size()));
    out.gold.push_back(all.gold[row]);
    out.index.push_back(all.index[row]);
    const auto set = all.sets.begin() + static_cast<ptrdiff_t>(row * labels);
    out.sets.insert(out.sets.end(), set, set + static_cast<ptrdiff_t>(labels));
  }
  return out;
}

double share_right(Network& network, const Features& features, size_t most) {
  const std::vector<ExitScore> exits = score_exits(network, spread_evenly(features, most), {Metric::accuracy});
  return primary_of(exits.back().metrics, Metric::accuracy);
}

}  // namespace exeunt::nn
