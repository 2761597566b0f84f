// SPDX-License-Identifier: Apache-2.0
// A run is put together from parts that can be read one by one: RunSetup, what it works with; RunJournal, what it
// reports on the way; RunEvaluation, the validation split and the best weights; RunOutput, its files; and Run, the
// stages, epochs and steps.
#include "exeunt/train/run.h"

#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/data/batches.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/manifest.h"
#include "exeunt/train/evaluate.h"
#include "exeunt/train/new_heads.h"
#include "exeunt/train/run_files.h"
#include "exeunt/train/run_state.h"
#include "exeunt/train/stage_plan.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt {
namespace {

using nn::Tensor;
using std::chrono::steady_clock;

constexpr size_t kFitRows = 300;  // training rows that show at the end whether they were learned

struct RunSetup {
  RunSetup(const Checkpoint& base, const TrainingData& data, const TrainOptions& options);

  [[nodiscard]] bool is_rank_zero() const noexcept { return world.rank() == 0; }
  void notice(std::string_view text) const {
    if (options.notice && is_rank_zero()) options.notice(text);
  }
  [[nodiscard]] RunFacts facts() const {
    return {.data = data,
            .options = options,
            .plans = plans,
            .base = base_sha256,
            .device = device.str(),
            .torch = nn::compat::version(),
            .processes = world.size()};
  }
  [[nodiscard]] Checkpoint weights() const {
    return nn::to_checkpoint(*network, {.folder = base.folder(),
                                        .where = "trained model",
                                        .policy = native_policy(options.recipe, network->layout())});
  }
  [[nodiscard]] nn::BatchShape shape() const {
    return {.pad_id = base.spec().pad_id,
            .problem = data.outcome.problem,
            .device = device,
            .multiple = device.is_cuda() ? nn::kGpuTokens : 1,
            .most = base.spec().max_tokens()};
  }
  [[nodiscard]] int64_t total_steps() const {
    return std::accumulate(plans.begin(), plans.end(), int64_t{0},
                           [](int64_t sum, const StagePlan& plan) { return sum + plan.steps; });
  }
  // The last stage that --epochs and --lr change: what is said of the fit is said of it.
  [[nodiscard]] size_t fitted_stage() const {
    size_t last = plans.size() - 1;
    while (last > 0 && !options.recipe.stages[last].flags) --last;
    return last;
  }
  void report_start() const;

