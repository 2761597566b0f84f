// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/attach_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "exeunt/base/files.h"
#include "exeunt/base/gunzip.h"
#include "exeunt/base/json.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/version.h"
#include "exeunt/data/learned_rows.h"
#include "exeunt/engine/classifier.h"
#include "exeunt/engine/precision_map.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/model/exeunt_folder.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/certify/silent.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

// Models as transformers and the papers' code wrote them (tests/fixtures/golden), with a small vocabulary beside them,
// and texts of its words.
class AttachModelTest : public testing::Test {
 protected:
  AttachModelTest() { ::setenv("XDG_STATE_HOME", (scratch_.path() / "state").c_str(), 1); }  // the tries of this test
  [[nodiscard]] std::string model(const std::string& golden) const {
    const fs::path folder = scratch_.path() / golden;
    fs::create_directories(folder);
    const fs::path source = fs::path(EXEUNT_TEST_DATA "/golden") / golden;
    for (const char* name : {"config.json", "model.safetensors", "pytorch_model.bin"})
      if (path_exists(source / name)) fs::copy_file(source / name, folder / name);
    const fs::path tokenizer = EXEUNT_TEST_DATA "/checkpoints/bert-backbone";
    const std::string all = read_text(tokenizer / "vocab.txt");
    size_t end = 0;
    for (int word = 0; word < kWords; ++word) end = all.find('\n', end) + 1;
    write_atomically(folder / "vocab.txt", all.substr(0, end));
    fs::copy_file(tokenizer / "tokenizer_config.json", folder / "tokenizer_config.json");
    return folder.string();
  }

  static std::vector<std::string> some_texts(int count, uint32_t seed) {
    const std::vector<std::string> words{"the", "a", "an", "of", "to", "and", "in", "is", "it", "was", "not", "no"};
    std::mt19937 random(seed);
    std::vector<std::string> texts;
    for (int i = 0; i < count; ++i) {
      std::string text;
      for (uint32_t word = 0, length = 3 + random() % 10; word < length; ++word) text += words[random() % 12] + " ";
      texts.push_back(text);
    }
    return texts;
  }

  [[nodiscard]] std::string file(const std::vector<std::string>& texts, const std::string& name = "texts.txt") const {
    std::string content;
    for (const std::string& text : texts) content += text + "\n";
    return scratch_.write(name, content).string();
  }

  [[nodiscard]] AttachJob job(const std::string& golden, const std::string& texts) const {
    AttachJob job{.model = model(golden), .texts = {.files = {texts}}, .out = scratch_.path() / "fast"};
    job.heads.epochs = 2;
    job.plan.max_drops = {0.1};
    return job;
  }

  static constexpr int kWords = 40;
  const Scratch scratch_;
};

class AttachGoldenTest : public AttachModelTest, public testing::WithParamInterface<const char*> {
 protected:
  // Exits that a model of the papers has are replaced.
  [[nodiscard]] AttachJob job(const std::string& texts) const {
    AttachJob job = AttachModelTest::job(GetParam(), texts);
    const std::string name = GetParam();
    job.force = !name.starts_with("hf_");
    if (job.force || name == "hf_xlm_roberta_classifier") balance(job.model);
    return job;
  }

