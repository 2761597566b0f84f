// SPDX-License-Identifier: Apache-2.0
#include "lab/pretrain/pretrain.h"

#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/family.h"
#include "exeunt/train/new_heads.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/run_state.h"
#include "exeunt/train/torch_compat.h"
#include "exeunt/train/world.h"
#include "lab/pretrain/pretrain_network.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

using nn::Tensor;
using std::chrono::steady_clock;

constexpr const char* kHeadFile = "pretraining.safetensors";  // beside the backbone: the heads, to continue from
constexpr const char* kStateFile = "pretraining_state.json";
constexpr const char* kStateTensors = "pretraining_state.safetensors";
constexpr const char* kStateFormat = "exeunt.pretraining/1";
constexpr size_t kMaxState = size_t{1} << 30;
constexpr int64_t kEvalRows = 2048;  // of the held-out documents

// The name of a process's random numbers in a checkpoint.
std::string random_of(int rank) {
  return rank == 0 ? "random.cpu" : fmt::format("random.cpu.{}", rank);
}

// Sums of losses by exit since the last line of the log, as many as there were.
class LossSums {
 public:
  explicit LossSums(size_t exits) : sums_(exits), counts_(exits) {}
  void add(const std::vector<std::optional<double>>& values) {
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (!values[i]) continue;
      sums_[i] += *values[i];
      ++counts_[i];
    }
  }
  // Their means; null for an exit without any.
  [[nodiscard]] OrderedJson take() {
    OrderedJson out = OrderedJson::array();
    for (size_t i = 0; i < sums_.size(); ++i) {
      out.push_back(counts_[i] == 0 ? OrderedJson(nullptr) : OrderedJson(sums_[i] / counts_[i]));
      sums_[i] = 0;
      counts_[i] = 0;
    }
    return out;
  }

 private:
  std::vector<double> sums_;
  std::vector<int> counts_;
};

class Pretraining {
 public:
  Pretraining(const Checkpoint& base, const Corpus& corpus, const PretrainOptions& options);
  PretrainResult go();

 private:
  // Rank 0 alone prints and writes.
  [[nodiscard]] bool is_rank_zero() const noexcept { return world_.rank() == 0; }
  void notice(std::string_view text) const {
    if (options_.notice && is_rank_zero()) options_.notice(text);
  }
  [[nodiscard]] int64_t rows_of_step() const { return int64_t{options_.batch} * options_.accumulation; }
  void make_network();
  void load_heads();
  [[nodiscard]] OrderedJson configuration() const;
  [[nodiscard]] std::span<const int64_t> rows_of(int64_t step);
  [[nodiscard]] nn::PretrainTensors tensors_of(const std::vector<PackedRow>& rows, std::span<const int64_t> which,
                                               uint64_t epoch, const PretrainCounts& counts) const;
  void step();
  void log(const OrderedJson& entry);
  void log_step(const nn::PretrainReport& report);
  [[nodiscard]] OrderedJson evaluate();
  void notice_start() const;
  void save();
  void restore(const fs::path& folder);
  [[nodiscard]] PretrainResult finish();

  const Checkpoint& base_;
  const Corpus& corpus_;
  PretrainOptions options_;  // with the precision that was chosen
  ModelSpec spec_;
  torch::Device device_;
  nn::World world_;
  HeldOutRows rows_;
  int64_t per_epoch_ = 0, steps_ = 0;
  nn::PretrainNetwork network_{nullptr};
  std::optional<nn::PretrainStepper> stepper_;
  std::vector<int64_t> order_;  // of the rows in epoch `epoch_`
  int64_t epoch_ = -1;
  int64_t tokens_ = 0;  // seen by all processes, without padding
  OrderedJson entries_ = OrderedJson::array();
  std::optional<RunLog> log_;
  std::optional<Progress> progress_;
  LossSums token_sums_, order_sums_;
  steady_clock::time_point logged_at_, started_;
  int64_t logged_tokens_ = 0, first_tokens_ = 0;
};

