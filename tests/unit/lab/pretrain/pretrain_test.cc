// SPDX-License-Identifier: Apache-2.0
// Pretraining: its losses against LibTorch's own operations, equilibrium and groups, and whole runs that stop and go
// on.
#include "lab/pretrain/pretrain.h"

#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <tuple>

#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/train/new_heads.h"
#include "exeunt/train/torch_compat.h"
#include "lab/pretrain/pretrain_network.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/train/batches.h"

namespace exeunt::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Documents in which a token is followed by the next one: something to learn.
Corpus counting_corpus(const ModelSpec& spec, int documents) {
  std::mt19937 random(3);
  Corpus corpus;
  const auto count = static_cast<uint32_t>(spec.vocab - 8);
  for (int d = 0; d < documents; ++d) {
    uint32_t next = random() % count;
    for (int s = 0; s < 6; ++s) {
      for (uint32_t i = 0; i < 3 + random() % 3; ++i) corpus.ids.push_back(8 + static_cast<int32_t>(next++ % count));
      corpus.sentences.push_back(static_cast<int64_t>(corpus.ids.size()));
    }
    corpus.documents.push_back(static_cast<int64_t>(corpus.sentences.size()) - 1);
  }
  return corpus;
}

PretrainShape small_shape(const ModelSpec& spec) {
  return {.tokens = 16,
          .mask_share = 0.2,
          .cls = 1,
          .sep = 2,
          .mask = 3,
          .pad = spec.pad_id,
          .unknown = 4,
          .vocab = spec.vocab,
          .segments = spec.segments};
}

ModelSpec calm_spec(Family family = Family::bert) {
  ModelSpec spec = small_spec(family);
  spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
  return spec;
}

struct Small {
  explicit Small(const ModelSpec& given) : spec(given), corpus(counting_corpus(given, 20)), shape(small_shape(given)) {
    rows = pack_rows(corpus, shape);
    Network inner(spec, pretrain_layout(spec));
    TokenHead head(spec);
    torch::manual_seed(5);
    draw_weights(*inner);
    draw_weights(*head);
    network = PretrainNetwork(inner, head);
    network->train();
  }
  [[nodiscard]] PretrainTensors batch(uint64_t epoch = 0, const torch::Device& device = torch::kCPU) const {
    const std::vector<int64_t> which{0, 3, 5, 9};
    return pretrain_tensors(make_pretrain_batch(corpus, rows, which, shape, {.seed = 1, .epoch = epoch}), shape,
                            device);
  }
  ModelSpec spec;
  Corpus corpus;
  PretrainShape shape;
  std::vector<PackedRow> rows;
  PretrainNetwork network{nullptr};
};

std::map<std::string, Tensor> gradients_of(PretrainNetwork& network) {
  std::map<std::string, Tensor> out;
  for (auto& item : network->named_parameters()) {
    out[item.key()] = item.value().grad().defined() ? item.value().grad().clone() : torch::zeros_like(item.value());
    item.value().mutable_grad() = Tensor();
  }
  return out;
}

TEST(TokenLoss, IsTheCrossEntropyWithItsGradients) {
  torch::manual_seed(1);
  const int64_t groups = 2, n = 5, columns = 7, words = 11;
  const auto leaf = [](at::IntArrayRef sides) { return torch::randn(sides).set_requires_grad(true); };
  const Tensor x = leaf({groups * n, columns}), table = leaf({words, columns}), bias = leaf({words});
  const Tensor gold = torch::randint(words, {n}, torch::kLong);
  const Tensor weight = torch::tensor({0.2, 0.3, 0.0, 0.4, 0.1}, torch::kFloat), scale = torch::tensor({1.0F, 3.0F});
  const auto gradients = [&](const Tensor& losses) {
    return torch::autograd::grad({(losses * scale).sum()}, {x, table, bias});
  };
  const Tensor ours =
      token_losses({.x = x, .table = table, .bias = bias, .gold = gold, .weight = weight, .groups = groups});
  const Tensor log_p = torch::log_softmax(torch::addmm(bias, x, table.t()), -1).view({groups, n, words});
  const Tensor theirs = (log_p.gather(2, gold.view({1, n, 1}).expand({groups, n, 1})).squeeze(2) * weight).sum(1).neg();
  EXPECT_TRUE(torch::allclose(ours, theirs, 1e-5, 1e-6));
  const auto got = gradients(ours), want = gradients(theirs);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(torch::allclose(got[i], want[i], 1e-4, 1e-6)) << i;
}

