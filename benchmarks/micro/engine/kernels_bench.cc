// SPDX-License-Identifier: Apache-2.0
// Every table's kernels in the shapes of BERT-base. `least_us` is the minimum CPU time of all calls (the machine
// may have other work), `Gop/s` and `of_peak` follow from it; a product's time includes the packing or quantising of
// its input. A product above 100 % of the peak ends the program with an error.
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cpu/register_peak.h"

namespace exeunt {
namespace {

// Aligned bytes on separate pages, so that large weights may be on huge pages.
struct Buffer {
  explicit Buffer(size_t size) : bytes(size + kPage) {
    auto address = reinterpret_cast<uintptr_t>(bytes.data());
    data = bytes.data() + ((kPage - address % kPage) % kPage);
  }
  static constexpr size_t kPage = 4096;
  std::vector<std::byte> bytes;
  std::byte* data;
};

std::vector<float> random_values(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Runs and times one call per iteration.
template <class F>
double least_of(benchmark::State& state, F call) {
  double least = 1e9;
  for (auto _ : state) {
    const double start = thread_seconds();
    call();
    const double seconds = thread_seconds() - start;
    state.SetIterationTime(seconds);
    least = std::min(least, seconds);
  }
  state.counters["least_us"] = least * 1e6;
  return least;
}

struct Shape {
  int rows, inputs, outputs;
};

enum class Part { whole, pack, product };  // of a product with its packing

void multiply(benchmark::State& state, const Kernels& table, Precision precision, Shape shape, Finish finish,
              Part part) {
  const auto size = [](int a, int b) { return static_cast<size_t>(a) * static_cast<size_t>(b); };
  const std::vector<float> x = random_values(size(shape.rows, shape.inputs)),
                           w = random_values(size(shape.inputs, shape.outputs)),
                           bias = random_values(static_cast<size_t>(shape.outputs));
  const Buffer packed(table.packed_bytes(precision, shape.inputs, shape.outputs));
  const PackedWeight weight{
      .precision = precision, .inputs = shape.inputs, .outputs = shape.outputs, .data = packed.data};
  table.pack_weight(weight, w.data(), bias.data(), packed.data);
  const Buffer in(table.operand_bytes(precision, shape.rows, shape.inputs)),
      out(size(shape.rows, shape.outputs) * sizeof(float)),
      next_data(table.operand_bytes(Precision::bf16, shape.rows, shape.outputs));
  const Operand input{.precision = precision, .rows = shape.rows, .columns = shape.inputs, .data = in.data};
  const Operand next{
      .precision = Precision::bf16, .rows = shape.rows, .columns = shape.outputs, .data = next_data.data};
  const auto pack = [&] { table.pack_rows(x.data(), static_cast<size_t>(shape.inputs), input, 0, shape.rows); };
  pack();
  const double least = least_of(state, [&] {
    if (part != Part::product) pack();
    if (part == Part::pack) return;
    table.multiply({.weight = &weight,
                    .input = input,
                    .finish = finish,
                    .out = out.data,
                    .stride = static_cast<size_t>(shape.outputs),
                    .next = next,
                    .rows = shape.rows,
                    .panels = panels_of(table, weight)});
  });
  if (part == Part::pack) {
    state.counters["ns/element"] = least * 1e9 / static_cast<double>(x.size());
    return;
  }
  const double operations = 2.0 * static_cast<double>(x.size()) * shape.outputs;
  state.counters["Gop/s"] = operations / least * 1e-9;
  if (const double peak = register_peak(table.name, precision); peak > 0) {
    state.counters["of_peak"] = share_of_peak(operations / least, peak);
  }
}

void normalize(benchmark::State& state, const Kernels& table, Precision precision) {
  constexpr int rows = 128, columns = 768;
  std::vector<float> x = random_values(size_t{rows} * columns);
  const std::vector<float> ones(columns, 1.0F), zeros(columns, 0.0F);
  const Buffer next(table.operand_bytes(precision, rows, columns));
  const double least = least_of(state, [&] {
    table.normalize({.data = x.data(),
                     .stride = columns,
                     .columns = columns,
                     .weight = ones.data(),
                     .bias = zeros.data(),
                     .epsilon = 1e-12F,
                     .next = {.precision = precision, .rows = rows, .columns = columns, .data = next.data},
                     .rows = rows});
  });
  state.counters["ns/element"] = least * 1e9 / static_cast<double>(x.size());
}

void attend(benchmark::State& state, const Kernels& table, Precision precision, int tokens) {
  constexpr int heads = 12, width = 64, hidden = heads * width;
  // Values of bf16 are read as bits: any small number works, and these are all near 1.
  const std::vector<float> floats = random_values(static_cast<size_t>(tokens) * 3 * hidden);
  std::vector<uint16_t> bf16(floats.size());
  for (size_t i = 0; i < bf16.size(); ++i) bf16[i] = static_cast<uint16_t>(0x3f00 + i % 251);
  const bool is_float = precision == Precision::fp32;
  const auto part = [&](int i) {
    return is_float ? static_cast<const void*>(floats.data() + i * hidden) : bf16.data() + i * hidden;
  };
  std::vector<float> context(static_cast<size_t>(tokens) * hidden);
  const Buffer scratch(table.attention_scratch(precision, tokens, width));
  const double least = least_of(state, [&] {
    table.attend({.precision = precision,
                  .query = part(0),
                  .key = part(1),
                  .value = part(2),
                  .stride = 3 * hidden,
                  .head_width = width,
                  .tokens = tokens,
                  .context = context.data(),
                  .context_stride = hidden,
                  .heads = heads,
                  .rows = tokens,
                  .scratch = scratch.data});
  });
  state.counters["ns/score"] = least * 1e9 / (static_cast<double>(tokens) * tokens * heads);
}

void read(benchmark::State& state, const Kernels& table) {
  constexpr int tokens = 128, columns = 768;
  const std::vector<float> rows = random_values(size_t{tokens} * columns), query = random_values(columns);
  std::vector<float> scores(tokens), out(columns);
  const double least = least_of(state, [&] {
    table.read({.rows = rows.data(),
                .stride = columns,
                .tokens = tokens,
                .columns = columns,
                .query = query.data(),
                .scores = scores.data(),
                .out = out.data()});
  });
  state.counters["ns/element"] = least * 1e9 / static_cast<double>(rows.size());
}

template <class... Args>
void add(const std::string& name, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->UseManualTime()->MinTime(0.1)->Unit(benchmark::kMicrosecond);
}

void add_products(const Kernels& table, Precision precision) {
  const std::string of = std::string(table.name) + "/" + std::string(name_of(precision)) + "/";
  for (const int rows : {128, 64, 32, 16, 8, 1}) {
    for (const Shape shape : {Shape{rows, 768, 768}, {rows, 768, 3072}, {rows, 3072, 768}, {rows, 768, 2304}}) {
      add("multiply/" + of + std::to_string(rows) + "x" + std::to_string(shape.inputs) + "x" +
              std::to_string(shape.outputs),
          multiply, std::cref(table), precision, shape, Finish::store, Part::whole);
    }
  }
  add("pack/" + of + "128x768", multiply, std::cref(table), precision, Shape{128, 768, 32}, Finish::store, Part::pack);
  for (const Finish finish : {Finish::store, Finish::activate}) {
    add(std::string(finish == Finish::store ? "product" : "gelu") + "/" + of + "128x768x3072", multiply,
        std::cref(table), precision, Shape{128, 768, 3072}, finish, Part::product);
  }
  add("normalize/" + of + "128x768", normalize, std::cref(table), precision);
}

const int kRegistered = [] {
  for (const Kernels* table : all_kernels()) {
    if (!table->runs_on(cpu_features()) || !table->prepare()) continue;
    for (const Precision precision : kPrecisions) {
      if (precision == Precision::bf16 && !table->bf16) continue;
      add_products(*table, precision);
      if (precision == Precision::int8) continue;
      for (const int tokens : {16, 32, 64, 128, 512}) {
        add("attend/" + std::string(table->name) + "/" + std::string(name_of(precision)) + "/" + std::to_string(tokens),
            attend, std::cref(*table), precision, tokens);
      }
    }
    add("read/" + std::string(table->name) + "/128x768", read, std::cref(*table));
  }
  return 0;
}();

}  // namespace
}  // namespace exeunt
