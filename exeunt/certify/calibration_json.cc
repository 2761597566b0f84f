// SPDX-License-Identifier: Apache-2.0
// What `calibrate --json` and the C interface tell of a calibration.
#include "exeunt/certify/calibrate.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

OrderedJson interval_json(const std::optional<LossInterval>& interval) {
  return interval ? OrderedJson{interval->low, interval->high} : OrderedJson(nullptr);
}

OrderedJson group_json(const GroupOutcome& group, bool reported) {
  OrderedJson out{{"name", group.name}, {"rows", group.rows}, {"losses", group.losses}};
  if (!reported) return out;
  out["report_rows"] = group.report_rows;
  out["report_risk"] = group.report;
  out["report_interval"] = interval_json(group.interval);
  return out;
}

}  // namespace

OrderedJson outcome_json(const DropOutcome& outcome) {
  OrderedJson out;
  out["policy"] = str(outcome.policy);
  out["max_drop"] = outcome.max_drop;
  out["losses"] = outcome.losses;
  out["p_value"] = outcome.p_value;
  out["certify_cost_fraction"] = outcome.certify_cost;
  out["certify_risk"] = outcome.certify;
  out["report_cost_fraction"] = outcome.report_cost;
  out["report_risk"] = outcome.report;
  out["report_interval"] = interval_json(outcome.interval);
  const FrequentTexts& frequent = outcome.frequent;
  if (frequent.texts > 0)
    out["frequent"] = {{"texts", frequent.texts},
                       {"share", frequent.share},
                       {"lost", frequent.lost},
                       {"lost_share", frequent.lost_share},
                       {"lost_rows", frequent.lost_rows}};
  const bool reported = outcome.interval.has_value();
  for (const GroupOutcome& group : outcome.groups) out["groups"].push_back(group_json(group, reported));
  for (const GroupOutcome& exit : outcome.exits) {
    out["exits"].push_back(group_json(exit, reported));
    out["exits"].back()["upper_bound"] = exit.interval.high;
  }
  if (outcome.others) out["others"] = group_json(*outcome.others, reported);
  return out;
}

OrderedJson trials_json(const std::vector<FamilyTrial>& trials) {
  OrderedJson out = OrderedJson::array();
  for (const FamilyTrial& trial : trials)
    out.push_back({{"family", trial.family}, {"cost_fraction", trial.cost_fraction}});
  return out;
}

}  // namespace exeunt
