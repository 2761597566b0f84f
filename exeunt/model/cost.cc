// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/cost.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "exeunt/base/checked.h"
#include "exeunt/base/error.h"
#include "exeunt/model/schema.h"

namespace exeunt {
namespace {

// Whether the last exit uses this tensor, so that a plain model with one head has it too.
bool belongs_to_last_exit(const ExitLayout& exits, std::string_view name) {
  const ExitSite& last = exits.sites.back();
  if (last.reader && name.starts_with(fmt::format("exits.reader.{}.", *last.reader))) return true;
  if (last.pooler && name.starts_with(fmt::format("exits.pooler.{}.", *last.pooler))) return true;
  return name.starts_with(fmt::format("exits.classifier.{}.", last.classifier));
}

template <class Counts>
ParameterCount count_if(const ModelSpec& spec, const ExitLayout& exits, Counts counts) {
  ParameterCount count;
  for (const TensorInfo& info : schema(spec, exits)) {
    if (!counts(info) || (info.dtype && !is_floating(*info.dtype))) continue;
    const auto elements = static_cast<int64_t>(checked_elements(info.shape).value_or(0));
    const bool exit = info.name.starts_with("exits.");
    (exit ? count.exits : count.backbone) += elements;
    if (exit && !belongs_to_last_exit(exits, info.name)) count.added += elements;
  }
  return count;
}

}  // namespace

ParameterCount count_parameters(const Checkpoint& checkpoint) {
  return count_if(checkpoint.spec(), checkpoint.exits(),
                  [&](const TensorInfo& info) { return checkpoint.find(info.name) != nullptr; });
}

ParameterCount count_parameters(const ModelSpec& spec, const ExitLayout& exits, bool poolers) {
  return count_if(spec, exits, [&](const TensorInfo& info) { return info.required || poolers; });
}

int64_t embedding_macs(const ModelSpec& spec, int64_t tokens) noexcept {
  const int64_t norm = 2 * tokens * spec.embedding;
  return spec.embedding_projection ? norm + tokens * spec.embedding * spec.hidden : norm;
}

namespace {

// Pairs of tokens within `window` of each other.
int64_t pairs_within(int64_t tokens, int64_t window) noexcept {
  const int64_t w = std::min(window, tokens - 1);
  return tokens + 2 * (w * tokens - w * (w + 1) / 2);
}

}  // namespace

// 4sd² (query, key, value, output) + 2sdf (feed-forward, 3sdf with a gate) + 2pd (scores of p = s² pairs of tokens, and
// their use) + 2hp (scaling and softmax) + 4sd (two norms). ALBERT's layer comes to the same sum. DeBERTa's queries and
// keys also meet every distance: 2sdr with r = 2s − 1 of them, or as many as there are buckets.
int64_t layer_macs(const ModelSpec& spec, int64_t tokens, int index) noexcept {
  const int64_t s = tokens, d = spec.hidden, f = spec.inner, h = spec.heads;
  const int64_t p = spec.is_local(index) ? pairs_within(s, spec.window) : s * s;
  const int64_t r = std::min(2 * s - 1, int64_t{2} * spec.relative_buckets);
  const int64_t norms = spec.has_attention_norm(index) ? 4 : 2;
  return 4 * s * d * d + (spec.gated ? 3 : 2) * s * d * f + 2 * h * p + 2 * p * d + norms * s * d + 2 * s * d * r;
}

int64_t first_layers_macs(const ModelSpec& spec, int64_t tokens, int layers) noexcept {
  int64_t macs = 0;
  for (int i = 0; i < layers; ++i) macs += layer_macs(spec, tokens, i);
  return macs;
}

constexpr int64_t kNgramsPerToken = 10;  // of an English text

// A reader scores every row and sums them (2sd), and its pooler reads twice the width. Mean and max pooling are not
// modules, so the counter does not see them. A final norm is that of the rows that are read.
int64_t exit_macs(const ModelSpec& spec, const ExitLayout& exits, const ExitSite& site, int64_t tokens) noexcept {
  const int64_t d = spec.hidden, w = exits.width, outputs = exits.outputs;
  if (site.after == 0) {
    const int64_t rank = exits.ngrams->rank;
    return kNgramsPerToken * tokens * rank + (rank < outputs ? rank * outputs : 0);
  }
  int64_t macs = site.reader ? 2 * tokens * d : 0;
  if (spec.pre_norm) macs += 2 * d * (site.reader || exits.input != PoolInput::cls ? tokens : 1);
  if (site.pooler) macs += (site.reader ? 2 * d : d) * w;
  if (site.pooler && !site.reader && exits.pooler.norm) macs += 2 * w;
  return macs + (exits.inner ? w * *exits.inner + *exits.inner * outputs : w * outputs);
}

int64_t lte_macs(const ExitLayout& exits) noexcept {
  return exits.lte ? exits.width : 0;
}

int64_t departure_macs(const ModelSpec& spec, const ExitLayout& exits, const Departure& departure) {
  check(departure.after >= 0 && departure.after <= spec.layers, "a text leaves after one of the layers");
  int64_t macs = departure.after == 0 ? 0 : embedding_macs(spec, departure.tokens);
  macs += first_layers_macs(spec, departure.tokens, departure.after);
  for (const ExitSite& site : exits.sites) {
    if (site.after > departure.after) break;
    const auto& asked = departure.evaluated;
    if (!asked.empty() && std::ranges::find(asked, site.after) == asked.end()) continue;
    macs += exit_macs(spec, exits, site, departure.tokens) + (departure.lte ? lte_macs(exits) : 0);
  }
  return macs;
}

}  // namespace exeunt
