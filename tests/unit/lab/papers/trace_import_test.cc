// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/trace_import.h"

#include <numeric>

#include "exeunt/base/sha256.h"
#include "lab/papers/npy.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Import : public testing::Test {
 protected:
  std::filesystem::path save(const std::string& name, std::vector<int64_t> shape, double start = 0) {
    std::vector<double> values(std::accumulate(shape.begin(), shape.end(), size_t{1},
                                               [](size_t a, int64_t b) { return a * static_cast<size_t>(b); }));
    std::iota(values.begin(), values.end(), start);
    write_npy(scratch_.path() / name, values, shape);
    return scratch_.path() / name;
  }
  std::filesystem::path save_gold(const std::vector<double>& gold) {
    write_npy(scratch_.path() / "gold.npy", gold, {static_cast<int64_t>(gold.size())});
    return scratch_.path() / "gold.npy";
  }
  Scratch scratch_;
};

// Equal logits at every exit are an equal text, which counts once.
TEST_F(Import, RowsAreKnownByTheirLogits) {
  const auto path = scratch_.path() / "twice.npy";
  write_npy(path, std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 5}, {3, 2, 2});
  const std::vector<uint64_t> hashes = import_trace({.logits = path}).row_hash;
  ASSERT_EQ(hashes.size(), 3U);
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
}

TEST_F(Import, ArrayBecomesTrace) {
  const auto logits = save("logits.npy", {4, 3, 2});
  const ExitTrace trace = import_trace({.logits = logits, .gold = save_gold({0, 1, 1, NAN})});
  EXPECT_EQ(trace.rows, 4u);
  EXPECT_EQ(trace.exits, 3);
  EXPECT_EQ(trace.width, 2);
  EXPECT_EQ(trace.at(1, 2)[1], 11);
  EXPECT_THAT(trace.info.labels, ElementsAre("0", "1"));
  EXPECT_THAT(trace.info.layers, ElementsAre(1, 2, 3));
  EXPECT_EQ(trace.info.weights, sha256_file(logits));
  EXPECT_EQ(trace.info.precision, "external");
  EXPECT_EQ(trace.info.engine, "external");
  EXPECT_TRUE(trace.lengths.empty());
  EXPECT_FALSE(trace.labelled());
  EXPECT_EQ(trace.gold[1], 1);
  EXPECT_THAT(trace.index, ElementsAre(0, 1, 2, 3));
}

TEST_F(Import, NamesAndLayersMayBeGiven) {
  const ExitTrace trace =
      import_trace({.logits = save("l.npy", {4, 3, 2}), .gold = {}, .labels = {"no", "yes"}, .layers = {4, 8, 12}});
  EXPECT_THAT(trace.info.labels, ElementsAre("no", "yes"));
  EXPECT_THAT(trace.info.layers, ElementsAre(4, 8, 12));
}

TEST_F(Import, OneOutputIsARegression) {
  const ExitTrace trace = import_trace({.logits = save("l.npy", {2, 3, 1}), .gold = save_gold({0.5, -2.25})});
  EXPECT_EQ(trace.info.problem, Problem::regression);
  EXPECT_TRUE(trace.info.labels.empty());
  EXPECT_EQ(trace.gold[1], -2.25F);
}

TEST_F(Import, RejectsArraysThatDoNotFit) {
  const auto logits = save("logits.npy", {4, 3, 2});
  const auto refused = [](const TraceImport& source) { return error_of([&] { (void)import_trace(source); }); };
  EXPECT_THAT(refused({.logits = save("two.npy", {4, 3})}).what(),
              HasSubstr("got shape [4, 3], want [rows, exits, classes]"));
  EXPECT_THAT(refused({.logits = save("none.npy", {0, 3, 2})}).what(), HasSubstr("got no rows"));
  EXPECT_THAT(refused({.logits = save("wide.npy", {1, 129, 2})}).what(), HasSubstr("at most 128 exits"));
  EXPECT_THAT(refused({.logits = logits, .gold = save_gold({0, 1})}).what(), HasSubstr("got shape [2], want [4]"));
  EXPECT_THAT(refused({.logits = logits, .gold = save_gold({0, 1, 2, 0})}).what(), HasSubstr("gold: got 2 in row 2"));
  EXPECT_THAT(refused({.logits = logits, .gold = save_gold({0, 1, 1e30, 0})}).what(), HasSubstr("got 1e+30 in row 2"));
  const Error labels = refused({.logits = logits, .gold = {}, .labels = {"a", "b", "c"}});
  EXPECT_EQ(labels.code(), Code::usage);
  EXPECT_THAT(labels.what(), HasSubstr("--labels: got 3 names, want 2"));
  EXPECT_THAT(refused({.logits = logits, .gold = {}, .labels = {}, .layers = {1, 2}}).what(),
              HasSubstr("--exits: got 2 layers"));
  EXPECT_THAT(refused({.logits = logits, .gold = {}, .labels = {}, .layers = {3, 2, 1}}).what(),
              HasSubstr("increasing"));
  EXPECT_EQ(refused({.logits = scratch_.path() / "absent.npy"}).code(), Code::bad_file);
  EXPECT_THAT(refused({.logits = scratch_.write("x.npy", "no array")}).what(), HasSubstr("does not start as an .npy"));
}

TEST_F(Import, LogitsBeyondFloatAreNamed) {
  EXPECT_THAT(error_of([&] {
                (void)import_trace({.logits = save("l.npy", {2, 2, 2}, 1e300)});
              }).what(),
              HasSubstr("logits: got inf in row 0 at exit 1"));
}

}  // namespace
}  // namespace exeunt
