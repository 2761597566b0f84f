// SPDX-License-Identifier: Apache-2.0
#include "lab/choose/recommend.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/risk.h"
#include "exeunt/policy/policy_text.h"
#include "lab/choose/sweep_table.h"

namespace exeunt {
namespace {

// All exits are used unless a choice of them does clearly better on the selection rows.
constexpr double kFasterBy = 1.02, kBetterBy = 0.002;
constexpr double kMaxDrops[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3};
constexpr double kWorthMentioning = 1.05;  // the speed-up from which a larger budget is named
constexpr double kShown = 0.005;           // a speed-up that rounds to the target meets it

// The goal with its defaults filled in.
struct Terms {
  Goal goal;
  RiskTest test;  // of the goal's loss; its budget is the maximum drop
  bool certify = false;
};

Terms settle(std::span<const RunOnTrial> runs, const Goal& goal) {
  Terms terms{.goal = goal, .test = {}, .certify = false};
  RiskTest& test = terms.test;
  test.loss = goal.loss.value_or(default_loss(runs[0].trace->info.problem));
  if (info_of(test.loss).conditional || info_of(test.loss).questions)
    throw Error(Code::usage, fmt::format("loss '{}': policies are compared by what all texts lose", name_of(test.loss)),
                "certify it with exeunt calibrate MODEL --loss " + shell_word(name_of(test.loss)));
  test.method = info_of(test.loss).counts ? RiskMethod::ltt_binomial : RiskMethod::wsr;
  test.max_drop = goal.max_drop.value_or(0.01);
  test.delta = delta_of(goal.confidence) * share_of_try(1);
  return terms;
}

int64_t certify_rows_of(int64_t rows) {
  return static_cast<int64_t>(SplitShares{}.certify * static_cast<double>(rows));
}

// In all, so that the certify part is large enough for a test without losses.
int64_t rows_for(const RiskTest& test) {
  const int64_t needed = rows_without_loss(test);
  auto rows = static_cast<int64_t>(static_cast<double>(needed) / SplitShares{}.certify);
  while (certify_rows_of(rows) < needed) ++rows;
  return rows;
}

// `texts` has the row hashes of all runs: another tokenizer may see other ones as equal, and runs are compared row
// by row.
CalibrationData parts_of(const ExitTrace& trace, const ExitTrace& texts, uint64_t seed, const Terms& terms) {
  ExitTrace rows = trace;
  rows.row_hash = texts.row_hash;
  if (terms.certify) {
    const CalibrationPlan plan{
        .max_drops = {terms.test.max_drop}, .delta = delta_of(terms.goal.confidence), .loss = terms.test.loss};
    return split_for_calibration(rows, seed, shares_for(rows, plan, true));
  }
  CalibrationData data = split_for_calibration(rows, seed, {.fit = 0.25, .certify = 0.25, .distinct = true});
  data.fit = join_rows(data.fit, data.certify, "trace");
  data.certify = {};
  data.fit_rows = data.certify_rows = data.report_rows = {};
  return data;
}

// The name of a row's label, those of several, or its number: what runs with other label orders can be compared by.
std::string gold_text(const ExitTrace& trace, size_t row) {
  const std::span<const float> own = std::span(trace.gold).subspan(row * trace.gold_width(), trace.gold_width());
  const float gold = own[0];
  if (std::isnan(gold)) return "none";
  std::set<std::string> names;
  switch (trace.info.problem) {
    case Problem::classification:
      return trace.info.labels.at(static_cast<size_t>(gold));
    case Problem::multi_label:
      for (size_t label = 0; label < own.size(); ++label)
        if (own[label] == 1) names.insert(trace.info.labels.at(label));
      return fmt::format("{}", fmt::join(names, "|"));
    case Problem::regression:
      return fmt::format("{}", gold);
  }
  return {};
}

void require_same_rows(std::span<const RunOnTrial> runs) {
  const ExitTrace& first = *runs[0].trace;
  for (const RunOnTrial& run : runs.subspan(1)) {
    const ExitTrace& other = *run.trace;
    const auto refuse = [&](const std::string& how) {
      throw Error(Code::bad_file, fmt::format("{}: {} than {}", run.name, how, runs[0].name),
                  "measure all runs on the same data: name it with --data");
    };
    if (other.info.problem != first.info.problem) refuse("another kind of problem");
    if (other.rows != first.rows) refuse(fmt::format("{} rows, and so others", other.rows));
    for (size_t row = 0; row < first.rows; ++row)
      if (gold_text(other, row) != gold_text(first, row)) refuse(fmt::format("row {} has another label", row));
  }
  if (runs.size() > 1 && !first.labelled()) {
    throw Error(Code::usage, "several runs are compared by their labels, and the data has none",
                "name labelled data, or ask for one run at a time");
  }
}

void require_fit(std::span<const RunOnTrial> runs, const Goal& goal) {
  check(!runs.empty() && goal.speedup.has_value() != goal.max_drop.has_value(), "one goal, at least one run");
  if (runs[0].trace->rows < kFewestRows) {
    throw Error(Code::failure,
                fmt::format("not enough data: got {} examples, want at least {}", runs[0].trace->rows, kFewestRows),
                "one half selects and the other reports; a few hundred are needed to tell rules apart");
  }
  require_same_rows(runs);
  for (const RunOnTrial& run : runs) {
    if (goal.timed && (!run.scoring.milliseconds || run.trace->lengths.empty())) {
      throw Error(Code::usage, fmt::format("{}: no times are known for it in this precision", run.name),
                  fmt::format("measure them with 'exeunt bench {} --save', or count layers", run.name));
    }
  }
}

// Exits worth trying instead of all: every second or third, or only those from some layer on. All keep the last.
std::vector<std::vector<int>> choices_of_exits(const std::vector<int>& layers) {
  std::vector<std::vector<int>> out;
  const size_t count = layers.size();
  const auto add = [&](std::vector<int> choice) {
    if (choice.size() > 1 && std::find(out.begin(), out.end(), choice) == out.end()) out.push_back(std::move(choice));
  };
  for (const size_t step : {2, 3}) {
    std::vector<int> choice;
    for (size_t i = (count - 1) % step; i < count; i += step) choice.push_back(layers[i]);
    if (count >= 2 * step) add(std::move(choice));
  }
  for (const size_t first : {size_t{1}, size_t{2}, count / 4, count / 3, count / 2})
    if (first > 0 && first < count) add({layers.begin() + static_cast<ptrdiff_t>(first), layers.end()});
  return out;
}

// Gold as answers are compared with it: of multi_label, the number of the set.
std::vector<float> gold_answers(const ExitTrace& trace) {
  if (trace.info.problem != Problem::multi_label) return trace.gold;
  std::vector<float> out;
  for (size_t row = 0; row < trace.rows; ++row) {
    const ExitLogits set{.logits = trace.gold.data() + row * trace.gold_width(),
                         .classes = trace.width,
                         .problem = Problem::multi_label};
    out.push_back(static_cast<float>(set_number(set)));  // of 1 and 0, the ones are above the threshold
  }
  return out;
}

// The rows of a run that select or that report, with what is computed from them repeatedly. They outlive it.
struct RowsOfRun {
  RowsOfRun(const ExitTrace& trace, const RunOnTrial& run, const Terms& terms, const ValueRange& range)
      : meter(trace, terms.test.loss, range),
        scorer(trace, run.scoring),
        replayer(trace, run.scoring.last),
        timed(terms.goal.timed),
        gold(gold_answers(trace)),
        full(answers({})) {}

