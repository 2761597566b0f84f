// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/family.h"

#include <set>

#include <gtest/gtest.h>

namespace exeunt {
namespace {

TEST(Family, RowsHaveDistinctNamesAndAClassToBeExportedAs) {
  std::set<std::string_view> names;
  for (const FamilyRow& row : families()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(family_named(row.name), row.spec.family);
    EXPECT_EQ(&row_of(row.spec.family), &row);
    EXPECT_FALSE(row_of(row.exported_as).class_name.empty()) << row.name;
    EXPECT_FALSE(row.prefix.empty()) << row.name;
    EXPECT_EQ(row.spec.embedding_projection, !row.embeddings.projection.empty()) << row.name;
    EXPECT_EQ(row.spec.relative_buckets > 0, !row.embeddings.relative.empty()) << row.name;
    EXPECT_EQ(row.spec.pre_norm, !row.final_norm.empty()) << row.name;
    EXPECT_EQ(row.spec.gated, !row.layer.gate.empty()) << row.name;
    EXPECT_FALSE(row.poolers.empty() && row.head.pooler.empty()) << row.name;
    EXPECT_EQ(row.pooler.norm, !row.head.norm.empty()) << row.name;
    // Engines that are made for BERT's layer run these, and no others.
    const bool plain = row.name != "modernbert" && row.name != "deberta-v2";
    EXPECT_EQ(row.spec.has_plain_layers(), plain) << row.name;
  }
  EXPECT_EQ(family_named("gpt2"), std::nullopt);
}

TEST(Family, LocalLayersAndTheFirstNormFollowTheirIndex) {
  const ModelSpec& modern = row_of(Family::modernbert).spec;
  for (int i = 0; i < modern.layers; ++i) {
    EXPECT_EQ(modern.is_local(i), i % 3 != 0) << i;
    EXPECT_EQ(modern.has_attention_norm(i), i > 0) << i;
    EXPECT_FALSE(row_of(Family::bert).spec.is_local(i));
    EXPECT_TRUE(row_of(Family::bert).spec.has_attention_norm(i));
  }
}

TEST(Family, LastMatchingRowWins) {
  EXPECT_EQ(find_family([](const FamilyRow&) { return true; }), families().back().spec.family);
  EXPECT_EQ(find_family([](const FamilyRow&) { return false; }), std::nullopt);
}

}  // namespace
}  // namespace exeunt
