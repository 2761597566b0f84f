// SPDX-License-Identifier: Apache-2.0
// One text from its tokens to its answer: the layers, the exits on the way, and when to leave.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "exeunt/runtime/cpu/exit_heads.h"
#include "exeunt/runtime/cpu/forward.h"
#include "exeunt/runtime/engine.h"

namespace exeunt {

// What all texts of an engine share.
struct TextGround {
  const PackedModel* model = nullptr;
  std::span<Workspace> spaces = {};
  ClsFirst cls_first = ClsFirst::automatic;
  Clock::time_point (*now)() = &Clock::now;
};

class TextRun {
 public:
  TextRun(const TextGround& ground, Crew::Member& member);

  // The text is one the model can take, the ask fits the model.
  [[nodiscard]] Answer answer(const Encoding& text, const Ask& ask, const std::atomic<bool>& cancelled);
  [[nodiscard]] Engine::FullPass full_pass(const Encoding& text);
  // All rows after each of the first `depth` layers; the logits of the last exit if these are all.
  [[nodiscard]] std::vector<float> layer_rows(const Encoding& text, int depth,
                                              const std::function<void(int, std::span<const float>)>& take);

 private:
  // What is known before a text runs.
  struct Plan {
    int stop = 0;       // the last site that may answer
    bool note = false;  // there is a deadline: evaluate every exit on the way
  };
  struct Best;

  [[nodiscard]] Plan plan(const Ask& ask) const;
  [[nodiscard]] int site_after(int layer) const noexcept;  // of `layer`, from 1; -1: there is none
  [[nodiscard]] bool runs_ahead(int site, const Ask& ask, const Plan& plan, int tokens) const noexcept;
  bool look(int site, const LayerRows& rows, const Ask& ask, Best& best);
  [[nodiscard]] Answer finish(Best&& best, const Ask& ask) const;
  [[nodiscard]] LayerRows rows(bool ahead) const noexcept;

  const PackedModel& model_;
  Workspace& space_;
  ClsFirst cls_first_;
  Clock::time_point (*now_)();
  Forward forward_;
  ExitHeads heads_;
};

// The deepest exit that sits after at most `max_layers` layers; -1: there is none.
[[nodiscard]] int deepest_exit(const ExitLayout& exits, int max_layers) noexcept;

// Whether to compute row 0 before the others. `leaves` is the fraction of texts that exit here, which saves their other
// rows; `cost` is that of row 0 alone, in rows computed together.
[[nodiscard]] bool first_row_pays(double leaves, int tokens, double cost) noexcept;
[[nodiscard]] double first_row_cost(const Kernels& kernels, Precision precision) noexcept;

// The fraction of texts reaching the nth evaluated exit that leave there.
[[nodiscard]] double leaving_share(const AskPolicy& policy, int nth) noexcept;

}  // namespace exeunt
