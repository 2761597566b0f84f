// SPDX-License-Identifier: Apache-2.0
// Bodies in and out, by protocol. Examples named "document" are from the protocols' specifications.
#include <algorithm>
#include <cmath>
#include <map>

#include "exeunt/policy/policy_text.h"
#include "exeunt/serve/active_request.h"
#include "exeunt/serve/protocols.h"
#include "tests/fixtures/scratch.h"

namespace exeunt::serve {
namespace {

using testing::HasSubstr;

ModelFacts two_classes() {
  return {{.labels = {"no", "yes"}}, "m", 2, 3, {1, 2, 3}, /*max_tokens=*/8, /*vocabulary=*/100};
}
ModelFacts one_output() {
  return {{.problem = Problem::regression}, "m", 1, 3, {1, 2, 3}, /*max_tokens=*/512, /*vocabulary=*/100};
}

using Parse = Job (*)(const Json&, const JobRules&);

Job parsed(Parse parse, std::string_view body, const ModelFacts& model = two_classes()) {
  return parse(parse_body(body), {.model = model, .max_batch = 3});
}

// The status and message of a body that is refused.
std::pair<int, std::string> refused(Parse parse, std::string_view body, const ModelFacts& model = two_classes()) {
  try {
    (void)parsed(parse, body, model);
  } catch (const Refusal& refusal) {
    return {refusal.status(), refusal.what()};
  }
  return {200, ""};
}

Answer answer(std::vector<float> logits, std::vector<float> probabilities, int layer = 2) {
  Answer out;
  out.stop_reason = StopReason::policy;
  out.exit = layer - 1;
  out.layer = out.layers_run = layer;
  out.tokens = 4;
  out.evidence.label = logits.size() > 1 && logits[1] > logits[0] ? 1 : 0;
  out.logits = std::move(logits);
  out.probabilities = std::move(probabilities);
  return out;
}

std::string rendered(const Job& job, const std::vector<Answer>& answers, const ModelFacts& model = two_classes()) {
  return render({.job = job, .model = model, .answers = answers, .policy = nullptr, .request_id = "r1"});
}

TEST(Body, RejectsInvalidJson) {
  const auto status = [](const std::string& body) {
    try {
      (void)parse_body(body);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(std::string(refusal.what()).find("json.exception"), std::string::npos);
      return refusal.status();
    }
    return 200;
  };
  EXPECT_EQ(status("{}"), 200);
  for (const std::string& bad : {std::string(),
                                 std::string("{"),
                                 std::string("[]"),
                                 std::string("\"a\""),
                                 std::string("{\"a\":NaN}"),
                                 std::string("{\"a\":1e999}"),
                                 std::string("{\"a\":1,\"a\":2}"),
                                 std::string("{\"a\":\"\xff\"}"),
                                 std::string("{\"a\":\"\xc0\xaf\"}"),
                                 std::string("{\"a\":\"\xed\xa0\x80\"}"),
                                 std::string("{\"a\":\"\\ud800\"}"),
                                 std::string("{\"a\":\"\xf4\x90\x80\x80\"}"),
                                 std::string("{\"a\":\"\xe2\x82\"}"),
                                 std::string("{\"a\":\"\n\"}"),
                                 std::string("{}{}"),
                                 std::string("{\"a\":1,}"),
                                 std::string("{'a':1}"),
                                 std::string("{\"a\":\"") + '\0' + "\"}",
                                 std::string("{\"a\":Infinity}"),
                                 std::string("{\"a\":01}"),
                                 std::string(1'000'000, '['),
                                 "{\"a\":" + std::string(1'000'000, '[')}) {
    EXPECT_EQ(status(bad), 400) << bad.substr(0, 40);
  }
}

// Two strings are a pair by the document; a model of single texts would answer them with nonsense.
TEST(Predict, RejectsPairForSingleTextModel) {
  ModelFacts single = two_classes();
  single.texts = 1;
  for (const char* body : {R"({"inputs":["a","b"]})", R"({"inputs":[["a"],["b","c"]]})"}) {
    const auto [status, message] = refused(parse_predict, body, single);
    EXPECT_EQ(status, 422);
    EXPECT_THAT(message, testing::HasSubstr("trained on single"));
  }
  EXPECT_EQ(parsed(parse_predict, R"({"inputs":[["a"],["b"]]})", single).texts.size(), 2U);
  ModelFacts pairs = two_classes();
  pairs.texts = 2;
  EXPECT_EQ(parsed(parse_predict, R"({"inputs":["a","b"]})", pairs).texts.at(0).pair, "b");
  const char* tensors = R"({"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["a"]},
                                      {"name":"text_pair","datatype":"BYTES","shape":[1],"data":["b"]}]})";
  EXPECT_EQ(refused(parse_infer, tensors, single).first, 422);
}

