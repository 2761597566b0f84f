// SPDX-License-Identifier: Apache-2.0
#include "exeunt/predict/predict.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <memory>

#include "exeunt/base/error.h"
#include "exeunt/base/number.h"

namespace exeunt {
namespace {

// Enough for every thread to find work while the oldest text still runs, little enough to keep in memory.
constexpr size_t kWindowPerThread = 64;

// A text on its way. The engine's thread writes `truncated` before it fulfils `answer`.
struct Waiting {
  TextRow row = {};
  bool truncated = false, blank = false;
  std::promise<Answer> answer = {};
};

[[noreturn]] void refuse_empty(const TextRow& row) {
  throw Error(Code::bad_file, fmt::format("{}: got an empty text, want at least one word", row.place),
              "remove the row");
}

class Stream {
 public:
  Stream(Engine& engine, const Tokenizer& tokenizer, const PredictPlan& plan)
      : engine_(engine),
        tokenizer_(tokenizer),
        plan_(plan),
        window_(kWindowPerThread * static_cast<size_t>(engine.threads())) {}

  // An Error leaves texts in flight; they still write to what is waited for, and read the tokenizer.
  ~Stream() {
    for (const Ticket& ticket : tickets_) ticket.cancel();
    for (const auto& [waiting, future] : waiting_) future.wait();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  PredictCounts run() {
    for (TextRow row; plan_.next(row);) {
      ++counts_.rows;
      if (!plan_.shard.has(row.index)) continue;
      const bool blank = is_blank(row.text, row.pair);
      if (blank && !plan_.answer_blank) refuse_empty(row);
      if (waiting_.size() >= window_) finish_oldest();
      blank ? pass(std::move(row)) : submit(std::move(row));
      while (!waiting_.empty() && ready(waiting_.front().second)) finish_oldest();
      row = {};
    }
    while (!waiting_.empty()) finish_oldest();
    return counts_;
  }

 private:
  static bool ready(const std::future<Answer>& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  // A row without a text keeps its place among the answers.
  void pass(TextRow&& row) {
    auto waiting = std::make_shared<Waiting>();
    waiting->row = std::move(row);
    waiting->blank = true;
    waiting->answer.set_value({});
    waiting_.emplace_back(waiting, waiting->answer.get_future());
    tickets_.emplace_back();
  }

  void submit(TextRow&& row) {
    auto waiting = std::make_shared<Waiting>();
    waiting->row = std::move(row);
    waiting_.emplace_back(waiting, waiting->answer.get_future());
    tickets_.push_back(engine_.submit(
        [waiting, this] {
          Encoding encoding = tokenizer_.encode(waiting->row.text, waiting->row.pair, plan_.encode);
          waiting->truncated = encoding.truncated;
          return encoding;
        },
        plan_.ask, [waiting](Answer&& answer) { waiting->answer.set_value(std::move(answer)); }));
  }

  void finish_oldest() {
    auto [waiting, future] = std::move(waiting_.front());
    waiting_.pop_front();
    tickets_.pop_front();
    Prediction out{.index = waiting->row.index, .answer = future.get(), .kept = std::move(waiting->row.kept)};
    if (waiting->blank) {
      out.blank = true;
      ++counts_.blank;
      return plan_.answered(out);
    }
    out.truncated = waiting->truncated;
    if (out.answer.stop_reason == StopReason::failed) {
      throw_bad_file(waiting->row.place, "{}", out.answer.error);
    }
    if (out.truncated && plan_.strict) {
      throw Error(Code::bad_file,
                  fmt::format("{}: the text is longer than {} tokens", waiting->row.place, plan_.encode.max_length),
                  "shorten it, raise --max-length, or omit --strict to truncate it");
    }
    counts_.truncated += out.truncated ? 1 : 0;
    counts_.layers += out.answer.layer;
    ++counts_.answered;
    plan_.answered(out);
  }

  Engine& engine_;
  const Tokenizer& tokenizer_;
  const PredictPlan& plan_;
  size_t window_;
  PredictCounts counts_ = {};
  std::deque<std::pair<std::shared_ptr<Waiting>, std::future<Answer>>> waiting_ = {};
  std::deque<Ticket> tickets_ = {};
};

}  // namespace

Shard parse_shard(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto number = number_of<int>(text.substr(0, slash));
  const auto of = number_of<int>(text.substr(std::min(slash + 1, text.size())));
  if (number && of && *number >= 1 && *number <= *of) return {.number = *number, .of = *of};
  throw Error(Code::usage, fmt::format("--shard: got '{}', want i/n with i from 1 to n", text), "for example 2/8");
}

PredictCounts predict(Engine& engine, const Tokenizer& tokenizer, const PredictPlan& plan) {
  return Stream(engine, tokenizer, plan).run();
}

}  // namespace exeunt
