// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/views.h"

#include <fmt/format.h>

#include "exeunt/base/files.h"
#include "exeunt/policy/policy_text.h"
#include "lab/papers/elbert.h"
#include "lab/papers/npy.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/lab/papers/numpy.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// MRPC's dev set at S = 0.05 as a user of DeeBERT once reported it: 408 texts, 49, 62 and 297 of them at layers 10, 11
// and 12; F1 0.9072.
ViewRun mrpc(std::string_view policy) {
  ViewRun run;
  run.policy = parse_policy(policy);
  run.score.policy = str(run.policy);
  run.score.metrics = {
      {Metric::accuracy, 0.8676470588235294}, {Metric::f1, 0.9072}, {Metric::combined_score, 0.8874235294117647}};
  run.score.histogram = {0, 0, 0, 0, 0, 0, 0, 0, 0, 49, 62, 297};
  for (int layer = 1; layer <= 12; ++layer) run.layers.push_back(layer);
  run.score.cost = layer_cost(run.score.histogram, run.layers);
  run.task = "MRPC";
  run.seconds = 14.08;
  return run;
}

TEST(PythonText, PrintsFloatsAsPythonDoes) {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{{0, "0.0"},
                                                                               {0.1, "0.1"},
                                                                               {1, "1.0"},
                                                                               {-1, "-1.0"},
                                                                               {0.15, "0.15"},
                                                                               {0.0001, "0.0001"},
                                                                               {0.00001, "1e-05"},
                                                                               {1.5e-7, "1.5e-07"},
                                                                               {1e15, "1000000000000000.0"},
                                                                               {1e16, "1e+16"},
                                                                               {1.0 / 3, "0.3333333333333333"},
                                                                               {4736.0 / 4896, "0.9673202614379085"},
                                                                               {NAN, "nan"},
                                                                               {INFINITY, "inf"},
                                                                               {-INFINITY, "-inf"},
                                                                               {-0.0, "-0.0"}})
    EXPECT_EQ(python_float(value), text);
  EXPECT_EQ(python_dict({{1, 0}, {2, 49}}), "{1: 0, 2: 49}");
  EXPECT_EQ(python_dict({}), "{}");
}

TEST(Views, DeebertPrintsItsLines) {
  const std::string lines =
      "0.05\n"
      "Eval time: 14.08\n"
      "Exit layer counter {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0, 8: 0, 9: 0, 10: 49, 11: 62, 12: 297}\n"
      "Expected saving 0.9673202614379085\n"
      "Result: 0.9072\n";
  EXPECT_EQ(view_lines(View::deebert, mrpc("entropy:0.05")), lines);
  EXPECT_EQ(view_lines(View::romebert, mrpc("entropy:0.05")), lines);
  EXPECT_THAT(view_lines(View::deebert, mrpc("full")), testing::StartsWith("-1\n"));
  EXPECT_THAT(view_lines(View::deebert, mrpc("entropy:0")), testing::StartsWith("0.0\n"));
}

TEST(Views, PabeePrintsTheShareSavedAsItsSpeedUp) {
  EXPECT_EQ(view_lines(View::pabee, mrpc("patience:6")),
            "  acc = 0.8676470588235294\n"
            "  acc_and_f1 = 0.8874235294117647\n"
            "  f1 = 0.9072\n"
            "*** Patience = 6 Avg. Inference Layers = 11.61 Speed Up = 0.03 ***\n");
  EXPECT_THAT(view_lines(View::pabee, mrpc("patience:0")), testing::Not(HasSubstr("***")))
      << "with patience 0 the original keeps no statistics";
}

TEST(Views, ElasticbertPrintsARatioAsItsSpeedUp) {
  ViewRun run = mrpc("entropy:0.3");
  run.checkpoint = "checkpoint-500";
  EXPECT_EQ(view_lines(View::elasticbert, run),
            "Evaluation for checkpoint checkpoint-500\n"
            "  acc = 0.8676470588235294\n"
            "  acc_and_f1 = 0.8874235294117647\n"
            "  f1 = 0.9072\n"
            "*** Early_exit_entropy = 0.3 Avg. Inference Layers = 11.61 Speed Up = 1.03 ***\n");
  EXPECT_THAT(view_lines(View::elasticbert, mrpc("patience:3")), HasSubstr("*** Patience = 3 Avg. Inference Layers ="));
}

TEST(Views, ElbertPrintsItsCost) {
  EXPECT_EQ(view_lines(View::elbert, mrpc("window:0.1,8,bias_1")),
            "Computation cost: 0.9673\n"
            "***** Eval results  *****\n"
            "acc = 0.8676470588235294\n"
            "acc_and_f1 = 0.8874235294117647\n"
            "f1 = 0.9072\n");
}