// The same from rows that are taken one by one, with LibTorch's losses and the rule of equilibrium by its closed form.
TEST(PretrainNetwork, HasTheLossesOfBothTasksAtEveryActiveExit) {
  Small small(calm_spec());
  const PretrainTensors batch = small.batch();
  const int layers = small.spec.layers;
  const std::vector<bool> all(static_cast<size_t>(layers), true);
  const Tensor got = small.network->losses(batch, all, false);
  ASSERT_THAT(got.sizes().vec(), ElementsAre(2, layers));
  const std::vector<Tensor> rows = hidden_rows(small.network->network(), batch.texts);
  const Tensor table = small.network->network()->named_parameters()["embeddings.word.weight"];
  for (int i = 0; i < layers; ++i) {
    const Tensor flat = rows[static_cast<size_t>(i) + 1].reshape({-1, small.spec.hidden});
    const Tensor hidden = flat.index_select(0, batch.places.narrow(0, 4, batch.gold.size(0)));
    const Tensor logits =
        torch::addmm(small.network->head()->bias(), small.network->head()->transformed(hidden), table.t());
    const Tensor used = batch.weight > 0;
    const Tensor tokens =
        torch::nll_loss(torch::log_softmax(logits, -1).masked_select(used.unsqueeze(1)).view({-1, small.spec.vocab}),
                        batch.gold.masked_select(used));
    EXPECT_NEAR(got[0][i].item<double>(), tokens.item<double>(), 1e-5);
    const ExitSite& site = small.network->network()->layout().sites[static_cast<size_t>(i)];
    const Tensor order =
        small.network->network()->heads()->forward(site, rows[static_cast<size_t>(i) + 1].select(1, 0)).logits;
    const Tensor each = torch::log_softmax(order, -1).gather(1, batch.order.unsqueeze(1)).squeeze(1);
    EXPECT_NEAR(got[1][i].item<double>(), -(each * batch.order_weight).sum().item<double>(), 1e-5);
  }
}

TEST(PretrainNetwork, BringsGradientsIntoEquilibrium) {
  Small small(calm_spec());
  const PretrainTensors batch = small.batch();
  const int layers = small.spec.layers;
  const std::vector<bool> all(static_cast<size_t>(layers), true);
  small.network->losses(batch, all, false).sum().backward();
  const auto plain = gradients_of(small.network);
  small.network->losses(batch, all, true).sum().backward();
  auto balanced = gradients_of(small.network);
  for (const auto& [name, gradient] : plain) {
    double share = 1;
    for (int i = 0; i < layers; ++i) {
      if (name.find(fmt::format("network.layer.{}.", i)) == 0) share = 1.0 / (layers - i);
    }
    if (name.find("embeddings.") != std::string::npos) continue;  // the word table also has the head's gradient
    EXPECT_TRUE(torch::allclose(balanced[name], gradient * share, 1e-3, 1e-6)) << name;
  }
}

TEST(PretrainGroups, TakeTurnsAndShareTheLastExit) {
  EXPECT_THAT(active_exits(4, 2, 0), ElementsAre(true, false, true, true));
  EXPECT_THAT(active_exits(4, 2, 1), ElementsAre(false, true, false, true));
  EXPECT_THAT(active_exits(4, 2, 2), ElementsAre(true, false, true, true));
  EXPECT_THAT(active_exits(3, 1, 9), ElementsAre(true, true, true));
}

TEST(PretrainStepper, ReportsActiveExitsAndLearns) {
  Small small(calm_spec());
  PretrainStepper stepper(small.network, {.lr = 3e-3, .schedule = {.steps = 120, .warmup = 10}, .groups = 2});
  double first = 0, last = 0;
  for (int step = 0; step < 120; ++step) {
    const PretrainReport report = stepper.step(std::vector{small.batch(static_cast<uint64_t>(step % 6))});
    const auto group = active_exits(small.spec.layers, 2, step);
    for (size_t i = 0; i < group.size(); ++i) EXPECT_EQ(report.tokens[i].has_value(), group[i]);
    EXPECT_GT(report.gradient_norm, 0);
    if (step == 0) {
      EXPECT_NEAR(*report.tokens.back(), std::log(small.spec.vocab), 0.5);
    }
    (step < 6 ? first : last) += step < 6 || step >= 114 ? *report.tokens.back() : 0;
  }
  EXPECT_LT(last, 0.7 * first);
}