TEST(Predict, AcceptsTextPairAndBatch) {
  Job job = parsed(parse_predict, R"({"inputs":"What is Deep Learning?"})");
  EXPECT_EQ(job.shape, Shape::predict);
  EXPECT_EQ(job.texts.at(0).text, "What is Deep Learning?");
  EXPECT_TRUE(job.truncate);  // --auto-truncate
  job = parsed(parse_predict, R"({"inputs":["a","b"],"truncate":false,"raw_scores":true})");
  EXPECT_EQ(job.shape, Shape::predict);
  EXPECT_EQ(job.texts.at(0).pair, "b");
  EXPECT_EQ(job.scoring, Scoring::logits);
  EXPECT_FALSE(job.truncate);
  job = parsed(parse_predict, R"({"inputs":["a"]})");
  EXPECT_EQ(job.shape, Shape::predict);
  EXPECT_FALSE(job.texts.at(0).pair.has_value());
  job = parsed(parse_predict, R"({"inputs":[["a"],["b","c"]],"truncation_direction":"Left","more":1})");
  EXPECT_EQ(job.shape, Shape::predict_batch);
  ASSERT_EQ(job.texts.size(), 2U);
  EXPECT_EQ(job.texts[1].pair, "c");
  EXPECT_TRUE(job.truncate_left);
  EXPECT_EQ(job.unknown_fields, 1);
}

TEST(Predict, RejectsInvalidInputs) {
  for (const char* body : {R"({})", R"({"inputs":3})", R"({"inputs":null})", R"({"inputs":["a","b","c"]})",
                           R"({"inputs":[["a"],"b"]})", R"({"inputs":[["a","b","c"]]})", R"({"inputs":[[]]})",
                           R"({"inputs":[1]})", R"({"inputs":{"a":1}})", R"({"inputs":"a","truncate":"yes"})",
                           R"({"inputs":"a","truncation_direction":"Up"})", R"({"inputs":"a","raw_scores":1})"}) {
    EXPECT_EQ(refused(parse_predict, body).first, 422) << body;
  }
  EXPECT_EQ(refused(parse_predict, R"({"inputs":""})").first, 400);
  EXPECT_EQ(refused(parse_predict, R"({"inputs":[]})").first, 400);
  EXPECT_EQ(refused(parse_predict, R"({"inputs":[["a"],["a"],["a"],["a"]]})").first, 413);
}

// What huggingface_hub (Python) and @huggingface/inference (JavaScript) send, and the options of their pipelines.
TEST(TextClassification, AcceptsFormsOfInferenceApi) {
  Job job = parsed(parse_text_classification, R"({"inputs":"I like you. I love you"})");
  EXPECT_EQ(job.shape, Shape::predict_batch);
  EXPECT_EQ(job.texts.at(0).text, "I like you. I love you");
  EXPECT_EQ(job.unknown_fields, 0);
  job = parsed(parse_text_classification,
               R"({"inputs":["a","b"],"parameters":{"top_k":1,"function_to_apply":"sigmoid","x":1},
                   "options":{"wait_for_model":true}})");
  ASSERT_EQ(job.texts.size(), 2U);
  EXPECT_EQ(job.texts[1].text, "b");
  EXPECT_FALSE(job.texts[0].pair.has_value()) << "two texts, not a pair as on /predict";
  EXPECT_EQ(job.top, 1U);
  EXPECT_EQ(job.scoring, Scoring::sigmoid);
  EXPECT_EQ(job.unknown_fields, 1);
  job = parsed(parse_text_classification,
               R"({"inputs":[{"text":"a","text_pair":"b"},["c","d"],["e"]],"parameters":{"top_k":null}})");
  EXPECT_EQ(job.texts.at(0).pair, "b");
  EXPECT_EQ(job.texts.at(1).pair, "d");
  EXPECT_FALSE(job.texts.at(2).pair.has_value());
  EXPECT_FALSE(job.top.has_value());
  EXPECT_EQ(parsed(parse_text_classification, R"({"inputs":"a","parameters":null})").texts.size(), 1U);
  ModelFacts single = two_classes();
  single.texts = 1;
  EXPECT_EQ(refused(parse_text_classification, R"({"inputs":{"text":"a","text_pair":"b"}})", single).first, 422);
}