Pretraining::Pretraining(const Checkpoint& base, const Corpus& corpus, const PretrainOptions& options)
    : base_(base),
      corpus_(corpus),
      options_(options),
      spec_(options.scratch.value_or(base.spec())),
      device_(nn::compat::choose_device(options.device, nn::World::local_rank())),
      world_(nn::World::join(device_.is_cuda())),
      rows_(hold_out_documents(corpus, pack_rows(corpus, options.shape), options.hold_out)),
      token_sums_(static_cast<size_t>(spec_.layers)),
      order_sums_(static_cast<size_t>(spec_.layers)) {
  options_.precision = nn::compat::precision_on(device_, options.precision);
  nn::compat::repeat_bit_for_bit(device_, options_.deterministic);
  if (options_.groups > spec_.layers) {
    throw Error(Code::usage,
                fmt::format("--groups: got {}, want at most {}, one for each layer", options_.groups, spec_.layers));
  }
  if (options_.threads > 0) torch::set_num_threads(options_.threads);
  per_epoch_ = static_cast<int64_t>(rows_.train.size()) / rows_of_step();
  if (per_epoch_ == 0) {
    throw Error(Code::bad_file,
                fmt::format("the corpus has {} rows of {} tokens to train on, want at least one batch of {}",
                            rows_.train.size(), options_.tokens, rows_of_step()),
                "add text, or lower --batch, --accumulation or --hold-out");
  }
  steps_ = options_.steps > 0 ? options_.steps
                              : std::max<int64_t>(1, std::llround(options_.epochs * static_cast<double>(per_epoch_)));
  make_network();
}

void Pretraining::make_network() {
  const auto seed = static_cast<uint64_t>(options_.seed);
  const ExitLayout layout = nn::pretrain_layout(spec_);
  nn::TokenHead head(spec_);
  torch::manual_seed(seed);
  nn::draw_weights(*head);
  if (options_.scratch) {
    nn::Network network(spec_, layout);
    torch::manual_seed(seed);
    nn::draw_weights(*network);
    network_ = nn::PretrainNetwork(network, head);
  } else {
    nn::Start start = nn::start_network(base_, layout, HeadInit::copy_pooler, seed);
    for (const std::string& line : start.notices) notice(line);
    network_ = nn::PretrainNetwork(start.network, head);
    load_heads();
  }
  network_->to(device_);
  stepper_.emplace(network_, nn::PretrainStepOptions{
                                 .lr = options_.lr,
                                 .weight_decay = options_.weight_decay,
                                 .epsilon = options_.adam_epsilon,
                                 .clip = options_.clip,
                                 .schedule = {.steps = steps_, .warmup = options_.warmup * static_cast<double>(steps_)},
                                 .groups = options_.groups,
                                 .equilibrium = !options_.no_equilibrium,
                                 .bf16 = options_.precision == "bf16",
                                 .world = &world_});
}

// The heads of an earlier pretraining, where the base has them; other backbones begin with new ones.
void Pretraining::load_heads() {
  const ReadPath path = ReadPath::in(base_.folder(), kHeadFile);
  if (!path_exists(path.path())) return notice("the model has no MLM head: it starts from random weights");
  const torch::NoGradGuard no_grad;
  const TensorSet set = read_safetensors(path);
  for (auto& item : network_->named_parameters()) {
    if (!item.key().starts_with("mlm.") && !item.key().starts_with("network.exits.classifier.")) continue;
    const Tensor stored = nn::tensor_of(set, item.key());
    if (!stored.defined() || stored.sizes() != item.value().sizes()) {
      throw_bad_file(path.string(), "got no '{}' of the model's shape", item.key());
    }
    item.value().copy_(stored);
  }
}

OrderedJson Pretraining::configuration() const {
  OrderedJson out = fields_json<PretrainSettings>(options_, kShapesWeights);
  out["steps"] = steps_;
  out["base"] = options_.scratch ? std::string("scratch") : weights_sha256(base_);
  out["layers"] = spec_.layers;
  out["hidden"] = spec_.hidden;
  out["corpus"] = corpus_sha256(corpus_);
  out["device"] = device_.is_cuda() ? "cuda" : "cpu";
  out["torch"] = nn::compat::version();
  if (world_.size() > 1) out["world"] = world_.size();
  return out;
}

// The rows of a step: a part of the epoch's order. What is left over at its end is not trained on in that epoch.
std::span<const int64_t> Pretraining::rows_of(int64_t step) {
  const int64_t epoch = step / per_epoch_;
  if (epoch != epoch_) {
    epoch_ = epoch;
    order_ = shuffled_rows(static_cast<int64_t>(rows_.train.size()),
                           {.seed = static_cast<uint64_t>(options_.seed), .epoch = static_cast<uint64_t>(epoch)});
  }
  const auto rows = static_cast<size_t>(rows_of_step());
  return std::span<const int64_t>(order_).subspan(static_cast<size_t>(step % per_epoch_) * rows, rows);
}

