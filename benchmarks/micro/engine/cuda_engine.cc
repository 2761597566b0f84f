// SPDX-License-Identifier: Apache-2.0
// How fast the CUDA engine is, from single kernels to whole batches of a BERT-base or ALBERT-base with random weights.
// One JSON object per line. `cuda_engine [products|batches|exits|int8|engine|backlog|fp32]…`; all without arguments.
// Texts have 128 tokens. For early exits, texts leave at every layer in equal shares up to the 11th (6 on average; one
// text alone after the 6th) because their policy says so there, and look at each exit on the way.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exeunt/engine/cuda/batch_runner.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/engine.h"
#include "exeunt/model/family.h"
#include "exeunt/policy/policy_text.h"
#include "tests/unit/engine/random_model.h"

namespace exeunt {
namespace {

using cuda::BatchRunner;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The median, after a warm-up, of as many runs as fit into about `budget` seconds, each `pause` after the one before.
double median_seconds(const std::function<void()>& work, double budget = 0.4, std::chrono::microseconds pause = {}) {
  work();
  work();
  std::vector<double> times;
  double total = 0;
  while (times.size() < 5 || (total < budget && times.size() < 200)) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    times.push_back(seconds_of(work));
    total += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

void time_products() {
  using namespace cuda;
  const Chip chip = chip_of(0);
  const OwnStream stream;
  std::mt19937 random(1);
  const auto noise = [&](size_t count) {
    std::vector<uint16_t> bits(count);
    for (uint16_t& x : bits) x = static_cast<uint16_t>(0x3c00U | (random() & 0x83ffU));  // ± 0.008 … 0.03
    DeviceMemory memory = device_memory(count * 2, "noise");
    copy_to_device(memory.data(), bits.data(), count * 2, stream.get());
    stream.wait();
    return memory;
  };
  for (const int rows : {128, 512, 4096, 16384, 32768}) {
    for (const auto& [inputs, outputs] : {std::pair{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}) {
      const DeviceMemory input = noise(static_cast<size_t>(rows) * static_cast<size_t>(inputs)),
                         weight = noise(static_cast<size_t>(outputs) * static_cast<size_t>(inputs)),
                         out = noise(static_cast<size_t>(rows) * static_cast<size_t>(outputs)),
                         bias = noise(static_cast<size_t>(outputs) * 2), live = device_memory(sizeof(Live), "live");
      const Live all{.texts = 1, .rows = rows, .tiles = 1};
      copy_to_device(live.data(), &all, sizeof all, stream.get());
      stream.wait();
      const Product job{.number = Number::bf16,
                        .input = input.data(),
                        .weight = weight.data(),
                        .bias = reinterpret_cast<const float*>(bias.data()),
                        .out = out.data(),
                        .inputs = inputs,
                        .outputs = outputs,
                        .finish = outputs == 3072 ? Finish::gelu : Finish::none,
                        .live = reinterpret_cast<const Live*>(live.data()),
                        .max_rows = rows};
      for (int shape = -1; shape < static_cast<int>(std::size(kShapes)); ++shape) {
        if (shape >= 0 && !shape_fits(job, shape)) continue;
        constexpr int kTimes = 20;
        const Graph graph(stream.get(), [&] {
          for (int i = 0; i < kTimes; ++i) multiply_by_tensor_cores(job, chip, shape, stream.get());
        });
        const double seconds = median_seconds(
                                   [&] {
                                     graph.launch(stream.get());
                                     stream.wait();
                                   },
                                   0.02) /
                               kTimes;
        std::printf(
            "{\"kernel\": \"product\", \"rows\": %d, \"inputs\": %d, \"outputs\": %d, \"shape\": %d, "
            "\"microseconds\": %.2f, \"tflops\": %.1f}\n",
            rows, inputs, outputs, shape, seconds * 1e6, 2e-12 * rows * inputs * outputs / seconds);
      }
    }
  }
  for (const int rows : {128, 16384, 65536}) {
    const size_t values = static_cast<size_t>(rows) * 768;
    const DeviceMemory a = noise(values), b = noise(values), out = noise(values), weight = noise(768 * 2),
                       live = device_memory(sizeof(Live), "live");
    const Live all{.texts = 1, .rows = rows, .tiles = 1};
    copy_to_device(live.data(), &all, sizeof all, stream.get());
    stream.wait();
    const auto* floats = reinterpret_cast<const float*>(weight.data());
    constexpr int kTimes = 20;
    const Graph graph(stream.get(), [&] {
      for (int i = 0; i < kTimes; ++i)
        add_norm({.number = Number::bf16,
                  .a = a.data(),
                  .b = b.data(),
                  .out = out.data(),
                  .columns = 768,
                  .norm = {.weight = floats, .bias = floats, .epsilon = 1e-12F},
                  .live = reinterpret_cast<const Live*>(live.data()),
                  .max_rows = rows},
                 stream.get());
    });
    const double seconds = median_seconds(
                               [&] {
                                 graph.launch(stream.get());
                                 stream.wait();
                               },
                               0.05) /
                           kTimes;
    std::printf("{\"kernel\": \"norm\", \"rows\": %d, \"microseconds\": %.2f}\n", rows, seconds * 1e6);
  }
  for (const int texts : {1, 128, 512}) {
    const int rows = texts * 128;
    const DeviceMemory qkv = noise(static_cast<size_t>(rows) * 2304), out = noise(static_cast<size_t>(rows) * 768);
    std::vector<int> begin;
    std::vector<Tile> tiles;
    for (int t = 0; t <= texts; ++t) begin.push_back(t * 128);
    for (int t = 0; t < 2 * texts; ++t) tiles.push_back({.text = t / 2, .first = t % 2 * 64});
    const Live all{.texts = texts, .rows = rows, .tiles = 2 * texts};
    const DeviceMemory live = device_memory(sizeof all, "live"), begins = device_memory(begin.size() * 4, "begin"),
                       tile = device_memory(tiles.size() * sizeof(Tile), "tiles");
    copy_to_device(live.data(), &all, sizeof all, stream.get());
    copy_to_device(begins.data(), begin.data(), begin.size() * 4, stream.get());
    copy_to_device(tile.data(), tiles.data(), tiles.size() * sizeof(Tile), stream.get());
    stream.wait();
    const AttentionJob job{.number = Number::bf16,
                           .qkv = qkv.data(),
                           .hidden = 768,
                           .heads = 12,
                           .out = out.data(),
                           .list = {.live = reinterpret_cast<Live*>(live.data()),
                                    .begin = reinterpret_cast<int*>(begins.data()),
                                    .tiles = reinterpret_cast<Tile*>(tile.data())},
                           .capacity = {.texts = texts, .rows = rows},
                           .max_tokens = 128};
    constexpr int kTimes = 20;
    const Graph graph(stream.get(), [&] {
      for (int i = 0; i < kTimes; ++i) attend(job, stream.get());
    });
    const double seconds = median_seconds([&] {
                             graph.launch(stream.get());
                             stream.wait();
                           }) /
                           kTimes;
    std::printf("{\"kernel\": \"attention\", \"texts\": %d, \"microseconds\": %.2f}\n", texts, seconds * 1e6);
  }
  std::fflush(stdout);
}

ModelSpec base_spec(Family family) {
  ModelSpec spec = row_of(family).spec;
  spec.layers = 12;
  spec.hidden = spec.embedding = 768;
  spec.heads = 12;
  spec.inner = 3072;
  spec.vocab = 30522;
  spec.positions = 512;
  if (spec.embedding_projection) {
    spec.embedding = 128;
    spec.groups = 1;
  }
  return spec;
}

struct Setting {
  const char* model;
  Precision precision;
};

// full: the last exit alone; looked: every exit, nobody leaves; early: leaving at 6 on average.
struct BatchCase {
  int size;
  std::vector<std::string> exits;
};

void time_batches(const Checkpoint& checkpoint, const Setting& setting, const std::vector<BatchCase>& cases) {
  cuda::use_gpu(0);
  const cuda::DeviceModel model(checkpoint, setting.precision, cuda::chip_of(0));
  BatchRunner runner(model, 65536);
  std::vector<Encoding> texts;
  for (uint32_t i = 0; i < 512; ++i) texts.push_back(random_text(model.spec, 128, i));
  const int last = static_cast<int>(model.exits.sites.size()) - 1;
  std::vector<Policy> leave_at;  // nobody is surer than 1, everybody surer than 0
  for (int site = 0; site <= last; ++site) {
    PolicySpec policy = parse_policy("confidence:0.5");
    policy.per_exit.assign(model.exits.sites.size(), 1.0F);
    policy.per_exit[static_cast<size_t>(site)] = 0;
    leave_at.push_back(bind(policy, exit_sites(model.exits)));
  }
  for (const auto& [size, exits] : cases) {
    for (const std::string& how : exits) {
      runner.clear();
      for (int i = 0; i < size; ++i) {
        const int at = how != "early" ? last : size == 1 ? 5 : i % 11;
        const Policy* policy = how == "full" ? nullptr : &leave_at[static_cast<size_t>(at)];
        if (!runner.add(texts[static_cast<size_t>(i)], {.policy = policy, .stop = last})) std::abort();
      }
      const auto run = [&] {
        runner.start();
        runner.wait();
      };
      const auto print = [&](const std::string& what, double seconds) {
        std::printf(
            "{\"model\": \"%s\", \"precision\": \"%s\", \"batch\": %d, \"exits\": \"%s\", \"milliseconds\": %.4f, "
            "\"texts_per_second\": %.0f}\n",
            setting.model, std::string(name_of(setting.precision)).c_str(), size, what.c_str(), seconds * 1e3,
            size / seconds);
        std::fflush(stdout);
      };
      print(how, median_seconds(run));
      // A text that left early leaves a layer behind that was started for nothing, and that the next text waits for;
      // one that comes later does not.
      if (size == 1) print(how + ", apart", median_seconds(run, 0.1, std::chrono::microseconds(300)));
    }
  }
}

// A backlog of 4,096 texts through the whole engine, in batches of up to `rows` rows (0: as many as by default): at
// full depth, and leaving at 6 on average.
void time_backlog(const Checkpoint& checkpoint, const Setting& setting, int rows) {
  Engine engine(checkpoint,
                {.device = {.kind = Device::Kind::cuda}, .precision = setting.precision, .pack_rows = rows});
  const size_t sites = engine.exits().sites.size(), count = 4096;
  std::vector<std::shared_ptr<const BoundPolicy>> leave_at;
  for (size_t site = 0; site + 1 < sites; ++site) {
    PolicySpec policy = parse_policy("confidence:0.5");
    policy.per_exit.assign(sites, 1.0F);
    policy.per_exit[site] = 0;
    leave_at.push_back(engine.bind(policy));
  }
  std::vector<Encoding> texts;
  for (uint32_t i = 0; i < count; ++i) texts.push_back(random_text(engine.spec(), 128, i));
  for (const bool early : {false, true}) {
    const double seconds = median_seconds([&] {
      std::latch done(static_cast<ptrdiff_t>(count));
      std::vector<Ticket> tickets;
      for (size_t i = 0; i < count; ++i) {
        const Ask ask{.policy = early ? leave_at[i % leave_at.size()] : nullptr};
        tickets.push_back(engine.submit(texts[i], ask, [&](Answer&&) { done.count_down(); }));
      }
      done.wait();
    });
    std::printf(
        "{\"model\": \"%s\", \"precision\": \"%s\", \"batch\": %zu, \"rows\": %d, \"exits\": \"%s\", "
        "\"milliseconds\": %.4f, \"texts_per_second\": %.0f}\n",
        setting.model, std::string(name_of(setting.precision)).c_str(), count, engine.pack_rows(),
        early ? "early" : "full", seconds * 1e3, static_cast<double>(count) / seconds);
    std::fflush(stdout);
  }
}

// One pass without a graph, for a profiler that counts kernels.
void run_once(const Checkpoint& checkpoint, Precision precision, int size) {
  const cuda::DeviceModel model(checkpoint, precision, cuda::chip_of(0));
  BatchRunner runner(model, 65536);
  const Encoding text = random_text(model.spec, 128);
  for (int i = 0; i < size; ++i)
    if (!runner.add(text, {.stop = static_cast<int>(model.exits.sites.size()) - 1, .all_exits = true})) std::abort();
  runner.run_by_layer(2, {});
  runner.wait();
}

void time_engine(const Checkpoint& checkpoint, const char* name) {
  Engine engine(checkpoint, {.device = {.kind = Device::Kind::cuda}, .precision = Precision::bf16});
  for (const int length : {128, 25}) {
    std::vector<Encoding> texts;
    for (uint32_t i = 0; i < 8192; ++i) texts.push_back(random_text(engine.spec(), length, i));
    for (const size_t count : {size_t{1}, size_t{4096}, size_t{8192}}) {
      const double seconds = median_seconds([&] { (void)engine.answer({texts.data(), count}, {}); });
      std::printf(
          "{\"engine\": \"%s\", \"tokens\": %d, \"texts\": %zu, \"milliseconds\": %.4f, "
          "\"texts_per_second\": %.0f}\n",
          name, length, count, seconds * 1e3, static_cast<double>(count) / seconds);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace exeunt

int main(int argc, char** argv) {
  using namespace exeunt;
  const std::vector<std::string> asked(argv + 1, argv + argc);
  const auto wants = [&](const char* part) {
    return asked.empty() || std::find(asked.begin(), asked.end(), part) != asked.end();
  };
  if (cuda_devices().devices.empty()) {
    std::fprintf(stderr, "cuda_engine: %s\n", cuda_devices().reason.c_str());
    return 1;
  }
  cuda::use_gpu(0);
  if (wants("products")) time_products();
  for (const auto& [family, name] : {std::pair{Family::bert, "bert-base"}, {Family::albert, "albert-base"}}) {
    const ModelSpec spec = base_spec(family);
    const Checkpoint checkpoint = make_model(spec, own_exits(spec, 2));
    const auto cases = [&](const std::vector<int>& sizes) {
      const std::vector<std::string> all = {"full", "looked", "early"}, full = {"full"};
      std::vector<BatchCase> out;
      for (const int size : sizes) out.push_back({size, wants("exits") ? all : full});
      return out;
    };
    if (wants("batches")) time_batches(checkpoint, {name, Precision::bf16}, cases({1, 8, 32, 128, 512}));
    if (wants("int8")) time_batches(checkpoint, {name, Precision::int8}, cases({1, 32, 128, 512}));
    if (!asked.empty() && wants("profile")) {
      for (const int size : {1, 128}) run_once(checkpoint, wants("int8") ? Precision::int8 : Precision::bf16, size);
      return 0;
    }
    if (wants("engine")) time_engine(checkpoint, name);
    if (wants("backlog")) {
      for (const int rows : {32768, 65536, 131072}) time_backlog(checkpoint, {name, Precision::bf16}, rows);
    }
    if (wants("fp32")) time_batches(checkpoint, {name, Precision::fp32}, {{1, {"full"}}, {32, {"full"}}});
  }
  return 0;
}
