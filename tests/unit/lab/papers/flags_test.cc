// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/flags.h"

#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// README of PABEE, "Inference".
TEST(Flags, PabeesInferenceCommandIsOurSweep) {
  const Arguments now = with_current_names({"sweep",
                                            "--model_type",
                                            "albert",
                                            "--model_name_or_path",
                                            "/path/to/save/",
                                            "--task_name",
                                            "MRPC",
                                            "--do_eval",
                                            "--do_lower_case",
                                            "--data_dir",
                                            "glue_data/MRPC",
                                            "--max_seq_length",
                                            "128",
                                            "--per_gpu_eval_batch_size",
                                            "1",
                                            "--learning_rate",
                                            "2e-5",
                                            "--logging_steps",
                                            "50",
                                            "--num_train_epochs",
                                            "15",
                                            "--output_dir",
                                            "/path/to/save/",
                                            "--eval_all_checkpoints",
                                            "--patience",
                                            "3,4,5,6,7,8"});
  EXPECT_THAT(now.words,
              ElementsAre("sweep", "/path/to/save/", "--task", "MRPC", "--data", "glue_data/MRPC", "--max-length",
                          "128", "--all-checkpoints", "--patience", "3,4,5,6,7,8", "--precision=fp32"));
  EXPECT_THAT(now.notices, Contains("evaluated in fp32, as by the original: --precision=fp32"));
  EXPECT_THAT(now.notices, Contains(HasSubstr("--learning_rate is not needed")));
}

// ElasticBERT's and ELBERT's scripts name what they had trained from, and evaluate what lies in --output_dir.
TEST(Flags, EvaluatesModelOfOutputFolder) {
  const Arguments now =
      with_current_names({"sweep", "--model_name_or_path", "fnlp/elasticbert-base", "--output_dir", "./ckpts/MRPC",
                          "--per_gpu_eval_batch_size", "1", "--early_exit_entropy=0.3,0.4,0.5"});
  EXPECT_THAT(now.words, ElementsAre("sweep", "./ckpts/MRPC", "--early-exit-entropy=0.3,0.4,0.5", "--precision=fp32"));
  EXPECT_THAT(now.notices, Contains("./ckpts/MRPC is evaluated: the trained model lies in --output_dir"));
  EXPECT_THAT(with_current_names({"eval", "--model_name_or_path=base", "--output_dir=out", "--out_mode", "one"}).words,
              ElementsAre("eval", "out", "--precision=fp32"));
  EXPECT_THAT(with_current_names({"eval", "--model_name_or_path=base", "--out_mode", "one"}).words,
              ElementsAre("eval", "base", "--precision=fp32"));
  // run_glue of today evaluates the model it is given.
  EXPECT_THAT(with_current_names({"eval", "--model_name_or_path", "out/mrpc", "--output_dir", "out/eval"}).words,
              ElementsAre("eval", "out/mrpc", "--precision=fp32"));
}

TEST(Flags, PrecisionThatIsNamedStays) {
  EXPECT_THAT(with_current_names({"sweep", "--model_name_or_path", "m", "--precision", "bf16"}).words,
              ElementsAre("sweep", "m", "--precision", "bf16"));
  EXPECT_THAT(with_current_names({"sweep", "--model_name_or_path", "t.safetensors"}).words,
              ElementsAre("sweep", "t.safetensors"));  // a trace, which was made in one
  EXPECT_THAT(with_current_names({"sweep", "m", "--task_name", "RTE"}).words,
              ElementsAre("sweep", "m", "--task", "RTE"));
  EXPECT_THAT(with_current_training_names({"--model_name_or_path", "m"}).notices,
              Contains(HasSubstr("--precision fp32 is the original's")));
  EXPECT_THAT(with_current_training_names({"--model_name_or_path", "m", "--precision=fp32"}).notices,
              Not(Contains(HasSubstr("--precision fp32 is the original's"))));
}

