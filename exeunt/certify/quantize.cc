// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/quantize.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/certify/split.h"
#include "exeunt/certify/traced_texts.h"
#include "exeunt/certify/tries.h"
#include "exeunt/data/metrics.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/engine.h"
#include "exeunt/eval/label_names.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"

namespace exeunt {
namespace {

double quality(const ExitTrace& trace, const std::vector<float>& predicted) {
  if (!trace.labelled() || trace.info.problem == Problem::multi_label) return std::numeric_limits<double>::quiet_NaN();
  const Metric metric = trace.info.problem == Problem::regression ? Metric::pearson : Metric::accuracy;
  return score(std::span(&metric, 1), predicted, trace.gold).front().value;
}

// Matrices that are quantized together, so that a deep model needs no more passes than there are trials: neighbours
// of one kind.
std::vector<std::vector<std::string>> grouped(const std::vector<std::string>& matrices, size_t most) {
  std::vector<std::vector<std::string>> groups;
  if (matrices.empty() || most == 0) return groups;
  const size_t together = (matrices.size() + most - 1) / most;
  std::vector<std::string> sorted = matrices;
  const auto kind = [](const std::string& name) { return name.substr(name.rfind('.')); };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const std::string& a, const std::string& b) { return kind(a) < kind(b); });
  for (const std::string& name : sorted) {
    if (groups.empty() || groups.back().size() == together || kind(groups.back().front()) != kind(name)) {
      groups.emplace_back();
    }
    groups.back().push_back(name);
  }
  return groups;
}

class Search {
 public:
  Search(const ExitTrace& reference, const ExitTrace& reference_few, const QuantizePlan& plan)
      : reference_(reference), reference_few_(reference_few), plan_(plan) {}

