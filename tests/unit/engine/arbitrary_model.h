// SPDX-License-Identifier: Apache-2.0
// Any small model and any text, for property tests: of the reference forward, and of every engine that must equal it.
#pragma once

#include <algorithm>
#include <optional>

#include <rapidcheck.h>

#include "tests/unit/engine/random_model.h"
#include "tests/unit/policy/pick.h"

namespace exeunt {

// The features vary freely: a backbone is what its spec says, whether or not a family has just these.
inline ModelSpec arbitrary_spec() {
  ModelSpec spec;
  spec.family = *rc::gen::element(Family::bert, Family::roberta, Family::albert, Family::elasticbert);
  spec.layers = pick(1, 5);
  spec.heads = pick(1, 5);
  spec.hidden = spec.embedding = spec.heads * pick(1, 10);
  spec.inner = pick(1, 70);
  spec.vocab = pick(2, 60);
  spec.segments = pick(1, 4);
  spec.position_offset = pick(0, 3);
  spec.positions = spec.position_offset + pick(1, 40);
  spec.embedding_projection = pick(0, 3) == 0;
  if (spec.embedding_projection) spec.embedding = pick(1, 20);
  spec.groups = pick(0, 3) == 0 ? pick(1, spec.layers + 1) : 0;
  spec.activation = *rc::gen::element(Activation::gelu, Activation::gelu_new, Activation::relu);
  spec.norm_eps = *rc::gen::element(1e-12F, 1e-5F, 1e-3F);
  if (pick(0, 4) == 0) spec.position_table = false;
  if (pick(0, 4) == 0) spec.segments = 0;
  spec.norm_biases = pick(0, 4) > 0;
  spec.biases = pick(0, 4) > 0;
  spec.gated = pick(0, 3) == 0;
  // Where layers differ by their place, none can share its weights with another.
  spec.pre_norm = spec.groups == 0 && pick(0, 3) == 0;
  if (spec.head_width() % 2 == 0 && pick(0, 3) == 0) {
    spec.rotary_base = 160000;
    spec.local_rotary_base = 10000;
  }
  if (spec.groups == 0 && pick(0, 3) == 0) {
    spec.window = pick(1, 12);
    spec.global_every = pick(2, 4);
  }
  if (spec.biases && spec.norm_biases && spec.rotary_base == 0 && spec.window == 0 && pick(0, 3) == 0) {
    spec.relative_buckets = 2 * pick(2, 8);
    spec.relative_distance = spec.relative_buckets + pick(2, 40);
  }
  return spec;
}

// How exits share one kind of head: the index of exit `i` of `exits`.
enum class Sharing { own, shared, groups, none };
inline std::optional<int> shared_index(Sharing sharing, int i, int exits, int groups) {
  switch (sharing) {
    case Sharing::own:
      return i;
    case Sharing::shared:
      return 0;
    case Sharing::groups:
      return i * groups / exits;
    case Sharing::none:
      break;
  }
  return std::nullopt;
}

inline ExitLayout arbitrary_exits(const ModelSpec& spec) {
  ExitLayout layout;
  layout.problem = *rc::gen::element(Problem::classification, Problem::regression);
  layout.outputs = layout.problem == Problem::regression ? 1 : pick(2, 6);
  for (int c = 0; c < layout.outputs && layout.outputs > 1; ++c) layout.labels.push_back("label" + std::to_string(c));
  layout.input = *rc::gen::element(PoolInput::cls, PoolInput::mean, PoolInput::max, PoolInput::cls_mean,
                                   PoolInput::cls_max, PoolInput::mean_max);
  for (int layer = 1; layer <= spec.layers; ++layer) {
    if (layer == spec.layers || pick(0, 3) > 0) layout.sites.push_back({.after = layer});
  }
  const int exits = static_cast<int>(layout.sites.size()), groups = pick(1, exits + 1);
  const Sharing pooler = *rc::gen::element(Sharing::own, Sharing::shared, Sharing::groups, Sharing::none);
  const Sharing classifier = *rc::gen::element(Sharing::own, Sharing::shared, Sharing::groups);
  const Sharing reader =
      pooler == Sharing::none ? Sharing::none : *rc::gen::element(Sharing::own, Sharing::shared, Sharing::none);
  for (int i = 0; i < exits; ++i) {
    ExitSite& site = layout.sites[static_cast<size_t>(i)];
    site.pooler = shared_index(pooler, i, exits, groups);
    site.reader = shared_index(reader, i, exits, groups);
    site.classifier = *shared_index(classifier, i, exits, groups);
  }
  // The last exit may do without a reader if its pooler is its own.
  if (reader == Sharing::own && pooler == Sharing::own && pick(0, 2) == 0) layout.sites.back().reader.reset();
  layout.width = pooler == Sharing::none ? spec.hidden : pick(1, 40);
  layout.pooler.activation = *rc::gen::element(PoolerActivation::tanh, PoolerActivation::relu, PoolerActivation::gelu);
  layout.pooler.bias = pick(0, 3) > 0;
  layout.pooler.norm = pick(0, 3) == 0;
  if (pick(0, 3) == 0) layout.inner = pick(1, 12);
  layout.lte = pick(0, 3) == 0;
  if (pooler != Sharing::none && pick(0, 3) == 0) {
    layout.last_ramp = {.pooler = layout.poolers(), .classifier = layout.classifiers()};
  }
  if (!layout.lte && pick(0, 3) == 0)
    layout = with_exit_0(spec, std::move(layout), pick(1, 10), pick(1, layout.outputs + 1));
  return layout;
}

inline Encoding arbitrary_text(const ModelSpec& spec) {
  Encoding text;
  for (int length = pick(1, spec.max_tokens() + 1); length > 0; --length) {
    text.ids.push_back(pick(0, spec.vocab));
    text.types.push_back(static_cast<uint8_t>(pick(0, std::max(spec.segments, 1))));
    text.offsets.emplace_back(0, 0);
  }
  return text;
}

}  // namespace exeunt
