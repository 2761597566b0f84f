// SPDX-License-Identifier: Apache-2.0
// A request between its arrival and its answer. Its texts run on threads of the engine, each filling in its own
// outcome; the one that ends last composes the response there, so that the network thread only sends it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exeunt/engine/engine.h"
#include "exeunt/serve/http_message.h"
#include "exeunt/serve/protocols.h"

namespace exeunt::serve {

using Reply = std::function<void(HttpResponse&&)>;  // called once, by the network thread

// What names a request in logs and headers, and when it came.
struct RequestInfo {
  std::string id = {}, method = {}, path = {}, origin = {}, peer = {};
  TraceContext trace = {};
  Clock::time_point begun = {};
};

struct TextOutcome {
  Answer answer = {};
  std::optional<Refusal> refusal = {};  // the text cannot be run
  size_t cut = 0;                       // tokens beyond the model's limit
  Clock::time_point started = {}, tokenized = {}, done = {};
};

struct ActiveRequest;
using Deadlines = std::multimap<Clock::time_point, std::weak_ptr<ActiveRequest>>;

struct ActiveRequest {
  RequestInfo info = {};
  Job job = {};
  std::shared_ptr<const BoundPolicy> policy = {};
  bool default_policy = false;  // the policy was ours, not the client's
  Deadline deadline = kNoDeadline;
  size_t bytes = 0;                     // of the body, for admission
  std::atomic<bool> cancelled = false;  // answered or abandoned: its body need not be parsed
  std::exception_ptr failure = {};      // of reading the body or of composing the response
  std::vector<TextOutcome> outcomes = {};
  HttpResponse response = {};  // composed by the last one to finish
  // Below: the network thread's alone.
  Reply reply = {};
  Ticket ticket = {};                       // of all its texts
  Deadlines::iterator deadline_entry = {};  // until it is answered
  bool answered = false;
};

// The tokens of one text; a Refusal for one that is too long and may not be truncated. Runs on a thread of the engine.
[[nodiscard]] Encoding encode_text(const Job& job, size_t nth, const ModelFacts& model, const Tokenizer& tokenizer);
// Why no promise is about the answer to a text, whichever exit gave it; `cut`: its tokens beyond the limit. Null: one
// is.
[[nodiscard]] const char* beyond_promise(const Job& job, size_t cut) noexcept;
// How many tokens of a text that was truncated are not in `kept`, up to kMaxCountedTokens: counting them takes the time
// of tokenizing them.
inline constexpr int kMaxCountedTokens = 1 << 16;
[[nodiscard]] size_t count_cut_tokens(const Job& job, size_t nth, const Encoding& kept, const Tokenizer& tokenizer);

// From the engine's answers to the body of a response, in the form that its protocol has.
struct RenderInput {
  const Job& job;
  const ModelFacts& model;
  std::span<const Answer> answers;      // one per text, each of which reached an exit
  const BoundPolicy* policy = nullptr;  // null: full depth
  std::string_view request_id = {};
  std::span<const size_t> cut = {};  // tokens truncated, one number per text; empty: none
};

[[nodiscard]] std::string render(const RenderInput& input);

// By default as text-embeddings-inference gives them: probabilities, or the sigmoid of a single output.
[[nodiscard]] std::vector<float> scores_of(const Answer& answer, Scoring scoring = Scoring::native);

// The response to a request all of whose texts have ended. `compute`: x-compute-type.
[[nodiscard]] HttpResponse compose(const ActiveRequest& request, const ModelFacts& model, const std::string& compute);

}  // namespace exeunt::serve
