// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/step_graphs.h"

namespace exeunt::nn {

struct StepGraphs::State {};
StepGraphs::StepGraphs() = default;
StepGraphs::~StepGraphs() = default;

StepGraphs::Tensors StepGraphs::run(int64_t, const Tensors& inputs, const Work& work) {
  return work(inputs);
}

}  // namespace exeunt::nn
