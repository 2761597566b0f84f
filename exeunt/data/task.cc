// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/task.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

// The texts of tasks.json stay in memory, so that names may refer to them.
const Json& table() {
  static const Json tasks = Json::parse(shipped_tasks("tasks.json"));
  return tasks;
}

// Names of a column, then its number: ["label", "score", -1].
Column column_in(const Json& split, const char* field) {
  Column out;
  if (!split.contains(field)) return out;
  for (const Json& part : split.at(field)) {
    if (part.is_string()) {
      out.names.emplace_back(part.get_ref<const std::string&>());
    } else {
      out.number = part.get<int>();
    }
  }
  return out;
}

SplitFile read_split(const Json& json) {
  return {.split = split_named(json.at("split").get_ref<const std::string&>()),
          .file = json.at("file").get_ref<const std::string&>(),
          .text = column_in(json, "text"),
          .pair = column_in(json, "pair"),
          .label = column_in(json, "label"),
          .rows = json.at("rows").get<int64_t>(),
          .slack = json.value("slack", int64_t{0}),
          .header = json.value("header", true)};
}

std::vector<std::string_view> names_in(const Json& json, const char* field) {
  std::vector<std::string_view> out;
  if (json.contains(field)) {
    for (const Json& name : json.at(field)) out.emplace_back(name.get_ref<const std::string&>());
  }
  return out;
}

std::string_view text_in(const Json& json, const char* field) {
  return json.contains(field) ? std::string_view(json.at(field).get_ref<const std::string&>()) : std::string_view();
}

Task read_task(const Json& json) {
  Task out{.name = text_in(json, "name"),
           .aliases = names_in(json, "aliases"),
           .folders = names_in(json, "folders"),
           .labels = json.value("labels", std::vector<std::string>()),
           .submission = text_in(json, "submission"),
           .model_of = text_in(json, "model_of"),
           .skips_short_rows = json.value("skips_short_rows", false)};
  out.suite = out.name.starts_with("elue/") ? Suite::elue : Suite::glue;
  for (const Json& split : json.at("splits")) out.splits.push_back(read_split(split));
  if (json.contains("range")) out.range = {json["range"][0].get<double>(), json["range"][1].get<double>()};
  for (const std::string_view name : names_in(json, "metrics")) out.metrics.push_back(metric_named(name).value());
  out.primary = out.metrics.back();
  return out;
}

}  // namespace

std::string_view name_of(Suite suite) noexcept {
  return suite == Suite::glue ? "glue" : "elue";
}

std::string_view name_of(Split split) noexcept {
  return split == Split::train ? "train" : split == Split::dev ? "dev" : "test";
}

Split split_named(std::string_view name) {
  if (name == "train") return Split::train;
  if (name == "dev" || name == "validation" || name == "eval") return Split::dev;
  if (name == "test") return Split::test;
  const std::vector<std::string> known = {"train", "dev", "test"};
  throw Error(Code::usage, fmt::format("unknown split '{}'", name), suggestion(name, known));
}

const SplitFile* Task::find(Split split) const noexcept {
  const auto found = std::find_if(splits.begin(), splits.end(), [&](const auto& file) { return file.split == split; });
  return found == splits.end() ? nullptr : &*found;
}

const std::vector<Task>& all_tasks() {
  static const std::vector<Task> tasks = [] {
    std::vector<Task> out;
    for (const Json& task : table()) out.push_back(read_task(task));
    return out;
  }();
  return tasks;
}

std::string plain_name(std::string_view name) {
  std::string out = lower(name);
  std::erase_if(out, [](char c) { return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')); });
  return out;
}

const Task* find_task_or_null(std::string_view name) {
  std::string plain = plain_name(name);
  if (plain.starts_with("glue")) plain.erase(0, 4);
  for (const Task& task : all_tasks()) {
    if (plain == plain_name(task.name)) return &task;
    if (std::find(task.aliases.begin(), task.aliases.end(), plain) != task.aliases.end()) return &task;
  }
  return nullptr;
}

const Task& find_task(std::string_view name) {
  if (const Task* task = find_task_or_null(name)) return *task;
  // Compared as plain names, shown as the table spells them.
  std::vector<std::string> plain, shown;
  for (const Task& task : all_tasks()) {
    plain.push_back(plain_name(task.name));
    shown.emplace_back(task.name);
  }
  const std::string best = nearest(plain_name(name), plain);
  const auto place = std::find(plain.begin(), plain.end(), best);
  throw Error(Code::usage, fmt::format("unknown task '{}'", name),
              place == plain.end()
                  ? fmt::format("known: {}", fmt::join(shown, ", "))
                  : fmt::format("did you mean '{}'?", shown[static_cast<size_t>(place - plain.begin())]));
}

void require_task_labels(const Task& task, const std::vector<std::string>& labels) {
  for (const std::string& label : labels) {
    if (std::find(task.labels.begin(), task.labels.end(), label) != task.labels.end()) continue;
    throw Error(Code::bad_file,
                fmt::format("submission of {}: the model's label '{}' is not one of the task's", task.name, label),
                labels.size() == task.labels.size()
                    ? fmt::format("--labels {} renames the model's in this order", fmt::join(task.labels, ","))
                    : suggestion(label, task.labels));
  }
}

}  // namespace exeunt
