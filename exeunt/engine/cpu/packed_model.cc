// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/packed_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/half.h"
#include "exeunt/base/parallel.h"
#include "exeunt/engine/backend.h"
#include "exeunt/engine/formulas.h"
#include "exeunt/engine/memory_parts.h"
#include "exeunt/model/schema.h"
#include "exeunt/model/spec.h"

namespace exeunt {
namespace {

// One packing job: the tensors it reads, and how to write what it makes of them. Jobs run in parallel.
struct Job {
  std::vector<std::string> tensors = {};
  std::function<void(std::byte*)> make = {};
  size_t place = 0, bytes = 0;
};

class Packer {
 public:
  Packer(const Checkpoint& checkpoint, const Kernels& kernels) : checkpoint_(checkpoint), kernels_(kernels) {}

  // y = W x + b of one or several matrices of the same inputs, their outputs side by side.
  void matrix(PackedWeight& out, Precision precision, const std::vector<std::string>& names) {
    int64_t outputs = 0;
    std::vector<std::string> weights, biases;  // one below the other
    for (const std::string& name : names) {
      weights.push_back(name + ".weight");
      outputs += checkpoint_.get(weights.back()).shape[0];
      if (checkpoint_.find(name + ".bias") != nullptr) biases.push_back(name + ".bias");
    }
    out.precision = precision;
    out.inputs = static_cast<int>(checkpoint_.get(weights.front()).shape[1]);
    out.outputs = static_cast<int>(outputs);
    const size_t bytes = kernels_.packed_bytes(precision, out.inputs, out.outputs);
    add(weights, bytes, [this, &out, weights, biases](std::byte* to) {
      std::vector<float> own_weight, own_bias;
      const float* weight = gather(weights, own_weight);
      if (biases.empty()) own_bias.resize(static_cast<size_t>(out.outputs), 0.0F);
      const float* bias = biases.empty() ? own_bias.data() : gather(biases, own_bias);
      out.data = to;
      kernels_.pack_weight(out, weight, bias, to);
    });
  }

  void floats(const float*& out, const std::string& name) {
    const size_t bytes = static_cast<size_t>(checkpoint_.get(name).elements()) * sizeof(float);
    add({name}, bytes, [this, &out, name, bytes](std::byte* to) {
      std::vector<float> own;
      std::memcpy(to, gather({&name, 1}, own), bytes);
      out = reinterpret_cast<const float*>(to);
    });
  }

  void plain(PlainWeight& out, const std::string& name) {
    const TensorView& weight = checkpoint_.get(name + ".weight");
    out.outputs = static_cast<int>(weight.shape[0]);
    out.inputs = static_cast<int>(weight.shape[1]);
    floats(out.weight, name + ".weight");
    floats(out.bias, name + ".bias");
  }

  void norm(PackedNorm& out, const std::string& name) {
    floats(out.weight, name + ".weight");
    if (checkpoint_.find(name + ".bias") != nullptr) return floats(out.bias, name + ".bias");
    const auto count = static_cast<size_t>(checkpoint_.get(name + ".weight").elements());
    add({}, count * sizeof(float), [&out](std::byte* place) { out.bias = reinterpret_cast<const float*>(place); });
  }

  // What `map` makes of the rows of the distances, as one weight [rows, width] for each head; `backwards` from the last
  // row to the first: along the keys of a query, distances fall.
  void distances(std::vector<PackedWeight>& out, Precision precision, const std::string& map,
                 const std::vector<float>& rows, bool backwards) {
    const ModelSpec& spec = checkpoint_.spec();
    const int count = 2 * spec.relative_buckets, width = spec.head_width();
    out.assign(static_cast<size_t>(spec.heads), {.precision = precision, .inputs = width, .outputs = count});
    const size_t bytes =
        (kernels_.packed_bytes(precision, width, count) + kKernelAlignment - 1) / kKernelAlignment * kKernelAlignment;
    add({}, bytes * out.size(), [this, &out, &rows, map, bytes, count, width, backwards](std::byte* place) {
      const Linear linear(checkpoint_.get(map + ".weight"), checkpoint_.get(map + ".bias"));
      const std::vector<float> mapped = linear(rows), zeros(static_cast<size_t>(count), 0.0F);
      std::vector<float> head(static_cast<size_t>(count) * static_cast<size_t>(width));
      const size_t stride = mapped.size() / static_cast<size_t>(count);
      for (size_t h = 0; h < out.size(); ++h) {
        for (size_t r = 0; r < static_cast<size_t>(count); ++r) {
          const size_t to = backwards ? static_cast<size_t>(count) - 1 - r : r;
          std::copy_n(mapped.data() + r * stride + h * static_cast<size_t>(width), width,
                      head.data() + to * static_cast<size_t>(width));
        }
        out[h].data = place + h * bytes;
        kernels_.pack_weight(out[h], head.data(), zeros.data(), place + h * bytes);
      }
    });
  }