  const Checkpoint& base;
  const TrainingData& data;
  TrainOptions options;  // with the precision that was chosen
  torch::Device device;
  nn::World world;
  std::string base_sha256;
  nn::Network network{nullptr};
  std::vector<StagePlan> plans;
};

// Objectives that add up over the rows of a batch mean something else when each process sees a part of them.
void require_single_process(const Recipe& recipe) {
  for (const StageSpec& stage : recipe.stages) {
    const DistillVariant variant = stage.objective.variant;
    if (!stage.objective.distills() || (variant != DistillVariant::bidir && variant != DistillVariant::berxit))
      continue;
    throw Error(Code::usage, "this distillation variant sums over a batch and needs a single process",
                "train with one process, or choose the variant 'last'");
  }
}

RunSetup::RunSetup(const Checkpoint& base_model, const TrainingData& rows, const TrainOptions& given)
    : base(base_model),
      data(rows),
      options(given),
      device(nn::compat::choose_device(given.device, nn::World::local_rank())),
      world(nn::World::join(device.is_cuda())),
      base_sha256(weights_sha256(base)) {
  if (world.size() > 1) require_single_process(options.recipe);
  options.precision = nn::compat::precision_on(device, given.precision);
  nn::compat::repeat_bit_for_bit(device, options.deterministic);
  if (options.threads > 0) torch::set_num_threads(options.threads);
  const ExitLayout layout = layout_of(options.recipe, base.spec(), data.outcome);
  const HeadInit init = options.recipe.heads.init;
  nn::Start start = nn::start_network(base, layout, init, static_cast<uint64_t>(options.recipe.seed));
  for (const std::string& line : start.notices) notice(line);
  network = std::move(start.network);
  if (start.new_heads && data.outcome.problem == Problem::regression) nn::set_output_biases(*network, data.train.gold);
  network->to(device);
  if (start.new_heads && init == HeadInit::prototypes && !options.resume &&
      data.outcome.problem == Problem::classification) {
    nn::start_from_prototypes(network, data.train);
  }
  for (const StageSpec& stage : options.recipe.stages) {
    plans.push_back(plan_stage(stage, static_cast<int64_t>(data.train.rows()), options));
    if (stage.train == Trainable::exits && layout.sites.size() == 1) plans.back().steps = 0;  // there are none
  }
}

void RunSetup::report_start() const {
  if (!options.started || !is_rank_zero()) return;
  const bool alone = world.size() == 1;  // others would wait for the one that measures
  const nn::StepTimer timer{network, data, options, plans, world, shape()};
  options.started({.stages = plans,
                   .exits = network->layout(),
                   .device = device.str(),
                   .precision = options.precision,
                   .torch = nn::compat::version(),
                   .threads = torch::get_num_threads(),
                   .processes = world.size(),
                   .seconds = options.estimate && alone ? std::optional(timer.seconds()) : std::nullopt,
                   .deterministic_cost = alone ? timer.deterministic_cost() : std::nullopt});
}

// log.jsonl and the progress line, both of the first process alone; and the losses of the steps.
class RunJournal {
 public:
  RunJournal(const RunSetup& setup, nn::RunState& state) : setup_(setup), state_(state) {
    ProgressStyle style = setup.options.progress;
    if (!setup.is_rank_zero()) style.write = {};
    if (setup.is_rank_zero()) log_.emplace(setup.options.out, state.log);
    progress_.emplace("train", setup.total_steps(), style);
    progress_->advance(state.position.step);
  }

  void add(const OrderedJson& entry) {
    state_.log.push_back(entry);
    if (log_) log_->add(entry);
  }
  // The step that state.position stands behind.
  void add_step(const nn::StepReport& report);
  void show_exits(const std::vector<double>& scores) { exits_ = " exits " + sparkline(scores); }
  void end_progress() { progress_.reset(); }
  // Of the fitted stage, by epoch, since this start.
  [[nodiscard]] std::vector<double> epoch_losses() const {
    std::vector<double> out;
    for (const auto& [epoch, loss] : losses_) out.push_back(loss.sum / static_cast<double>(loss.steps));
    return out;
  }

 private:
  struct EpochLoss {
    double sum = 0;
    int64_t steps = 0;
  };
  const RunSetup& setup_;
  nn::RunState& state_;
  std::optional<RunLog> log_;
  std::optional<Progress> progress_;
  std::string exits_;  // of the progress line
  std::map<int64_t, EpochLoss> losses_;
};

void RunJournal::add_step(const nn::StepReport& report) {
  const nn::RunPosition& at = state_.position;
  const TrainOptions& options = setup_.options;
  state_.loss_sum += report.loss;
  if (at.stage == static_cast<int64_t>(setup_.fitted_stage())) {
    losses_[at.epoch].sum += report.loss;
    ++losses_[at.epoch].steps;
  }
  progress_->advance(1, fmt::format("loss {:.4f}{}", report.loss, exits_));
  if (options.log_every <= 0 || at.step % options.log_every != 0) return;
  const auto batches = static_cast<double>(setup_.plans[static_cast<size_t>(at.stage)].batches);
  OrderedJson entry;
  entry["step"] = at.step;
  entry["stage"] = at.stage + 1;
  entry["epoch"] = static_cast<double>(at.epoch) + static_cast<double>(at.batch) / batches;
  entry["loss"] = report.loss;
  entry["learning_rate"] = report.rate;
  entry["gradient_norm"] = report.gradient_norm;
  if (report.last_loss) entry["last_loss"] = *report.last_loss;
  if (report.early_loss) entry["multi_loss"] = *report.early_loss;
  if (options.recipe.gradient.rule == GradientRule::project) {
    entry["angle"] = report.projection.angle;
    entry["anchor_norm"] = report.projection.anchor_norm;
    entry["secondary_norm"] = report.projection.secondary_norm;
    if (report.projection.secondary_norm > 0)
      entry["norm_ratio"] = report.projection.anchor_norm / report.projection.secondary_norm;
  }
  add(entry);
}

class RunEvaluation {
 public:
  RunEvaluation(RunSetup& setup, nn::RunState& state, RunJournal& journal)
      : setup_(setup), state_(state), journal_(journal) {}

