// SPDX-License-Identifier: Apache-2.0
#include "exeunt/flows/test_answers.h"

#include <algorithm>

#include "exeunt/flows/make_trace.h"
#include "exeunt/model/cost.h"

namespace exeunt {
namespace {

bool reads_all_rows(const ExitLayout& layout, const ExitSite& site) {
  return site.reader.has_value() || layout.input != PoolInput::cls;
}

}  // namespace

TestRun answer_test(const Checkpoint& model, const ExitTrace& trace, const Task& task, const PolicySpec& policy) {
  const ExitLayout& layout = model.exits();
  const ExitSites sites = exit_sites(layout);
  const Policy bound = bind(policy, sites);
  TestRun out;
  out.run.answers = {.task = &task, .labels = layout.labels, .predicted = {}};
  out.run.hidden = model.spec().hidden;
  for (int i = 0; i < bound.count; ++i) {
    const ExitSite& site = layout.sites[static_cast<size_t>(bound.site[i])];
    out.run.exits.push_back({.after = site.after, .reads_all_rows = reads_all_rows(layout, site)});
  }
  Replayer replayer(trace);
  const Departures departures = replayer.run(policy);
  for (size_t row = 0; row < trace.rows; ++row) {
    const auto logits = replayer.answer(departures, row);
    const auto best = static_cast<float>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    out.run.answers.predicted.push_back(trace.info.regression ? logits[0] : best);
    out.run.tokens.push_back(trace.lengths[row]);
    out.run.layers.push_back(sites.layers[departures.exit[row]]);
  }
  const Scorer scorer(
      trace, {.mflops = [&](int exit, int tokens, const std::vector<int>& evaluated) {
        const int after = layout.sites.at(static_cast<size_t>(exit)).after;
        return mflops(departure_macs(model.spec(), layout, {.after = after, .tokens = tokens, .evaluated = evaluated}));
      }});
  out.score = scorer.score(policy, departures);
  return out;
}

}  // namespace exeunt
