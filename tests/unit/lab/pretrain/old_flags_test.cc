// SPDX-License-Identifier: Apache-2.0
// Walks the flags of the five papers' training scripts and of run_glue: each is understood by the trainer, or refused
// with a reason.
#include <algorithm>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "apps/exeunt/train_flags.h"
#include "exeunt/recipes/recipe.h"
#include "lab/papers/flags.h"
#include "tests/fixtures/golden_text.h"
#include "tests/fixtures/scratch.h"

namespace exeunt::apps {
namespace {

// As their scripts declare them, with a value where they take one.
constexpr const char* kScripts =
    "--data_dir d --model_type bert --task_name sst-2 --plot_data_dir p --config_name c --tokenizer_name t "
    "--cache_dir c --max_seq_length 128 --do_train --do_eval --evaluate_during_training --do_lower_case "
    "--eval_each_highway --eval_after_first_stage --eval_highway --per_gpu_train_batch_size 8 "
    "--per_gpu_eval_batch_size 8 --gradient_accumulation_steps 1 --learning_rate 5e-5 --weight_decay 0 "
    "--adam_epsilon 1e-8 --max_grad_norm 1 --num_train_epochs 3 --max_steps 1 --warmup_steps 0 "
    "--early_exit_entropy -1 --logging_steps 50 --save_steps 50 --eval_all_checkpoints --no_cuda "
    "--overwrite_output_dir --overwrite_cache --seed 42 --fp16 --fp16_opt_level O1 --local_rank -1 "
    // BERxiT, PABEE, RomeBERT, ElasticBERT, ELBERT
    "--train_routine alternate --limit_layer 3 --lte_th 0.2 --testset --patience 0 --regression_threshold 0 "
    "--gamma 0.9 --beta 1 --irange 2 --temper 3.0 --kd_loss_type raw --moco --momentum 0.9999 --ge --gp "
    "--num_hidden_layers 2 --num_output_layers 1 --log_dir l --load c --debug --warmup_rate 0.06 --not_save_model "
    "--do_infer --early_stop_steps 10 --threads 1 --out_mode all --w_lr 0.01 --w_init 4 "
    // run_glue
    "--train_file t.csv --validation_file v.csv --test_file t.csv --max_train_samples 9 --max_eval_samples 9 "
    "--do_predict --pad_to_max_length --use_fast_tokenizer --ignore_mismatched_sizes --dataset_name glue "
    "--per_device_train_batch_size 8 --per_device_eval_batch_size 8 --warmup_ratio 0.1 --save_total_limit 2 "
    "--eval_steps 9 --eval_strategy epoch --evaluation_strategy epoch --save_strategy no --logging_strategy steps "
    "--logging_dir l --load_best_model_at_end --resume_from_checkpoint o/checkpoint-5 --bf16 --use_cpu --report_to "
    "none "
    "--run_name r --push_to_hub --hub_model_id h --hub_token x --token x --dataloader_num_workers 2";

TrainFlags parsed(const std::vector<std::string>& words) {
  TrainFlags flags;
  CLI::App app;
  add_train_flags(app, flags);
  std::vector<std::string> all{"--model_name_or_path", "m", "--output_dir", "o"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<std::string> arguments = with_current_training_names(all).words;
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return flags;
}

TEST(OldFlags, AreAllUnderstoodOrRefusedWithAReason) {
  std::istringstream script(kScripts);
  std::vector<std::vector<std::string>> flags;
  for (std::string word; script >> word;) {
    if (word.starts_with("--")) {
      flags.push_back({word});
    } else {
      flags.back().push_back(word);
    }
  }
  EXPECT_GE(flags.size(), 85U);
  for (const std::vector<std::string>& flag : flags) {
    try {
      (void)parsed(flag);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::usage);
      EXPECT_FALSE(error.hint().empty()) << flag[0];
    } catch (const CLI::ParseError& error) {
      ADD_FAILURE() << flag[0] << ": " << error.what();
    }
  }
}

TEST(OldFlags, MapToCurrentFlagsWithTheirValues) {
  const TrainFlags flags = parsed({"--learning_rate", "3e-5", "--per_gpu_train_batch_size=16", "--do_train",
                                   "--model_type", "bert", "--num_train_epochs", "5", "--gp"});
  EXPECT_EQ(flags.model, "m");
  EXPECT_EQ(flags.out, "o");
  EXPECT_EQ(flags.plan.changes.stage, (Json{{"lr", 3e-5}, {"batch", 16}, {"epochs", 5.0}}));
  EXPECT_EQ(flags.plan.changes.set, std::vector<std::string>{"gradient.rule=project"});
}

TEST(OldFlags, ResumeFromCheckpointDropsItsValue) {
  const std::vector<std::string> words{"--resume_from_checkpoint", "o/checkpoint-5", "--train_file", "t.csv"};
  const TrainFlags flags = parsed(words);
  EXPECT_TRUE(flags.plan.resume);
  EXPECT_EQ(flags.rows.data, "t.csv");
  EXPECT_EQ(with_current_training_names(words).notices[0],
            "--resume_from_checkpoint is an old name; use --resume, without a value");
  EXPECT_TRUE(parsed({"--resume_from_checkpoint=o/checkpoint-5"}).plan.resume);
}

TEST(OldFlags, MayBeFollowedByTrueOrFalse) {
  EXPECT_TRUE(parsed({"--overwrite_output_dir", "True"}).plan.overwrite);
  EXPECT_FALSE(parsed({"--overwrite_output_dir", "False"}).plan.overwrite);
  EXPECT_FALSE(parsed({"--resume_from_checkpoint", "False"}).plan.resume);
  EXPECT_EQ(
      parsed({"--fp16", "False", "--push_to_hub=true", "--do_predict", "false", "--lr", "1"}).plan.changes.stage["lr"],
      1);
  EXPECT_EQ(parsed({"--fp16", "True"}).plan.precision, "bf16");
  EXPECT_EQ(error_of([] { (void)with_current_training_names({"--do_predict", "True"}); }).code(), Code::usage);
}

// Every field that names a flag has it, and what is given arrives where the list says.
TEST(TrainFlags, ComeFromTheListsOfFields) {
  TrainFlags flags;
  CLI::App app;
  add_train_flags(app, flags);
  const auto expect_flag = [&](const Field& field, const auto&) {
    if (field.flag.empty()) return;
    EXPECT_NE(app.get_option_no_throw(std::string(field.flag)), nullptr) << field.name;
  };
  TrainSettings::fields(std::as_const(flags.plan), expect_flag);
  const Recipe recipe;
  const StageSpec stage;
  Recipe::fields(recipe, expect_flag);
  StageSpec::fields(stage, expect_flag);
  ObjectiveSpec::fields(stage.objective, expect_flag);
  const TrainFlags given = parsed({"--lr", "1e-4", "--batch", "4", "--keep-best", "mean", "--temperature", "5",
                                   "--seed", "7", "--accumulation", "3", "--deterministic", "--precision", "bf16"});
  EXPECT_EQ(given.plan.changes.stage, (Json{{"lr", 1e-4}, {"batch", 4}, {"keep_best", "mean"}}));
  EXPECT_EQ(given.plan.changes.objective, (Json{{"temperature", 5.0}}));
  EXPECT_EQ(given.plan.changes.recipe, (Json{{"seed", 7}}));
  EXPECT_EQ(given.plan.accumulation, 3);
  EXPECT_TRUE(given.plan.deterministic);
  EXPECT_EQ(given.plan.precision, "bf16");
  for (const char* wrong : {"--batch=0", "--warmup=1.5", "--keep-best=first", "--accumulation=0", "--precision=fp8",
                            "--threads=5000", "--adam-epsilon=0", "--lr=x"}) {
    EXPECT_THROW((void)parsed({wrong}), CLI::ParseError) << wrong;
  }
}

// Of all flags that check their value: what they want instead of one that none takes.
TEST(TrainFlags, TakeWhatIsStored) {
  TrainFlags flags;
  CLI::App app;
  add_train_flags(app, flags);
  std::string all;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_expected_max() == 0) continue;
    try {
      (void)parsed({option->get_name() + "=-1e300"});
    } catch (const std::exception& error) {
      const std::string text = error.what();
      if (text.find("got '-1e300'") != std::string::npos) all += text + "\n";
    }
  }
  expect_golden("train/flags.txt", all);
}

}  // namespace
}  // namespace exeunt::apps
