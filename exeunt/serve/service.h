// SPDX-License-Identifier: Apache-2.0
// The server without its sockets: routes, keys, pages, and the headers, counters and log of every response. Used by the
// network thread alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/serve/access_control.h"
#include "exeunt/serve/jobs.h"

namespace exeunt {

// A file of web/ built into the server by cmake/embed.cmake: "playground.html", "openapi.json"; empty if there is none.
[[nodiscard]] std::string_view serve_asset(std::string_view name) noexcept;

}  // namespace exeunt

namespace exeunt::serve {

struct ServiceOptions {
  JobOptions jobs = {};
  ShadowOptions shadow = {};
  AccessOptions access = {};
  bool tei_metrics = false;
  bool log_requests = true;
  bool log_peers = true;
  uint64_t seed = 1;                                      // of request ids
  std::string precision = {}, engine = {}, weights = {};  // for /info; no weights: not hashed
  std::optional<JobText> example = {};  // a text like those the model learned from, for the playground
};

class Service {
 public:
  Service(ServiceContext context, PolicySettings policies, ServiceOptions options);  // throws Error
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Decides by the head alone whether a body will be read: nothing, or the response to send instead. `declared`: its
  // Content-Length, if any.
  [[nodiscard]] std::optional<HttpResponse> refuse_body(const HttpRequest& head, size_t declared);
  // The bytes of that body, charged as they arrive; released before `handle`, which charges them as a whole.
  [[nodiscard]] std::unique_ptr<HeldBytes> begin_body() { return std::make_unique<HeldBytes>(jobs_.admission()); }
  // `close_slowest` makes room for a response, or returns false.
  void make_room_by(std::function<bool()> close_slowest) { close_slowest_ = std::move(close_slowest); }
  // Answers a request, now or later. The result, if any, may be passed to `abandon`.
  std::shared_ptr<ActiveRequest> handle(HttpRequest&& request, Reply reply);
  // The client has disconnected: cancels its texts, and nothing is answered.
  void abandon(const std::shared_ptr<ActiveRequest>& request) { jobs_.abandon(request); }
  // The response to a malformed request, or to one that arrived too slowly.
  [[nodiscard]] HttpResponse refuse(const Refusal& refusal, const std::string& peer = {});
  // For a body that arrives while others take all the memory allowed.
  [[nodiscard]] Refusal no_room_for_body() { return jobs_.overloaded("bytes"); }

  [[nodiscard]] bool has_key(const HttpRequest& request) const {
    return keys_.required() && keys_.allow(request.field("authorization"));
  }
  void use_keys(ApiKeys keys) { keys_ = std::move(keys); }
  // The hash of the weights, or why they are not those that the policies were made for; see ServedPolicies.
  void weights_hashed(std::string sha256, const std::string& error);
  void drain() noexcept;
  // To be called before the engines of shadow runs are destroyed.
  void end_shadows() noexcept { shadow_.end(); }
  [[nodiscard]] bool draining() const noexcept { return draining_; }
  [[nodiscard]] size_t bytes_held() const noexcept { return jobs_.admission().bytes(); }
  [[nodiscard]] size_t in_flight() const noexcept { return jobs_.admission().requests(); }
  [[nodiscard]] size_t unanswered() const noexcept { return jobs_.unanswered(); }

  // When to call `wake` next: deadlines, canary, load level.
  [[nodiscard]] Clock::time_point wake_at() const;
  void wake(Clock::time_point now);

  // Counts and logs a failure of the network thread that belongs to no request.
  void note_interruption(const char* why) noexcept;

  [[nodiscard]] Metrics& metrics() noexcept { return context_.metrics; }
  [[nodiscard]] bool healthy() const noexcept { return canary_.healthy(); }

 private:
  using Answered = std::optional<HttpResponse>;

  void check_access(const HttpRequest& request);
  Answered route(HttpRequest& request, Incoming& incoming);
  Answered route_get(const HttpRequest& request) const;
  Answered route_oip(HttpRequest& request, Incoming& incoming);
  [[nodiscard]] HttpResponse health(bool ready) const;
  [[nodiscard]] HttpResponse metrics_page() const;
  [[nodiscard]] std::string fixed_info() const;
  [[nodiscard]] HttpResponse info_page() const;
  [[nodiscard]] HttpResponse models_page() const;
  [[nodiscard]] bool admit_response(HttpResponse& response);
  void complete_response(HttpResponse& response, const RequestInfo& info);
  RequestInfo info_of(const HttpRequest& request);

  ServiceContext context_;
  ServiceOptions options_;
  ServedPolicies policies_;
  std::string fixed_info_;
  ApiKeys keys_ = {};
  IdSource ids_;
  Clock::time_point started_;
  int64_t created_ = std::chrono::duration_cast<std::chrono::seconds>(  // for clients: seconds since 1970
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  bool draining_ = false;
  std::function<bool()> close_slowest_ = {};
  Canary canary_;
  Shadow shadow_;
  Jobs jobs_;  // last: its thread uses all of the above
};

}  // namespace exeunt::serve
