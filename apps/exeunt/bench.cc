// SPDX-License-Identifier: Apache-2.0
// `exeunt bench`: how fast a model, or any model of a known shape, runs on this machine.
#include "exeunt/eval/bench.h"

#include <memory>

#include "apps/exeunt/command.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/eval/policy_times.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt::apps {
namespace {

struct BenchFlags {
  BenchPlan plan;
  std::string precisions, poolers, threads = "1", lengths = "16,32,64,128", batches = "1", exit_at, heads;
  std::string cls_first = "auto";
  std::string profile, lengths_of;
  int pad_to = 0;
  MeasureOptions run;  // data and length of --policy
  SettingFlags settings;
  bool save = false;
};

std::vector<int> whole_numbers(const std::string& text, std::string_view flag) {
  std::vector<int> out;
  for (const std::string& one : comma_list(text)) out.push_back(whole_number(one, flag));
  if (out.empty()) throw Error(Code::usage, fmt::format("{}: got nothing, want whole numbers with commas", flag));
  return out;
}

BenchPlan plan_of(const BenchFlags& flags) {
  BenchPlan plan = flags.plan;
  for (const std::string& name : comma_list(flags.precisions)) {
    const auto precision = precision_named(name);
    if (!precision) throw Error(Code::usage, fmt::format("--precision: got '{}', want fp32, bf16 or int8", name));
    plan.precisions.push_back(*precision);
  }
  if (!flags.poolers.empty()) plan.poolers = precision_named(flags.poolers);
  plan.threads = whole_numbers(flags.threads, "--threads");
  plan.lengths = whole_numbers(flags.lengths, "--lengths");
  plan.batches = whole_numbers(flags.batches, "--batch");
  if (!flags.exit_at.empty()) plan.exit_at = whole_numbers(flags.exit_at, "--exit-at");
  if (!flags.heads.empty()) plan.heads = named<BenchHeads>(flags.heads);
  plan.cls_first = flags.cls_first == "auto"    ? ClsFirst::automatic
                   : flags.cls_first == "never" ? ClsFirst::never
                                                : ClsFirst::always;
  return plan;
}

double texts_per_second(const BenchRow& row) {
  return 1e3 * row.point.batch / row.times.best_ms;
}

OrderedJson row_json(const BenchRow& row) {
  OrderedJson out;
  out["precision"] = std::string(name_of(row.precision));
  out["threads"] = row.threads;
  out["length"] = row.point.length;
  out["batch"] = row.point.batch;
  out["exit_at"] = row.point.exit_at == 0 ? OrderedJson(nullptr) : OrderedJson(row.point.exit_at);
  out["average_layers"] = row.average_layers;
  out["best_ms"] = row.times.best_ms;
  out["p50_ms"] = row.times.p50_ms;
  out["p90_ms"] = row.times.p90_ms;
  out["cpu_ms"] = row.times.cpu_ms;
  out["texts_per_second"] = texts_per_second(row);
  out["runs"] = row.times.runs;
  out["gops"] = row.gops;
  out["peak_share"] = row.peak_share > 0 ? OrderedJson(row.peak_share) : OrderedJson(nullptr);
  return out;
}

std::string exit_text(const BenchPoint& point) {
  if (point.exit_mean > 0) return fmt::format("~{}", point.exit_mean);
  return point.exit_at == 0 ? "last" : std::to_string(point.exit_at);
}

void print_rows(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const BenchRow& row : rows) {
    cells.push_back({std::string(name_of(row.precision)), std::to_string(row.threads), std::to_string(row.point.length),
                     std::to_string(row.point.batch), exit_text(row.point), fmt::format("{:.2f}", row.times.best_ms),
                     fmt::format("{:.2f}", row.times.p50_ms), fmt::format("{:.2f}", row.times.p90_ms),
                     fmt::format("{:.1f}", texts_per_second(row)), fmt::format("{:.0f}", row.gops),
                     row.peak_share > 0 ? fmt::format("{:.0f}", 100 * row.peak_share) : "-"});
  }
  print_table({"precision", "threads", "length", "batch", "exit", "best ms", "p50 ms", "p90 ms", "texts/s", "Gop/s",
               "% of peak"},
              cells);
}

