// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/batch_runner.h"

#include <algorithm>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/engine/formulas.h"

namespace exeunt::cuda {
namespace {

constexpr size_t kMaxResultBytes = size_t{64} << 20;

}  // namespace

BatchRunner::BatchRunner(const DeviceModel& model, int rows)
    : model_(model), layers_(model, std::max(rows, model.spec.max_tokens())) {
  const int longest = model.spec.max_tokens();
  const int most = std::max(rows, longest);
  const size_t per_text = (model.exits.sites.size() + 1) * count(model.exits.outputs + 1) * sizeof(float);
  const int most_texts = static_cast<int>(std::max<size_t>(1, std::min<size_t>(16384, kMaxResultBytes / per_text)));
  for (const int few : {32, 64, 128, 256}) {
    if (few < longest && few < most) capacities_.push_back({.texts = 1, .rows = few});
  }
  capacities_.push_back({.texts = 1, .rows = longest});
  for (int size = 128; size < most; size *= 2)
    capacities_.push_back({.texts = std::min(most_texts, size / 4), .rows = size});
  capacities_.push_back({.texts = std::min(most_texts, std::max(1, most / 4)), .rows = most});
  MemoryParts sizes(kPartAlignment);
  place(sizes);
  memory_ = device_memory(sizes.size(), "a batch of texts");
  MemoryParts parts(kPartAlignment, memory_.data());
  place(parts);
  host_input_ = pinned_memory(BatchInput(model_, max_capacity(), nullptr).bytes, "a batch of texts");
  host_results_ = pinned_memory(BatchResults(model_, max_capacity().texts, nullptr).bytes, "the answers of a batch");
  fill_zero(at_.exits.arrived, at_.exits.arrived_bytes, stream_.get());
  stream_.wait();
}

BatchRunner::~BatchRunner() {
  try {
    stream_.wait();                  // for the rest of a text that left early
  } catch (const std::exception&) {  // it was reported with its batch
  }
}

void BatchRunner::place(MemoryParts& parts) {
  const Capacity capacity = max_capacity();
  const size_t rows = (count(capacity.rows) + 127) / 128 * 128, texts = count(capacity.texts), row = model_.row_bytes();
  at_.rows[0] = parts.take<std::byte>(rows * row);
  at_.rows[1] = parts.take<std::byte>(rows * std::max(row, count(model_.spec.embedding) * bytes_of(model_.number)));
  layers_.place(parts);
  at_.first_rows = parts.take<std::byte>(texts * row);
  at_.first_live = parts.take<Live>(1);
  at_.input = parts.take<std::byte>(BatchInput(model_, capacity, nullptr).bytes);
  at_.results = parts.take<std::byte>(BatchResults(model_, capacity.texts, nullptr).bytes);
  at_.spare = take_list(capacity, parts);
  at_.pooled = parts.take<float>(texts * 2 * count(model_.spec.hidden));
  at_.exits = ExitMemory(model_, capacity.texts, 1, parts);
}

void BatchRunner::clear() {
  input_.clear_texts();
  input_.policies = {};
  rows_ = 0;
}

bool BatchRunner::add(const Encoding& text, const SlotOptions& options) {
  const auto tokens = static_cast<int>(text.ids.size());
  if (texts() > 0 && (texts() + 1 > max_capacity().texts || rows_ + tokens > max_capacity().rows)) return false;
  if (!input_.add(text, texts(), options, model_)) return false;
  rows_ += tokens;
  return true;
}

// The smallest capacity that takes the batch; writes the batch into pinned memory as it lies there.
void BatchRunner::choose_capacity() {
  stream_.wait();  // the rest of a text that left early
  capacity_ = &fitting(capacities_, texts(), rows_);
  results_ = BatchResults(model_, capacity_->texts, host_results_.data());
  BatchInput(model_, *capacity_, host_input_.data()).write(input_, model_);
}

std::string BatchRunner::uses() const {
  const size_t sites = model_.exits.sites.size();
  std::string out(sites, static_cast<char>(SiteUse::none));
  for (const SlotAsk& ask : input_.asks) {
    for (int site = static_cast<int>(model_.first_site()); site <= ask.stop; ++site) {
      char& use = out[count(site)];
      const bool evaluated = ask.policy >= 0 && input_.policies[count(ask.policy)]->nth[site] >= 0;
      if (site == ask.stop || evaluated) {
        use = static_cast<char>(SiteUse::leave);
      } else if (ask.all_exits != 0 && use == static_cast<char>(SiteUse::none)) {
        use = static_cast<char>(SiteUse::evaluate);
      }
    }
  }
  const bool last = out.back() != static_cast<char>(SiteUse::none);
  if (last && model_.exits.last_ramp) out.push_back('r');
  return out;
}

void BatchRunner::start() {
  choose_capacity();
  const std::string key = uses();
  Parts& parts = graphs_.use({capacity_, key});  // the stream is idle: one that is forgotten no longer runs
  const bool leave = static_cast<size_t>(std::count(key.begin(), key.end(), static_cast<char>(SiteUse::leave))) > 1;
  host_polls_ = capacity_->texts == 1 && leave;
  if (parts.empty()) {
    const AfterLayer none_after;
    BatchCursor cursor = begin_cursor(*capacity_, key, 0, none_after);
    cursor.host_polls = host_polls_;
    cursor.overlap_exits = host_polls_;
    while (!cursor.over()) {
      parts.push_back(std::make_unique<Graph>(stream_.get(), [&] {
        if (cursor.layer == 0) enqueue_start(cursor);
        do {
          enqueue_part(cursor);
        } while (!cursor.host_polls && !cursor.over());
        if (!cursor.host_polls) enqueue_results(*capacity_);
      }));
    }
  }
  started_ = &parts;
  *results_.exit_site = -1;
  *results_.decided = 0;
  for (launched_ = 0; launched_ < std::min<size_t>(2, parts.size()); ++launched_)
    parts[launched_]->launch(stream_.get());
}

void BatchRunner::run_by_layer(int depth, const AfterLayer& after) {
  choose_capacity();
  started_ = nullptr;
  const std::string key = uses();
  BatchCursor cursor = begin_cursor(*capacity_, key, depth, after);
  enqueue_start(cursor);
  while (!cursor.over()) enqueue_part(cursor);
  enqueue_results(*capacity_);
}

void BatchRunner::wait() {
  if (started_ == nullptr || !host_polls_) return stream_.wait();
  poll_and_launch();
}

void BatchRunner::poll_and_launch() {
  const auto read = [](const int* place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); };
  const auto& sites = model_.exits.sites;
  // The parts end at the sites where texts leave; `passed` of them are behind the text.
  size_t passed = 0;
  std::vector<int> ends;
  const std::string key = uses();
  for (size_t site = 0; site < sites.size(); ++site)
    if (key[site] == static_cast<char>(SiteUse::leave)) ends.push_back(static_cast<int>(site));
  for (unsigned spins = 1; read(results_.exit_site) < 0; ++spins) {
    const int decided = read(results_.decided);
    while (passed < ends.size() && ends[passed] < decided) ++passed;
    if (launched_ < started_->size() && launched_ < passed + 2) (*started_)[launched_++]->launch(stream_.get());
    // A device that fails never answers.
    if (spins % 4096 != 0 || !stream_.idle() || launched_ < started_->size()) continue;
    check(read(results_.exit_site) >= 0, "a text leaves at its last exit");
  }
}

