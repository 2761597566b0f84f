// SPDX-License-Identifier: Apache-2.0
// `exeunt predict`: texts in, answers out. `exeunt merge`: parts of a job answered on several machines, made one.
#include "exeunt/flows/predict.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/engine_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/base/progress.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/flows/answer_lines.h"
#include "exeunt/flows/shards.h"
#include "exeunt/model/own_folder.h"
#include "exeunt/runtime/classifier.h"
#include "exeunt/tasks/text_stream.h"

namespace exeunt::apps {
namespace {

struct PredictFlags {
  std::string model, file = "-", format, out, form = "tsv", shard, policy;
  std::string task, data, split = "test";
  TextColumns columns;
  EngineFlags engine;
  int max_length = 128;
  bool strict = false;
};

// The texts: a file or a pipe read piece by piece, or a split of a task.
struct Source {
  std::unique_ptr<TextStream> stream = {};
  Dataset data = {};
  size_t at = 0;

  bool next(TextRow& row) {
    if (stream) return stream->next(row);
    if (at == data.examples.size()) return false;
    const Example& example = data.examples[at++];
    row = {.text = example.text,
           .pair = example.pair,
           .index = example.index,
           .place = fmt::format("{} {}: row {}", data.task, data.split, example.index)};
    return true;
  }
  [[nodiscard]] std::string sha256() { return stream ? stream->sha256() : data.sha256; }
  // How far it is and how far it goes, in one unit; 0 = not known.
  [[nodiscard]] int64_t size() const {
    return stream ? stream->size().value_or(0) : static_cast<int64_t>(data.examples.size());
  }
};

Source open_source(const PredictFlags& flags) {
  Source source;
  if (!flags.task.empty()) {
    if (flags.data.empty()) throw Error(Code::usage, "--data is required with --task", "name the data folder");
    if (flags.file != "-") throw Error(Code::usage, "got both a file and --task, want one of them");
    source.data = read_split(find_task(flags.task), split_named(flags.split), flags.data);
    return source;
  }
  if (!flags.data.empty()) {
    throw Error(Code::usage, "--data goes with --task", "name a file of your own behind the model, without a flag");
  }
  TextColumns columns = flags.columns;
  if (!flags.format.empty()) columns.form = text_form_named(flags.format);
  source.stream = std::make_unique<TextStream>(flags.file, columns);
  return source;
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
      std::fwrite(buffer_.data(), 1, buffer_.size(), stdout);  // finish_output() sees whether it worked
    }
    buffer_.clear();
  }
  std::unique_ptr<AtomicFile> file_ = {};
  std::string buffer_ = {};
};

ShardInfo shard_info(const PredictFlags& flags, const Shard& shard, const AnswerLines& lines, Classifier& classifier) {
  return {.shard = shard,
          .form = flags.form,
          .head = lines.head(),
          .weights = weights_sha256(classifier.checkpoint()),
          .policy = str(classifier.policy()),
          .precision = std::string(name_of(classifier.engine().precision())),
          .engine = classifier.engine().name(),
          .max_length = classifier.encode_options().max_length};
}

