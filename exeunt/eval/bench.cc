// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/bench.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include <fmt/format.h>
#include <time.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/number.h"
#include "exeunt/base/process.h"
#include "exeunt/base/version.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cpu/kernel_profile.h"
#include "exeunt/engine/cpu/register_peak.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/family.h"
#include "exeunt/model/schema.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/trace.h"

namespace exeunt {
namespace {

// A small random generator: the same weights on every machine, a gigabyte of them in a second or two.
class WeightStream {
 public:
  float next() noexcept {  // from -1 to 1
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31F;
  }

 private:
  uint64_t state_ = 88172645463325252ULL;
};

ExitLayout bench_layout(const ModelSpec& spec, BenchHeads heads) {
  ExitLayout layout;
  layout.outputs = 2;
  layout.labels = {"no", "yes"};
  layout.width = spec.hidden;
  layout.pooler = row_of(spec.family).pooler;
  const int first = heads == BenchHeads::last ? spec.layers : 1;
  for (int layer = first; layer <= spec.layers; ++layer) {
    const int index = layer - first;
    layout.sites.push_back({.after = layer,
                            .reader = heads == BenchHeads::reader ? std::optional<int>(index) : std::nullopt,
                            .pooler = index,
                            .classifier = index});
  }
  return layout;
}

// As wide as BERT's initial weights; norms start as they do there.
void fill(const std::string& name, WeightStream& stream, std::span<float> values) {
  const bool gain = name.find("norm.weight") != std::string::npos, shift = name.find("norm.bias") != std::string::npos;
  if (gain || shift) return std::fill(values.begin(), values.end(), gain ? 1.0F : 0.0F);
  for (float& value : values) value = 0.0346F * stream.next();  // standard deviation 0.02
}

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// How long to go on, by what each time is divided, and how many times are taken at least.
struct Pace {
  double seconds, parts;
  size_t least;
};
BenchTimes time_all(Engine& engine, const Ask& ask, std::span<const Encoding> texts, Pace pace) {
  std::vector<double> times;
  double least_processor = 1e300;
  (void)engine.answer(texts, ask);
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pace.seconds));
  do {
    const auto start = Clock::now();
    const double processor = processor_ms();
    (void)engine.answer(texts, ask);
    least_processor = std::min(least_processor, (processor_ms() - processor) / pace.parts);
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() / pace.parts);
  } while (Clock::now() < end || times.size() < pace.least);
  std::sort(times.begin(), times.end());
  return {.best_ms = times.front(),
          .p50_ms = percentile(times, 0.5),
          .p90_ms = percentile(times, 0.9),
          .cpu_ms = least_processor,
          .runs = static_cast<int>(times.size())};
}

constexpr int kMostAtOnce = 65536;  // texts that wait together

void require_range(const std::vector<int>& values, std::string_view what, int high) {
  for (const int value : values) {
    if (value < 1 || value > high) throw Error(Code::usage, fmt::format("{}: got {}, want 1 to {}", what, value, high));
  }
}

void require_plan(const BenchPlan& plan, const ModelSpec& spec) {
  require_range(plan.threads, "--threads", 4096);
  require_range(plan.lengths, "--lengths", spec.max_tokens());
  require_range(plan.exit_at, "--exit-at", spec.layers);
  require_range(plan.batches, "--batch", kMostAtOnce);
}

std::vector<BenchPoint> points_of(const BenchPlan& plan) {
  std::vector<BenchPoint> out;
  for (const int length : plan.lengths) {
    for (const int batch : plan.batches) {
      for (const int depth : plan.exit_at.empty() ? std::vector<int>{0} : plan.exit_at) {
        out.push_back(
            {.length = length, .batch = batch, .exit_at = depth, .exit_mean = plan.exit_mean, .seconds = plan.seconds});
      }
    }
  }
  return out;
}

// Texts that are all submitted at once; times are of one text, on average.
BenchTimes time_encoded(Engine& engine, const Ask& ask, std::span<const Encoding> texts, double seconds) {
  return time_all(engine, ask, texts, {seconds, static_cast<double>(texts.size()), 2});
}

// By the cost rules of model/cost.h, the last layer counted in full.
double nominal_operations(const Engine& engine, const BenchPoint& point) {
  const int depth = point.exit_mean > 0 ? point.exit_mean : point.exit_at;
  const int layers = depth == 0 ? engine.spec().layers : depth;
  const int64_t macs =
      embedding_macs(engine.spec(), point.length) + first_layers_macs(engine.spec(), point.length, layers);
  return 2.0 * static_cast<double>(macs) * point.batch;
}

