// SPDX-License-Identifier: Apache-2.0
// A request between its admission and its answer. Its texts run on threads of the engine, each filling in its own
// place; the one that ends last composes the response there, so that the network thread only sends it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exeunt/runtime/engine.h"
#include "exeunt/serve/http_message.h"
#include "exeunt/serve/job.h"
#include "exeunt/serve/refusal.h"
#include "exeunt/serve/trace_context.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::serve {

using Reply = std::function<void(HttpResponse&&)>;  // called once, by the network thread

// What runs texts: an Engine, or in tests something that plays one.
struct Runner {
  std::function<Ticket(Engine::MakeEncoding, const Ask&, Engine::Done)> submit;
  std::function<std::shared_ptr<const AskPolicy>(const PolicySpec&, std::vector<float>)>
      bind;  // exit rates or none; throws Error
  const Tokenizer* tokenizer = nullptr;
  std::string compute = "cpu";  // x-compute-type
};

// How a request is called in logs and headers, and when it came.
struct RequestNote {
  std::string id = {}, method = {}, path = {}, origin = {};
  TraceContext trace = {};
  Clock::time_point begun = {};
};

struct TextRun {
  Answer answer = {};
  std::optional<Refusal> refusal = {};  // the text cannot be taken
  Clock::time_point started = {}, tokenised = {}, done = {};
};

struct Running;
using Deadlines = std::multimap<Clock::time_point, std::weak_ptr<Running>>;

struct Running {
  RequestNote note = {};
  Job job = {};
  std::shared_ptr<const AskPolicy> policy = {};
  bool by_default = false;  // the policy was ours, not the client's
  Deadline deadline = kNoDeadline;
  size_t bytes = 0;                 // of the body, for admission
  std::exception_ptr failure = {};  // its body could not be read
  std::vector<TextRun> runs = {};
  std::atomic<size_t> left = 0;
  HttpResponse response = {};  // composed by whoever ends last
  // Below: the network thread's alone.
  Reply reply = {};
  std::vector<Ticket> tickets = {};
  Deadlines::iterator alarm = {};  // until it is answered
  bool answered = false;
};

// The tokens of one text; a Refusal for one that is too long and may not be cut. Called on a thread of the engine.
[[nodiscard]] Encoding encode_text(const Job& job, size_t nth, const ModelFacts& model, const Tokenizer& tokenizer);

// The response to a request all of whose texts have ended.
[[nodiscard]] HttpResponse compose(const Running& running, const ModelFacts& model, const std::string& compute);

}  // namespace exeunt::serve