// Parts with other numbers of predictions and of rows with an order add up to the step of the whole.
TEST(PretrainStepper, AddsUpThePartsOfAStep) {
  Small whole(calm_spec()), apart(calm_spec());
  const PretrainStepOptions options{.lr = 3e-3, .schedule = {.steps = 8, .warmup = 1}};
  PretrainStepper one(whole.network, options), several(apart.network, options);
  const std::vector<int64_t> which{0, 3, 5, 9, 2, 1};
  for (uint64_t step = 0; step < 8; ++step) {
    const PretrainCounts counts = count_rows(whole.corpus, whole.rows, which, whole.shape);
    const auto tensors = [&](size_t first, size_t rows) {
      PretrainBatch batch = make_pretrain_batch(whole.corpus, whole.rows, std::span(which).subspan(first, rows),
                                                whole.shape, {.seed = 1, .epoch = step});
      batch.counts = counts;
      return pretrain_tensors(batch, whole.shape);
    };
    const PretrainReport want = one.step(std::vector{tensors(0, 6)});
    const PretrainReport got = several.step(std::vector{tensors(0, 3), tensors(3, 1), tensors(4, 2)});
    EXPECT_NEAR(got.loss(), want.loss(), 1e-4);
    EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 1e-4);
  }
  const auto parameters = apart.network->named_parameters();
  for (const auto& item : whole.network->named_parameters())
    EXPECT_TRUE(torch::allclose(item.value(), parameters[item.key()], 1e-3, 1e-4)) << item.key();
}

TEST(PretrainStepper, TakesTheStepsOfTheCpuOnAGpu) {
  if (compat::gpus() == 0) GTEST_SKIP() << "no GPU";
  std::vector<std::vector<double>> losses;
  for (const torch::DeviceType device : {torch::kCPU, torch::kCUDA}) {
    Small small(calm_spec());
    small.network->to(device);
    PretrainStepper stepper(small.network, {.schedule = {.steps = 8, .warmup = 1}, .bf16 = device == torch::kCUDA});
    losses.emplace_back();
    for (uint64_t step = 0; step < 8; ++step) {
      losses.back().push_back(stepper.step(std::vector{small.batch(step, device)}).loss());
    }
  }
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 2e-2 * losses[0][i]) << i;
}

class PretrainRun : public testing::Test {
 protected:
  PretrainRun() : base(make_model(small_spec(), ExitLayout{})), corpus(counting_corpus(base.spec(), 40)) {}

  [[nodiscard]] PretrainOptions options(const std::string& name) const {
    PretrainOptions options;
    options.out = folder.path() / name;
    options.shape = small_shape(base.spec());
    options.tokens = options.shape.tokens;
    options.mask_share = options.shape.mask_share;
    options.steps = 12;
    options.batch = 4;
    options.lr = 1e-3;
    options.hold_out = 0.1;
    options.log_every = 1;
    options.save_every = 4;
    options.keep_checkpoints = 0;
    options.device = "cpu";
    options.threads = 1;
    options.progress = progress_on_stderr(true);
    return options;
  }
  Checkpoint base;
  Corpus corpus;
  Scratch folder;
};

TEST_F(PretrainRun, WritesABackboneWithAPoolerAfterEveryLayer) {
  const PretrainResult result = pretrain(base, corpus, options("run"));
  EXPECT_EQ(result.steps, 12);
  EXPECT_EQ(result.results.at("eval_token_losses").size(), static_cast<size_t>(base.spec().layers));
  EXPECT_GT(result.results.at("tokens").get<int64_t>(), 12 * 4 * 8);
  const Checkpoint model = Checkpoint::open((folder.path() / "run/model").string(), {.verify = true});
  EXPECT_EQ(model.spec().family, Family::elasticbert);
  EXPECT_TRUE(model.exits().sites.empty());
  for (int i = 0; i < base.spec().layers; ++i) EXPECT_NE(model.find(fmt::format("pooler.{}.weight", i)), nullptr);
  EXPECT_EQ(read_text(folder.path() / "run/log.jsonl").find("\"step\":1,"), 1U);
  // And pretraining goes on from it, with its heads: the loss of the first step is not that of new ones.
  PretrainOptions more = options("more");
  more.steps = 1;
  std::vector<std::string> said;
  more.notice = [&](std::string_view text) { said.emplace_back(text); };
  (void)pretrain(model, corpus, more);
  for (const std::string& text : said) EXPECT_EQ(text.find("no head"), std::string::npos) << text;
}

