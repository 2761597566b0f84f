// SPDX-License-Identifier: Apache-2.0
// `exeunt predict`: texts in, answers out. `exeunt merge`: parts of a job answered on several machines, made one.
#include <memory>

#include <unistd.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/utf8.h"
#include "exeunt/predict/predict_job.h"
#include "exeunt/predict/shards.h"

namespace exeunt::apps {
namespace {

struct PredictFlags {
  PredictJob job;
  std::string format, out, form, shard, keep;
};

// The form that is asked for, else what the output's ending says.
AnswerForm form_for(const Common& common, const PredictFlags& flags) {
  if (common.json) return AnswerForm::jsonl;
  if (!flags.form.empty()) return *named<AnswerForm>(flags.form);
  if (!other_format_hint(flags.out).empty()) {
    throw Error(Code::usage, fmt::format("--out {}: answers are written as .csv, .tsv or .jsonl", flags.out),
                "or say which with --output-format");
  }
  return answer_form_of(flags.out).value_or(AnswerForm::tsv);
}

// Where lines go: a file that appears whole at the end, or standard output.
class LineSink {
 public:
  explicit LineSink(const std::string& path) {
    if (!path.empty()) file_ = std::make_unique<AtomicFile>(path);
  }
  void write(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBuffer || file_ == nullptr) flush();
  }
  void commit() {
    flush();
    if (file_) file_->commit();
  }

 private:
  static constexpr size_t kBuffer = size_t{1} << 16;
  void flush() {
    if (file_) {
      file_->write(buffer_);
    } else {
      if (::isatty(STDOUT_FILENO) == 1) buffer_ = terminal_text(buffer_);
      std::fwrite(buffer_.data(), 1, buffer_.size(), stdout);  // finish_output() sees whether it worked
    }
    buffer_.clear();
  }
  std::unique_ptr<AtomicFile> file_ = {};
  std::string buffer_ = {};
};

void run(const Common& common, const PredictFlags& flags) {
  PredictJob job = flags.job;
  if (!flags.shard.empty()) job.shard = parse_shard(flags.shard);
  if (!flags.format.empty()) job.columns.form = named<DataFormat>(flags.format);
  job.form = form_for(common, flags);
  job.columns.keep = comma_list(flags.keep);
  // What is no file and has a blank is a text: exeunt predict MODEL 'A fine day'.
  if (job.file.find(' ') != std::string::npos && !path_exists(job.file)) {
    job.texts.insert(job.texts.begin(), job.file);
    job.file = "-";
  }
  LineSink sink(flags.out);
  const auto [counts, written, layers, max_length] = run_predict_job(
      job, [&](std::string_view text) { sink.write(text); }, observer(common));
  sink.commit();
  if (counts.truncated > 0) {
    notice(common,
           fmt::format("{} of {} texts were truncated to {} tokens", counts.truncated, counts.answered, max_length));
  }
  if (counts.blank > 0) {
    notice(common, fmt::format("{} of {} texts {} blank and without an answer", counts.blank,
                               counts.blank + counts.answered, counts.blank == 1 ? "is" : "are"));
  }
  if (flags.out.empty()) return;
  const double average =
      static_cast<double>(counts.layers) / static_cast<double>(std::max<int64_t>(counts.answered, 1));
  const std::string kept = job.keep_if.empty() ? "" : fmt::format("{} of ", written);
  notice(common, fmt::format("wrote {}: {}{} texts, {:.2f} of {} layers on average", flags.out, kept, counts.answered,
                             average, layers));
}

struct MergeFlags {
  std::vector<std::string> parts;
  std::string out;
};

void run_merge(const Common& common, const MergeFlags& flags) {
  LineSink sink(flags.out);
  const Merged merged =
      merge_shards({flags.parts.begin(), flags.parts.end()}, [&](std::string_view line) { sink.write(line); });
  sink.commit();
  for (const std::string& text : merged.notices) notice(common, text);
  if (common.json) return print_json({{"out", flags.out}, {"parts", merged.shards}, {"rows", merged.written}});
  fmt::print("wrote {}: {} rows from {} parts\n", flags.out, merged.written, merged.shards);
}

}  // namespace