TEST(TextClassification, RejectsInvalidInputs) {
  for (const char* body :
       {R"({})", R"({"inputs":3})", R"({"inputs":[3]})", R"({"inputs":[[]]})", R"({"inputs":[["a","b","c"]]})",
        R"({"inputs":{"text_pair":"a"}})", R"({"inputs":{"text":1}})", R"({"inputs":"a","parameters":1})",
        R"({"inputs":"a","parameters":{"top_k":0}})", R"({"inputs":"a","parameters":{"top_k":1.5}})",
        R"({"inputs":"a","parameters":{"function_to_apply":"tanh"}})",
        R"({"inputs":{"question":"who?","context":"me"}})"}) {
    EXPECT_EQ(refused(parse_text_classification, body).first, 422) << body;
  }
  const auto [status, message] =
      refused(parse_text_classification, R"({"inputs":"a","parameters":{"candidate_labels":["x"]}})");
  EXPECT_EQ(status, 422);
  EXPECT_THAT(message, HasSubstr("the model has labels of its own")) << "a client of zero-shot classification";
  EXPECT_EQ(refused(parse_text_classification, R"({"inputs":""})").first, 400);
  EXPECT_EQ(refused(parse_text_classification, R"({"inputs":[]})").first, 400);
  EXPECT_EQ(refused(parse_text_classification, R"({"inputs":["a","b","c","d"]})").first, 413);
}

ModelFacts entailment_model() {
  ModelFacts model = two_classes();
  model.labels = {"contradiction", "neutral", "ENTAILMENT"};
  model.outputs = 3;
  model.texts = 2;
  return model;
}

// As `predict` has it: a pair of which one text is blank still says something.
TEST(Body, RejectsBlankTexts) {
  for (const char* body : {R"({"inputs":" "})", R"({"inputs":[["a"],["\n\t"]]})", R"({"inputs":[" ","\t"]})"})
    EXPECT_EQ(refused(parse_predict, body).first, 400) << body;
  EXPECT_EQ(refused(parse_predict, R"({"inputs":[" ","a"]})").first, 200);
  EXPECT_EQ(refused(parse_text_classification, R"({"inputs":["a",{"text":" "}]})").first, 400);
  for (const char* body : {R"({"inputs":" ","parameters":{"candidate_labels":["x"]}})",
                           R"({"inputs":"a","parameters":{"candidate_labels":["x"," "]}})"})
    EXPECT_EQ(refused(parse_text_classification, body, entailment_model()).first, 400) << body;
  EXPECT_EQ(refused(parse_classify, R"({"input":["a"," "]})").first, 400);
  EXPECT_EQ(refused(parse_rerank, R"({"query":" ","texts":["a"," "]})", one_output()).first, 400);
  EXPECT_EQ(refused(parse_infer, R"({"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":[" "]}]})").first,
            400);
}

TEST(ZeroShot, PairsEachTextWithEachHypothesis) {
  Job job = parsed(parse_text_classification,
                   R"({"inputs":"a","parameters":{"candidate_labels":"sport, art","hypothesis_template":"It is {}!"}})",
                   entailment_model());
  ASSERT_EQ(job.texts.size(), 2U);
  EXPECT_EQ(job.texts[0].text, "a");
  EXPECT_EQ(job.texts[0].pair, "It is sport!");
  EXPECT_EQ(job.texts[1].pair, "It is art!");
  ASSERT_TRUE(job.zero_shot.has_value());
  EXPECT_EQ(job.zero_shot->entailment, 2);
  EXPECT_EQ(job.zero_shot->contradiction, 0);
  EXPECT_FALSE(job.zero_shot->multi_label);
  job = parsed(parse_text_classification,
               R"({"inputs":["a"],"parameters":{"candidate_labels":["x"],"multi_label":true}})", entailment_model());
  EXPECT_EQ(job.texts.at(0).pair, "This example is x.");
  EXPECT_TRUE(job.zero_shot->multi_label && job.zero_shot->list);
  ModelFacts two = entailment_model();  // as cross-encoders of two classes have it
  two.labels = {"entailment", "not_entailment"};
  two.outputs = 2;
  job = parsed(parse_text_classification, R"({"inputs":"a","parameters":{"candidate_labels":["x"]}})", two);
  EXPECT_EQ(job.zero_shot->contradiction, 1);
}

TEST(ZeroShot, RejectsOtherModelsAndInvalidLabels) {
  const auto asked = [](const std::string& inputs, const std::string& parameters, const ModelFacts& model) {
    return refused(parse_text_classification, "{\"inputs\":" + inputs + ",\"parameters\":{" + parameters + "}}", model);
  };
  const ModelFacts model = entailment_model();
  const std::string labels = R"("candidate_labels":["x"])";
  EXPECT_THAT(asked(R"("a")", labels, two_classes()).second, HasSubstr("the model has labels of its own"));
  ModelFacts several = model, single = model;
  several.problem = Problem::multi_label;
  single.texts = 1;
  EXPECT_EQ(asked(R"("a")", labels, several).first, 422);
  EXPECT_EQ(asked(R"("a")", labels, single).first, 422);
  EXPECT_EQ(asked(R"({"text":"a","text_pair":"b"})", labels, model).first, 422);
  EXPECT_EQ(asked(R"("a")", labels + R"(,"hypothesis_template":"none")", model).first, 422);
  EXPECT_EQ(asked(R"("a")", labels + R"(,"multi_label":1)", model).first, 422);
  EXPECT_EQ(asked(R"("a")", R"("candidate_labels":[3])", model).first, 422);
  EXPECT_EQ(asked(R"("a")", R"("candidate_labels":["x",""])", model).first, 400);
  EXPECT_EQ(asked(R"("a")", R"("candidate_labels":[])", model).first, 400);
  EXPECT_EQ(asked(R"("a")", R"("candidate_labels":"a,b,c,d")", model).first, 413);
  const std::string long_text = "\"" + std::string(3 << 20, 'a') + "\"";
  EXPECT_EQ(asked(long_text, R"("candidate_labels":"a,b")", model).first, 413);
  EXPECT_EQ(parsed(parse_text_classification, "{\"inputs\":" + long_text + R"(,"parameters":{"candidate_labels":"a"}})",
                   model)
                .texts.size(),
            1U);
}