  [[nodiscard]] std::vector<float> answers(const PolicySpec& policy) { return replayer.answers(replayer.run(policy)); }
  [[nodiscard]] double cost(const PolicyScore& score) const {
    return timed ? *score.predicted_ms : score.cost.average_layers;
  }
  [[nodiscard]] double cost(const PolicySpec& policy) { return cost(scorer.score(policy)); }

  LossMeter meter;
  Scorer scorer;
  Replayer replayer;
  bool timed;                     // cost is time, not layers
  std::vector<float> gold, full;  // what is right, and what full depth answers
  double reference_cost = 1;      // full depth of the slowest run
};

// One run. Must not move, because its parts are pointed to.
class Trial {
 public:
  Trial(size_t index, const RunOnTrial& run, const Terms& terms, CalibrationData data)
      : index_(index),
        run_(run),
        terms_(terms),
        data_(std::move(data)),
        range_(range_or_observed(run.range, data_.fit)),
        choose_(data_.fit, run, terms, range_),
        fresh_(data_.report, run, terms, range_) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  [[nodiscard]] RowsOfRun& choose() noexcept { return choose_; }
  [[nodiscard]] RowsOfRun& fresh() noexcept { return fresh_; }
  [[nodiscard]] const CalibrationData& data() const noexcept { return data_; }
  // Of sets of labels, the share that is right: numbers of sets have no other metric.
  [[nodiscard]] Judge judge() const {
    static constexpr Metric kWholeSets[] = {Metric::accuracy};
    return data_.fit.info.problem == Problem::multi_label ? Judge{kWholeSets, Metric::accuracy}
                                                          : Judge{choose_.scorer.metrics(), run_.primary};
  }
  [[nodiscard]] Answers full_depth() const { return {choose_.full, choose_.gold}; }
  [[nodiscard]] const std::vector<int>& layers() const noexcept { return data_.fit.info.layers; }
  [[nodiscard]] std::vector<std::string> families() const { return families_for(data_.fit.sites(), Families::all); }

