// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "exeunt/certify/split.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/policy/traces.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Kept {
  std::vector<ExitTrace> traces;
  std::vector<std::string> said = {};
};

// Traces of as many models over ten rows; `learned` as ExitTrace has it, empty = not known.
Kept keep(const std::vector<std::vector<uint8_t>>& learned, bool strict = false) {
  Kept out;
  for (const std::vector<uint8_t>& marks : learned) {
    ExitTrace trace = random_trace({.rows = 10, .exits = 2, .classes = 2});
    for (size_t row = 0; row < trace.rows; ++row) trace.index[row] = static_cast<int64_t>(row);
    trace.learned = marks;
    out.traces.push_back(std::move(trace));
  }
  std::vector<ExitTrace*> traces;
  for (ExitTrace& trace : out.traces) traces.push_back(&trace);
  Observer observer;
  observer.notice = [&](const std::string& text) { out.said.push_back(text); };
  keep_new_rows(traces, strict, observer);
  return out;
}

TEST(NewRows, LeavesOutLearnedRowsAndCountsOverlapping) {
  const Kept kept = keep({{0, 2, 0, 1, 0, 0, 2, 0, 1, 0}});
  EXPECT_THAT(kept.traces[0].index, ElementsAre(0, 2, 3, 4, 5, 7, 8, 9));
  EXPECT_EQ(kept.traces[0].rows, 8U);
  EXPECT_THAT(kept.said, ElementsAre("2 of 10 texts are left out: the model was trained on them",
                                     "2 of 10 texts contain a training text of the model, or are part of one; "
                                     "--strict-new leaves them out"));
}

TEST(NewRows, StrictlyNewRowsDoNotOverlap) {
  const Kept kept = keep({{0, 2, 0, 1, 0, 0, 2, 0, 1, 0}}, true);
  EXPECT_THAT(kept.traces[0].index, ElementsAre(0, 2, 4, 5, 7, 9));
  EXPECT_THAT(kept.said.back(), HasSubstr("2 of 10 texts contain a training text of the model"));
  EXPECT_THAT(kept.said.back(), HasSubstr("left out"));
}

TEST(NewRows, GivesNoNoticeIfAllRowsAreNew) {
  const Kept kept = keep({std::vector<uint8_t>(10, 0)});
  EXPECT_EQ(kept.traces[0].rows, 10U);
  EXPECT_THAT(kept.said, IsEmpty());
}

TEST(NewRows, RejectsTrainingData) {
  const Error most = error_of([] { (void)keep({{2, 2, 2, 2, 2, 2, 0, 0, 1, 0}}); });
  EXPECT_EQ(most.code(), Code::usage);
  EXPECT_THAT(most.what(), HasSubstr("trained on 6 of these 10 texts"));
  EXPECT_THAT(most.hint(), HasSubstr("--split dev"));
  const Error none_left = error_of([] { (void)keep({{2, 1, 1, 1, 1, 1, 1, 1, 1, 1}}, true); });
  EXPECT_THAT(none_left.what(), HasSubstr("trained on 1 of these 10 texts, and parts of 9 more"));
  EXPECT_EQ(keep({{2, 2, 2, 2, 2, 0, 0, 0, 0, 0}}).traces[0].rows, 5U) << "half of them is not most";
}

TEST(NewRows, NoticesUnknownTrainingTexts) {
  const Kept kept = keep({{}});
  EXPECT_EQ(kept.traces[0].rows, 10U);
  EXPECT_THAT(kept.said, ElementsAre(HasSubstr("training texts unknown")));
}

TEST(NewRows, LeavesOutRowsLearnedByAnyOfSeveralModels) {
  const Kept kept = keep({{2, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {}, {0, 2, 1, 0, 0, 0, 0, 0, 0, 0}});
  for (const ExitTrace& trace : kept.traces) EXPECT_THAT(trace.index, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(kept.said.size(), 3U) << "not known of one, learned, and overlapping";
}

}  // namespace
}  // namespace exeunt