// These texts at one point. Times are of all of them, or of one on average.
BenchRow measure_row(Engine& engine, const BenchPoint& point, std::span<const Encoding> texts, bool of_one) {
  BenchRow row{.precision = engine.precision(), .point = point};
  const Ask ask{.policy = point.exit_mean > 0 ? leave_evenly(engine, texts, point.exit_mean)
                                              : leave_at(engine, point.exit_at)};
  int64_t layers = 0;
  for (const Answer& answer : engine.answer(texts, ask)) layers += answer.layer;
  row.average_layers = static_cast<double>(layers) / static_cast<double>(texts.size());
  row.times =
      of_one ? time_encoded(engine, ask, texts, point.seconds) : time_all(engine, ask, texts, {point.seconds, 1, 5});
  row.gops = nominal_operations(engine, point) / row.times.best_ms / 1e6;
  return row;
}

// Of a trace, or of a text file with one number per line.
std::vector<int> lengths_in(const std::string& path) {
  if (!path.ends_with(".txt")) {
    const ExitTrace trace = read_trace(path);
    return {trace.lengths.begin(), trace.lengths.end()};
  }
  std::vector<int> out;
  const std::string text = read_text(path);
  for (size_t begin = 0, line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string written = text.substr(begin, end - begin);
    const auto length = number_of<int>(written);
    if (!length || *length < 1) throw_bad_file(path, "line {}: got '{}', want a length", line, written);
    out.push_back(*length);
    begin = end + 1;
  }
  return out;
}

void require_cpu(const BenchPlan& plan, std::string_view flag) {
  if (find_device(plan.device).kind == Device::Kind::cpu) return;
  throw Error(Code::usage, fmt::format("{} measures the CPU's kernels: got --device {}", flag, str(plan.device)));
}

// Calls `act` with an engine for every precision and number of threads.
template <class Act>
void with_engines(const Checkpoint& model, const BenchPlan& plan, const Act& act) {
  std::vector<std::optional<Precision>> precisions(plan.precisions.begin(), plan.precisions.end());
  if (precisions.empty()) precisions.emplace_back();  // the model's default
  for (const std::optional<Precision> precision : precisions) {
    const Resolved resolved = resolve(model, {.precision = precision, .engine = engine_traits(model, plan.device)});
    for (const int threads : plan.threads) {
      EngineOptions options = engine_options(
          resolved,
          {.device = plan.device, .threads = threads, .pack_rows = plan.pack_rows, .cls_first = plan.cls_first});
      if (plan.poolers) options.exceptions[std::string(kPoolers)] = *plan.poolers;
      act(options);
    }
  }
}

// The fewest rows with which a backlog of short texts runs about as fast as with any number.
int measure_pack_rows(const Checkpoint& model, const ProfilePlan& plan) {
  constexpr std::array<int, 6> candidates = {1, 32, 64, 128, 256, 512};
  constexpr double kAboutAsFast = 1.03;
  const std::vector<int> lengths(64, std::min(24, model.spec().max_tokens()));
  std::array<double, candidates.size()> times = {};
  for (size_t i = 0; i < candidates.size(); ++i) {
    EngineOptions options = plan.engine;
    options.pack_rows = candidates[i];
    Engine engine(model, options);
    const std::vector<Encoding> texts = random_texts(engine.spec(), lengths);
    times[i] = time_encoded(engine, {.policy = leave_at(engine, 0)}, texts, plan.seconds).best_ms;
  }
  const double limit = *std::min_element(times.begin(), times.end()) * kAboutAsFast;
  size_t first = 0;
  while (first + 1 < candidates.size() && times[first] > limit) ++first;
  return candidates[first];
}

}  // namespace

Checkpoint random_model(const ModelSpec& spec, BenchHeads heads) {
  const ExitLayout layout = bench_layout(spec, heads);
  TensorSet set;
  WeightStream stream;
  for (const TensorInfo& info : schema(spec, layout)) {
    if (!info.required) continue;
    TensorView view{.dtype = DType::f32, .shape = info.shape, .strides = {}, .bytes = {}};
    const auto data = std::make_shared<std::vector<float>>(static_cast<size_t>(view.elements()));
    fill(info.name, stream, *data);
    view.bytes = std::as_bytes(std::span(*data));
    set.tensors.emplace(info.name, view);
    set.owners.push_back(data);
  }
  return {spec, layout, std::move(set), {.where = "random weights"}};
}