 private:
  // Random weights may give one answer to all texts: the bias of the last head is set, in the file as it is, so that
  // two labels are answered about equally often.
  static void balance(const fs::path& folder) {
    ClassifierOptions full;
    full.engine.precision = Precision::fp32;
    full.policy = "full";
    Classifier model(folder.string(), full);
    std::vector<float> leads;  // of the first label over the second
    for (const std::string& text : some_texts(101, 3)) {
      const std::vector<float> logits = model.answer(text).logits;
      leads.push_back(logits[0] - logits[1]);
    }
    std::nth_element(leads.begin(), leads.begin() + 50, leads.end());
    const Checkpoint& weights = model.checkpoint();
    const ExitLayout& exits = weights.exits();
    const int head = exits.sites.back().classifier;
    const TensorView& bias = weights.get(fmt::format("exits.classifier.{}.{}bias", head, exits.inner ? "inner." : ""));
    const std::string before(reinterpret_cast<const char*>(bias.bytes.data()), bias.bytes.size());
    std::vector<float> shifted(before.size() / sizeof(float));
    std::memcpy(shifted.data(), before.data(), before.size());
    shifted[1] += leads[50];
    for (size_t label = 2; label < shifted.size(); ++label) shifted[label] = -100;
    const fs::path file =
        folder / (path_exists(folder / "model.safetensors") ? "model.safetensors" : "pytorch_model.bin");
    std::string all = read_text(file);
    const size_t place = all.find(before);
    ASSERT_NE(place, std::string::npos);
    ASSERT_EQ(all.find(before, place + 1), std::string::npos) << "one place alone has these values";
    const std::string after(reinterpret_cast<const char*>(shifted.data()), before.size());
    all.replace(place, before.size(), after);
    const std::string old_sum = sum_of(before), new_sum = sum_of(after);  // of its entry, where the file is a zip
    for (size_t at = all.find(old_sum); at != std::string::npos; at = all.find(old_sum, at + 4))
      all.replace(at, 4, new_sum);
    write_atomically(file, all);
  }

  static std::string sum_of(const std::string& bytes) {
    const uint32_t sum = crc32(std::as_bytes(std::span(bytes)));
    return {reinterpret_cast<const char*>(&sum), sizeof sum};
  }
};

TEST_P(AttachGoldenTest, LeavesFullDepthAnswersAsTheyWere) {
  const AttachJob job = this->job(file(some_texts(1200, 1)));
  const Attached done = attach_model(job, silent());
  EXPECT_EQ(done.out, job.out);
  ClassifierOptions full;
  full.engine.precision = Precision::fp32;
  full.policy = "full";
  Classifier before(job.model, full), after(job.out.string(), full);
  for (const std::string& text : some_texts(1000, 2)) {
    EXPECT_EQ(before.answer(text).logits, after.answer(text).logits) << text;
  }
  const ExitLayout& exits = after.checkpoint().exits();
  EXPECT_EQ(exits.sites.size(), static_cast<size_t>(after.checkpoint().spec().layers) + (exits.ngrams ? 1 : 0));
}

TEST_P(AttachGoldenTest, KeepsItsPromiseLive) {
  const AttachJob job = this->job(file(some_texts(1200, 1)));
  const Attached done = attach_model(job, silent());
  Classifier model(job.out.string());
  ASSERT_TRUE(model.resolved().certificate.has_value());
  EXPECT_EQ(model.resolved().certificate->rows, static_cast<int64_t>(done.parts.certify));
  EXPECT_EQ(model.resolved().certificate->max_drop, 0.1);
  EXPECT_EQ(model.resolved().certificate->loss,
            done.problem == Problem::regression ? RiskLoss::abs_diff : RiskLoss::disagreement);
  const PolicyFile policies = read_policy_file(job.out / "policy.json");
  EXPECT_EQ(policies.weights, weights_sha256(Checkpoint::open(job.out.string())));
  EXPECT_EQ(policies.default_precision, name_of(done.setting.precision));
  EXPECT_EQ(model.resolved().precision, done.setting.precision);
}

INSTANTIATE_TEST_SUITE_P(Goldens, AttachGoldenTest,
                         testing::Values("hf_bert_classifier", "hf_roberta_classifier", "hf_albert_classifier",
                                         "hf_bert_regression", "hf_bert_multi_label"));

INSTANTIATE_TEST_SUITE_P(Families, AttachGoldenTest,
                         testing::Values("hf_xlm_roberta_classifier", "hf_distilbert_classifier",
                                         "hf_electra_classifier", "hf_deberta_classifier", "hf_modernbert_cls",
                                         "hf_modernbert_mean"));

INSTANTIATE_TEST_SUITE_P(Papers, AttachGoldenTest,
                         testing::Values("deebert_bert", "deebert_roberta", "pabee_bert", "pabee_albert", "elasticbert",
                                         "romebert", "elbert", "elbert_fc2_mean_max", "berxit_bert"));

