// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/cuda/lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exeunt/base/error.h"

namespace exeunt::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMostResultBytes = size_t{64} << 20;

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Adds up parts of a region.
class Plan {
 public:
  size_t add(size_t bytes) {
    const size_t place = size_;
    size_ += aligned(bytes);
    return place;
  }
  [[nodiscard]] size_t size() const noexcept { return size_; }

 private:
  size_t size_ = 0;
};

Finish finish_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return Finish::gelu;
    case Activation::gelu_new:
      return Finish::gelu_new;
    case Activation::relu:
      return Finish::relu;
  }
  return Finish::none;
}

size_t count(int n) {
  return static_cast<size_t>(n);
}

}  // namespace

Lane::Layout::Layout(const DeviceModel& model, const Room& room) {
  const size_t texts = count(room.texts), rows = count(room.rows), sites = model.exits.sites.size();
  const size_t outputs = count(model.exits.outputs);
  Plan input;
  live = input.add(sizeof(Live));
  slot = input.add(texts * sizeof(int));
  begin = input.add((texts + 1) * sizeof(int));
  tiles = input.add(count(room.tiles()) * sizeof(Tile));
  asks = input.add(texts * sizeof(SlotAsk));
  policies = input.add(kMostPolicies * sizeof(Policy));
  ids = input.add(rows * sizeof(int32_t));
  types = input.add(rows * sizeof(int32_t));
  positions = input.add(rows * sizeof(int32_t));
  input_bytes = input.size();
  Plan result;
  state = result.add(texts * (sites + outputs + 8) * sizeof(float));
  left = result.add(texts * sizeof(int));
  logits = result.add(texts * sites * outputs * sizeof(float));
  lte = result.add(texts * sites * sizeof(float));
  ramp = result.add(texts * outputs * sizeof(float));
  decided = result.add(sizeof(int));
  result_bytes = result.size();
}

// A state is at most a window as wide as there are exits, and the probabilities of the exit before (exits/policy.cc).
Lane::Lane(const DeviceModel& model, int rows)
    : model_(model), state_floats_(static_cast<int>(model.exits.sites.size()) + model.exits.outputs + 8) {
  const int longest = model.spec.max_tokens();
  const int most = std::max(rows, longest);
  const size_t per_text = (model.exits.sites.size() + 1) * count(model.exits.outputs + 1) * sizeof(float);
  const int most_texts = static_cast<int>(std::max<size_t>(1, std::min<size_t>(16384, kMostResultBytes / per_text)));
  for (const int few : {32, 64, 128, 256}) {
    if (few < longest && few < most) rooms_.push_back({.texts = 1, .rows = few});
  }
  rooms_.push_back({.texts = 1, .rows = longest});
  for (int size = 128; size < most; size *= 2)
    rooms_.push_back({.texts = std::min(most_texts, size / 4), .rows = size});
  rooms_.push_back({.texts = std::min(most_texts, std::max(1, most / 4)), .rows = most});
  plan_memory();
  clear();
}

Lane::~Lane() {
  try {
    stream_.wait();                  // for the rest of a text that left early
  } catch (const std::exception&) {  // it was reported with its batch
  }
}