std::vector<Encoding> random_texts(const ModelSpec& spec, std::span<const int> lengths) {
  std::vector<Encoding> texts(lengths.size());
  WeightStream stream;
  for (size_t t = 0; t < texts.size(); ++t) {
    const auto length = static_cast<size_t>(lengths[t]);
    for (size_t i = 0; i < length; ++i) {
      texts[t].ids.push_back(static_cast<int32_t>((stream.next() + 1) * 0.5F * static_cast<float>(spec.vocab - 1)));
    }
    texts[t].types.assign(length, 0);
    texts[t].offsets.resize(length);
  }
  return texts;
}

std::shared_ptr<const BoundPolicy> leave_evenly(Engine& engine, std::span<const Encoding> texts, int mean) {
  const std::vector<ExitSite>& sites = engine.exits().sites;
  const int deepest = 2 * mean - 1;
  bool fits = mean >= 1 && deepest <= static_cast<int>(sites.size()) && engine.exits().problem != Problem::regression;
  for (int i = 0; fits && i < deepest; ++i) fits = sites[static_cast<size_t>(i)].after == i + 1;
  if (!fits) {
    throw Error(Code::usage,
                fmt::format("--exit-mean: got {}, want an exit that classifies after each of {} layers", mean,
                            std::max(1, deepest)),
                "with --shape, --heads every puts one after each layer");
  }
  const ExitTrace trace = engine.trace(texts);
  const auto entropy = [&](size_t text, size_t exit) {
    return compute_evidence(trace.exit_logits(trace.at(text, static_cast<int>(exit)))).entropy;
  };
  PolicySpec spec = parse_policy("entropy:0");  // no text has an entropy below 0
  spec.per_exit.assign(sites.size(), 0);
  std::vector<float> rates(sites.size(), 0);
  std::vector<size_t> left(texts.size());
  std::iota(left.begin(), left.end(), size_t{0});
  for (size_t exit = 0, last = static_cast<size_t>(deepest) - 1; exit <= last && !left.empty(); ++exit) {
    const size_t before = left.size(), leaving = (before + last - exit) / (last - exit + 1);
    std::vector<float> sorted;
    for (const size_t text : left) sorted.push_back(entropy(text, exit));
    std::sort(sorted.begin(), sorted.end());
    spec.per_exit[exit] = exit == last || leaving == before ? 16 : sorted[leaving];  // all are below 16
    std::erase_if(left, [&](size_t text) { return entropy(text, exit) < spec.per_exit[exit]; });
    rates[exit] = static_cast<float>(before - left.size()) / static_cast<float>(texts.size());
  }
  return engine.bind(spec, rates);
}

std::shared_ptr<const BoundPolicy> leave_at(const Engine& engine, int layer) {
  const std::vector<ExitSite>& sites = engine.exits().sites;
  if (engine.exits().problem == Problem::regression) {  // has no entropy to go by
    return engine.bind(parse_policy(layer == 0 ? "full" : fmt::format("layer:{}", layer)));
  }
  PolicySpec spec = parse_policy("entropy:0");  // no text has an entropy below 0
  std::vector<float> rates(sites.size(), 0);
  spec.per_exit.assign(sites.size(), 0);
  const auto found =
      layer == 0 ? sites.end() - 1
                 : std::find_if(sites.begin(), sites.end(), [&](const ExitSite& site) { return site.after == layer; });
  if (found == sites.end()) {
    throw Error(Code::usage, fmt::format("--exit-at: got {}, but no exit sits after that layer", layer),
                "with --shape, --heads every puts one after each layer");
  }
  const auto index = static_cast<size_t>(found - sites.begin());
  spec.per_exit[index] = 16;  // and every text one below 16
  rates[index] = 1;
  return engine.bind(spec, rates);
}

BenchTimes time_texts(Engine& engine, const Ask& ask, const BenchPoint& point) {
  const std::vector<int> lengths(static_cast<size_t>(point.batch), point.length);
  return time_all(engine, ask, random_texts(engine.spec(), lengths), {point.seconds, 1, 5});
}

double time_once(Engine& engine, const Ask& ask, std::span<const Encoding> texts) {
  const bool cpu = device_of(engine.name()) == "cpu";
  const auto start = Clock::now();
  const double processor = processor_ms();
  (void)engine.answer(texts, ask);
  const double clock = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return (cpu ? processor_ms() - processor : clock) / static_cast<double>(texts.size());
}

