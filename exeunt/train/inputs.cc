// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/inputs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/data/inspect.h"
#include "exeunt/data/task.h"
#include "exeunt/model/schema.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt {
namespace {

struct Texts {
  Dataset train, eval, certify;
};

// Rows held out from a file without evaluation data.
void hold_rows_out(const TrainingSource& source, const Notice& notice, Texts& texts) {
  if (source.hold_out == 0 || !texts.train.labelled) return;
  if (texts.train.examples.size() < kLeastToHoldOut) {
    notice(fmt::format("{}: {} rows are too few to hold any out; training on all of them", source.data,
                       texts.train.examples.size()));
    return;
  }
  HeldOut held = hold_out(texts.train, source.hold_out);
  texts.eval = std::move(held.eval);
  texts.certify = std::move(held.certify);
  if (texts.certify.examples.empty()) {
    notice(fmt::format("{}: no label has enough rows to hold any out; training on all {}", source.data,
                       texts.train.examples.size()));
  }
}

// Nearly as many labels as rows: the column is probably one of numbers or texts, not of classes.
void question_labels(const TrainingSource& source, const Notice& notice, const Dataset& data) {
  if (data.problem == Problem::regression || data.labels.size() < 3 || 2 * data.labels.size() <= data.examples.size())
    return;
  std::string text = fmt::format("{}: {} different labels in {} rows: is '{}' the right --label-column?", source.data,
                                 data.labels.size(), data.examples.size(), source.columns.label);
  if (!data.columns.empty()) text += fmt::format(" The file has {}", fmt::join(data.columns, ", "));
  notice(text);
}

Texts read_texts(const TrainingSource& source, const Notice& notice, const Task* task) {
  Texts texts;
  if (task != nullptr) {
    texts.train = read_split(*task, Split::train, source.data);
    texts.eval = read_split(*task, Split::dev, source.data);
  } else {
    UserColumns columns = source.columns;
    texts.train = read_user_data(source.data, columns);
    for (const std::string& text : texts.train.notices) notice(text);
    if (source.columns.labels.empty()) question_labels(source, notice, texts.train);
    for (const std::string& text : warnings_of(inspect(texts.train), texts.train, DataUse::learn)) notice(text);
    columns.labels = texts.train.labels;
    columns.problem = texts.train.problem;
    if (!source.eval_data.empty()) {
      texts.eval = read_user_data(source.eval_data, columns);
      for (const std::string& text : texts.eval.notices) notice(text);
      for (const std::string& text : warnings_of(inspect(texts.eval), texts.eval, DataUse::measure)) notice(text);
      if (const int64_t shared = shared_rows(texts.train, texts.eval); shared > 0) {
        notice(fmt::format("{}: {} of {} rows are in {}, too: scores on rows that were learned are too good",
                           source.eval_data, shared, texts.eval.examples.size(), source.data));
      }
    }
  }
  if (source.limit > 0 && static_cast<int64_t>(texts.train.examples.size()) > source.limit) {
    texts.train.examples.resize(static_cast<size_t>(source.limit));
  }
  if (task == nullptr && source.eval_data.empty()) hold_rows_out(source, notice, texts);
  return texts;
}

// A second segment shows them; models without segments (RoBERTa) show none.
bool shows_pairs(const Features& rows) {
  return std::find(rows.types.begin(), rows.types.end(), 1) != rows.types.end();
}

void require_labels(const Features& features, const std::string& where) {
  if (features.rows() == 0) throw Error(Code::bad_file, fmt::format("{}: got no rows, want at least one", where));
  for (size_t row = 0; row < features.rows(); ++row) {
    if (std::isnan(features.gold[row])) {
      throw Error(Code::bad_file, fmt::format("{}: row {} has no label", where, features.index[row]),
                  "training needs a label in every row");
    }
  }
}

void require_same_labels(const Features& features, const Features& train, const std::string& where) {
  if (features.info.labels != train.info.labels)
    throw Error(Code::bad_file, fmt::format("{}: its labels are not those of the training features", where));
  if (features.rows() > 0 && features.sets.empty() != train.sets.empty()) {
    throw Error(Code::bad_file, fmt::format("{}: its rows have {}, and those of the training features {}", where,
                                            features.sets.empty() ? "one label" : "several labels at once",
                                            features.sets.empty() ? "several at once" : "one"));
  }
}

std::vector<Metric> metrics_of(const TrainingData& data) {
  const Task* known = find_task_or_null(data.task);
  if (known != nullptr) return known->metrics;
  return default_metrics(data.outcome.problem, data.outcome.labels.size());
}

// Tasks are truncated where the papers truncate them.
int length_for(const TrainingSource& source, const Dataset& data, const Tokenizer& tokenizer, int positions) {
  if (source.max_length > 0) return std::min(source.max_length, positions);
  if (!source.task.empty()) return std::min(kLeastLength, positions);
  return max_length_for(text_lengths(data, tokenizer), positions);
}

// The texts of feature files are not known: for a baseline each token is a word, and no two tokens are the same one.
// Three bytes that are no ASCII, so that little else is shared by two of them.
Dataset words_of(const Features& features, const OutputSpec& outcome) {
  Dataset out;
  out.labelled = true;
  out.problem = outcome.problem;
  out.labels = outcome.labels;
  for (size_t row = 0; row < features.rows(); ++row) {
    Example example;
    example.gold = features.gold[row];
    for (size_t token = 0; token < features.length(row); ++token) {
      const auto id = static_cast<uint32_t>(features.ids_of(row)[token]);
      if (features.types_of(row)[token] == 1 && !example.pair) example.pair.emplace();
      std::string& text = example.pair ? *example.pair : example.text;
      for (const uint32_t shift : {0, 7, 14}) text.push_back(static_cast<char>(0x80U | ((id >> shift) & 0x7fU)));
      text.push_back(' ');
    }
    for (size_t label = 0; out.problem == Problem::multi_label && label < out.labels.size(); ++label) {
      if (features.sets[row * out.labels.size() + label] == 1) example.given.push_back(static_cast<int>(label));
    }
    out.examples.push_back(std::move(example));
  }
  return out;
}

// Feature files need no tokenizer and no texts; everything else goes through the model's own.
void load_features(const TrainingSource& source, const Notice& notice, const Checkpoint& model, LoadedData& loaded) {
  TrainingData& data = loaded.data;
  const Task* task = source.task.empty() ? nullptr : &find_task(source.task);
  if (!source.train_features.empty()) {
    data.train = read_features(source.train_features);
    if (!source.eval_features.empty()) data.eval = read_features(source.eval_features);
    data.outcome.labels = data.train.info.labels;
    data.outcome.problem = !data.train.sets.empty()      ? Problem::multi_label
                           : data.outcome.labels.empty() ? Problem::regression
                                                         : Problem::classification;
    if (!data.eval.info.labels.empty()) require_same_labels(data.eval, data.train, source.eval_features);
    data.task = data.train.info.task;
    data.of_pairs = shows_pairs(data.train);
    if (const Task* known = find_task_or_null(data.task)) data.outcome.range = known->range;
    return;
  }
  if (source.data.empty()) {
    throw Error(Code::usage, "--data is required",
                "name a data folder with --task and --data, or a file of your own with --data");
  }
  Texts texts = read_texts(source, notice, task);
  loaded.user_file = task == nullptr;
  if (loaded.user_file) data.columns = source.columns;
  loaded.held_out_rows = texts.certify.examples.size();
  loaded.hold_out = source.hold_out * 2 / 3;
  if (loaded.held_out_rows > 0) loaded.held_out = held_out_text(texts.certify);
  data.outcome.problem = texts.train.problem;
  data.outcome.labels = texts.train.labels;
  data.outcome.range = texts.train.range;
  data.task = texts.train.task;
  data.of_pairs = !texts.train.examples.empty() && texts.train.examples.front().pair.has_value();
  const auto tokenizer = load_tokenizer(model.folder());
  const FeatureOptions options{.max_length = length_for(source, texts.train, *tokenizer, model.spec().max_tokens()),
                               .threads = source.threads,
                               .tokenizer = tokenizer_sha256(model.folder())};
  data.train = make_features(texts.train, *tokenizer, options);
  if (data.train.truncated > 0) {
    notice(fmt::format("{}: {}{}", source.data, truncation_text(data.train),
                       options.max_length < model.spec().max_tokens() ? "; raise --max-length" : ""));
  }
  if (task != nullptr && task->name == "MNLI" && find_split(find_task("MNLI-mm"), Split::dev, source.data)) {
    const Dataset other = read_split(find_task("MNLI-mm"), Split::dev, source.data);
    data.also.push_back({.name = "mm", .features = make_features(other, *tokenizer, options)});
  }
  if (texts.eval.examples.empty()) return;
  data.eval = make_features(texts.eval, *tokenizer, options);
  if (texts.train.labelled && texts.eval.labelled) data.baseline = baseline(texts.train, texts.eval, metrics_of(data));
}

// The feature files of --also, which must have the same labels.
void load_also(const TrainingSource& source, TrainingData& data) {
  for (const std::string& text : source.also) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      throw Error(Code::usage, fmt::format("--also: got '{}', want NAME=FILE, e.g. held-out=rows.safetensors", text));
    }
    ExtraSet set{.name = text.substr(0, equals), .features = read_features(text.substr(equals + 1))};
    if (set.name.find('/') != std::string::npos) {
      throw Error(Code::usage, fmt::format("--also: got the name '{}', want one without '/'", set.name));
    }
    require_same_labels(set.features, data.train, text.substr(equals + 1));
    require_labels(set.features, text.substr(equals + 1));
    data.also.push_back(std::move(set));
  }
}

}  // namespace

