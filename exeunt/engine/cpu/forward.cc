// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/forward.h"

#include <algorithm>
#include <cmath>

#include "exeunt/engine/cpu/parallel_product.h"

namespace exeunt {
namespace {

// Row-wise work: below this many elements, sharing does not pay.
constexpr int64_t kRowsWorthSharing = int64_t{1} << 14;

}  // namespace

// How attention is split: by heads, and also by rows if there are few heads; each text for itself.
struct Forward::AttentionCut {
  AttentionCut(const Forward& forward, const Rows& of)
      : rows(of), texts(of.first_of.empty() ? forward.texts_ : of.count) {
    const ModelSpec& spec = forward.model_.spec;
    if (spec.window > 0 || spec.relative_buckets > 0) row_block = kAttentionBlock;
    int64_t work = 0;
    for (int n = 0; n < texts; ++n) work += int64_t{queries(forward, n)} * forward.tokens(text(n)) * spec.hidden;
    const int wanted = divide_up(wanted_parts(forward.worker_, work), texts);
    for (int n = 0; n < texts; ++n) {
      const Grid grid(spec.heads, queries(forward, n), row_block, wanted);
      first[static_cast<size_t>(n) + 1] = first[static_cast<size_t>(n)] + grid.parts();
    }
    parts_wanted = wanted;
  }
  [[nodiscard]] int parts() const { return first[static_cast<size_t>(texts)]; }
  [[nodiscard]] int text(int nth) const {
    return rows.first_of.empty() ? nth : rows.first_of[static_cast<size_t>(nth)];
  }
  [[nodiscard]] int queries(const Forward& forward, int nth) const {
    return rows.first_of.empty() ? forward.tokens(nth) : 1;
  }
  // Which of the texts a part belongs to.
  [[nodiscard]] int nth_of(int part) const {
    return static_cast<int>(std::upper_bound(first.begin() + 1, first.begin() + texts, part) - first.begin()) - 1;
  }

