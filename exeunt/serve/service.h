// SPDX-License-Identifier: Apache-2.0
// The server without its sockets: routes, keys, pages, and what every response carries and is counted by. One thread,
// the network thread, calls everything here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/serve/api_key.h"
#include "exeunt/serve/jobs.h"

namespace exeunt::serve {

struct ServiceOptions {
  JobOptions jobs = {};
  ShadowOptions shadow = {};
  std::vector<std::string> cors_origins = {};  // "*" = any
  bool tei_metrics = false;
  bool log_requests = true;
  uint64_t seed = 1;                                      // of request ids
  std::string precision = {}, engine = {}, weights = {};  // for /info
};

class Service {
 public:
  Service(ServiceContext context, PolicySettings policies, ServiceOptions options);  // throws Error
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Answers a request, now or later. The result, if any, may be given to `abandon`.
  std::shared_ptr<ActiveRequest> handle(HttpRequest&& request, Reply reply);
  // The client has gone: what waits is dropped, and nothing is answered.
  void abandon(const std::shared_ptr<ActiveRequest>& request) { jobs_.abandon(request); }
  // The response to bytes that are no request (framing), or to one that came too slowly.
  [[nodiscard]] HttpResponse refuse(const Refusal& refusal);

  void use_keys(ApiKeys keys) { keys_ = std::move(keys); }
  void drain() noexcept;
  [[nodiscard]] bool draining() const noexcept { return draining_; }
  [[nodiscard]] size_t in_flight() const noexcept { return jobs_.admission().requests(); }

  // When `wake` wants to be called next: deadlines, the canary, the load.
  [[nodiscard]] Clock::time_point wake_at() const;
  void wake(Clock::time_point now);

  // The network thread goes on after a failure that it could lay at no request's door.
  void note_interruption(const char* why) noexcept;

  [[nodiscard]] Metrics& metrics() noexcept { return context_.metrics; }
  [[nodiscard]] bool healthy() const noexcept { return canary_.healthy(); }

 private:
  using Answered = std::optional<HttpResponse>;

  Answered route(HttpRequest& request, Incoming& incoming);
  Answered route_get(const HttpRequest& request) const;
  Answered route_oip(HttpRequest& request, Incoming& incoming);
  [[nodiscard]] HttpResponse health(bool ready) const;
  [[nodiscard]] HttpResponse metrics_page() const;
  [[nodiscard]] HttpResponse info_page() const;
  void seal(HttpResponse& response, const RequestInfo& info);
  RequestInfo info_of(const HttpRequest& request);

  ServiceContext context_;
  ServiceOptions options_;
  ServedPolicies policies_;
  ApiKeys keys_ = {};
  IdSource ids_;
  Clock::time_point started_;
  bool draining_ = false;
  Canary canary_;
  Shadow shadow_;
  Jobs jobs_;  // last: its thread uses all of the above
};

}  // namespace exeunt::serve
