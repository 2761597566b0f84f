// SPDX-License-Identifier: Apache-2.0
// The server without its sockets: routes, keys, admission, running texts, and the answers. One thread, the network
// thread, calls everything here; the engine's threads and the one that reads large bodies only hand over what they
// finished, through `post`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "exeunt/base/json.h"
#include "exeunt/serve/access_log.h"
#include "exeunt/serve/admission.h"
#include "exeunt/serve/api_key.h"
#include "exeunt/serve/http_message.h"
#include "exeunt/serve/job.h"
#include "exeunt/serve/load_controller.h"
#include "exeunt/serve/metrics.h"
#include "exeunt/serve/promise_watch.h"
#include "exeunt/serve/running.h"
#include "exeunt/serve/served_policies.h"
#include "exeunt/serve/trace_context.h"
#include "exeunt/serve/work_thread.h"

namespace exeunt::serve {

struct ServiceOptions {
  AdmissionLimits admission = {};
  size_t max_client_batch = 32;
  bool auto_truncate = true;
  std::chrono::milliseconds request_timeout{30'000};
  std::vector<std::string> cors_origins = {};  // "*" = any
  bool tei_metrics = false;
  bool log_requests = true;
  double shadow_share = 0;  // of the texts answered by the default policy
  bool tighten_on_alarm = false;
  uint64_t seed = 1;                                      // of request ids and of the shadow's draw
  std::string precision = {}, engine = {}, weights = {};  // for /info
};

struct ServiceParts {
  ModelFacts model;
  Runner runner;
  PolicySettings policies;
  std::function<void(std::function<void()>)> post;  // runs it on the network thread; callable from any thread
  Log log;
  std::function<bool()> enough_memory = {};  // none: always
};

class Service {
 public:
  Service(ServiceParts parts, ServiceOptions options);  // throws Error
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Answers a request, now or later. The result, if any, may be given to `abandon`.
  std::shared_ptr<Running> handle(HttpRequest&& request, Reply reply);
  // The client has gone: what waits is dropped, and nothing is answered.
  void abandon(const std::shared_ptr<Running>& running);
  // The response to bytes that are no request (framing), or to one that came too slowly.
  [[nodiscard]] HttpResponse refuse(const Refusal& refusal);

  void use_keys(ApiKeys keys) { keys_ = std::move(keys); }
  void drain() noexcept { draining_ = true; }
  [[nodiscard]] bool draining() const noexcept { return draining_; }
  [[nodiscard]] size_t in_flight() const noexcept { return admission_.requests(); }

  // When `wake` wants to be called next: deadlines, the canary, the controller.
  [[nodiscard]] Clock::time_point wake_at() const;
  void wake(Clock::time_point now);

  // The network thread goes on after a failure that it could lay at no request's door.
  void note_interruption(const char* why) noexcept;

  [[nodiscard]] Metrics& metrics() noexcept { return metrics_; }
  [[nodiscard]] bool healthy() const noexcept { return canary_failures_ < 2; }

 private:
  using Answered = std::optional<HttpResponse>;
  struct Context {
    RequestNote note;
    Reply reply;
    std::shared_ptr<Running> running = {};
  };

  Answered route(HttpRequest& request, Context& context);
  Answered route_get(const HttpRequest& request) const;
  Answered route_oip(HttpRequest& request, Context& context);
  [[nodiscard]] HttpResponse health(bool ready) const;
  [[nodiscard]] HttpResponse metrics_page() const;
  [[nodiscard]] HttpResponse info_page() const;
  using Parse = Job (*)(const Json&, const JobRules&);
  Answered start(HttpRequest& request, Context& context, Parse parse);
  void read_elsewhere(const std::shared_ptr<Running>& running, std::string&& body, Parse parse);
  void read_job(Running& running, std::string_view body, Parse parse) const noexcept;
  void begin(const std::shared_ptr<Running>& running);
  void set_alarm(const std::shared_ptr<Running>& running);
  [[nodiscard]] Reply close(Running& running);
  void answer(Running& running, HttpResponse&& response);
  [[nodiscard]] Refusal too_much(std::string_view of);
  [[nodiscard]] HttpResponse response_to_exception(const RequestNote& note) const;
  void submit(const std::shared_ptr<Running>& running);
  void finish(const std::shared_ptr<Running>& running);
  void log_failures(const Running& running);
  void seal(HttpResponse& response, const RequestNote& note);
  void count_texts(const Running& running);
  void maybe_shadow(const std::shared_ptr<Running>& running);
  void shadow_text(const std::shared_ptr<Running>& running, size_t nth);
  void run_canary(Clock::time_point now);
  [[nodiscard]] const std::shared_ptr<const AskPolicy>& default_policy() const;
  RequestNote note_of(const HttpRequest& request);

  // Counting and logging for which there is no memory are left out: the answer counts.
  template <class Work>
  static void spare(const Work& work) noexcept {
    try {
      work();
    } catch (const std::exception&) {
    }
  }
  // From a thread that is not the network's. An answer must not get lost for want of memory, so this waits for some.
  template <class Work>
  void hand_over(const Work& work) const noexcept {
    while (true) {
      try {
        return post_(work);
      } catch (const std::bad_alloc&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

  ModelFacts model_;
  Runner runner_;
  std::function<void(std::function<void()>)> post_;
  Log log_;
  std::function<bool()> enough_memory_;
  ServiceOptions options_;
  ServedPolicies policies_;
  ApiKeys keys_ = {};
  Admission admission_;
  LoadController controller_;
  PromiseWatch watch_;
  Metrics metrics_ = {};
  IdSource ids_;
  Deadlines deadlines_ = {};
  Clock::time_point started_, last_good_, next_canary_, next_control_;
  uint64_t canary_round_ = 0;
  std::optional<Clock::time_point> canary_since_ = {};
  int canary_failures_ = 0;
  double shadow_due_ = 0;
  size_t shadows_running_ = 0;
  uint64_t shadows_skipped_ = 0;
  bool draining_ = false, alarmed_ = false, tightened_ = false;
  WorkThread reader_ = {};  // of large bodies; last, so that it ends before what it uses
};

}  // namespace exeunt::serve
