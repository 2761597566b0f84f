// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/device_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/half.h"
#include "exeunt/base/parallel.h"
#include "exeunt/engine/backend.h"
#include "exeunt/engine/formulas.h"
#include "exeunt/engine/memory_parts.h"
#include "exeunt/model/schema.h"

namespace exeunt::cuda {
namespace {

// The largest |value| of each row becomes 127.
void quantize_rows(std::span<const float> values, size_t columns, int8_t* out, float* scales) {
  for (size_t at = 0; at < values.size(); at += columns) {
    float most = 0;
    for (const float x : values.subspan(at, columns)) most = std::max(most, std::abs(x));
    const float scale = most > 0 ? most / 127.0F : 1.0F;
    for (size_t c = 0; c < columns; ++c)
      out[at + c] = static_cast<int8_t>(std::clamp(std::nearbyint(values[at + c] / scale), -127.0F, 127.0F));
    scales[at / columns] = scale;
  }
}

// One array on the device: the tensors it is made of, one below the other, and where its address goes.
struct Part {
  std::vector<std::string> tensors = {};
  bool narrow = false;  // in the model's number, else in fp32 …
  bool int8 = false;    // … or in int8, followed by the scales of its rows
  size_t columns = 0;   // int8: of a row
  const float** scales = nullptr;
  const void** address = nullptr;
  size_t count = 0, place = 0, scales_place = 0;
};

class Uploader {
 public:
  Uploader(const Checkpoint& checkpoint, Number number) : checkpoint_(checkpoint), number_(number) {}

  void floats(const float*& out, std::vector<std::string> names) {
    add({.tensors = std::move(names), .address = reinterpret_cast<const void**>(&out)});
  }
  void norm(Norm& out, const std::string& name) {
    out.epsilon = checkpoint_.spec().norm_eps;
    floats(out.weight, {name + ".weight"});
    floats(out.bias, {name + ".bias"});
  }
  // y = W x + b of one or several matrices of the same inputs, their outputs side by side.
  void matrix(Matrix& out, const std::vector<std::string>& names, bool int8 = false) {
    std::vector<std::string> weights, biases;
    for (const std::string& name : names) {
      weights.push_back(name + ".weight");
      biases.push_back(name + ".bias");
      out.outputs += static_cast<int>(checkpoint_.get(weights.back()).shape[0]);
    }
    out.inputs = static_cast<int>(checkpoint_.get(weights.front()).shape[1]);
    add({.tensors = std::move(weights),
         .narrow = !int8,
         .int8 = int8,
         .columns = static_cast<size_t>(out.inputs),
         .scales = &out.scale,
         .address = &out.weight});
    floats(out.bias, std::move(biases));
  }
  void affine(Affine& out, const std::string& name) {
    const TensorView& weight = checkpoint_.get(name + ".weight");
    out.outputs = static_cast<int>(weight.shape[0]);
    out.inputs = static_cast<int>(weight.shape[1]);
    floats(out.weight, {name + ".weight"});
    floats(out.bias, {name + ".bias"});
  }

  // Converts on several threads into pinned memory, and copies once.
  [[nodiscard]] DeviceMemory run() {
    DeviceMemory device = device_memory(plan_.size(), "the model's weights");
    const PinnedMemory host = pinned_memory(plan_.size(), "copying the model's weights");
    parallel_for(static_cast<int64_t>(parts_.size()), 0, [&](int64_t i) {
      const Part& part = parts_[static_cast<size_t>(i)];
      write(part, host.data());
      *part.address = device.data() + part.place;
      if (part.int8) *part.scales = reinterpret_cast<const float*>(device.data() + part.scales_place);
    });
    const OwnStream stream;
    copy_to_device(device.data(), host.data(), plan_.size(), stream.get());
    stream.wait();
    return device;
  }

 private:
  void add(Part part) {
    for (const std::string& name : part.tensors) part.count += static_cast<size_t>(checkpoint_.get(name).elements());
    part.place = plan_.add(part.count, part.int8 ? 1 : part.narrow ? bytes_of(number_) : sizeof(float));
    if (part.int8) part.scales_place = plan_.add(part.count / part.columns, sizeof(float));
    parts_.push_back(std::move(part));
  }

  void write(const Part& part, std::byte* base) const {
    std::vector<float> values;
    std::byte* to = base + part.place;
    auto* scales = reinterpret_cast<float*>(base + part.scales_place);  // of int8
    for (const std::string& name : part.tensors) {
      const TensorView& view = checkpoint_.get(name);
      values.resize(static_cast<size_t>(view.elements()));
      copy_to_float(view, values);
      check_finite(name, values);
      if (part.int8) {
        quantize_rows(values, part.columns, reinterpret_cast<int8_t*>(to), scales);
        to += values.size();
        scales += values.size() / part.columns;
      } else if (part.narrow && number_ == Number::bf16) {
        auto* out = reinterpret_cast<uint16_t*>(to);
        for (size_t i = 0; i < values.size(); ++i) out[i] = float_to_bf16(values[i]);
        to += values.size() * sizeof(uint16_t);
      } else {
        std::memcpy(to, values.data(), values.size() * sizeof(float));
        to += values.size() * sizeof(float);
      }
    }
  }