void run(const Common& common, const PredictFlags& flags) {
  const bool sharded = !flags.shard.empty();
  const Shard shard = sharded ? parse_shard(flags.shard) : Shard{};
  const AnswerForm form = common.json ? AnswerForm::jsonl : *answer_form_named(flags.form);
  Source source = open_source(flags);
  Classifier classifier(flags.model,
                        {.engine = options_from(flags.engine), .policy = flags.policy, .max_length = flags.max_length});
  for (const std::string& text : classifier.notices()) notice(common, text);

  const Ask ask = classifier.ask();
  const AnswerLines lines(form, classifier.checkpoint(), ask.policy->bound);
  LineSink sink(flags.out);
  // Held back until the first answer, so that a bad file prints nothing.
  std::string head = sharded ? shard_first_line(shard_info(flags, shard, lines, classifier)) : lines.head();
  Progress progress("predict", source.size(), progress_on_stderr(common.quiet));
  int64_t answered = 0, shown = 0;
  const PredictCounts counts =
      predict(classifier.engine(), classifier.tokenizer(),
              {.ask = ask,
               .encode = classifier.encode_options(),
               .strict = flags.strict,
               .shard = shard,
               .next = [&](TextRow& row) { return source.next(row); },
               .answered =
                   [&](const Prediction& text) {
                     sink.write(std::exchange(head, {}) + lines.line(text));
                     ++answered;
                     const int64_t done = source.stream ? source.stream->bytes_read() : answered;
                     progress.advance(source.size() > 0 ? done - shown : 1, fmt::format("{} texts", answered));
                     shown = done;
                   }});
  sink.write(head);
  if (sharded) sink.write(shard_last_line(counts.rows, source.sha256()));
  sink.commit();
  if (counts.truncated > 0) {
    notice(common, fmt::format("{} of {} texts were longer than {} tokens and were cut", counts.truncated,
                               counts.answered, classifier.encode_options().max_length));
  }
  if (!flags.out.empty()) {
    const double layers =
        static_cast<double>(counts.layers) / static_cast<double>(std::max<int64_t>(counts.answered, 1));
    notice(common, fmt::format("wrote {}: {} texts, {:.2f} of {} layers on average", flags.out, counts.answered, layers,
                               classifier.checkpoint().spec().layers));
  }
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
  if (common.json) return print_json({{"out", flags.out}, {"parts", merged.shards}, {"rows", merged.rows}});
  fmt::print("wrote {}: {} rows from {} parts\n", flags.out, merged.rows, merged.shards);
}

}  // namespace

void add_predict(CommandLine& line) {
  const auto flags = std::make_shared<PredictFlags>();
  CLI::App* verb =
      add_verb(line, "predict", "Answer texts, each leaving at the layer where the policy is sure",
               {"exeunt predict models/sst2 reviews.txt", "echo 'A delight.' | exeunt predict models/sst2 --json",
                "exeunt predict models/mrpc pairs.csv --text-column a --pair-column b --out answers.tsv",
                "exeunt predict models/sst2 --task SST-2 --data glue_data --form glue --out SST-2.tsv",
                "exeunt predict models/sst2 huge.jsonl --shard 2/8 --out part2"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL", flags->model, "Model folder, or org/name in the local Hugging Face cache")->required();
  verb->add_option("FILE", flags->file, "Texts: a line each, or CSV, TSV, JSONL; - = standard input")
      ->capture_default_str();
  verb->add_option("--format", flags->format, "Of FILE; by its ending if left out")
      ->check(CLI::IsMember({"text", "csv", "tsv", "jsonl"}));
  verb->add_option("--text-column", flags->columns.text, "Column of the text")->capture_default_str();
  verb->add_option("--pair-column", flags->columns.pair, "Column of the second text");
  add_separator_flag(*verb, [&columns = flags->columns](char separator) {
    columns.separator = separator;
    columns.form = TextForm::csv;
  });
  verb->add_flag("--pair", flags->columns.tab_pair, "Lines of text: each holds two, with a tab between them");
  verb->add_option("--task", flags->task, "Answer a split of a GLUE or ELUE task instead of FILE");
  verb->add_option("--data", flags->data, "With --task: the data folder");
  verb->add_option("--split", flags->split, "With --task: train, dev or test")->capture_default_str();
  verb->add_option("--policy", flags->policy, "When to leave, or a policy file; the model's own if left out");
  add_engine_flags(*verb, flags->engine);
  verb->add_option("--max-length", flags->max_length, "Most tokens of a text; longer ones are cut")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  verb->add_flag("--strict", flags->strict, "Refuse texts that are too long instead of cutting them");
  verb->add_option("--form", flags->form, "Of the answers: tsv, jsonl (also --json), glue or elue")
      ->check(CLI::IsMember({"tsv", "jsonl", "glue", "elue"}))
      ->capture_default_str();
  verb->add_option("--shard", flags->shard, "i/n: answer this part of the rows; 'exeunt merge' joins them");
  verb->add_option("--out", flags->out, "File to write; standard output if left out");
}

void add_merge(CommandLine& line) {
  const auto flags = std::make_shared<MergeFlags>();
  CLI::App* verb =
      add_verb(line, "merge", "Join the parts of 'predict --shard', checking that none is missing",
               {"exeunt merge part* --out answers.tsv"}, [flags, &common = line.common] { run_merge(common, *flags); });
  verb->add_option("PARTS", flags->parts, "Files of 'exeunt predict --shard', in any order")->required();
  verb->add_option("--out", flags->out, "File to write")->required();
}

}  // namespace exeunt::apps
