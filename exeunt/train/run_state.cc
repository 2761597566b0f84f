// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/run_state.h"

#include <cmath>
#include <span>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTensors = "training.safetensors";
constexpr const char* kState = "trainer_state.json";
constexpr const char* kFormat = "exeunt.training/1";
constexpr size_t kMaxStateBytes = size_t{1} << 28;  // it has the whole log of the run

torch::Device device_of(Stepper& stepper) {
  return stepper.network()->parameters().front().device();
}

OrderedJson state_json(const RunState& state, const OrderedJson& optimizer_steps) {
  OrderedJson out{{"format", kFormat}};
  out.update(fields_json(state));
  out["optimizer_steps"] = optimizer_steps;
  out["configuration"] = state.configuration;
  out["log_history"] = state.log;
  return out;
}

void copy_into(const TensorSet& set, const std::string& name, Tensor& into) {
  const Tensor stored = tensor_of(set, name);
  check(stored.defined() && stored.sizes() == into.sizes(), "a checkpoint that was verified has this tensor");
  into.copy_(stored);
}

std::vector<std::string> write_state(const fs::path& folder, const RunState& state, Stepper& stepper) {
  StateTensors tensors;
  const OrderedJson optimizer_steps = add_optimizer(stepper.adam(), tensors);
  for (const auto& item : stepper.objective().named_parameters()) {
    tensors.add("objective." + item.key(), item.value());
    tensors.add("objective.gradient." + item.key(), item.value().grad());
  }
  if (stepper.teacher()) {
    for (const auto& item : stepper.teacher()->named_parameters()) tensors.add("teacher." + item.key(), item.value());
  }
  for (const auto& [name, value] : state.best.parameters) tensors.add("best." + name, value);
  if (state.random.empty()) tensors.add("random.cpu.0", compat::random_state(torch::kCPU));
  for (size_t rank = 0; rank < state.random.size(); ++rank) {
    tensors.add(fmt::format("random.cpu.{}", rank), state.random[rank]);
  }
  add_gpu_random(device_of(stepper), tensors);
  write_safetensors(folder / kTensors, tensors.list(), {{"format", kFormat}});
  write_atomically(folder / kState, json_text(state_json(state, optimizer_steps)));
  return {kTensors, kState};
}

}  // namespace

void StateTensors::add(const std::string& name, const Tensor& tensor) {
  if (!tensor.defined()) return;
  kept_.push_back(tensor.detach().to(torch::kCPU).contiguous());
  const Tensor& copy = kept_.back();
  const bool bytes = copy.scalar_type() == torch::kByte;
  check(bytes || copy.scalar_type() == torch::kFloat, "training state is fp32 or bytes");
  const std::span raw(static_cast<const std::byte*>(copy.data_ptr()), copy.nbytes());
  list_.push_back(
      {name, {.dtype = bytes ? DType::u8 : DType::f32, .shape = copy.sizes().vec(), .strides = {}, .bytes = raw}});
}

Tensor tensor_of(const TensorSet& set, const std::string& name) {
  const TensorView* view = set.find(name);
  if (view == nullptr) return {};
  const bool bytes = view->dtype == DType::u8;
  Tensor out = torch::empty(view->shape, bytes ? torch::kByte : torch::kFloat);
  if (out.numel() == 0) return out;
  copy_raw(*view, {static_cast<std::byte*>(out.data_ptr()), out.nbytes()});
  return out;
}

OrderedJson add_optimizer(const AdamW& adam, StateTensors& tensors) {
  OrderedJson counts = OrderedJson::object();
  for (const AdamSlot& slot : adam.slots()) {
    tensors.add("adam.m." + slot.name, slot.m);
    tensors.add("adam.v." + slot.name, slot.v);
    counts[slot.name] = slot.t;
  }
  return counts;
}

void restore_optimizer(const TensorSet& tensors, const Json& counts, AdamW& adam) {
  for (AdamSlot& slot : adam.slots()) {
    slot.t = counts.value(slot.name, int64_t{0});
    const auto there = [&](const char* kind) {
      const Tensor stored = tensor_of(tensors, fmt::format("adam.{}.{}", kind, slot.name));
      return stored.defined() ? stored.to(slot.parameter.device()) : stored;
    };
    slot.m = there("m");
    slot.v = there("v");
  }
}