// Scores by hand, as transformers' pipeline defines them.
TEST(ZeroShot, ScoresEntailmentAmongLabelsOrAgainstContradiction) {
  const ModelFacts model = entailment_model();
  const std::vector<Answer> answers{answer({0, 9, std::log(3.0F)}, {}), answer({std::log(2.0F), 0, 0}, {})};
  const auto scored = [&](const std::string& parameters, size_t count = 2) {
    const Job job = parsed(parse_text_classification,
                           R"({"inputs":"a","parameters":{"candidate_labels":)" + parameters + "}}", model);
    return Json::parse(rendered(job, {answers.begin(), answers.begin() + static_cast<ptrdiff_t>(count)}, model));
  };
  Json one = scored(R"(["x","y"])");
  EXPECT_EQ(one["sequence"], "a");
  EXPECT_EQ(one["labels"], Json({"x", "y"}));
  EXPECT_NEAR(one["scores"][0].get<double>(), 0.75, 1e-6);
  EXPECT_NEAR(one["scores"][1].get<double>(), 0.25, 1e-6);
  one = scored(R"(["x","y"],"multi_label":true)");
  EXPECT_NEAR(one["scores"][0].get<double>(), 0.75, 1e-6);  // of entailment against contradiction: 3 to 1
  EXPECT_NEAR(one["scores"][1].get<double>(), 1.0 / 3, 1e-6);
  EXPECT_NEAR(scored(R"(["x"])", 1)["scores"][0].get<double>(), 0.75, 1e-6) << "one label has nothing to share with";
  const Json best = scored(R"(["y","x"],"top_k":1)");
  EXPECT_EQ(best["labels"], Json::array({"y"}));
  EXPECT_EQ(best["scores"].size(), 1U);
  const Job both =
      parsed(parse_text_classification, R"({"inputs":["a","b"],"parameters":{"candidate_labels":["x"]}})", model);
  const Json list = Json::parse(rendered(both, answers, model));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[1]["sequence"], "b");
}

// A certificate bounds how many pairs get another label; scores of labels across pairs may change without that.
TEST(ZeroShot, IsNotCoveredByThePromiseOfPairsWithExits) {
  const ModelFacts model = entailment_model();
  for (const char* policy : {"full", "entropy:0.1"}) {
    ActiveRequest request;
    request.job = parsed(parse_text_classification, R"({"inputs":"a","parameters":{"candidate_labels":["x"]}})", model);
    auto bound = std::make_shared<BoundPolicy>();
    bound->spec = parse_policy(policy);
    request.policy = bound;
    request.outcomes.push_back({.answer = answer({0, 0, 1}, {})});
    request.job.exit.details = true;
    const HttpResponse response = compose(request, model, "cpu");
    EXPECT_EQ(response.status, 200);
    const auto promise =
        std::ranges::find_if(response.fields, [](const auto& one) { return one.first == "x-promise"; });
    EXPECT_EQ(promise != response.fields.end(), std::string(policy) != "full") << policy;
    EXPECT_EQ(response.body.find(R"("covered":false)") != std::string::npos, std::string(policy) != "full") << policy;
  }
}

TEST(TextClassification, AnswersWithListForEachText) {
  Job job = parsed(parse_text_classification, R"({"inputs":"a"})");
  EXPECT_EQ(rendered(job, {answer({1, 2}, {0.27F, 0.73F})}),
            R"([[{"score":0.73,"label":"yes"},{"score":0.27,"label":"no"}]])");
  job.top = 1;
  job.scoring = Scoring::sigmoid;
  EXPECT_EQ(rendered(job, {answer({-1, 0}, {})}), R"([[{"score":0.5,"label":"yes"}]])");
  job.scoring = Scoring::softmax;
  EXPECT_EQ(rendered(job, {answer({5, 5}, {})}), R"([[{"score":0.5,"label":"no"}]])");
}

