// SPDX-License-Identifier: Apache-2.0
// The names of a model's outputs. The five systems and many Hugging Face folders store LABEL_0, LABEL_1, … or nothing;
// then they are named in the task's order, as in the code that trained such models.
#pragma once

#include <string>
#include <vector>

#include "exeunt/data/dataset.h"
#include "exeunt/eval/measure.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// Whether the labels are LABEL_0, LABEL_1, …, in this order: generic names.
[[nodiscard]] bool generic_labels(const std::vector<std::string>& labels) noexcept;

// The model's labels, under the names that fit `data`: those the user asks for; the task's or the data's in their order
// if the model's are generic; the task's spelling if they differ from the task's in case alone. Each change is a
// notice. Throws Error: usage if `asked` has another number of names, bad_file if labels and task have nothing in
// common. For RoBERTa the originals exchanged the last two labels of MNLI, as its published classifier has them.
[[nodiscard]] std::vector<std::string> label_names(const ExitLayout& model, Family family,
                                                   const std::vector<std::string>& asked, const Dataset& data,
                                                   const Observer& observer);

}  // namespace exeunt