// Many draws of texts, each with its own exits and certificate: the share of answers that change on fresh texts exceeds
// the budget no more often than the confidence allows (30 draws at 90 %: six are two standard deviations above three).
TEST_F(AttachModelTest, KeepsItsPromiseOverDrawsOfTexts) {
  const std::string source = model("hf_bert_classifier");
  std::vector<Encoding> fresh;
  const auto tokenizer = load_tokenizer(source);
  for (const std::string& text : some_texts(2000, 77)) fresh.push_back(tokenizer->encode(text, {}, {.max_length = 32}));
  int broken = 0, early = 0;
  for (uint32_t draw = 0; draw < 30; ++draw) {
    ::setenv("XDG_STATE_HOME", (scratch_.path() / fmt::format("state{}", draw)).c_str(), 1);
    AttachJob job{.model = source, .texts = {.files = {file(some_texts(400, 1000 + draw))}, .seed = draw}};
    job.out = scratch_.path() / "drawn";
    job.force = true;
    job.precision = Precision::fp32;
    job.heads = {.epochs = 2, .rate = 1e-2};
    job.plan.max_drops = {0.1};
    job.plan.delta = 0.1;
    const Attached done = attach_model(job, silent());
    Engine engine(Checkpoint::open(job.out.string()), {.precision = Precision::fp32});
    ExitTrace trace = engine.trace(fresh);
    trace.gold.assign(trace.rows, NAN);
    const PolicySpec& policy = done.calibration.outcomes.front().policy;
    const double agreement = Scorer(trace).score(policy).agreement;
    broken += 1 - agreement > 0.1 ? 1 : 0;
    early += Scorer(trace).score(policy).cost.average_layers < 3 ? 1 : 0;
  }
  EXPECT_LE(broken, 6);
  EXPECT_GT(early, 0);  // not because nothing ever left early
}

// The precision is chosen and tested as calibrate_model() does; which one, clocks decide. What is named is taken.
TEST_F(AttachModelTest, CertifiesOnePromiseOverPrecisionAndExits) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  const Attached chosen = attach_model(job, silent());
  ASSERT_GE(chosen.trials.size(), 2U);
  EXPECT_EQ(chosen.trials.front().setting, PrecisionSetting{});
  const auto& tried = chosen.trials;
  EXPECT_TRUE(
      std::any_of(tried.begin(), tried.end(), [](const auto& t) { return t.setting.precision == Precision::int8; }));
  const Checkpoint model = Checkpoint::open(job.out.string());
  EXPECT_EQ(find_precision_map(job.out, model.spec()).exceptions(chosen.setting.precision), chosen.setting.exceptions);

  job.precision = Precision::int8;
  job.force = true;
  ::setenv("XDG_STATE_HOME", (scratch_.path() / "other").c_str(), 1);
  const Attached named = attach_model(job, silent());
  EXPECT_EQ(named.setting.precision, Precision::int8);
  EXPECT_TRUE(named.trials.empty());
  const Resolved runs = resolve(Checkpoint::open(job.out.string()), {});
  EXPECT_EQ(runs.precision, Precision::int8);
  ASSERT_TRUE(runs.certificate);
  EXPECT_EQ(runs.certificate->reference, LossReference::fp32);
  EXPECT_EQ(runs.promise,
            "at most 10 % of answers to distinct texts differ from the fp32 model at full depth, confidence 95 %");
}