BatchRunner::BatchCursor BatchRunner::begin_cursor(const Capacity& capacity, const std::string& uses, int depth,
                                                   const AfterLayer& after) {
  const auto& sites = model_.exits.sites;
  size_t last = 0;
  for (size_t i = 0; i < sites.size(); ++i)
    if (uses[i] != static_cast<char>(SiteUse::none)) last = i;
  return {.capacity = capacity,
          .uses = uses,
          .after = after,
          .layers = depth > 0 ? depth : sites[last].after,
          .next = model_.first_site(),
          .rows = at_.rows[0],
          .spare = at_.rows[1],
          .input = BatchInput(model_, capacity, at_.input),
          .list = BatchInput(model_, capacity, at_.input).list,
          .other = at_.spare};
}

void BatchRunner::enqueue_start(const BatchCursor& cursor) {
  const Stream stream = stream_.get();
  copy_to_device(at_.input, host_input_.data(), cursor.input.bytes, stream);
  if (cursor.input.states == nullptr)
    fill_zero(at_.exits.state, count(cursor.capacity.texts) * count(model_.state_floats) * sizeof(float), stream);
  layers_.embed_tokens(
      {.input = cursor.input, .embedded = cursor.spare, .out = cursor.rows, .max_rows = cursor.capacity.rows}, stream);
  if (cursor.after) cursor.after(0, cursor.rows, cursor.list);
}