  void evaluate(nn::Stepper& stepper, const StageSpec& stage);
  [[nodiscard]] bool stops_early(const StageSpec& stage) const {
    return stage.early_stop && state_.best.since >= *stage.early_stop;
  }
  // Evaluates where the last step did not, and brings the best weights back where the stage keeps them.
  void end_stage(nn::Stepper& stepper, const StageSpec& stage);
  // Of the weights as they are after the last stage.
  [[nodiscard]] OrderedJson results();

 private:
  RunSetup& setup_;
  nn::RunState& state_;
  RunJournal& journal_;
  OrderedJson last_;                  // of these weights; empty if they were not evaluated
  std::vector<double> loss_weights_;  // of the last stage; empty unless they are learned
};

void RunEvaluation::evaluate(nn::Stepper& stepper, const StageSpec& stage) {
  const TrainingData& data = setup_.data;
  const std::vector<ExitScore> exits = nn::score_exits(setup_.network, data.eval, data.metrics);
  last_ = eval_entry(exits);
  state_.evaluated = state_.position.step;
  std::vector<double> scores;
  double mean = 0;
  for (const ExitScore& exit : exits) scores.push_back(primary_of(exit.metrics, data.primary));
  for (const double score : scores) mean += score / static_cast<double>(scores.size());
  journal_.show_exits(scores);
  OrderedJson entry = last_;
  const std::vector<double> weights = stepper.objective().learned_weights();
  if (!weights.empty()) entry["loss_weights"] = weights;
  entry["step"] = state_.position.step;
  entry["stage"] = state_.position.stage + 1;
  journal_.add(entry);
  const double score = stage.keep_best == KeepBest::mean ? mean : scores.back();
  const bool better = state_.best.offer(score, state_.position.step);
  if (better && stage.keep_best != KeepBest::none) state_.best.keep(*setup_.network);
}

void RunEvaluation::end_stage(nn::Stepper& stepper, const StageSpec& stage) {
  if (state_.evaluated != state_.position.step && setup_.data.eval.rows() > 0) evaluate(stepper, stage);
  loss_weights_ = stepper.objective().learned_weights();
  nn::BestSoFar& best = state_.best;
  if (stage.keep_best != KeepBest::none && best.step != state_.position.step && !best.parameters.empty()) {
    best.restore(*setup_.network);
    setup_.notice(fmt::format("the best weights are those of step {}", best.step));
    last_ = {};
  }
  best = {};
}

OrderedJson RunEvaluation::results() {
  const TrainingData& data = setup_.data;
  OrderedJson out = last_;
  if (out.empty() && data.eval.rows() > 0) out = eval_entry(nn::score_exits(setup_.network, data.eval, data.metrics));
  if (!loss_weights_.empty()) out["loss_weights"] = loss_weights_;
  return out;
}

// What a run leaves in its folder, written by the first process.
class RunOutput {
 public:
  // Makes the folder ready. No process looks for a checkpoint before that.
  explicit RunOutput(RunSetup& setup) : setup_(setup) {
    const TrainOptions& options = setup.options;
    if (setup.is_rank_zero()) prepare_folder(options.out, options.resume, options.overwrite);
    setup.world.barrier();
  }

  [[nodiscard]] std::optional<nn::LoadedState> find_checkpoint(const OrderedJson& configuration) const;
  // Before the first step; `resumed` is the checkpoint it goes on from.
  void begin(const OrderedJson& configuration, const Checkpoint* resumed);
  void save(nn::RunState& state, nn::Stepper& stepper) const;
  // The sets beside the usual one, each under its own name, and the traces where they are to be kept.
  void evaluate_also(OrderedJson& results);
  void finish(const nn::RunState& state, const OrderedJson& results) const;

