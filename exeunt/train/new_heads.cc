// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/new_heads.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "exeunt/model/exits_file.h"
#include "exeunt/train/stepper.h"

namespace exeunt::nn {
namespace {

constexpr double kDeviation = 0.02;

// Weight and bias of a pooler to copy, [hidden, hidden] and [hidden]; no weight = none.
struct PoolerSource {
  const TensorView* weight = nullptr;
  const TensorView* bias = nullptr;
};

PoolerSource find_pooler(const Checkpoint& base, const std::string& name) {
  const PoolerSource found{base.find(name + ".weight"), base.find(name + ".bias")};
  const std::vector<int64_t> square{base.spec().hidden, base.spec().hidden};
  const bool fits = found.weight != nullptr && found.bias != nullptr && found.weight->shape == square;
  return fits ? found : PoolerSource{};
}

// The pretrained pooler for the exit after `layer`. A checkpoint with heads keeps it in its last exit.
PoolerSource pretrained_pooler(const Checkpoint& base, int layer) {
  PoolerSource found = find_pooler(base, fmt::format("pooler.{}", layer - 1));
  if (found.weight == nullptr) found = find_pooler(base, "pooler");
  if (found.weight == nullptr && !base.exits().sites.empty()) {
    const ExitSite& last = base.exits().sites.back();
    if (last.pooler && !last.reader) found = find_pooler(base, fmt::format("exits.pooler.{}", *last.pooler));
  }
  return found;
}

Tensor floats_of(const TensorView& view) {
  Tensor out = torch::empty(view.shape, torch::kFloat);
  copy_to_float(view, {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
  return out;
}

// Returns how many poolers were copied; `poolers` in all.
int copy_poolers(NetworkImpl& network, const Checkpoint& base) {
  auto parameters = network.named_parameters();
  int copied = 0;
  std::vector<int> done;
  for (const ExitSite& site : network.layout().sites) {
    if (!site.pooler || std::find(done.begin(), done.end(), *site.pooler) != done.end()) continue;
    const PoolerSource source = pretrained_pooler(base, site.after);
    const std::string name = fmt::format("exits.pooler.{}", *site.pooler);
    if (source.weight == nullptr || network.layout().width != base.spec().hidden) continue;
    done.push_back(*site.pooler);
    parameters[name + ".weight"].narrow(1, 0, base.spec().hidden).copy_(floats_of(*source.weight));
    parameters[name + ".bias"].copy_(floats_of(*source.bias));
    ++copied;
  }
  return copied;
}

// Copies the head of the model's last exit where ours is to be like it. Returns whether it was.
bool keep_last_head(NetworkImpl& network, const Checkpoint& base) {
  const ExitLayout &old = base.exits(), &now = network.layout();
  if (old.sites.empty() || old.problem != now.problem || old.labels != now.labels || old.input != now.input ||
      old.pooler != now.pooler)
    return false;
  if (old.compat_last_ramp == LastHead::ramp) return false;
  const ExitSite &from = old.sites.back(), &to = now.sites.back();
  std::vector<std::pair<std::string, std::string>> parts;  // names here and there
  const auto part = [&](const char* kind, std::optional<int> ours, std::optional<int> theirs) {
    if (ours && theirs)
      parts.emplace_back(fmt::format("exits.{}.{}.", kind, *ours), fmt::format("exits.{}.{}.", kind, *theirs));
    return ours.has_value() == theirs.has_value();
  };
  if (!part("reader", to.reader, from.reader) || !part("pooler", to.pooler, from.pooler)) return false;
  (void)part("classifier", to.classifier, from.classifier);
  std::vector<std::pair<Tensor, const TensorView*>> copies;
  for (auto& item : network.named_parameters()) {
    for (const auto& [ours, theirs] : parts) {
      if (!item.key().starts_with(ours)) continue;
      const TensorView* view = base.find(theirs + item.key().substr(ours.size()));
      if (view == nullptr || view->shape != item.value().sizes().vec()) return false;
      copies.emplace_back(item.value(), view);
    }
  }
  for (auto& [parameter, view] : copies) parameter.copy_(floats_of(*view));
  return true;
}

constexpr size_t kMostRows = 4096;
constexpr double kShrinkage = 0.5;  // of the covariance towards a multiple of the identity: few rows, many columns

// Places of rows evenly from all of them, the longest first, so that a batch of them has little padding.
std::vector<size_t> some_of(const Features& all) {
  std::vector<size_t> chosen;
  const size_t count = std::min(kMostRows, all.rows());
  for (size_t i = 0; i < count; ++i) chosen.push_back(i * all.rows() / count);
  std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) { return all.length(a) > all.length(b); });
  return chosen;
}

// What every exit's classifier reads of the rows, [rows, width] each, in double on the CPU.
std::vector<Tensor> pooled_of(Network& network, const Features& features, std::span<const size_t> rows) {
  constexpr size_t kBatch = 64;
  std::vector<std::vector<Tensor>> parts(network->layout().sites.size());
  const BatchShape shape{.pad_id = network->spec().pad_id, .device = network->parameters().front().device()};
  for (size_t first = 0; first < rows.size(); first += kBatch) {
    const auto batch = rows.subspan(first, std::min(kBatch, rows.size() - first));
    const ExitOutputs found = network->forward(batch_tensors(features, batch, shape).texts, {.pooled = true});
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(found.pooled[i].to(torch::kCPU, torch::kDouble));
  }
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& batches : parts) out.push_back(torch::cat(batches));
  return out;
}

struct Discriminants {
  Tensor weight, bias;  // [classes, width], [classes]
};

Discriminants discriminants_of(const Tensor& rows, const Tensor& gold, int64_t classes) {
  const int64_t count = rows.size(0), width = rows.size(1);
  const Tensor member = torch::one_hot(gold, classes).to(torch::kDouble);  // [rows, classes]
  const Tensor mean = rows.mean(0), offsets = rows - mean;
  const Tensor sizes = member.sum(0).clamp_min(1);
  const Tensor means = member.t().matmul(offsets) / sizes.unsqueeze(1);  // of a class without rows: 0
  Tensor covariance = offsets.t().matmul(offsets) / static_cast<double>(count);
  const double spread = std::max(covariance.trace().item<double>() / static_cast<double>(width), 1e-12);
  covariance = covariance + kShrinkage * spread * torch::eye(width, torch::kDouble);
  // A is symmetric and positive: the rows of M A^-1 are the columns of A^-1 M^T.
  Tensor weight = torch::cholesky_solve(means.t(), torch::linalg_cholesky(covariance)).t();
  const Tensor logits = offsets.matmul(weight.t());
  const double lead = ((logits * member).sum(1) - logits.mean(1)).mean().item<double>();
  if (lead > 0) weight = weight * ((1 + std::log(static_cast<double>(classes))) / lead);
  return {weight, -weight.matmul(mean)};
}

}  // namespace