  [[nodiscard]] Alternative full() { return chosen("full", {}); }
  // Nothing if no setting of the family is faster than full depth and meets a drop.
  [[nodiscard]] std::optional<Alternative> attempt(const std::string& family, const std::vector<int>& exits) {
    return terms_.certify ? expected(family, exits) : pick(family, settings(family, exits));
  }
  [[nodiscard]] Alternative attempt_layers();  // every text exits after the same layer
  [[nodiscard]] std::optional<NearestDrop> nearest_drop();
  // Tests what was chosen on the certify rows, as `calibrate` with this family and these exits would; the policy is
  // then the one that passed. What is missing if the rows do not suffice, else nothing.
  [[nodiscard]] std::string certify(Alternative& alternative, const CountTry& count_try);
  void report(Alternative& alternative);

 private:
  // Would a setting with its losses on the selection rows keep to the budget? With a certificate: would it pass?
  // Without: one more loss among one more row must be within it, so that few rows do not pass for many. That is
  // caution, not a guarantee, because the same rows also choose among the settings.
  [[nodiscard]] bool within(const PolicySpec& policy, double max_drop) {
    RiskTest test = terms_.test;
    test.max_drop = max_drop;
    if (!terms_.certify) test.method = RiskMethod::crc;
    const auto rows = static_cast<int64_t>(terms_.certify ? data_.certify.rows : data_.fit.rows);
    return would_pass(test, choose_.meter.measure(policy).losses, rows);
  }
  [[nodiscard]] std::vector<Candidate> settings(const std::string& family, const std::vector<int>& exits);
  [[nodiscard]] CalibrationPlan plan_for(const std::string& family, const std::vector<int>& exits) const;
  [[nodiscard]] std::optional<Alternative> expected(const std::string& family, const std::vector<int>& exits);
  [[nodiscard]] Alternative chosen(std::string family, PolicySpec policy, bool meets = false);
  [[nodiscard]] std::optional<Alternative> pick(const std::string& family, const std::vector<Candidate>& candidates);

