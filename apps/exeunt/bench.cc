// SPDX-License-Identifier: Apache-2.0
// `exeunt bench`: how fast a model, or any model of a known shape, runs on this machine.
#include "exeunt/flows/bench.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <numeric>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_runs.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/clock.h"
#include "exeunt/base/files.h"
#include "exeunt/base/version.h"
#include "exeunt/exits/trace.h"
#include "exeunt/flows/make_trace.h"
#include "exeunt/model/shapes.h"
#include "exeunt/runtime/cpu/kernel_profile.h"
#include "exeunt/runtime/cpu/register_peak.h"
#include "exeunt/runtime/precision_map.h"

namespace exeunt::apps {
namespace {

struct BenchFlags {
  std::string shape = "bert-base", precisions, threads = "1", lengths = "16,32,64,128", exit_at, heads,
              cls_first = "auto";
  std::string profile, lengths_of;
  int batch = 1, pad_to = 0;
  double seconds = 1;
  bool save = false;
};

struct BenchRow {
  std::string precision;
  int threads = 1;
  BenchPoint point;
  BenchTimes times;
  double gops = 0, peak_share = 0;  // share 0: the peak is not known
};

std::vector<int> whole_numbers(const std::string& text, std::string_view flag, int low, int high) {
  std::vector<int> out;
  for (const std::string& one : comma_list(text)) {
    out.push_back(whole_number(one, flag));
    if (out.back() < low || out.back() > high) {
      throw Error(Code::usage, fmt::format("{}: got {}, want {} to {}", flag, out.back(), low, high));
    }
  }
  if (out.empty()) throw Error(Code::usage, fmt::format("{}: got nothing, want whole numbers with commas", flag));
  return out;
}

bool is_known_shape(const std::string& name) {
  const auto& shapes = known_shapes();
  return std::any_of(shapes.begin(), shapes.end(), [&](const KnownShape& shape) { return shape.name == name; });
}

Checkpoint open_subject(const BenchFlags& flags) {
  const bool known = is_known_shape(flags.shape);
  if (!known && flags.shape.find('/') == std::string::npos && !path_exists(flags.shape)) {
    (void)find_shape(flags.shape);  // throws, with the nearest name
  }
  if (!known) {
    if (!flags.heads.empty()) throw Error(Code::usage, "--heads goes with a known shape; a model has its own exits");
    Checkpoint model = Checkpoint::open(flags.shape);
    require_heads(model);
    return model;
  }
  const std::string heads = !flags.heads.empty() ? flags.heads : flags.exit_at.empty() ? "last" : "every";
  return random_model(find_shape(flags.shape).spec, *bench_heads_named(heads));
}

std::vector<Precision> precisions_of(const BenchFlags& flags) {
  std::vector<Precision> out;
  for (const std::string& name : comma_list(flags.precisions)) {
    const auto precision = precision_named(name);
    if (!precision) throw Error(Code::usage, fmt::format("--precision: got '{}', want fp32, bf16 or int8", name));
    out.push_back(*precision);
  }
  if (out.empty()) out.push_back(choose_kernels().bf16 ? Precision::bf16 : Precision::fp32);
  return out;
}

EngineOptions options_for(const BenchFlags& flags, const Checkpoint& model, Precision precision, int threads) {
  EngineOptions options;
  options.precision = precision;
  options.threads = threads;
  options.exceptions = find_precision_map(model.folder(), model.spec()).exceptions(precision);
  options.cls_first = flags.cls_first == "auto"    ? ClsFirst::automatic
                      : flags.cls_first == "never" ? ClsFirst::never
                                                   : ClsFirst::always;
  return options;
}

// Resident memory of this process, from the kernel; 0 where it does not say.
int64_t resident_bytes() {
  if (!path_exists("/proc/self/statm")) return 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  long long pages = 0, resident = 0;
  const bool read = file != nullptr && std::fscanf(file, "%lld %lld", &pages, &resident) == 2;
  if (file != nullptr) std::fclose(file);
  return read ? resident * 4096 : 0;
}

struct Load {
  double ready_ms = 0;
  int64_t weight_bytes = 0, resident_bytes = 0;
};

std::vector<BenchRow> measure_rows(const BenchFlags& flags, const Checkpoint& model, Load& load) {
  const std::vector<int> lengths = whole_numbers(flags.lengths, "--lengths", 1, model.spec().max_tokens());
  const std::vector<int> depths =
      flags.exit_at.empty() ? std::vector<int>{0} : whole_numbers(flags.exit_at, "--exit-at", 1, model.spec().layers);
  std::vector<BenchRow> rows;
  for (const Precision precision : precisions_of(flags)) {
    const double peak = register_peak(choose_kernels().name, precision);
    for (const int threads : whole_numbers(flags.threads, "--threads", 1, 4096)) {
      const auto start = Clock::now();
      Engine engine(model, options_for(flags, model, precision, threads));
      load.ready_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      load.weight_bytes = static_cast<int64_t>(engine.weight_bytes());
      for (const int length : lengths) {
        for (const int depth : depths) {
          BenchRow row{.precision = std::string(name_of(precision)), .threads = threads, .point = {}, .times = {}};
          row.point = {.length = length, .batch = flags.batch, .exit_at = depth, .seconds = flags.seconds};
          row.times = time_texts(engine, {.policy = leave_at(engine, depth)}, row.point);
          const double per_second = nominal_operations(engine, row.point) / row.times.best_ms * 1e3;
          row.gops = per_second / 1e9;
          if (peak > 0) row.peak_share = per_second / (peak * threads);
          rows.push_back(row);
        }
      }
      load.resident_bytes = resident_bytes();
    }
  }
  return rows;
}

// Texts of the lengths that a trace has, as they are or padded: one mean for each precision and number of threads.
std::vector<BenchRow> measure_lengths(const BenchFlags& flags, const Checkpoint& model) {
  std::vector<int> lengths;
  for (const int32_t length : read_trace(flags.lengths_of).lengths) {
    lengths.push_back(flags.pad_to > 0 ? flags.pad_to : std::min(length, model.spec().max_tokens()));
  }
  if (lengths.empty()) throw_bad_file(flags.lengths_of, "the trace has no lengths");
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  std::vector<BenchRow> rows;
  for (const Precision precision : precisions_of(flags)) {
    for (const int threads : whole_numbers(flags.threads, "--threads", 1, 4096)) {
      Engine engine(model, options_for(flags, model, precision, threads));
      BenchRow row{.precision = std::string(name_of(precision)), .threads = threads, .point = {}, .times = {}};
      row.point.length = static_cast<int>(tokens / static_cast<int64_t>(lengths.size()));
      row.times = time_lengths(engine, {.policy = leave_at(engine, 0)}, lengths, flags.seconds);
      row.gops = nominal_operations(engine, row.point) / row.times.best_ms / 1e6;
      rows.push_back(row);
    }
  }
  return rows;
}

void write_kernel_profile(const BenchFlags& flags, const Checkpoint& model) {
  KernelProfile profile(choose_kernels());
  {
    EngineOptions options = options_for(flags, model, precisions_of(flags).front(),
                                        whole_numbers(flags.threads, "--threads", 1, 4096).front());
    options.kernels = &profile.table();
    Engine engine(model, options);
    const int depth =
        flags.exit_at.empty() ? 0 : whole_numbers(flags.exit_at, "--exit-at", 1, model.spec().layers).front();
    const BenchPoint point{.length = whole_numbers(flags.lengths, "--lengths", 1, model.spec().max_tokens()).back(),
                           .batch = flags.batch,
                           .exit_at = depth,
                           .seconds = 0};
    const Ask ask{.policy = leave_at(engine, depth)};
    (void)time_texts(engine, ask, point);
    profile.clear();
    (void)time_texts(engine, ask, point);
  }
  write_atomically(flags.profile, profile.chrome_trace());
}

void write_model_profile(const Common& common, const BenchFlags& flags, const Checkpoint& model) {
  if (model.folder().empty()) {
    throw Error(Code::usage, "--save goes with a model: profile.json is kept in its folder", "name a model folder");
  }
  Profile profile{
      .device = cpu_features().name, .tool = std::string(version()), .created = now_rfc3339(), .entries = {}};
  for (const Precision precision : precisions_of(flags)) {
    for (const int threads : whole_numbers(flags.threads, "--threads", 1, 4096)) {
      profile.entries.push_back(
          measure_profile(model, {.engine = options_for(flags, model, precision, threads),
                                  .lengths = whole_numbers(flags.lengths, "--lengths", 1, model.spec().max_tokens()),
                                  .seconds = flags.seconds}));
    }
  }
  const std::filesystem::path path = model.folder() / kProfileFile;
  write_atomically(path, json_text(profile_json(profile)));
  notice(common, fmt::format("wrote {}", path.string()));
}

OrderedJson row_json(const BenchRow& row) {
  OrderedJson out;
  out["precision"] = row.precision;
  out["threads"] = row.threads;
  out["length"] = row.point.length;
  out["batch"] = row.point.batch;
  out["exit_at"] = row.point.exit_at == 0 ? OrderedJson(nullptr) : OrderedJson(row.point.exit_at);
  out["best_ms"] = row.times.best_ms;
  out["p50_ms"] = row.times.p50_ms;
  out["p90_ms"] = row.times.p90_ms;
  out["cpu_ms"] = row.times.cpu_ms;
  out["runs"] = row.times.runs;
  out["gops"] = row.gops;
  out["peak_share"] = row.peak_share > 0 ? OrderedJson(row.peak_share) : OrderedJson(nullptr);
  return out;
}

void print_rows(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const BenchRow& row : rows) {
    cells.push_back(
        {row.precision, std::to_string(row.threads), std::to_string(row.point.length), std::to_string(row.point.batch),
         row.point.exit_at == 0 ? "last" : std::to_string(row.point.exit_at), fmt::format("{:.2f}", row.times.best_ms),
         fmt::format("{:.2f}", row.times.p50_ms), fmt::format("{:.2f}", row.times.p90_ms),
         fmt::format("{:.0f}", row.gops), row.peak_share > 0 ? fmt::format("{:.0f}", 100 * row.peak_share) : "-"});
  }
  print_table({"precision", "threads", "length", "batch", "exit", "best ms", "p50 ms", "p90 ms", "Gop/s", "% of peak"},
              cells);
}

void run(const Common& common, const BenchFlags& flags) {
  const Checkpoint model = open_subject(flags);
  for (const std::string& text : model.notices()) notice(common, text);
  if (flags.save) write_model_profile(common, flags, model);
  Load load;
  const std::vector<BenchRow> rows =
      flags.lengths_of.empty() ? measure_rows(flags, model, load) : measure_lengths(flags, model);
  if (!flags.profile.empty()) {
    write_kernel_profile(flags, model);
    notice(common, fmt::format("wrote {}: open it in chrome://tracing or ui.perfetto.dev", flags.profile));
  }
  if (!common.json) {
    print_rows(rows);
    return;
  }
  OrderedJson out;
  out["shape"] = flags.shape;
  out["cpu"] = cpu_features().name;
  out["isa"] = std::string(choose_kernels().name);
  out["layers"] = model.spec().layers;
  out["hidden"] = model.spec().hidden;
  out["ready_ms"] = load.ready_ms;
  out["weight_bytes"] = load.weight_bytes;
  out["resident_bytes"] = load.resident_bytes;
  if (rows.size() == 1) out.update(row_json(rows.front()));  // one point needs no list to be found in
  out["rows"] = OrderedJson::array();
  for (const BenchRow& row : rows) out["rows"].push_back(row_json(row));
  print_json(out);
}

}  // namespace

