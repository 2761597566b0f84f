// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/submission.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/gunzip.h"
#include "exeunt/base/json.h"
#include "lab/built_in.h"

namespace exeunt {

namespace {

int64_t test_rows(const Task& task) {
  const SplitFile* test = task.find(Split::test);
  check(test != nullptr, "every task has a test split");
  return test->rows;
}

void check_answers(const TestAnswers& answers) {
  const Task& task = *answers.task;
  const int64_t rows = test_rows(task);
  if (static_cast<int64_t>(answers.predicted.size()) != rows) {
    throw Error(Code::bad_file,
                fmt::format("submission of {}: got {} predictions, want {}", task.name, answers.predicted.size(), rows),
                "the server wants one for every row of the complete test file");
  }
  if (task.regression() != answers.labels.empty()) {
    throw_bad_file(fmt::format("submission of {}", task.name), "got a {} model, want a {}",
                   answers.labels.empty() ? "regression" : "classification",
                   task.regression() ? "regression" : "classification");
  }
  require_task_labels(task, answers.labels);
}

// Label name or value of one prediction. The answers have passed check_answers.
std::string prediction_text(const TestAnswers& answers, size_t row) {
  const float value = answers.predicted[row];
  const Task& task = *answers.task;
  if (!std::isfinite(value))
    throw_bad_file(fmt::format("submission of {}", task.name), "prediction {} is {}", row, value);
  if (!task.regression()) {
    check(value >= 0 && value < static_cast<float>(answers.labels.size()), "a predicted label has a name");
    return answers.labels[static_cast<size_t>(value)];
  }
  return fmt::format("{:.3f}", std::clamp<double>(value, task.range->first, task.range->second));
}

TestAnswers constant_answers(const Task& task) {
  TestAnswers out{&task, task.labels, {}};
  const float value = task.regression() ? static_cast<float>(task.range->first) : 0;
  out.predicted.assign(static_cast<size_t>(test_rows(task)), value);
  return out;
}

// A line for each row, behind a header.
std::string table_of(std::string table, size_t rows, const std::function<std::string(size_t)>& line) {
  for (size_t row = 0; row < rows; ++row) table += line(row) + "\n";
  return table;
}

void check_run(const ElueRun& run) {
  check_answers(run.answers);
  check(run.tokens.size() == run.answers.predicted.size() && run.layers.size() == run.tokens.size(),
        "one length and one exit per example");
}

}  // namespace

std::string glue_table(const TestAnswers& answers) {
  check_answers(answers);
  return table_of("index\tprediction\n", answers.predicted.size(),
                  [&](size_t row) { return fmt::format("{}\t{}", row, prediction_text(answers, row)); });
}

GlueSubmission glue_submission(std::span<const TestAnswers> answers) {
  GlueSubmission out;
  std::vector<StoredFile> files;
  for (const TestAnswers& given : answers) {
    if (given.task->submission.empty()) {
      throw Error(Code::usage, fmt::format("task {} is not part of a GLUE submission", given.task->name));
    }
  }
  for (const Task& task : all_tasks()) {
    if (task.submission.empty()) continue;
    const auto mine = [&](const TestAnswers& given) { return given.task == &task; };
    const auto found = std::find_if(answers.begin(), answers.end(), mine);
    if (std::count_if(answers.begin(), answers.end(), mine) > 1) {
      throw Error(Code::usage, fmt::format("duplicate answers for task {}", task.name));
    }
    if (found == answers.end()) out.filled.emplace_back(task.submission);
    files.push_back(
        {std::string(task.submission), glue_table(found == answers.end() ? constant_answers(task) : *found)});
  }
  out.zip = zip_stored(files);
  return out;
}

std::vector<std::string> write_glue_submission(const std::filesystem::path& path,
                                               std::span<const TestAnswers> answers) {
  GlueSubmission submission = glue_submission(answers);
  write_atomically(path, submission.zip);
  return std::move(submission.filled);
}

std::string elue_modules(const ElueRun& run, size_t example) {
  return modules_run(run.exits, run.hidden, run.tokens[example], run.layers[example]);
}

std::string elue_table(const ElueRun& run) {
  check_run(run);
  return table_of("index\tpred\tmodules\n", run.tokens.size(), [&](size_t row) {
    return fmt::format("{}\t{}\t{}", row, prediction_text(run.answers, row), elue_modules(run, row));
  });
}

std::string elue_exit_layers(const ElueRun& run) {
  check_run(run);
  return table_of("index\texit_layer\n", run.layers.size(),
                  [&](size_t row) { return fmt::format("{}\t{}", row, run.layers[row]); });
}

std::string elue_lengths(const ElueRun& run) {
  check_run(run);
  return table_of("", run.layers.size(),
                  [&](size_t row) { return fmt::format("{}\t{}", run.tokens[row], run.layers[row]); });
}

namespace {

constexpr uint64_t kVersion = 10;      // the first version: stored files
constexpr uint64_t kFirstDate = 0x21;  // 1 January 1980 as DOS wrote dates

// Little-endian numbers, each with its width in bytes.
void put(std::string& out, std::initializer_list<std::pair<uint64_t, int>> numbers) {
  for (const auto& [value, bytes] : numbers)
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(static_cast<uint8_t>(value >> (8 * i))));
}

// The fields shared by a file's header and its directory entry: version, no flags, stored, midnight, date, checksum,
// size as stored and as it was, length of the name, no extra field.
void put_description(std::string& out, const StoredFile& file) {
  const uint64_t size = file.content.size(), crc = crc32(std::as_bytes(std::span(file.content)));
  put(out, {{kVersion, 2}, {0, 2}, {0, 2}, {0, 2}, {kFirstDate, 2}, {crc, 4}, {size, 4}, {size, 4}});
  put(out, {{file.name.size(), 2}, {0, 2}});
}

}  // namespace