// Every line of the log: what does not depend on the weights is known beforehand.
TEST_F(PretrainRun, LogsStepsRatesAndLosses) {
  PretrainOptions logged = options("logged");
  logged.steps = 6;
  logged.warmup = 0.5;
  logged.eval_every = 4;
  logged.log_every = 2;
  std::vector<std::string> said;
  logged.notice = [&](std::string_view text) { said.emplace_back(text); };
  const PretrainResult result = pretrain(base, corpus, logged);
  const HeldOutRows rows = hold_out_documents(corpus, pack_rows(corpus, logged.shape), 0.1);
  const auto per_epoch = static_cast<double>(rows.train.size() / 4);
  const auto layers = static_cast<size_t>(base.spec().layers);
  std::istringstream lines(read_text(logged.out / "log.jsonl"));
  std::vector<Json> log;
  for (std::string line; std::getline(lines, line);) log.push_back(Json::parse(line));
  ASSERT_EQ(log.size(), 5U) << "three steps, two evaluations";
  int64_t tokens = 0;
  for (const auto& [at, step, rate] : {std::tuple(0, 2, 1e-3 / 3), {1, 4, 1e-3}, {3, 6, 1e-3 / 3}}) {
    const Json& entry = log[static_cast<size_t>(at)];
    EXPECT_EQ(entry.at("step"), step);
    EXPECT_DOUBLE_EQ(entry.at("epoch").get<double>(), step / per_epoch);
    EXPECT_NEAR(entry.at("learning_rate").get<double>(), rate, 1e-9);
    EXPECT_EQ(entry.at("token_losses").size(), layers);
    EXPECT_EQ(entry.at("order_losses").size(), layers);
    EXPECT_GT(entry.at("gradient_norm"), 0);
    EXPECT_GT(entry.at("tokens_per_second"), 0);
    EXPECT_GT(entry.at("tokens").get<int64_t>(), tokens);
    EXPECT_LE(entry.at("tokens").get<int64_t>() - tokens, 2 * 4 * logged.shape.tokens);
    tokens = entry.at("tokens").get<int64_t>();
    // The two groups took turns: the means are of one step each, and of both at the last exit.
    for (const Json& loss : entry.at("token_losses")) EXPECT_NEAR(loss.get<double>(), 7.7, 2.5);
    for (const Json& loss : entry.at("order_losses")) EXPECT_NEAR(loss.get<double>(), std::log(2), 0.7);
  }
  for (const auto& [at, step] : {std::pair(2, 4), {4, 6}}) {
    const Json& entry = log[static_cast<size_t>(at)];
    EXPECT_EQ(entry.at("step"), step);
    EXPECT_EQ(entry.at("tokens"), log[static_cast<size_t>(at) - 1].at("tokens"));
    EXPECT_EQ(entry.at("eval_token_losses").size(), layers);
    for (const Json& loss : entry.at("eval_token_losses")) EXPECT_NEAR(loss.get<double>(), 7.7, 2.5);
    for (const Json& loss : entry.at("eval_order_losses")) EXPECT_NEAR(loss.get<double>(), std::log(2), 0.7);
  }
  EXPECT_EQ(result.results.at("steps"), 6);
  EXPECT_EQ(result.results.at("tokens"), tokens);
  EXPECT_EQ(result.results.at("eval_token_losses"), OrderedJson(log[4].at("eval_token_losses")));
  EXPECT_EQ(Json::parse(read_text(logged.out / "results.json")), Json(result.results));
  EXPECT_THAT(said, testing::Contains("the model has no MLM head: it starts from random weights"));
  EXPECT_THAT(said, testing::Contains(fmt::format("{} tokens in 40 documents: {} rows to train on, {} held out; 6 "
                                                  "steps of 4 rows, fp32 on cpu",
                                                  corpus.ids.size(), rows.train.size(), rows.held_out.size())));
  const Json run = Json::parse(read_text(logged.out / "run.json"));
  EXPECT_EQ(run.at("steps"), 6);
  EXPECT_EQ(run.at("warmup"), 0.5);
  EXPECT_EQ(run.at("base"), weights_sha256(base));
  EXPECT_EQ(run.at("corpus"), corpus_sha256(corpus));
  EXPECT_EQ(run.at("layers"), base.spec().layers);
  EXPECT_EQ(run.at("hidden"), base.spec().hidden);
  EXPECT_EQ(run.at("device"), "cpu");
  std::vector<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(logged.out)) kept.push_back(entry.path().filename());
  EXPECT_THAT(kept, testing::UnorderedElementsAre("run.json", "log.jsonl", "results.json", "model", "checkpoint-4"));
}