TEST_F(AttachModelTest, RemembersWhatItLearnedAndNothingElse) {
  const AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  const Attached done = attach_model(job, silent());
  EXPECT_EQ(LearnedRows::read(job.out / kLearnedFile).size(), done.parts.learn);
  const Json record = read_json(job.out / "attach.json");
  EXPECT_EQ(record.at("format"), "exeunt.attach/1");
  EXPECT_EQ(record.at("weights"), weights_sha256(finished_model(Checkpoint::open(job.model))));
  EXPECT_EQ(record.at("family"), record.at("weights"));
  EXPECT_EQ(record.at("texts"), sha256_hex(sha256_hex(read_text(job.texts.files.front()))));
  EXPECT_EQ(record.at("rows"), 1200);
  EXPECT_EQ(record.at("learned"), done.parts.learn);
  EXPECT_EQ(record.at("chosen"), done.parts.fit);
  EXPECT_EQ(record.at("certified"), done.parts.certify);
  EXPECT_EQ(record.at("reported"), done.parts.report);
  EXPECT_EQ(record.at("max_length"), done.max_length);
  EXPECT_EQ(record.at("texts_per_row"), 1);
  EXPECT_THAT(record.at("engine").get<std::string>(), testing::StartsWith("cpu/"));
  EXPECT_EQ(record.at("epochs"), 2);
  EXPECT_EQ(record.at("tool"), version());
  EXPECT_FALSE(record.at("created").get<std::string>().empty());
  EXPECT_EQ(done.rows, 1200);
  EXPECT_EQ(done.blank, 0);
  EXPECT_EQ(done.truncated, 0);
  EXPECT_GT(done.seconds, 0);
  EXPECT_EQ(done.problem, Problem::classification);
  ASSERT_EQ(done.budgets.size(), 1U);
  EXPECT_EQ(done.budgets.front().outcome.max_drop, 0.1);
  EXPECT_FALSE(done.budgets.front().order.has_value());
  EXPECT_TRUE(path_exists(job.out / "README.md"));
  EXPECT_EQ(done.parts.learn + done.parts.fit + done.parts.certify + done.parts.report,
            static_cast<size_t>(done.distinct));
}

// The first of several budgets has most of delta, and each row that certifies is worth its place.
TEST_F(AttachModelTest, CertifiesWithACriticalNumberOfTexts) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  job.plan.max_drops = {0.1, 0.2};
  const auto rows = static_cast<int64_t>(attach_model(job, silent()).parts.certify);
  const double delta = 0.8 * job.plan.delta * share_of_try(1);
  EXPECT_EQ(rows, rows_needed(0.1, delta, losses_allowed(rows, 0.1, delta)));
}

// Labels are for the report alone: other labels, and none, give the same exits and the same policy.
TEST_F(AttachModelTest, LearnsNothingFromLabels) {
  const std::vector<std::string> texts = some_texts(1200, 1);
  AttachJob job = this->job("hf_bert_classifier", file(texts));
  job.precision = Precision::fp32;
  const Attached without = attach_model(job, silent());
  EXPECT_TRUE(without.full.metrics.empty());
  const std::string weights = weights_sha256(Checkpoint::open(job.out.string()));
  job.texts.files.clear();
  job.force = true;
  for (const size_t shift : {size_t{0}, size_t{1}}) {
    std::string rows = "text,label\n";
    for (size_t i = 0; i < texts.size(); ++i) rows += fmt::format("{},LABEL_{}\n", texts[i], (i + shift) % 3);
    job.labelled.path = scratch_.write("labelled.csv", rows).string();
    ::setenv("XDG_STATE_HOME", (scratch_.path() / fmt::format("state{}", shift)).c_str(), 1);  // a first try each time
    const Attached with = attach_model(job, silent());
    EXPECT_FALSE(with.full.metrics.empty());
    EXPECT_EQ(weights_sha256(Checkpoint::open(job.out.string())), weights);
    EXPECT_EQ(with.calibration.outcomes.front().policy, without.calibration.outcomes.front().policy);
  }
}

// Of a model from elsewhere nobody knows what it was trained on but its user.
TEST_F(AttachModelTest, TrainingTextsThatAreNamedNeverCertify) {
  const std::vector<std::string> old = some_texts(400, 7), fresh = some_texts(900, 8);
  std::vector<std::string> mixed = old;
  mixed.insert(mixed.end(), fresh.begin(), fresh.end());
  AttachJob job = this->job("hf_bert_classifier", file(mixed));
  job.precision = Precision::fp32;
  std::vector<std::string> notices;
  Observer observer = silent();
  observer.notice = [&](const std::string& text) { notices.push_back(text); };
  const auto says = [&](std::string_view part) {
    return std::any_of(notices.begin(), notices.end(),
                       [&](const std::string& text) { return text.find(part) != text.npos; });
  };
  const auto known_among = [&](const Attached& done) {
    const auto tokenizer = load_tokenizer(job.model);
    std::set<uint64_t> known;
    for (const std::string& text : old) known.insert(row_hash_of(tokenizer->encode(text, {}, {.max_length = 64}).ids));
    return std::count_if(done.data.certify.row_hash.begin(), done.data.certify.row_hash.end(),
                         [&](uint64_t hash) { return known.contains(hash); });
  };
  EXPECT_GT(known_among(attach_model(job, observer)), 0);
  EXPECT_TRUE(says("training texts unknown")) << "and so does nobody else";
  notices.clear();
  job.learned = {file(old, "old.txt")};
  job.force = true;
  const Attached done = attach_model(job, observer);
  EXPECT_EQ(known_among(done), 0);
  EXPECT_FALSE(says("training texts unknown"));
  EXPECT_TRUE(says("were seen in training"));
  EXPECT_GE(learned_in(job.out)->size(), 400U) << "whoever certifies the model later knows them, too";
}

