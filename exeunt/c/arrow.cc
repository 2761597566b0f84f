// SPDX-License-Identifier: Apache-2.0
// Arrow's C data interface: record batches in, the same batches with the answers' columns out. Texts are read where
// they lie, and the columns that come in are handed on as they are.
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "exeunt/c/handle.h"

using namespace exeunt::c;

namespace {

using exeunt::ClassifierAnswer;
using exeunt::ClassifierText;
using exeunt::Code;
using exeunt::Error;
using exeunt::ExitLayout;
using exeunt::Problem;

constexpr int64_t kPart = 16384;             // texts that are answered at once, whatever the batch's size
constexpr const char* kTextColumn = "text";  // the column, unless another one is named
constexpr size_t kViewBytes = 16, kInlineBytes = 12;

// An ArrowSchema, ArrowArray or ArrowArrayStream that is released at the end, unless it was taken.
template <class Struct>
struct Owned {
  Struct value = {};
  Owned() = default;
  explicit Owned(Struct* given) : value(*given) { given->release = nullptr; }  // moved, as the interface has it
  Owned(Owned&& other) noexcept : Owned(&other.value) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (value.release != nullptr) value.release(&value);
  }
  Struct take() { return std::exchange(value, Struct{}); }
};

// A child of what came in, handed on. It keeps the whole, because the children of some producers need their parents.
template <class Struct>
Struct handed_on(const std::shared_ptr<Owned<Struct>>& whole, Struct child) {
  child.private_data = new std::shared_ptr<Owned<Struct>>(whole);
  child.release = [](Struct* given) {
    delete static_cast<std::shared_ptr<Owned<Struct>>*>(given->private_data);
    given->release = nullptr;
  };
  return child;
}

// What is behind the structs that are handed out, and goes with them. Children that the caller moved out are not there
// any more.
template <class Struct>
struct Parts {
  std::vector<Struct> children = {};
  std::vector<Struct*> pointers = {};
  std::vector<std::shared_ptr<const void>> keep = {};
  std::vector<const void*> buffers = {};

  Parts() = default;
  Parts(Parts&&) noexcept = default;
  Parts& operator=(Parts&&) = delete;
  ~Parts() {
    for (Struct& child : children) {
      if (child.release != nullptr) child.release(&child);
    }
  }
  static void release(Struct* given) {
    delete static_cast<Parts*>(given->private_data);
    given->release = nullptr;
  }
  Struct into(Struct out) && {
    for (Struct& child : children) pointers.push_back(&child);
    out.n_children = static_cast<int64_t>(children.size());
    auto parts = std::make_unique<Parts>(std::move(*this));  // the children and buffers stay where they are
    out.children = parts->pointers.data();
    if constexpr (requires { out.buffers; }) {
      out.n_buffers = static_cast<int64_t>(parts->buffers.size());
      out.buffers = parts->buffers.data();
    }
    out.release = release;
    out.private_data = parts.release();
    return out;
  }
  template <class T>
  void add(std::vector<T> values) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    buffers.push_back(kept->data());
    keep.push_back(kept);
  }
};

using Schemas = Parts<ArrowSchema>;
using Arrays = Parts<ArrowArray>;

// `format` and `name` live as long as the program.
ArrowSchema schema_of(const char* format, const char* name, std::vector<ArrowSchema> children = {}) {
  Schemas parts;
  parts.children = std::move(children);
  ArrowSchema out = {};
  out.format = format;
  out.name = name;
  out.flags = ARROW_FLAG_NULLABLE;
  return std::move(parts).into(out);
}

std::vector<ArrowSchema> schemas_of_columns(Problem problem) {
  std::vector<ArrowSchema> out;
  switch (problem) {
    case Problem::classification:
      out = {schema_of("u", "label"), schema_of("f", "score")};
      break;
    case Problem::multi_label:
      out = {schema_of("+l", "labels", {schema_of("u", "item")}), schema_of("+l", "scores", {schema_of("f", "item")})};
      break;
    case Problem::regression:
      out = {schema_of("f", "value")};
      break;
  }
  out.push_back(schema_of("i", "exit_layer"));
  return out;
}

// The answers of a batch, as columns. A text that is blank or null has nulls.
class AnswerColumns {
 public:
  AnswerColumns(const ExitLayout& exits, int64_t rows)
      : exits_(exits), rows_(rows), valid_(static_cast<size_t>(rows + 7) / 8) {}