TEST(Flags, TasksInAFolderOfEluesDataAreElues) {
  const auto task_in = [](const std::string& folder, const std::string& task) {
    return with_current_names({"sweep", "m", "--data_dir=" + folder, "--task_name", task}).words.back();
  };
  EXPECT_EQ(task_in("elue_data/MRPC", "MRPC"), "elue/MRPC");
  EXPECT_EQ(task_in("/data/ELUE/SST-2", "SST-2"), "elue/SST-2");
  EXPECT_EQ(task_in("elue/glue_data/MRPC", "MRPC"), "MRPC");
  EXPECT_EQ(task_in("glue_data/MRPC", "MRPC"), "MRPC");
  EXPECT_EQ(task_in("elue_data/RTE", "RTE"), "RTE");  // which ELUE does not have
  const Arguments now = with_current_training_names({"--task_name=STS-B", "--data_dir", "elue_data/STS-B"});
  EXPECT_THAT(now.words, ElementsAre("--task=elue/STS-B", "--data", "elue_data/STS-B"));
  EXPECT_THAT(now.notices, Contains("STS-B in elue_data/STS-B is ELUE's: --task elue/STS-B"));
}

TEST(Flags, ArraysForPlotsAreKeptApartByTheModelsPath) {
  const auto folder_of = [](const std::string& model) {
    return with_current_names({"sweep", "--plot_data_dir", "./plotting/", "--model_name_or_path", model}).words[2];
  };
  EXPECT_EQ(folder_of("./saved_models/bert-base/MRPC/two_stage"), "plotting/saved_models/bert-base/MRPC/two_stage");
  EXPECT_EQ(folder_of("/models/a"), "plotting/models/a");
}

TEST(Flags, EvaluationWithTheOriginalsSettingsOrOutputIsASweep) {
  for (const char* flag : {"--view", "--patience", "--early_exit_entropy", "--lte_th"}) {
    const Arguments now = with_current_names({"eval", "m", flag, "3"});
    EXPECT_EQ(now.words.front(), "sweep") << flag;
    EXPECT_THAT(now.notices, Contains(HasSubstr("is 'exeunt sweep'")));
  }
  EXPECT_EQ(with_current_names({"eval", "m", "--policy", "full"}).words.front(), "eval");
  EXPECT_THAT(with_current_names({"eval", "m", "--eval_each_highway"}).words, ElementsAre("eval", "m", "--each-exit"));
  EXPECT_THAT(with_current_names({"eval", "m", "--view=deebert", "--eval_each_highway"}).words,
              ElementsAre("sweep", "m", "--view=deebert"));  // which has no --each-exit
}

// transformers' defaults, and flags that the originals' losses take and do not use.
TEST(Flags, ThoseWithoutEffectAreLeftOut) {
  EXPECT_THAT(with_current_training_names({"--max_steps", "-1", "--server_ip", "", "--server_port="}).words,
              testing::IsEmpty());
  EXPECT_THAT(with_current_training_names({"--max_steps=-1", "--lr", "1"}).words, ElementsAre("--lr", "1"));
  EXPECT_THAT(with_current_training_names({"--max_steps", "20"}).words, ElementsAre("--max-steps", "20"));
  const Arguments raw = with_current_training_names({"--kd_loss_type", "raw", "--beta", "2", "--irange=3"});
  EXPECT_THAT(raw.words, ElementsAre("--set=stages.0.objective.variant=last"));
  EXPECT_THAT(raw.notices, Contains("--beta is not needed: --kd_loss_type raw has none"));
  const Arguments bare = with_current_training_names({"--beta", "2", "--momentum=0.9", "--moco", "False"});
  EXPECT_THAT(bare.words, testing::IsEmpty());
  EXPECT_THAT(bare.notices, Contains("--momentum is not needed: --kd_loss_type raw, the default, has none"));
  EXPECT_THAT(with_current_training_names({"--set=stages.0.objective.variant=group", "--beta", "2"}).words.size(), 2U);
  EXPECT_THAT(with_current_names({"sweep", "m", "--fp16_opt_level", "O1", "--beta", "1", "--irange", "2", "--moco",
                                  "--momentum", "0.9", "--server_ip", "", "--server_port", ""})
                  .words,
              ElementsAre("sweep", "m"));
}