nn::PretrainTensors Pretraining::tensors_of(const std::vector<PackedRow>& rows, std::span<const int64_t> which,
                                            uint64_t epoch, const PretrainCounts& counts) const {
  PretrainBatch batch = make_pretrain_batch(corpus_, rows, which, options_.shape,
                                            {.seed = static_cast<uint64_t>(options_.seed), .epoch = epoch});
  batch.counts = counts;
  return nn::pretrain_tensors(batch, options_.shape, device_);
}

// Each process takes its part of every batch. Losses are means over the rows of all of them.
void Pretraining::step() {
  const std::span<const int64_t> which = rows_of(stepper_->steps_done());
  const PretrainCounts counts = count_rows(corpus_, rows_.train, which, options_.shape);
  tokens_ += counts.tokens;
  const auto batch = static_cast<size_t>(options_.batch), rank = static_cast<size_t>(world_.rank()),
             size = static_cast<size_t>(world_.size());
  const size_t begin = rank * batch / size, end = (rank + 1) * batch / size;
  std::vector<nn::PretrainTensors> parts;
  for (size_t first = 0; begin < end && first < which.size(); first += batch) {
    parts.push_back(
        tensors_of(rows_.train, which.subspan(first + begin, end - begin), static_cast<uint64_t>(epoch_), counts));
  }
  const nn::PretrainReport report = stepper_->step(parts);
  if (!std::isfinite(report.loss())) {
    throw Error(Code::failure, fmt::format("the loss is {} at step {}", report.loss(), stepper_->steps_done()),
                "lower the learning rate; the last good checkpoint is kept");
  }
  log_step(report);
}

void Pretraining::log(const OrderedJson& entry) {
  entries_.push_back(entry);
  if (log_) log_->add(entry);
}

void Pretraining::log_step(const nn::PretrainReport& report) {
  const int64_t number = stepper_->steps_done();
  token_sums_.add(report.tokens);
  order_sums_.add(report.order);
  progress_->advance(1, fmt::format("loss {:.4f}", report.tokens.back().value_or(0)));
  if (options_.log_every <= 0 || number % options_.log_every != 0) return;
  const auto now = steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - logged_at_).count();
  OrderedJson entry;
  entry["step"] = number;
  entry["epoch"] = static_cast<double>(number) / static_cast<double>(per_epoch_);
  entry["tokens"] = tokens_;
  entry["loss"] = report.loss();
  entry["token_losses"] = token_sums_.take();
  entry["order_losses"] = order_sums_.take();
  entry["learning_rate"] = report.rate;
  entry["gradient_norm"] = report.gradient_norm;
  entry["tokens_per_second"] = static_cast<double>(tokens_ - logged_tokens_) / std::max(seconds, 1e-9);
  logged_at_ = now;
  logged_tokens_ = tokens_;
  log(entry);
}

// Losses of every exit on the held-out documents, always with the same tokens hidden. Empty without such documents.
OrderedJson Pretraining::evaluate() {
  OrderedJson entry;
  const auto count = std::min(static_cast<int64_t>(rows_.held_out.size()), kEvalRows);
  if (count == 0) return entry;
  Tensor sums = torch::zeros({2, spec_.layers}, torch::kDouble);
  const int64_t batch = options_.batch;
  std::vector<int64_t> every(static_cast<size_t>(count));
  std::iota(every.begin(), every.end(), int64_t{0});
  const PretrainCounts counts = count_rows(corpus_, rows_.held_out, every, options_.shape);  // however they are divided
  for (int64_t first = batch * world_.rank(); first < count; first += batch * world_.size()) {
    std::vector<int64_t> which;
    for (int64_t row = first; row < std::min(first + batch, count); ++row) which.push_back(row);
    sums += stepper_->evaluate(tensors_of(rows_.held_out, which, UINT64_MAX, counts));
  }
  std::vector<Tensor> all{sums};
  world_.all_reduce(all, {sums});
  sums = all.front();
  const auto list = [&](int64_t part) {
    OrderedJson out = OrderedJson::array();
    for (int64_t i = 0; i < sums.size(1); ++i) out.push_back(sums[part][i].item<double>());
    return out;
  };
  entry["step"] = stepper_->steps_done();
  entry["tokens"] = tokens_;
  entry["eval_token_losses"] = list(0);
  entry["eval_order_losses"] = list(1);
  return entry;
}

