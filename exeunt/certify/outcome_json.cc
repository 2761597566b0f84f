// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/outcome_json.h"

#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

OrderedJson rates_json(const Rates& rates) {
  return {{"texts", rates.texts}, {"requests", rates.requests}};
}

OrderedJson interval_json(const std::optional<LossInterval>& interval) {
  return interval ? OrderedJson{interval->low, interval->high} : OrderedJson(nullptr);
}

}  // namespace

OrderedJson outcome_json(const DropOutcome& outcome) {
  OrderedJson out;
  out["policy"] = str(outcome.policy);
  out["max_drop"] = outcome.max_drop;
  out["losses"] = outcome.losses;
  out["p_value"] = outcome.p_value;
  out["certify_cost_fraction"] = outcome.certify_cost;
  out["certify_risk"] = rates_json(outcome.certify);
  out["report_cost_fraction"] = outcome.report_cost;
  out["report_risk"] = rates_json(outcome.report);
  out["report_interval"] = interval_json(outcome.interval);
  for (const GroupOutcome& group : outcome.groups) {
    OrderedJson one{{"name", group.name}, {"rows", group.rows}, {"losses", group.losses}};
    if (outcome.interval) {
      one["report_rows"] = group.report_rows;
      one["report_risk"] = rates_json(group.report);
      one["report_interval"] = interval_json(group.interval);
    }
    out["groups"].push_back(std::move(one));
  }
  return out;
}

OrderedJson trials_json(const std::vector<FamilyTrial>& trials) {
  OrderedJson out = OrderedJson::array();
  for (const FamilyTrial& trial : trials)
    out.push_back({{"family", trial.family}, {"cost_fraction", trial.cost_fraction}});
  return out;
}

}  // namespace exeunt
