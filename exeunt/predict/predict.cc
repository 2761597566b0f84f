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

// A text in flight. The engine's thread writes `truncated` before it fulfils `promise`.
struct Waiting {
  TextRow row = {};
  bool truncated = false, blank = false;
  std::promise<Answer> promise = {};
  std::future<Answer> answer = promise.get_future();
  Ticket ticket = {};
};

[[noreturn]] void refuse_empty(const TextRow& row) {
  throw Error(Code::bad_file, fmt::format("{}: got an empty text, want at least one word", row.place),
              "remove the row");
}

class Stream {
 public:
  Stream(Classifier& classifier, const PredictPlan& plan)
      : classifier_(classifier),
        plan_(plan),
        window_(kWindowPerThread * static_cast<size_t>(classifier.engine().threads())) {}

  // An Error leaves texts in flight, which still read the tokenizer.
  ~Stream() {
    for (const auto& waiting : waiting_) waiting->ticket.cancel();
    for (const auto& waiting : waiting_) waiting->answer.wait();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  PredictCounts run() {
    for (TextRow row; plan_.next(row);) {
      ++counts_.rows;
      if (!plan_.shard.has(row.index)) continue;
      if (waiting_.size() >= window_) finish_oldest();
      submit(std::move(row));
      while (!waiting_.empty() && ready(waiting_.front()->answer)) finish_oldest();
      row = {};
    }
    while (!waiting_.empty()) finish_oldest();
    return counts_;
  }

 private:
  static bool ready(const std::future<Answer>& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  void submit(TextRow&& row) {
    const auto text = std::make_shared<Waiting>();
    text->blank = is_blank(row.text, row.pair);
    if (text->blank && !plan_.answer_blank) refuse_empty(row);
    text->row = std::move(row);
    const auto encode = [text, this] {
      Encoding encoding = classifier_.tokenizer().encode(text->row.text, text->row.pair, encode_);
      text->truncated = encoding.truncated;
      return encoding;
    };
    const auto done = [text](Answer&& answer) { text->promise.set_value(std::move(answer)); };
    if (text->blank) {
      done({});
    } else {
      text->ticket = classifier_.engine().submit(encode, ask_, done);
    }
    waiting_.push_back(text);  // a blank one, too: it keeps its place among the answers
  }

  void finish_oldest() {
    const std::shared_ptr<Waiting> text = std::move(waiting_.front());
    waiting_.pop_front();
    Prediction out{.index = text->row.index, .blank = text->blank, .answer = text->answer.get()};
    out.kept = std::move(text->row.kept);
    if (out.blank) {
      ++counts_.blank;
      return plan_.answered(out);
    }
    out.truncated = text->truncated;
    if (out.answer.stop_reason == StopReason::failed) {
      throw_bad_file(text->row.place, "{}", out.answer.error);
    }
    if (out.truncated && plan_.strict) {
      throw Error(Code::bad_file,
                  fmt::format("{}: the text is longer than {} tokens", text->row.place, encode_.max_length),
                  "shorten it, raise --max-length, or omit --strict to truncate it");
    }
    counts_.truncated += out.truncated ? 1 : 0;
    counts_.layers += out.answer.layer;
    ++counts_.answered;
    plan_.answered(out);
  }

  Classifier& classifier_;
  const Ask ask_ = classifier_.ask();
  const EncodeOptions encode_ = classifier_.encode_options();
  const PredictPlan& plan_;
  size_t window_;
  PredictCounts counts_ = {};
  std::deque<std::shared_ptr<Waiting>> waiting_ = {};
};

}  // namespace

Shard parse_shard(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto number = number_of<int>(text.substr(0, slash));
  const auto of = number_of<int>(text.substr(std::min(slash + 1, text.size())));
  if (number && of && *number >= 1 && *number <= *of) return {.number = *number, .of = *of};
  throw Error(Code::usage, fmt::format("--shard: got '{}', want i/n with i from 1 to n", text), "for example 2/8");
}

PredictCounts predict(Classifier& classifier, const PredictPlan& plan) {
  return Stream(classifier, plan).run();
}

}  // namespace exeunt