  void table(PackedTable& out, const std::string& name) {
    const TensorView& view = checkpoint_.get(name);
    out.dtype = view.dtype == DType::f64 ? DType::f32 : view.dtype;
    const size_t bytes = static_cast<size_t>(view.elements()) * size_of(out.dtype);
    add({name}, bytes, [this, &out, name, bytes](std::byte* to) {
      out.data = to;
      pack_table(out.dtype, name, {to, bytes});
    });
  }

  // Runs all jobs on several threads, the largest first, for balance.
  [[nodiscard]] Region run(int threads) {
    Region region(plan_.size(), "weights");
    std::stable_sort(jobs_.begin(), jobs_.end(), [](const Job& a, const Job& b) { return a.bytes > b.bytes; });
    parallel_for(static_cast<int64_t>(jobs_.size()), threads, [&](int64_t i) {
      const Job& job = jobs_[static_cast<size_t>(i)];
      job.make(region.data() + job.place);
      for (const std::string& name : job.tensors) drop(checkpoint_.get(name));
    });
    // Reading next to a dropped part may have brought some pages back.
    for (const std::span<const std::byte> file : checkpoint_.tensors().mapped) drop_pages(file);
    return region;
  }

 private:
  void add(std::vector<std::string> tensors, size_t bytes, std::function<void(std::byte*)> make) {
    jobs_.push_back(
        {.tensors = std::move(tensors), .make = std::move(make), .place = plan_.add(bytes), .bytes = bytes});
  }

  // The tensors `names` as floats, one below the other; `own` holds them unless the file already does.
  [[nodiscard]] const float* gather(std::span<const std::string> names, std::vector<float>& own) const {
    const TensorView& first = checkpoint_.get(names.front());
    const bool aligned = reinterpret_cast<uintptr_t>(first.bytes.data()) % alignof(float) == 0;
    if (names.size() == 1 && first.dtype == DType::f32 && first.contiguous() && aligned) {
      const auto* data = reinterpret_cast<const float*>(first.bytes.data());
      check_finite(names.front(), {data, static_cast<size_t>(first.elements())});
      return data;
    }
    size_t total = 0;
    for (const std::string& name : names) total += static_cast<size_t>(checkpoint_.get(name).elements());
    own.resize(total);
    size_t at = 0;
    for (const std::string& name : names) {
      const TensorView& view = checkpoint_.get(name);
      const auto part = std::span(own).subspan(at, static_cast<size_t>(view.elements()));
      copy_to_float(view, part);
      check_finite(name, part);
      at += part.size();
    }
    return own.data();
  }

  void pack_table(DType dtype, const std::string& name, std::span<std::byte> out) const {
    const TensorView& view = checkpoint_.get(name);
    if (dtype == DType::f32) {
      const std::span values(reinterpret_cast<float*>(out.data()), out.size() / sizeof(float));
      copy_to_float(view, values);
      return check_finite(name, values);
    }
    copy_raw(view, out);
    const std::span bits(reinterpret_cast<const uint16_t*>(out.data()), out.size() / sizeof(uint16_t));
    std::array<float, 1024> some;
    for (size_t at = 0; at < bits.size(); at += some.size()) {
      const size_t count = std::min(some.size(), bits.size() - at);
      for (size_t i = 0; i < count; ++i)
        some[i] = dtype == DType::bf16 ? bf16_to_float(bits[at + i]) : fp16_to_float(bits[at + i]);
      check_finite(name, {some.data(), count}, at);
    }
  }