TrainingFacts TrainingData::facts() const {
  const auto rows = static_cast<int64_t>(train.rows());
  return {.task = task,
          .problem = outcome.problem,
          .rows = rows,
          .labels = static_cast<int64_t>(outcome.labels.size()),
          .pairs = shows_pairs(train) ? rows : 0,
          .of_pairs = of_pairs};
}

LoadedData load_training(const TrainingSource& source, const Checkpoint& model, const Notice& notice) {
  LoadedData loaded;
  TrainingData& data = loaded.data;
  load_features(source, notice, model, loaded);
  require_labels(data.train, source.train_features.empty() ? source.data : source.train_features);
  if (data.eval.rows() > 0) require_labels(data.eval, "evaluation data");
  load_also(source, data);
  const Task* known = find_task_or_null(data.task);
  data.metrics = metrics_of(data);
  data.primary = known != nullptr ? known->primary : data.metrics.front();
  if (!source.train_features.empty() && data.eval.rows() > 0)
    data.baseline = baseline(words_of(data.train, data.outcome), words_of(data.eval, data.outcome), data.metrics);
  return loaded;
}

Checkpoint first_layers(const Checkpoint& base, int layers) {
  if (layers < 1 || layers > base.spec().layers) {
    throw Error(Code::usage,
                fmt::format("--layers: got {}, want 1 to {}, the layers of the model", layers, base.spec().layers));
  }
  ModelSpec spec = base.spec();
  // Groups of shared layers are spread over the depth, so a cut would change which layer uses which.
  if (spec.groups > 1 && layers != spec.layers) {
    throw Error(Code::usage,
                fmt::format("--layers: the model shares its layers in {} groups and cannot be truncated", spec.groups));
  }
  spec.layers = layers;
  TensorSet set;
  set.owners = base.tensors().owners;
  for (const TensorInfo& info : schema(spec, ExitLayout{})) {
    if (const TensorView* view = base.find(info.name)) set.tensors[info.name] = *view;
  }
  return {spec, ExitLayout{}, std::move(set), {.folder = base.folder(), .where = base.folder().string()}};
}

}  // namespace exeunt
