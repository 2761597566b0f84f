// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/files.h"
#include "exeunt/certify/calibrate_model.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/policy/promise.h"
#include "tests/unit/certify/small_model.h"

namespace exeunt {
namespace {

using testing::HasSubstr;
using testing::Not;

class FolderCard : public testing::Test {
 protected:
  FolderCard() {
    model_.keep_wider({{"layer.1.ffn2", Precision::fp32}});
    CalibrateOptions options{.run = model_.options()};
    options.plan.max_drops = {0.2};
    (void)calibrate_model(options, quiet());
    write_atomically(model_.folder / kCardFile, std::string(kCardMark));
  }

  // The card, and what the model promises where it runs.
  [[nodiscard]] std::pair<std::string, std::string> card_and_promise() const {
    const Checkpoint model = Checkpoint::open(model_.folder);
    refresh_card(model);
    return {read_text(model_.folder / kCardFile), resolve(model, {.precision = Precision::int8}).promise};
  }

  SmallModel model_ = {};
};

TEST_F(FolderCard, ShowsThePromiseThatHolds) {
  const auto [card, promise] = card_and_promise();
  EXPECT_THAT(promise, HasSubstr("at most 20 % of answers to requests differ"));
  EXPECT_THAT(card, HasSubstr(fmt::format("Promise: {} (", promise)));
}

TEST_F(FolderCard, ShowsNoPromiseIfItsConditionsChanged) {
  model_.keep_wider({});
  const auto [card, promise] = card_and_promise();
  EXPECT_THAT(promise, HasSubstr("none (certified with precision.json"));
  EXPECT_THAT(card, HasSubstr(fmt::format("Promise: {}.", promise)));
  EXPECT_THAT(card, Not(HasSubstr("at most 20 % of answers to requests differ")));
}

TEST_F(FolderCard, DetectsPolicyOfOtherWeights) {
  PolicyFile file = read_policy_file(model_.folder / "policy.json");
  file.weights = std::string(64, '0');
  write_atomically(model_.folder / "policy.json", policy_file_text(file));
  EXPECT_THAT(card_and_promise().first, HasSubstr("Promise: none (made for other weights)."));
}

// A card describes the folder, not the machine that wrote it.
TEST_F(FolderCard, KeepsThePromiseOfAnotherEngine) {
  PolicyFile file = read_policy_file(model_.folder / "policy.json");
  file.entries.at(0).engine = "cpu/other";
  write_atomically(model_.folder / "policy.json", policy_file_text(file));
  const auto [card, promise] = card_and_promise();
  EXPECT_THAT(promise, HasSubstr("none (certified on cpu/other"));
  EXPECT_THAT(card, HasSubstr("on cpu/other"));
  EXPECT_THAT(card, HasSubstr(fmt::format("Promise: {} (", promise_of(file.entries[0]))));
}

}  // namespace
}  // namespace exeunt
