// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/task.h"

#include <algorithm>
#include <span>

#include <fmt/ranges.h>

#include "exeunt/base/ascii.h"
#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

using Labels = std::vector<std::string>;
using Metrics = std::vector<Metric>;

Labels binary() {
  return {"0", "1"};
}
Labels three_way() {
  return {"contradiction", "entailment", "neutral"};
}
Labels two_way() {
  return {"entailment", "not_entailment"};
}
Metrics paraphrase() {
  return {Metric::accuracy, Metric::f1, Metric::combined_score};
}
Metrics similarity() {
  return {Metric::pearson, Metric::spearmanr, Metric::combined_score};
}

// Rows of a split with one text, and of a split with two, as the tables below need them.
SplitFile single(Split split, int64_t rows, int text, Column label) {
  const std::string_view file = split == Split::train ? "train.tsv" : split == Split::dev ? "dev.tsv" : "test.tsv";
  return {
      .split = split, .file = file, .text = {{"sentence"}, text}, .pair = {}, .label = std::move(label), .rows = rows};
}

SplitFile paired(Split split, int64_t rows, Column first, Column second, Column label) {
  SplitFile out = single(split, rows, 0, std::move(label));
  out.text = std::move(first);
  out.pair = std::move(second);
  return out;
}

std::vector<SplitFile> sst2(int64_t train, int64_t dev, int64_t test) {
  return {single(Split::train, train, 0, {{"label"}, 1}), single(Split::dev, dev, 0, {{"label"}, 1}),
          single(Split::test, test, 1, {})};
}

std::vector<SplitFile> mrpc() {
  const Column first = {{"#1 String"}, 3}, second = {{"#2 String"}, 4}, label = {{"Quality"}, 0};
  return {paired(Split::train, 3668, first, second, label), paired(Split::dev, 408, first, second, label),
          paired(Split::test, 1725, first, second, {})};
}

std::vector<SplitFile> cola() {
  std::vector<SplitFile> out = {single(Split::train, 8551, 3, {{}, 1}), single(Split::dev, 1043, 3, {{}, 1}),
                                single(Split::test, 1063, 1, {})};
  out[0].header = out[1].header = false;
  return out;
}

std::vector<SplitFile> stsb() {
  const Column first = {{"sentence1"}, 7}, second = {{"sentence2"}, 8}, label = {{"score"}, kLastColumn};
  return {paired(Split::train, 5749, first, second, label), paired(Split::dev, 1500, first, second, label),
          paired(Split::test, 1379, first, second, {})};
}

std::vector<SplitFile> qqp() {
  const Column first = {{"question1"}, 3}, second = {{"question2"}, 4}, label = {{"is_duplicate"}, 5};
  std::vector<SplitFile> out = {paired(Split::train, 363846, first, second, label),
                                paired(Split::dev, 40430, first, second, label),
                                paired(Split::test, 390965, {{"question1"}, 1}, {{"question2"}, 2}, {})};
  out[0].slack = 24;  // 363,846 in QQP-clean.zip, 363,849 and 363,870 in its predecessors
  return out;
}

SplitFile mnli(Split split, std::string_view file, int64_t rows) {
  const Column label = split == Split::test ? Column{} : Column{{"gold_label"}, kLastColumn};
  SplitFile out = paired(split, rows, {{"sentence1"}, 8}, {{"sentence2"}, 9}, label);
  out.file = file;
  return out;
}

// QNLI, RTE and WNLI: an index, two texts, a label.
std::vector<SplitFile> indexed(std::string_view first, std::string_view second, const std::vector<int64_t>& rows) {
  const Column a = {{first}, 1}, b = {{second}, 2}, label = {{"label"}, kLastColumn};
  return {paired(Split::train, rows[0], a, b, label), paired(Split::dev, rows[1], a, b, label),
          paired(Split::test, rows[2], a, b, {})};
}

// ELUE's pairs: the texts first, the label last; in test files an index before them.
std::vector<SplitFile> elue_pairs(std::string_view first, std::string_view second, const std::vector<int64_t>& rows) {
  const Column label = {{"label", "score"}, kLastColumn};
  return {paired(Split::train, rows[0], {{first}, 0}, {{second}, 1}, label),
          paired(Split::dev, rows[1], {{first}, 0}, {{second}, 1}, label),
          paired(Split::test, rows[2], {{first}, 1}, {{second}, 2}, {})};
}

