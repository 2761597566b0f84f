// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/step_graphs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace exeunt::nn {
namespace {

using torch::Tensor;
using Tensors = StepGraphs::Tensors;

// The same memory, without a hold on it: recordings are replayed one at a time, so the next one may use it again, and
// the memory of all of them lives as long as one does.
Tensor alias_of(const Tensor& made) {
  if (!made.defined() || !made.is_cuda()) return made;  // what lies with the host is the same each time
  return at::from_blob(made.data_ptr(), made.sizes(), made.strides(), made.options());
}

}  // namespace

struct StepGraphs::State {
  using Shape = std::pair<int64_t, std::vector<std::vector<int64_t>>>;
  struct Recording {
    Tensors inputs = {}, results = {};
    std::unique_ptr<at::cuda::CUDAGraph> graph = {};  // null until the second run
    int64_t used = 0;                                 // the number of the last run
  };

  // Recording needs a stream of its own. The others and this one wait for each other, so they may share memory.
  Tensors on_stream(const std::function<Tensors()>& work) const {
    c10::cuda::device_synchronize();
    const c10::StreamGuard guard(stream.unwrap());
    Tensors out = work();
    c10::cuda::device_synchronize();
    return out;
  }
  void record(Recording& recording, const Tensors& inputs, const Work& work) {
    const auto has_graph = [](const auto& item) { return item.second.graph != nullptr; };
    // A pool without recordings cannot be used again.
    if (std::none_of(recordings.begin(), recordings.end(), has_graph)) pool = at::cuda::graph_pool_handle();
    for (const Tensor& input : inputs) recording.inputs.push_back(input.clone());
    c10::cuda::CUDACachingAllocator::emptyCache();  // which is not possible while recording
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    const Tensors made = on_stream([&] {
      graph->capture_begin(pool);
      Tensors out = work(recording.inputs);
      graph->capture_end();
      return out;
    });
    std::transform(made.begin(), made.end(), std::back_inserter(recording.results), alias_of);
    recording.graph = std::move(graph);
  }

  at::cuda::MempoolId_t pool = {};  // of memory that all recordings share
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  std::map<Shape, Recording> recordings = {};
  int64_t runs = 0;
};

StepGraphs::StepGraphs() = default;
StepGraphs::~StepGraphs() = default;

Tensors StepGraphs::run(int64_t phase, const Tensors& inputs, const Work& work) {
  if (!inputs.front().is_cuda()) return work(inputs);
  if (!state_) state_ = std::make_unique<State>();
  State::Shape shape{phase, {}};
  for (const Tensor& input : inputs) shape.second.push_back(input.sizes().vec());
  const auto [entry, first] = state_->recordings.try_emplace(std::move(shape));
  State::Recording& recording = entry->second;
  recording.used = ++state_->runs;
  if (first) {
    const auto earlier = [](const auto& a, const auto& b) { return a.second.used < b.second.used; };
    auto& all = state_->recordings;
    if (all.size() > kMost) all.erase(std::min_element(all.begin(), all.end(), earlier));
    return state_->on_stream([&] { return work(inputs); });
  }
  if (!recording.graph) state_->record(recording, inputs, work);
  for (size_t i = 0; i < inputs.size(); ++i) recording.inputs[i].copy_(inputs[i], /*non_blocking=*/true);
  recording.graph->replay();
  return recording.results;
}

}  // namespace exeunt::nn