  QuantizeOutcome run() {
    out_.plain = out_.chosen = measure({});
    out_.within = fits(out_.plain);
    report("all matrices quantized", out_.plain);
    if (!out_.within && plan_.trials >= 4) {
      rank();
      shortest_list();
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool fits(const Change& change) const {
    return change.changed <= plan_.max_changed && change.drop() <= plan_.max_accuracy_drop;
  }
  [[nodiscard]] bool may_try() const { return out_.trials < plan_.trials; }

  Change measure(const Exceptions& exceptions) {
    ++out_.trials;
    return change_between(reference_, plan_.trace(exceptions, false), plan_.policy);
  }

  [[nodiscard]] Exceptions first(size_t count) const {
    Exceptions out;
    for (size_t i = 0; i < count; ++i) {
      for (const std::string& name : ranked_[i]) out.emplace(name, plan_.higher);
    }
    return out;
  }

  // The harm of a group: how far the logits move if it alone is in the low precision. Logits show more than answers do,
  // which change for few texts only.
  void rank() {
    // What follows the ranking takes about twice the logarithm of the number of groups.
    const auto room = static_cast<size_t>(std::max(1, plan_.trials - out_.trials - 16));
    std::vector<std::vector<std::string>> groups = grouped(plan_.matrices, std::min(room, plan_.matrices.size()));
    Exceptions all;
    for (const std::string& name : plan_.matrices) all.emplace(name, plan_.higher);
    std::vector<double> harm;
    for (const auto& group : groups) {
      Exceptions others = all;
      for (const std::string& name : group) others.erase(name);
      ++out_.trials;
      harm.push_back(drift(reference_few_, plan_.trace(others, true), plan_.policy).mean_logit);
    }
    std::vector<size_t> order(groups.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return harm[a] > harm[b]; });
    for (const size_t index : order) ranked_.push_back(std::move(groups[index]));
    if (!ranked_.empty() && plan_.notice)
      plan_.notice(fmt::format("those that change most: {}", fmt::join(ranked_.front(), ", ")));
  }

  // The fewest of the most harmful that must be kept: doubling until the bounds hold, then halving the gap.
  void shortest_list() {
    size_t low = 0, high = 0;
    bool good = false;
    for (size_t count = 1; !good && may_try(); count = std::min(2 * count, ranked_.size())) {
      if (keeping_fits(count)) {
        good = true;
        high = count;
      } else if (count == ranked_.size()) {
        return;
      } else {
        low = count;
      }
    }
    while (good && high - low > 1 && may_try()) {
      const size_t middle = (low + high) / 2;
      (keeping_fits(middle) ? high : low) = middle;
    }
  }

  // Whether the bounds hold with the first `count` kept higher. The best list is remembered: one within the bounds
  // beats one that is not; among those within, the shorter; among the others, the less changed.
  bool keeping_fits(size_t count) {
    const Exceptions exceptions = first(count);
    const Change change = measure(exceptions);
    report(fmt::format("{} kept higher", exceptions.size()), change);
    const bool fit = fits(change);
    const bool better = fit != out_.within ? fit
                        : fit              ? exceptions.size() < out_.exceptions.size()
                                           : change.changed < out_.chosen.changed;
    if (better) {
      out_.exceptions = exceptions;
      out_.chosen = change;
      out_.within = fit;
    }
    return fit;
  }

  void report(const std::string& what, const Change& change) const {
    if (!plan_.notice) return;
    std::string text = fmt::format("{}: {:.2f} % of answers or exits change", what, 100 * change.changed);
    if (std::isfinite(change.before))
      text += fmt::format(", quality {:.2f} → {:.2f}", 100 * change.before, 100 * change.after);
    plan_.notice(text);
  }

  const ExitTrace& reference_;
  const ExitTrace& reference_few_;
  const QuantizePlan& plan_;
  std::vector<std::vector<std::string>> ranked_ = {};
  QuantizeOutcome out_ = {};
};

// The map is chosen on these shares of the rows and certified on the others, so that the promise stays one.
constexpr SplitShares kShares{.fit = 0.3, .certify = 0.5};

std::vector<size_t> rows_of(const ExitTrace& trace) {
  return {trace.index.begin(), trace.index.end()};
}

// fp32's trace of the rows that the model has not learned, in three parts; `index` is the row among the texts.
CalibrationData split_rows(const TracedTexts& texts, const QuantizeOptions& options, const Observer& observer) {
  const std::vector<size_t> all = texts.all();
  ExitTrace trace = texts.trace({}, all, observer.progress);
  trace.index.assign(all.begin(), all.end());
  keep_new_rows(std::array{&trace}, options.run.strict_new, observer);
  SplitShares shares = kShares;
  shares.distinct = certified_unit({}, trace) == CertifiedUnit::texts;
  return split_for_calibration(trace, options.seed, shares);
}

// The policy under which exits are compared: the one asked for, else the model's in fp32, else full depth.
PolicySpec compared_policy(const QuantizeOptions& options, const Checkpoint& model, const Observer& observer) {
  const Resolved resolved = resolve(model, {.policy = options.policy, .precision = Precision::fp32});
  if (!options.policy.empty()) return resolved.policy;
  observer.notice(resolved.policy.rule == rule_of<FullRule>
                      ? "the model has no fp32 policy; answers are compared at full depth (see --policy)"
                      : fmt::format("exits are compared under fp32's policy {}", str(resolved.policy)));
  return resolved.policy;
}

}  // namespace

Change change_between(const ExitTrace& before, const ExitTrace& after, const PolicySpec& policy) {
  Change out{.drift = drift(before, after, policy)};
  Replayer first(before), second(after);
  const Departures one = first.run(policy), two = second.run(policy);
  const std::vector<float> was = first.answers(one), is = second.answers(two);
  double tolerance = 0;
  if (before.info.problem == Problem::regression) {
    const auto [least, most] = std::minmax_element(was.begin(), was.end());
    tolerance = 0.01 * (*most - *least);
  }
  for (size_t row = 0; row < before.rows; ++row) {
    if (std::abs(was[row] - is[row]) > tolerance || one.exit[row] != two.exit[row])
      out.changed += 1 / static_cast<double>(before.rows);
  }
  out.before = quality(before, was);
  out.after = quality(after, is);
  return out;
}

