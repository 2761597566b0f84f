// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/traced_texts.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "exeunt/base/error.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/eval/bench.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/model/exeunt_folder.h"

namespace exeunt {
namespace {

constexpr double kSeconds = 0.3;    // for each run's rounds
constexpr size_t kTimedTexts = 64;  // as many of the rows stand for all
constexpr size_t kFewestRounds = 5;
constexpr double kSteady = 1.25;  // most that the middle half of the rounds may disagree by

}  // namespace

RunTimes times_of(const std::vector<std::vector<double>>& rounds) {
  RunTimes out{.steady = true};
  const auto quantile = [](std::vector<double> values, double share) {
    const auto place = values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1) + 0.5);
    std::nth_element(values.begin(), place, values.end());
    return *place;
  };
  for (const std::vector<double>& run : rounds) {
    out.milliseconds.push_back(quantile(run, 0.5));
    std::vector<double> ratios;
    for (size_t round = 0; round < run.size(); ++round) ratios.push_back(rounds.front()[round] / run[round]);
    out.steady = out.steady && quantile(ratios, 0.75) < kSteady * quantile(ratios, 0.25);
  }
  return out;
}

std::string str(const PrecisionSetting& setting) {
  const std::string name(name_of(setting.precision));
  Exceptions kept = setting.exceptions;
  const bool narrow_poolers = kept.erase(std::string(kPoolers)) > 0;
  const std::string poolers =
      narrow_poolers ? fmt::format(", poolers in {}", name_of(setting.exceptions.find(kPoolers)->second)) : "";
  if (kept.empty()) return name + poolers;
  return fmt::format("{} with {} {} in {}{}", name, kept.size(), kept.size() == 1 ? "matrix" : "matrices",
                     name_of(kept.begin()->second), poolers);
}

TracedTexts::TracedTexts(const Checkpoint& model, const MeasureOptions& options, std::vector<Dataset> sources)
    : model_(model),
      options_(options),
      max_length_(resolve(model, {.max_length = options.max_length}).max_length),
      weights_(weights_sha256(model)),
      tokenizer_folder_(options.tokenizer.empty() ? model.folder() : std::filesystem::path(options.tokenizer)),
      tokenizer_(load_tokenizer(tokenizer_folder_)),
      sources_(std::move(sources)) {
  for (const Dataset& source : sources_) size_ += source.examples.size();
}

std::vector<size_t> TracedTexts::all() const {
  std::vector<size_t> rows(size_);
  std::iota(rows.begin(), rows.end(), size_t{0});
  return rows;
}

ExitTrace TracedTexts::trace(const PrecisionSetting& setting, std::span<const size_t> rows,
                             const ProgressStyle& style) const {
  std::optional<Progress> progress;
  std::function<void(int64_t)> advance;
  if (style.write) {
    progress.emplace("trace", static_cast<int64_t>(rows.size()), style);
    advance = [&](int64_t texts) { progress->advance(texts); };
  }
  std::optional<ExitTrace> joined;
  std::vector<size_t> place(rows.size());  // of every row in the joined trace, which has them by source
  size_t first = 0, placed = 0;
  for (const Dataset& source : sources_) {
    Dataset part = source;
    part.examples.clear();
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < first || rows[i] >= first + source.examples.size()) continue;
      part.examples.push_back(source.examples[rows[i] - first]);
      place[i] = placed++;
    }
    first += source.examples.size();
    if (part.examples.empty()) continue;
    const std::string where = part.where;
    ExitTrace trace = make_trace(model_, *tokenizer_, std::move(part),
                                 {.max_length = max_length_,
                                  .threads = options_.threads,
                                  .device = options_.device,
                                  .precision = setting.precision,
                                  .exceptions = setting.exceptions,
                                  .tokenizer = tokenizer_folder_,
                                  .weights = weights_,
                                  .advance = advance});
    joined = joined ? join_rows(*joined, trace, where) : std::move(trace);
  }
  check(joined && placed == rows.size(), "every row is of a source");
  return select_rows(*joined, place);
}

RunTimes TracedTexts::times(std::span<const TimedRun> runs, std::span<const size_t> rows) const {
  const EncodeOptions encode{.max_length = max_length_};
  std::vector<Encoding> texts;
  for (const size_t row : rows.first(std::min(rows.size(), kTimedTexts))) {
    size_t at = row;
    auto source = sources_.begin();
    for (; at >= source->examples.size(); ++source) at -= source->examples.size();
    texts.push_back(tokenizer_->encode(source->examples[at].text, source->examples[at].pair, encode));
  }
  std::vector<std::pair<PrecisionSetting, std::unique_ptr<Engine>>> engines;
  const auto engine_in = [&](const PrecisionSetting& setting) -> Engine& {
    for (const auto& [known, engine] : engines)
      if (known == setting) return *engine;
    return *engines
                .emplace_back(setting, std::make_unique<Engine>(model_, EngineOptions{.device = options_.device,
                                                                                      .precision = setting.precision,
                                                                                      .exceptions = setting.exceptions,
                                                                                      .threads = options_.threads}))
                .second;
  };
  const auto time_run = [&](const TimedRun& run) {
    Engine& engine = engine_in(run.setting);
    return time_once(engine, {.policy = engine.bind(run.policy, run.exit_rates)}, texts);
  };
  for (const TimedRun& run : runs) (void)time_run(run);  // warm
  std::vector<std::vector<double>> rounds(runs.size());
  const auto end = Clock::now() + std::chrono::duration<double>(kSeconds * static_cast<double>(runs.size()));
  while (Clock::now() < end || rounds.front().size() < kFewestRounds)
    for (size_t i = 0; i < runs.size(); ++i) rounds[i].push_back(time_run(runs[i]));
  return times_of(rounds);
}

}  // namespace exeunt