void draw_weights(torch::nn::Module& module, const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  for (auto& item : module.named_parameters()) {
    const std::string& name = item.key();
    if (!name.starts_with(prefix)) continue;
    if (name.ends_with("norm.weight")) {
      item.value().fill_(1);
    } else if (name.ends_with("weight") && !name.starts_with("exits.reader.")) {
      item.value().normal_(0.0, kDeviation);
    } else {
      item.value().zero_();
    }
  }
}

Start start_network(const Checkpoint& base, const ExitLayout& layout, HeadInit init, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(seed);
  Start start{.network = Network(base.spec(), layout), .notices = {}};
  draw_weights(*start.network, "exits.");
  const bool same = !base.exits().sites.empty() && exits_json(base.exits()) == exits_json(layout);
  if (same) {
    (void)load_parameters(*start.network, base);
    start.notices.emplace_back("the model already has these exits: training continues from them");
    start.new_heads = false;
    return start;
  }
  // Heads of another layout must not slip in under a name that happens to fit.
  for (auto& item : start.network->named_parameters()) {
    const TensorView* view = item.key().find("exits.") == 0 ? nullptr : base.find(item.key());
    if (view != nullptr) item.value().copy_(floats_of(*view));
  }
  if (init == HeadInit::keep_last && keep_last_head(*start.network, base)) {
    start.notices.emplace_back("the model's last exit is kept, those before it are new");
    start.new_heads = false;
  } else if (!base.exits().sites.empty()) {
    start.notices.emplace_back("the model's own exits are replaced by new ones");
  }
  if (init == HeadInit::copy_pooler && layout.poolers() > 0 && copy_poolers(*start.network, base) == 0) {
    start.notices.emplace_back("the backbone has no pooler to copy: poolers start from random weights");
  }
  return start;
}

void set_output_biases(NetworkImpl& network, std::span<const float> gold) {
  const torch::NoGradGuard no_grad;
  double sum = 0, count = 0;
  for (const float value : gold) {  // one that is not a number will be named when its loss is seen
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  const bool inner = network.layout().inner.has_value();
  for (auto& item : network.named_parameters()) {
    const std::string& name = item.key();
    const bool output = name.starts_with("exits.classifier.") && name.ends_with(".bias");
    if (output && inner == name.ends_with(".inner.bias")) item.value().fill_(count > 0 ? sum / count : 0);
  }
}

void start_from_prototypes(Network& network, const Features& rows) {
  const ExitLayout& layout = network->layout();
  if (layout.inner || rows.rows() == 0) return;
  const torch::NoGradGuard no_grad;
  const bool training = network->is_training();
  network->eval();
  const std::vector<size_t> chosen = some_of(rows);
  const std::vector<Tensor> pooled = pooled_of(network, rows, chosen);
  network->train(training);
  std::vector<int64_t> labels;
  for (const size_t row : chosen) labels.push_back(static_cast<int64_t>(rows.gold[row]));
  const Tensor gold = torch::tensor(labels);
  auto parameters = network->named_parameters();
  for (size_t i = 0; i < layout.sites.size(); ++i) {
    const int own = layout.sites[i].classifier;
    const auto uses = std::count_if(layout.sites.begin(), layout.sites.end(),
                                    [&](const ExitSite& site) { return site.classifier == own; });
    if (uses > 1) continue;
    const Discriminants found = discriminants_of(pooled[i], gold, layout.outputs);
    parameters[fmt::format("exits.classifier.{}.weight", own)].copy_(found.weight);
    parameters[fmt::format("exits.classifier.{}.bias", own)].copy_(found.bias);
  }
}

}  // namespace exeunt::nn