TEST_F(AttachModelTest, MeasuresARerankersOrderOverWholeQuestions) {
  std::vector<std::string> pairs;
  const std::vector<std::string> questions = some_texts(300, 1), answers = some_texts(1200, 2);
  for (size_t i = 0; i < answers.size(); ++i) pairs.push_back(questions[i / 4] + "\t" + answers[i]);
  AttachJob job = this->job("hf_bert_regression", file(pairs));
  job.texts.columns.tab_pair = true;
  job.precision = Precision::fp32;
  const Attached done = attach_model(job, silent());
  ASSERT_TRUE(done.budgets.front().order.has_value());
  EXPECT_NEAR(done.budgets.front().order->answers, 4, 0.2);
  EXPECT_GT(done.budgets.front().order->questions, 15);
}

// What calibrate and quantize found out about the matrices of the finished model is still true of them.
TEST_F(AttachModelTest, KeepsThePrecisionsOfTheMatrices) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  const fs::path source = job.model;
  write_atomically(source / kPrecisionFile, R"({"format": "exeunt.precision/1", "int8": {"layer.1.ffn2": "fp32"}})");
  job.precision = Precision::fp32;
  (void)attach_model(job, silent());
  const ModelSpec spec = Checkpoint::open(job.model).spec();
  EXPECT_EQ(find_precision_map(job.out, spec), find_precision_map(source, spec));
}

// A model from elsewhere must not have us read, and copy into our output, files outside of its folder.
TEST_F(AttachModelTest, ReadsNoListOrMapFromOutsideOfTheModelsFolder) {
  const std::string texts = file(some_texts(1200, 1));
  AttachJob job = this->job("hf_bert_classifier", texts);
  const std::vector<LearnedRows::Row> none;
  LearnedRows(none, 128).write(scratch_.path() / "list");
  scratch_.write("map", R"({"format": "exeunt.precision/1"})");
  for (const auto& [name, target] : {std::pair(kLearnedFile, "../list"), std::pair("precision.json", "../map")}) {
    const fs::path link = fs::path(job.model) / name;
    fs::create_symlink(target, link);
    EXPECT_THAT([&] { (void)attach_model(job, silent()); },
                testing::Throws<Error>(testing::Property(&Error::code, Code::bad_file)))
        << name;
    EXPECT_FALSE(path_exists(job.out)) << name;
    fs::remove(link);
  }
}

TEST_F(AttachModelTest, RefusesARangeThatIsNotTheModels) {
  const std::string texts = file(some_texts(1200, 1));
  AttachJob job = this->job("hf_bert_classifier", texts);
  job.plan.range = {0, 5};
  EXPECT_THAT([&] { (void)attach_model(job, silent()); },
              testing::Throws<Error>(testing::Property(&Error::what, testing::HasSubstr("classes, which have no"))));
}

TEST_F(AttachModelTest, GivesTheSameModelForAnyNumberOfThreads) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  job.texts.threads = 1;
  (void)attach_model(job, silent());
  const std::string one = weights_sha256(Checkpoint::open(job.out.string()));
  job.texts.threads = 3;
  job.memory = 0;
  job.force = true;
  (void)attach_model(job, silent());
  EXPECT_EQ(weights_sha256(Checkpoint::open(job.out.string())), one);
}