TEST(ExitOptions, RejectsUnknownFields) {
  const Job job =
      parsed(parse_predict,
             R"({"inputs":"a","exit":{"policy":"entropy:0.2","max_layers":8,"deadline_ms":20,"details":true}})");
  EXPECT_EQ(job.exit.policy, "entropy:0.2");
  EXPECT_EQ(job.exit.max_layers, 8);
  EXPECT_EQ(job.exit.deadline_us, 20'000);
  EXPECT_TRUE(job.exit.details);
  const auto [status, message] = refused(parse_predict, R"({"inputs":"a","exit":{"polcy":"full"}})");
  EXPECT_EQ(status, 422);
  EXPECT_THAT(message, HasSubstr("exit: unknown field 'polcy'"));
  for (const char* exit : {R"("full")", R"({"max_layers":-1})", R"({"max_layers":1.5})", R"({"deadline_ms":-1})",
                           R"({"deadline_ms":0})", R"({"deadline_ms":9223372036854775808})", R"({"details":"x"})",
                           R"({"policy":1})", R"({"max_layers":2147483648})", R"({"deadline_ms":1e308})"}) {
    EXPECT_EQ(refused(parse_predict, fmt::format(R"({{"inputs":"a","exit":{}}})", exit)).first, 422) << exit;
  }
}

TEST(Predict, SortsLabelsByScore) {
  Job job = parsed(parse_predict, R"({"inputs":"a"})");
  EXPECT_EQ(rendered(job, {answer({1, 2}, {0.27F, 0.73F})}),
            R"([{"score":0.73,"label":"yes"},{"score":0.27,"label":"no"}])");
  job.scoring = Scoring::logits;
  EXPECT_EQ(rendered(job, {answer({2, 1}, {0.73F, 0.27F})}),
            R"([{"score":2.0,"label":"no"},{"score":1.0,"label":"yes"}])");
  job.shape = Shape::predict_batch;
  EXPECT_EQ(
      rendered(job, {answer({2, 1}, {}), answer({1, 2}, {})}),
      R"([[{"score":2.0,"label":"no"},{"score":1.0,"label":"yes"}],[{"score":2.0,"label":"yes"},{"score":1.0,"label":"no"}]])");
}

TEST(Predict, DetailsListEvidenceOfEachExit) {
  Job job = parsed(parse_predict, R"({"inputs":"a","exit":{"details":true}})");
  Answer a = answer({0, 2}, {0.12F, 0.88F});
  for (int exit = 0; exit < 2; ++exit) {
    ExitDetail detail{.exit = exit, .layer = exit + 1, .logits = {0, 2}, .evidence = {}};
    detail.evidence = compute_evidence(ExitLogits{detail.logits.data(), 2});
    a.details.push_back(detail);
  }
  const Json out = Json::parse(rendered(job, {a}));
  const Json& exit = out[0]["exit"];
  EXPECT_EQ(exit["layer"], 2);
  EXPECT_EQ(exit["left_by"], "policy");
  EXPECT_EQ(exit["policy"], "full");
  EXPECT_EQ(exit["exits"][1]["streak"], 1);
  EXPECT_EQ(exit["exits"][0]["label"], "yes");
  EXPECT_NEAR(exit["exits"][0]["probabilities"][0].get<double>(), 1 / (1 + std::exp(2.0)), 1e-6);
  EXPECT_FALSE(out[1].contains("exit"));
}

// The playground shows at each exit what the active rule compares.
TEST(Predict, DetailsHoldMeasureOfActiveRule) {
  Job job = parsed(parse_predict, R"({"inputs":"a","exit":{"details":true}})");
  Answer a = answer({0, 2}, {0.12F, 0.88F});
  std::vector<float> memory(3, 0);
  for (int exit = 0; exit < 2; ++exit) {
    ExitDetail detail{.exit = exit, .layer = exit + 1, .logits = {0, 2}, .evidence = {}};
    detail.evidence = compute_evidence(ExitLogits{detail.logits.data(), 2}, memory.data());
    a.details.push_back(detail);
  }
  const Evidence& e = a.details[1].evidence;
  const std::map<std::string_view, double> wanted{
      {"entropy", e.entropy}, {"nentropy", e.nentropy}, {"confidence", e.confidence}, {"gini", e.impurity},
      {"margin", e.margin},   {"minprob", e.least},     {"divergence", e.shift},      {"lte", e.lte},
      {"window", e.nentropy}, {"pcee", e.nentropy},     {"vote", e.confidence},       {"patience", 1}};
  const ModelFacts model = two_classes();
  const std::vector<Answer> answers{a};
  for (size_t i = 0; i < kRules.size(); ++i) {
    BoundPolicy policy;
    policy.spec.rule = Rule{static_cast<uint8_t>(i)};
    const Json exit =
        Json::parse(render({.job = job, .model = model, .answers = answers, .policy = &policy}))[0]["exit"];
    EXPECT_EQ(exit["rule"], kRules[i].name);
    const auto found = wanted.find(kRules[i].name);
    ASSERT_EQ(exit["exits"][1].contains("measure"), found != wanted.end()) << kRules[i].name;
    if (found == wanted.end()) continue;
    EXPECT_NEAR(exit["exits"][1]["measure"].get<double>(), found->second, 1e-6) << kRules[i].name;
  }
}

TEST(Predict, DetailsOfSkippedExitsUseScoreTemperature) {
  Job job = parsed(parse_predict, R"({"inputs":"a","exit":{"details":true}})");
  BoundPolicy full;
  full.spec.temperature = full.spec.score_temperature = {2, 4};
  full.bound = bind(full.spec, {.layers = {1, 2}, .outputs = 2});
  Answer a = answer({0, 2}, {0.12F, 0.88F});
  ExitDetail detail{.exit = 0, .layer = 1, .logits = {0, 2}, .evidence = {}};
  detail.evidence = compute_evidence(ExitLogits{detail.logits.data(), 2, 2});
  a.details.push_back(detail);
  const ModelFacts model = two_classes();
  const std::vector<Answer> answers{a};
  const Json out =
      Json::parse(render({.job = job, .model = model, .answers = answers, .policy = &full, .request_id = "r1"}));
  const Json& seen = out[0]["exit"]["exits"][0];
  EXPECT_NEAR(seen["probabilities"][0].get<double>(), 1 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(seen["probabilities"][1].get<double>(), seen["confidence"].get<double>(), 1e-6);
}

// The request and the answer that Cohere's, Jina's and vLLM's documents show.
TEST(Rerank, RanksDocuments) {
  const ModelFacts model = one_output();
  Job job = parsed(parse_rerank_documents,
                   R"({"model":"m","query":"q","documents":["a",{"text":"b","title":"t"},"c"],"top_n":2})", model);
  EXPECT_EQ(job.parts(1), std::pair(std::string_view("q"), std::optional<std::string_view>("b")));
  const std::vector<Answer> answers{answer({0}, {}), answer({40}, {}), answer({-40}, {})};
  EXPECT_EQ(rendered(job, answers, model),
            R"({"id":"rerank-r1","model":"m","results":[{"index":1,"relevance_score":1.0},)"
            R"({"index":0,"relevance_score":0.5}],"usage":{"total_tokens":12}})");
  job =
      parsed(parse_rerank_documents, R"({"query":"q","documents":["a"],"top_n":null,"return_documents":true})", model);
  EXPECT_EQ(Json::parse(rendered(job, {answers[0]}, model))["results"][0]["document"], Json({{"text", "a"}}));
  EXPECT_EQ(refused(parse_rerank_documents, R"({"query":"q","documents":["a"]})").first, 424);
  EXPECT_EQ(refused(parse_rerank_documents, R"({"model":"other","query":"q","documents":["a"]})", model).first, 404);
  EXPECT_EQ(refused(parse_rerank_documents, R"({"query":"q","documents":[]})", model).first, 400);
  EXPECT_EQ(refused(parse_rerank_documents, R"({"query":"q","documents":["a",""]})", model).first, 400);
  for (const char* body :
       {R"({"query":"q","documents":"a"})", R"({"query":"q","documents":[1]})", R"({"query":"q","texts":["a"]})",
        R"({"query":"q","documents":[{"title":"a"}]})", R"({"query":"q","documents":["a"],"top_n":0})"}) {
    EXPECT_EQ(refused(parse_rerank_documents, body, model).first, 422) << body;
  }
}

// 3.5 of a model of 0 to 5 is its answer; the logit of a reranker has no range, and its sigmoid is the score.
TEST(Predict, RegressionWithKnownRangeAnswersWithValue) {
  ModelFacts model = one_output();
  const auto score = [&](Parse parse, const char* body) {
    return Json::parse(rendered(parsed(parse, body, model), {answer({3.5F}, {})}, model)).flatten();
  };
  const double sigmoid = 1 / (1 + std::exp(-3.5));
  EXPECT_NEAR(score(parse_predict, R"({"inputs":"a"})")["/0/score"].get<double>(), sigmoid, 1e-6);
  model.range = {0, 5};
  EXPECT_EQ(score(parse_predict, R"({"inputs":"a"})")["/0/score"], 3.5);
  EXPECT_EQ(score(parse_text_classification, R"({"inputs":"a"})")["/0/0/score"], 3.5);
  const char* applied = R"({"inputs":"a","parameters":{"function_to_apply":"sigmoid"}})";
  EXPECT_NEAR(score(parse_text_classification, applied)["/0/0/score"].get<double>(), sigmoid, 1e-6);
  EXPECT_NEAR(score(parse_rerank, R"({"query":"q","texts":["a"]})")["/0/score"].get<double>(), sigmoid, 1e-6);
}

TEST(Rerank, RanksPairsByScore) {
  const ModelFacts model = one_output();
  Job job =
      parsed(parse_rerank,
             R"({"query":"What is Deep Learning?","texts":["Deep Learning is not...","Deep learning is..."]})", model);
  EXPECT_EQ(job.parts(1), std::pair(std::string_view("What is Deep Learning?"),
                                    std::optional<std::string_view>("Deep learning is...")));
  EXPECT_EQ(rendered(job, {answer({0}, {}), answer({40}, {})}, model),
            R"([{"index":1,"score":1.0},{"index":0,"score":0.5}])");
  const Job best = parsed(parse_rerank, R"({"query":"q","texts":["a","b"],"top_n":1})", model);
  EXPECT_EQ(rendered(best, {answer({0}, {}), answer({40}, {})}, model), R"([{"index":1,"score":1.0}])");
  EXPECT_EQ(refused(parse_rerank, R"({"query":"q","texts":["a"],"top_n":0})", model).first, 422);
  job.return_text = true;
  job.scoring = Scoring::logits;
  EXPECT_EQ(
      rendered(job, {answer({-1}, {}), answer({3}, {})}, model),
      R"([{"index":1,"text":"Deep learning is...","score":3.0},{"index":0,"text":"Deep Learning is not...","score":-1.0}])");
  EXPECT_EQ(refused(parse_rerank, R"({"query":"q","texts":["a"]})").first, 424);
  EXPECT_EQ(refused(parse_rerank, R"({"query":"q","texts":[]})", model).first, 400);
  EXPECT_EQ(refused(parse_rerank, R"({"query":"","texts":["a"]})", model).first, 400);
  EXPECT_EQ(refused(parse_rerank, R"({"query":"q","texts":"a"})", model).first, 422);
  EXPECT_EQ(refused(parse_rerank, R"({"texts":["a"]})", model).first, 422);
  // Each text is tokenized with the query: a long one counts once for each.
  const std::string query(2 << 20, 'q');
  EXPECT_EQ(parsed(parse_rerank, R"({"texts":["a","b"],"query":")" + query + "\"}", model).texts.size(), 2U);
  EXPECT_EQ(refused(parse_rerank, R"({"texts":["a","b","c"],"query":")" + query + "\"}", model).first, 413);
}

