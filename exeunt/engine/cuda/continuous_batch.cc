// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/continuous_batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "exeunt/base/error.h"

namespace exeunt::cuda {
namespace {

constexpr size_t kResultBytesOfAStep = size_t{1} << 20;  // copied after every step
constexpr int kMaxSlots = 2048, kTokensPerSlot = 16;

}  // namespace

ContinuousBatch::ContinuousBatch(const DeviceModel& model, int rows)
    : model_(model),
      state_floats_(max_state_floats(static_cast<int>(model.exits.sites.size()), model.exits.outputs)),
      layers_(model, std::max(rows, model.spec.max_tokens())) {
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
  plan_memory();
  upload_tables();
}

ContinuousBatch::~ContinuousBatch() {
  try {
    stream_.wait();
  } catch (const std::exception&) {  // it was reported with its texts
  }
}

void ContinuousBatch::plan_memory() {
  const size_t rows = (count(max_capacity_.rows) + 127) / 128 * 128, texts = count(max_capacity_.texts);
  const size_t sites = model_.exits.sites.size(), outputs = count(model_.exits.outputs);
  const size_t row = count(model_.spec.hidden) * bytes_of(model_.number);
  Plan results;
  result_layout_.exit_site = results.add(texts * sizeof(int));
  result_layout_.logits = results.add(texts * sites * outputs * sizeof(float));
  result_layout_.lte = results.add(texts * sites * sizeof(float));
  result_layout_.bytes = results.size();
  const InputLayout input(max_capacity_);

  Plan plan;
  layers_.plan(plan);
  const size_t held = plan.add(rows * row), fresh = plan.add(rows * row),
               embedded = plan.add(rows * count(model_.spec.embedding) * bytes_of(model_.number)),
               inputs = plan.add(input.bytes), found = plan.add(result_layout_.bytes),
               first_rows = plan.add(sites * texts * row),
               vectors = plan.add(sites * texts * count(width()) * sizeof(float)),
               hidden = plan.add(texts * count(model_.exits.inner.value_or(1)) * sizeof(float)),
               state = plan.add(texts * count(state_floats_) * sizeof(float)), asks = plan.add(texts * sizeof(SlotAsk)),
               depth = plan.add(texts * sizeof(int)), first_row = plan.add(sizeof(int)),
               place = plan.add(texts * sizeof(int)), site = plan.add(texts * sizeof(int)),
               leaves = plan.add(texts * sizeof(int)), from = plan.add(texts * sizeof(int)),
               site_live = plan.add(sites * sizeof(Live)),
               site_after = plan.add(count(model_.spec.layers + 1) * sizeof(int)),
               exits = plan.add(sites * sizeof(GroupedExit)), arrived = plan.add(sizeof(unsigned));
  size_t live[2], slot[2], begin[2], tiles[2];
  for (size_t i = 0; i < 2; ++i) {
    live[i] = plan.add(sizeof(Live));
    slot[i] = plan.add(texts * sizeof(int));
    begin[i] = plan.add((texts + 1) * sizeof(int));
    tiles[i] = plan.add(count(max_capacity_.tiles()) * sizeof(Tile));
  }
  memory_ = device_memory(plan.size(), "a continuous batch of texts");
  std::byte* base = memory_.data();
  layers_.place(base);
  const auto ints = [base](size_t at) { return reinterpret_cast<int*>(base + at); };
  const auto floats = [base](size_t at) { return reinterpret_cast<float*>(base + at); };
  at_ = {.rows = base + held,
         .embedded = base + embedded,
         .fresh = base + fresh,
         .input = base + inputs,
         .results = base + found,
         .first_rows = base + first_rows,
         .asks = reinterpret_cast<SlotAsk*>(base + asks),
         .state = floats(state),
         .vectors = floats(vectors),
         .hidden = floats(hidden),
         .depth = ints(depth),
         .first_row = ints(first_row),
         .site_after = ints(site_after),
         .place = ints(place),
         .site = ints(site),
         .leaves = ints(leaves),
         .from = ints(from),
         .site_live = reinterpret_cast<Live*>(base + site_live),
         .exits = reinterpret_cast<GroupedExit*>(base + exits),
         .arrived = reinterpret_cast<unsigned*>(base + arrived)};
  for (size_t i = 0; i < 2; ++i) {
    at_.lists[i] = {.live = reinterpret_cast<Live*>(base + live[i]),
                    .slot = ints(slot[i]),
                    .begin = ints(begin[i]),
                    .tiles = reinterpret_cast<Tile*>(base + tiles[i])};
    host_input_[i] = pinned_memory(input.bytes, "texts that join a batch");
    host_results_[i] = pinned_memory(result_layout_.bytes, "the answers of a batch");
    fill_zero(at_.lists[i].live, sizeof(Live), stream_.get());
    fill_zero(at_.lists[i].begin, sizeof(int), stream_.get());
  }
  fill_zero(at_.arrived, sizeof(unsigned), stream_.get());
  stream_.wait();
}

void ContinuousBatch::upload_tables() {
  const auto& sites = model_.exits.sites;
  std::vector<int> site_after(count(model_.spec.layers + 1), -1);
  std::vector<GroupedExit> exits;
  for (size_t i = 0; i < sites.size(); ++i) {
    site_after[count(sites[i].after)] = static_cast<int>(i);
    const DeviceModel::Classifier& classifier = model_.classifiers[count(sites[i].classifier)];
    exits.push_back({.classifier = classifier.outer, .inner = classifier.inner});
  }
  copy_to_device(at_.site_after, site_after.data(), site_after.size() * sizeof(int), stream_.get());
  copy_to_device(at_.exits, exits.data(), exits.size() * sizeof(GroupedExit), stream_.get());
  stream_.wait();
}

std::optional<int> ContinuousBatch::add(const Encoding& text, const SlotOptions& options) {
  const auto tokens = static_cast<int>(text.ids.size());
  if (free_.empty() || rows_ + tokens > max_capacity_.rows) return {};
  SlotAsk ask{.stop = options.stop, .all_exits = options.all_exits ? 1 : 0};
  if (options.policy != nullptr) {
    auto place = std::find(policies_.begin(), policies_.end(), options.policy);
    if (place == policies_.end()) place = std::find(policies_.begin(), policies_.end(), nullptr);
    if (place == policies_.end()) return {};
    check(options.policy->state_floats <= state_floats_, "a policy's state fits its place");
    ask.policy = static_cast<int>(place - policies_.begin());
    *place = options.policy;
    ++policy_uses_[count(ask.policy)];
  }
  const int slot = free_.back();
  free_.pop_back();
  tokens_[count(slot)] = tokens;
  policy_of_[count(slot)] = ask.policy;
  rows_ += tokens;
  active_.push_back({.slot = slot, .joined = steps_});
  encodings_.push_back(&text);
  slots_.push_back(slot);
  asks_.push_back(ask);
  return slot;
}

void ContinuousBatch::release_policy(int index) {
  if (index >= 0 && --policy_uses_[count(index)] == 0) policies_[count(index)] = nullptr;
}

void ContinuousBatch::step() {
  check(steps_ - seen_ < 2, "the results of a step are read before its buffers are used again");
  const size_t turn = steps_ % 2;
  const Capacity& capacity = *std::find_if(capacities_.begin(), std::prev(capacities_.end()), [&](const Capacity& one) {
    return texts() <= one.texts && rows_ <= one.rows;
  });
  write_input({.encodings = encodings_, .slots = slots_, .asks = asks_, .policies = policies_}, model_,
              InputLayout(capacity), host_input_[turn].data());
  encodings_.clear();
  slots_.clear();
  asks_.clear();
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
    if (text.joined > step || exit_site(text.slot) < 0) return false;
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
  copy_to_host(host_results_[turn].data(), at_.results, result_layout_.bytes, stream);
}

void ContinuousBatch::enqueue_joining(const Capacity& capacity, const TextList& list) {
  const Stream stream = stream_.get();
  const InputLayout layout(capacity);
  copy_to_device(at_.input, host_input_[&list == &at_.lists[0] ? 0 : 1].data(), layout.bytes, stream);
  const TextList fresh = layout.list(at_.input);
  join({.list = list,
        .fresh = fresh,
        .fresh_asks = InputLayout::at<const SlotAsk>(at_.input, layout.asks),
        .asks = at_.asks,
        .depth = at_.depth,
        .exit_site = reinterpret_cast<int*>(at_.results + result_layout_.exit_site),
        .state = at_.state,
        .state_floats = state_floats_,
        .first_row = at_.first_row},
       stream);
  layers_.embed_tokens({.layout = layout,
                        .input = at_.input,
                        .embedded = at_.embedded,
                        .out = at_.fresh,
                        .live = fresh.live,
                        .max_rows = capacity.rows},
                       stream);
  append({.from = at_.fresh,
          .rows = at_.rows,
          .row_bytes = count(model_.spec.hidden) * bytes_of(model_.number),
          .live = fresh.live,
          .first_row = at_.first_row,
          .max_rows = capacity.rows},
         stream);
}

void ContinuousBatch::enqueue_exits(const Capacity& capacity, size_t turn) {
  const Stream stream = stream_.get();
  const TextList &list = at_.lists[turn], &after = at_.lists[1 - turn];
  const InputLayout layout(capacity);
  const auto& sites = model_.exits.sites;
  const auto* policies = InputLayout::at<const Policy>(at_.input, layout.policies);
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
  for (size_t site = 0; site < sites.size(); ++site) {
    const Matrix& pooler = model_.poolers[count(*sites[site].pooler)];
    const size_t begin = site * count(max_capacity_.texts);
    multiply({.number = model_.number,
              .input = at_.first_rows + begin * count(model_.spec.hidden) * bytes_of(model_.number),
              .weight = pooler.weight,
              .bias = pooler.bias,
              .inputs = pooler.inputs,
              .outputs = pooler.outputs,
              .finish = Finish::tanh,
              .live = at_.site_live + site,
              .max_rows = capacity.texts,
              .wide = at_.vectors + begin * count(width())},
             model_.chip, sides_[site % sides_.size()].get());
  }
  for (const OwnStream& side : sides_) let_wait(stream, side.get());
  const auto results = [&](size_t place) { return reinterpret_cast<float*>(at_.results + place); };
  run_grouped_exit({.exit = {.number = model_.number,
                             .rows = at_.rows,
                             .pooled = at_.vectors,
                             .inputs = width(),
                             .row_columns = model_.spec.hidden,
                             .width = width(),
                             .lte = model_.lte,
                             .sites = static_cast<int>(sites.size()),
                             .outputs = model_.exits.outputs,
                             .asks = at_.asks,
                             .policies = policies,
                             .state = at_.state,
                             .state_floats = state_floats_,
                             .logits = results(result_layout_.logits),
                             .lte_scores = results(result_layout_.lte),
                             .exit_site = reinterpret_cast<int*>(at_.results + result_layout_.exit_site),
                             .vectors = at_.vectors,
                             .hidden = at_.hidden,
                             .leaves = at_.leaves,
                             .from = at_.from,
                             .arrived = at_.arrived,
                             .before = list,
                             .after = after,
                             .max_texts = capacity.texts},
                    .exits = at_.exits,
                    .place = at_.place,
                    .site = at_.site},
                   stream);
  norm.out = at_.rows;
  norm_and_move({.rows = norm, .from = at_.from, .before = list, .after = after, .capacity = capacity}, stream);
}

int ContinuousBatch::exit_site(int slot) const {
  int site = 0;
  std::memcpy(&site, host_results_[(seen_ + 1) % 2].data() + result_layout_.exit_site + count(slot) * sizeof site,
              sizeof site);
  return site;
}
const float* ContinuousBatch::logits(int slot, int site) const {
  return reinterpret_cast<const float*>(host_results_[(seen_ + 1) % 2].data() + result_layout_.logits) +
         (count(slot) * model_.exits.sites.size() + count(site)) * count(model_.exits.outputs);
}
float ContinuousBatch::lte(int slot, int site) const {
  return reinterpret_cast<const float*>(host_results_[(seen_ + 1) % 2].data() +
                                        result_layout_.lte)[count(slot) * model_.exits.sites.size() + count(site)];
}
const float* ContinuousBatch::ramp(int) const {
  return nullptr;
}

}  // namespace exeunt::cuda