  size_t index_;
  const RunOnTrial& run_;
  const Terms& terms_;
  CalibrationData data_;  // `fit` selects; `certify` is empty if no certificate is possible
  ValueRange range_;
  RowsOfRun choose_, fresh_;  // rows that select, and those that report
};

std::vector<Candidate> Trial::settings(const std::string& family, const std::vector<int>& exits) {
  FamilyScope scope{data_.fit.sites(), exits, {}, 0};
  if (range_) scope.range = static_cast<float>(range_->second - range_->first);
  return order_candidates(family, scope, choose_.meter);
}

// A policy on the selection rows.
Alternative Trial::chosen(std::string family, PolicySpec policy, bool meets) {
  Alternative out{.run = index_, .family = std::move(family), .policy = std::move(policy), .meets = meets};
  const PolicyScore score = choose_.scorer.score(out.policy);
  out.chosen_quality = quality_of(score, run_.primary);
  out.chosen_agreement = score.agreement;
  out.chosen_speedup = choose_.reference_cost / choose_.cost(score);
  out.chosen_loss = choose_.meter.measure(out.policy).mean_loss();
  return out;
}

// From most conservative to most aggressive: the first that is fast enough, or the last within the drop.
std::optional<Alternative> Trial::pick(const std::string& family, const std::vector<Candidate>& candidates) {
  const Goal& goal = terms_.goal;
  if (candidates.size() < 2) return std::nullopt;
  if (goal.max_drop) {
    size_t last = 0;
    for (size_t i = 1; i < candidates.size(); ++i)
      if (within(candidates[i].policy, *goal.max_drop)) last = i;
    return last == 0 ? std::nullopt : std::optional(chosen(family, candidates[last].policy, true));
  }
  for (const Candidate& candidate : candidates) {
    const double cost = goal.timed ? choose_.cost(candidate.policy) : candidate.cost_fraction * layers().back();
    if (choose_.reference_cost / cost >= *goal.speedup) return chosen(family, candidate.policy, true);
  }
  return chosen(family, candidates.back().policy);
}

// That of `calibrate` for this family, so that its verb gives the same policy.
CalibrationPlan Trial::plan_for(const std::string& family, const std::vector<int>& exits) const {
  return {.max_drops = {*terms_.goal.max_drop},
          .delta = delta_of(terms_.goal.confidence),
          .loss = terms_.goal.loss,
          .families = {family},
          .exits = exits,
          .range = range_,
          .tries = 1};
}

// What the selection rows let expect of a family's certificate.
std::optional<Alternative> Trial::expected(const std::string& family, const std::vector<int>& exits) {
  const FamilyTrial trial =
      try_families(data_, static_cast<int64_t>(data_.certify.rows), plan_for(family, exits)).front();
  if (!(trial.cost_fraction < 1)) return std::nullopt;
  return chosen(family, trial.expected.front(), true);
}

std::string Trial::certify(Alternative& alternative, const CountTry& count_try) {
  CalibrationPlan plan = plan_for(alternative.family, alternative.policy.exits);
  try {
    if (count_try) count_try(data_, plan);
    alternative.calibration = calibrate(data_, plan);
  } catch (const Error& error) {  // too few rows for what is left of delta
    if (error.code() != Code::failure) throw;
    return error.what();
  }
  alternative.policy = alternative.calibration->outcomes.front().policy;
  return {};
}

Alternative Trial::attempt_layers() {
  std::vector<Candidate> candidates;
  for (auto layer = layers().rbegin(); layer != layers().rend(); ++layer) {
    PolicySpec policy = parse_policy(fmt::format("layer:{}", *layer));
    const LossMeter::Measured seen = choose_.meter.measure(policy);
    candidates.push_back({std::move(policy), seen.mean_loss(), seen.cost_fraction});
  }
  return pick("layer", candidates).value_or(full());
}

std::optional<NearestDrop> Trial::nearest_drop() {
  std::optional<NearestDrop> nearest;
  for (const std::string& family : families()) {
    const std::vector<Candidate> candidates = settings(family, {});
    for (const double max_drop : kMaxDrops) {
      if (max_drop <= *terms_.goal.max_drop || (nearest && max_drop > nearest->max_drop)) continue;
      double speedup = 1;
      for (const Candidate& candidate : candidates) {
        if (within(candidate.policy, max_drop)) speedup = choose_.reference_cost / choose_.cost(candidate.policy);
      }
      if (speedup < kWorthMentioning) continue;
      if (!nearest || max_drop < nearest->max_drop || speedup > nearest->speedup) nearest = {max_drop, speedup};
      break;
    }
  }
  return nearest;
}

void Trial::report(Alternative& alternative) {
  alternative.score = fresh_.scorer.score(alternative.policy);
  alternative.quality = quality_of(alternative.score, run_.primary);
  alternative.speedup = fresh_.reference_cost / fresh_.cost(alternative.score);
  if (data_.report.labelled()) {
    const std::vector<float> predicted = fresh_.answers(alternative.policy);
    const Answers answers{predicted, fresh_.gold};
    alternative.quality_bounds = score_bounds(judge(), answers);
    alternative.lost = difference_of(judge(), {fresh_.full, fresh_.gold}, answers);
  } else {
    const auto rows = static_cast<int64_t>(data_.report.rows);
    alternative.quality_bounds = share_bounds(std::llround(alternative.quality * static_cast<double>(rows)), rows);
    alternative.lost = {.value = 1 - alternative.quality,
                        .error = 0,
                        .bounds = {1 - alternative.quality_bounds.high, 1 - alternative.quality_bounds.low}};
  }
  const LossMeter::Measured seen = fresh_.meter.measure(alternative.policy);
  alternative.loss_mean = seen.mean_loss();
  alternative.loss_bounds = loss_interval(terms_.test.loss, seen.losses);
  const double short_by = terms_.goal.speedup ? *terms_.goal.speedup - kShown - alternative.speedup
                                              : alternative.loss_mean - *terms_.goal.max_drop;
  alternative.meets_fresh = short_by <= 0;
  if (!alternative.meets_fresh) alternative.missed_by = short_by + (terms_.goal.speedup ? kShown : 0);
}

// Better on the selection rows. What does not meet the goal comes after what does.
bool better(const Goal& goal, const Alternative& one, const Alternative& other) {
  if (one.meets != other.meets) return one.meets;
  if (goal.max_drop || !one.meets) return one.chosen_speedup > other.chosen_speedup;
  if (one.chosen_quality != other.chosen_quality) return one.chosen_quality > other.chosen_quality;
  return one.chosen_agreement > other.chosen_agreement;
}

class Contest {
 public:
  Contest(std::span<const RunOnTrial> runs, const Terms& terms, uint64_t seed) : terms_(terms) {
    for (size_t i = 0; i < runs.size(); ++i)
      trials_.emplace_back(i, runs[i], terms, parts_of(*runs[i].trace, *runs[0].trace, seed, terms));
    double choose = 0, fresh = 0;
    for (Trial& trial : trials_) {
      choose = std::max(choose, trial.choose().cost(PolicySpec{}));
      fresh = std::max(fresh, trial.fresh().cost(PolicySpec{}));
    }
    for (Trial& trial : trials_) {
      trial.choose().reference_cost = choose;
      trial.fresh().reference_cost = fresh;
    }
  }