  int row_block = 32;
  const Rows& rows;
  int texts, parts_wanted = 1;
  std::array<int, kMaxPackTexts + 1> first = {};  // the first part of each text
};

Operand Forward::operand(const PackedWeight& weight, std::byte* data) const noexcept {
  return {.precision = weight.precision, .rows = space_.capacity, .columns = weight.inputs, .data = data};
}

// Row `at` of rows that attention reads, from the query (part 0), the key (1) or the value (2) on.
std::byte* Forward::attended(std::byte* rows, int at, int part) const noexcept {
  const size_t element = model_.attention == Precision::bf16 ? sizeof(uint16_t) : sizeof(float);
  return rows + static_cast<size_t>(3 * at + part) * static_cast<size_t>(model_.spec.hidden) * element;
}

Forward::Rows Forward::all_rows() const noexcept {
  return {.count = row_count_, .stream = space_.rows, .query = space_.qkv, .first_of = {}};
}

void Forward::multiply(const Product& product) noexcept {
  multiply_parallel(kernels_, worker_, product);
}

// Calls work(range, worker) for parts of `count` rows, on several threads if there is enough to share.
template <class Work>
void Forward::share_rows(int count, int columns, const Work& work) noexcept {
  const bool large = int64_t{count} * columns >= kRowsWorthSharing;
  const int step = divide_up(count, large ? std::min(count, worker_.workers()) : 1);
  worker_.parallel_for(divide_up(count, step), [&](int part, int worker) { work(step_of(count, step, part), worker); });
}

void Forward::normalize(const PackedNorm& norm, const Rows& rows, const Operand& next) noexcept {
  share_rows(rows.count, model_.spec.hidden, [&](const Range& range, int worker) {
    const bool apart = model_.spec.pre_norm;
    Normalization call = model_.normalization(norm, model_.spec.hidden);
    call.data = apart ? spaces_[static_cast<size_t>(worker)].normed : rows.stream;
    call.from = apart ? rows.stream : nullptr;
    call.next = next;
    call.row = range.begin;
    call.rows = range.count;
    kernels_.normalize(call);
  });
}

void Forward::quantize(const float* from, int columns, const Operand& out, Place rows) noexcept {
  share_rows(rows.rows, columns, [&](const Range& range, int) {
    kernels_.pack_rows(from, static_cast<size_t>(columns), out, rows.begin + range.begin, range.count);
  });
}

void Forward::enter_layer(int layer, float* stream, const Operand& out, Place rows) noexcept {
  const ModelSpec& spec = model_.spec;
  if (!spec.pre_norm || !spec.has_attention_norm(layer)) return quantize(stream, spec.hidden, out, rows);
  Normalization call = model_.normalization(model_.layer(layer).attention_norm, spec.hidden);
  call.data = space_.normed;
  call.from = stream;
  call.next = out;
  call.row = rows.begin;
  call.rows = rows.rows;
  kernels_.normalize(call);
}

void Forward::embed(const Encoding& text) noexcept {
  const ModelSpec& spec = model_.spec;
  const Place place{.begin = row_count_, .rows = static_cast<int>(text.ids.size())};
  places_[static_cast<size_t>(texts_++)] = place;
  row_count_ += place.rows;
  const auto width = static_cast<size_t>(spec.embedding);
  float* out = model_.project ? space_.embedded : space_.rows;
  for (size_t t = 0; t < text.ids.size(); ++t) {
    float* row = out + (static_cast<size_t>(place.begin) + t) * width;
    std::fill_n(row, width, 0.0F);
    model_.word.add_row(static_cast<size_t>(text.ids[t]), width, row);
    if (spec.segments > 0) model_.segment.add_row(text.types[t], width, row);
    if (spec.position_table) model_.position.add_row(t + static_cast<size_t>(spec.position_offset), width, row);
  }
  const Operand first = operand(model_.layer(0).query, space_.layer_input);
  const Operand next = model_.project ? operand(*model_.project, space_.project_input) : first;
  Normalization norm = model_.normalization(model_.embedding_norm, spec.embedding);
  norm.data = out;
  norm.next = next;
  norm.row = place.begin;
  norm.rows = place.rows;
  kernels_.normalize(norm);
  if (!model_.project) return;
  multiply({.weight = &*model_.project,
            .input = next,
            .finish = Finish::store,
            .out = space_.rows,
            .stride = static_cast<size_t>(spec.hidden),
            .row = place.begin,
            .rows = place.rows});
  quantize(space_.rows, spec.hidden, first, place);
}

// Of all rows. Query, key and value are concatenated: [rows, 3d].
void Forward::project_qkv(int index, Qkv which) noexcept {
  const PackedLayer& layer = model_.layer(index);
  const bool half = model_.attention == Precision::bf16;
  const Product query{.weight = &layer.query,
                      .input = operand(layer.query, space_.layer_input),
                      .finish = half ? Finish::store_bf16 : Finish::store,
                      .out = space_.qkv,
                      .stride = 3 * static_cast<size_t>(model_.spec.hidden),
                      .rows = row_count_};
  Product key_value = query;
  key_value.weight = &layer.key_value;
  key_value.out = attended(space_.qkv, 0, 1);
  if (which == Qkv::query) multiply(query);
  if (which == Qkv::key_value) multiply(key_value);
  if (which == Qkv::all) multiply_parallel(kernels_, worker_, query, key_value);
  if (model_.rotation) rotate(index, which);
}

// Queries and keys of all rows. Row 0 alone needs no turn: its angles are 0.
void Forward::rotate(int index, Qkv which) noexcept {
  const ModelSpec& spec = model_.spec;
  const Rotation& rotation = spec.is_local(index) ? *model_.local_rotation : *model_.rotation;
  const int first = which == Qkv::key_value ? 1 : 0, parts = which == Qkv::all ? 2 : 1;  // keys lie behind queries
  share_rows(row_count_, spec.hidden, [&](const Range& range, int) {
    const Place* text = places_.data();
    for (int at = range.begin; at < range.begin + range.count; ++at) {
      while (at >= text->begin + text->rows) ++text;
      const int position = at - text->begin;
      kernels_.rotate({.precision = model_.attention,
                       .row = attended(space_.qkv, at, first),
                       .columns = parts * spec.hidden,
                       .pairs = rotation.pairs(),
                       .cosine = rotation.cosines(position),
                       .sine = rotation.sines(position)});
    }
  });
}

// A local layer: block by block, with the keys that any query of the block may see. `work` has all of the text's keys.
void Forward::attend_within_window(Attention work) const noexcept {
  const size_t element = work.precision == Precision::bf16 ? sizeof(uint16_t) : sizeof(float);
  const Attention whole = work;
  work.window = model_.spec.window;
  const int seen = kAttentionBlock + 2 * work.window, block = whole.tokens <= seen ? whole.tokens : kAttentionBlock;
  for (int begin = whole.row; begin < whole.row + whole.rows; begin += block) {
    work.first_key = block == whole.tokens ? 0 : std::max(begin - work.window, 0);
    const size_t skipped = static_cast<size_t>(work.first_key) * whole.stride * element;
    work.key = static_cast<const std::byte*>(whole.key) + skipped;
    work.value = static_cast<const std::byte*>(whole.value) + skipped;
    work.tokens = std::min(whole.tokens, begin - work.window + seen) - work.first_key;
    if (block == whole.tokens) work.tokens = whole.tokens;
    work.row = begin;
    work.rows = std::min(block, whole.row + whole.rows - begin);
    kernels_.attend(work);
  }
}

// DeBERTa: what distances add to the scores is computed for a block of queries of one head, then attention as ever.
void Forward::attend_by_distance(const PackedLayer& layer, Attention work, const Workspace& scratch) const noexcept {
  const ModelSpec& spec = model_.spec;
  const Attention whole = work;
  const int width = whole.head_width, tokens = whole.tokens, places = 2 * spec.relative_buckets;
  const bool half = whole.precision == Precision::bf16;
  const int* place = model_.distance_rows.data() + (spec.max_tokens() - 1);  // by distance, which may be below zero
  const Operand input{.precision = model_.heads, .rows = kAttentionBlock, .columns = width, .data = scratch.head_rows};
  // The products of a block of rows with those panels of a table of distances that hold the places [from, to].
  const auto meet = [&](const PackedWeight& distances, const void* rows, Range block, int from, int to, float* out) {
    const size_t skipped = static_cast<size_t>(block.begin) * whole.stride;
    if (half) {
      kernels_.pack_bf16_rows(static_cast<const uint16_t*>(rows) + skipped, whole.stride, input, 0, block.count);
    } else {
      kernels_.pack_rows(static_cast<const float*>(rows) + skipped, whole.stride, input, 0, block.count);
    }
    const int panel_places = kernels_.panel_outputs(distances.precision);
    kernels_.multiply({.weight = &distances,
                       .input = input,
                       .finish = Finish::store,
                       .out = out,
                       .stride = static_cast<size_t>(places),
                       .rows = block.count,
                       .panel = from / panel_places,
                       .panels = to / panel_places - from / panel_places + 1});
  };
  const auto of_head = [&](const void* rows, int head) -> const void* {
    const size_t column = static_cast<size_t>(head) * static_cast<size_t>(width);
    return static_cast<const std::byte*>(rows) + column * (half ? sizeof(uint16_t) : sizeof(float));
  };
  work.scale = 1.0F / std::sqrt(3.0F * static_cast<float>(width));
  work.bias = scratch.bias;
  work.bias_stride = static_cast<size_t>(spec.max_tokens());
  work.heads = 1;
  const int end = whole.row + whole.rows;
  for (int head = whole.head; head < whole.head + whole.heads; ++head) {
    work.head = head;
    for (int key = 0; key < tokens; key += kAttentionBlock) {
      const Range block{key, std::min(kAttentionBlock, tokens - key)};
      meet(layer.distance_queries[static_cast<size_t>(head)], of_head(whole.key, head), block,
           place[whole.row - (key + block.count - 1)], place[end - 1 - key],
           scratch.key_distances + static_cast<size_t>(key) * static_cast<size_t>(places));
    }
    for (int begin = whole.row; begin < end; begin += kAttentionBlock) {
      work.row = begin;
      work.rows = std::min(kAttentionBlock, end - begin);
      meet(layer.distance_keys[static_cast<size_t>(head)], of_head(whole.query, head), {begin, work.rows},
           places - 1 - place[begin + work.rows - 1], places - 1 - place[begin + 1 - tokens], scratch.query_distances);
      kernels_.add_distances({.of_query = scratch.query_distances,
                              .of_key = scratch.key_distances,
                              .stride = static_cast<size_t>(places),
                              .place = place,
                              .places = places,
                              .straight = model_.straight_distance,
                              .bias = scratch.bias,
                              .bias_stride = work.bias_stride,
                              .first = begin,
                              .rows = work.rows,
                              .tokens = tokens});
      kernels_.attend(work);
    }
  }
}

void Forward::attend(int index, const Rows& rows) noexcept {
  const ModelSpec& spec = model_.spec;
  const PackedLayer& layer = model_.layer(index);
  const bool windowed = spec.is_local(index);  // a text within its window is seen as a whole
  const auto d = static_cast<size_t>(spec.hidden);
  const bool direct = layer.output.precision != Precision::int8;
  const AttentionCut cut(*this, rows);
  worker_.parallel_for(cut.parts(), [&](int part, int worker) {
    const int nth = cut.nth_of(part), text = cut.text(nth), begin = places_[static_cast<size_t>(text)].begin;
    const int out = rows.first_of.empty() ? begin : nth;  // where its queries and its results begin
    const Grid grid(spec.heads, cut.queries(*this, nth), cut.row_block, cut.parts_wanted);
    const int own = part - cut.first[static_cast<size_t>(nth)];
    const Range across = grid.across_of(own), down = grid.down_of(own);
    const Workspace& scratch = spaces_[static_cast<size_t>(worker)];
    const Attention work{.precision = model_.attention,
                         .query = attended(rows.query, out),
                         .key = attended(space_.qkv, begin, 1),
                         .value = attended(space_.qkv, begin, 2),
                         .stride = 3 * d,
                         .head_width = spec.head_width(),
                         .tokens = tokens(text),
                         .context = direct ? nullptr : row(space_.context, out),
                         .context_stride = d,
                         .next = direct ? operand(layer.output, space_.context_input) : Operand{},
                         .next_row = out,
                         .head = across.begin,
                         .heads = across.count,
                         .row = down.begin,
                         .rows = down.count,
                         .scratch = scratch.attention};
    if (spec.relative_buckets > 0) return attend_by_distance(layer, work, scratch);
    windowed&& work.tokens > spec.window + 1 ? attend_within_window(work) : kernels_.attend(work);
  });
  if (!direct) quantize(space_.context, spec.hidden, operand(layer.output, space_.context_input), {0, rows.count});
}

void Forward::after_qkv(int index, const Rows& rows) noexcept {
  const ModelSpec& spec = model_.spec;
  const PackedLayer& layer = model_.layer(index);
  const auto d = static_cast<size_t>(spec.hidden);
  attend(index, rows);
  multiply({.weight = &layer.output,
            .input = operand(layer.output, space_.context_input),
            .finish = Finish::add,
            .out = rows.stream,
            .stride = d,
            .rows = rows.count});
  const Operand middle = operand(layer.ffn1, space_.ffn1_input);
  normalize(spec.pre_norm ? layer.ffn_norm : layer.attention_norm, rows, middle);
  feed_forward(layer, rows, middle);

  // Row 0 ahead of the others ends here: the next layer is run only for all rows.
  const bool more = index + 1 < spec.layers && rows.first_of.empty();
  const Operand next = more ? operand(model_.layer(index + 1).query, space_.layer_input) : Operand{};
  if (!spec.pre_norm) return normalize(layer.ffn_norm, rows, next);
  if (more) normalize(model_.layer(index + 1).attention_norm, rows, next);
}

void Forward::feed_forward(const PackedLayer& layer, const Rows& rows, const Operand& input) noexcept {
  const ModelSpec& spec = model_.spec;
  const auto f = static_cast<size_t>(spec.inner);
  const Operand inner = operand(layer.ffn2, space_.ffn2_input);
  const bool direct = layer.ffn2.precision != Precision::int8;
  const Product first{.weight = &layer.ffn1,
                      .input = input,
                      .finish = direct && !layer.gate ? Finish::activate_next : Finish::activate,
                      .activation = spec.activation,
                      .out = space_.inner,
                      .stride = f,
                      .next = direct ? inner : Operand{},
                      .rows = rows.count};
  if (layer.gate) {
    Product gate = first;
    gate.weight = &*layer.gate;
    gate.finish = direct ? Finish::gate_next : Finish::gate;
    multiply_gated(kernels_, worker_, first, gate);
  } else {
    multiply(first);
  }
  if (!direct) quantize(space_.inner, spec.inner, inner, {0, rows.count});
  multiply({.weight = &layer.ffn2,
            .input = inner,
            .finish = Finish::add,
            .out = rows.stream,
            .stride = static_cast<size_t>(spec.hidden),
            .rows = rows.count});
}

void Forward::run_layer(int layer) noexcept {
  worker_.wake_helpers();
  project_qkv(layer, Qkv::all);
  after_qkv(layer, all_rows());
}

void Forward::begin_layer(int layer) noexcept {
  worker_.wake_helpers();
  project_qkv(layer, Qkv::key_value);
}

// These rows may overwrite everything but the residual stream, keys and values: all rows are recomputed if a text
// continues.
void Forward::run_first_rows(int index, std::span<const int> texts) noexcept {
  const PackedLayer& layer = model_.layer(index);
  const auto d = static_cast<size_t>(model_.spec.hidden);
  const int count = static_cast<int>(texts.size());
  for (int n = 0; n < count; ++n) std::copy_n(rows(texts[static_cast<size_t>(n)]), d, row(space_.first_rows, n));
  const Operand input{.precision = layer.query.precision,
                      .rows = kMaxPackTexts,
                      .columns = layer.query.inputs,
                      .data = space_.first_input};
  enter_layer(index, space_.first_rows, input, {0, count});
  multiply({.weight = &layer.query,
            .input = input,
            .finish = model_.attention == Precision::bf16 ? Finish::store_bf16 : Finish::store,
            .out = space_.first_query,
            .stride = 3 * d,
            .rows = count});
  after_qkv(index, {.count = count, .stream = space_.first_rows, .query = space_.first_query, .first_of = texts});
}

void Forward::finish_layer(int layer) noexcept {
  project_qkv(layer, Qkv::query);
  after_qkv(layer, all_rows());
}

// Operands cannot be moved, as only the kernels know their layout: they are made again from the rows.
void Forward::keep(std::span<const bool> stays, int layer, When when) noexcept {
  const auto d = static_cast<size_t>(model_.spec.hidden);
  int kept = 0, end = 0, moved_from = -1;
  for (int text = 0; text < texts_; ++text) {
    if (!stays[static_cast<size_t>(text)]) continue;
    const Place from = places_[static_cast<size_t>(text)];
    if (from.begin != end) {
      if (moved_from < 0) moved_from = end;
      std::copy_n(row(space_.rows, from.begin), static_cast<size_t>(from.rows) * d, row(space_.rows, end));
      if (when == When::within) {
        std::copy(attended(space_.qkv, from.begin), attended(space_.qkv, from.begin + from.rows),
                  attended(space_.qkv, end));
      }
    }
    places_[static_cast<size_t>(kept++)] = {.begin = end, .rows = from.rows};
    end += from.rows;
  }
  texts_ = kept;
  row_count_ = end;
  if (moved_from < 0) return;
  enter_layer(layer, space_.rows, operand(model_.layer(layer).query, space_.layer_input),
              {moved_from, end - moved_from});
}

}  // namespace exeunt