TEST(Classify, MatchesVllmResponse) {
  const Job job = parsed(parse_classify, R"({"model":"m","input":["a","b"],"priority":0})");
  EXPECT_EQ(job.unknown_fields, 1);
  const Json out = Json::parse(rendered(job, {answer({1, 2}, {0.27F, 0.73F}), answer({2, 1}, {0.73F, 0.27F})}));
  EXPECT_EQ(out["object"], "list");
  EXPECT_EQ(out["data"][0], Json::parse(R"({"index":0,"label":"yes","probs":[0.27,0.73],"num_classes":2})"));
  EXPECT_EQ(out["usage"]["prompt_tokens"], 8);
  EXPECT_EQ(parsed(parse_classify, R"({"input":"a"})").texts.size(), 1U);
  EXPECT_EQ(refused(parse_classify, R"({"model":"x","input":"a"})").first, 404);
  EXPECT_EQ(refused(parse_classify, R"({"input":[1]})").first, 422);
  EXPECT_EQ(refused(parse_classify, R"({})").first, 422);
}

constexpr const char* kInfer =
    R"({"id":"42","inputs":[{"name":"text","shape":[2],"datatype":"BYTES","data":["a","b"]}],"outputs":[{"name":"label"},{"name":"scores"},{"name":"exit_layer"}]})";

