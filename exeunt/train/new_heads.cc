// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/new_heads.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/model/exits_file.h"

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

void draw_heads(NetworkImpl& network) {
  for (auto& item : network.named_parameters()) {
    if (item.key().find("exits.") != 0) continue;
    const bool drawn = item.key().ends_with(".weight") && item.key().find("exits.reader.") != 0;
    if (item.key().ends_with("norm.weight")) {
      item.value().fill_(1);
    } else if (drawn) {
      item.value().normal_(0.0, kDeviation);
    } else {
      item.value().zero_();
    }
  }
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
  if (old.compat_last_ramp == LastRamp::ramp) return false;
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

}  // namespace

Start start_network(const Checkpoint& base, const ExitLayout& layout, HeadInit init, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(seed);
  Start start{.network = Network(base.spec(), layout), .notices = {}};
  draw_heads(*start.network);
  const bool same = !base.exits().sites.empty() && exits_json(base.exits()) == exits_json(layout);
  if (same) {
    (void)load_parameters(*start.network, base);
    start.notices.emplace_back("the model already has these exits: training continues from them");
    start.new_heads = false;
    return start;
  }
  // Heads of another layout must not slip in under a name that happens to fit.
  const Checkpoint& backbone = base;
  for (auto& item : start.network->named_parameters()) {
    const TensorView* view = item.key().find("exits.") == 0 ? nullptr : backbone.find(item.key());
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

void set_output_biases(NetworkImpl& network, double value) {
  const torch::NoGradGuard no_grad;
  const char* last = network.layout().inner ? ".inner.bias" : ".bias";
  for (auto& item : network.named_parameters()) {
    const std::string& name = item.key();
    const bool inner = name.ends_with(".inner.bias");
    if (!name.starts_with("exits.classifier.") || !name.ends_with(last)) continue;
    if (inner == network.layout().inner.has_value()) item.value().fill_(value);
  }
}

}  // namespace exeunt::nn
