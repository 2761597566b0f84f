// SPDX-License-Identifier: Apache-2.0
// How often rows have been used to certify something, counted by model family in the user's state folder. Who tries
// many times on the same rows and keeps the best result would break the promise; so each try gets a smaller share of
// delta (share_of_try), and all of them together stay within it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "exeunt/certify/calibrate.h"
#include "exeunt/eval/measure.h"
#include "exeunt/model/checkpoint.h"

namespace exeunt {

// $XDG_STATE_HOME/exeunt, else ~/.local/state/exeunt; empty where there is neither.
[[nodiscard]] std::filesystem::path state_folder();

// All precisions share a delta: whoever certifies several keeps the fastest.
struct TriedIn {
  // Models of other families have promises of their own: who certifies one does not choose it among the others by the
  // same rows. Empty = not known, which may be any.
  std::string family = {};
  std::string weights = {};  // of the model
  int elsewhere = 0;         // more uses of these rows, which the user states
  int least = 1;             // what it is at least, by a certificate that was made with these rows elsewhere
  // Of rows with these hashes, the user learns something as well: they choose or report. Where they are named, a few
  // rows that earlier tries knew do not make this a later try (Ledger::known).
  std::vector<uint64_t> beside = {};
};

// What the folder says beside the number of a try.
struct Ledger {
  int other_models = 0;          // tries of other families on these rows
  std::string digest = {};       // SHA-256 over the earlier tries that used some of them; empty: there were none
  std::vector<bool> known = {};  // [hashes] those of CalibrationPlan::known; empty: none
};

// Rows that no text is known of: equal logits at every exit are an equal text.
void hash_rows_by_logits(ExitTrace& trace);

// Models between which certificates might choose: trained on the same data, else made from the same finished model.
[[nodiscard]] std::string model_family(const Checkpoint& model);

// Which try this is on rows with these hashes, from 1: one more than the earlier tries that used any of them. It is
// written down before this returns. The same `test` (a digest of model, plan and split) is the same try, however often
// it is repeated. `require` may refuse the number, by throwing, before it is written down. Folder and files are the
// user's alone. Throws Error (resources) where the folder cannot be written.
[[nodiscard]] int count_try(
    const std::filesystem::path& folder, std::string_view test, std::span<const uint64_t> row_hashes,
    const TriedIn& in = {}, Ledger* ledger = nullptr, const std::function<void(int)>& require = [](int) {});

// Which try a test would be whose digest begins with `test`. Nothing is written down; 1 where tries cannot be counted.
[[nodiscard]] int next_try(std::string_view test, std::span<const uint64_t> row_hashes, const TriedIn& in);

// Counts the test of a plan on these parts in the user's state folder, in plan.tries. Where tries cannot be counted, a
// warning says why; then it has the share of the first, and plan.tries_known is false. Rows that are too few for this
// try are refused (Error, failure) and not counted.
void count_try(const CalibrationData& data, CalibrationPlan& plan, const Observer& observer);

// Writes down that somebody saw how a model does on rows that training held out, where the measured rows are such.
// Whoever then certifies the best of several models has chosen it by these rows: each of the others is a use of them,
// unless it was certified there, which counts already.
void count_look(const Measured& measured);

}  // namespace exeunt