void Pretraining::save() {
  const std::vector<Tensor> random = world_.gather(nn::compat::random_state(torch::kCPU));
  if (!is_rank_zero()) return;
  const fs::path path = options_.out / fmt::format("checkpoint-{}", stepper_->steps_done());
  const Checkpoint weights = nn::to_checkpoint(*network_->network(), {.folder = base_.folder(), .where = "checkpoint"});
  (void)write_exeunt_folder(
      weights, path, {.replace = true, .beside = [&](const fs::path& folder) {
                        nn::StateTensors tensors;
                        const OrderedJson counts = nn::add_optimizer(stepper_->adam(), tensors);
                        for (const auto& item : network_->head()->named_parameters()) {
                          tensors.add("mlm." + item.key(), item.value());
                        }
                        for (size_t rank = 0; rank < random.size(); ++rank) {
                          tensors.add(random_of(static_cast<int>(rank)), random[rank]);
                        }
                        nn::add_gpu_random(device_, tensors);
                        write_safetensors(folder / kStateTensors, tensors.list(), {{"format", kStateFormat}});
                        const OrderedJson state{
                            {"format", kStateFormat},    {"step", stepper_->steps_done()},   {"tokens", tokens_},
                            {"optimizer_steps", counts}, {"configuration", configuration()}, {"log_history", entries_}};
                        write_atomically(folder / kStateFile, json_text(state));
                        return std::vector<std::string>{kStateTensors, kStateFile};
                      }});
  remove_older_checkpoints(options_.out, options_.keep_checkpoints);
}

void Pretraining::restore(const fs::path& folder) {
  const Checkpoint weights = Checkpoint::open(folder.string(), {.verify = true});
  const std::string where = (folder / kStateFile).string();
  const Json sound = read_json(ReadPath::in(folder, kStateFile), kMaxState);
  JsonObject fields(sound, where);
  (void)fields.choice("format", {kStateFormat});
  for (const char* name : {"step", "tokens", "optimizer_steps", "configuration", "log_history"}) (void)fields.get(name);
  // Once more, now that it is known to be sound, in the order it was written: logs are continued, not reordered.
  const OrderedJson state = read_ordered_json(ReadPath::in(folder, kStateFile), kMaxState);
  require_same_settings(folder.string(), state.at("configuration"), configuration());
  const TensorSet set = read_safetensors(ReadPath::in(folder, kStateTensors));
  const torch::NoGradGuard no_grad;
  check(nn::load_parameters(*network_->network(), weights).empty(), "a checkpoint has all weights of its network");
  for (auto& item : network_->head()->named_parameters()) item.value().copy_(nn::tensor_of(set, "mlm." + item.key()));
  nn::restore_optimizer(set, fields.get("optimizer_steps"), stepper_->adam());
  nn::restore_random(set, random_of(world_.rank()), device_);
  stepper_->set_steps_done(state.at("step").get<int64_t>());
  tokens_ = state.at("tokens").get<int64_t>();
  entries_ = state.at("log_history");
}

void Pretraining::notice_start() const {
  notice(fmt::format("{} tokens in {} documents: {} rows to train on, {} held out; {} steps of {} rows, {} on {}{}",
                     corpus_.ids.size(), corpus_.size(), rows_.train.size(), rows_.held_out.size(), steps_,
                     rows_of_step(), options_.precision, device_.str(),
                     world_.size() > 1 ? fmt::format(", {} processes", world_.size()) : ""));
  if (options_.hold_out == 0 || !rows_.held_out.empty()) return;
  const auto documents = static_cast<double>(corpus_.size());
  notice(fmt::format("nothing is held out to evaluate on: {:g} % of {} document{} is less than one; {}",
                     100 * options_.hold_out, corpus_.size(), corpus_.size() == 1 ? "" : "s",
                     corpus_.size() == 1 ? "put blank lines between documents"
                                         : fmt::format("--hold-out {:g} holds out one or more",
                                                       std::min(0.5, std::ceil(100 / documents) / 100))));
}

