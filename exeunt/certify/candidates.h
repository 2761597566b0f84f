// SPDX-License-Identifier: Apache-2.0
// Settings of one family of policies, ordered from safest to boldest by their results on data set aside for that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exeunt/certify/losses.h"

namespace exeunt {

struct Candidate {
  PolicySpec policy;
  double risk = 0;  // mean loss on the fit part
  double cost_fraction = 1;
};

struct FamilyScope {
  ExitSites sites;
  std::vector<int> exits;          // evaluated; empty = all
  std::vector<float> temperature;  // one per exit of the model; empty = 1
  float range = 0;                 // of regression labels
};

// Decreasing cost, increasing risk; the first is full depth. Of settings that cost about the same, the one with the
// least risk is kept; settings that another beats in both are dropped. Throws Error (usage) for a family that does not
// suit the model.
[[nodiscard]] std::vector<Candidate> order_candidates(std::string_view family, const FamilyScope& scope,
                                                      LossMeter& fit);

// Families that fit the model and rank its texts differently: those that calibration tries by default, or
// every one.
enum class Families { usual, all };
[[nodiscard]] std::vector<std::string> families_for(const ExitSites& sites, Families which);

}  // namespace exeunt