void add_bench(CommandLine& line) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* verb = add_verb(
      line, "bench", "Measure how fast a model runs on this machine",
      {"exeunt bench bert-base --precision fp32,bf16,int8 --threads 1,2",
       "exeunt bench bert-base --precision int8 --lengths 128 --exit-at 3,6,9,12",
       "exeunt bench models/sst2 --precision bf16 --save", "exeunt bench minilm-l12 --lengths 32 --profile trace.json"},
      [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL,--shape", flags->shape,
                   "Model folder, or a known shape: bert-base, albert-base, bert-large, minilm-l12 …")
      ->capture_default_str();
  verb->add_option("--precision", flags->precisions, "fp32, bf16, int8, with commas; left out: the engine's choice");
  verb->add_option("--threads", flags->threads, "Numbers of threads, with commas")->capture_default_str();
  verb->add_option("--lengths", flags->lengths, "Tokens of a text, with commas")->capture_default_str();
  verb->add_option("--batch", flags->batch, "Texts answered together")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  verb->add_option("--exit-at", flags->exit_at, "Layers after which texts leave, with commas; the last if left out");
  verb->add_option("--heads", flags->heads, "Of a known shape: last, every (row 0) or reader (all rows) exits")
      ->check(CLI::IsMember({"last", "every", "reader"}));
  verb->add_option("--cls-first", flags->cls_first, "auto, never or always")
      ->check(CLI::IsMember({"auto", "never", "always"}))
      ->capture_default_str();
  verb->add_option("--seconds", flags->seconds, "Time for each figure")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  verb->add_option("--lengths-of", flags->lengths_of,
                   "Texts as long as those of a trace instead of --lengths; the mean");
  verb->add_option("--pad-to", flags->pad_to, "With --lengths-of: as if every text were padded to this length")
      ->check(CLI::Range(1, 1 << 16));
  verb->add_option("--profile", flags->profile, "Write every kernel's times as a Chrome trace");
  verb->add_flag("--save", flags->save, "Write profile.json into the model's folder, for predicted times");
}

}  // namespace exeunt::apps
