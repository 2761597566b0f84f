// SPDX-License-Identifier: Apache-2.0
// A paper's method here against the paper's published figures: which recipe, backbone and settings belong to which
// paper, which of our figures compares with which of theirs, and within which tolerance.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/data/metrics.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// Of lab/papers/published/*.json.
struct PublishedFigure {
  std::string paper, method, backbone, task, split, source;
  Metric metric = Metric::accuracy;
  double score = 0;               // a fraction, as our own scores
  double reading_error = 0;       // of the score: half its last digit, or how well a plot could be read
  std::optional<double> speedup;  // layers (or time) of full depth over what was used; nothing = full depth or not said
  std::optional<int> exit;        // the layer, if the figure is one point of a curve over exits
  std::optional<double> threshold;  // if the source gives it
  std::string speed_meaning;        // what the paper's figure of speed counts: time_saved, speedup_ratio, cost_fraction
};

[[nodiscard]] const std::vector<PublishedFigure>& published_figures();

// Those of one task and metric.
[[nodiscard]] std::vector<PublishedFigure> published_for(std::string_view task, Metric metric);

struct Paper {
  std::string_view name;                   // "deebert"
  std::string_view recipe;                 // how it is trained
  std::string_view model;                  // what it was trained from: a name in the Hugging Face cache
  std::string_view backbone;               // the same as the published figures call it
  std::string_view rule;                   // its exit rule; "" without early exits
  std::vector<std::string_view> settings;  // policies to compare with the paper's (policy/policy_text.h)
  std::string_view also = {};              // another recipe of the paper, whose scores may answer its figures
  std::string_view caveat = {};            // what keeps this variant from being the paper's published method
};

[[nodiscard]] const std::vector<Paper>& all_papers();
[[nodiscard]] const Paper& paper_named(std::string_view name);  // throws Error (usage) with the nearest name

// Tasks for which the paper's method has a figure; for MNLI both of its dev sets count as one.
[[nodiscard]] std::vector<std::string> tasks_of(const Paper& paper);

// "bert-base", "elasticbert-base-6l"; "bert 12x384" for a shape no paper used, with what else is not the papers' in it:
// "bert 12x768, feed-forward 64". By shape alone: weights have no name.
[[nodiscard]] std::string backbone_name(const ModelSpec& spec);

// What a model of ours reaches on one split: scores of its exits, and of the settings it was measured with.
struct OurScores {
  struct Exit {
    int layer;
    std::vector<Score> metrics;
    bool constant = false;  // every text gets the same answer
  };
  struct Point {
    std::string policy;
    double speedup;  // layers over average layers
    std::vector<Score> metrics;
    std::optional<double> clock = {};  // full depth's time over this one's, both run here
    bool constant = false;
  };
  std::string task = {}, split = {}, backbone = {};
  std::string recipe = {};                     // that trained it
  std::string caveat = {};                     // what else keeps its scores from being the paper's: "ours is on …"
  std::vector<std::string> settings = {};      // of its training that are not the paper's: "batch 32, not 8"
  int64_t rows = 0;                            // of the split
  int seeds = 0;                               // of scores from a file, which these are the means of
  int64_t train_rows = 0, all_train_rows = 0;  // trained on, and of the whole set; 0: not said
  bool other_data = false;                     // the split has not the rows of the whole one
  bool cut_short = false;                      // each exit is a truncated model of that many layers
  std::vector<Exit> exits = {};
  std::vector<Point> points = {};
  double clock_spread = 0;  // of the points' speed-ups by the clock, from round to round (eval/policy_times.h)
};

// What a training of a model of that family did other than its paper's recipe says for the family and the task, of the
// recipe.json of its folder: "batch 32, not 8".
[[nodiscard]] std::vector<std::string> other_settings(const Paper& paper, const Json& recipe, Family family);

// Of a file of scores measured elsewhere (lab/docs/formats.md, exeunt.scores/1), those of the paper's recipe, or of
// Paper::also, on this task. For MNLI the mismatched set comes last, without scores if the file has none. `where`
// opens the error messages. Throws Error: bad_file, or usage where nothing in the file fits.
[[nodiscard]] std::vector<OurScores> reached_in(const Json& scores, const std::string& where, const Paper& paper,
                                                const std::string& task);

enum class Verdict { within, above, below, not_comparable, not_measured };
[[nodiscard]] std::string_view name_of(Verdict verdict) noexcept;

struct Comparison {
  const PublishedFigure* figure = nullptr;
  std::string setting = {};  // of ours: "exit 6", "patience:6", "full", "6 layers"
  std::optional<double> ours = {}, speedup = {};
  std::optional<double> clock = {};  // speed-up by the clock, if our setting was run
  double tolerance = 0;
  bool constant = false;  // our answers are one for all texts
  Verdict verdict = Verdict::not_measured;
  std::string reason = {};  // why there is no verdict
};

// Figures of the paper's method for OurScores::task: those of our backbone, else those of the paper's main one. A point
// with a speed is answered by the setting of the paper's own rule whose speed-up is nearest, if it is within a tenth; a
// threshold by that threshold.
[[nodiscard]] std::vector<Comparison> compare(const Paper& paper, const OurScores& reached);

// How far two measurements of one method may differ: the figure's reading error, and two standard errors of a score on
// that many rows (accuracy and F1 as fractions, correlations by 1 - r²).
[[nodiscard]] double tolerance_of(const PublishedFigure& figure, int64_t rows);

// "within"; "below (another backbone)", "near (other settings)": our result, and why it says nothing about the method;
// or why there is none.
[[nodiscard]] std::string verdict_text(const Comparison& comparison);
[[nodiscard]] OrderedJson comparison_json(const Comparison& comparison);

}  // namespace exeunt