  void add(const ClassifierAnswer& said) {
    const auto row = static_cast<size_t>(layers_.size());
    layers_.push_back(said.answer.layer);
    if (said.blank) {
      ++nulls_;
      if (exits_.problem != Problem::multi_label) add_value({}, 0);
    } else {
      valid_[row / 8] = static_cast<uint8_t>(valid_[row / 8] | (1U << (row % 8)));
      if (exits_.problem == Problem::regression) {
        scores_.push_back(said.answer.evidence.value);
      } else {
        for (const int label : labels_of(exits_, said.answer.logits))
          add_value(exits_.label(label), said.answer.probabilities[static_cast<size_t>(label)]);
      }
    }
    lists_.push_back(static_cast<int32_t>(scores_.size()));
  }

  // In the order of schemas_of_columns().
  std::vector<ArrowArray> arrays() && {
    std::vector<ArrowArray> out;
    const auto values = static_cast<int64_t>(scores_.size());
    const bool multi_label = exits_.problem == Problem::multi_label;
    Arrays labels = column(!multi_label), scores = column(!multi_label);
    labels.add(std::move(ends_));
    labels.add(std::move(bytes_));
    scores.add(std::move(scores_));
    if (multi_label) {
      for (auto& [items, count] : {std::pair(&labels, values), std::pair(&scores, values)}) {
        Arrays list = column(true);
        list.add(lists_);
        list.children.push_back(std::move(*items).into(head(count, 0)));
        out.push_back(std::move(list).into(head(rows_, nulls_)));
      }
    } else {
      if (exits_.problem == Problem::classification) out.push_back(std::move(labels).into(head(rows_, nulls_)));
      out.push_back(std::move(scores).into(head(rows_, nulls_)));
    }
    Arrays layers = column(true);
    layers.add(std::move(layers_));
    out.push_back(std::move(layers).into(head(rows_, nulls_)));
    return out;
  }

 private:
  void add_value(std::string_view label, float score) {
    scores_.push_back(score);
    bytes_.insert(bytes_.end(), label.begin(), label.end());
    require(bytes_.size() <= std::numeric_limits<int32_t>::max(), "arrow: a batch has too many rows for its labels");
    ends_.push_back(static_cast<int32_t>(bytes_.size()));
  }
  [[nodiscard]] Arrays column(bool with_nulls) const {
    Arrays out;
    if (with_nulls && nulls_ > 0) {
      out.add(valid_);
    } else {
      out.buffers.push_back(nullptr);
    }
    return out;
  }
  static ArrowArray head(int64_t length, int64_t nulls) {
    ArrowArray out = {};
    out.length = length;
    out.null_count = nulls;
    return out;
  }

  const ExitLayout& exits_;
  int64_t rows_, nulls_ = 0;
  std::vector<uint8_t> valid_;  // a bit for each row
  std::vector<int32_t> layers_ = {}, ends_{0}, lists_{0};
  std::vector<char> bytes_ = {};
  std::vector<float> scores_ = {};
};

bool has_bit(const void* bits, int64_t at) {
  return (static_cast<const uint8_t*>(bits)[at / 8] >> (at % 8) & 1) != 0;
}

template <class Offset>
std::string_view string_at(const ArrowArray& array, int64_t at) {
  const auto* ends = static_cast<const Offset*>(array.buffers[1]) + at;
  require(ends[0] >= 0 && ends[1] >= ends[0], "arrow: offsets of strings must not decrease");
  if (ends[0] == ends[1]) return {};
  return {static_cast<const char*>(array.buffers[2]) + ends[0], static_cast<size_t>(ends[1] - ends[0])};
}

std::string_view view_at(const ArrowArray& array, int64_t at) {
  const char* view = static_cast<const char*>(array.buffers[1]) + static_cast<size_t>(at) * kViewBytes;
  int32_t size = 0, place[2] = {};  // the buffer, and where in it
  std::memcpy(&size, view, sizeof size);
  std::memcpy(place, view + 8, sizeof place);
  require(size >= 0, "arrow: a string has a negative length");
  if (static_cast<size_t>(size) <= kInlineBytes) return {view + 4, static_cast<size_t>(size)};
  const int64_t buffers = array.n_buffers - 3;
  const auto* sizes = static_cast<const int64_t*>(array.buffers[array.n_buffers - 1]);
  require(place[0] >= 0 && place[0] < buffers && place[1] >= 0 && place[1] <= sizes[place[0]] - size,
          "arrow: a string lies outside its buffer");
  return {static_cast<const char*>(array.buffers[2 + place[0]]) + place[1], static_cast<size_t>(size)};
}

// Where the texts are in a schema, and how they are stored.
struct TextPlace {
  int64_t child = -1;  // -1: the array itself
  int64_t children = 0;
  enum class Kind { small, large, views } kind = Kind::small;

  [[nodiscard]] std::string_view text(const ArrowArray& array, int64_t at) const {
    switch (kind) {
      case Kind::large:
        return string_at<int64_t>(array, at);
      case Kind::views:
        return view_at(array, at);
      case Kind::small:
        break;
    }
    return string_at<int32_t>(array, at);
  }
};