// With h the time of a run that leaves at layer k without CLS first, h(k) = embedding + k · layer + exits asked; so two
// depths give a layer, and what is left gives the rest. All layers of a model have the same shape, so they take the
// same time. What leaving there really takes is then the measured time of such a text less what came before.
ProfileEntry measure_profile(const Checkpoint& model, const ProfilePlan& plan) {
  const std::vector<ExitSite>& sites = model.exits().sites;
  const auto layers = static_cast<size_t>(model.spec().layers);
  const size_t before = sites.front().after == 0 ? 1 : 0;  // exits before the first layer
  const bool several = sites.size() > before + 1;
  ProfileEntry entry;
  entry.lengths = plan.lengths;
  entry.layer_ms.assign(layers, {});
  entry.leave_ms.assign(layers, {});
  const auto measure = [&](ClsFirst cls_first, auto&& take) {
    EngineOptions options = plan.engine;
    options.cls_first = cls_first;
    Engine engine(model, options);
    entry.precision = name_of(engine.precision());
    entry.threads = engine.threads();
    entry.isa = engine.kernels().name;
    for (size_t i = 0; i < plan.lengths.size(); ++i) {
      const BenchPoint point{.length = plan.lengths[i], .batch = 1, .exit_at = 0, .seconds = plan.seconds};
      take(
          i,
          [&](const std::shared_ptr<const BoundPolicy>& policy) {
            return time_texts(engine, {.policy = policy}, point).best_ms;
          },
          engine);
    }
  };
  // Every row at every layer: what a layer, an exit and the embeddings take.
  measure(ClsFirst::never, [&](size_t, auto&& time, Engine& engine) {
    const double all_exits = time(leave_at(engine, 0));
    const double last_exit = time(engine.bind(parse_policy("full")));
    const auto after = [&](int depth) { return time(engine.bind(parse_policy(fmt::format("layer:{}", depth)))); };
    const double exit_0 = before > 0 ? after(0) : 0;  // with what a text takes besides, as the embeddings have it
    if (before > 0) entry.exit_0_ms.push_back(exit_0);
    const double first_exit = several ? after(sites[before].after) : 0;
    const double others = static_cast<double>(sites.size() - before) - 1;
    const double exit = several ? std::max(0.0, (all_exits - last_exit - exit_0) / others) : 0;
    const double depth = static_cast<double>(layers) - (several ? sites[before].after : 0);
    const double layer = std::max(0.0, (last_exit - first_exit) / depth);
    entry.exit_ms.push_back(exit);
    entry.embedding_ms.push_back(std::max(0.0, last_exit - static_cast<double>(layers) * layer - exit));
    for (auto& row : entry.layer_ms) row.push_back(layer);
  });
  // As it runs: what the layer takes at which a text leaves.
  measure(plan.engine.cls_first, [&](size_t i, auto&& time, Engine& engine) {
    double leave = entry.layer_ms.front()[i];
    for (size_t layer = 0, site = before; layer < layers; ++layer) {
      if (site < sites.size() && sites[site].after == static_cast<int>(layer) + 1) {
        const double whole = time(engine.bind(parse_policy(fmt::format("layer:{}", layer + 1))));
        leave = std::max(0.0, whole - entry.embedding_ms[i] - entry.exit_ms[i] -
                                  static_cast<double>(layer) * entry.layer_ms.front()[i]);
        ++site;
      }
      entry.leave_ms[layer].push_back(leave);
    }
  });
  entry.pack_rows = measure_pack_rows(model, plan);
  return entry;
}

Checkpoint open_for_bench(const BenchPlan& plan) {
  const auto& shapes = known_shapes();
  const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const auto& s) { return s.name == plan.model; });
  if (known || (plan.model.find('/') == std::string::npos && !path_exists(plan.model))) {
    const KnownShape& shape = find_shape(plan.model);  // throws, with the nearest name
    return random_model(
        shape.spec,
        plan.heads.value_or(plan.exit_at.empty() && plan.exit_mean == 0 ? BenchHeads::last : BenchHeads::every));
  }
  if (plan.heads) throw Error(Code::usage, "--heads goes with a known shape; a model has its own exits");
  Checkpoint model = Checkpoint::open(plan.model);
  require_heads(model);
  return model;
}