OrderedJson time_json(const PolicyTime& time) {
  return {{"policy", time.policy},
          {"ms", time.ms},
          {"clock_speedup", time.clock_speedup},
          {"average_layers", time.average_layers},
          {"layers_speedup", time.layers_speedup}};
}

void print_times(const PolicyTimes& times) {
  std::vector<std::vector<std::string>> cells;
  const auto add = [&](const PolicyTime& time) {
    cells.push_back({time.policy, fmt::format("{:.3f}", time.ms), fmt::format("{:.2f}", time.clock_speedup),
                     fmt::format("{:.2f}", time.average_layers), fmt::format("{:.2f}", time.layers_speedup)});
  };
  add(times.full);
  for (const PolicyTime& time : times.rows) add(time);
  fmt::print("{} texts, {} at a time, {} rounds in turns, {} {}, {} thread{}\n\n", times.texts, times.at_once,
             times.rounds, times.engine, times.precision, times.threads, times.threads == 1 ? "" : "s");
  print_table({"policy", "ms per text", "clock speed-up", "layers", "speed-up in layers"}, cells);
}

// Real texts under every policy, for each precision, number of threads and of texts at a time.
void run_policies(const Common& common, const BenchFlags& flags, const BenchPlan& plan) {
  std::vector<PolicySpec> policies = named_settings(flags.settings);
  if (policies.empty())
    throw Error(Code::usage, "--policy is required with --data", "for example --policy 'entropy:0.1|0.2'");
  std::erase(policies, PolicySpec{});  // full depth, which every other is compared with, comes first anyway
  const Checkpoint model = open_for_bench(plan);
  for (const std::string& text : model.notices()) notice(common, text);
  OrderedJson out = OrderedJson::array();
  for (const PolicyTimes& times : bench_policies(model, plan, flags.run, policies, observer(common))) {
    if (!common.json) {
      print_times(times);
      continue;
    }
    OrderedJson entry{{"engine", times.engine},       {"precision", times.precision}, {"threads", times.threads},
                      {"texts", times.texts},         {"batch", times.at_once},       {"rounds", times.rounds},
                      {"full", time_json(times.full)}};
    entry["rows"] = OrderedJson::array();
    for (const PolicyTime& time : times.rows) entry["rows"].push_back(time_json(time));
    out.push_back(std::move(entry));
  }
  if (common.json) print_json({{"policies", out}});
}

void run(const Common& common, const BenchFlags& flags) {
  const BenchPlan plan = plan_of(flags);
  const DataSource& data = flags.run.data;
  if (!data.task.empty() || !data.path.empty() || !flags.settings.policies.empty())
    return run_policies(common, flags, plan);
  const Checkpoint model = open_for_bench(plan);
  for (const std::string& text : model.notices()) notice(common, text);
  if (flags.save) notice(common, fmt::format("wrote {}", write_profile(model, plan).string()));
  const BenchRows done = flags.lengths_of.empty() ? bench_points(model, plan)
                                                  : bench_trace_lengths(model, plan, flags.lengths_of, flags.pad_to);
  const std::vector<BenchRow>& rows = done.rows;
  if (!flags.profile.empty()) {
    write_atomically(flags.profile, kernel_trace(model, plan));
    notice(common, fmt::format("wrote {}: open it in chrome://tracing or ui.perfetto.dev", flags.profile));
  }
  if (!common.json) {
    print_rows(rows);
    return;
  }
  OrderedJson out;
  out["shape"] = plan.model;
  out["cpu"] = cpu_features().name;
  out["isa"] = std::string(choose_kernels().name);
  out["device"] = str(find_device(plan.device));
  out["engine"] = done.engine;
  out["layers"] = model.spec().layers;
  out["hidden"] = model.spec().hidden;
  out["ready_ms"] = done.ready_ms;
  out["weight_bytes"] = done.weight_bytes;
  out["resident_bytes"] = done.resident_bytes;
  if (rows.size() == 1) out.update(row_json(rows.front()));  // one point needs no list to be found in
  out["rows"] = OrderedJson::array();
  for (const BenchRow& row : rows) out["rows"].push_back(row_json(row));
  print_json(out);
}

}  // namespace