void add_gpu_random(const torch::Device& device, StateTensors& tensors) {
  if (device.is_cuda()) tensors.add("random.device", compat::random_state(device));
}

void restore_random(const TensorSet& tensors, const std::string& cpu, const torch::Device& device) {
  compat::set_random_state(torch::kCPU, tensor_of(tensors, cpu));
  const Tensor state = tensor_of(tensors, "random.device");
  if (state.defined() && device.is_cuda()) compat::set_random_state(device, state);
}

void save_state(const fs::path& path, const SavedWeights& weights, const RunState& state, Stepper& stepper) {
  (void)write_exeunt_folder(weights.checkpoint, path,
                            {.replace = true, .recipe = weights.recipe, .beside = [&](const fs::path& folder) {
                               weights.learned.write(folder / kLearnedFile);
                               std::vector<std::string> names = write_state(folder, state, stepper);
                               names.emplace_back(kLearnedFile);
                               return names;
                             }});
}

LoadedState read_state(const fs::path& folder) {
  Checkpoint weights = Checkpoint::open(folder.string(), {.verify = true});
  const std::string where = (folder / kState).string();
  const Json json = read_json(ReadPath::in(folder, kState), kMaxStateBytes);
  JsonObject fields(json, where);
  if (const std::string format = fields.string("format"); format != kFormat) {
    throw_bad_file(where, "got format '{}', want '{}'", format, kFormat);
  }
  RunState state;
  read_fields(fields, state);
  // Once more, now that it is known to be sound, in the order it was written: logs are continued, not reordered.
  const OrderedJson ordered = read_ordered_json(ReadPath::in(folder, kState), kMaxStateBytes);
  state.configuration = ordered.value("configuration", OrderedJson::object());
  state.log = ordered.value("log_history", OrderedJson::array());
  TensorSet tensors = read_safetensors(ReadPath::in(folder, kTensors));
  for (const auto& [name, view] : tensors.tensors) {
    if (name.starts_with("best.")) state.best.parameters[name.substr(5)] = tensor_of(tensors, name);
  }
  return {std::move(state), std::move(weights), std::move(tensors), fields.get("optimizer_steps")};
}

void restore(const LoadedState& loaded, Stepper& stepper, int rank) {
  const torch::NoGradGuard no_grad;
  check(load_parameters(*stepper.network(), loaded.weights).empty(), "a checkpoint has all weights of its network");
  restore_optimizer(loaded.tensors, loaded.slots, stepper.adam());
  for (auto& item : stepper.objective().named_parameters()) {
    copy_into(loaded.tensors, "objective." + item.key(), item.value());
    const Tensor gradient = tensor_of(loaded.tensors, "objective.gradient." + item.key());
    item.value().mutable_grad() = gradient.defined() ? gradient.to(item.value().device()) : Tensor();
  }
  if (stepper.teacher()) {
    for (auto& item : stepper.teacher()->named_parameters()) {
      copy_into(loaded.tensors, "teacher." + item.key(), item.value());
    }
  }
  stepper.set_steps_done(loaded.state.position.stage_step);
  restore_random(loaded.tensors, fmt::format("random.cpu.{}", rank), device_of(stepper));
}

std::optional<LoadedState> newest_checkpoint(const fs::path& out, const OrderedJson& configuration,
                                             const Notice& notice) {
  std::optional<LoadedState> found;
  (void)load_newest(out, notice, [&](const fs::path& path) {
    LoadedState loaded = read_state(path);
    require_same_settings(path.string(), loaded.state.configuration, configuration);
    found = std::move(loaded);
  });
  return found;
}

bool BestSoFar::offer(double score_now, int64_t step_now) {
  if (std::isnan(score_now) || (score && score_now <= *score)) {
    ++since;
    return false;
  }
  score = score_now;
  step = step_now;
  since = 0;
  return true;
}

void BestSoFar::keep(const NetworkImpl& network) {
  for (const auto& item : network.named_parameters()) {
    parameters[item.key()] = item.value().detach().to(torch::kCPU).clone();
  }
}

void BestSoFar::restore(NetworkImpl& network) const {
  const torch::NoGradGuard no_grad;
  for (auto& item : network.named_parameters()) item.value().copy_(parameters.at(item.key()));
}

}  // namespace exeunt::nn