PretrainResult Pretraining::go() {
  if (is_rank_zero()) prepare_folder(options_.out, options_.resume, options_.overwrite);
  world_.barrier();
  torch::manual_seed(static_cast<uint64_t>(options_.seed + world_.rank()));
  if (options_.resume) {
    (void)load_newest(
        options_.out, [&](std::string_view text) { notice(text); }, [&](const fs::path& path) { restore(path); });
  }
  if (is_rank_zero()) {
    write_settings(options_.out, configuration());
    log_.emplace(options_.out, entries_);
  }
  notice_start();
  progress_.emplace("pretrain", steps_, options_.progress);
  progress_->advance(stepper_->steps_done());
  started_ = logged_at_ = steady_clock::now();
  first_tokens_ = logged_tokens_ = tokens_;
  while (stepper_->steps_done() < steps_) {
    step();
    const int64_t done = stepper_->steps_done();
    if (options_.eval_every > 0 && done % options_.eval_every == 0 && done < steps_) {
      if (const OrderedJson entry = evaluate(); !entry.empty()) log(entry);
    }
    // Whoever is asked to stop, all stop at the same step.
    const bool stop = world_.all_reduce(options_.stop != nullptr && options_.stop->load() ? 1.0 : 0.0) > 0;
    if (stop || (options_.save_every > 0 && done % options_.save_every == 0)) save();
    if (!stop) continue;
    progress_.reset();
    return {.stopped = true, .steps = done};
  }
  return finish();
}

PretrainResult Pretraining::finish() {
  progress_.reset();
  const double seconds = std::chrono::duration<double>(steady_clock::now() - started_).count();
  OrderedJson results = evaluate();
  if (!results.empty()) log(results);
  results["steps"] = steps_;
  results["tokens"] = tokens_;
  results["train_runtime"] = seconds;
  results["tokens_per_second"] = static_cast<double>(tokens_ - first_tokens_) / std::max(seconds, 1e-9);
  PretrainResult out{.stopped = false, .steps = steps_, .results = std::move(results)};
  if (!is_rank_zero()) return out;
  const Checkpoint backbone =
      nn::pretrained_backbone(*network_->network(), {.folder = base_.folder(), .where = "pretrained model"});
  const auto notices = write_exeunt_folder(
      backbone, options_.out / "model",
      {.replace = true, .beside = [&](const fs::path& folder) {
         nn::StateTensors heads;
         for (const auto& item : network_->named_parameters()) {
           const bool kept = item.key().starts_with("mlm.") || item.key().starts_with("network.exits.classifier.");
           if (kept) heads.add(item.key(), item.value());
         }
         write_safetensors(folder / kHeadFile, heads.list(), {{"format", kStateFormat}});
         return std::vector<std::string>{kHeadFile};
       }});
  for (const std::string& line : notices) notice(line);
  write_atomically(options_.out / "results.json", json_text(out.results));
  return out;
}

}  // namespace

PretrainShape shape_for(const Tokenizer& tokenizer, const ModelSpec& spec, const PretrainSettings& settings) {
  const auto find = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (const auto id = tokenizer.id(name)) return *id;
    }
    throw_bad_file("tokenizer", "got no token '{}', which pretraining needs", *names.begin());
  };
  if (!spec.has_plain_layers() || row_of(spec.family).poolers.empty()) {
    throw Error(Code::usage,
                fmt::format("pretraining: got a model of the family {}, want a pooler and layers as BERT's",
                            name_of(spec.family)),
                "bert, roberta, albert, elasticbert, xlm-roberta and camembert can be pretrained");
  }
  if (settings.tokens > spec.max_tokens()) {
    throw Error(Code::usage, fmt::format("--max-length: got {}, want at most {}, the model's positions",
                                         settings.tokens, spec.max_tokens()));
  }
  return {.tokens = settings.tokens,
          .mask_share = settings.mask_share,
          .cls = find({"[CLS]", "<s>"}),
          .sep = find({"[SEP]", "</s>"}),
          .mask = find({"[MASK]", "<mask>"}),
          .pad = spec.pad_id,
          .unknown = find({"[UNK]", "<unk>"}),
          .vocab = std::min(spec.vocab, tokenizer.vocabulary()),
          .segments = spec.segments};
}

PretrainResult pretrain(const Checkpoint& base, const Corpus& corpus, const PretrainOptions& options) {
  try {
    return Pretraining(base, corpus, options).go();
  } catch (const c10::Error& error) {
    throw Error(Code::failure, fmt::format("LibTorch: {}", error.what_without_backtrace()));
  }
}

}  // namespace exeunt