void add_bench(CommandLine& line) {
  const auto flags = std::make_shared<BenchFlags>();
  CLI::App* verb = add_verb(
      line, "bench", "Benchmark a model on this machine",
      {"exeunt bench bert-base --precision fp32,bf16,int8 --threads 1,2",
       "exeunt bench bert-base --precision int8 --lengths 128 --exit-at 3,6,9,12",
       "exeunt bench models/sst2 --task SST-2 --data glue_data --policy 'entropy:0.1|0.2|0.3'",
       "exeunt bench models/sst2 --precision bf16 --save", "exeunt bench minilm-l12 --lengths 32 --profile trace.json"},
      [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL,--shape", flags->plan.model,
                   "Model folder, or a known shape: bert-base, albert-base, bert-large, minilm-l12 …")
      ->capture_default_str();
  verb->add_option("--precision", flags->precisions, "Comma-separated: fp32, bf16, int8")
      ->default_str("the engine's choice");
  verb->add_option("--poolers", flags->poolers, "Precision of the exits' poolers: fp32, bf16 or int8")
      ->check(one_of({"fp32", "bf16", "int8"}))
      ->default_str("precision.json's, else bf16 where the processor has it");
  add_device_flag(*verb, flags->plan.device);
  verb->add_option("--threads", flags->threads, "Comma-separated thread counts")->capture_default_str();
  verb->add_option("--lengths", flags->lengths, "Comma-separated text lengths in tokens")->capture_default_str();
  verb->add_option("--batch", flags->batches, "Comma-separated: texts that wait at once; times are of all of them")
      ->capture_default_str();
  verb->add_option("--pack-rows", flags->plan.pack_rows,
                   "Run waiting texts together up to this many tokens; 1 = each alone")
      ->check(number_in(1, kMaxPackRows))
      ->default_str("the profile's, else what suits the processor");
  verb->add_option("--exit-at", flags->exit_at, "Comma-separated layers after which texts exit")
      ->default_str("the last");
  verb->add_option("--exit-mean", flags->plan.exit_mean,
                   "Let texts exit in equal parts after each of the layers 1 to 2 N - 1, N on average")
      ->check(number_in(1, 1 << 10))
      ->type_name("N")
      ->excludes("--exit-at");
  verb->add_option("--heads", flags->heads,
                   "Exits of a known shape: last, every (read row 0) or reader (read all rows)")
      ->check(one_of({"last", "every", "reader"}));
  verb->add_option("--cls-first", flags->cls_first, "Compute row 0 first: auto, never or always")
      ->check(one_of({"auto", "never", "always"}))
      ->capture_default_str();
  verb->add_option("--seconds", flags->plan.seconds, "Seconds per measurement")
      ->check(number_in(0.0, 3600.0))
      ->capture_default_str();
  verb->add_option("--lengths-of", flags->lengths_of,
                   "Use the text lengths of a trace, or of a .txt file with one per line, instead of --lengths; all "
                   "of them wait at once, and times are of one text on average");
  verb->add_option("--pad-to", flags->pad_to, "With --lengths-of: pad every text to this length")
      ->check(number_in(1, 1 << 16));
  verb->add_option("--profile", flags->profile, "Write a Chrome trace of every kernel");
  add_data_flags(*verb, flags->run.data);
  add_length_flag(*verb, flags->run.max_length);
  add_setting_flags(*verb, flags->settings, "--policy");
  verb->get_option("--policy")
      ->description(
          "Run the texts of --data under these policies in turns, --batch at a time, and report milliseconds per text: "
          "entropy:0.1|0.2; repeatable");
  verb->get_option("--policy")->default_str("");
  verb->add_flag("--save", flags->save,
                 "Write profile.json into the model's folder: times for latency prediction, and the best --pack-rows");
}

}  // namespace exeunt::apps
