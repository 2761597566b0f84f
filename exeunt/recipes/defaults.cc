// SPDX-License-Identifier: Apache-2.0
#include "exeunt/recipes/defaults.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace exeunt {
namespace {

// Does a --set name such a field of a stage: "stages.0.lr=1e-4" or "stages.1.head_lr=2", but not an objective's?
bool sets(const RecipeChanges& changes, std::string_view field) {
  return std::any_of(changes.set.begin(), changes.set.end(), [&](const std::string& text) {
    const std::string_view name = std::string_view(text).substr(0, text.find('='));
    const bool of_stage = name.starts_with("stages.") && std::count(name.begin(), name.end(), '.') == 2;
    return name == "stages" || (of_stage && name.ends_with(field));
  });
}

// A case of the study (docs/decisions/0015-defaults-follow-the-data.md) and what does best there. Numbers are written
// as flags are; an empty one stays the recipe's.
struct Default {
  bool (*holds)(const RunShape& shape);
  const char *lr, *head_lr = "", *epochs = "", *batch = "", *label_smoothing = "";
  bool prototypes = false;
  bool every_recipe = false;  // else it was measured with `exeunt` alone
};

bool narrow(const RunShape& shape) {
  return shape.hidden < kNarrow;
}
bool small(const RunShape& shape) {
  return !narrow(shape) && shape.hidden < kSmall && shape.layers <= kSmallLayers;
}
bool shallow(const RunShape& shape) {
  return shape.layers <= kShallow;
}
bool many(const RunShape& shape) {
  return shape.labels >= kManyLabels;
}
constexpr int64_t kVeryFewRows = 1000, kFewRows = 5000;

// The first that holds.
constexpr Default kDefaults[] = {
    {.holds = [](const RunShape& s) { return narrow(s) && many(s) && s.rows < kVeryFewRows; },
     .lr = "1e-3",
     .head_lr = "1",
     .epochs = "24",
     .batch = "8",
     .label_smoothing = "0.1",
     .prototypes = true},
    {.holds = [](const RunShape& s) { return narrow(s) && many(s) && s.rows < kFewRows; },
     .lr = "1e-3",
     .head_lr = "1",
     .epochs = "24",
     .label_smoothing = "0.1",
     .prototypes = true},
    {.holds = [](const RunShape& s) { return narrow(s) && many(s); },
     .lr = "1e-3",
     .head_lr = "1",
     .epochs = "12",
     .label_smoothing = "0.1",
     .prototypes = true},
    {.holds = [](const RunShape& s) { return narrow(s) && s.labels > 0 && !s.pairs && s.rows < kSmallData; },
     .lr = "5e-4",
     .head_lr = "1",
     .epochs = "8",
     .prototypes = true},
    {.holds = narrow, .lr = "5e-4", .head_lr = "1", .epochs = "8", .every_recipe = true},
    {.holds = [](const RunShape& s) { return small(s) && many(s) && s.rows < kVeryFewRows; },
     .lr = "1e-4",
     .epochs = "12",
     .batch = "8",
     .label_smoothing = "0.1",
     .prototypes = true},
    {.holds = [](const RunShape& s) { return small(s) && many(s) && s.rows < kFewRows; },
     .lr = "1e-4",
     .epochs = "8",
     .label_smoothing = "0.1",
     .prototypes = true},
    {.holds = [](const RunShape& s) { return small(s) && many(s); },
     .lr = "1e-4",
     .label_smoothing = "0.1",
     .prototypes = true},
    {.holds = [](const RunShape& s) { return small(s) && s.labels > 0 && !s.pairs && s.rows < kSmallData; },
     .lr = "1e-4",
     .prototypes = true},
    {.holds = [](const RunShape& s) { return small(s) && shallow(s) && s.labels > 0 && s.pairs && s.rows < kFewPairs; },
     .lr = "1e-4",
     .epochs = "10"},
};

std::string reason(const RunShape& shape) {
  if (narrow(shape) && !many(shape)) return fmt::format("a narrow model (hidden size {})", shape.hidden);
  return fmt::format("{} rows with {} labels for a small model ({} layers, hidden size {})", shape.rows, shape.labels,
                     shape.layers, shape.hidden);
}

}  // namespace

DataDefaults defaults_for(const RunShape& shape, const std::string& recipe, const RecipeChanges& users) {
  const std::vector<std::string>& bundled = recipe_names();
  if (std::find(bundled.begin(), bundled.end(), recipe) == bundled.end()) return {};
  for (const char* rate : {"lr", "head_lr", "layer_lr"}) {
    if (users.stage.contains(rate)) return {};
  }
  if (sets(users, "lr")) return {};
  const auto found = std::find_if(std::begin(kDefaults), std::end(kDefaults), [&](const Default& one) {
    return one.holds(shape) && (one.every_recipe || recipe == "exeunt");
  });
  if (found == std::end(kDefaults)) return {};
  DataDefaults out{.why = reason(shape)};
  const auto change = [&](const char* field, const char* value) {
    if (*value == '\0' || users.stage.contains(field) || sets(users, field)) return;
    out.changes.stage[field] = Json::parse(value);
  };
  change("lr", found->lr);
  change("head_lr", found->head_lr);
  change("epochs", found->epochs);
  change("batch", found->batch);
  change("label_smoothing", found->label_smoothing);
  const bool classes = shape.problem != Problem::multi_label;  // prototypes are of classes
  if (found->prototypes && classes) out.changes.set = {"heads.init=prototypes"};
  return out;
}

int max_length_for(std::vector<int> lengths, int positions) {
  int length = 0;
  if (!lengths.empty()) {
    const auto whole = static_cast<size_t>(std::ceil(kWholeTexts * static_cast<double>(lengths.size())));
    const auto place = lengths.begin() + static_cast<std::ptrdiff_t>(whole - 1);
    std::nth_element(lengths.begin(), place, lengths.end());
    length = std::min(*place, kMostLength);
  }
  const int steps = (std::max(length, kLeastLength) + kLengthStep - 1) / kLengthStep;
  return std::min(steps * kLengthStep, positions);
}

}  // namespace exeunt