void BatchRunner::enqueue_part(BatchCursor& at) {
  const auto& sites = model_.exits.sites;
  for (bool left = false; !at.over() && !left; ++at.layer) {
    const int layer = at.layer + 1;
    const bool has_exit = at.next < sites.size() && sites[at.next].after == layer;
    const SiteUse use = has_exit ? static_cast<SiteUse>(at.uses[at.next]) : SiteUse::none;
    // At the last layer every text leaves; where the exit reads row 0 alone, nothing else is computed.
    const bool last = layer == at.layers && !at.after && has_exit && at.capacity.texts > 1 &&
                      !reads_all_rows(model_.exits, sites[at.next]);
    left = use == SiteUse::leave && layer < at.layers;
    // Where an exit reads row 0 alone, the other rows are normalised when it is known which of them stay.
    const bool moves = left && !at.after && at.capacity.texts > 1 && model_.pools_by_product(sites[at.next]);
    const int undecided = std::exchange(at.undecided, -1);
    if (undecided >= 0) {
      let_wait(side_.get(), stream_.get());
      enqueue_exits(at, undecided, false, side_.get());
    }
    if (last) {
      enqueue_first_rows(at);
      std::swap(at.rows, at.spare);
      std::swap(at.list, at.other);
    } else {
      enqueue_layer(at, !moves);
    }
    if (undecided >= 0) {
      let_wait(stream_.get(), side_.get());
      std::swap(at.list, at.other);
    }
    if (at.after) at.after(layer, at.rows, at.list);
    if (!has_exit) continue;
    const auto site = static_cast<int>(at.next++);
    if (use == SiteUse::none) continue;
    if (at.overlap_exits && left) {
      at.undecided = site;
      continue;
    }
    enqueue_exits(at, site, moves, stream_.get());
    if (!left) continue;
    if (moves) {
      norm_and_move({.rows = layers_.last_norm(at.layer, at.rows),
                     .from = at_.exits.from,
                     .before = at.list,
                     .after = at.other,
                     .capacity = at.capacity},
                    stream_.get());
    } else if (at.capacity.texts > 1) {
      compact({.rows = at.rows,
               .out = at.spare,
               .row_bytes = model_.row_bytes(),
               .from = at_.exits.from,
               .before = at.list,
               .after = at.other,
               .max_texts = at.capacity.texts},
              stream_.get());
      std::swap(at.rows, at.spare);
      at.quantized = false;
    }
    std::swap(at.list, at.other);
  }
}

void BatchRunner::enqueue_exits(const BatchCursor& at, int site, bool before_norm, Stream stream) {
  const auto& sites = model_.exits.sites;
  if (at.uses.back() == 'r' && count(site) + 1 == sites.size()) {
    const ExitSite ramp{.after = sites.back().after,
                        .pooler = model_.exits.last_ramp->pooler,
                        .classifier = model_.exits.last_ramp->classifier};
    enqueue_exit(ramp, site, true, at, before_norm, stream);
  }
  enqueue_exit(sites[count(site)], site, false, at, before_norm, stream);
}

void BatchRunner::enqueue_results(const Capacity& capacity) {
  copy_to_host(host_results_.data(), at_.results, BatchResults(model_, capacity.texts, nullptr).bytes, stream_.get());
}

void BatchRunner::enqueue_layer(BatchCursor& at, bool norm) {
  const Stream stream = stream_.get();
  layers_.attend(at.layer, {.list = at.list, .capacity = at.capacity, .rows = at.rows, .quantized = at.quantized},
                 false, stream);
  // An exit that overlaps the layer still reads the rows that came in.
  std::byte* out = at.overlap_exits ? at.spare : at.rows;
  layers_.rest(at.layer,
               {.live = at.list.live,
                .max_rows = at.capacity.rows,
                .from = layers_.context(),
                .residual = at.rows,
                .out = norm ? out : nullptr},
               stream);
  if (at.overlap_exits) std::swap(at.rows, at.spare);
  at.quantized = layers_.last_norm(at.layer, nullptr).quantized != nullptr;
}

