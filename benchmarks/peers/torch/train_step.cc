// SPDX-License-Identifier: Apache-2.0
// Times training steps of a random model on texts of given lengths: our side of peers/torch_training.py.
//   train_step --shape bert-base --batch 32 --tokens 128
//   train_step --shape bert-base --batch 32 --lengths lengths.txt
// Prints one JSON object.
#include <chrono>
#include <fstream>
#include <map>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "exeunt/base/json.h"
#include "exeunt/data/batches.h"
#include "exeunt/train/stepper.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt {
namespace {

using std::chrono::steady_clock;

struct Flags {
  std::string shape = "bert-base", lengths, recipe = "elasticbert", device = "cuda";
  int64_t batch = 32, tokens = 128;
  double seconds = 5;
  bool fp32 = false, losses = false, no_dropout = false, plain = false;
};

ModelSpec spec_of(const std::string& shape) {
  ModelSpec spec{.layers = 12, .hidden = 768, .heads = 12, .inner = 3072, .vocab = 30522, .embedding = 768};
  if (shape == "minilm-l12") {
    spec.hidden = spec.embedding = 384;
    spec.inner = 1536;
  }
  return spec;
}

Features texts_of(const Flags& flags) {
  std::vector<int64_t> lengths(static_cast<size_t>(8 * flags.batch), flags.tokens);
  if (!flags.lengths.empty()) {
    lengths.clear();
    std::ifstream file(flags.lengths);
    for (int64_t length = 0; file >> length;) lengths.push_back(length);
  }
  std::mt19937 random(1);
  Features features;
  for (size_t row = 0; row < lengths.size(); ++row) {
    for (int64_t t = 0; t < lengths[row]; ++t) features.ids.push_back(static_cast<int32_t>(1000 + random() % 29000));
    features.offsets.push_back(static_cast<int64_t>(features.ids.size()));
    features.gold.push_back(static_cast<float>(random() % 2));
    features.index.push_back(static_cast<int64_t>(row));
  }
  features.types.assign(features.ids.size(), 0);
  return features;
}

class Loop {
 public:
  explicit Loop(const Flags& flags) : flags_(flags), features_(texts_of(flags)), recipe_(find_recipe(flags.recipe)) {
    torch::manual_seed(1);
    if (flags.recipe == "elasticbert") recipe_.gradient.rule = GradientRule::none;  // the peer's loss is the plain sum
    ModelSpec spec = spec_of(flags.shape);
    if (flags.no_dropout) spec.hidden_dropout = spec.attention_dropout = spec.classifier_dropout = 0;
    const OutputSpec outcome{.problem = Problem::classification, .labels = {"0", "1"}, .range = {}};
    network_ = nn::Network(spec, layout_of(recipe_, spec, outcome));
    {
      const torch::NoGradGuard no_grad;
      for (auto& item : network_->named_parameters()) {
        if (item.value().dim() == 2) item.value().normal_(0, 0.02);
      }
    }
    device_ = nn::compat::choose_device(flags.device, 0);
    network_->to(device_);
    stepper_ = std::make_unique<nn::Stepper>(network_, recipe_, recipe_.stages.front(),
                                             nn::StepperOptions{.lr = 2e-5,
                                                                .schedule = {.steps = 1000000},
                                                                .bf16 = !flags.fp32 && device_.is_cuda(),
                                                                .recorded = !flags.plain});
    for (Batch& batch :
         shuffled_batches(features_.offsets, {.batch = static_cast<size_t>(flags.batch), .window = 50})) {
      if (batch.size() == static_cast<size_t>(flags.batch)) batches_.push_back(std::move(batch));
    }
  }

  void step() {
    const Batch& rows = batches_[next_ % batches_.size()];
    const nn::BatchShape shape{.device = device_, .multiple = nn::kGpuTokens, .most = 512};
    (void)stepper_->add(nn::batch_tensors(features_, rows, shape), static_cast<int64_t>(next_++), 1.0);
    const nn::StepReport report = stepper_->step();
    if (flags_.losses) fmt::print(stderr, "{:.5f} {:.4f}\n", report.loss, report.gradient_norm);
  }

  [[nodiscard]] size_t batches() const { return batches_.size(); }

 private:
  Flags flags_;
  Features features_;
  Recipe recipe_;
  nn::Network network_{nullptr};
  torch::Device device_ = torch::kCPU;
  std::unique_ptr<nn::Stepper> stepper_;
  std::vector<Batch> batches_;
  size_t next_ = 0;
};

void measure(const Flags& flags) {
  Loop loop(flags);
  // A shape is recorded when it occurs for the second time; that is not timed.
  for (size_t i = 0; i < std::min<size_t>(loop.batches(), flags.lengths.empty() ? 10 : 600); ++i) loop.step();
  std::vector<double> rates;
  for (int turn = 0; turn < 3; ++turn) {
    const auto start = steady_clock::now();
    const auto since = [&] { return std::chrono::duration<double>(steady_clock::now() - start).count(); };
    int64_t done = 0;
    for (; since() < flags.seconds / 3; ++done) loop.step();
    rates.push_back(static_cast<double>(done * flags.batch) / since());
  }
  OrderedJson out;
  out["program"] = "exeunt-train";
  out["version"] = nn::compat::version();
  out["shape"] = flags.shape;
  out["recipe"] = flags.recipe;
  out["batch"] = flags.batch;
  out["tokens"] = flags.lengths.empty() ? OrderedJson(flags.tokens) : OrderedJson("real");
  out["recorded"] = !flags.plain;
  out["samples_per_second"] = *std::max_element(rates.begin(), rates.end());
  out["all"] = rates;
  fmt::print("{}\n", out.dump());
}

}  // namespace
}  // namespace exeunt

int main(int count, char** arguments) {
  exeunt::Flags flags;
  CLI::App app("Times training steps");
  app.add_option("--shape", flags.shape)->check(CLI::IsMember({"bert-base", "minilm-l12"}));
  app.add_option("--recipe", flags.recipe);
  app.add_option("--batch", flags.batch);
  app.add_option("--tokens", flags.tokens);
  app.add_option("--lengths", flags.lengths);
  app.add_option("--seconds", flags.seconds);
  app.add_option("--device", flags.device);
  app.add_flag("--fp32", flags.fp32);
  app.add_flag("--plain", flags.plain, "Launch operations one by one instead of replaying recorded steps");
  app.add_flag("--no-dropout", flags.no_dropout);
  app.add_flag("--losses", flags.losses, "Print each step's loss and norm to stderr");
  CLI11_PARSE(app, count, arguments);
  exeunt::measure(flags);
  return 0;
}
