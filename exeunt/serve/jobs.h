// SPDX-License-Identifier: Apache-2.0
// Requests that run texts, from the body to the answer: admission, reading, deadlines, the engine. The network thread
// calls everything here; the engine's threads and those that parse large bodies only post what they finished.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/thread_pool.hpp>

#include "exeunt/serve/active_request.h"
#include "exeunt/serve/admission.h"
#include "exeunt/serve/canary.h"
#include "exeunt/serve/protocols.h"
#include "exeunt/serve/served_policies.h"
#include "exeunt/serve/service_context.h"
#include "exeunt/serve/shadow.h"

namespace exeunt::serve {

// Several, so that one large body does not delay the next.
inline constexpr int kParserThreads = 4;

struct JobOptions {
  AdmissionLimits admission = {};
  size_t max_client_batch = 32;
  bool auto_truncate = true;
  std::chrono::milliseconds request_timeout{30'000};
};

// A request before its admission; `active` is set by it.
struct Incoming {
  RequestInfo info;
  Reply reply;
  std::shared_ptr<ActiveRequest> active = {};
};

class Jobs {
 public:
  struct Parts {
    ServiceContext& context;
    ServedPolicies& policies;
    Canary& canary;
    Shadow& shadow;
    // Called for every response.
    std::function<void(HttpResponse&, const RequestInfo&)> complete_response;
  };
  Jobs(Parts parts, const JobOptions& options) : parts_(std::move(parts)), options_(options) {}

  // Admits the request, and answers it now or later. Throws Refusal if it is not admitted.
  void start(HttpRequest& request, Incoming& incoming, ParseJob parser);
  // The client has disconnected: cancels its texts, and nothing is answered.
  void abandon(const std::shared_ptr<ActiveRequest>& request);

  [[nodiscard]] const Admission& admission() const noexcept { return admission_; }
  [[nodiscard]] Admission& admission() noexcept { return admission_; }
  [[nodiscard]] Refusal overloaded(std::string_view of);                          // counts it, too
  [[nodiscard]] Clock::time_point wake_at() const noexcept;                       // the next deadline
  [[nodiscard]] size_t unanswered() const noexcept { return deadlines_.size(); }  // whose clients still wait
  void wake(Clock::time_point now);

 private:
  using Request = std::shared_ptr<ActiveRequest>;

  void parse_on_worker(const Request& request, std::string&& body, ParseJob parser);
  void parse(ActiveRequest& request, std::string_view body, ParseJob parser) const noexcept;
  void run_parsed(const Request& request);
  void set_deadline(const Request& request);
  void submit(const Request& request);
  [[nodiscard]] Encoding encode(ActiveRequest& request, size_t nth) const;
  static void text_done(TextOutcome& outcome, Answer&& answer) noexcept;
  void texts_done(const Request& request) noexcept;
  void finish(const Request& request);
  [[nodiscard]] Reply take_reply(ActiveRequest& request);
  void answer(ActiveRequest& request, HttpResponse&& response);
  void log_failures(const ActiveRequest& request);
  void count_texts(const ActiveRequest& request);
  void warn_of_truncation();

  Parts parts_;
  JobOptions options_;
  Admission admission_{options_.admission};
  Deadlines deadlines_ = {};
  boost::asio::thread_pool parsers_{kParserThreads};  // of large bodies; last, so that they end before what they use
};

}  // namespace exeunt::serve
