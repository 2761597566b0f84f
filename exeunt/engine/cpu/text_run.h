// SPDX-License-Identifier: Apache-2.0
// One text from its tokens to its answer: which exits it evaluates, and when it leaves. Its rows are computed in packs
// (pack_run.h).
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "exeunt/engine/backend.h"
#include "exeunt/engine/cpu/exit_heads.h"

namespace exeunt {

// The exit a text evaluates after a layer.
struct ExitVisit {
  int site = -1;           // -1: none
  bool first_row = false;  // row 0 is all that is read there
  bool certain = false;    // the text leaves, whatever the exit says
  double leaves = 0;       // the chance that it leaves
};

// What a text gets after a layer.
struct LayerEnd {
  int layer = 0;  // from 1; 0: the embeddings
  LayerRows rows = {};
  int site = -1;                  // the exit that was visited
  const float* logits = nullptr;  // [outputs] of that exit
  float lte = 0;
  ExitHeads* heads = nullptr;
  float* ramp = nullptr;  // [outputs], scratch
};

class TextRun {
 public:
  virtual ~TextRun() = default;

  // Makes the tokens. False: there is nothing to run. On the thread that will run the text.
  [[nodiscard]] virtual bool prepare() = 0;
  [[nodiscard]] virtual const Encoding& text() const = 0;  // may be empty before `prepare`
  [[nodiscard]] virtual Deadline deadline() const { return kNoDeadline; }
  [[nodiscard]] virtual bool alone() const { return false; }  // in a pack of its own
  virtual void start(Clock::time_point) {}                    // `now` counts only where there is a deadline
  // Whether to end before the next layer.
  [[nodiscard]] virtual bool over(Clock::time_point) { return false; }
  // The exit that it evaluates after `layer`, which begins now.
  [[nodiscard]] virtual ExitVisit visit(int layer) = 0;
  [[nodiscard]] virtual bool after(const LayerEnd& end) = 0;  // whether it leaves
  void fail(const std::exception_ptr& why) { failure_ = why; }
  virtual void finish() = 0;  // hands over the result or the failure; the last call

 protected:
  std::exception_ptr failure_ = {};
};

// The fraction of texts reaching the nth evaluated exit that leave there.
[[nodiscard]] double leaving_share(const BoundPolicy& policy, int nth) noexcept;

// A text that answers as its policy says.
class AnswerRun final : public TextRun {
 public:
  // `closing` ends it; the model and `closing` outlive it.
  AnswerRun(const PackedModel& model, const std::atomic<bool>& closing, AnswerJob job);

  [[nodiscard]] bool prepare() override;
  [[nodiscard]] const Encoding& text() const override {
    return job_.source.borrowed ? *job_.source.borrowed : job_.source.own;
  }
  [[nodiscard]] Deadline deadline() const override { return job_.ask.deadline; }
  void start(Clock::time_point now) override { start_ = now; }
  [[nodiscard]] bool over(Clock::time_point now) override;
  [[nodiscard]] ExitVisit visit(int layer) override;
  [[nodiscard]] bool after(const LayerEnd& end) override;
  void finish() override;

 private:
  [[nodiscard]] bool leaves_at_exit_0();

  const PackedModel& model_;
  const std::atomic<bool>& closing_;
  AnswerJob job_;
  int stop_;  // the last site that may answer
  ExitEvaluator evaluator_;
  Clock::time_point start_ = {};
  StopReason stop_reason_ = StopReason::last_exit;
  int layers_run_ = 0, tokens_ = 0;
};

// A text through the layers that were asked for, with all its exits or all its rows.
class PassRun final : public TextRun {
 public:
  // The model and the text outlive it; it is text `index` of the request.
  PassRun(const PackedModel& model, const Encoding& text, size_t index, std::shared_ptr<const PassRequest> request)
      : model_(model), text_(text), index_(index), request_(std::move(request)) {}

  [[nodiscard]] bool prepare() override;
  [[nodiscard]] const Encoding& text() const override { return text_; }
  [[nodiscard]] bool alone() const override { return request_->alone; }
  [[nodiscard]] ExitVisit visit(int layer) override;
  [[nodiscard]] bool after(const LayerEnd& end) override;
  void finish() override;

 private:
  const PackedModel& model_;
  const Encoding& text_;
  size_t index_;
  std::shared_ptr<const PassRequest> request_;
  Engine::FullPass out_ = {};
  double begun_ = 0;
};

}  // namespace exeunt
