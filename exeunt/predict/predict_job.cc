// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/predict_job.h"

#include <deque>
#include <memory>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/eval/label_names.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/predict/keep_if.h"
#include "exeunt/predict/shards.h"

namespace exeunt {
namespace {

// The texts: a file or a pipe read piece by piece, or a split of a task.
struct TextFeed {
  std::unique_ptr<TextStream> stream = {};
  Dataset data = {};
  size_t at = 0;

  explicit TextFeed(const PredictJob& job) {
    if (!job.texts.empty()) {
      if (job.file != "-" || !job.data.task.empty())
        throw Error(Code::usage, "got both texts and a file, want one of them");
      if (!job.columns.keep.empty()) throw Error(Code::usage, "--keep goes with a file");
      for (const std::string& text : job.texts) {
        data.examples.push_back({.text = text, .pair = {}, .index = static_cast<int64_t>(data.examples.size())});
      }
      return;
    }
    if (job.data.task.empty()) {
      if (!job.data.path.empty()) {
        throw Error(Code::usage, "--data goes with --task", "name a file of your own behind the model, without a flag");
      }
      stream = std::make_unique<TextStream>(job.file, job.columns);
      return;
    }
    if (job.data.path.empty()) throw Error(Code::usage, "--data is required with --task", "name the data folder");
    if (job.file != "-") throw Error(Code::usage, "got both a file and --task, want one of them");
    if (!job.columns.keep.empty()) throw Error(Code::usage, "--keep goes with a file");
    data = read_split(find_task(job.data.task), split_named(job.data.split), job.data.path);
  }

  bool next(TextRow& row) {
    if (stream) return stream->next(row);
    if (at == data.examples.size()) return false;
    const Example& example = data.examples[at++];
    row = {.text = example.text,
           .pair = example.pair,
           .index = example.index,
           .place = data.task.empty() ? fmt::format("--text {}", example.index + 1)
                                      : fmt::format("{} {}: row {}", data.task, data.split, example.index)};
    return true;
  }
  [[nodiscard]] std::string sha256() const { return stream ? stream->sha256() : data.sha256; }
  // How far it goes, in bytes or rows; 0 = not known.
  [[nodiscard]] int64_t size() const {
    return stream ? stream->size().value_or(0) : static_cast<int64_t>(data.examples.size());
  }
};

// A table in a pipe has no file extension to tell its format.
bool looks_like_header(const TextRow& row, const PredictJob& job) {
  if (row.index != 0 || job.columns.form || job.file != "-") return false;
  for (const char separator : {',', '\t', ';'}) {
    if (row.text.find(separator) == std::string::npos) continue;
    const std::string fenced = separator + row.text + separator;
    if (fenced.find(separator + job.columns.text + separator) != std::string::npos) return true;
  }
  return false;
}

ShardInfo shard_info(const PredictJob& job, const AnswerLines& lines, Classifier& classifier) {
  return {.shard = *job.shard,
          .form = std::string(word_of(job.form)),
          .head = lines.head(),
          .weights = weights_sha256(classifier.checkpoint()),
          .policy = str(classifier.policy()),
          .precision = std::string(name_of(classifier.engine().precision())),
          .engine = classifier.engine().name(),
          .max_length = classifier.encode_options().max_length,
          .keep = job.columns.keep,
          .keep_if = job.keep_if.empty() ? std::nullopt : std::optional(job.keep_if)};
}

std::optional<KeepIf> keep_if_of(const PredictJob& job, const Classifier& classifier, std::vector<std::string> labels) {
  if (job.keep_if.empty()) return std::nullopt;
  if (job.form == AnswerForm::glue || job.form == AnswerForm::elue)
    throw Error(Code::usage, "--keep-if: a file for a server has an answer for every row", "omit --keep-if");
  OutputSpec outputs = classifier.checkpoint().exits();
  outputs.labels = std::move(labels);
  return KeepIf(job.keep_if, std::move(outputs));
}

// The labels to write. In a file for a server, each must be one of the task's.
std::vector<std::string> written_labels(const PredictJob& job, const Classifier& classifier, const Dataset& data,
                                        const Observer& observer) {
  const Checkpoint& model = classifier.checkpoint();
  Dataset names;  // of the data, without its gold: answers under other names are still answers
  names.task = data.task;
  names.labels = data.labels;
  names.problem = data.problem;
  std::vector<std::string> labels =
      label_names(model.exits(), model.spec().family, job.data.columns.labels, names, observer);
  const bool submission = job.form == AnswerForm::glue || job.form == AnswerForm::elue;
  if (submission && !data.task.empty()) require_task_labels(find_task(data.task), labels);
  return labels;
}

}  // namespace

PredictSummary run_predict_job(const PredictJob& job, const std::function<void(std::string_view)>& sink,
                               const Observer& observer) {
  Classifier classifier(job.model, job.classifier);  // before the first text is waited for
  TextFeed source(job);
  observer.notices(classifier.notices());
  const std::vector<std::string> labels = written_labels(job, classifier, source.data, observer);
  const std::optional<KeepIf> keep_if = keep_if_of(job, classifier, labels);
  const AnswerLines lines(job.form, classifier.checkpoint(), classifier.ask().policy->bound, labels, job.columns.keep);
  // Held back until the first answer, so that a bad file prints nothing.
  std::string head = job.shard ? shard_first_line(shard_info(job, lines, classifier)) : lines.head();
  Progress progress("predict", source.size(), observer.progress);
  int64_t answered = 0, done = 0;
  std::deque<std::pair<int64_t, int64_t>> read;  // rows without an answer yet, and where the file was read to then
  PredictSummary summary{.layers = classifier.checkpoint().spec().layers,
                         .max_length = classifier.encode_options().max_length};
  summary.counts = predict(
      classifier, {.strict = job.strict,
                   .answer_blank = !job.strict && job.form != AnswerForm::glue && job.form != AnswerForm::elue,
                   .shard = job.shard.value_or(Shard{}),
                   .next =
                       [&](TextRow& row) {
                         const bool more = source.next(row);
                         if (more && source.stream && looks_like_header(row, job)) {
                           observer.notice(fmt::format(
                               "{}: looks like the header of a table; --format csv or tsv reads one", row.place));
                         }
                         if (more && source.stream) read.emplace_back(row.index, source.stream->bytes_read());
                         return more;
                       },
                   .answered =
                       [&](const Prediction& text) {
                         if (!keep_if || (!text.blank && (*keep_if)(text.answer))) {
                           sink(std::exchange(head, {}) + lines.line(text));
                           ++summary.written;
                         }
                         ++answered;
                         const int64_t before = done;
                         for (; !read.empty() && read.front().first <= text.index; read.pop_front())
                           done = read.front().second;
                         const bool by_bytes = source.stream && source.size() > 0;
                         progress.advance(by_bytes ? done - before : 1, fmt::format("{} texts", answered));
                       }});
  sink(head);
  if (job.shard) {
    sink(shard_last_line({.rows = summary.counts.rows,
                          .data = source.sha256(),
                          .kept = keep_if ? std::optional(summary.written) : std::nullopt}));
  }
  return summary;
}

}  // namespace exeunt