void Lane::plan_memory() {
  const Room room = most();
  const size_t rows = (count(room.rows) + 127) / 128 * 128, texts = count(room.texts);
  const size_t row = count(model_.spec.hidden) * bytes_of(model_.number);
  const size_t inner = count(model_.spec.inner) * bytes_of(model_.number);
  const Layout layout(model_, room);
  Plan plan;
  const size_t embedded = std::max(row, count(model_.spec.embedding) * bytes_of(model_.number));
  const size_t rows0 = plan.add(rows * row), rows1 = plan.add(rows * embedded), middle = plan.add(rows * row),
               product = plan.add(rows * row);
  const size_t wide =
      plan.add(rows * std::max(4 * row, inner));  // queries, keys, values and context, or the inner half
  const size_t quantized =
      plan.add(model_.quantizes ? rows * count(std::max(model_.spec.hidden, model_.spec.inner)) : 0);
  const size_t scales = plan.add(model_.quantizes ? rows * sizeof(float) : 0);
  const size_t input = plan.add(layout.input_bytes), results = plan.add(layout.result_bytes);
  const size_t live = plan.add(sizeof(Live)), slot = plan.add(texts * sizeof(int)),
               begin = plan.add((texts + 1) * sizeof(int)), tiles = plan.add(count(room.tiles()) * sizeof(Tile));
  const size_t pooled = plan.add(texts * 2 * count(model_.spec.hidden) * sizeof(float));
  const size_t vectors = plan.add(texts * count(std::max(1, model_.exits.width)) * sizeof(float));
  const size_t hidden = plan.add(texts * count(model_.exits.inner.value_or(1)) * sizeof(float));
  const size_t leaves = plan.add(texts * sizeof(int)), from = plan.add(texts * sizeof(int));
  const size_t arrived_bytes = (texts / kExitTexts + 3) * sizeof(unsigned), arrived = plan.add(arrived_bytes);
  memory_ = device_memory(plan.size(), "a batch of texts");
  std::byte* base = memory_.data();
  at_ = {.rows = {base + rows0, base + rows1},
         .middle = base + middle,
         .product = base + product,
         .wide = base + wide,
         .input = base + input,
         .results = base + results,
         .spare = {.live = reinterpret_cast<Live*>(base + live),
                   .slot = reinterpret_cast<int*>(base + slot),
                   .begin = reinterpret_cast<int*>(base + begin),
                   .tiles = reinterpret_cast<Tile*>(base + tiles)},
         .quantized = reinterpret_cast<int8_t*>(base + quantized),
         .scales = reinterpret_cast<float*>(base + scales),
         .pooled = reinterpret_cast<float*>(base + pooled),
         .vectors = reinterpret_cast<float*>(base + vectors),
         .hidden = reinterpret_cast<float*>(base + hidden),
         .leaves = reinterpret_cast<int*>(base + leaves),
         .from = reinterpret_cast<int*>(base + from),
         .arrived = reinterpret_cast<unsigned*>(base + arrived)};
  host_input_ = pinned_memory(layout.input_bytes, "a batch of texts");
  host_results_ = pinned_memory(layout.result_bytes, "the answers of a batch");
  fill_zero(at_.arrived, arrived_bytes, stream_.get());
  stream_.wait();
}

void Lane::clear() {
  texts_ = rows_ = 0;
  encodings_.clear();
  asks_.clear();
  policies_.clear();
}

bool Lane::add(const Encoding& text, const Wish& wish) {
  const auto tokens = static_cast<int>(text.ids.size());
  if (texts_ > 0 && (texts_ + 1 > most().texts || rows_ + tokens > most().rows)) return false;
  SlotAsk ask{.stop = wish.stop, .every = wish.every ? 1 : 0};
  if (wish.policy != nullptr) {
    const auto known = std::find(policies_.begin(), policies_.end(), wish.policy);
    if (known == policies_.end() && policies_.size() == kMostPolicies) return false;
    ask.policy = static_cast<int>(known - policies_.begin());
    if (known == policies_.end()) policies_.push_back(wish.policy);
    check(wish.policy->state_floats <= state_floats_, "a policy's state fits its place");
  }
  encodings_.push_back(&text);
  asks_.push_back(ask);
  ++texts_;
  rows_ += tokens;
  return true;
}