BenchRows bench_points(const Checkpoint& model, const BenchPlan& plan) {
  require_plan(plan, model.spec());
  BenchRows out;
  with_engines(model, plan, [&](const EngineOptions& options) {
    const bool on_cpu = find_device(plan.device).kind == Device::Kind::cpu;
    const double peak = on_cpu ? register_peak(choose_kernels().name, *options.precision) : 0;
    const auto start = std::chrono::steady_clock::now();
    Engine engine(model, options);
    out.ready_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    out.weight_bytes = static_cast<int64_t>(engine.weight_bytes());
    out.engine = engine.name();
    for (const BenchPoint& point : points_of(plan)) {
      const std::vector<int> lengths(static_cast<size_t>(point.batch), point.length);
      BenchRow row = measure_row(engine, point, random_texts(engine.spec(), lengths), false);
      row.threads = options.threads;
      if (peak > 0) row.peak_share = row.gops * 1e9 / (peak * row.threads);
      out.rows.push_back(row);
    }
    out.resident_bytes = resident_bytes();
  });
  return out;
}

BenchRows bench_trace_lengths(const Checkpoint& model, const BenchPlan& plan, const std::string& trace, int pad_to) {
  std::vector<int> lengths = lengths_in(trace);
  if (lengths.empty()) throw_bad_file(trace, "the trace has no lengths");
  for (int& length : lengths) length = pad_to > 0 ? pad_to : std::min(length, model.spec().max_tokens());
  require_range(plan.threads, "--threads", 4096);
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  BenchRows out;
  with_engines(model, plan, [&](const EngineOptions& options) {
    Engine engine(model, options);
    out.engine = engine.name();
    const BenchPoint point{.length = static_cast<int>(tokens / static_cast<int64_t>(lengths.size())),
                           .exit_at = plan.exit_at.empty() ? 0 : plan.exit_at.front(),
                           .exit_mean = plan.exit_mean,
                           .seconds = plan.seconds};
    out.rows.push_back(measure_row(engine, point, random_texts(engine.spec(), lengths), true));
    out.rows.back().threads = options.threads;
  });
  return out;
}

std::vector<PolicyTimes> bench_policies(const Checkpoint& model, const BenchPlan& plan, const MeasureOptions& data,
                                        std::span<const PolicySpec> policies, const Observer& observer) {
  require_range(plan.threads, "--threads", 4096);
  require_range(plan.batches, "--batch", kMostAtOnce);
  const std::vector<Encoding> texts = encoded_texts(data, model, 0, observer);
  std::vector<PolicyTimes> out;
  with_engines(model, plan, [&](const EngineOptions& options) {
    // With the exits and temperatures that the model would run them with.
    const RunRequest request{
        .policy = "full", .precision = options.precision, .engine = engine_traits(model, plan.device)};
    const auto entry = resolve(model, request).entry;
    std::vector<PolicySpec> complete(policies.begin(), policies.end());
    if (entry)
      for (PolicySpec& policy : complete) policy = entry->complete(policy);
    Engine engine(model, options);
    for (const int batch : plan.batches) {
      const TimingPlan timing{.seconds = plan.seconds, .at_once = static_cast<size_t>(batch)};
      out.push_back(time_policies(engine, texts, complete, timing));
    }
  });
  return out;
}

std::string kernel_trace(const Checkpoint& model, const BenchPlan& plan) {
  require_cpu(plan, "--profile");
  require_plan(plan, model.spec());
  KernelProfile profile(choose_kernels());
  BenchPlan one = plan;  // its first precision and number of threads
  one.precisions.resize(std::min<size_t>(1, plan.precisions.size()));
  one.threads.resize(1);
  with_engines(model, one, [&](EngineOptions options) {
    options.kernels = &profile.table();
    Engine engine(model, options);
    const BenchPoint point{.length = plan.lengths.back(),
                           .batch = plan.batches.front(),
                           .exit_at = plan.exit_at.empty() ? 0 : plan.exit_at.front(),
                           .seconds = 0};
    const Ask ask{.policy = leave_at(engine, point.exit_at)};
    (void)time_texts(engine, ask, point);
    profile.clear();
    (void)time_texts(engine, ask, point);
  });
  return profile.chrome_trace();
}

std::filesystem::path write_profile(const Checkpoint& model, const BenchPlan& plan) {
  if (model.folder().empty())
    throw Error(Code::usage, "--save goes with a model: profile.json is kept in its folder", "name a model folder");
  require_cpu(plan, "--save");
  require_plan(plan, model.spec());
  Profile profile{
      .device = cpu_features().name, .tool = std::string(version()), .created = now_rfc3339(), .entries = {}};
  with_engines(model, plan, [&](const EngineOptions& options) {
    profile.entries.push_back(
        measure_profile(model, {.engine = options, .lengths = plan.lengths, .seconds = plan.seconds}));
  });
  const std::filesystem::path path = model.folder() / kProfileFile;
  write_atomically(path, json_text(profile_json(profile)));
  return path;
}

}  // namespace exeunt