  [[nodiscard]] Recommendation go(const CountTry& count_try) {
    Recommendation out;
    for (Trial& trial : trials_) out.full.push_back(trial.full());
    find_best_run(out.full);
    for (Trial& trial : trials_) {
      for (Alternative& one : attempts(trial)) out.options.push_back(std::move(one));
      const PolicySpec first = parse_policy(fmt::format("layer:{}", trial.layers().front()));
      out.fastest = std::max(
          out.fastest, trial.full().chosen_speedup * trial.choose().cost(PolicySpec{}) / trial.choose().cost(first));
    }
    std::stable_sort(out.options.begin(), out.options.end(),
                     [&](const Alternative& a, const Alternative& b) { return better(terms_.goal, a, b); });
    try_exits(out.options);
    // If nothing early is good enough, full depth; for a speed-up, the fastest is the nearest.
    const bool any = !out.options.empty() && out.options.front().meets;
    if (out.options.empty() || (terms_.goal.max_drop && !any))
      out.options.insert(out.options.begin(), out.full[best_run_]);
    // The first choice alone is certified. If it fails, no other replaces it: each would be tried on the same rows.
    Alternative& first = out.options.front();
    if (terms_.certify && any) out.uncertified = trials_[first.run].certify(first, count_try);
    if (terms_.goal.max_drop && first.policy.rule == rule_of<FullRule>) out.nearest = trials_[first.run].nearest_drop();
    for (Alternative& one : out.options) trials_[one.run].report(one);
    for (Alternative& one : out.full) trials_[one.run].report(one);
    const CalibrationData& data = trials_.front().data();
    out.choose_rows = data.fit.rows;
    out.certify_rows = data.certify.rows;
    out.report_rows = data.report.rows;
    out.labelled = data.report.labelled();
    out.families = families_.size();
    return out;
  }