// The smallest room that takes the batch; writes the batch into pinned memory as it lies there.
void Lane::choose_room() {
  stream_.wait();  // the rest of a text that left early
  room_ = &*std::find_if(rooms_.begin(), std::prev(rooms_.end()),
                         [&](const Room& room) { return texts_ <= room.texts && rows_ <= room.rows; });
  layout_ = Layout(model_, *room_);
  const Layout& layout = layout_;
  std::byte* host = host_input_.data();
  const auto array = [&]<class T>(size_t place, T*) { return reinterpret_cast<T*>(host + place); };
  int* slot = array(layout.slot, slot);
  int* begin = array(layout.begin, begin);
  Tile* tiles = array(layout.tiles, tiles);
  int32_t* ids = array(layout.ids, ids);
  int32_t* types = array(layout.types, types);
  int32_t* positions = array(layout.positions, positions);
  int row = 0, tile = 0;
  for (int text = 0; text < texts_; ++text) {
    const Encoding& encoding = *encodings_[count(text)];
    const auto tokens = static_cast<int>(encoding.ids.size());
    slot[text] = text;
    begin[text] = row;
    for (int first = 0; first < tokens; first += kTileRows) tiles[tile++] = {.text = text, .first = first};
    for (int t = 0; t < tokens; ++t, ++row) {
      ids[row] = encoding.ids[count(t)];
      types[row] = encoding.types[count(t)];
      positions[row] = t + model_.spec.position_offset;
    }
  }
  begin[texts_] = row;
  const Live live{.texts = texts_, .rows = row, .tiles = tile};
  std::memcpy(host + layout.live, &live, sizeof live);
  std::copy(asks_.begin(), asks_.end(), array(layout.asks, static_cast<SlotAsk*>(nullptr)));
  for (size_t p = 0; p < policies_.size(); ++p) {
    Policy policy = *policies_[p];
    policy.cuts = model_.cuts;
    std::memcpy(host + layout.policies + p * sizeof(Policy), &policy, sizeof(Policy));
  }
}

std::string Lane::uses() const {
  const size_t sites = model_.exits.sites.size();
  std::string out(sites, static_cast<char>(SiteUse::none));
  for (const SlotAsk& ask : asks_) {
    for (int site = 0; site <= ask.stop; ++site) {
      char& use = out[count(site)];
      const bool evaluated = ask.policy >= 0 && policies_[count(ask.policy)]->nth[site] >= 0;
      if (site == ask.stop || evaluated) {
        use = static_cast<char>(SiteUse::leave);
      } else if (ask.every != 0 && use == static_cast<char>(SiteUse::none)) {
        use = static_cast<char>(SiteUse::look);
      }
    }
  }
  const bool last = out.back() != static_cast<char>(SiteUse::none);
  if (last && model_.exits.last_ramp) out.push_back('r');
  return out;
}

void Lane::start() {
  choose_room();
  const std::string key = uses();
  Parts& parts = graphs_[{room_, key}];
  if (parts.empty()) {
    const AfterLayer nobody;
    Passage passage = begin_passage(*room_, key, 0, nobody);
    const bool leave = static_cast<size_t>(std::count(key.begin(), key.end(), static_cast<char>(SiteUse::leave))) > 1;
    passage.followed = room_->texts == 1 && leave;
    while (!passage.over()) {
      parts.push_back(std::make_unique<Graph>(stream_.get(), [&] {
        if (passage.layer == 0) enqueue_start(passage);
        do {
          enqueue_part(passage);
        } while (!passage.followed && !passage.over());
        if (!passage.followed) enqueue_results(*room_);
      }));
    }
  }
  started_ = &parts;
  const int none = -1, zero = 0;
  std::memcpy(host_results_.data() + layout_.left, &none, sizeof none);
  std::memcpy(host_results_.data() + layout_.decided, &zero, sizeof zero);
  for (launched_ = 0; launched_ < std::min<size_t>(2, parts.size()); ++launched_)
    parts[launched_]->launch(stream_.get());
}

void Lane::run_by_layer(int depth, const AfterLayer& after) {
  choose_room();
  started_ = nullptr;
  const std::string key = uses();
  Passage passage = begin_passage(*room_, key, depth, after);
  enqueue_start(passage);
  while (!passage.over()) enqueue_part(passage);
  enqueue_results(*room_);
}

void Lane::wait() {
  if (started_ == nullptr || started_->size() == 1) return stream_.wait();
  follow();
}

void Lane::follow() {
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
  for (unsigned spins = 1; read(layout_.left) < 0; ++spins) {
    const int decided = read(layout_.decided);
    while (passed < ends.size() && ends[passed] < decided) ++passed;
    if (launched_ < started_->size() && launched_ < passed + 2) (*started_)[launched_++]->launch(stream_.get());
    // A device that fails never answers.
    if (spins % 4096 != 0 || !stream_.idle() || launched_ < started_->size()) continue;
    check(read(layout_.left) >= 0, "a text leaves at its last exit");
  }
}

