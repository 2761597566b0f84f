// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cpu/forward.h"

#include <algorithm>

#include "exeunt/runtime/cpu/share.h"

namespace exeunt {
namespace {

// Row-wise work: below this many elements, sharing does not pay.
constexpr int64_t kRowsWorthSharing = int64_t{1} << 14;

}  // namespace

Operand Forward::operand(const PackedWeight& weight, std::byte* data) const noexcept {
  return {.precision = weight.precision, .rows = tokens_, .columns = weight.inputs, .data = data};
}

void Forward::multiply(const Product& product) noexcept {
  multiply_shared(kernels_, member_, product);
}

void Forward::normalize(const PackedNorm& norm, const Rows& rows, const Operand& next) noexcept {
  const int columns = model_.spec.hidden;
  const bool large = int64_t{rows.count} * columns >= kRowsWorthSharing;
  const int step = divide_up(rows.count, large ? std::min(rows.count, member_.hands()) : 1);
  member_.share(divide_up(rows.count, step), [&](int part, int) {
    const Range range = step_of(rows.count, step, part);
    kernels_.normalize({.data = rows.stream,
                        .stride = static_cast<size_t>(columns),
                        .columns = columns,
                        .weight = norm.weight,
                        .bias = norm.bias,
                        .epsilon = model_.spec.norm_eps,
                        .next = next,
                        .row = range.begin,
                        .rows = range.count});
  });
}

void Forward::quantize(const float* from, int columns, const Operand& out, int rows) noexcept {
  const bool large = int64_t{rows} * columns >= kRowsWorthSharing;
  const int step = divide_up(rows, large ? std::min(rows, member_.hands()) : 1);
  member_.share(divide_up(rows, step), [&](int part, int) {
    const Range range = step_of(rows, step, part);
    kernels_.pack_rows(from, static_cast<size_t>(columns), out, range.begin, range.count);
  });
}

void Forward::embed(const Encoding& text) noexcept {
  const ModelSpec& spec = model_.spec;
  tokens_ = static_cast<int>(text.ids.size());
  const auto width = static_cast<size_t>(spec.embedding);
  float* out = model_.project ? space_.embedded : space_.rows;
  for (size_t t = 0; t < text.ids.size(); ++t) {
    float* row = out + t * width;
    std::fill_n(row, width, 0.0F);
    model_.word.add_row(static_cast<size_t>(text.ids[t]), width, row);
    model_.segment.add_row(text.types[t], width, row);
    model_.position.add_row(t + static_cast<size_t>(spec.position_offset), width, row);
  }
  const Operand first = operand(model_.layer(0).query, space_.layer_input);
  const Operand next = model_.project ? operand(*model_.project, space_.project_input) : first;
  kernels_.normalize({.data = out,
                      .stride = width,
                      .columns = spec.embedding,
                      .weight = model_.embedding_norm.weight,
                      .bias = model_.embedding_norm.bias,
                      .epsilon = spec.norm_eps,
                      .next = next,
                      .row = 0,
                      .rows = tokens_});
  if (!model_.project) return;
  multiply({.weight = &*model_.project,
            .input = next,
            .finish = Finish::store,
            .out = space_.rows,
            .stride = static_cast<size_t>(spec.hidden),
            .rows = tokens_});
  quantize(space_.rows, spec.hidden, first, tokens_);
}

// Query, key and value are concatenated: [tokens, 3d].
void Forward::project_qkv(const PackedLayer& layer, Qkv which, int rows) noexcept {
  const auto d = static_cast<size_t>(model_.spec.hidden);
  const bool half = model_.attention == Precision::bf16;
  const Product query{.weight = &layer.query,
                      .input = operand(layer.query, space_.layer_input),
                      .finish = half ? Finish::store_bf16 : Finish::store,
                      .out = space_.qkv,
                      .stride = 3 * d,
                      .rows = rows};
  Product key_value = query;
  key_value.weight = &layer.key_value;
  key_value.out = space_.qkv + d * (half ? sizeof(uint16_t) : sizeof(float));
  if (which == Qkv::query) return multiply_shared(kernels_, member_, query);
  if (which == Qkv::key_value) return multiply_shared(kernels_, member_, key_value);
  multiply_shared(kernels_, member_, query, key_value);
}

// Splits by heads, and also by rows if there are few heads.
void Forward::attend(const PackedLayer& layer, int rows) noexcept {
  const ModelSpec& spec = model_.spec;
  const auto d = static_cast<size_t>(spec.hidden);
  const size_t element = model_.attention == Precision::bf16 ? sizeof(uint16_t) : sizeof(float);
  const bool direct = layer.output.precision != Precision::int8;
  const Attention whole{.precision = model_.attention,
                        .query = space_.qkv,
                        .key = space_.qkv + d * element,
                        .value = space_.qkv + 2 * d * element,
                        .stride = 3 * d,
                        .head_width = spec.hidden / spec.heads,
                        .tokens = tokens_,
                        .context = direct ? nullptr : space_.context,
                        .context_stride = d,
                        .next = direct ? operand(layer.output, space_.context_input) : Operand{}};
  constexpr int kRowBlock = 32;
  const Grid grid(spec.heads, rows, kRowBlock, wanted_parts(member_, int64_t{rows} * tokens_ * spec.hidden));
  member_.share(grid.parts(), [&](int part, int member) {
    Attention piece = whole;
    const Range across = grid.across_of(part), down = grid.down_of(part);
    piece.head = across.begin;
    piece.heads = across.count;
    piece.row = down.begin;
    piece.rows = down.count;
    piece.scratch = spaces_[static_cast<size_t>(member)].attention;
    kernels_.attend(piece);
  });
  if (!direct) quantize(space_.context, spec.hidden, operand(layer.output, space_.context_input), rows);
}

void Forward::after_qkv(int index, const Rows& rows) noexcept {
  const ModelSpec& spec = model_.spec;
  const PackedLayer& layer = model_.layer(index);
  const auto d = static_cast<size_t>(spec.hidden), f = static_cast<size_t>(spec.inner);
  attend(layer, rows.count);
  multiply({.weight = &layer.output,
            .input = operand(layer.output, space_.context_input),
            .finish = Finish::add,
            .out = rows.stream,
            .stride = d,
            .rows = rows.count});
  const Operand middle = operand(layer.ffn1, space_.ffn1_input);
  normalize(layer.attention_norm, rows, middle);

  const Operand inner = operand(layer.ffn2, space_.ffn2_input);
  const bool direct = layer.ffn2.precision != Precision::int8;
  multiply({.weight = &layer.ffn1,
            .input = middle,
            .finish = direct ? Finish::activate_next : Finish::activate,
            .activation = spec.activation,
            .out = direct ? nullptr : space_.inner,
            .stride = f,
            .next = direct ? inner : Operand{},
            .rows = rows.count});
  if (!direct) quantize(space_.inner, spec.inner, inner, rows.count);
  multiply({.weight = &layer.ffn2,
            .input = inner,
            .finish = Finish::add,
            .out = rows.stream,
            .stride = d,
            .rows = rows.count});

  // Row 0 ahead of the others ends here: the next layer is run only for all rows.
  const bool more = index + 1 < spec.layers && rows.stream == space_.rows;
  const Operand next = more ? operand(model_.layer(index + 1).query, space_.layer_input) : Operand{};
  normalize(layer.ffn_norm, rows, next);
}

void Forward::run_layer(int layer) noexcept {
  member_.summon();
  project_qkv(model_.layer(layer), Qkv::all, tokens_);
  after_qkv(layer, {tokens_, space_.rows});
}

void Forward::begin_layer(int layer) noexcept {
  member_.summon();
  project_qkv(model_.layer(layer), Qkv::key_value, tokens_);
}

// Row 0 may overwrite everything but the residual stream: all rows are recomputed if the text continues.
void Forward::run_first_row(int layer) noexcept {
  std::copy_n(space_.rows, model_.spec.hidden, space_.first_row);
  project_qkv(model_.layer(layer), Qkv::query, 1);
  after_qkv(layer, {1, space_.first_row});
}

void Forward::finish_layer(int layer) noexcept {
  project_qkv(model_.layer(layer), Qkv::query, tokens_);
  after_qkv(layer, {tokens_, space_.rows});
}

}  // namespace exeunt