// "logits": the smaller of two probabilities is below the threshold, which is a confidence here.
TEST(Views, ElbertsLogitsGoByItsOwnThreshold) {
  for (const char* policy : {"confidence:0.7", "minprob:0.3"}) {
    const ViewRun run = mrpc(policy);
    EXPECT_THAT(view_lines(View::elbert, run), HasSubstr("Computation cost: "));
    const Scratch scratch;
    write_view_files(View::elbert, scratch.path(), std::vector{run});
    EXPECT_THAT(read_text(scratch.path() / "eval_results.txt"), HasSubstr("\n0,0.30,"));
  }
}

TEST(Views, MnlisKeysCarryTheTaskInNewerTransformers) {
  ViewRun run = mrpc("patience:6");
  run.task = "MNLI-mm";
  run.score.metrics = {{Metric::accuracy, 0.84}};
  EXPECT_THAT(view_lines(View::pabee, run), HasSubstr("  mnli-mm/acc = 0.84\n"));
  run.policy = parse_policy("entropy:0.1");
  EXPECT_THAT(view_lines(View::elasticbert, run), HasSubstr("  mnli-mm/acc = 0.84\n"));
  EXPECT_THAT(view_lines(View::deebert, run), HasSubstr("Result: 0.84\n"));
}

TEST(Views, CorrelationsHaveTheirKeys) {
  ViewRun run = mrpc("patience:6,tol=0.1");
  run.task = "STS-B";
  run.score.metrics = {{Metric::pearson, 0.9}, {Metric::spearmanr, 0.8}, {Metric::combined_score, 0.85}};
  EXPECT_THAT(view_lines(View::pabee, run), testing::StartsWith("  corr = 0.85\n  pearson = 0.9\n  spearmanr = 0.8\n"));
  run.policy = parse_policy("full");
  EXPECT_THAT(view_lines(View::deebert, run), HasSubstr("Result: 0.8\n"));
  run.score.metrics = {{Metric::matthews_correlation, 0.5}};
  EXPECT_THAT(view_lines(View::deebert, run), HasSubstr("Result: 0.5\n"));
}

TEST(Views, PoliciesTheOriginalLacksAreRefused) {
  const auto refused = [](View view, std::string_view policy) {
    const Error error = error_of([&] { (void)view_lines(view, mrpc(policy)); });
    EXPECT_EQ(error.code(), Code::usage);
    return std::string(error.what());
  };
  EXPECT_THAT(refused(View::pabee, "entropy:0.3"), HasSubstr("view pabee: it knows patience, got 'entropy:0.3'"));
  EXPECT_THAT(refused(View::deebert, "patience:3"), HasSubstr("view deebert"));
  EXPECT_THAT(refused(View::romebert, "vote:3"), HasSubstr("view romebert"));
  EXPECT_THAT(refused(View::elasticbert, "margin:0.3"), HasSubstr("view elasticbert"));
  EXPECT_THAT(refused(View::elbert, "entropy:0.3"), HasSubstr("window, nentropy, and confidence or minprob"));
  EXPECT_THAT(refused(View::deebert, "entropy:0,0,0,0,0,0,0,0,0,0,0,0"), HasSubstr("one threshold"));
  ViewRun bare = mrpc("full");
  bare.score.metrics.clear();
  EXPECT_THAT(error_of([&] { (void)view_lines(View::deebert, bare); }).what(), HasSubstr("needs gold labels"));
  EXPECT_EQ(error_of([] { (void)view_named("pabe"); }).hint(), "did you mean 'pabee'?");
  EXPECT_EQ(view_named("elbert"), View::elbert);
}

TEST(Views, FilesAreThoseOfTheOriginals) {
  const Scratch scratch;
  const std::vector<ViewRun> patience{mrpc("patience:3"), mrpc("patience:6")};
  write_view_files(View::pabee, scratch.path() / "pabee", patience);
  EXPECT_EQ(read_text(scratch.path() / "pabee/eval_results.txt"),
            "acc = 0.8676470588235294\nacc_and_f1 = 0.8874235294117647\nf1 = 0.9072\n");

  ViewRun run = mrpc("entropy:0.3");
  run.exit_layers = {10, 12, 11};
  write_view_files(View::elasticbert, scratch.path(), std::vector{run});
  EXPECT_EQ(read_text(scratch.path() / "mrpc_eval_exit_layer_0.3.tsv"),
            "index\texit_layer\r\n0\t10\r\n1\t12\r\n2\t11\r\n");

  write_view_files(View::elbert, scratch.path() / "elbert",
                   std::vector{mrpc("window:0.9,8,bias_1"), mrpc("window:0.1,8,bias_1")});
  EXPECT_EQ(read_text(scratch.path() / "elbert/eval_results.txt"),
            ",exit_thres,acc,compute_ratio,f1,acc_and_f1\n"
            "0,0.90,0.8676,0.9673,0.8874,0.9072,\n"
            "0,0.10,0.8676,0.9673,0.8874,0.9072,\n")
      << "header and rows in different orders, as the original has them";
}

