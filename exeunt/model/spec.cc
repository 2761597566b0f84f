// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/spec.h"

#include <algorithm>
#include <array>
#include <utility>

namespace exeunt {
namespace {

// Names in the order of the enumerations.
constexpr std::array<std::string_view, 3> kActivations{"gelu", "gelu_new", "relu"};
constexpr std::array<std::string_view, 3> kPoolerActivations{"tanh", "relu", "gelu"};
constexpr std::array<std::string_view, 6> kPoolInputs{"cls", "mean", "max", "cls+mean", "cls+max", "mean+max"};
constexpr std::array<std::string_view, 2> kLastRamps{"final", "ramp"};

template <class Enum, size_t n>
std::string_view name_in(const std::array<std::string_view, n>& names, Enum value) noexcept {
  return names[static_cast<size_t>(value)];
}

template <class Enum, size_t n>
std::optional<Enum> named_in(const std::array<std::string_view, n>& names, std::string_view name) noexcept {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

// Largest index that `pick` finds among the sites, plus one.
template <class Pick>
int count_of(const std::vector<ExitSite>& sites, Pick pick) noexcept {
  int count = 0;
  for (const ExitSite& site : sites) count = std::max(count, pick(site) + 1);
  return count;
}

}  // namespace

std::string_view name_of(Activation activation) noexcept {
  return name_in(kActivations, activation);
}
std::string_view name_of(PoolerActivation activation) noexcept {
  return name_in(kPoolerActivations, activation);
}
std::string_view name_of(PoolInput input) noexcept {
  return name_in(kPoolInputs, input);
}
std::string_view name_of(LastRamp ramp) noexcept {
  return name_in(kLastRamps, ramp);
}

std::optional<PoolerActivation> pooler_activation_named(std::string_view name) noexcept {
  return named_in<PoolerActivation>(kPoolerActivations, name);
}
std::optional<PoolInput> pool_input_named(std::string_view name) noexcept {
  return named_in<PoolInput>(kPoolInputs, name);
}
std::optional<LastRamp> last_ramp_named(std::string_view name) noexcept {
  return named_in<LastRamp>(kLastRamps, name);
}

std::span<const std::string_view> pool_input_names() noexcept {
  return kPoolInputs;
}
std::span<const std::string_view> pooler_activation_names() noexcept {
  return kPoolerActivations;
}

int ExitLayout::readers() const noexcept {
  return count_of(sites, [](const ExitSite& site) { return site.reader.value_or(-1); });
}

int ExitLayout::poolers() const noexcept {
  const int of_sites = count_of(sites, [](const ExitSite& site) { return site.pooler.value_or(-1); });
  return last_ramp ? std::max(of_sites, last_ramp->pooler + 1) : of_sites;
}

int ExitLayout::classifiers() const noexcept {
  const int of_sites = count_of(sites, [](const ExitSite& site) { return site.classifier; });
  return last_ramp ? std::max(of_sites, last_ramp->classifier + 1) : of_sites;
}

}  // namespace exeunt
