// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/label_names.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/data/labels.h"
#include "exeunt/model/family.h"

namespace exeunt {
namespace {

using Names = std::vector<std::string>;

bool same_set(Names a, Names b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

// Whether all of `some`, or any, are among `names`; both may be many.
std::set<std::string_view> set_of(const Names& names) {
  return {names.begin(), names.end()};
}
bool all_among(const Names& some, const Names& names) {
  const auto known = set_of(names);
  return std::all_of(some.begin(), some.end(), [&](const std::string& name) { return known.contains(name); });
}
bool any_among(const Names& some, const Names& names) {
  const auto known = set_of(names);
  return std::any_of(some.begin(), some.end(), [&](const std::string& name) { return known.contains(name); });
}

// "0", "1", … for as many outputs as the model has, if the data's labels are some of these.
Names numbers_for(const Names& found, size_t outputs) {
  Names all;
  for (size_t i = 0; i < outputs; ++i) all.push_back(std::to_string(i));
  return all_among(found, all) ? all : Names{};
}

Names asked_names(const Names& own, const Names& asked, const Observer& observer) {
  if (same_set(own, asked)) return own;  // the order of the data's labels; the model's outputs go by name
  if (asked.size() != own.size()) {
    throw Error(Code::usage, fmt::format("--labels: got {} names, want {}: the model's labels are {}", asked.size(),
                                         own.size(), fmt::join(own, ", ")));
  }
  (void)LabelIndex(asked);  // refuses a name that occurs twice
  observer.notice(fmt::format("labels {} are called {} (--labels)", fmt::join(own, ", "), fmt::join(asked, ", ")));
  return asked;
}

Names names_of_data(const Names& own, Family family, const Dataset& data, const Observer& observer) {
  std::string whose = data.task.empty() ? data.where : data.task;
  Names names = data.labels;
  const FamilyRow& row = row_of(family);
  if (row.swaps_mnli_labels && (data.task.starts_with("MNLI") || data.task == "AX")) {
    std::swap(names[1], names[2]);
    whose += fmt::format(" for {}", row.name);
  }
  if (data.task.empty() && names.size() != own.size()) names = numbers_for(names, own.size());
  if (names.size() != own.size()) {
    throw Error(Code::bad_file,
                fmt::format("the model's {} labels have no names, and {} has the {} labels {}", own.size(), whose,
                            data.labels.size(), fmt::join(data.labels, ", ")),
                data.task.empty() ? "name them in the order of the model's outputs: --labels a,b"
                                  : "choose the task the model was trained for");
  }
  observer.notice(fmt::format("the model's labels have no names: taken as {}, the order of {}; --labels names another",
                              fmt::join(names, ", "), whose));
  return names;
}

// The task's spelling of names that differ in case alone.
Names spelled_as(const Names& task, Names own) {
  for (std::string& name : own) {
    const auto found =
        std::find_if(task.begin(), task.end(), [&](const std::string& one) { return lower(one) == lower(name); });
    if (found != task.end()) name = *found;
  }
  return own;
}

}  // namespace

bool generic_labels(const Names& labels) noexcept {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != "LABEL_" + std::to_string(i)) return false;
  return !labels.empty();
}

Names label_names(const ExitLayout& model, Family family, const Names& asked, const Dataset& data,
                  const Observer& observer) {
  const Names& own = model.labels;
  if (own.empty() || data.problem == Problem::regression) return own;
  if (!asked.empty()) return asked_names(own, asked, observer);
  if (all_among(data.labels, own)) return own;
  if (generic_labels(own)) return names_of_data(own, family, data, observer);
  if (data.task.empty()) return own;
  Names names = spelled_as(data.labels, own);
  if (names != own) observer.notice(fmt::format("labels are spelled as {}'s: {}", data.task, fmt::join(names, ", ")));
  if (data.labelled && !any_among(names, data.labels)) {
    throw Error(Code::bad_file,
                fmt::format("the model's labels are {}, those of {} are {}", fmt::join(own, ", "), data.task,
                            fmt::join(data.labels, ", ")),
                own.size() == data.labels.size()
                    ? fmt::format("--labels {} renames them in this order", fmt::join(data.labels, ","))
                    : "choose the task the model was trained for");
  }
  return names;
}

}  // namespace exeunt