TextPlace place_of(const ArrowSchema& schema, std::string_view column, Problem problem) {
  require(schema.release != nullptr && schema.format != nullptr, "arrow: got a schema that was released");
  TextPlace out;
  const ArrowSchema* found = &schema;
  if (std::string_view(schema.format) == "+s") {
    out.children = schema.n_children;
    std::vector<std::string_view> names;
    Schemas ours;
    ours.children = schemas_of_columns(problem);
    for (int64_t i = 0; i < schema.n_children; ++i) {
      names.emplace_back(schema.children[i]->name == nullptr ? "" : schema.children[i]->name);
      if (names.back() == column) out.child = i;
      for (const ArrowSchema& one : ours.children) {
        if (names.back() == one.name)
          throw Error(Code::usage, fmt::format("arrow: got a column '{}', which is one of the answers'", one.name),
                      "rename it, or leave it out");
      }
    }
    if (out.child < 0)
      throw Error(Code::usage, fmt::format("arrow: got no column '{}'", column),
                  fmt::format("columns: {}", fmt::join(names, ", ")));
    found = schema.children[out.child];
  }
  const std::string_view format = found->dictionary == nullptr ? found->format : "dictionary";
  if (format == "U") out.kind = TextPlace::Kind::large;
  if (format == "vu") out.kind = TextPlace::Kind::views;
  if (format != "u" && format != "U" && format != "vu")
    throw Error(Code::usage, fmt::format("arrow: the texts have the type '{}', want strings (u, U or vu)", format),
                "cast the column to strings");
  return out;
}

void check_array(const ArrowArray& array, int64_t buffers, int64_t rows) {
  require(array.offset >= 0 && array.length >= rows && array.n_buffers >= buffers,
          "arrow: an array is shorter than its batch, or has another type than its schema");
  for (int64_t i = 1; i < buffers; ++i)
    require(rows == 0 || array.buffers[i] != nullptr || i == 2, "arrow: got an array without its buffers");
}

// The batch with the columns of its answers. `first`: how many rows came before, for messages.
ArrowArray answered(Model& model, const std::shared_ptr<const exeunt::BoundPolicy>& policy, const TextPlace& place,
                    Owned<ArrowArray> batch, int64_t first) {
  ArrowArray& top = batch.value;
  const bool table = place.child >= 0;
  require(top.length >= 0 && top.offset >= 0 && top.n_children == place.children,
          "arrow: a batch has other columns than its schema");
  const int64_t rows = top.length, skipped = table ? top.offset : 0;
  const ArrowArray& texts = table ? *top.children[place.child] : top;
  check_array(texts, 3, skipped + rows);
  for (int64_t i = 0; table && i < rows && top.n_buffers > 0 && top.buffers[0] != nullptr; ++i)
    require(has_bit(top.buffers[0], top.offset + i), "arrow: a row is null as a whole, want nulls in its columns");

  AnswerColumns columns(model.exits(), rows);
  std::vector<ClassifierText> part;
  for (int64_t row = 0; row < rows;) {
    part.clear();
    const int64_t begin = row;
    for (; row < rows && row < begin + kPart; ++row) {
      const int64_t at = texts.offset + skipped + row;
      const bool null = texts.buffers[0] != nullptr && !has_bit(texts.buffers[0], at);
      part.push_back({null ? std::string_view() : place.text(texts, at)});
    }
    for (const ClassifierAnswer& one : model.classifier.answer_all(part, {.policy = policy}, first + begin))
      columns.add(one);
  }

  Arrays out;
  out.buffers.push_back(nullptr);
  const auto whole = std::make_shared<Owned<ArrowArray>>(std::move(batch));
  for (int64_t i = 0; i < place.children; ++i) {
    ArrowArray child = *whole->value.children[i];
    require(child.length >= skipped + rows, "arrow: an array is shorter than its batch");
    if (child.null_count != 0 && child.length != rows) child.null_count = -1;
    child.offset += skipped;
    child.length = rows;
    out.children.push_back(handed_on(whole, child));
  }
  for (ArrowArray& column : std::move(columns).arrays()) out.children.push_back(column);
  ArrowArray head = {};
  head.length = rows;
  return std::move(out).into(head);
}

ArrowSchema answered_schema(Owned<ArrowSchema> schema, const TextPlace& place, Problem problem) {
  std::vector<ArrowSchema> columns;
  const auto whole = std::make_shared<Owned<ArrowSchema>>(std::move(schema));
  for (int64_t i = 0; i < place.children; ++i) columns.push_back(handed_on(whole, *whole->value.children[i]));
  for (ArrowSchema& column : schemas_of_columns(problem)) columns.push_back(column);
  ArrowSchema out = schema_of("+s", "", std::move(columns));
  out.flags = 0;
  return out;
}