TEST(Views, TestSplitsLeavePredictions) {
  const Scratch scratch;
  ViewRun run = mrpc("entropy:0.3");
  run.test = true;
  run.exit_layers = {10, 12};
  run.answers = {"1", "0"};
  write_view_files(View::elasticbert, scratch.path(), std::vector{run});
  EXPECT_EQ(read_text(scratch.path() / "mrpc_0.3.tsv"), "index\tprediction\r\n0\t1\r\n1\t0\r\n");
  EXPECT_EQ(read_text(scratch.path() / "mrpc_infer_exit_layer_0.3.tsv"), "index\texit_layer\r\n0\t10\r\n1\t12\r\n");
  write_view_files(View::romebert, scratch.path(), std::vector{run});
  EXPECT_EQ(read_text(scratch.path() / "mrpc.tsv"), "index\tprediction\n0\t1\n1\t0\n");
  EXPECT_THAT(error_of([&] { write_view_files(View::pabee, scratch.path(), std::vector{run}); }).what(),
              HasSubstr("view pabee: it answers no test split"));
}

TEST(Views, NothingIsWrittenWhereOneRunIsRefused) {
  const Scratch scratch;
  EXPECT_EQ(error_of([&] {
              write_view_files(View::pabee, scratch.path() / "out", std::vector{mrpc("patience:3"), mrpc("full")});
            }).code(),
            Code::usage);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "out"));
}