  const Checkpoint& checkpoint_;
  Number number_;
  std::vector<Part> parts_ = {};
  MemoryParts plan_{kPartAlignment};
};

void check_precisions(const ModelSpec& spec, Precision wanted, const Chip& chip, const Exceptions& exceptions) {
  for (const auto& [matrix, precision] : exceptions) {
    const bool fits = wanted == Precision::int8 ? precision != Precision::fp32 : precision == wanted;
    if (fits || matrix == kPoolers) continue;
    throw Error(
        Code::resources,
        fmt::format("precision of '{}': a GPU does not run {} beside {}", matrix, name_of(precision), name_of(wanted)),
        "use another --precision, or --device cpu");
  }
  if (wanted != Precision::int8) return;
  if (int8_fits(spec.hidden, spec.hidden, chip) && int8_fits(spec.inner, spec.hidden, chip)) return;
  throw Error(Code::resources, "precision int8: this GPU or the sizes of this model do not have it",
              "use --precision bf16, or --device cpu");
}

}  // namespace

DeviceModel::DeviceModel(const Checkpoint& checkpoint, Precision wanted, const Chip& gpu, const Exceptions& exceptions)
    : spec(checkpoint.spec()),
      exits(checkpoint.exits()),
      precision(wanted),
      chip(gpu),
      number(wanted == Precision::fp32 ? Number::fp32 : Number::bf16),
      quantizes(wanted == Precision::int8),
      state_floats(max_state_floats(static_cast<int>(exits.sites.size()), exits.outputs)) {
  check_precisions(spec, wanted, chip, exceptions);
  // Of the layers; the projection of embeddings, poolers and classifiers are not worth it.
  const auto is_int8 = [&](const std::string& matrix) {
    const auto found = exceptions.find(matrix);
    return (found == exceptions.end() ? wanted : found->second) == Precision::int8;
  };
  Uploader uploader(checkpoint, number);
  uploader.floats(word, {"embeddings.word.weight"});
  if (checkpoint.find("embeddings.position.weight") != nullptr)
    uploader.floats(position, {"embeddings.position.weight"});
  if (checkpoint.find("embeddings.segment.weight") != nullptr) uploader.floats(segment, {"embeddings.segment.weight"});
  uploader.norm(embedding_norm, "embeddings.norm");
  if (spec.embedding_projection) uploader.matrix(project.emplace(), {"embeddings.project"});
  layers.resize(distinct_layers(spec));
  size_t next = 0;
  for (int i = 0; i < spec.layers; ++i) {
    if (static_cast<size_t>(spec.weights_of(i)) != next) continue;
    LayerWeights& layer = layers[next++];
    const std::string prefix = layer_prefix(spec, i) + ".";
    uploader.matrix(layer.qkv, {prefix + "query", prefix + "key", prefix + "value"}, is_int8(prefix + "qkv"));
    uploader.matrix(layer.output, {prefix + "output"}, is_int8(prefix + "output"));
    uploader.norm(layer.attention_norm, prefix + "attention_norm");
    uploader.matrix(layer.ffn1, {prefix + "ffn1"}, is_int8(prefix + "ffn1"));
    uploader.matrix(layer.ffn2, {prefix + "ffn2"}, is_int8(prefix + "ffn2"));
    uploader.norm(layer.ffn_norm, prefix + "ffn_norm");
  }
  readers.resize(static_cast<size_t>(exits.readers()));
  poolers.resize(static_cast<size_t>(exits.poolers()));
  classifiers.resize(static_cast<size_t>(exits.classifiers()));
  for (size_t r = 0; r < readers.size(); ++r) uploader.floats(readers[r], {fmt::format("exits.reader.{}.weight", r)});
  for (size_t p = 0; p < poolers.size(); ++p) uploader.matrix(poolers[p], {fmt::format("exits.pooler.{}", p)});
  for (size_t c = 0; c < classifiers.size(); ++c) {
    const std::string name = fmt::format("exits.classifier.{}", c);
    uploader.affine(classifiers[c].outer, name);
    if (exits.inner) uploader.affine(classifiers[c].inner, name + ".inner");
  }
  if (exits.lte) uploader.affine(lte, "exits.lte");
  memory_ = uploader.run();
  if (exits.logit_thresholds.empty()) return;
  logit_thresholds_ = device_memory(exits.logit_thresholds.size() * sizeof(float), "the labels' thresholds");
  const OwnStream stream;
  copy_to_device(logit_thresholds_.data(), exits.logit_thresholds.data(), logit_thresholds_.size(), stream.get());
  stream.wait();
  logit_thresholds = reinterpret_cast<const float*>(logit_thresholds_.data());
}

Product DeviceModel::product(const Matrix& matrix) const {
  return {.number = number,
          .weight = matrix.weight,
          .bias = matrix.bias,
          .inputs = matrix.inputs,
          .outputs = matrix.outputs,
          .column_scale = matrix.scale};
}

bool DeviceModel::pools_by_product(const ExitSite& site) const {
  return number == Number::bf16 && chip.hopper() && site.pooler && !reads_all_rows(exits, site) &&
         spec.hidden % 8 == 0 && poolers[static_cast<size_t>(*site.pooler)].outputs % 8 == 0;
}

bool DeviceModel::mixes_depths() const {
  const std::span<const ExitSite> sites = std::span(exits.sites).subspan(first_site());
  return spec.layers > 1 && spec.weights_of(spec.layers - 1) == 0 && !exits.last_ramp && !sites.empty() &&
         std::ranges::all_of(sites, [&](const ExitSite& site) {
           return pools_by_product(site) && poolers[static_cast<size_t>(*site.pooler)].outputs ==
                                                poolers[static_cast<size_t>(*sites.front().pooler)].outputs;
         });
}

}  // namespace exeunt::cuda