int Lane::left(int text) const {
  int site = 0;
  std::memcpy(&site, host_results_.data() + layout_.left + count(text) * sizeof(int), sizeof site);
  return site;
}
const float* Lane::logits(int text, int site) const {
  const size_t sites = model_.exits.sites.size(), outputs = count(model_.exits.outputs);
  return reinterpret_cast<const float*>(host_results_.data() + layout_.logits) +
         (count(text) * sites + count(site)) * outputs;
}
float Lane::lte(int text, int site) const {
  return reinterpret_cast<const float*>(host_results_.data() +
                                        layout_.lte)[count(text) * model_.exits.sites.size() + count(site)];
}
const float* Lane::ramp(int text) const {
  return reinterpret_cast<const float*>(host_results_.data() + layout_.ramp) +
         count(text) * count(model_.exits.outputs);
}

bool Lane::reads_all_rows(const ExitSite& site) const {
  return site.reader.has_value() || model_.exits.input != PoolInput::cls;
}

TextList Lane::list_of(const Room& room) const {
  const Layout layout(model_, room);
  return {.live = reinterpret_cast<Live*>(at_.input + layout.live),
          .slot = reinterpret_cast<int*>(at_.input + layout.slot),
          .begin = reinterpret_cast<int*>(at_.input + layout.begin),
          .tiles = reinterpret_cast<Tile*>(at_.input + layout.tiles)};
}

Lane::Passage Lane::begin_passage(const Room& room, const std::string& uses, int depth, const AfterLayer& after) {
  const auto& sites = model_.exits.sites;
  size_t last = 0;
  for (size_t i = 0; i < sites.size(); ++i)
    if (uses[i] != static_cast<char>(SiteUse::none)) last = i;
  return {.room = room,
          .uses = uses,
          .after = after,
          .layers = depth > 0 ? depth : sites[last].after,
          .rows = at_.rows[0],
          .spare = at_.rows[1],
          .list = list_of(room),
          .other = at_.spare};
}

void Lane::enqueue_start(const Passage& passage) {
  const Room& room = passage.room;
  const Layout layout(model_, room);
  const Stream stream = stream_.get();
  copy_to_device(at_.input, host_input_.data(), layout.input_bytes, stream);
  fill_zero(at_.results + layout.state, layout.left - layout.state, stream);
  const auto ids = [&](size_t place) { return reinterpret_cast<const int32_t*>(at_.input + place); };
  std::byte* embedded = model_.project ? passage.spare : passage.rows;
  embed({.number = model_.number,
         .ids = ids(layout.ids),
         .types = ids(layout.types),
         .positions = ids(layout.positions),
         .word = model_.word,
         .position = model_.position,
         .segment = model_.segment,
         .columns = model_.spec.embedding,
         .norm = model_.embedding_norm,
         .out = embedded,
         .live = passage.list.live,
         .max_rows = room.rows},
        stream);
  if (model_.project) {
    multiply({.number = model_.number,
              .input = embedded,
              .weight = model_.project->weight,
              .bias = model_.project->bias,
              .out = passage.rows,
              .inputs = model_.project->inputs,
              .outputs = model_.project->outputs,
              .live = passage.list.live,
              .max_rows = room.rows},
             model_.chip, stream);
  }
  if (passage.after) passage.after(0, passage.rows, passage.list);
}