TEST_F(PretrainRun, CountsAccumulatedBatchesAsOneStep) {
  PretrainOptions accumulated = options("accumulated");
  accumulated.steps = 0;
  accumulated.accumulation = 3;
  std::vector<std::string> said;
  accumulated.notice = [&](std::string_view text) { said.emplace_back(text); };
  const auto rows = hold_out_documents(corpus, pack_rows(corpus, accumulated.shape), 0.1).train.size();
  EXPECT_EQ(pretrain(base, corpus, accumulated).steps, static_cast<int64_t>(rows / 12));
  EXPECT_THAT(said, testing::Contains(HasSubstr(fmt::format("{} steps of 12 rows, fp32 on cpu", rows / 12))));
  EXPECT_THAT(said, testing::Each(testing::Not(HasSubstr("nothing is held out"))));
}

TEST_F(PretrainRun, SaysThatNothingIsHeldOutOfFewDocuments) {
  const auto said_with = [&](double share, int documents) {
    PretrainOptions few = options("few");
    few.hold_out = share;
    few.steps = 1;
    few.batch = 1;  // of few documents are few rows
    few.overwrite = true;
    std::string said;
    few.notice = [&](std::string_view text) { said += std::string(text) + "\n"; };
    const PretrainResult result = pretrain(base, counting_corpus(base.spec(), documents), few);
    EXPECT_EQ(result.results.contains("eval_token_losses"), said.find("nothing is held out") == std::string::npos);
    return said;
  };
  EXPECT_THAT(said_with(0.01, 86),
              HasSubstr("nothing is held out to evaluate on: 1 % of 86 documents is less than one; "
                        "--hold-out 0.02 holds out one or more"));
  EXPECT_THAT(said_with(0.02, 86), testing::Not(HasSubstr("nothing is held out")));
  EXPECT_THAT(said_with(0.01, 3), HasSubstr("--hold-out 0.34 holds out one or more"));
  EXPECT_THAT(said_with(0.34, 3), testing::Not(HasSubstr("nothing is held out")));
  EXPECT_THAT(said_with(0.01, 2), HasSubstr("--hold-out 0.5 holds out one or more"));
  EXPECT_THAT(said_with(0.5, 2), testing::Not(HasSubstr("nothing is held out")));
}

TEST_F(PretrainRun, TakesStepsOfItsEpochs) {
  PretrainOptions epochs = options("epochs");
  epochs.steps = 0;
  epochs.epochs = 0.5;
  const auto rows = hold_out_documents(corpus, pack_rows(corpus, epochs.shape), 0.1).train.size();
  EXPECT_EQ(pretrain(base, corpus, epochs).steps, std::llround(0.5 * static_cast<double>(rows / 4)));
}

TEST(PretrainSettings, HaveTheirNamesRangesAndDefaults) {
  std::string all;
  const PretrainSettings settings;
  PretrainSettings::fields(settings, [&](const Field& field, const auto& value) {
    all += fmt::format("{} {} {:g} {:g}{} {} = {}\n", field.name, field.flag, field.low, field.high,
                       field.open ? " open" : "", field.in, value);
  });
  EXPECT_EQ(all, R"(steps --max-steps 0 inf 1 = 0
epochs --epochs 0 inf open 1 = 1
batch --batch 1 inf 1 = 256
accumulation --accumulation 1 inf 1 = 1
tokens --max-length 8 16384 1 = 128
lr --lr 0 inf open 1 = 0.0002
warmup --warmup 0 1 1 = 0.06
weight_decay --weight-decay 0 inf 1 = 0.01
clip --clip 0 inf 1 = 1
adam_epsilon --adam-epsilon 0 inf open 1 = 1e-06
mask_share --mask-share 0 1 1 = 0.15
hold_out --hold-out 0 0.5 1 = 0.01
groups --groups 1 64 1 = 2
no_equilibrium --no-equilibrium -inf inf 1 = false
seed --seed 0 inf 1 = 42
eval_every --eval-every 0 inf 2 = 0
precision --precision -inf inf 1 = auto
deterministic --deterministic -inf inf 1 = false
log_every --log-every 0 inf 2 = 50
save_every --save-every 0 inf 2 = 1000
keep_checkpoints --keep-checkpoints 0 inf 2 = 2
resume --resume -inf inf 2 = false
overwrite --overwrite -inf inf 2 = false
device --device -inf inf 2 = auto
threads --threads 0 4096 2 = 0
)");
}

