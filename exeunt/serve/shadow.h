// SPDX-License-Identifier: Apache-2.0
// Shadow runs: some texts answered by the default policy also run to full depth, after their response, to monitor its
// certificate. Used by the network thread alone.
#pragma once

#include "exeunt/serve/active_request.h"
#include "exeunt/serve/promise_watch.h"
#include "exeunt/serve/served_policies.h"
#include "exeunt/serve/service_context.h"

namespace exeunt::serve {

struct ShadowOptions {
  double share = 0;               // of the texts answered by the default policy
  bool tighten_on_alarm = false;  // full depth once the certificate no longer holds
};

class Shadow {
 public:
  Shadow(ServiceContext& context, ServedPolicies& policies, const ShadowOptions& options);

  // Reruns every 1/share-th text, unless the queue is more than half full: clients come first.
  void sample(const std::shared_ptr<const ActiveRequest>& request, double fill);
  void stop() noexcept { options_.share = 0; }
  void report(Metrics::Now& now) const;

 private:
  void run(const std::shared_ptr<const ActiveRequest>& request, size_t nth);
  [[nodiscard]] double loss(const Answer& early, const Answer& full) const;
  void record(double loss);

  ServiceContext& context_;
  ServedPolicies& policies_;
  ShadowOptions options_;
  PromiseWatch watch_;
  double due_ = 0;
  size_t running_ = 0;
  uint64_t skipped_ = 0;
  bool alarm_ = false;
};

}  // namespace exeunt::serve
