// SPDX-License-Identifier: Apache-2.0
// One policy, one answer: what is measured is what runs, whoever runs it. `predict`, the C interface, the server and
// the replay of `eval` answer every text alike, bit for bit, with temperatures other than 1, some of the exits, and a
// folder of another system that brings its own rule.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <set>
#include <thread>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/c/exeunt.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/policy/replay.h"
#include "exeunt/predict/predict_job.h"
#include "exeunt/serve/server.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/others.h"
#include "tests/unit/serve/raw_client.h"

namespace exeunt {
namespace {

struct Given {
  int layer = 0;
  std::string label = {};
  std::vector<float> scores = {};  // by label

  bool operator==(const Given&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Given& given) {
  out << given.label << " at " << given.layer << ":";
  for (const float score : given.scores) out << " " << std::hexfloat << score << std::defaultfloat;
  return out;
}

// A model folder, texts, and the policy asked for; empty: the model's own.
struct Case {
  std::filesystem::path folder = {};
  std::vector<std::string> texts = {};
  std::string policy = {};

  [[nodiscard]] std::vector<std::string> labels() const { return Checkpoint::open(folder).exits().labels; }
  [[nodiscard]] std::filesystem::path file() const {
    std::string csv = "text\n";
    for (const std::string& text : texts) csv += text + "\n";
    const std::filesystem::path path = folder.parent_path() / "texts.csv";
    write_atomically(path, csv);
    return path;
  }
};

std::vector<Given> by_predict(const Case& what) {
  PredictJob job;
  job.model = what.folder.string();
  job.file = what.file().string();
  job.form = AnswerForm::jsonl;
  job.classifier.policy = what.policy;
  job.classifier.engine.precision = Precision::fp32;
  std::string lines;
  (void)run_predict_job(job, [&](std::string_view text) { lines += text; }, {.progress = progress_on_stderr(true)});
  std::vector<Given> out;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at);
    const Json line = Json::parse(lines.substr(at, end - at));
    Given& given = out.emplace_back(Given{line["exit_layer"].get<int>(), line["label"].get<std::string>()});
    for (const std::string& label : what.labels()) given.scores.push_back(line["scores"][label].get<float>());
    at = end + 1;
  }
  return out;
}

std::vector<Given> by_c(const Case& what) {
  exeunt_options options = EXEUNT_OPTIONS_INIT;
  options.policy = what.policy.empty() ? nullptr : what.policy.c_str();
  options.precision = "fp32";
  exeunt_model* model = nullptr;
  EXPECT_EQ(exeunt_open(what.folder.c_str(), &options, &model), EXEUNT_OK) << exeunt_last_error();
  std::vector<Given> out;
  for (const std::string& text : what.texts) {
    exeunt_result result = EXEUNT_RESULT_INIT;
    Given given;
    given.scores.resize(static_cast<size_t>(exeunt_label_count(model)));
    EXPECT_EQ(exeunt_classify(model, text.c_str(), nullptr, &result, given.scores.data()), EXEUNT_OK);
    given.layer = result.exit_layer;
    given.label = exeunt_label(model, result.label);
    EXPECT_EQ(result.score, given.scores[static_cast<size_t>(result.label)]);
    out.push_back(std::move(given));
  }
  exeunt_close(model);
  return out;
}

std::vector<Given> by_server(const Case& what) {
  const std::string socket = (what.folder.parent_path() / "s").string();
  std::filesystem::remove(socket);
  serve::ServerOptions options;
  options.model = what.folder.string();
  if (!what.policy.empty()) options.policy = what.policy;
  options.engine.precision = Precision::fp32;
  options.engine.threads = 1;
  options.listener.unix_socket = socket;
  options.service.log_requests = false;
  std::promise<void> listening;
  std::atomic<bool> told = false;
  const serve::Log log(true, [&](std::string_view line) {
    if (line.find("\"listening\"") != std::string_view::npos && !told.exchange(true)) listening.set_value();
  });
  std::future<bool> server = std::async(std::launch::async, [&] { return serve::run_server(options, log); });
  listening.get_future().wait();
  std::vector<Given> out;
  for (const std::string& text : what.texts) {
    serve::RawClient client(socket);
    EXPECT_TRUE(client.connected());
    EXPECT_TRUE(
        client.send(serve::post_text("/predict", Json{{"inputs", text}}.dump(), "Content-Type: application/json\r\n")));
    const auto response = client.receive();
    EXPECT_TRUE(response && response->status == 200) << (response ? response->body : "nothing");
    if (!response || response->status != 200) break;
    Given given;
    given.layer = std::stoi(response->head.substr(response->head.find("x-exit-layer: ") + 14));
    const Json predictions = Json::parse(response->body);
    given.label = predictions[0]["label"].get<std::string>();
    for (const std::string& label : what.labels())
      for (const Json& one : predictions)
        if (one["label"] == label) given.scores.push_back(one["score"].get<float>());
    out.push_back(std::move(given));
  }
  ::kill(::getpid(), SIGTERM);  // heeded by the server alone
  EXPECT_TRUE(server.get());
  return out;
}

Measured measured(const Case& what) {
  MeasureOptions options{.model = what.folder.string(), .data = {.path = what.file().string()}, .precision = "fp32"};
  options.data.columns.label.clear();
  return measure(options, {.progress = progress_on_stderr(true)});
}

std::vector<Given> by_replay(const Case& what) {
  const Measured run = measured(what);
  const PolicySpec policy = resolve_measured(run, {.policy = what.policy}, {}).policy;
  Replayer replayer(run.trace, run.trace.info.last_head);
  const Departures departures = replayer.run(policy);
  std::vector<Given> out;
  for (size_t row = 0; row < run.trace.rows; ++row) {
    const auto exit = static_cast<size_t>(departures.exit[row]);
    const std::span<const float> logits = replayer.answer(departures, row);
    const float temperature = policy.score_temperature.empty() ? 1.0F : policy.score_temperature[exit];
    Given given{.layer = run.trace.info.layers[exit]};
    given.scores.resize(logits.size());
    const ExitLogits reading{logits.data(), static_cast<int>(logits.size()), temperature};
    probabilities(reading, given.scores.data());
    given.label = run.trace.info.labels[static_cast<size_t>(compute_evidence(reading).label)];
    out.push_back(std::move(given));
  }
  return out;
}

// Returns the layers at which the texts left.
std::set<int> expect_one_answer(const Case& what) {
  const std::vector<Given> replayed = by_replay(what);
  EXPECT_EQ(replayed.size(), what.texts.size());
  EXPECT_EQ(by_predict(what), replayed) << what.policy;
  EXPECT_EQ(by_c(what), replayed) << what.policy;
  EXPECT_EQ(by_server(what), replayed) << what.policy;
  std::set<int> layers;
  for (const Given& given : replayed) layers.insert(given.layer);
  return layers;
}

std::vector<std::string> some_texts() {
  return {"a great film", "dull and boring", "so so", "good plot", "the worst film", "great", "love it", "bad bad bad"};
}

// A threshold at which some texts leave at the first exit and some do not.
std::string halfway(const Case& what, float temperature) {
  const Measured run = measured(what);
  std::vector<float> entropies;
  for (size_t row = 0; row < run.trace.rows; ++row)
    entropies.push_back(
        compute_evidence(ExitLogits{run.trace.at(row, 0).data(), run.trace.width, temperature}).entropy);
  std::sort(entropies.begin(), entropies.end());
  return fmt::format("entropy:{}", entropies[entropies.size() / 2]);
}

TEST(SameAnswers, ModelPolicyAndTheSamePolicyInWordsAnswerAlike) {
  const Scratch scratch(quick_parent());
  Case what{.folder = scratch.path() / "m", .texts = some_texts()};
  (void)write_exeunt_folder(Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-deebert"), what.folder);
  const std::string rule = halfway(what, 2);
  PolicyFile file{.weights = weights_sha256(Checkpoint::open(what.folder)), .default_precision = "fp32"};
  file.put({.engine = engine_name(choose_kernels()),
            .numerics = kNumerics,
            .precision = "fp32",
            .exits = {1, 3},
            .decision_temperature = {2, 1, 0.5F},
            .score_temperature = {1.5F, 0.7F, 3},
            .policy = parse_policy(rule)});
  write_atomically(what.folder / "policy.json", policy_file_text(file));
  EXPECT_EQ(expect_one_answer(what), (std::set<int>{1, 3}));
  what.policy = rule;
  EXPECT_EQ(expect_one_answer(what), (std::set<int>{1, 3}));
  for (const std::string other : {"confidence:0.55", "patience:1", "full"}) {
    what.policy = other;
    EXPECT_FALSE(expect_one_answer(what).contains(2)) << other;
  }
}

// What the C interface says of a promise is what every other front end says, in words and as data.
TEST(SamePromise, CInterfaceTellsWhetherConditionsHold) {
  const Scratch scratch(quick_parent());
  const std::filesystem::path folder = scratch.path() / "m";
  (void)write_exeunt_folder(Checkpoint::open(EXEUNT_TEST_DATA "/checkpoints/bert-deebert"), folder);
  PolicyFile file{.weights = weights_sha256(Checkpoint::open(folder)), .default_precision = "int8"};
  PolicyEntry entry{.engine = engine_name(choose_kernels()),
                    .numerics = kNumerics,
                    .precision = "int8",
                    .exits = {1, 2, 3},
                    .decision_temperature = {1, 1, 1},
                    .score_temperature = {1, 1, 1},
                    .policy = parse_policy("entropy:0.2")};
  entry.points = {{.policy = entry.policy, .max_drop = 0.02, .cost_fraction = 0.5}};
  Certificate certificate;
  certificate.max_drop = 0.02;
  certificate.delta = 0.05;
  certificate.rows = 600;
  certificate.fit = certificate.certify = {.data = std::string(64, 'a'), .rows = 600};
  certificate.reference = LossReference::fp32;
  certificate.max_length = 48;
  entry.certificate = certificate;
  file.put(entry);
  write_atomically(folder / "policy.json", policy_file_text(file));
  for (const int max_length : {0, 32}) {
    exeunt_options options = EXEUNT_OPTIONS_INIT;
    options.max_length = max_length;
    exeunt_model* model = nullptr;
    ASSERT_EQ(exeunt_open(folder.c_str(), &options, &model), EXEUNT_OK) << exeunt_last_error();
    const Resolved resolved = resolve(Checkpoint::open(folder), {.max_length = max_length});
    EXPECT_EQ(exeunt_promise(model), resolved.promise);
    const OrderedJson json = OrderedJson::parse(exeunt_promise_json(model));
    EXPECT_EQ(json["format"], "exeunt.promise/1");
    EXPECT_EQ(json["promise"], resolved.promise);
    EXPECT_EQ(json["precision"], "int8");
    EXPECT_EQ(json["engine"], exeunt_engine(model));
    EXPECT_EQ(json["policy"], "entropy:0.2");
    EXPECT_EQ(json["notices"], OrderedJson(resolved.notices));
    EXPECT_EQ(json["max_length"], max_length == 0 ? 48 : 32);
    if (max_length == 0) {
      EXPECT_EQ(resolved.promise,
                "at most 2 % of answers to distinct texts differ from the fp32 model at full depth, confidence 95 %");
      EXPECT_EQ(json["certificate"], certificate_json(*resolved.certificate));
      EXPECT_EQ(json["certificate"]["reference"], "fp32");
    } else {
      EXPECT_EQ(resolved.promise, "none (certified with max-length 48, running with 32)");
      EXPECT_TRUE(json["certificate"].is_null());
    }
    exeunt_close(model);
  }
}

TEST(SameAnswers, ElbertFolderRunsItsOwnRule) {
  const Scratch scratch(quick_parent());
  others::Builder b;
  b.albert("albert.");
  b.linear("albert.pooler", others::kHidden, others::kHidden);
  b.linear("albert.encoder.exit_out_layer.classifier", 2, others::kHidden);
  Case what{.texts = {"great film", "dull plot", "so", "a great plot", "dull", "a film so dull"}};
  what.folder = others::save(
      scratch, "elbert", b.set(),
      others::config("albert", {{"thres_name", "bias_1"}, {"exit_thres", 0.4}, {"cnt_thres", 2}, {"margin", 0.0}}));
  scratch.write("elbert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngreat\ndull\nfilm\nplot\na\nso\n");
  ASSERT_TRUE(Checkpoint::open(what.folder).native_policy());
  EXPECT_NE(expect_one_answer(what), (std::set<int>{others::kLayers})) << "the rule lets some leave early";
}

}  // namespace
}  // namespace exeunt
