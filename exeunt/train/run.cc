// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/run.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/data/batches.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/manifest.h"
#include "exeunt/train/batch_tensors.h"
#include "exeunt/train/evaluate.h"
#include "exeunt/train/group.h"
#include "exeunt/train/new_heads.h"
#include "exeunt/train/placement.h"
#include "exeunt/train/prototypes.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/run_state.h"
#include "exeunt/train/stage_plan.h"
#include "exeunt/train/step_graphs.h"
#include "exeunt/train/step_timer.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt {
namespace {

using nn::Tensor;
using std::chrono::steady_clock;

// Of the labels that are numbers; one that is not will be named when its loss is seen.
double mean_of(const std::vector<float>& gold) {
  double sum = 0, count = 0;
  for (const float value : gold) {
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// A step that a GPU may still be at work on, and which one it is.
struct Queued {
  nn::PendingStep step;
  nn::RunPosition at;
  Batch rows;
};
constexpr size_t kFitRows = 300;   // training rows that show at the end whether they were learned
constexpr size_t kQueueDepth = 8;  // steps in the queue, so that the GPU never waits for the host

struct MeanLoss {
  double sum = 0;
  int64_t steps = 0;

  void add(double loss) noexcept {
    sum += loss;
    ++steps;
  }
  [[nodiscard]] double value() const noexcept { return steps == 0 ? 0 : sum / static_cast<double>(steps); }
};

class Run {
 public:
  Run(const Checkpoint& base, const TrainingData& data, const TrainOptions& options)
      : base_(base),
        data_(data),
        options_(options),
        device_(nn::choose_device(options.device, nn::World::local_rank())),
        world_(nn::World::join(device_.is_cuda())),
        base_sha256_(weights_sha256(base)) {
    require_rows();
    options_.precision = nn::precision_on(device_, options.precision);
    nn::repeat_bit_for_bit(device_, options_.deterministic);
    if (options_.threads > 0) torch::set_num_threads(options_.threads);
    const ExitLayout layout = layout_of(options_.recipe, base_.spec(), data_.outcome);
    const auto seed = static_cast<uint64_t>(options_.recipe.seed);
    nn::Start start = nn::start_network(base_, layout, options_.recipe.heads.init, seed);
    for (const std::string& line : start.notices) notice(line);
    network_ = std::move(start.network);
    if (start.new_heads && data_.outcome.problem == Problem::regression) {
      nn::set_output_biases(*network_, mean_of(data_.train.gold));
    }
    network_->to(device_);
    const bool prototypes = options_.recipe.heads.init == HeadInit::prototypes && !options_.resume;
    if (prototypes && start.new_heads && data_.outcome.problem == Problem::classification) {
      nn::start_from_prototypes(network_, data_.train);
    }
    for (const StageSpec& stage : options_.recipe.stages) {
      plans_.push_back(plan_stage(stage, static_cast<int64_t>(data_.train.rows()), options_));
      if (stage.train == Trainable::exits && layout.sites.size() == 1) plans_.back().steps = 0;  // there are none
      total_steps_ += plans_.back().steps;
    }
    policy_ = native_policy(options_.recipe, layout);
    state_.configuration = run_configuration(facts());
  }

  TrainResult go();

 private:
  void notice(std::string_view text) const {
    if (options_.notice && world_.rank() == 0) options_.notice(text);
  }
  void require_rows() const;
  [[nodiscard]] bool is_rank_zero() const noexcept { return world_.rank() == 0; }
  [[nodiscard]] RunFacts facts() const {
    return {.data = data_,
            .options = options_,
            .plans = plans_,
            .base = base_sha256_,
            .device = device_.str(),
            .torch = nn::compat::version(),
            .processes = world_.size()};
  }
  // The last stage that --epochs and --lr change: what is said of the fit is said of it.
  [[nodiscard]] size_t fitted_stage() const;
  [[nodiscard]] Checkpoint weights() const;
  [[nodiscard]] SavedWeights saved() const { return {weights(), recipe_text(facts()), *learned_}; }
  [[nodiscard]] std::optional<nn::LoadedState> find_checkpoint();
  [[nodiscard]] LearnedRows learned(const Checkpoint* resumed) const;
  void report_start();
  bool run_stage(nn::Stepper& stepper, const StageSpec& stage);
  bool run_epoch(nn::Stepper& stepper, const StageSpec& stage);
  [[nodiscard]] nn::BatchShape shape() const;
  void queue_step(const Batch& rows);
  void drain_queue(size_t left = 0);
  void add_batch(nn::Stepper& stepper, const Batch& rows);
  void require_finite(double loss, const Batch& rows, const nn::RunPosition& at) const;
  bool after_step(nn::Stepper& stepper, const StageSpec& stage);
  void log(const OrderedJson& entry);
  void log_step(const nn::StepReport& report, const nn::RunPosition& at);
  void evaluate(nn::Stepper& stepper, const StageSpec& stage);
  void end_stage(nn::Stepper& stepper, const StageSpec& stage);
  void save(nn::Stepper& stepper);
  void evaluate_also(OrderedJson& results);
  TrainResult finish();

  const Checkpoint& base_;
  const TrainingData& data_;
  TrainOptions options_;  // with the precision that was chosen
  torch::Device device_;
  nn::World world_;
  std::string base_sha256_;
  nn::Network network_{nullptr};
  std::vector<StagePlan> plans_;
  int64_t total_steps_ = 0;
  std::string policy_;
  nn::RunState state_;
  std::unique_ptr<nn::StepGraphs> graphs_;  // of this stage; null where steps are not recorded
  std::deque<Queued> queued_;
  std::optional<RunLog> log_;           // of the first process
  std::optional<LearnedRows> learned_;  // likewise
  std::optional<Progress> progress_;
  std::map<std::pair<int64_t, int64_t>, MeanLoss> epoch_losses_;  // by stage and epoch, since this start
  OrderedJson last_eval_;
  std::vector<double> loss_weights_;  // of this stage, as last seen; empty unless they are learned
  bool stop_early_ = false;           // early stopping of this stage
  std::string exits_sparkline_;
  steady_clock::time_point started_ = steady_clock::now();
  int64_t first_step_ = 0;
};

size_t Run::fitted_stage() const {
  const std::vector<StageSpec>& stages = options_.recipe.stages;
  size_t last = stages.size() - 1;
  while (last > 0 && !stages[last].flags) --last;
  return last;
}

Checkpoint Run::weights() const {
  return nn::to_checkpoint(*network_, {.folder = base_.folder(), .where = "trained model", .policy = policy_});
}

// A run that goes on has the list already, of the same rows.
LearnedRows Run::learned(const Checkpoint* resumed) const {
  std::optional<LearnedRows> known = resumed == nullptr ? std::nullopt : learned_in(resumed->folder());
  return known ? *std::move(known) : learned_rows(data_.train, base_.folder());
}

// Objectives that add up over the rows of a batch mean something else when each process sees a part of them.
void Run::require_rows() const {
  if (world_.size() == 1) return;
  for (const StageSpec& stage : options_.recipe.stages) {
    const DistillVariant variant = stage.objective.variant;
    if (!stage.objective.distills() || (variant != DistillVariant::bidir && variant != DistillVariant::berxit))
      continue;
    throw Error(Code::usage, "this distillation variant sums over a batch and needs a single process",
                "train with one process, or choose the variant 'last'");
  }
}

std::optional<nn::LoadedState> Run::find_checkpoint() {
  if (!options_.resume) return std::nullopt;
  std::optional<nn::LoadedState> found =
      nn::newest_checkpoint(options_.out, state_.configuration, [&](std::string_view text) { notice(text); });
  if (found) return found;
  if (!options_.overwrite && path_exists(options_.out / kManifestFile)) {
    throw Error(Code::usage,
                fmt::format("{}: holds a finished run and no checkpoint to resume from", options_.out.string()),
                "add --overwrite to train it again, or choose another --out");
  }
  notice("no checkpoint to resume from: starting at the beginning");
  return std::nullopt;
}

void Run::report_start() {
  if (!options_.started || !is_rank_zero()) return;
  const bool alone = world_.size() == 1;  // others would wait for the one that measures
  const ExitLayout layout = layout_of(options_.recipe, base_.spec(), data_.outcome);
  const nn::StepTimer timer{network_, data_, options_, plans_, world_, shape()};
  options_.started({.stages = plans_,
                    .exits = layout,
                    .device = device_.str(),
                    .precision = options_.precision,
                    .torch = nn::compat::version(),
                    .threads = torch::get_num_threads(),
                    .processes = world_.size(),
                    .seconds = options_.estimate && alone ? std::optional(timer.seconds()) : std::nullopt,
                    .deterministic_cost = alone ? timer.deterministic_cost() : std::nullopt});
}

TrainResult Run::go() {
  if (is_rank_zero()) prepare_folder(options_.out, options_.resume, options_.overwrite);
  world_.barrier();  // no process looks for a checkpoint before the folder is ready
  std::optional<nn::LoadedState> loaded = find_checkpoint();
  if (loaded) state_ = loaded->state;
  if (is_rank_zero()) {
    write_settings(options_.out, state_.configuration, values_json(options_));
    log_.emplace(options_.out, state_.log);
    learned_ = learned(loaded ? &loaded->weights : nullptr);
  }
  report_start();
  ProgressStyle style = options_.progress;
  if (!is_rank_zero()) style.write = {};
  progress_.emplace("train", total_steps_, style);
  progress_->advance(state_.position.step);
  first_step_ = state_.position.step;
  const auto stages = static_cast<int64_t>(options_.recipe.stages.size());
  while (state_.position.stage < stages) {
    const auto index = static_cast<size_t>(state_.position.stage);
    const StageSpec& stage = options_.recipe.stages[index];
    nn::Stepper stepper(network_, options_.recipe, stage,
                        {.lr = plans_[index].lr,
                         .schedule = plans_[index].schedule,
                         .epsilon = options_.adam_epsilon,
                         .world = &world_,
                         .bf16 = options_.precision == "bf16"});
    torch::manual_seed(static_cast<uint64_t>(options_.recipe.seed + world_.rank()));
    if (loaded) nn::restore(*loaded, stepper, world_.rank());
    loaded.reset();
    const bool record =
        !options_.no_cuda_graphs && device_.is_cuda() && nn::gpu::present() && options_.accumulation == 1;
    if (record && stepper.can_record()) graphs_ = std::make_unique<nn::StepGraphs>(stepper);
    const bool whole = run_stage(stepper, stage);
    drain_queue();
    graphs_.reset();
    if (!whole) {
      progress_.reset();
      return {.stopped = true, .steps = state_.position.step, .results = {}};
    }
    end_stage(stepper, stage);
  }
  return finish();
}

// False if the run was asked to stop.
bool Run::run_stage(nn::Stepper& stepper, const StageSpec& stage) {
  const StagePlan& plan = plans_[static_cast<size_t>(state_.position.stage)];
  stop_early_ = stage.early_stop && state_.best.since >= *stage.early_stop;
  while (state_.position.stage_step < plan.steps && !stop_early_) {
    if (!run_epoch(stepper, stage)) return false;
  }
  return true;
}

bool Run::run_epoch(nn::Stepper& stepper, const StageSpec& stage) {
  nn::RunPosition& at = state_.position;
  const StagePlan& plan = plans_[static_cast<size_t>(at.stage)];
  const std::vector<Batch> batches =
      shuffled_batches(data_.train.offsets, {.batch = static_cast<size_t>(stage.batch),
                                             .seed = static_cast<uint64_t>(options_.recipe.seed),
                                             .epoch = static_cast<uint64_t>(at.epoch),
                                             .window = static_cast<size_t>(options_.window)});
  while (at.batch < static_cast<int64_t>(batches.size())) {
    const Batch& rows = batches[static_cast<size_t>(at.batch)];
    // A recording serves full batches; the short one at the end of an epoch is not worth one of its own.
    if (graphs_ && rows.size() == static_cast<size_t>(stage.batch)) {
      queue_step(rows);
    } else {
      drain_queue();
      add_batch(stepper, rows);
      ++at.batch;
      // As in the originals, batches left over at the end of an epoch go into the first step of the next.
      if (at.batch % options_.accumulation != 0) continue;
      ++at.stage_step;
      ++at.step;
      log_step(stepper.step(), at);
    }
    if (!after_step(stepper, stage)) return false;
    if (at.stage_step == plan.steps || stop_early_) return true;
  }
  at.batch = 0;
  ++at.epoch;
  return true;
}

nn::BatchShape Run::shape() const {
  return {.pad_id = base_.spec().pad_id,
          .problem = data_.outcome.problem,
          .device = device_,
          .multiple = device_.is_cuda() ? nn::StepGraphs::kTokens : 1,
          .most = base_.spec().max_tokens()};
}

// What LibTorch throws for want of memory, as an error that says what to lower.
[[noreturn]] void rethrow_memory(const c10::Error& error, const torch::Device& device, int64_t step, size_t rows) {
  const std::string text = error.what_without_backtrace();
  if (text.find("out of memory") == std::string::npos && text.find("can't allocate memory") == std::string::npos) {
    throw error;
  }
  throw Error(Code::resources,
              fmt::format("out of memory on {} at step {}: {} texts in a batch", device.str(), step, rows),
              "lower --batch and raise --accumulation, or lower --max-length");
}

void Run::queue_step(const Batch& rows) {
  nn::RunPosition& at = state_.position;
  try {
    nn::PendingStep step = graphs_->run(nn::host_batch(data_.train, rows, shape()), at.batch);
    ++at.batch;
    ++at.stage_step;
    ++at.step;
    queued_.push_back({std::move(step), at, rows});
  } catch (const c10::Error& error) {
    rethrow_memory(error, device_, at.step + 1, rows.size());
  }
  drain_queue(kQueueDepth);
}

// Waits for all queued steps but the newest `left`, and logs them.
void Run::drain_queue(size_t left) {
  while (queued_.size() > left) {
    const nn::StepReport report = queued_.front().step.report();
    const Queued done = std::move(queued_.front());
    queued_.pop_front();
    require_finite(report.loss, done.rows, done.at);
    log_step(report, done.at);
  }
}

void Run::add_batch(nn::Stepper& stepper, const Batch& all) {
  // Each process takes its part of the batch; the shares make the sum of all the mean over the whole.
  const auto rank = static_cast<size_t>(world_.rank()), size = static_cast<size_t>(world_.size());
  const Batch rows(all.begin() + static_cast<ptrdiff_t>(rank * all.size() / size),
                   all.begin() + static_cast<ptrdiff_t>((rank + 1) * all.size() / size));
  if (rows.empty()) return;
  const double share = static_cast<double>(rows.size()) / static_cast<double>(all.size()) / options_.accumulation;
  nn::RunPosition at = state_.position;
  try {
    const double loss = stepper.add(nn::batch_tensors(data_.train, rows, shape()), at.batch, share);
    ++at.batch;
    ++at.step;
    require_finite(loss, rows, at);
  } catch (const c10::Error& error) {
    rethrow_memory(error, device_, at.step + 1, rows.size());
  }
}

// `at`: behind the step.
void Run::require_finite(double loss, const Batch& rows, const nn::RunPosition& at) const {
  if (std::isfinite(loss)) return;
  std::vector<int64_t> index;
  for (const size_t row : rows) index.push_back(data_.train.index[row]);
  throw Error(Code::failure,
              fmt::format("the loss is {} at step {}: stage {}, epoch {}, batch {}, rows {} of the training data", loss,
                          at.step, at.stage + 1, at.epoch + 1, at.batch, fmt::join(index, " ")),
              "lower the learning rate, or look at these rows; the last good checkpoint is kept");
}

void Run::log(const OrderedJson& entry) {
  state_.log.push_back(entry);
  if (log_) log_->add(entry);
}

// `at`: after the step.
void Run::log_step(const nn::StepReport& report, const nn::RunPosition& at) {
  state_.loss_sum += report.loss;
  epoch_losses_[{at.stage, at.batch == 0 ? at.epoch - 1 : at.epoch}].add(report.loss);
  progress_->advance(
      1, fmt::format("loss {:.4f}{}{}", report.loss, exits_sparkline_.empty() ? "" : " exits ", exits_sparkline_));
  if (options_.log_every <= 0 || at.step % options_.log_every != 0) return;
  OrderedJson entry;
  entry["step"] = at.step;
  entry["stage"] = at.stage + 1;
  entry["epoch"] = static_cast<double>(at.epoch) +
                   static_cast<double>(at.batch) / static_cast<double>(plans_[static_cast<size_t>(at.stage)].batches);
  entry["loss"] = report.loss;
  entry["learning_rate"] = report.rate;
  entry["gradient_norm"] = report.gradient_norm;
  if (report.last_loss) entry["last_loss"] = *report.last_loss;
  if (report.early_loss) entry["multi_loss"] = *report.early_loss;
  if (options_.recipe.gradient.rule == GradientRule::project) {
    entry["angle"] = report.projection.angle;
    entry["anchor_norm"] = report.projection.anchor_norm;
    entry["secondary_norm"] = report.projection.secondary_norm;
    if (report.projection.secondary_norm > 0)
      entry["norm_ratio"] = report.projection.anchor_norm / report.projection.secondary_norm;
  }
  log(entry);
}

// False if the run was asked to stop; the checkpoint is then written.
bool Run::after_step(nn::Stepper& stepper, const StageSpec& stage) {
  const nn::RunPosition& at = state_.position;
  if (stage.eval_every > 0 && at.stage_step % stage.eval_every == 0) evaluate(stepper, stage);
  // Whoever is asked to stop, all stop at the same step.
  const bool asked = options_.stop != nullptr && options_.stop->load();
  const bool stop = world_.all_reduce(asked ? 1.0 : 0.0) > 0;
  if (stop || (options_.save_every > 0 && at.step % options_.save_every == 0)) save(stepper);
  return !stop;
}

void Run::evaluate(nn::Stepper& stepper, const StageSpec& stage) {
  drain_queue();
  const std::vector<ExitScore> exits = nn::score_exits(network_, data_.eval, data_.metrics);
  last_eval_ = eval_entry(exits);
  loss_weights_ = stepper.objective().learned_weights();
  state_.evaluated = state_.position.step;
  std::vector<double> scores;
  double mean = 0;
  for (const ExitScore& exit : exits) scores.push_back(primary_of(exit.metrics, data_.primary));
  for (const double score : scores) mean += score / static_cast<double>(scores.size());
  exits_sparkline_ = sparkline(scores);
  OrderedJson entry = last_eval_;
  if (!loss_weights_.empty()) entry["loss_weights"] = loss_weights_;
  entry["step"] = state_.position.step;
  entry["stage"] = state_.position.stage + 1;
  log(entry);
  const double score = stage.keep_best == KeepBest::mean ? mean : scores.back();
  const bool better = state_.best.offer(score, state_.position.step);
  if (better && stage.keep_best != KeepBest::none) state_.best.keep(*network_);
  stop_early_ = stage.early_stop && state_.best.since >= *stage.early_stop;
}

// Evaluates where the last step did not, and brings the best weights back where the stage keeps them.
void Run::end_stage(nn::Stepper& stepper, const StageSpec& stage) {
  if (state_.evaluated != state_.position.step && data_.eval.rows() > 0) evaluate(stepper, stage);
  loss_weights_ = stepper.objective().learned_weights();
  nn::BestSoFar& best = state_.best;
  if (stage.keep_best != KeepBest::none && best.step != state_.position.step && !best.parameters.empty()) {
    best.restore(*network_);
    notice(fmt::format("the best weights are those of step {}", best.step));
    last_eval_ = {};
  }
  best = {};
  nn::RunPosition& at = state_.position;
  at = {.stage = at.stage + 1, .epoch = 0, .batch = 0, .stage_step = 0, .step = at.step};
}

void Run::save(nn::Stepper& stepper) {
  drain_queue();
  state_.random = world_.gather(nn::compat::random_state(torch::kCPU));
  if (!is_rank_zero()) return;
  nn::save_state(options_.out / fmt::format("checkpoint-{}", state_.position.step), saved(), state_, stepper);
  remove_older_checkpoints(options_.out, options_.keep_checkpoints);
}

// The sets beside the usual one, each under its own name, and the traces where they are to be kept.
void Run::evaluate_also(OrderedJson& results) {
  const bool keep = options_.trace && is_rank_zero();
  const nn::TraceSource source{.weights = keep ? weights_sha256(weights()) : std::string()};
  const auto file = [&](const std::string& name) { return options_.out / fmt::format("trace-{}.safetensors", name); };
  const auto traced = [&](const Features& features) {
    ExitTrace trace = nn::trace_network(network_, features, source);
    for (size_t row = 0; keep && row < features.rows(); ++row)
      trace.learned.push_back(static_cast<uint8_t>(learned_->overlap(features.ids_of(row))));
    return trace;
  };
  if (keep && data_.eval.rows() > 0) write_trace(file("eval"), traced(data_.eval));
  for (const ExtraSet& set : data_.also) {
    const ExitTrace trace = traced(set.features);
    const OrderedJson entry = eval_entry(Scorer(trace, {.metrics = data_.metrics}).each_exit());
    for (const auto& [key, value] : entry.items()) results[fmt::format("{}_{}", key, set.name)] = value;
    if (keep) write_trace(file(set.name), trace);
  }
}

TrainResult Run::finish() {
  progress_.reset();
  const double seconds = std::chrono::duration<double>(steady_clock::now() - started_).count();
  const auto steps = state_.position.step;
  if (last_eval_.empty() && data_.eval.rows() > 0) {
    last_eval_ = eval_entry(nn::score_exits(network_, data_.eval, data_.metrics));
  }
  OrderedJson results = last_eval_;
  if (!loss_weights_.empty()) results["loss_weights"] = loss_weights_;
  evaluate_also(results);
  for (const BaselineScore& other : data_.baseline) {
    for (const Score& score : other.metrics)
      results["baselines"][other.name][std::string(name_of(score.metric))] = score.value;
  }
  const StagePlan& fitted = plans_[fitted_stage()];
  results["epoch"] = static_cast<double>(fitted.steps * options_.accumulation) / static_cast<double>(fitted.batches);
  results["train_loss"] = steps > 0 ? state_.loss_sum / static_cast<double>(steps) : 0.0;
  for (const auto& [epoch, loss] : epoch_losses_) {
    if (epoch.first == static_cast<int64_t>(fitted_stage())) results["train_epoch_losses"].push_back(loss.value());
  }
  if (data_.outcome.problem == Problem::classification)
    results["train_accuracy"] = nn::share_right(network_, data_.train, kFitRows);
  results["train_runtime"] = seconds;
  results["train_samples"] = data_.train.rows();
  results["train_steps_per_second"] = static_cast<double>(steps - first_step_) / seconds;
  if (!is_rank_zero()) return {.stopped = false, .steps = steps, .results = std::move(results)};
  write_results(options_.out, results);
  for (const std::string& line : write_trained(saved(), options_.out)) notice(line);
  OrderedJson summary;
  summary["global_step"] = steps;
  summary["max_steps"] = total_steps_;
  summary["log_history"] = state_.log;
  write_atomically(options_.out / "trainer_state.json", json_text(summary));
  for (const auto& [name, content] : options_.beside) write_atomically(options_.out / name, content);
  return {.stopped = false, .steps = steps, .results = std::move(results)};
}

}  // namespace

TrainResult train(const Checkpoint& base, const TrainingData& data, const TrainOptions& options) {
  try {
    return Run(base, data, options).go();
  } catch (const c10::Error& error) {
    throw Error(Code::failure, fmt::format("LibTorch: {}", error.what_without_backtrace()));
  }
}

bool first_process() {
  return nn::World::is_first_rank();
}

TrainerAbout about_trainer() {
  return {.torch = nn::compat::version(),
          .gpus = nn::compat::has_cuda() ? static_cast<int>(torch::cuda::device_count()) : 0,
          .gloo = nn::has_gloo(),
          .nccl = nn::has_nccl()};
}

}  // namespace exeunt