  // Only pages of a mapped file may be dropped: others would be lost.
  void drop(const TensorView& view) const {
    for (const std::span<const std::byte> file : checkpoint_.tensors().mapped) {
      const std::less_equal<> before;
      if (before(file.data(), view.bytes.data()) &&
          before(view.bytes.data() + view.bytes.size(), file.data() + file.size()))
        return drop_pages(view.bytes);
    }
  }

  const Checkpoint& checkpoint_;
  const Kernels& kernels_;
  MemoryParts plan_{kKernelAlignment};
  std::vector<Job> jobs_ = {};
};

void require_precision(const Kernels& kernels, Precision precision) {
  if (precision != Precision::bf16 || kernels.bf16) return;
  throw Error(Code::resources, fmt::format("precision bf16: the kernels '{}' do not have it", kernels.name),
              "use --precision fp32 or int8");
}

void check_exceptions(const ModelSpec& spec, const Kernels& kernels, const Exceptions& exceptions) {
  const std::vector<std::string> matrices = matrix_names(spec);
  for (const auto& [matrix, precision] : exceptions) {
    require_precision(kernels, precision);
    if (!is_matrix(matrices, matrix)) {
      throw Error(Code::usage, fmt::format("precision of '{}': the model has no such matrix", matrix),
                  fmt::format("they go from {} to {}, and poolers", matrices.front(), matrices.back()));
    }
  }
}

Precision precision_of(std::string_view matrix, const Exceptions& exceptions, Precision otherwise) {
  const auto found = exceptions.find(matrix);
  return found == exceptions.end() ? otherwise : found->second;
}

void plan_layers(PackedModel& model, const PackOptions& options, const std::vector<float>& distances, Packer& packer) {
  const auto precision = [&](const std::string& matrix) {
    return precision_of(matrix, options.exceptions, options.precision);
  };
  model.layers.resize(distinct_layers(model.spec));
  size_t next = 0;
  for (int i = 0; i < model.spec.layers; ++i) {
    if (static_cast<size_t>(model.spec.weights_of(i)) != next) continue;
    PackedLayer& layer = model.layers[next++];
    const std::string prefix = layer_prefix(model.spec, i) + ".";
    packer.matrix(layer.query, precision(prefix + "qkv"), {prefix + "query"});
    packer.matrix(layer.key_value, precision(prefix + "qkv"), {prefix + "key", prefix + "value"});
    packer.matrix(layer.output, precision(prefix + "output"), {prefix + "output"});
    if (model.spec.has_attention_norm(i)) packer.norm(layer.attention_norm, prefix + "attention_norm");
    packer.matrix(layer.ffn1, precision(prefix + "ffn1"), {prefix + "ffn1"});
    if (model.spec.gated) packer.matrix(layer.gate.emplace(), precision(prefix + "ffn1"), {prefix + "gate"});
    packer.matrix(layer.ffn2, precision(prefix + "ffn2"), {prefix + "ffn2"});
    packer.norm(layer.ffn_norm, prefix + "ffn_norm");
    if (distances.empty()) continue;
    packer.distances(layer.distance_keys, model.heads, prefix + "key", distances, true);
    packer.distances(layer.distance_queries, model.heads, prefix + "query", distances, false);
  }
}

// The table of distances as layers read it; empty without one.
std::vector<float> normed_distances(const Checkpoint& checkpoint) {
  if (checkpoint.spec().relative_buckets == 0) return {};
  std::vector<float> rows = to_floats(checkpoint.get("relative.weight"));
  layer_norm(rows, {.weight = to_floats(checkpoint.get("relative.norm.weight")),
                    .bias = to_floats(checkpoint.get("relative.norm.bias")),
                    .epsilon = checkpoint.spec().norm_eps});
  return rows;
}

// What does not depend on the weights.
void plan_positions(PackedModel& model) {
  const ModelSpec& spec = model.spec;
  if (spec.rotary_base > 0) {
    model.rotation.emplace(spec.rotary_base, spec.head_width(), spec.max_tokens());
    model.local_rotation.emplace(spec.local_rotary_base, spec.head_width(), spec.max_tokens());
  }
  if (spec.relative_buckets > 0) {
    const DistanceBuckets buckets(spec);
    for (int d = 1 - spec.max_tokens(); d < spec.max_tokens(); ++d) model.distance_rows.push_back(buckets.row(d));
    int& straight = model.straight_distance;
    while (straight + 1 < spec.max_tokens() && buckets.row(straight + 1) == buckets.row(0) + straight + 1 &&
           buckets.row(-straight - 1) == buckets.row(0) - straight - 1) {
      ++straight;
    }
  }
}

void plan_heads(PackedModel& model, const PackOptions& options, Packer& packer) {
  model.readers.resize(static_cast<size_t>(model.exits.readers()));
  model.poolers.resize(static_cast<size_t>(model.exits.poolers()));
  model.classifiers.resize(static_cast<size_t>(model.exits.classifiers()));
  for (size_t r = 0; r < model.readers.size(); ++r)
    packer.floats(model.readers[r], fmt::format("exits.reader.{}.weight", r));
  const Precision poolers = precision_of(kPoolers, options.exceptions, model.heads);
  for (size_t p = 0; p < model.poolers.size(); ++p) {
    const std::string name = fmt::format("exits.pooler.{}", p);
    packer.matrix(model.poolers[p].map, poolers, {name});
    if (model.exits.pooler.norm && !pooler_has_reader(model.exits, static_cast<int>(p)))
      packer.norm(model.poolers[p].norm, name + ".norm");
  }
  for (size_t c = 0; c < model.classifiers.size(); ++c) {
    const std::string name = fmt::format("exits.classifier.{}", c);
    packer.plain(model.classifiers[c].outer, name);
    if (model.exits.inner) packer.plain(model.classifiers[c].inner.emplace(), name + ".inner");
  }
  if (model.exits.lte) packer.plain(model.lte.emplace(), "exits.lte");
}

Precision higher_precision(const Kernels& kernels, Precision precision) {
  return precision != Precision::fp32 && kernels.bf16 ? Precision::bf16 : Precision::fp32;
}

}  // namespace

void PackedTable::add_row(size_t row, size_t columns, float* sum) const noexcept {
  if (dtype == DType::f32) {
    const float* from = reinterpret_cast<const float*>(data) + row * columns;
    for (size_t c = 0; c < columns; ++c) sum[c] += from[c];
    return;
  }
  const uint16_t* from = reinterpret_cast<const uint16_t*>(data) + row * columns;
  for (size_t c = 0; c < columns; ++c) sum[c] += dtype == DType::bf16 ? bf16_to_float(from[c]) : fp16_to_float(from[c]);
}

PackedModel::PackedModel(const Checkpoint& checkpoint, const Kernels& table, const PackOptions& options)
    : spec(checkpoint.spec()),
      exits(checkpoint.exits()),
      kernels(&table),
      precision(options.precision),
      attention(higher_precision(table, options.precision)),
      heads(higher_precision(table, options.precision)) {
  require_precision(table, precision);
  check_exceptions(spec, table, options.exceptions);
  Packer packer(checkpoint, table);
  packer.table(word, "embeddings.word.weight");
  if (spec.position_table) packer.table(position, "embeddings.position.weight");
  if (spec.segments > 0) packer.table(segment, "embeddings.segment.weight");
  packer.norm(embedding_norm, "embeddings.norm");
  if (spec.embedding_projection) packer.matrix(project.emplace(), heads, {"embeddings.project"});
  const std::vector<float> distances = normed_distances(checkpoint);
  plan_positions(*this);
  plan_layers(*this, options, distances, packer);
  if (spec.pre_norm) packer.norm(final_norm, "final_norm");
  plan_heads(*this, options, packer);
  region_ = packer.run(options.threads);
  if (exits.ngrams) ngrams.emplace(checkpoint);
}

}  // namespace exeunt