void BatchRunner::enqueue_first_rows(const BatchCursor& at) {
  const Stream stream = stream_.get();
  layers_.attend(at.layer, {.list = at.list, .capacity = at.capacity, .rows = at.rows, .quantized = at.quantized}, true,
                 stream);
  take_first({.a = layers_.context(),
              .b = at.rows,
              .first_of_a = layers_.wide(),  // over queries, which are no longer needed
              .first_of_b = at.spare,
              .row_bytes = model_.row_bytes(),
              .list = at.list,
              .first_rows = at.other,
              .max_texts = at.capacity.texts},
             stream);
  layers_.rest(at.layer,
               {.live = at.other.live,
                .max_rows = at.capacity.texts,
                .from = layers_.wide(),
                .residual = at.spare,
                .out = at.spare},
               stream);
}

void BatchRunner::enqueue_pooling(const ExitSite& site, const BatchCursor& at, bool before_norm, Stream stream) {
  if (reads_all_rows(model_.exits, site)) {
    pool({.number = model_.number,
          .rows = at.rows,
          .columns = model_.spec.hidden,
          .input = model_.exits.input,
          .reader = site.reader ? model_.readers[count(*site.reader)] : nullptr,
          .out = at_.pooled,
          .list = at.list,
          .max_texts = at.capacity.texts,
          .max_tokens = std::min(at.capacity.rows, model_.spec.max_tokens())},
         stream);
  }
  if (model_.pools_by_product(site)) {
    AddNormJob first = layers_.last_norm(site.after - 1, at_.first_rows);
    first.quantized = nullptr;
    if (!before_norm) {
      first.a = nullptr;
      first.b = at.rows;
    }
    norm_first_rows({.rows = first, .list = at.list, .first_live = at_.first_live, .max_texts = at.capacity.texts},
                    stream);
    Product pooler = model_.product(model_.poolers[count(*site.pooler)]);
    pooler.input = at_.first_rows;
    pooler.finish = Finish::tanh;
    pooler.live = at_.first_live;
    pooler.max_rows = at.capacity.texts;
    pooler.wide = at_.exits.vectors;
    multiply(pooler, model_.chip, stream);
  }
}

void BatchRunner::enqueue_exit(const ExitSite& site, int index, bool ramp, const BatchCursor& at, bool before_norm,
                               Stream stream) {
  const int hidden = model_.spec.hidden;
  const bool product = model_.pools_by_product(site);
  enqueue_pooling(site, at, before_norm, stream);
  // Without a pooler, the classifier reads what is pooled already.
  const Matrix pooler = site.pooler && !product ? model_.poolers[count(*site.pooler)] : Matrix{};
  const ClassifierLayers& classifier = model_.classifiers[count(site.classifier)];
  ExitJob job = at_.exits.job(model_, BatchResults(model_, at.capacity.texts, at_.results));
  job.site = index;
  job.ramp = ramp;
  job.rows = at.rows;
  job.width = site.pooler ? model_.poolers[count(*site.pooler)].outputs : hidden;
  if (product) job.pooled = at_.exits.vectors;
  if (reads_all_rows(model_.exits, site)) job.pooled = at_.pooled;
  job.inputs = product ? job.width : site.reader ? 2 * hidden : hidden;
  job.pooler = pooler.weight;
  job.pooler_bias = pooler.bias;
  job.classifier = classifier.outer;
  job.inner = classifier.inner;
  job.asks = at.input.asks;
  job.policies = at.input.policies;
  job.before = at.list;
  job.after = at.other;
  job.max_texts = at.capacity.texts;
  if (at.input.states != nullptr) job.state = at.input.states;
  if (at.host_polls) {
    const BatchResults host(model_, at.capacity.texts, host_results_.data());
    job.mirror = {.logits = host.logits,
                  .lte_scores = host.lte,
                  .ramp_logits = host.ramp,
                  .exit_site = host.exit_site,
                  .decided = host.decided};
  }
  run_exit(job, stream);
}

}  // namespace exeunt::cuda