TEST(Views, NumpyLoadsDeebertsArrays) {
  const Scratch scratch;
  if (!numpy_says(scratch.path(), "")) GTEST_SKIP() << "no NumPy for /usr/bin/python3";
  std::vector<ExitScore> exits(12);
  for (size_t i = 0; i < 12; ++i)
    exits[i].metrics = {{Metric::accuracy, 0.5}, {Metric::f1, 0.01 * static_cast<double>(i)}};
  write_deebert_arrays(scratch.path(), std::vector{mrpc("full"), mrpc("entropy:0"), mrpc("entropy:0.15")}, exits);
  EXPECT_TRUE(numpy_says(scratch.path(), R"(
import os
assert sorted(os.listdir('.')) == ['each_layer.npy', 'entropy_0.0.npy', 'entropy_0.15.npy'], os.listdir('.')
a = np.load('entropy_0.15.npy', allow_pickle=True)
assert a[0] == {**{i: 0 for i in range(1, 10)}, 10: 49, 11: 62, 12: 297}, a[0]
assert a[1] == 14.08 and a[2] == 4736 / 4896 and a[3] == 0.9072, a
e = np.load('each_layer.npy')
assert e.dtype == np.float64 and e.shape == (12,) and e[3] == 0.03, e
)"));
}

TEST(ElbertStats, SummariesAreThoseOfPandas) {
  // By hand, from the definitions of pandas' describe(): sample deviation, quartiles by linear interpolation.
  const Summary s = summarise({4, 1, NAN, 3, 2.5});
  EXPECT_EQ(s.count, 4);
  EXPECT_EQ(s.mean, 2.625);
  EXPECT_NEAR(s.deviation, 1.25, 1e-12);
  EXPECT_EQ(s.low, 1);
  EXPECT_EQ(s.first, 2.125);
  EXPECT_EQ(s.middle, 2.75);
  EXPECT_EQ(s.third, 3.25);
  EXPECT_EQ(s.high, 4);
  EXPECT_TRUE(std::isnan(summarise({2}).deviation));
  EXPECT_EQ(summarise({NAN}).count, 0);
  EXPECT_TRUE(std::isnan(summarise({}).mean));
}

TEST(ElbertStats, CountsTheStageThatLetATextLeave) {
  const Scratch scratch;
  ExitTrace trace = random_trace({.rows = 5, .exits = 3, .classes = 2});
  // Two certain at once; leaning to one side for two exits; undecided to the end; certain at the last exit alone.
  trace.logits = {9,    -9, 0, 0,    0,    0, /**/ -9,   9, 0, 0,    0, 0, /**/ 0.1F, 0, 0.1F, 0, 0.1F, 0, /**/
                  0.1F, 0,  0, 0.1F, 0.1F, 0, /**/ 0.1F, 0, 0, 0.1F, 9, -9};
  const PolicySpec policy = parse_policy("window:0.2,2,bias_1");
  const Departures departures = replay(trace, policy);
  ASSERT_THAT(departures.exit, ElementsAre(0, 0, 1, 2, 2));
  const StageCounts counts = stage_counts(trace, policy, departures);
  EXPECT_EQ(counts.entropy, 3);
  EXPECT_EQ(counts.window, 1);
  EXPECT_EQ(counts.last, 1);
  write_elbert_stats(scratch.path(), trace, policy, departures);
  EXPECT_EQ(read_text(scratch.path() / "cnt_info__stage_eval.csv"), ",cnt_entropy,cnt_window,cnt_ori\n0,3,1,1\n");
}

TEST(Views, PabeeNamesEachCheckpointOnce) {
  EXPECT_EQ(view_heading(View::pabee, "checkpoint-50"), "Evaluation for checkpoint checkpoint-50\n");
  EXPECT_EQ(view_heading(View::pabee, "final"), "Evaluation for checkpoint \n");
  EXPECT_EQ(view_heading(View::deebert, "checkpoint-50"), "");
}

TEST(ElbertStats, FilesHoldEveryTextAtEveryExit) {
  const Scratch scratch;
  ExitTrace trace = random_trace({.rows = 4, .exits = 3, .classes = 2});
  Departures departures{{0, 2, 2, 0}, {}};
  write_elbert_stats(scratch.path(), trace, parse_policy("nentropy:0.5"), departures);
  EXPECT_FALSE(path_exists(scratch.path() / "cnt_info__stage_eval.csv"));  // entropy alone has no stages
  EXPECT_EQ(read_text(scratch.path() / "cnt_info__exit_eval.csv"), ",cnt_exit_0,cnt_exit_1,cnt_ori\n0,2,0,2\n");
  EXPECT_EQ(read_text(scratch.path() / "info__exit_eval.json"),
            "{\n    \"avg_layer\":2.0,\n    \"compute_ratio\":0.6666666666666666,\n    \"exit_sample_ratio\":0.5\n}");
  const std::string summary = read_text(scratch.path() / "is_right_info_exit_eval.csv");
  EXPECT_THAT(summary, testing::StartsWith(",is_right_0,is_right_1,is_right_ori\ncount,2.0,0.0,2.0\nmean,"));
  EXPECT_THAT(summary, HasSubstr("\n25%,"));
  for (const char* name : {"loss", "entropy", "logits", "is_right"}) {
    const NpyArray all = read_npy(scratch.path() / fmt::format("{}_all_eval.npy", name));
    EXPECT_THAT(all.view.shape, ElementsAre(4, 3)) << name;
    const auto left = to_doubles(read_npy(scratch.path() / fmt::format("{}_exit_eval.npy", name)).view);
    const auto everywhere = to_doubles(all.view);
    for (size_t row = 0; row < 4; ++row)
      for (size_t exit = 0; exit < 3; ++exit) {
        const bool here = departures.exit[row] == exit;
        EXPECT_EQ(std::isnan(left[row * 3 + exit]), !here) << name;
        EXPECT_EQ(here ? left[row * 3 + exit] : 0, here ? everywhere[row * 3 + exit] : 0) << name;
      }
  }
  const auto loss = to_doubles(read_npy(scratch.path() / "loss_all_eval.npy").view);
  const auto z = trace.at(1, 2);
  const double gold = z[static_cast<size_t>(trace.gold[1])];
  EXPECT_NEAR(loss[1 * 3 + 2], std::log(std::exp(z[0]) + std::exp(z[1])) - gold, 1e-6);
  trace.gold[0] = NAN;
  EXPECT_EQ(error_of([&] { write_elbert_stats(scratch.path(), trace, parse_policy("full"), departures); }).code(),
            Code::usage);
}

TEST(ElbertStats, RefusesMultiLabelTraces) {
  const Scratch scratch;
  ExitTrace trace = random_trace({.rows = 4, .exits = 3});
  trace.info.problem = Problem::multi_label;
  trace.gold.assign(trace.rows * trace.gold_width(), 1);
  const Departures departures = replay(trace, parse_policy("full"));
  EXPECT_THAT(error_of([&] { write_elbert_stats(scratch.path(), trace, parse_policy("full"), departures); }).what(),
              HasSubstr("one label per text"));
}

TEST(Views, NamesTheMetricsOfMultiLabelData) {
  ViewRun run = mrpc("patience:3");
  run.score.metrics = {{Metric::exact_match, 0.5}, {Metric::micro_f1, 0.75}, {Metric::macro_f1, 0.625}};
  EXPECT_THAT(view_lines(View::pabee, run),
              testing::StartsWith("  exact_match = 0.5\n  macro_f1 = 0.625\n  micro_f1 = 0.75\n"));
  run.policy = parse_policy("entropy:0.05");
  EXPECT_THAT(view_lines(View::deebert, run), HasSubstr("Result: 0.5\n"));
}

}  // namespace
}  // namespace exeunt
