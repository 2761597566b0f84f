// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/run_state.h"

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/train/torch_compat.h"

namespace exeunt::nn {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTensors = "training.safetensors";
constexpr const char* kState = "trainer_state.json";
constexpr const char* kFormat = "exeunt.training/1";
constexpr std::string_view kPrefix = "checkpoint-";

// Tensors on their way to a file; keeps the copies alive until it is written.
class TensorList {
 public:
  void add(const std::string& name, const Tensor& tensor) {
    if (!tensor.defined()) return;
    kept_.push_back(tensor.detach().to(torch::kCPU).contiguous());
    const Tensor& copy = kept_.back();
    const bool bytes = copy.scalar_type() == torch::kByte;
    check(bytes || copy.scalar_type() == torch::kFloat, "training state is fp32 or bytes");
    const std::span raw(static_cast<const std::byte*>(copy.data_ptr()), copy.nbytes());
    list_.push_back(
        {name, {.dtype = bytes ? DType::u8 : DType::f32, .shape = copy.sizes().vec(), .strides = {}, .bytes = raw}});
  }
  [[nodiscard]] const std::vector<NamedTensor>& list() const { return list_; }

 private:
  std::vector<Tensor> kept_;
  std::vector<NamedTensor> list_;
};

Tensor tensor_of(const TensorSet& set, const std::string& name) {
  const TensorView* view = set.find(name);
  if (view == nullptr) return {};
  const bool bytes = view->dtype == DType::u8;
  Tensor out = torch::empty(view->shape, bytes ? torch::kByte : torch::kFloat);
  if (out.numel() == 0) return out;
  copy_raw(*view, {static_cast<std::byte*>(out.data_ptr()), out.nbytes()});
  return out;
}

torch::Device device_of(Stepper& stepper) {
  return stepper.network()->parameters().front().device();
}

OrderedJson state_json(const RunState& state, Stepper& stepper) {
  const RunPosition& at = state.position;
  OrderedJson out;
  out["format"] = kFormat;
  out["global_step"] = at.step;
  out["epoch"] = at.epoch;
  out["stage"] = at.stage;
  out["batch"] = at.batch;
  out["stage_step"] = at.stage_step;
  out["loss_sum"] = state.loss_sum;
  out["best_metric"] = state.best.score ? OrderedJson(*state.best.score) : OrderedJson(nullptr);
  out["best_global_step"] = state.best.step;
  out["evaluations_since_best"] = state.best.since;
  out["evaluated_global_step"] = state.evaluated;
  OrderedJson& slots = out["optimizer_steps"] = OrderedJson::object();
  for (const AdamSlot& slot : stepper.adam().slots()) slots[slot.name] = slot.t;
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
  TensorList tensors;
  for (const AdamSlot& slot : stepper.adam().slots()) {
    tensors.add("adam.m." + slot.name, slot.m);
    tensors.add("adam.v." + slot.name, slot.v);
  }
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
  if (device_of(stepper).is_cuda()) tensors.add("random.device", compat::random_state(device_of(stepper)));
  write_safetensors(folder / kTensors, tensors.list(), {{"format", kFormat}});
  write_atomically(folder / kState, json_text(state_json(state, stepper)));
  return {kTensors, kState};
}

}  // namespace

void save_state(const fs::path& path, const SavedWeights& weights, const RunState& state, Stepper& stepper) {
  (void)write_exeunt_folder(weights.checkpoint, path,
                            {.replace = true, .recipe = weights.recipe, .beside = [&](const fs::path& folder) {
                               return write_state(folder, state, stepper);
                             }});
}

LoadedState read_state(const fs::path& folder) {
  Checkpoint weights = Checkpoint::open(folder.string(), {.verify = true});
  const std::string where = (folder / kState).string();
  const Json json = read_json(folder / kState);
  JsonObject fields(json, where);
  if (const std::string format = fields.string("format"); format != kFormat) {
    throw_bad_file(where, "got format '{}', want '{}'", format, kFormat);
  }
  constexpr int64_t kMost = int64_t{1} << 53;
  RunState state;
  state.position = {.stage = fields.integer("stage", 0, 1 << 20),
                    .epoch = fields.integer("epoch", 0, kMost),
                    .batch = fields.integer("batch", 0, kMost),
                    .stage_step = fields.integer("stage_step", 0, kMost),
                    .step = fields.integer("global_step", 0, kMost)};
  state.loss_sum = fields.number("loss_sum");
  if (fields.has("best_metric")) state.best.score = fields.number("best_metric");
  state.best.step = fields.integer("best_global_step", 0, kMost);
  state.best.since = fields.integer("evaluations_since_best", 0, kMost);
  state.evaluated = fields.integer("evaluated_global_step", -1, kMost);
  // Once more, now that it is known to be sound, in the order it was written: logs are continued, not reordered.
  const OrderedJson ordered = OrderedJson::parse(read_text(folder / kState));
  state.configuration = ordered.value("configuration", OrderedJson::object());
  state.log = ordered.value("log_history", OrderedJson::array());
  TensorSet tensors = read_safetensors(folder / kTensors);
  for (const auto& [name, view] : tensors.tensors) {
    if (name.starts_with("best.")) state.best.parameters[name.substr(5)] = tensor_of(tensors, name);
  }
  return {std::move(state), std::move(weights), std::move(tensors), fields.get("optimizer_steps")};
}

void restore(const LoadedState& loaded, Stepper& stepper, int rank) {
  const torch::NoGradGuard no_grad;
  check(load_parameters(*stepper.network(), loaded.weights).empty(), "a checkpoint has all weights of its network");
  for (AdamSlot& slot : stepper.adam().slots()) {
    slot.t = loaded.slots.value(slot.name, int64_t{0});
    const auto there = [&](const char* kind) {
      const Tensor stored = tensor_of(loaded.tensors, fmt::format("adam.{}.{}", kind, slot.name));
      return stored.defined() ? stored.to(slot.parameter.device()) : stored;
    };
    slot.m = there("m");
    slot.v = there("v");
  }
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
  compat::set_random_state(torch::kCPU, tensor_of(loaded.tensors, fmt::format("random.cpu.{}", rank)));
  if (const Tensor state = tensor_of(loaded.tensors, "random.device");
      state.defined() && device_of(stepper).is_cuda()) {
    compat::set_random_state(device_of(stepper), state);
  }
}

std::vector<fs::path> checkpoints_in(const fs::path& out) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t number = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
    if (error == std::errc{} && stop == end) found.emplace_back(number, entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

void remove_partial(const fs::path& out) {
  std::error_code ignored;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with(".checkpoint-") || name.starts_with("..final");
    if (ours && (name.find(".partial-") != std::string::npos || name.find(".old-") != std::string::npos)) {
      stale.push_back(entry.path());
    }
  }
  for (const fs::path& path : stale) fs::remove_all(path, ignored);
}

std::string first_difference(const Json& stored, const Json& now) {
  const Json before = stored.flatten(), after = now.flatten();
  const auto text = [](const Json& object, const std::string& key) {
    return object.contains(key) ? glimpse(object.at(key)) : std::string("nothing");
  };
  for (const Json* side : {&before, &after}) {
    for (const auto& [key, value] : side->items()) {
      if (before.contains(key) && after.contains(key) && before.at(key) == after.at(key)) continue;
      std::string name = key.substr(1);
      std::replace(name.begin(), name.end(), '/', '.');
      return fmt::format("{}: the checkpoint has {}, this run {}", name, text(before, key), text(after, key));
    }
  }
  return {};
}

}  // namespace exeunt::nn