void add_predict(CommandLine& line) {
  const auto flags = std::make_shared<PredictFlags>();
  flags->job.data.split = "test";
  CLI::App* verb =
      add_verb(line, "predict", "Run inference on texts, each exiting where its policy allows",
               {"exeunt predict models/sst2 reviews.txt", "exeunt predict models/sst2 'A delight.'",
                "exeunt predict models/sst2 reviews.csv --keep id,text --out answers.csv",
                "exeunt predict models/spam crawl.jsonl --keep url,text --keep-if 'label=spam' --out spam.jsonl",
                "exeunt predict models/mrpc pairs.csv --text-column a --pair-column b --out answers.tsv",
                "exeunt predict models/sst2 --task SST-2 --data glue_data --output-format glue --out SST-2.tsv",
                "exeunt predict models/sst2 huge.jsonl --shard 2/8 --out part2"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL", flags->job.model, "Model folder, or org/name in the local Hugging Face cache")->required();
  verb->add_option("FILE", flags->job.file,
                   "Texts: one per line, or CSV, TSV, JSONL, also .gz; - = standard input; or a text of several words")
      ->capture_default_str();
  verb->add_option("--text", flags->job.texts, "A text to classify, instead of FILE; repeatable")
      ->allow_extra_args(false);
  verb->add_option("--keep", flags->keep, "Comma-separated columns of FILE to copy to the output");
  verb->add_option("--keep-if", flags->job.keep_if,
                   "Write only answers that are so: label=NAME, NAME>=T (the label's score) or >=T (a value)");
  verb->add_option("--format", flags->format, "Format of FILE")
      ->default_str("by its extension")
      ->check(one_of({"text", "csv", "tsv", "jsonl"}));
  verb->add_option("--text-column", flags->job.columns.text, "Text column")->capture_default_str();
  verb->add_option("--pair-column", flags->job.columns.pair, "Column of the second text");
  add_separator_flag(*verb, [&columns = flags->job.columns](char separator) {
    columns.separator = separator;
    columns.form = DataFormat::csv;
  });
  verb->add_flag("--pair", flags->job.columns.tab_pair, "Plain text: each line holds two texts separated by a tab");
  verb->add_option("--task", flags->job.data.task, "Run on a split of a GLUE or ELUE task instead of FILE");
  verb->add_option("--data", flags->job.data.path, "With --task: the data folder");
  verb->add_option("--split", flags->job.data.split, "With --task: train, dev or test")->capture_default_str();
  add_labels_flag(*verb, flags->job.data.columns);
  verb->add_option("--policy", flags->job.classifier.policy, "Exit policy, or a policy file")
      ->default_str("the model's own");
  add_engine_flags(*verb, flags->job.classifier.engine);
  add_length_flag(*verb, flags->job.classifier.max_length);
  verb->add_flag(
      "--strict", flags->job.strict,
      "Refuse texts that are too long or blank instead of truncating them or leaving them without an answer");
  verb->add_option("--output-format", flags->form, "Output format: tsv, csv, jsonl (as --json), glue or elue")
      ->check(one_of({"tsv", "csv", "jsonl", "glue", "elue"}))
      ->default_str("by the extension of --out, else tsv");
  verb->add_option("--shard", flags->shard, "i/n: process this part of the rows; 'exeunt merge' joins them");
  verb->add_option("--out", flags->out, "Output file")->default_str("standard output");
}

void add_merge(CommandLine& line) {
  const auto flags = std::make_shared<MergeFlags>();
  CLI::App* verb =
      add_verb(line, "merge", "Merge the parts of 'predict --shard' and check that none is missing",
               {"exeunt merge part* --out answers.tsv"}, [flags, &common = line.common] { run_merge(common, *flags); });
  verb->add_option("PARTS", flags->parts, "Files of 'exeunt predict --shard', in any order")->required();
  verb->add_option("--out", flags->out, "Output file")->required();
}

}  // namespace exeunt::apps
