// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/exit_0.h"

#include <vector>

#include "exeunt/attach/attach.h"
#include "exeunt/base/error.h"

namespace exeunt {
namespace {

constexpr double kWorthwhile = 0.98;  // it takes some time itself, and on few texts chance saves a little

// As the model answers with this exit before its first layer.
ExitTrace with_first_exit(const TracedRows& traced, const NgramExit& exit) {
  const ExitTrace& trace = traced.trace;
  ExitTrace out = trace;
  out.info.layers.insert(out.info.layers.begin(), 0);
  out.exits = trace.exits + 1;
  out.logits.clear();
  std::vector<float> first(static_cast<size_t>(trace.width));
  for (size_t row = 0; row < trace.rows; ++row) {
    exit.run(traced.rows.ids_of(row), first.data());
    out.logits.insert(out.logits.end(), first.begin(), first.end());
    const float* others = trace.at(row, 0).data();
    out.logits.insert(out.logits.end(), others, others + trace.exits * trace.width);
  }
  return out;
}

}  // namespace

bool exit_0_pays(const CalibrationData& data, int64_t certify_rows, CalibrationPlan plan) {
  const auto cost = [&] { return try_families(data, certify_rows, plan).front().cost_fraction; };
  const double with = cost();
  plan.exits = data.fit.info.layers;
  plan.exits.erase(plan.exits.begin());
  return with < kWorthwhile * cost();
}

ExitTrace without_first_exit(const ExitTrace& trace, const std::string& weights) {
  check(trace.lte.empty(), "a model with exit 0 has no learning-to-exit head");
  ExitTrace out = trace;
  out.info.weights = weights;
  out.info.layers.erase(out.info.layers.begin());
  out.exits = trace.exits - 1;
  out.logits.clear();
  for (size_t row = 0; row < trace.rows; ++row) {
    const float* second = trace.at(row, 1).data();
    out.logits.insert(out.logits.end(), second, second + out.exits * out.width);
  }
  return out;
}

Checkpoint with_exit_0(const Checkpoint& model, const TracedRows& train, const TracedRows& validation,
                       const Exit0Options& options) {
  if (model.exits().lte) return model;
  std::vector<Encoding> texts;
  std::vector<float> teacher;
  for (const TracedRows* part : {&train, &validation}) {
    for (size_t row = 0; row < part->rows.rows(); ++row) {
      const std::span<const int32_t> ids = part->rows.ids_of(row);
      texts.emplace_back().ids.assign(ids.begin(), ids.end());
      const std::span<const float> last = part->trace.full_depth(row);
      teacher.insert(teacher.end(), last.begin(), last.end());
    }
  }
  const Imitation targets(teacher, model.exits(), HeadSettings{}.temperature);
  Checkpoint out = with_ngrams(
      model, train_ngrams(texts, train.rows.rows(), targets, options.pieces, options.ngrams, options.threads));
  const CalibrationData data{.fit = with_first_exit(validation, NgramExit(out)), .certify = {}, .report = {}};
  return exit_0_pays(data, options.certify_rows, options.plan) ? out : model;
}

}  // namespace exeunt
