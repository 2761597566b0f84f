// SPDX-License-Identifier: Apache-2.0
// A model as ONNX graphs in fp32 for other runtimes: one with the logits of every exit, and one per segment between two
// exits, so that a caller can stop there.
//
//   all_exits.onnx    input_ids, attention_mask, token_type_ids [batch, tokens] → logits [batch, exits, outputs],
//                     lte [batch, exits] and ramp [batch, outputs] where the model has them
//   segment-01.onnx   the same inputs → logits [batch, outputs], lte [batch], hidden_out [batch, tokens, d]
//   segment-02.onnx … hidden and attention_mask → the same; the last has no hidden_out, but ramp
//   weights.bin       of all of them;  onnx.json, exits.json, config.json, the tokenizer's files, policy.json
//
// Texts of a batch are padded at the end, with 0 in attention_mask.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/model/checkpoint.h"
#include "exeunt/model/exeunt_folder.h"

namespace exeunt {

// Returns notices for the user, one line each. Throws Error, as for a model without exits, and then leaves nothing
// behind.
std::vector<std::string> export_onnx(const Checkpoint& checkpoint, const std::filesystem::path& out,
                                     const WriteOptions& options = {});

}  // namespace exeunt
