// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/continuous_batch.h"

#include <algorithm>
#include <numeric>

#include "exeunt/base/error.h"

namespace exeunt::cuda {
namespace {

constexpr size_t kResultBytesOfAStep = size_t{1} << 20;  // copied after every step
constexpr int kMaxSlots = 2048, kTokensPerSlot = 16;

}  // namespace

ContinuousBatch::ContinuousBatch(const DeviceModel& model, int rows)
    : model_(model), layers_(model, std::max(rows, model.spec.max_tokens())) {
  check(model.mixes_depths() && model.exits.sites.size() <= kMaxGroupedSites, "the model mixes depths");
  max_capacity_.rows = std::max(rows, model.spec.max_tokens());
  const size_t per_text = model.exits.sites.size() * count(model.exits.outputs + 1) * sizeof(float) + sizeof(int);
  const int by_results = static_cast<int>(std::clamp<size_t>(kResultBytesOfAStep / per_text, 1, kMaxSlots));
  max_capacity_.texts = std::max(1, std::min(by_results, max_capacity_.rows / kTokensPerSlot));
  for (int size = 2048; size < max_capacity_.rows; size *= 2)
    capacities_.push_back({.texts = std::min(max_capacity_.texts, size / kTokensPerSlot), .rows = size});
  capacities_.push_back(max_capacity_);
  free_.resize(count(max_capacity_.texts));
  std::iota(free_.rbegin(), free_.rend(), 0);
  tokens_.resize(free_.size());
  policy_of_.resize(free_.size());
  MemoryParts sizes(kPartAlignment);
  place(sizes);
  memory_ = device_memory(sizes.size(), "a continuous batch of texts");
  MemoryParts parts(kPartAlignment, memory_.data());
  place(parts);
  for (size_t i = 0; i < 2; ++i) {
    host_input_[i] = pinned_memory(BatchInput(model_, max_capacity_, nullptr).bytes, "texts that join a batch");
    host_results_[i] =
        pinned_memory(BatchResults(model_, max_capacity_.texts, nullptr).bytes, "the answers of a batch");
    results_[i] = BatchResults(model_, max_capacity_.texts, host_results_[i].data());
    fill_zero(at_.lists[i].live, sizeof(Live), stream_.get());
    fill_zero(at_.lists[i].begin, sizeof(int), stream_.get());
  }
  fill_zero(at_.exits.arrived, at_.exits.arrived_bytes, stream_.get());
  upload_tables();
}

ContinuousBatch::~ContinuousBatch() {
  try {
    stream_.wait();
  } catch (const std::exception&) {  // it was reported with its texts
  }
}

void ContinuousBatch::place(MemoryParts& parts) {
  const size_t rows = (count(max_capacity_.rows) + 127) / 128 * 128, texts = count(max_capacity_.texts);
  const size_t sites = model_.exits.sites.size(), row = model_.row_bytes();
  layers_.place(parts);
  at_.rows = parts.take<std::byte>(rows * row);
  at_.fresh = parts.take<std::byte>(rows * row);
  at_.embedded = parts.take<std::byte>(rows * count(model_.spec.embedding) * bytes_of(model_.number));
  at_.input = parts.take<std::byte>(BatchInput(model_, max_capacity_, nullptr).bytes);
  at_.results = parts.take<std::byte>(BatchResults(model_, max_capacity_.texts, nullptr).bytes);
  at_.first_rows = parts.take<std::byte>(sites * texts * row);
  at_.exits = ExitMemory(model_, max_capacity_.texts, sites, parts);
  at_.asks = parts.take<SlotAsk>(texts);
  at_.depth = parts.take<int>(texts);
  at_.first_row = parts.take<int>(1);
  at_.place = parts.take<int>(texts);
  at_.site = parts.take<int>(texts);
  at_.site_live = parts.take<Live>(sites);
  at_.site_after = parts.take<int>(count(model_.spec.layers + 1));
  at_.classifiers = parts.take<ClassifierLayers>(sites);
  for (TextList& list : at_.lists) list = take_list(max_capacity_, parts);
}

void ContinuousBatch::upload_tables() {
  const auto& sites = model_.exits.sites;
  std::vector<int> site_after(count(model_.spec.layers + 1), -1);
  std::vector<ClassifierLayers> exits;
  for (size_t i = 0; i < sites.size(); ++i) {
    site_after[count(sites[i].after)] = static_cast<int>(i);
    exits.push_back(i < model_.first_site() ? ClassifierLayers{} : model_.classifiers[count(sites[i].classifier)]);
  }
  copy_to_device(at_.site_after, site_after.data(), site_after.size() * sizeof(int), stream_.get());
  copy_to_device(at_.classifiers, exits.data(), exits.size() * sizeof(ClassifierLayers), stream_.get());
  stream_.wait();
}

std::optional<int> ContinuousBatch::add(const Encoding& text, const SlotOptions& options) {
  const auto tokens = static_cast<int>(text.ids.size());
  if (free_.empty() || rows_ + tokens > max_capacity_.rows) return {};
  const int slot = free_.back();
  if (!input_.add(text, slot, options, model_)) return {};
  free_.pop_back();
  const int policy = input_.asks.back().policy;
  if (policy >= 0) ++policy_uses_[count(policy)];
  tokens_[count(slot)] = tokens;
  policy_of_[count(slot)] = policy;
  rows_ += tokens;
  active_.push_back({.slot = slot, .joined = steps_});
  return slot;
}

void ContinuousBatch::release_policy(int index) {
  if (index >= 0 && --policy_uses_[count(index)] == 0) input_.policies[count(index)] = nullptr;
}

void ContinuousBatch::step() {
  check(steps_ - seen_ < 2, "the results of a step are read before its buffers are used again");
  const size_t turn = steps_ % 2;
  const Capacity& capacity = fitting(capacities_, texts(), rows_);
  BatchInput(model_, capacity, host_input_[turn].data()).write(input_, model_);
  input_.clear_texts();
  std::unique_ptr<Graph>& graph = graphs_[{&capacity, turn}];
  if (!graph) graph = std::make_unique<Graph>(stream_.get(), [&] { enqueue(capacity, turn); });
  graph->launch(stream_.get());
  step_done_[turn].record(stream_.get());
  ++steps_;
}

std::span<const int> ContinuousBatch::finished() {
  finished_.clear();
  if (steps_ < 2) return {};
  const size_t step = steps_ - 2;
  step_done_[step % 2].wait();
  seen_ = step + 1;
  std::erase_if(active_, [&](const ActiveText& text) {
    if (text.joined > step || results().exit_site[text.slot] < 0) return false;
    finished_.push_back(text.slot);
    rows_ -= tokens_[count(text.slot)];
    release_policy(policy_of_[count(text.slot)]);
    free_.push_back(text.slot);
    return true;
  });
  return finished_;
}

void ContinuousBatch::enqueue(const Capacity& capacity, size_t turn) {
  const Stream stream = stream_.get();
  const TextList& list = at_.lists[turn];
  enqueue_joining(capacity, list);
  layers_.attend(0, {.list = list, .capacity = capacity, .rows = at_.rows}, false, stream);
  layers_.rest(0, {.live = list.live, .max_rows = capacity.rows, .from = layers_.context(), .residual = at_.rows},
               stream);
  enqueue_exits(capacity, turn);
  copy_to_host(host_results_[turn].data(), at_.results, results_[turn].bytes, stream);
}

void ContinuousBatch::enqueue_joining(const Capacity& capacity, const TextList& list) {
  const Stream stream = stream_.get();
  const BatchInput input(model_, capacity, at_.input);
  copy_to_device(at_.input, host_input_[&list == &at_.lists[0] ? 0 : 1].data(), input.bytes, stream);
  join({.list = list,
        .fresh = input.list,
        .fresh_asks = input.asks,
        .fresh_states = input.states,
        .asks = at_.asks,
        .depth = at_.depth,
        .exit_site = BatchResults(model_, max_capacity_.texts, at_.results).exit_site,
        .state = at_.exits.state,
        .state_floats = model_.state_floats,
        .first_row = at_.first_row},
       stream);
  layers_.embed_tokens({.input = input, .embedded = at_.embedded, .out = at_.fresh, .max_rows = capacity.rows}, stream);
  append({.from = at_.fresh,
          .rows = at_.rows,
          .row_bytes = model_.row_bytes(),
          .live = input.list.live,
          .first_row = at_.first_row,
          .max_rows = capacity.rows},
         stream);
}

void ContinuousBatch::enqueue_exits(const Capacity& capacity, size_t turn) {
  const Stream stream = stream_.get();
  const TextList &list = at_.lists[turn], &after = at_.lists[1 - turn];
  const auto& sites = model_.exits.sites;
  const Policy* policies = BatchInput(model_, capacity, at_.input).policies;
  group_by_site({.list = list,
                 .asks = at_.asks,
                 .policies = policies,
                 .depth = at_.depth,
                 .site_after = at_.site_after,
                 .sites = static_cast<int>(sites.size()),
                 .stride = max_capacity_.texts,
                 .place = at_.place,
                 .site = at_.site,
                 .live = at_.site_live},
                stream);
  // The norm writes new rows at their new places, so that nothing is in int8 that has just joined.
  AddNormJob norm = layers_.last_norm(0, at_.first_rows);
  norm.quantized = nullptr;
  norm_first_rows({.rows = norm, .list = list, .place = at_.place, .max_texts = capacity.texts}, stream);
  // Few rows each: several at a time.
  for (const OwnStream& side : sides_) let_wait(side.get(), stream);
  for (size_t site = model_.first_site(); site < sites.size(); ++site) {
    const size_t begin = site * count(max_capacity_.texts);
    Product pooler = model_.product(model_.poolers[count(*sites[site].pooler)]);
    pooler.input = at_.first_rows + begin * model_.row_bytes();
    pooler.finish = Finish::tanh;
    pooler.live = at_.site_live + site;
    pooler.max_rows = capacity.texts;
    pooler.wide = at_.exits.vectors + begin * count(width());
    multiply(pooler, model_.chip, sides_[site % sides_.size()].get());
  }
  for (const OwnStream& side : sides_) let_wait(stream, side.get());
  ExitJob exit = at_.exits.job(model_, BatchResults(model_, max_capacity_.texts, at_.results));
  exit.rows = at_.rows;
  exit.pooled = at_.exits.vectors;
  exit.inputs = exit.width = width();
  exit.asks = at_.asks;
  exit.policies = policies;
  exit.before = list;
  exit.after = after;
  exit.max_texts = capacity.texts;
  run_grouped_exit({.exit = exit, .exits = at_.classifiers, .place = at_.place, .site = at_.site}, stream);
  norm.out = at_.rows;
  norm_and_move({.rows = norm, .from = at_.exits.from, .before = list, .after = after, .capacity = capacity}, stream);
}

}  // namespace exeunt::cuda