 private:
  // The run with the best full depth; for a drop, runs that are further below it than the drop and one standard error
  // are out of the race, however fast.
  void find_best_run(const std::vector<Alternative>& full) {
    for (size_t i = 1; i < full.size(); ++i)
      if (full[i].chosen_quality > full[best_run_].chosen_quality) best_run_ = i;
    for (size_t i = 0; i < full.size(); ++i) {
      bool races = i == best_run_ || !terms_.goal.max_drop;
      if (!races) {
        Trial &best = trials_[best_run_], &own = trials_[i];
        const Difference below = difference_of(own.judge(), best.full_depth(), own.full_depth());
        races = below.value <= *terms_.goal.max_drop + below.error;
      }
      races_.push_back(races);
    }
  }

  std::vector<Alternative> attempts(Trial& trial) {
    std::vector<Alternative> found;
    for (const std::string& family : trial.families()) {
      families_.insert(family);
      if (std::optional<Alternative> one = trial.attempt(family, {})) found.push_back(std::move(*one));
    }
    if (terms_.goal.speedup && trial.layers().size() > 1) {
      families_.insert("layer");
      found.push_back(trial.attempt_layers());
    }
    for (Alternative& one : found) one.meets = one.meets && races_[one.run];
    return found;
  }

  // The winner's family with some of the exits; put in front only where that is clearly better.
  void try_exits(std::vector<Alternative>& options) {
    if (options.empty() || !options.front().meets || options.front().family == "layer") return;
    const Alternative& winner = options.front();
    std::optional<Alternative> best;
    Trial& trial = trials_[winner.run];
    for (const std::vector<int>& exits : choices_of_exits(trial.layers())) {
      std::optional<Alternative> one = trial.attempt(winner.family, exits);
      if (one && one->meets && (!best || better(terms_.goal, *one, *best))) best = std::move(one);
    }
    if (!best) return;
    const bool worth_it = terms_.goal.max_drop ? best->chosen_speedup > winner.chosen_speedup * kFasterBy
                                               : best->chosen_quality > winner.chosen_quality + kBetterBy;
    if (worth_it) options.insert(options.begin(), std::move(*best));
  }

  const Terms& terms_;
  std::deque<Trial> trials_;
  size_t best_run_ = 0;
  std::vector<bool> races_;
  std::set<std::string> families_;
};

}  // namespace

Recommendation recommend(std::span<const RunOnTrial> runs, const Goal& goal, uint64_t seed, const CountTry& count_try) {
  require_fit(runs, goal);
  Terms terms = settle(runs, goal);
  const auto rows = static_cast<int64_t>(runs[0].trace->rows);
  terms.certify = goal.max_drop && goal.certify && certify_rows_of(rows) >= rows_without_loss(terms.test);
  Recommendation out = Contest(runs, terms, seed).go(count_try);
  const Alternative& best = out.best();
  out.loss = terms.test.loss;
  if (goal.max_drop) out.rows_for_certificate = rows_for(terms.test);
  const bool early = best.policy.rule != rule_of<FullRule>;
  out.certified = best.calibration.has_value() && early;
  out.met = best.meets && early;
  out.met_fresh = out.met && best.meets_fresh;
  return out;
}

PolicyEntry policy_entry(const Alternative& alternative, const std::vector<int>& layers) {
  if (alternative.calibration) return alternative.calibration->entry;
  PolicyEntry entry;
  entry.exits = alternative.policy.exits.empty() ? layers : alternative.policy.exits;
  entry.decision_temperature.assign(layers.size(), 1.0F);
  entry.score_temperature = entry.decision_temperature;
  entry.policy = alternative.policy;
  entry.policy.exits.clear();
  return entry;
}

}  // namespace exeunt
