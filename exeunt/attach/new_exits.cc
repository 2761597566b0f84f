// SPDX-License-Identifier: Apache-2.0
// Checkpoints before and after: the finished model with its last exit alone, and with new exits before it.
#include <array>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "exeunt/attach/attach.h"
#include "exeunt/base/error.h"
#include "exeunt/model/schema.h"

namespace exeunt {
namespace {

Origin origin_of(const Checkpoint& model) {
  Origin origin;
  origin.folder = model.folder();
  origin.notices = model.notices();
  return origin;
}

// Takes every tensor of `from` whose name begins with `old`, under the name `now` instead.
void take_renamed(const Checkpoint& from, const std::string& old, const std::string& now, TensorSet& out) {
  for (const auto& [name, view] : from.tensors().tensors) {
    if (name.starts_with(old)) out.tensors[now + name.substr(old.size())] = view;
  }
}

TensorSet backbone_of(const Checkpoint& model) {
  TensorSet out;
  for (const auto& [name, view] : model.tensors().tensors) {
    if (!name.starts_with("exits.")) out.tensors[name] = view;
  }
  out.owners = model.tensors().owners;
  out.mapped = model.tensors().mapped;
  return out;
}

void take_head(const Checkpoint& from, const ExitSite& old, const ExitSite& now, TensorSet& out) {
  const auto part = [](const char* kind, int index) { return fmt::format("exits.{}.{}.", kind, index); };
  if (old.reader) take_renamed(from, part("reader", *old.reader), part("reader", *now.reader), out);
  if (old.pooler) take_renamed(from, part("pooler", *old.pooler), part("pooler", *now.pooler), out);
  take_renamed(from, part("classifier", old.classifier), part("classifier", now.classifier), out);
}

template <class Value>
void put_as(DType dtype, TensorSet& out, const std::string& name, std::vector<int64_t> shape,
            std::span<const Value> values) {
  const auto own = std::make_shared<const std::vector<Value>>(values.begin(), values.end());
  out.tensors[name] = view_of(dtype, *own, std::move(shape));
  out.owners.push_back(own);
}

void put(TensorSet& out, const std::string& name, std::vector<int64_t> shape, std::span<const float> values) {
  put_as(DType::f32, out, name, std::move(shape), values);
}

void put_ngrams(const TrainedNgrams& ngrams, TensorSet& out) {
  const NgramShape& shape = ngrams.shape;
  const auto outputs = static_cast<int64_t>(ngrams.bias.size());
  put_as<uint16_t>(DType::bf16, out, "exits.ngrams.table", {int64_t{1} << shape.bits, shape.rank}, ngrams.table);
  if (!ngrams.output.empty()) put(out, "exits.ngrams.output", {outputs, shape.rank}, ngrams.output);
  put(out, "exits.ngrams.bias", {outputs}, ngrams.bias);
  put_as<uint8_t>(DType::u8, out, "exits.ngrams.pieces", {shape.piece_bytes}, ngrams.pieces.bytes);
  put_as<int32_t>(DType::i32, out, "exits.ngrams.begins", {static_cast<int64_t>(ngrams.pieces.begins.size())},
                  ngrams.pieces.begins);
}

void put_head(const AttachedExit& exit, int index, TensorSet& out) {
  const HeadShape& shape = exit.weights.shape();
  const int64_t hidden = shape.hidden, width = shape.width, outputs = shape.outputs, inner = shape.inner;
  const int64_t first = inner > 0 ? inner : outputs;
  const auto name = [&](const char* form) { return fmt::format(fmt::runtime(form), index); };
  const auto values = [&](HeadArray::Part part) { return exit.weights.part(part); };
  put(out, name("exits.reader.{}.weight"), {hidden}, values(HeadArray::query));
  put(out, name("exits.pooler.{}.weight"), {width, 2 * hidden}, values(HeadArray::pooler));
  put(out, name("exits.pooler.{}.bias"), {width}, values(HeadArray::pooler_bias));
  put(out, name("exits.classifier.{}.weight"), {first, width}, values(HeadArray::classifier));
  put(out, name("exits.classifier.{}.bias"), {first}, values(HeadArray::classifier_bias));
  if (inner == 0) return;
  put(out, name("exits.classifier.{}.inner.weight"), {outputs, inner}, values(HeadArray::inner));
  put(out, name("exits.classifier.{}.inner.bias"), {outputs}, values(HeadArray::inner_bias));
}

}  // namespace

Checkpoint finished_model(const Checkpoint& model) {
  const ExitLayout& old = model.exits();
  if (old.sites.empty()) throw_no_head(model);
  ExitSite site = old.sites.back();
  if (old.compat_last_ramp == LastHead::ramp) {
    site.pooler = old.last_ramp->pooler;
    site.classifier = old.last_ramp->classifier;
  }
  ExitSite now{.after = site.after, .classifier = 0};
  if (site.reader) now.reader = 0;
  if (site.pooler) now.pooler = 0;
  ExitLayout exits = old;
  exits.sites = {now};
  exits.lte = false;
  exits.last_ramp.reset();
  exits.ngrams.reset();
  exits.compat_last_ramp = LastHead::final;
  TensorSet tensors = backbone_of(model);
  take_head(model, site, now, tensors);
  return {model.spec(), std::move(exits), std::move(tensors), origin_of(model)};
}

Checkpoint with_exits(const Checkpoint& finished, const AttachedExits& attached) {
  const ExitSite old = finished.exits().sites.back();
  ExitLayout layout = finished.exits();
  layout.sites.clear();
  TensorSet tensors = backbone_of(finished);
  int index = 0;
  for (const AttachedExit& exit : attached.exits) {
    layout.sites.push_back({.after = exit.after, .reader = index, .pooler = index, .classifier = index});
    put_head(exit, index++, tensors);
  }
  ExitSite last{.after = old.after, .classifier = index};
  if (old.reader) last.reader = index;
  if (old.pooler) last.pooler = index;
  layout.sites.push_back(last);
  take_head(finished, old, last, tensors);
  Checkpoint out(finished.spec(), std::move(layout), std::move(tensors), origin_of(finished));
  return attached.ngrams ? with_ngrams(out, *attached.ngrams) : out;
}

Checkpoint with_ngrams(const Checkpoint& model, const TrainedNgrams& ngrams) {
  ExitLayout layout = model.exits();
  layout.ngrams = ngrams.shape;
  layout.sites.insert(layout.sites.begin(), ExitSite{.after = 0, .classifier = kNoClassifier});
  TensorSet tensors = model.tensors();
  put_ngrams(ngrams, tensors);
  Origin origin = origin_of(model);
  origin.policy = model.native_policy();
  return {model.spec(), std::move(layout), std::move(tensors), std::move(origin)};
}

}  // namespace exeunt