 private:
  [[nodiscard]] SavedWeights saved() const { return {setup_.weights(), recipe_text(setup_.facts()), *learned_}; }
  [[nodiscard]] SavedWeights completed() const;

  RunSetup& setup_;
  std::optional<LearnedRows> learned_;  // of the first process
};

std::optional<nn::LoadedState> RunOutput::find_checkpoint(const OrderedJson& configuration) const {
  const TrainOptions& options = setup_.options;
  if (!options.resume) return std::nullopt;
  std::optional<nn::LoadedState> found =
      nn::newest_checkpoint(options.out, configuration, [&](std::string_view text) { setup_.notice(text); });
  if (found) return found;
  if (!options.overwrite && path_exists(options.out / kManifestFile)) {
    throw Error(Code::usage,
                fmt::format("{}: holds a finished run and no checkpoint to resume from", options.out.string()),
                "add --overwrite to train it again, or choose another --out");
  }
  setup_.notice("no checkpoint to resume from: starting at the beginning");
  return std::nullopt;
}

void RunOutput::begin(const OrderedJson& configuration, const Checkpoint* resumed) {
  if (!setup_.is_rank_zero()) return;
  write_settings(setup_.options.out, configuration, values_json(setup_.options));
  if (resumed != nullptr) learned_ = learned_in(resumed->folder());  // of the same rows
  if (!learned_) learned_ = learned_rows(setup_.data.train, setup_.base.folder());
}

void RunOutput::save(nn::RunState& state, nn::Stepper& stepper) const {
  const TrainOptions& options = setup_.options;
  state.random = setup_.world.gather(nn::compat::random_state(torch::kCPU));
  if (!setup_.is_rank_zero()) return;
  nn::save_state(options.out / fmt::format("checkpoint-{}", state.position.step), saved(), state, stepper);
  remove_older_checkpoints(options.out, options.keep_checkpoints);
}

void RunOutput::evaluate_also(OrderedJson& results) {
  const TrainingData& data = setup_.data;
  const bool keep = setup_.options.trace && setup_.is_rank_zero();
  const nn::TraceSource source{.weights = keep ? weights_sha256(setup_.weights()) : std::string()};
  const auto traced = [&](const Features& features) {
    ExitTrace trace = nn::trace_network(setup_.network, features, source);
    for (size_t row = 0; keep && row < features.rows(); ++row)
      trace.learned.push_back(static_cast<uint8_t>(learned_->overlap(features.ids_of(row))));
    return trace;
  };
  const auto write = [&](const std::string& name, const ExitTrace& trace) {
    write_trace(setup_.options.out / fmt::format("trace-{}.safetensors", name), trace);
  };
  if (keep && data.eval.rows() > 0) write("eval", traced(data.eval));
  for (const ExtraSet& set : data.also) {
    const ExitTrace trace = traced(set.features);
    const OrderedJson entry = eval_entry(Scorer(trace, {.metrics = data.metrics}).each_exit());
    for (const auto& [key, value] : entry.items()) results[fmt::format("{}_{}", key, set.name)] = value;
    if (keep) write(set.name, trace);
  }
}

SavedWeights RunOutput::completed() const {
  SavedWeights out = saved();
  const TrainOptions& options = setup_.options;
  const Features& eval = setup_.data.eval;
  if (!options.complete || options.trace || eval.rows() == 0) return out;
  const Features train = nn::spread_evenly(setup_.data.train, TrainOptions::kMostToComplete);
  const ExitTrace of_train = nn::trace_network(setup_.network, train),
                  of_eval = nn::trace_network(setup_.network, eval);
  out.checkpoint = options.complete(out.checkpoint, {train, of_train}, {eval, of_eval});
  return out;
}

void RunOutput::finish(const nn::RunState& state, const OrderedJson& results) const {
  if (!setup_.is_rank_zero()) return;
  const std::filesystem::path& out = setup_.options.out;
  write_results(out, results);
  for (const std::string& line : write_trained(completed(), out)) setup_.notice(line);
  const OrderedJson summary{
      {"global_step", state.position.step}, {"max_steps", setup_.total_steps()}, {"log_history", state.log}};
  write_atomically(out / "trainer_state.json", json_text(summary));
  for (const auto& [name, content] : setup_.options.beside) write_atomically(out / name, content);
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

class Run {
 public:
  Run(const Checkpoint& base, const TrainingData& data, const TrainOptions& options)
      : setup_(base, data, options), output_(setup_) {
    state_.configuration = run_configuration(setup_.facts());
  }

  TrainResult go();

 private:
  [[nodiscard]] const StagePlan& plan() const { return setup_.plans[static_cast<size_t>(state_.position.stage)]; }
  // These three return false if the run was asked to stop.
  bool run_stage(nn::Stepper& stepper, const StageSpec& stage);
  bool run_epoch(nn::Stepper& stepper, const StageSpec& stage);
  bool after_step(nn::Stepper& stepper, const StageSpec& stage);
  void add_batch(nn::Stepper& stepper, const Batch& rows);
  void require_finite(double loss, const Batch& rows) const;
  TrainResult finish();

  steady_clock::time_point started_ = steady_clock::now();
  RunSetup setup_;
  RunOutput output_;
  nn::RunState state_;
  std::optional<RunJournal> journal_;
  std::optional<RunEvaluation> evaluation_;
  int64_t first_step_ = 0;
};

TrainResult Run::go() {
  const TrainOptions& options = setup_.options;
  std::optional<nn::LoadedState> loaded = output_.find_checkpoint(state_.configuration);
  if (loaded) state_ = loaded->state;
  first_step_ = state_.position.step;
  output_.begin(state_.configuration, loaded ? &loaded->weights : nullptr);
  setup_.report_start();
  journal_.emplace(setup_, state_);
  evaluation_.emplace(setup_, state_, *journal_);
  const auto stages = static_cast<int64_t>(options.recipe.stages.size());
  while (state_.position.stage < stages) {
    const StageSpec& stage = options.recipe.stages[static_cast<size_t>(state_.position.stage)];
    nn::Stepper stepper(setup_.network, options.recipe, stage,
                        {.lr = plan().lr,
                         .schedule = plan().schedule,
                         .epsilon = options.adam_epsilon,
                         .world = &setup_.world,
                         .bf16 = options.precision == "bf16",
                         .recorded = options.accumulation == 1});
    torch::manual_seed(static_cast<uint64_t>(options.recipe.seed + setup_.world.rank()));
    if (loaded) nn::restore(*loaded, stepper, setup_.world.rank());
    loaded.reset();
    if (!run_stage(stepper, stage)) {
      journal_->end_progress();
      return {.stopped = true, .steps = state_.position.step, .results = {}};
    }
    evaluation_->end_stage(stepper, stage);
    state_.position = {.stage = state_.position.stage + 1, .step = state_.position.step};
  }
  return finish();
}

bool Run::run_stage(nn::Stepper& stepper, const StageSpec& stage) {
  while (state_.position.stage_step < plan().steps && !evaluation_->stops_early(stage)) {
    if (!run_epoch(stepper, stage)) return false;
  }
  return true;
}

bool Run::run_epoch(nn::Stepper& stepper, const StageSpec& stage) {
  nn::RunPosition& at = state_.position;
  const std::vector<Batch> batches =
      shuffled_batches(setup_.data.train.offsets, {.batch = static_cast<size_t>(stage.batch),
                                                   .seed = static_cast<uint64_t>(setup_.options.recipe.seed),
                                                   .epoch = static_cast<uint64_t>(at.epoch),
                                                   .window = static_cast<size_t>(setup_.options.window)});
  while (at.batch < static_cast<int64_t>(batches.size())) {
    add_batch(stepper, batches[static_cast<size_t>(at.batch)]);
    ++at.batch;
    // As in the originals, batches left over at the end of an epoch go into the first step of the next.
    if (at.batch % setup_.options.accumulation != 0) continue;
    ++at.stage_step;
    ++at.step;
    journal_->add_step(stepper.step());
    if (!after_step(stepper, stage)) return false;
    if (at.stage_step == plan().steps || evaluation_->stops_early(stage)) return true;
  }
  at.batch = 0;
  ++at.epoch;
  return true;
}

void Run::add_batch(nn::Stepper& stepper, const Batch& all) {
  // Each process takes its part of the batch; the shares make the sum of all the mean over the whole.
  const auto rank = static_cast<size_t>(setup_.world.rank()), size = static_cast<size_t>(setup_.world.size());
  const Batch rows(all.begin() + static_cast<ptrdiff_t>(rank * all.size() / size),
                   all.begin() + static_cast<ptrdiff_t>((rank + 1) * all.size() / size));
  if (rows.empty()) return;
  const double share = static_cast<double>(rows.size()) / static_cast<double>(all.size()) / setup_.options.accumulation;
  try {
    const nn::TrainBatch batch = nn::batch_tensors(setup_.data.train, rows, setup_.shape());
    require_finite(stepper.add(batch, state_.position.batch, share), rows);
  } catch (const c10::Error& error) {
    rethrow_memory(error, setup_.device, state_.position.step + 1, rows.size());
  }
}

// Of the batch that state_.position stands before.
void Run::require_finite(double loss, const Batch& rows) const {
  if (std::isfinite(loss)) return;
  const nn::RunPosition& at = state_.position;
  std::vector<int64_t> index;
  for (const size_t row : rows) index.push_back(setup_.data.train.index[row]);
  throw Error(Code::failure,
              fmt::format("the loss is {} at step {}: stage {}, epoch {}, batch {}, rows {} of the training data", loss,
                          at.step + 1, at.stage + 1, at.epoch + 1, at.batch + 1, fmt::join(index, " ")),
              "lower the learning rate, or look at these rows; the last good checkpoint is kept");
}

bool Run::after_step(nn::Stepper& stepper, const StageSpec& stage) {
  const nn::RunPosition& at = state_.position;
  const TrainOptions& options = setup_.options;
  if (stage.eval_every > 0 && at.stage_step % stage.eval_every == 0) evaluation_->evaluate(stepper, stage);
  // Whoever is asked to stop, all stop at the same step.
  const bool asked = options.stop != nullptr && options.stop->load();
  const bool stop = setup_.world.all_reduce(asked ? 1.0 : 0.0) > 0;
  if (stop || (options.save_every > 0 && at.step % options.save_every == 0)) output_.save(state_, stepper);
  return !stop;
}

TrainResult Run::finish() {
  journal_->end_progress();
  const double seconds = std::chrono::duration<double>(steady_clock::now() - started_).count();
  const TrainingData& data = setup_.data;
  const auto steps = state_.position.step;
  OrderedJson results = evaluation_->results();
  output_.evaluate_also(results);
  for (const BaselineScore& other : data.baseline) {
    for (const Score& score : other.metrics)
      results["baselines"][other.name][std::string(name_of(score.metric))] = score.value;
  }
  const StagePlan& fitted = setup_.plans[setup_.fitted_stage()];
  results["epoch"] =
      static_cast<double>(fitted.steps * setup_.options.accumulation) / static_cast<double>(fitted.batches);
  results["train_loss"] = steps > 0 ? state_.loss_sum / static_cast<double>(steps) : 0.0;
  if (const std::vector<double> losses = journal_->epoch_losses(); !losses.empty())
    results["train_epoch_losses"] = losses;
  if (data.outcome.problem == Problem::classification)
    results["train_accuracy"] = nn::share_right(setup_.network, data.train, kFitRows);
  results["train_runtime"] = seconds;
  results["train_samples"] = data.train.rows();
  results["train_steps_per_second"] = static_cast<double>(steps - first_step_) / seconds;
  output_.finish(state_, results);
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
  return {.torch = nn::compat::version(), .gpus = nn::compat::gpus(), .gloo = nn::has_gloo(), .nccl = nn::has_nccl()};
}

}  // namespace exeunt