TEST(Infer, ReturnsRequestedTensors) {
  const Job job = parsed(parse_infer, kInfer);
  EXPECT_EQ(job.texts.size(), 2U);
  EXPECT_EQ(rendered(job, {answer({1, 2}, {0.25F, 0.75F}, 1), answer({2, 1}, {0.75F, 0.25F}, 3)}),
            R"({"model_name":"m","model_version":"1","id":"42","outputs":[)"
            R"({"name":"label","shape":[2],"datatype":"BYTES","data":["yes","no"]},)"
            R"({"name":"scores","shape":[2,2],"datatype":"FP32","data":[0.25,0.75,0.75,0.25]},)"
            R"({"name":"exit_layer","shape":[2],"datatype":"INT32","data":[1,3]}]})");
}

TEST(Infer, AcceptsNestedAndFlatTokensWithPadding) {
  const Job job =
      parsed(parse_infer,
             R"({"parameters":{"exit_policy":"full","timeout":5000,"deadline_ms":9,"details":true,"x":1},"inputs":[
        {"name":"input_ids","shape":[2,3],"datatype":"INT64","data":[[1,2,3],[4,5,0]]},
        {"name":"attention_mask","shape":[2,3],"datatype":"INT64","data":[1,1,1,1,1,0]},
        {"name":"token_type_ids","shape":[2,3],"datatype":"INT32","data":[[0,0,1],[0,1,0]]}]})");
  EXPECT_EQ(job.texts.at(0).ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(job.texts.at(1).ids, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(job.texts.at(1).types, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(job.exit.policy, "full");
  EXPECT_EQ(job.exit.deadline_us, 5000);
  EXPECT_TRUE(job.exit.details);
  EXPECT_EQ(job.outputs.back(), "details");
  EXPECT_EQ(job.unknown_fields, 1);
}

TEST(Infer, RejectsBadShapes) {
  const auto with = [](const char* tensor) { return fmt::format(R"({{"inputs":[{}]}})", tensor); };
  for (
      const char* tensor :
      {R"({"name":"txt","shape":[1],"datatype":"BYTES","data":["a"]})",
       R"({"name":"text","shape":[2],"datatype":"BYTES","data":["a"]})",
       R"({"name":"text","shape":[1],"datatype":"BYTES","data":["a","b"]})",
       R"({"name":"text","shape":[1,2],"datatype":"BYTES","data":["a","b"]})",
       R"({"name":"text","shape":[0],"datatype":"BYTES","data":[]})",
       R"({"name":"text","shape":[-1],"datatype":"BYTES","data":["a"]})",
       R"({"name":"text","shape":[9223372036854775807],"datatype":"BYTES","data":["a"]})",
       R"({"name":"text","shape":[1.5],"datatype":"BYTES","data":["a"]})",
       R"({"name":"text","shape":[],"datatype":"BYTES","data":["a"]})",
       R"({"name":"text","shape":[1],"datatype":"FP32","data":["a"]})",
       R"({"name":"text","shape":[1],"datatype":"BYTES","data":[1]})",
       R"({"name":"text","shape":[1],"datatype":"BYTES"})",
       R"({"name":"text_pair","shape":[1],"datatype":"BYTES","data":["a"]})",
       R"({"name":"input_ids","shape":[1],"datatype":"INT64","data":[1]})",
       R"({"name":"input_ids","shape":[1,1],"datatype":"INT64","data":[100]})",
       R"({"name":"input_ids","shape":[1,1],"datatype":"INT64","data":[-1]})",
       R"({"name":"input_ids","shape":[1,1],"datatype":"INT64","data":[1.0]})",
       R"({"name":"input_ids","shape":[1,9],"datatype":"INT64","data":[1,1,1,1,1,1,1,1,1]})",
       R"({"name":"input_ids","shape":[1,1],"datatype":"INT64","data":[1]},{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]})",
       R"({"name":"input_ids","shape":[1,2],"datatype":"INT64","data":[1,2]},{"name":"attention_mask","shape":[1,2],"datatype":"INT64","data":[0,1]})",
       R"({"name":"input_ids","shape":[1,1],"datatype":"INT64","data":[1]},{"name":"attention_mask","shape":[1,1],"datatype":"INT64","data":[0]})",
       R"({"name":"input_ids","shape":[1,2],"datatype":"INT64","data":[1,2]},{"name":"token_type_ids","shape":[2,1],"datatype":"INT64","data":[0,1]})",
       R"({"name":"text","shape":[1],"datatype":"BYTES","data":["a"]},{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]})"}) {
    EXPECT_EQ(refused(parse_infer, with(tensor)).first, 422) << tensor;
  }
  EXPECT_EQ(refused(parse_infer, R"({"inputs":[]})").first, 422);
  EXPECT_EQ(
      refused(parse_infer, with(R"({"name":"text","shape":[4],"datatype":"BYTES","data":["a","a","a","a"]})")).first,
      413);
  EXPECT_EQ(refused(parse_infer, with(R"({"name":"text","shape":[16777216],"datatype":"BYTES","data":[]})")).first,
            413);
  EXPECT_EQ(
      refused(parse_infer,
              R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"x"}]})")
          .first,
      422);
  EXPECT_EQ(
      refused(parse_infer,
              R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}],"parameters":{"timeout":0}})")
          .first,
      422);
}

// Otherwise a few bytes would request a response many times as large.
TEST(Infer, RejectsRepeatedOutput) {
  const std::string request =
      R"({"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"label"},{"name":")";
  EXPECT_EQ(parsed(parse_infer, request + R"(scores"}]})").outputs.size(), 2U);
  EXPECT_EQ(refused(parse_infer, request + R"(label"}]})").first, 422);
}

TEST(Infer, DescribesModel) {
  const OrderedJson out = oip_model_metadata(two_classes());
  EXPECT_EQ(out["name"], "m");
  EXPECT_EQ(out["inputs"][0]["datatype"], "BYTES");
  EXPECT_EQ(out["outputs"][1]["shape"], (std::vector<int>{-1, 2}));
}

}  // namespace
}  // namespace exeunt::serve