std::string zip_stored(std::span<const StoredFile> files) {
  constexpr uint64_t kLimit = 0xFFFFFFFFU;  // larger files need zip64
  std::string out, directory;
  check(files.size() < 0xFFFFU, "a small archive");
  for (const StoredFile& file : files) {
    check(out.size() + file.content.size() + file.name.size() < kLimit - 1024, "an archive under 4 GiB");
    put(directory, {{0x02014B50, 4}, {kVersion, 2}});  // written by
    put_description(directory, file);
    // No comment, first disk, no internal and no external attributes, and where the file's header is.
    put(directory, {{0, 2}, {0, 2}, {0, 2}, {0, 4}, {out.size(), 4}});
    directory += file.name;
    put(out, {{0x04034B50, 4}});
    put_description(out, file);
    out += file.name + file.content;
  }
  const uint64_t begin = out.size(), count = files.size();
  out += directory;
  // This disk and the directory's, files on it and in all, size and place of the directory, no comment.
  put(out, {{0x06054B50, 4}, {0, 4}, {count, 2}, {count, 2}, {directory.size(), 4}, {begin, 4}, {0, 2}});
  return out;
}

std::string elue_module_file(const ModelSpec& spec, const ExitLayout& exits) {
  if (exits.readers() > 0 || exits.ngrams)
    throw Error(Code::usage, "ELUE's module file: the model's exits have readers, or one is before the first layer");
  OrderedJson model;
  model["vocabulary"] = spec.vocab;
  model["positions"] = spec.positions;
  model["position_offset"] = spec.position_offset;
  model["segments"] = spec.segments;
  model["embedding"] = spec.embedding;
  model["embedding_projection"] = spec.embedding_projection ? 1 : 0;  // Python does not know JSON's "true"
  model["hidden"] = spec.hidden;
  model["heads"] = spec.heads;
  model["inner"] = spec.inner;
  model["pooled"] = exits.width;
  model["outputs"] = exits.outputs;
  model["layers"] = OrderedJson::array();
  for (int layer = 0; layer < spec.layers; ++layer) model["layers"].push_back(spec.weights_of(layer));
  std::string sites;
  for (const ExitSite& site : exits.sites) {
    sites += fmt::format("    ({}, {}, {}),\n", site.after, site.pooler ? std::to_string(*site.pooler) : "None",
                         site.classifier);
  }
  return fmt::format(
      "MODEL = {}\nMODEL[\"classifier_inner\"] = {}\nMODEL[\"exits\"] = [  # layer, pooler, classifier\n{}]\n{}",
      model.dump(), exits.inner ? std::to_string(*exits.inner) : "None", sites, elue_file("elue_modules.py"));
}

}  // namespace exeunt