void Lane::enqueue_part(Passage& at) {
  const auto& sites = model_.exits.sites;
  for (bool left = false; !at.over() && !left; ++at.layer) {
    const int layer = at.layer + 1;
    // At the last layer everybody leaves; where the exit reads row 0 alone, nothing else is computed.
    const bool last = layer == at.layers && !at.after && at.next < sites.size() && sites[at.next].after == layer &&
                      at.room.texts > 1 && !reads_all_rows(sites[at.next]);
    if (last) {
      enqueue_first_rows(at);
      std::swap(at.rows, at.spare);
      std::swap(at.list, at.other);
    } else {
      enqueue_layer(at);
    }
    if (at.after) at.after(layer, at.rows, at.list);
    if (at.next == sites.size() || sites[at.next].after != layer) continue;
    const size_t site = at.next++;
    if (at.uses[site] == static_cast<char>(SiteUse::none)) continue;
    left = at.uses[site] == static_cast<char>(SiteUse::leave) && layer < at.layers;
    const auto index = static_cast<int>(site);
    if (at.uses.back() == 'r' && site + 1 == sites.size()) {
      const ExitSite ramp{
          .after = layer, .pooler = model_.exits.last_ramp->pooler, .classifier = model_.exits.last_ramp->classifier};
      enqueue_exit(ramp, index, true, at.room, at.list, at.other, at.rows, at.followed);
    }
    enqueue_exit(sites[site], index, false, at.room, at.list, at.other, at.rows, at.followed);
    if (!left) continue;
    if (at.room.texts > 1) {
      compact({.rows = at.rows,
               .out = at.spare,
               .row_bytes = count(model_.spec.hidden) * bytes_of(model_.number),
               .from = at_.from,
               .before = at.list,
               .after = at.other,
               .max_texts = at.room.texts},
              stream_.get());
      std::swap(at.rows, at.spare);
    }
    std::swap(at.list, at.other);
  }
}

void Lane::enqueue_results(const Room& room) {
  const Layout layout(model_, room);
  copy_to_host(host_results_.data() + layout.left, at_.results + layout.left, layout.decided - layout.left,
               stream_.get());
}

void Lane::enqueue_product(const Matrix& matrix, const std::byte* from, std::byte* to, Finish finish, const Live* live,
                           int max_rows) {
  const bool int8 = matrix.scale != nullptr;
  if (int8) {
    quantize({.rows = from,
              .columns = matrix.inputs,
              .out = at_.quantized,
              .scale = at_.scales,
              .live = live,
              .max_rows = max_rows},
             stream_.get());
  }
  multiply({.number = model_.number,
            .input = int8 ? static_cast<const void*>(at_.quantized) : from,
            .weight = matrix.weight,
            .bias = matrix.bias,
            .out = to,
            .inputs = matrix.inputs,
            .outputs = matrix.outputs,
            .finish = finish,
            .live = live,
            .max_rows = max_rows,
            .row_scale = int8 ? at_.scales : nullptr,
            .column_scale = matrix.scale},
           model_.chip, stream_.get());
}

// Attention's output, behind queries, keys and values.
std::byte* Lane::context() const {
  const size_t capacity = (count(most().rows) + 127) / 128 * 128;
  return at_.wide + capacity * 3 * count(model_.spec.hidden) * bytes_of(model_.number);
}

void Lane::enqueue_attention(const Passage& at, bool first_only) {
  enqueue_product(model_.layer(at.layer).qkv, at.rows, at_.wide, Finish::none, at.list.live, at.room.rows);
  attend({.number = model_.number,
          .qkv = at_.wide,
          .hidden = model_.spec.hidden,
          .heads = model_.spec.heads,
          .out = context(),
          .list = at.list,
          .room = at.room,
          .max_tokens = std::min(at.room.rows, model_.spec.max_tokens()),
          .first_only = first_only},
         stream_.get());
}

// a = norm(residual + output(context))   out = norm(a + ffn2(act(ffn1 a)))
void Lane::enqueue_rest(int layer, const Live* live, int max_rows, const std::byte* from, const std::byte* residual,
                        std::byte* out) {
  const LayerWeights& weights = model_.layer(layer);
  const auto norm = [&](const std::byte* other, const Norm& weight, std::byte* to) {
    add_norm({.number = model_.number,
              .a = at_.product,
              .b = other,
              .out = to,
              .columns = model_.spec.hidden,
              .norm = weight,
              .live = live,
              .max_rows = max_rows},
             stream_.get());
  };
  enqueue_product(weights.output, from, at_.product, Finish::none, live, max_rows);
  norm(residual, weights.attention_norm, at_.middle);
  enqueue_product(weights.ffn1, at_.middle, at_.wide, finish_of(model_.spec.activation), live, max_rows);
  enqueue_product(weights.ffn2, at_.wide, at_.product, Finish::none, live, max_rows);
  norm(at_.middle, weights.ffn_norm, out);
}

