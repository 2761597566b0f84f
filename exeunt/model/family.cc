// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/family.h"

#include <array>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

#include "families.inc"  // made from families.json

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kFamilies.size(); ++i) {
    if (kFamilies[i].spec.family != static_cast<Family>(i)) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

}  // namespace

std::string LayerNames::of(int layer, std::string_view part) const {
  return fmt::format("{}{}{}{}", before, layer, behind, part);
}

std::span<const FamilyRow> families() noexcept {
  return kFamilies;
}

const FamilyRow& row_of(Family family) noexcept {
  return kFamilies[static_cast<size_t>(family)];
}

std::string_view name_of(Family family) noexcept {
  return row_of(family).name;
}

std::optional<Family> family_named(std::string_view name) noexcept {
  return find_family([&](const FamilyRow& row) { return row.name == name; });
}

std::span<const KnownShape> known_shapes() noexcept {
  return kShapes;
}

const KnownShape& find_shape(std::string_view name) {
  std::vector<std::string> names;
  for (const KnownShape& shape : known_shapes()) {
    if (shape.name == name) return shape;
    names.emplace_back(shape.name);
  }
  throw Error(Code::usage, fmt::format("unknown shape '{}'", name), suggestion(name, names));
}

}  // namespace exeunt
