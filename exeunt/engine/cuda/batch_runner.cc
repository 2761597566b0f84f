// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cuda/batch_runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "exeunt/base/error.h"

namespace exeunt::cuda {
namespace {

constexpr size_t kMaxResultBytes = size_t{64} << 20;

}  // namespace

BatchRunner::Layout::Layout(const DeviceModel& model, const Capacity& capacity) : input(capacity) {
  const size_t texts = count(capacity.texts), sites = model.exits.sites.size();
  const size_t outputs = count(model.exits.outputs);
  Plan result;
  state = result.add(texts * count(max_state_floats(static_cast<int>(sites), model.exits.outputs)) * sizeof(float));
  exit_site = result.add(texts * sizeof(int));
  logits = result.add(texts * sites * outputs * sizeof(float));
  lte = result.add(texts * sites * sizeof(float));
  ramp = result.add(texts * outputs * sizeof(float));
  decided = result.add(sizeof(int));
  result_bytes = result.size();
}

BatchRunner::BatchRunner(const DeviceModel& model, int rows)
    : model_(model),
      state_floats_(max_state_floats(static_cast<int>(model.exits.sites.size()), model.exits.outputs)),
      layers_(model, std::max(rows, model.spec.max_tokens())) {
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
  plan_memory();
  clear();
}

BatchRunner::~BatchRunner() {
  try {
    stream_.wait();                  // for the rest of a text that left early
  } catch (const std::exception&) {  // it was reported with its batch
  }
}

void BatchRunner::plan_memory() {
  const Capacity capacity = max_capacity();
  const size_t rows = (count(capacity.rows) + 127) / 128 * 128, texts = count(capacity.texts);
  const size_t row = count(model_.spec.hidden) * bytes_of(model_.number);
  const Layout layout(model_, capacity);
  Plan plan;
  const size_t embedded = std::max(row, count(model_.spec.embedding) * bytes_of(model_.number));
  const size_t rows0 = plan.add(rows * row), rows1 = plan.add(rows * embedded);
  layers_.plan(plan);
  const size_t first_rows = plan.add(texts * row), first_live = plan.add(sizeof(Live));
  const size_t input = plan.add(layout.input.bytes), results = plan.add(layout.result_bytes);
  const size_t live = plan.add(sizeof(Live)), slot = plan.add(texts * sizeof(int)),
               begin = plan.add((texts + 1) * sizeof(int)), tiles = plan.add(count(capacity.tiles()) * sizeof(Tile));
  const size_t pooled = plan.add(texts * 2 * count(model_.spec.hidden) * sizeof(float));
  const size_t vectors = plan.add(texts * count(std::max(1, model_.exits.width)) * sizeof(float));
  const size_t hidden = plan.add(texts * count(model_.exits.inner.value_or(1)) * sizeof(float));
  const size_t leaves = plan.add(texts * sizeof(int)), from = plan.add(texts * sizeof(int));
  const size_t arrived_bytes = (texts / kExitTexts + 3) * sizeof(unsigned), arrived = plan.add(arrived_bytes);
  memory_ = device_memory(plan.size(), "a batch of texts");
  std::byte* base = memory_.data();
  layers_.place(base);
  at_ = {.rows = {base + rows0, base + rows1},
         .input = base + input,
         .results = base + results,
         .first_rows = base + first_rows,
         .first_live = reinterpret_cast<Live*>(base + first_live),
         .spare = {.live = reinterpret_cast<Live*>(base + live),
                   .slot = reinterpret_cast<int*>(base + slot),
                   .begin = reinterpret_cast<int*>(base + begin),
                   .tiles = reinterpret_cast<Tile*>(base + tiles)},
         .pooled = reinterpret_cast<float*>(base + pooled),
         .vectors = reinterpret_cast<float*>(base + vectors),
         .hidden = reinterpret_cast<float*>(base + hidden),
         .leaves = reinterpret_cast<int*>(base + leaves),
         .from = reinterpret_cast<int*>(base + from),
         .arrived = reinterpret_cast<unsigned*>(base + arrived)};
  host_input_ = pinned_memory(layout.input.bytes, "a batch of texts");
  host_results_ = pinned_memory(layout.result_bytes, "the answers of a batch");
  fill_zero(at_.arrived, arrived_bytes, stream_.get());
  stream_.wait();
}

void BatchRunner::clear() {
  texts_ = rows_ = 0;
  encodings_.clear();
  asks_.clear();
  policies_.clear();
}

bool BatchRunner::add(const Encoding& text, const SlotOptions& options) {
  const auto tokens = static_cast<int>(text.ids.size());
  if (texts_ > 0 && (texts_ + 1 > max_capacity().texts || rows_ + tokens > max_capacity().rows)) return false;
  SlotAsk ask{.stop = options.stop, .all_exits = options.all_exits ? 1 : 0};
  if (options.policy != nullptr) {
    const auto known = std::find(policies_.begin(), policies_.end(), options.policy);
    if (known == policies_.end() && policies_.size() == kMaxPolicies) return false;
    ask.policy = static_cast<int>(known - policies_.begin());
    if (known == policies_.end()) policies_.push_back(options.policy);
    check(options.policy->state_floats <= state_floats_, "a policy's state fits its place");
  }
  encodings_.push_back(&text);
  asks_.push_back(ask);
  ++texts_;
  rows_ += tokens;
  return true;
}

// The smallest capacity that takes the batch; writes the batch into pinned memory as it lies there.
void BatchRunner::choose_capacity() {
  stream_.wait();  // the rest of a text that left early
  capacity_ = &*std::find_if(capacities_.begin(), std::prev(capacities_.end()), [&](const Capacity& capacity) {
    return texts_ <= capacity.texts && rows_ <= capacity.rows;
  });
  layout_ = Layout(model_, *capacity_);
  std::vector<int> slots(count(texts_));
  std::iota(slots.begin(), slots.end(), 0);
  write_input({.encodings = encodings_, .slots = slots, .asks = asks_, .policies = policies_}, model_, layout_.input,
              host_input_.data());
}

std::string BatchRunner::uses() const {
  const size_t sites = model_.exits.sites.size();
  std::string out(sites, static_cast<char>(SiteUse::none));
  for (const SlotAsk& ask : asks_) {
    for (int site = 0; site <= ask.stop; ++site) {
      char& use = out[count(site)];
      const bool evaluated = ask.policy >= 0 && policies_[count(ask.policy)]->nth[site] >= 0;
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
  Parts& parts = graphs_[{capacity_, key}];
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
  const int none = -1, zero = 0;
  std::memcpy(host_results_.data() + layout_.exit_site, &none, sizeof none);
  std::memcpy(host_results_.data() + layout_.decided, &zero, sizeof zero);
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
  const auto read = [&](size_t place) {
    return __atomic_load_n(reinterpret_cast<const int*>(host_results_.data() + place), __ATOMIC_ACQUIRE);
  };
  const auto& sites = model_.exits.sites;
  // The parts end at the sites where texts leave; `passed` of them are behind the text.
  size_t passed = 0;
  std::vector<int> ends;
  const std::string key = uses();
  for (size_t site = 0; site < sites.size(); ++site)
    if (key[site] == static_cast<char>(SiteUse::leave)) ends.push_back(static_cast<int>(site));
  for (unsigned spins = 1; read(layout_.exit_site) < 0; ++spins) {
    const int decided = read(layout_.decided);
    while (passed < ends.size() && ends[passed] < decided) ++passed;
    if (launched_ < started_->size() && launched_ < passed + 2) (*started_)[launched_++]->launch(stream_.get());
    // A device that fails never answers.
    if (spins % 4096 != 0 || !stream_.idle() || launched_ < started_->size()) continue;
    check(read(layout_.exit_site) >= 0, "a text leaves at its last exit");
  }
}

int BatchRunner::exit_site(int text) const {
  int site = 0;
  std::memcpy(&site, host_results_.data() + layout_.exit_site + count(text) * sizeof(int), sizeof site);
  return site;
}
const float* BatchRunner::logits(int text, int site) const {
  const size_t sites = model_.exits.sites.size(), outputs = count(model_.exits.outputs);
  return reinterpret_cast<const float*>(host_results_.data() + layout_.logits) +
         (count(text) * sites + count(site)) * outputs;
}
float BatchRunner::lte(int text, int site) const {
  return reinterpret_cast<const float*>(host_results_.data() +
                                        layout_.lte)[count(text) * model_.exits.sites.size() + count(site)];
}
const float* BatchRunner::ramp(int text) const {
  return reinterpret_cast<const float*>(host_results_.data() + layout_.ramp) +
         count(text) * count(model_.exits.outputs);
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
          .rows = at_.rows[0],
          .spare = at_.rows[1],
          .list = InputLayout(capacity).list(at_.input),
          .other = at_.spare};
}

void BatchRunner::enqueue_start(const BatchCursor& cursor) {
  const Capacity& capacity = cursor.capacity;
  const Layout layout(model_, capacity);
  const Stream stream = stream_.get();
  copy_to_device(at_.input, host_input_.data(), layout.input.bytes, stream);
  fill_zero(at_.results + layout.state, layout.exit_site - layout.state, stream);
  layers_.embed_tokens({.layout = layout.input,
                        .input = at_.input,
                        .embedded = cursor.spare,
                        .out = cursor.rows,
                        .live = cursor.list.live,
                        .max_rows = capacity.rows},
                       stream);
  if (cursor.after) cursor.after(0, cursor.rows, cursor.list);
}

void BatchRunner::enqueue_part(BatchCursor& at) {
  const auto& sites = model_.exits.sites;
  for (bool left = false; !at.over() && !left; ++at.layer) {
    const int layer = at.layer + 1;
    const bool has_exit = at.next < sites.size() && sites[at.next].after == layer;
    const SiteUse use = has_exit ? static_cast<SiteUse>(at.uses[at.next]) : SiteUse::none;
    // At the last layer everybody leaves; where the exit reads row 0 alone, nothing else is computed.
    const bool last =
        layer == at.layers && !at.after && has_exit && at.capacity.texts > 1 && !model_.reads_all_rows(sites[at.next]);
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
                     .from = at_.from,
                     .before = at.list,
                     .after = at.other,
                     .capacity = at.capacity},
                    stream_.get());
    } else if (at.capacity.texts > 1) {
      compact({.rows = at.rows,
               .out = at.spare,
               .row_bytes = count(model_.spec.hidden) * bytes_of(model_.number),
               .from = at_.from,
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
  const Layout layout(model_, capacity);
  copy_to_host(host_results_.data() + layout.exit_site, at_.results + layout.exit_site,
               layout.decided - layout.exit_site, stream_.get());
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
              .row_bytes = count(model_.spec.hidden) * bytes_of(model_.number),
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
  if (model_.reads_all_rows(site)) {
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
    const Matrix& pooler = model_.poolers[count(*site.pooler)];
    multiply({.number = model_.number,
              .input = at_.first_rows,
              .weight = pooler.weight,
              .bias = pooler.bias,
              .inputs = pooler.inputs,
              .outputs = pooler.outputs,
              .finish = Finish::tanh,
              .live = at_.first_live,
              .max_rows = at.capacity.texts,
              .wide = at_.vectors},
             model_.chip, stream);
  }
}

void BatchRunner::enqueue_exit(const ExitSite& site, int index, bool ramp, const BatchCursor& at, bool before_norm,
                               Stream stream) {
  const Capacity& capacity = at.capacity;
  const TextList& before = at.list;
  const std::byte* rows = at.rows;
  const Layout layout(model_, capacity);
  const int hidden = model_.spec.hidden;
  const bool all_rows = model_.reads_all_rows(site), product = model_.pools_by_product(site);
  enqueue_pooling(site, at, before_norm, stream);
  // Without a pooler, the classifier reads what is pooled already.
  const Matrix pooler = site.pooler && !product ? model_.poolers[count(*site.pooler)] : Matrix{};
  const int width = site.pooler ? model_.poolers[count(*site.pooler)].outputs : hidden;
  const DeviceModel::Classifier& classifier = model_.classifiers[count(site.classifier)];
  const auto results = [&](size_t place) { return reinterpret_cast<float*>(at_.results + place); };
  std::byte* host = host_results_.data();
  const ExitJob::Mirror mirror{.logits = reinterpret_cast<float*>(host + layout.logits),
                               .lte_scores = reinterpret_cast<float*>(host + layout.lte),
                               .ramp_logits = reinterpret_cast<float*>(host + layout.ramp),
                               .exit_site = reinterpret_cast<int*>(host + layout.exit_site),
                               .decided = reinterpret_cast<int*>(host + layout.decided)};
  run_exit({.number = model_.number,
            .site = index,
            .ramp = ramp,
            .rows = rows,
            .pooled = product    ? at_.vectors
                      : all_rows ? at_.pooled
                                 : nullptr,
            .inputs = product       ? width
                      : site.reader ? 2 * hidden
                                    : hidden,
            .row_columns = hidden,
            .pooler = pooler.weight,
            .pooler_bias = pooler.bias,
            .width = width,
            .classifier = classifier.outer,
            .inner = classifier.inner,
            .lte = model_.lte,
            .sites = static_cast<int>(model_.exits.sites.size()),
            .outputs = model_.exits.outputs,
            .asks = reinterpret_cast<const SlotAsk*>(at_.input + layout.input.asks),
            .policies = reinterpret_cast<const Policy*>(at_.input + layout.input.policies),
            .state = results(layout.state),
            .state_floats = state_floats_,
            .logits = results(layout.logits),
            .lte_scores = results(layout.lte),
            .ramp_logits = results(layout.ramp),
            .exit_site = reinterpret_cast<int*>(at_.results + layout.exit_site),
            .vectors = at_.vectors,
            .hidden = at_.hidden,
            .leaves = at_.leaves,
            .from = at_.from,
            .arrived = at_.arrived,
            .before = before,
            .after = at.other,
            .mirror = at.host_polls ? mirror : ExitJob::Mirror{},
            .max_texts = capacity.texts},
           stream);
}

}  // namespace exeunt::cuda