void Lane::enqueue_layer(const Passage& at) {
  enqueue_attention(at, false);
  enqueue_rest(at.layer, at.list.live, at.room.rows, context(), at.rows, at.rows);
}

void Lane::enqueue_first_rows(const Passage& at) {
  enqueue_attention(at, true);
  take_first({.a = context(),
              .b = at.rows,
              .first_of_a = at_.wide,  // over queries, which are no longer needed
              .first_of_b = at.spare,
              .row_bytes = count(model_.spec.hidden) * bytes_of(model_.number),
              .list = at.list,
              .firsts = at.other,
              .max_texts = at.room.texts},
             stream_.get());
  enqueue_rest(at.layer, at.other.live, at.room.texts, at_.wide, at.spare, at.spare);
}

void Lane::enqueue_exit(const ExitSite& site, int index, bool ramp, const Room& room, const TextList& before,
                        const TextList& after, const std::byte* rows, bool followed) {
  const Stream stream = stream_.get();
  const Layout layout(model_, room);
  const int hidden = model_.spec.hidden;
  const bool all_rows = reads_all_rows(site);
  if (all_rows) {
    pool({.number = model_.number,
          .rows = rows,
          .columns = hidden,
          .input = model_.exits.input,
          .reader = site.reader ? model_.readers[count(*site.reader)] : nullptr,
          .out = at_.pooled,
          .list = before,
          .max_texts = room.texts,
          .max_tokens = std::min(room.rows, model_.spec.max_tokens())},
         stream);
  }
  const Matrix pooler = site.pooler ? model_.poolers[count(*site.pooler)] : Matrix{};
  const DeviceModel::Classifier& classifier = model_.classifiers[count(site.classifier)];
  const auto results = [&](size_t place) { return reinterpret_cast<float*>(at_.results + place); };
  std::byte* host = host_results_.data();
  const ExitJob::Mirror mirror{.logits = reinterpret_cast<float*>(host + layout.logits),
                               .lte_scores = reinterpret_cast<float*>(host + layout.lte),
                               .ramp_logits = reinterpret_cast<float*>(host + layout.ramp),
                               .left = reinterpret_cast<int*>(host + layout.left),
                               .decided = reinterpret_cast<int*>(host + layout.decided)};
  run_exit({.number = model_.number,
            .site = index,
            .ramp = ramp,
            .rows = rows,
            .pooled = all_rows ? at_.pooled : nullptr,
            .inputs = site.reader ? 2 * hidden : hidden,
            .row_columns = hidden,
            .pooler = pooler.weight,
            .pooler_bias = pooler.bias,
            .width = site.pooler ? pooler.outputs : hidden,
            .classifier = classifier.outer,
            .inner = classifier.inner,
            .lte = model_.lte,
            .sites = static_cast<int>(model_.exits.sites.size()),
            .outputs = model_.exits.outputs,
            .asks = reinterpret_cast<const SlotAsk*>(at_.input + layout.asks),
            .policies = reinterpret_cast<const Policy*>(at_.input + layout.policies),
            .state = results(layout.state),
            .state_floats = state_floats_,
            .logits = results(layout.logits),
            .lte_scores = results(layout.lte),
            .ramp_logits = results(layout.ramp),
            .left = reinterpret_cast<int*>(at_.results + layout.left),
            .vectors = at_.vectors,
            .hidden = at_.hidden,
            .leaves = at_.leaves,
            .from = at_.from,
            .arrived = at_.arrived,
            .before = before,
            .after = after,
            .mirror = followed ? mirror : ExitJob::Mirror{},
            .max_texts = room.texts},
           stream);
}

}  // namespace exeunt::cuda
