// SPDX-License-Identifier: Apache-2.0
// One text from its tokens to its answer: which exits it evaluates, and when it leaves. Its rows are computed in packs
// (pack_run.h).
#pragma once

#include <atomic>
#include <exception>
#include <functional>
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
  // What it options after `layer`, which begins now.
  [[nodiscard]] virtual ExitVisit visit(int layer) = 0;
  [[nodiscard]] virtual bool after(const LayerEnd& end) = 0;  // whether it leaves
  virtual void fail(const std::exception_ptr& why) = 0;       // it failed
  virtual void finish() = 0;                                  // hands over the result; the last call
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
  void fail(const std::exception_ptr& why) override;
  void finish() override;

 private:
  const PackedModel& model_;
  const std::atomic<bool>& closing_;
  AnswerJob job_;
  int stop_;  // the last site that may answer
  ExitEvaluator evaluator_;
  Clock::time_point start_ = {};
  StopReason stop_reason_ = StopReason::last_exit;
  int layers_run_ = 0, tokens_ = 0;
  std::exception_ptr failure_ = {};
};

// A text through every layer, with all its exits.
class FullRun final : public TextRun {
 public:
  using Done = std::function<void(Engine::FullPass&&, const std::exception_ptr&)>;
  // The model and the text outlive it.
  FullRun(const PackedModel& model, const Encoding& text, PassOptions options, Done done)
      : model_(model), text_(text), options_(options), done_(std::move(done)) {}

  [[nodiscard]] bool prepare() override;
  [[nodiscard]] const Encoding& text() const override { return text_; }
  [[nodiscard]] bool alone() const override { return options_.alone; }
  [[nodiscard]] ExitVisit visit(int layer) override;
  [[nodiscard]] bool after(const LayerEnd& end) override;
  void fail(const std::exception_ptr& why) override { failure_ = why; }
  void finish() override;

 private:
  const PackedModel& model_;
  const Encoding& text_;
  PassOptions options_;
  Done done_;
  Engine::FullPass out_ = {};
  double begun_ = 0;
  std::exception_ptr failure_ = {};
};

// The rows of a text after each of the first `depth` layers; the logits of the last exit if these are all.
class RowsRun final : public TextRun {
 public:
  using Take = std::function<void(int layer, std::span<const float> rows)>;
  using Done = std::function<void(std::span<const float> logits, const std::exception_ptr&)>;
  RowsRun(const PackedModel& model, const Encoding& text, int depth, Take take, Done done)
      : model_(model), text_(text), depth_(depth), take_(std::move(take)), done_(std::move(done)) {}

  [[nodiscard]] bool prepare() override { return true; }
  [[nodiscard]] const Encoding& text() const override { return text_; }
  [[nodiscard]] ExitVisit visit(int layer) override;
  [[nodiscard]] bool after(const LayerEnd& end) override;
  void fail(const std::exception_ptr& why) override { failure_ = why; }
  void finish() override { done_(logits_, failure_); }

 private:
  const PackedModel& model_;
  const Encoding& text_;
  int depth_;
  Take take_;
  Done done_;
  std::vector<float> logits_ = {};
  std::exception_ptr failure_ = {};
};

}  // namespace exeunt
