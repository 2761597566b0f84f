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
    EXPECT_EQ(row.spec.embedding_projection, !row.embedding_projection.empty()) << row.name;
    EXPECT_FALSE(row.poolers.empty()) << row.name;
  }
  EXPECT_EQ(family_named("gpt2"), std::nullopt);
}

TEST(Family, TheLastRowThatFitsIsTheOneMeant) {
  EXPECT_EQ(find_family([](const FamilyRow&) { return true; }), families().back().spec.family);
  EXPECT_EQ(find_family([](const FamilyRow&) { return false; }), std::nullopt);
}

}  // namespace
}  // namespace exeunt