TEST(PretrainShape, HasTheTokensOfTheVocabulary) {
  const Scratch folder;
  const ModelSpec spec = calm_spec();
  PretrainSettings settings;
  settings.tokens = 16;
  folder.write("vocab.txt", "[PAD]\n[MASK]\n[UNK]\n[CLS]\n[SEP]\na\n");
  const PretrainShape shape = shape_for(*load_tokenizer(folder.path()), spec, settings);
  EXPECT_EQ(shape.tokens, 16);
  EXPECT_EQ(shape.mask_share, 0.15);
  EXPECT_EQ(shape.mask, 1);
  EXPECT_EQ(shape.unknown, 2);
  EXPECT_EQ(shape.cls, 3);
  EXPECT_EQ(shape.sep, 4);
  EXPECT_EQ(shape.pad, spec.pad_id);
  EXPECT_EQ(shape.vocab, 6) << "not more than the tokenizer has";
  EXPECT_EQ(shape.segments, spec.segments);
  settings.tokens = spec.max_tokens();
  EXPECT_NO_THROW((void)shape_for(*load_tokenizer(folder.path()), spec, settings));
  settings.tokens = spec.max_tokens() + 1;
  EXPECT_THAT(error_of([&] { (void)shape_for(*load_tokenizer(folder.path()), spec, settings); }).what(),
              HasSubstr("--max-length: got"));
  settings.tokens = 16;
  EXPECT_THAT(error_of([&] {
                (void)shape_for(*load_tokenizer(folder.path()), calm_spec(Family::modernbert), settings);
              }).what(),
              HasSubstr("got a model of the family modernbert"));
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n");
  EXPECT_THAT(error_of([&] { (void)shape_for(*load_tokenizer(folder.path()), spec, settings); }).what(),
              HasSubstr("got no token '[MASK]'"));
}

TEST_F(PretrainRun, ResumedGivesTheWeightsOfARunThatNeverStopped) {
  (void)pretrain(base, corpus, options("whole"));
  PretrainOptions broken = options("broken");
  std::atomic<bool> stop = false;
  broken.stop = &stop;
  broken.save_every = 0;
  stop = true;  // after the first step
  const PretrainResult stopped = pretrain(base, corpus, broken);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 1);
  stop = false;
  broken.resume = true;
  EXPECT_FALSE(pretrain(base, corpus, broken).stopped);
  const auto weights = [&](const char* name) { return read_text(folder.path() / name / "model/model.safetensors"); };
  EXPECT_EQ(weights("whole"), weights("broken"));
  // A checkpoint in the middle, and another setting.
  PretrainOptions other = options("whole");
  other.resume = true;
  other.lr = 2e-3;
  const Error error = error_of([&] { (void)pretrain(base, corpus, other); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_THAT(error.what(), HasSubstr("lr: the checkpoint has 0.001, this run 0.002"));
}

TEST_F(PretrainRun, BeginsFromScratchWithEqualWeightsForEqualSeeds) {
  ModelSpec smaller = base.spec();
  --smaller.layers;
  PretrainOptions first = options("a"), second = options("b"), third = options("c");
  first.scratch = second.scratch = third.scratch = smaller;
  first.steps = second.steps = third.steps = 2;
  third.seed = 7;
  for (const PretrainOptions* one : {&first, &second, &third}) (void)pretrain(base, corpus, *one);
  const auto weights = [&](const char* name) { return read_text(folder.path() / name / "model/model.safetensors"); };
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_NE(weights("a"), weights("c"));
  EXPECT_EQ(Checkpoint::open((folder.path() / "a/model").string()).spec().layers, smaller.layers);
}

TEST_F(PretrainRun, RefusesSettingsThatCannotWork) {
  PretrainOptions big = options("x"), groups = options("y");
  big.batch = 10000;
  EXPECT_THAT(error_of([&] { (void)pretrain(base, corpus, big); }).what(),
              HasSubstr("want at least one batch of 10000"));
  groups.groups = base.spec().layers + 1;
  EXPECT_THAT(error_of([&] { (void)pretrain(base, corpus, groups); }).what(), HasSubstr("--groups: got"));
  PretrainOptions half = options("z");
  half.precision = "bf16";
  EXPECT_THAT(error_of([&] { (void)pretrain(base, corpus, half); }).what(), HasSubstr("--precision bf16 needs CUDA"));
}

}  // namespace
}  // namespace exeunt::nn