// Behind a stream of answers.
struct AnswerStream {
  std::shared_ptr<Model> model;
  std::shared_ptr<const exeunt::BoundPolicy> policy;
  std::string column;
  TextPlace place;
  Owned<ArrowArrayStream> in;
  std::string error = {};
  int64_t rows = 0;  // that were answered

  [[nodiscard]] Problem problem() const { return model->exits().problem; }
  int refuse_source(int status) {
    const char* reason = in.value.get_last_error(&in.value);
    error = reason == nullptr ? "the stream of texts failed" : reason;
    return status;
  }
  template <class Act>
  int run(Act&& act) {
    const exeunt_status status = guarded(act);
    if (status == EXEUNT_OK) return 0;
    error = last_error().message;
    if (!last_error().hint.empty()) error += "; hint: " + last_error().hint;
    return status == EXEUNT_RESOURCES ? ENOMEM : status == EXEUNT_FAILURE ? EIO : EINVAL;
  }
  int schema(ArrowSchema* out) {
    Owned<ArrowSchema> given;
    if (const int status = in.value.get_schema(&in.value, &given.value); status != 0) return refuse_source(status);
    return run([&] { *out = answered_schema(std::move(given), place_of(given.value, column, problem()), problem()); });
  }
  int next(ArrowArray* out) {
    *out = {};
    Owned<ArrowArray> batch;
    if (const int status = in.value.get_next(&in.value, &batch.value); status != 0) return refuse_source(status);
    if (batch.value.release == nullptr) return 0;  // the end
    const int64_t count = batch.value.length;
    const int status = run([&] { *out = answered(*model, policy, place, std::move(batch), rows); });
    rows += count;
    return status;
  }
};

AnswerStream& of(ArrowArrayStream* stream) {
  return *static_cast<AnswerStream*>(stream->private_data);
}

}  // namespace

exeunt_status exeunt_arrow_batch(exeunt_model* model, const char* policy, const char* column,
                                 struct ArrowSchema* schema, struct ArrowArray* batch, struct ArrowSchema* out_schema,
                                 struct ArrowArray* out) {
  return guarded([&] {
    require(model != nullptr && schema != nullptr && batch != nullptr && out_schema != nullptr && out != nullptr,
            "exeunt_arrow_batch: got a null pointer, want a model, a batch, its schema, and places for both to come");
    Owned<ArrowSchema> type(schema);
    Owned<ArrowArray> given(batch), done;
    require(given.value.release != nullptr, "arrow: got a batch that was released");
    Model& ours = of(model);
    const Problem problem = ours.exits().problem;
    const TextPlace place = place_of(type.value, column == nullptr ? kTextColumn : column, problem);
    done.value = answered(ours, ours.policy_named(policy), place, std::move(given), 0);
    *out_schema = answered_schema(std::move(type), place, problem);
    *out = done.take();
  });
}

exeunt_status exeunt_arrow_stream(exeunt_model* model, const char* policy, const char* column,
                                  struct ArrowArrayStream* in, struct ArrowArrayStream* out) {
  return guarded([&] {
    require(model != nullptr && in != nullptr && out != nullptr,
            "exeunt_arrow_stream: got a null pointer, want a model, a stream and a place for the one to come");
    Owned<ArrowArrayStream> given(in);
    require(given.value.release != nullptr, "arrow: got a stream that was released");
    const std::shared_ptr<Model> ours = shared(model);
    auto stream = std::unique_ptr<AnswerStream>(new AnswerStream{.model = ours,
                                                                 .policy = ours->policy_named(policy),
                                                                 .column = column == nullptr ? kTextColumn : column,
                                                                 .place = {},
                                                                 .in = std::move(given)});
    Owned<ArrowSchema> schema;
    if (stream->in.value.get_schema(&stream->in.value, &schema.value) != 0) {
      stream->refuse_source(0);
      throw Error(Code::failure, fmt::format("arrow: the stream has no schema: {}", stream->error));
    }
    stream->place = place_of(schema.value, stream->column, stream->problem());
    out->get_schema = [](ArrowArrayStream* self, ArrowSchema* into) { return of(self).schema(into); };
    out->get_next = [](ArrowArrayStream* self, ArrowArray* into) { return of(self).next(into); };
    out->get_last_error = [](ArrowArrayStream* self) -> const char* { return of(self).error.c_str(); };
    out->release = [](ArrowArrayStream* self) {
      delete static_cast<AnswerStream*>(self->private_data);
      self->release = nullptr;
    };
    out->private_data = stream.release();
  });
}