std::filesystem::path write_exceptions(const Checkpoint& model, Precision precision, const Exceptions& exceptions) {
  PrecisionMap map = find_precision_map(model.folder(), model.spec());
  map.by_precision[precision] = exceptions;
  const std::filesystem::path path = model.folder() / kPrecisionFile;
  write_atomically(path, precision_map_text(map));
  return path;
}

QuantizeOutcome choose_exceptions(const ExitTrace& reference, const ExitTrace& reference_few,
                                  const QuantizePlan& plan) {
  return Search(reference, reference_few, plan).run();
}

Quantized quantize_model(const QuantizeOptions& options, const Observer& observer) {
  Checkpoint model = Checkpoint::open(options.run.model);
  observer.notices(model.notices());
  require_heads(model);
  const std::filesystem::path path = policy_path(model);  // refuses a folder that is not ours before anything runs
  Dataset data = data_for(options.run, model, observer);
  model = model.with_labels(
      label_names(model.exits(), model.spec().family, options.run.data.columns.labels, data, observer));
  const TracedTexts texts(model, options.run, {std::move(data)});
  const CalibrationData parts = split_rows(texts, options, observer);
  const std::vector<size_t> choose = rows_of(parts.fit);
  const std::span<const size_t> few(choose.data(), std::min(choose.size(), kRankingTexts));
  std::vector<size_t> first(few.size());
  std::iota(first.begin(), first.end(), size_t{0});

  const PolicySpec policy = compared_policy(options, model, observer);
  Quantized out;
  const std::vector<std::string> matrices = matrix_names(model.spec());
  out.matrices = matrices.size();
  out.outcome =
      choose_exceptions(parts.fit, select_rows(parts.fit, first),
                        {.matrices = matrices,
                         .higher = choose_kernels().bf16 ? Precision::bf16 : Precision::fp32,
                         .policy = policy,
                         .max_changed = options.max_changed,
                         .max_accuracy_drop = options.max_accuracy_drop,
                         .trials = options.trials,
                         .trace =
                             [&](const Exceptions& exceptions, bool part) {
                               return texts.trace({options.precision, exceptions}, part ? few : std::span(choose));
                             },
                         .notice = observer.notice});

  // The promise, and how it went, on rows that chose nothing.
  const Exceptions& exceptions = out.outcome.exceptions;
  const auto traced = [&](const ExitTrace& fp32) {
    ExitTrace trace = texts.trace({options.precision, exceptions}, rows_of(fp32));
    set_reference(trace, fp32);
    return trace;
  };
  CalibrationData fresh = parts;
  for (ExitTrace* part : {&fresh.fit, &fresh.certify, &fresh.report}) *part = traced(*part);
  out.reported = change_between(parts.report, fresh.report, policy);
  CalibrationPlan plan;
  plan.max_drops = {options.max_drop};
  plan.delta = delta_of(options.confidence);
  plan.range = model.exits().range;
  try {
    count_try(fresh, plan, observer);
    out.calibration = calibrate(fresh, plan);
  } catch (const Error& error) {
    if (error.code() != Code::failure) throw;
    observer.notice(fmt::format("no policy was certified for {}: {}; it runs at full depth", name_of(options.precision),
                                error.what()));
  }
  out.out = write_exceptions(model, options.precision, exceptions);  // before the policy, which is bound to it
  if (out.calibration)
    keep_policy(PolicyLock(path), path, {.trace = fresh.certify, .model = model}, out.calibration->entry);
  write_card(model.folder(), model, facts_of_folder(model.folder(), model, model.folder()));
  if (!out.outcome.within) {
    observer.notice(
        fmt::format("--max-drift or --max-accuracy-drop is exceeded: {:.2f} % of answers or exits still change",
                    100 * out.outcome.chosen.changed));
  }
  return out;
}

}  // namespace exeunt
