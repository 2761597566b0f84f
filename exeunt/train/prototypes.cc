// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/prototypes.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "exeunt/train/batch_tensors.h"

namespace exeunt::nn {
namespace {

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