TEST(Flags, TrainingFlagsAreUnchangedForOtherVerbs) {
  EXPECT_THAT(with_current_names({"calibrate", "m", "--seed", "3"}).words,
              ElementsAre("calibrate", "m", "--seed", "3"));
  EXPECT_THAT(with_current_names({"trace", "m", "--output_dir", "t"}).words, ElementsAre("trace", "m", "--out", "t"));
  EXPECT_THAT(with_current_names({"sweep", "m", "--plot_data_dir=p"}).words, ElementsAre("sweep", "m", "--npy=p"));
  EXPECT_THAT(with_current_names({"eval", "m", "--plot_data_dir", "p"}).words, ElementsAre("eval", "m"));
  EXPECT_THAT(with_current_names({"reproduce", "pabee", "--", "--data_dir", "d"}).words,
              ElementsAre("reproduce", "pabee", "--", "--data_dir", "d"));
}

TEST(Flags, RomebertsReachItsObjective) {
  const Arguments now =
      with_current_training_names({"--gamma", "0.7", "--kd_loss_type", "group", "--beta=2", "--irange", "3",
                                   "--momentum", "0.99", "--moco", "--num_output_layers", "2"});
  EXPECT_THAT(now.words, ElementsAre("--set=stages.0.objective.variant=ema", "--set=stages.0.objective.gamma=0.7",
                                     "--set=stages.0.objective.momentum=0.99", "--set=exits=last:2"));
  EXPECT_THAT(now.notices, Contains("--kd_loss_type is not needed: --moco is another loss"));
  EXPECT_THAT(now.notices, Contains("--beta is not needed: --moco has none"));
  EXPECT_THAT(with_current_training_names({"train", "--beta=2", "--irange", "3", "--kd_loss_type", "group"}).words,
              ElementsAre("train", "--set=stages.0.objective.variant=group", "--set=stages.0.objective.beta=2",
                          "--set=stages.0.objective.range=3"));
  EXPECT_THAT(with_current_training_names({"--kd_loss_type", "raw"}).words,
              ElementsAre("--set=stages.0.objective.variant=last"));
  EXPECT_THAT(with_current_training_names({"--kd_loss_type", "ta"}).words,
              ElementsAre("--set=stages.0.objective.variant=chain"));
}

TEST(Flags, EvaluateAndKeepAsTheOriginalsDid) {
  EXPECT_THAT(with_current_training_names({"--evaluate_during_training", "--logging_steps", "20"}).words,
              ElementsAre("--log-every", "20", "--eval-every=20"));
  EXPECT_THAT(with_current_training_names({"--evaluate_during_training"}).words, ElementsAre("--eval-every=50"));
  EXPECT_THAT(with_current_training_names({"--evaluate_during_training", "True", "--eval-every", "5"}).words,
              ElementsAre("--eval-every", "5"));
  EXPECT_TRUE(with_current_training_names({"--evaluate_during_training=False"}).words.empty());
  EXPECT_THAT(with_current_training_names({"--save_steps", "50"}).words,
              ElementsAre("--save-every", "50", "--keep-checkpoints=0"));
  EXPECT_THAT(with_current_training_names({"--save_steps=50", "--save_total_limit=3"}).words,
              ElementsAre("--save-every=50", "--keep-checkpoints=3"));
  EXPECT_THAT(with_current_training_names({"--save-every", "50"}).words, ElementsAre("--save-every", "50"));
}

}  // namespace
}  // namespace exeunt
