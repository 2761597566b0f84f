// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/fields.h"

#include <array>

#include <gtest/gtest.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

enum class Fruit { apple, pear };
constexpr std::array<std::string_view, 2> kFruits{"apple", "pear"};
constexpr const auto& names_of(Fruit) noexcept {
  return kFruits;
}

constexpr std::array<std::string_view, 2> kSizes{"small", "large"};

// A type with a form of its own: "3x".
struct Times {
  int count = 1;
};
void read_field(JsonObject& object, const Field& field, Times& value) {
  if (object.find(field.name) != nullptr) value.count = std::stoi(object.string(field.name));
}
OrderedJson field_json(const Times& value) {
  return fmt::format("{}x", value.count);
}

struct Seed {
  int count = 2;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "count", .low = 0, .high = 9}, self.count);
  }
};

constexpr unsigned kShort = 1;
struct Basket {
  Fruit fruit = Fruit::apple;
  int stalks = 1;
  double share = 0.5;
  float weight = 0.3F;
  bool ripe = false;
  std::string size = "small", note;
  std::optional<int> price = {};
  std::vector<int> days = {};
  std::vector<Seed> seeds = {};
  std::vector<Fruit> others = {};
  Seed first = {};
  Times times = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "fruit", .help = "Which"}, self.fruit);
    visit(Field{.name = "stalks", .low = 1, .high = 3, .applies = self.fruit == Fruit::apple}, self.stalks);
    visit(Field{.name = "share", .help = "Of all", .low = 0, .high = 1, .open = true, .in = kShort}, self.share);
    visit(Field{.name = "weight"}, self.weight);
    visit(Field{.name = "ripe"}, self.ripe);
    visit(Field{.name = "size", .choices = kSizes}, self.size);
    visit(Field{.name = "note", .required = true}, self.note);
    visit(Field{.name = "price", .low = 0}, self.price);
    visit(Field{.name = "days", .low = 1, .high = 7, .omit_empty = true}, self.days);
    visit(Field{.name = "seeds", .omit_empty = true}, self.seeds);
    visit(Field{.name = "others", .omit_empty = true}, self.others);
    visit(Field{.name = "first"}, self.first);
    visit(Field{.name = "times"}, self.times);
  }
};

Basket read_basket(const std::string& text) {
  return read_fields<Basket>(parse_json(text, "basket.json"), "basket.json");
}

std::string basket_error(const std::string& text) {
  try {
    (void)read_basket(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_file);
    return error.what() + (error.hint().empty() ? std::string() : "; " + error.hint());
  }
  return {};
}

TEST(Fields, RoundTrip) {
  const std::string text =
      R"({"fruit":"apple","stalks":3,"share":0.25,"weight":0.3,"ripe":true,"size":"large","note":"n","price":4,)"
      R"("days":[1,7],"seeds":[{"count":1},{"count":9}],"others":["pear","apple"],"first":{"count":0},"times":"5x"})";
  EXPECT_EQ(fields_json(read_basket(text)).dump(), text);
}

TEST(Fields, MissingKeepDefaultsAndEmptyAreOmitted) {
  const Basket basket = read_basket(R"({"note": "n", "price": null})");
  EXPECT_EQ(fields_json(basket).dump(),
            R"({"fruit":"apple","stalks":1,"share":0.5,"weight":0.3,"ripe":false,"size":"small","note":"n",)"
            R"("price":null,"first":{"count":2},"times":"1x"})");
}

TEST(Fields, ErrorsNamePlaceGotAndWanted) {
  EXPECT_EQ(basket_error("{}"), "basket.json: field 'note' is missing");
  EXPECT_EQ(basket_error(R"({"note": "", "stalks": 4})"),
            "basket.json: field 'stalks': got 4, want a whole number from 1 to 3");
  EXPECT_EQ(basket_error(R"({"note": "", "share": 1})"),
            "basket.json: field 'share': got 1, want a number above 0 and below 1");
  EXPECT_EQ(basket_error(R"({"note": "", "fruit": "peer"})"),
            "basket.json: field 'fruit': got 'peer', want one of apple, pear; did you mean 'pear'?");
  EXPECT_EQ(basket_error(R"({"note": "", "size": "lage"})"),
            "basket.json: field 'size': got 'lage', want one of small, large; did you mean 'large'?");
  EXPECT_EQ(basket_error(R"({"note": "", "days": [1, 8]})"),
            "basket.json: field 'days': got 8, want a whole number from 1 to 7");
  EXPECT_EQ(basket_error(R"({"note": "", "days": 3})"),
            "basket.json: field 'days': got 3, want a list, each a whole number from 1 to 7");
  EXPECT_EQ(basket_error(R"({"note": "", "seeds": [{}, {"count": 10}]})"),
            "basket.json: seeds[1]: field 'count': got 10, want a whole number from 0 to 9");
  EXPECT_EQ(basket_error(R"({"note": "", "first": {"cont": 1}})"),
            "basket.json: first: unknown field 'cont'; did you mean 'count'?");
  EXPECT_EQ(basket_error(R"({"note": "", "days": [null]})"), "basket.json: field 'days' is missing");
}

TEST(Fields, MayDependOnEarlierFields) {
  EXPECT_EQ(basket_error(R"({"note": "", "fruit": "pear", "stalks": 1})").substr(0, 37),
            "basket.json: unknown field 'stalks'; ");
}

TEST(Fields, PartialObjectChangesOnlyItsFields) {
  Basket basket{.fruit = Fruit::pear, .note = "kept", .first = {.count = 7}};
  const Json patch{{"share", 0.75}, {"first", Json::object()}};
  JsonObject object(patch, "flags", true);
  read_fields(object, basket);
  object.finish();
  EXPECT_EQ(basket.fruit, Fruit::pear);
  EXPECT_EQ(basket.share, 0.75);
  EXPECT_EQ(basket.note, "kept");
  EXPECT_EQ(basket.first.count, 7);
}

TEST(Fields, AppearInFilesOfTheirBits) {
  EXPECT_FALSE(fields_json(Basket{}, 2).contains("share"));
  EXPECT_TRUE(fields_json(Basket{}, kShort).contains("share"));
  EXPECT_DOUBLE_EQ(read_fields<Basket>({{"share", 0.1}, {"note", ""}}, "x", kShort).share, 0.1);
  EXPECT_THROW((void)read_fields<Basket>({{"share", 0.1}, {"note", ""}}, "x", 2), Error);
}

TEST(Fields, AreListedWithDefaultAndHelp) {
  const std::string table = field_table<Basket>();
  EXPECT_NE(table.find("| `fruit` | one of apple, pear | `\"apple\"` | Which |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("| `share` | a number above 0 and below 1 | `0.5` | Of all |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("| `note` | a text | required |  |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("| `price` | a whole number of at least 0, or null | `null` |  |\n"), std::string::npos)
      << table;
}

}  // namespace
}  // namespace exeunt