TEST_F(AttachModelTest, ReplacesExitsOnRequestAlone) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  (void)attach_model(job, silent());
  AttachJob again = job;
  again.model = job.out.string();
  again.out = scratch_.path() / "again";
  EXPECT_THAT([&] { (void)attach_model(again, silent()); },
              testing::Throws<Error>(testing::Property(&Error::what, testing::HasSubstr("exits already"))));
  EXPECT_FALSE(path_exists(again.out));
  // Its texts are known now: others have to certify.
  again.force = true;
  again.texts.files = {file(some_texts(3000, 9), "others.txt")};
  (void)attach_model(again, silent());
  EXPECT_GT(LearnedRows::read(again.out / kLearnedFile).size(), LearnedRows::read(job.out / kLearnedFile).size());
}

// --force is for models: a mistyped --out must not cost a file or a folder of something else.
TEST_F(AttachModelTest, ReplacesNothingButModels) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  job.force = true;
  const auto refused = [&](const fs::path& out, Code code) {
    job.out = out;
    EXPECT_THAT([&] { (void)attach_model(job, silent()); },
                testing::Throws<Error>(testing::Property(&Error::code, code)))
        << out;
  };
  fs::create_directory(scratch_.path() / "notes");
  const fs::path note = scratch_.write("notes/a.txt", "mine");
  refused(note, Code::usage);
  refused(note.parent_path(), Code::usage);
  EXPECT_EQ(read_text(note), "mine");
  refused(note / "fast", Code::resources);  // before the work
}

TEST_F(AttachModelTest, SaysHowManyTextsAPromiseTakes) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(200, 1)));
  job.plan.max_drops = {0.02};
  EXPECT_THAT([&] { (void)attach_model(job, silent()); },
              testing::Throws<Error>(testing::Property(
                  &Error::what, testing::HasSubstr("to promise 2 % with confidence 95 % takes 370 at least"))));
  EXPECT_FALSE(path_exists(job.out));
}

TEST_F(AttachModelTest, SaysWhereMemoryLimitsTheDraw) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  job.texts.memory = size_t{200} << 10;
  std::vector<std::string> notices;
  Observer observer = silent();
  observer.notice = [&](const std::string& text) { notices.push_back(text); };
  const Attached done = attach_model(job, observer);
  const size_t drawn = done.parts.learn + done.parts.fit + done.parts.certify + done.parts.report;
  EXPECT_LT(drawn, 1000U);
  EXPECT_THAT(notices,
              testing::Contains(testing::StartsWith(fmt::format("{} texts were drawn instead of 20000", drawn))));
}

TEST_F(AttachModelTest, RefusesAModelThatAlwaysAnswersTheSame) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(600, 1)));
  Checkpoint source = Checkpoint::open(job.model);
  const std::vector<float> bias{100, 0, 0};
  TensorSet tensors = source.tensors();
  tensors.tensors["exits.classifier.0.bias"] = view_of(DType::f32, bias);
  const fs::path sure = scratch_.path() / "sure";
  (void)write_exeunt_folder({source.spec(), source.exits(), tensors, {.folder = job.model}}, sure);
  job.model = sure.string();
  EXPECT_THAT([&] { (void)attach_model(job, silent()); },
              testing::Throws<Error>(testing::Property(&Error::what, testing::HasSubstr("to every text"))));
  EXPECT_FALSE(path_exists(job.out));
}

// What must not be interrupted is short and comes last; before it there is nothing to be left behind.
TEST_F(AttachModelTest, WritesEverythingInOneGoAtTheEnd) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  std::vector<std::pair<bool, bool>> seen;  // whether it is writing, and whether the folder is there
  job.writing = [&](bool writing) { seen.emplace_back(writing, path_exists(job.out)); };
  (void)attach_model(job, silent());
  EXPECT_EQ(seen, (std::vector<std::pair<bool, bool>>{{true, false}, {false, true}}));
}

TEST_F(AttachModelTest, HasExit0ByDefault) {
  AttachJob job = this->job("hf_bert_classifier", file(some_texts(1200, 1)));
  job.plan.max_drops = {0.2};
  const Attached done = attach_model(job, silent());
  EXPECT_EQ(done.exits.front().layer, 0);
  EXPECT_TRUE(Checkpoint::open(job.out.string()).exits().ngrams);
  const Json record = Json::parse(read_text(job.out / "attach.json"));
  EXPECT_EQ(record["exit_0_bytes"], 16 << 20);
}

