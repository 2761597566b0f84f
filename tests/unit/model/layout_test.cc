// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "exeunt/model/spec.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/model/tiny.h"

namespace exeunt {
namespace {

using testing::HasSubstr;

// What check_layout() says about a good layout after `spoil`.
std::string layout_complaint(const std::function<void(ExitLayout&)>& spoil) {
  const ModelSpec spec = tiny::spec(Family::bert);
  ExitLayout exits = tiny::own_heads(spec);
  spoil(exits);
  const Error error = error_of([&] { check_layout(spec, exits, "exits.json"); });
  EXPECT_EQ(error.code(), Code::bad_file);
  EXPECT_THAT(error.what(), HasSubstr("exits.json: "));
  return error.what();
}

TEST(Layout, AcceptsEveryHeadLayout) {
  const ModelSpec spec = tiny::spec(Family::bert);
  for (const ExitLayout& exits :
       {ExitLayout{}, tiny::own_heads(spec), tiny::shared_pooler(spec), tiny::shared_head(spec), tiny::raw_heads(spec),
        tiny::readers(spec), tiny::everything(spec), tiny::regression(spec)}) {
    EXPECT_NO_THROW(check_layout(spec, exits, "exits.json"));
  }
}

TEST(Layout, RejectsExitsNotRisingToLastLayer) {
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites[1].after = 1; }), HasSubstr("want rising layers"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites[0].after = 0; }), HasSubstr("want rising layers from 1"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites[3].after = 5; }), HasSubstr("want it after the last layer, 4"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites.pop_back(); }), HasSubstr("the last exit is after layer 3"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites.resize(129); }), HasSubstr("got 129 exits, want at most 128"));
}

TEST(Layout, RejectsMismatchedOutputsAndLabels) {
  EXPECT_THAT(layout_complaint([](auto& e) { e.labels.pop_back(); }),
              HasSubstr("got 2 labels, want one for each of the 3"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.labels[1] = e.labels[0]; }), HasSubstr("duplicate label 'no'"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.labels[1].clear(); }), HasSubstr("a label is empty"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.outputs = 1; }), HasSubstr("want 2 to"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.outputs = 1 << 20; }), HasSubstr("want 2 to 65536"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.range = {0, 1}; }), HasSubstr("want none for a classification"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.problem = Problem::regression; }), HasSubstr("want 1 for a regression"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.problem = Problem::regression, e.outputs = 1; }),
              HasSubstr("want none for a regression"));
  EXPECT_THAT(layout_complaint([](auto& e) {
                e.problem = Problem::regression, e.outputs = 1, e.labels.clear();
                e.range = {5, 5};
              }),
              HasSubstr("want two rising finite numbers"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites.clear(); }), HasSubstr("without an exit"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites.clear(), e.outputs = 0; }), HasSubstr("labels without an exit"));
  EXPECT_THAT(layout_complaint([](auto& e) { e = ExitLayout{}, e.lte = true; }),
              HasSubstr("lte, inner, last_ramp or ngrams without"));
}

TEST(Layout, RejectsWrongExitBeforeFirstLayer) {
  const auto complaint = [](const std::function<void(ExitLayout&)>& spoil) {
    return layout_complaint([&](ExitLayout& e) {
      e.sites.insert(e.sites.begin(), ExitSite{.after = 0, .classifier = kNoClassifier});
      e.ngrams = NgramShape{.bits = 10, .rank = 2, .piece_bytes = 5};
      spoil(e);
    });
  };
  EXPECT_THAT(complaint([](ExitLayout& e) { e.ngrams.reset(); }), HasSubstr("got an exit after layer 0"));
  EXPECT_THAT(complaint([](ExitLayout& e) { e.sites.erase(e.sites.begin()); }), HasSubstr("want a first exit after"));
  EXPECT_THAT(complaint([](ExitLayout& e) { e.sites[0].classifier = 0; }), HasSubstr("want a first exit after"));
  EXPECT_THAT(complaint([](ExitLayout& e) { e.sites[0].reader = 0; }), HasSubstr("want a first exit after"));
  EXPECT_THAT(complaint([](ExitLayout& e) { e.sites[0].pooler = 0; }), HasSubstr("want a first exit after"));
  EXPECT_THAT(complaint([](ExitLayout& e) { e.lte = true; }), HasSubstr("got lte and ngrams"));
  for (const int bits : {0, kMaxNgramBits + 1})
    EXPECT_THAT(complaint([&](ExitLayout& e) { e.ngrams->bits = bits; }), HasSubstr("bits, want 1 to 24"));
  for (const int rank : {0, 4})
    EXPECT_THAT(complaint([&](ExitLayout& e) { e.ngrams->rank = rank; }), HasSubstr("want 1 to 3"));
  EXPECT_THAT(complaint([](ExitLayout& e) { e.ngrams->piece_bytes = -1; }), HasSubstr("bytes of tokens"));
}

TEST(Layout, RejectsInconsistentParts) {
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites[2].pooler = 7; }), HasSubstr("pooler 3 but no pooler 2"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites[2].classifier = -1; }),
              HasSubstr("the exit after layer 3 has no classifier"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites[0].reader = 1; }), HasSubstr("reader 1 but no reader 0"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.sites[0].pooler.reset(), e.sites[0].reader = 0; }),
              HasSubstr("after layer 1 has a reader without a pooler"));
  EXPECT_THAT(layout_complaint([](auto& e) {
                for (auto& site : e.sites) site.pooler = 0;
                e.sites[0].reader = 0;
              }),
              HasSubstr("pooler 0 is shared by an exit with a reader and one without"));
  EXPECT_THAT(layout_complaint([](auto& e) {
                for (auto& site : e.sites) site.pooler.reset();
                e.width = 5;
              }),
              HasSubstr("want the hidden size 8"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.width = 0; }), HasSubstr("got width 0"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.inner = 0; }), HasSubstr("got inner 0"));
  EXPECT_THAT(layout_complaint([](auto& e) { e.compat_last_ramp = LastHead::ramp; }), HasSubstr("has no last_ramp"));
  EXPECT_THAT(layout_complaint([](auto& e) {
                e.last_ramp = ExitLayout::Ramp{9, 4};
              }),
              HasSubstr("pooler 9 but no pooler 4"));
}

}  // namespace
}  // namespace exeunt
