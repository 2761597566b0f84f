// SPDX-License-Identifier: Apache-2.0
// What must hold for any model of any family, with any exits, on any text.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/reference/reference.h"
#include "tests/unit/engine/arbitrary_model.h"

namespace exeunt {
namespace {

bool finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

bool close(std::span<const float> a, std::span<const float> b, float tolerance) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](float x, float y) { return std::abs(x - y) <= tolerance; });
}

RC_GTEST_PROP(AnyModel, OutputsAreFiniteAndSized, ()) {
  const ModelSpec spec = arbitrary_spec();
  const ExitLayout layout = arbitrary_exits(spec);
  const Reference reference(make_model(spec, layout, {}, pick(0U, 1000U)));
  const Encoding text = arbitrary_text(spec);
  const ReferenceOutput out = reference.run(text);
  RC_ASSERT(out.rows.size() == static_cast<size_t>(spec.layers) + 1);
  for (const auto& rows : out.rows) {
    RC_ASSERT(rows.size() == text.ids.size() * static_cast<size_t>(spec.hidden));
    RC_ASSERT(finite(rows));
  }
  RC_ASSERT(out.exits.size() == layout.sites.size());
  for (const ReferenceExit& exit : out.exits) {
    RC_ASSERT(exit.pooled.size() == static_cast<size_t>(exit.after == 0 ? 0 : layout.width));
    RC_ASSERT(exit.logits.size() == static_cast<size_t>(layout.outputs));
    RC_ASSERT(finite(exit.logits));
    RC_ASSERT(exit.lte.has_value() == layout.lte);
    RC_ASSERT(!exit.lte || (*exit.lte >= 0 && *exit.lte <= 1));
  }
  RC_ASSERT(out.ramp.has_value() == layout.last_ramp.has_value());
}

RC_GTEST_PROP(AnyModel, FirstLayersAreIndependentOfMaxLayers, ()) {
  const ModelSpec spec = arbitrary_spec();
  const Reference reference(make_model(spec, arbitrary_exits(spec), {}, pick(0U, 1000U)));
  const Encoding text = arbitrary_text(spec);
  const int stop = pick(0, spec.layers + 1);
  const ReferenceOutput all = reference.run(text), part = reference.run(text, {.max_layers = stop});
  RC_ASSERT(part.rows.size() == static_cast<size_t>(stop) + 1);
  RC_ASSERT(std::equal(part.rows.begin(), part.rows.end(), all.rows.begin()));
  for (size_t i = 0; i < part.exits.size(); ++i) RC_ASSERT(part.exits[i].logits == all.exits[i].logits);
}

RC_GTEST_PROP(AnyModel, IsOrderInvariantWithoutPositions, ()) {
  ModelSpec spec = arbitrary_spec();
  spec.rotary_base = 0;
  spec.window = spec.relative_buckets = 0;
  const size_t size = static_cast<size_t>(spec.positions) * static_cast<size_t>(spec.embedding);
  const Reference reference(make_model(
      spec, arbitrary_exits(spec), {{"embeddings.position.weight", std::vector<float>(size, 0.0F)}}, pick(0U, 1000U)));
  const Encoding text = arbitrary_text(spec);
  const int length = static_cast<int>(text.ids.size());
  RC_PRE(length > 2);
  const int a = pick(1, length), b = pick(1, length);
  Encoding other = text;
  std::swap(other.ids[static_cast<size_t>(a)], other.ids[static_cast<size_t>(b)]);
  std::swap(other.types[static_cast<size_t>(a)], other.types[static_cast<size_t>(b)]);
  const ReferenceOutput one = reference.run(text), two = reference.run(other);
  // A norm over a few nearly equal values can enlarge rounding, so the tolerance is loose; mistakes are far larger.
  for (int t = 0; t < length; ++t) {
    RC_ASSERT(close(one.row(spec.layers, t), two.row(spec.layers, t == a ? b : t == b ? a : t), 1e-2F));
  }
  RC_ASSERT(close(one.exits.back().logits, two.exits.back().logits, 1e-2F));
}

}  // namespace
}  // namespace exeunt