std::vector<Task> glue_tasks() {
  const Metrics matthews = {Metric::matthews_correlation};
  SplitFile diagnostic = paired(Split::test, 1104, {{"sentence1"}, 1}, {{"sentence2"}, 2}, {});
  diagnostic.file = "diagnostic.tsv";
  return {
      {.name = "CoLA", .splits = cola(), .labels = binary(), .metrics = matthews, .submission = "CoLA.tsv"},
      {.name = "SST-2",
       .aliases = {"sst"},
       .splits = sst2(67349, 872, 1821),
       .labels = binary(),
       .submission = "SST-2.tsv"},
      {.name = "MRPC", .splits = mrpc(), .labels = binary(), .metrics = paraphrase(), .submission = "MRPC.tsv"},
      {.name = "STS-B",
       .aliases = {"sts"},
       .splits = stsb(),
       .range = {{0, 5}},
       .metrics = similarity(),
       .submission = "STS-B.tsv"},
      {.name = "QQP",
       .splits = qqp(),
       .labels = binary(),
       .metrics = paraphrase(),
       .submission = "QQP.tsv",
       .skips_short_rows = true},
      {.name = "MNLI",
       .aliases = {"mnlim", "mnlimatched"},
       .splits = {mnli(Split::train, "train.tsv", 392702), mnli(Split::dev, "dev_matched.tsv", 9815),
                  mnli(Split::test, "test_matched.tsv", 9796)},
       .labels = three_way(),
       .submission = "MNLI-m.tsv"},
      {.name = "MNLI-mm",
       .aliases = {"mnlimismatched"},
       .folders = {"MNLI"},
       .splits = {mnli(Split::dev, "dev_mismatched.tsv", 9832), mnli(Split::test, "test_mismatched.tsv", 9847)},
       .labels = three_way(),
       .submission = "MNLI-mm.tsv",
       .model_of = "MNLI"},
      {.name = "QNLI",
       .splits = indexed("question", "sentence", {104743, 5463, 5463}),
       .labels = two_way(),
       .submission = "QNLI.tsv"},
      {.name = "RTE",
       .splits = indexed("sentence1", "sentence2", {2490, 277, 3000}),
       .labels = two_way(),
       .submission = "RTE.tsv"},
      {.name = "WNLI",
       .splits = indexed("sentence1", "sentence2", {635, 71, 146}),
       .labels = binary(),
       .submission = "WNLI.tsv"},
      {.name = "AX",
       .aliases = {"diagnostic"},
       .folders = {"MNLI", "AX", "diagnostic"},
       .splits = {diagnostic},
       .labels = three_way(),
       .metrics = matthews,
       .submission = "AX.tsv",
       .model_of = "MNLI"},
  };
}

std::vector<Task> elue_tasks() {
  return {
      {.name = "elue/SST-2", .aliases = {"eluesst"}, .splits = sst2(8544, 1101, 2210), .labels = binary()},
      {.name = "elue/IMDb", .aliases = {"imdb"}, .splits = sst2(20000, 5000, 25000), .labels = binary()},
      // The digits of SNLI are entailment, neutral, contradiction.
      {.name = "elue/SNLI",
       .aliases = {"snli"},
       .splits = elue_pairs("premise", "hypothesis", {549367, 9842, 9824}),
       .labels = {"0", "1", "2"}},
      {.name = "elue/SciTail",
       .aliases = {"scitail"},
       .splits = elue_pairs("premise", "hypothesis", {23596, 1304, 2126}),
       .labels = binary()},
      {.name = "elue/MRPC", .splits = mrpc(), .labels = binary(), .metrics = paraphrase()},
      {.name = "elue/STS-B",
       .aliases = {"eluests"},
       .splits = elue_pairs("sentence1", "sentence2", {5749, 1500, 1379}),
       .range = {{0, 5}},
       .metrics = similarity()},
  };
}

// Defaults: files are in a folder with the task's name, and the main metric is the last.
void complete(Task& task, Suite suite) {
  task.suite = suite;
  if (task.folders.empty()) task.folders = {task.name.substr(task.name.find('/') + 1)};
  if (task.metrics.empty()) task.metrics = {Metric::accuracy};
  task.primary = task.metrics.back();
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
  static const std::vector<Task> table = [] {
    std::vector<Task> out = glue_tasks();
    for (Task& task : out) complete(task, Suite::glue);
    for (Task& task : elue_tasks()) complete(out.emplace_back(std::move(task)), Suite::elue);
    return out;
  }();
  return table;
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