// So few texts certify only what loses nothing, which no early exit of values does. The texts are traced once, and
// what certifies is what would have been without an exit 0.
TEST_F(AttachModelTest, LeavesOutExit0ThatSavesNothing) {
  AttachJob job = this->job("hf_bert_regression", file(some_texts(740, 1)));
  job.precision = Precision::fp32;
  job.plan.max_drops = {0.011};
  int traces = 0;
  std::string last, noticed;
  Observer observer{.notice = [&](const std::string& text) { noticed += text + "\n"; }};
  observer.progress.terminal = true;  // a bar for each pass, which ends its line
  observer.progress.now = [] { return std::chrono::duration<double>(0); };
  observer.progress.write = [&](std::string_view text) {
    traces += text == "\n" && last.starts_with("\rtrace") ? 1 : 0;
    last = text;
  };
  const Attached left_out = attach_model(job, observer);
  EXPECT_EQ(traces, 1);
  EXPECT_NE(noticed.find("the exit before the first layer is left out"), std::string::npos);
  EXPECT_EQ(left_out.exits.front().layer, 1);
  const std::string weights = weights_sha256(Checkpoint::open(job.out.string()));
  EXPECT_EQ(read_policy_file(job.out / "policy.json").weights, weights);

  job.exit_0_bytes = 0;
  job.force = true;
  ::setenv("XDG_STATE_HOME", (scratch_.path() / "other").c_str(), 1);
  const Attached never = attach_model(job, silent());
  EXPECT_EQ(weights_sha256(Checkpoint::open(job.out.string())), weights);
  EXPECT_EQ(left_out.data.certify.logits, never.data.certify.logits);
  EXPECT_EQ(left_out.data.certify.info.layers, never.data.certify.info.layers);
}

TEST(SplitTexts, GivesSmallSetsALargerHeldOutShare) {
  const AttachParts many = split_texts(5000, 0, 149, 0.02, 0.95), few = split_texts(500, 0, 149, 0.02, 0.95);
  EXPECT_EQ(many.learn, 3000U);
  EXPECT_EQ(many.certify, 1200U);
  EXPECT_EQ(many.fit + many.report, 800U);
  EXPECT_EQ(few.learn + few.fit + few.certify + few.report, 500U);
  EXPECT_GE(few.certify, 149U);
  EXPECT_GE(few.learn, 150U);
}

// So many held-out texts certify what more would, and more learned ones make better exits; small promises take more.
TEST(SplitTexts, LearnsAllButEnoughOfManyTexts) {
  const AttachParts many = split_texts(1'000'000, 0, 149, 0.02, 0.95);
  EXPECT_EQ(many.learn, 980'000U);
  EXPECT_EQ(many.certify, 12'000U);
  EXPECT_GE(split_texts(1'000'000, 0, 30'000, 0.0001, 0.95).certify, 30'000U);
}

TEST(SplitTexts, TakesWhatItsMessageNames) {
  EXPECT_NO_THROW((void)split_texts(358, 0, 149, 0.02, 0.95));
  EXPECT_THROW((void)split_texts(340, 0, 149, 0.02, 0.95), Error);
}

TEST(SplitTexts, HoldsOutNoTextThatTheModelKnows) {
  const AttachParts parts = split_texts(3280, 2280, 149, 0.02, 0.95);
  EXPECT_EQ(parts.learn, 2280U);
  EXPECT_EQ(parts.fit + parts.certify + parts.report, 1000U);
  EXPECT_EQ(split_texts(3280, 100, 149, 0.02, 0.95).learn, 1968U);  // enough new ones: as if none were known
  EXPECT_THAT(
      [] { (void)split_texts(2400, 2280, 149, 0.02, 0.95); },
      testing::Throws<Error>(testing::Property(
          &Error::what, testing::HasSubstr("was trained on 2280 of the 2400 texts; certification needs 250 others"))));
}

}  // namespace
}  // namespace exeunt
