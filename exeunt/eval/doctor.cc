// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/doctor.h"

#include <algorithm>
#include <array>

#include "exeunt/base/error.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/eval/machine.h"
#include "exeunt/eval/self_check.h"
#include "exeunt/model/locate.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string size_text(uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / static_cast<double>(kGiB);
  return fmt::format("{:.{}f} GiB", gib, gib < 10 ? 1 : 0);
}

Finding processor() {
  const CpuFeatures cpu = cpu_features();
  Finding out{.name = "processor"};
  out.text = fmt::format("{}, {}, {} threads for this process", cpu.name, cpu.architecture, cpu.threads);
  if (const int found = cores(); found > 0) out.text += fmt::format(" on {} cores", found);
  out.details = {{"name", cpu.name}, {"architecture", cpu.architecture}, {"threads", cpu.threads}, {"cores", cores()}};
  out.details["features"] = OrderedJson::array();
  for (const std::string_view flag : flag_names(cpu)) out.details["features"].push_back(std::string(flag));
  const auto limit = processor_limit();
  out.details["limit"] = limit ? OrderedJson(*limit) : OrderedJson(nullptr);
  if (limit && *limit < cpu.threads) {
    out.health = Health::note;
    out.text += fmt::format(", of which this container may keep {:.1f} busy", *limit);
    out.hint = fmt::format("give --threads {} to verbs that run models", std::max(1, static_cast<int>(*limit)));
  }
  return out;
}

// The table of kernels that is used, and a small model through it.
Finding kernels() {
  Finding out{.name = "kernels"};
  const CpuFeatures cpu = cpu_features();
  std::vector<std::string> here, elsewhere;
  for (const Kernels* table : all_kernels()) {
    (table->runs_on(cpu) && table->prepare() ? here : elsewhere).emplace_back(table->name);
  }
  out.details = {{"here", here}, {"elsewhere", elsewhere}};
  try {
    const Kernels& chosen = choose_kernels();
    std::vector<std::string> precisions;
    for (const SelfCheck& row : check_engine(chosen)) {
      precisions.emplace_back(name_of(row.precision));
      out.details["self_check"][precisions.back()] = {{"difference", row.difference}, {"good", row.good}};
      if (!row.good) {
        out.health = Health::broken;
        out.hint = "answers would be wrong: use EXEUNT_ISA=generic, and please report it";
      }
    }
    out.text = fmt::format("{} of {}; {}: a small model {} the reference", chosen.name, fmt::join(here, " "),
                           fmt::join(precisions, ", "), out.health == Health::good ? "matches" : "does NOT match");
    out.details["chosen"] = std::string(chosen.name);
    out.details["precisions"] = precisions;
    if (!chosen.bf16 && out.health == Health::good) {
      out.health = Health::note;
      out.text += "; no bf16 here, so fp32 is the default";
    }
  } catch (const Error& error) {
    out.health = Health::broken;
    out.text = error.what();
    out.hint = error.hint();
  }
  return out;
}

Finding memory_finding() {
  const Memory found = memory();
  const uint64_t free = found.limit ? std::min(*found.limit, found.available) : found.available;
  Finding out{.name = "memory", .text = fmt::format("{}, {} free", size_text(found.total), size_text(free))};
  if (found.limit) out.text += fmt::format(", at most {} for this container", size_text(*found.limit));
  out.details = {{"total", found.total}, {"available", free}};
  out.details["limit"] = found.limit ? OrderedJson(*found.limit) : OrderedJson(nullptr);
  if (free < kGiB && found.total > 0) {
    out.health = Health::note;
    out.hint = "a BERT of base size takes about 0.5 GiB to run and 4 GiB to train";
  }
  return out;
}

Finding huge_page_finding() {
  const std::string mode = huge_pages();
  Finding out{.name = "huge pages", .text = mode.empty() ? "unknown" : mode, .details = mode};
  if (mode == "always" || mode == "madvise") out.text += ": weights use them";
  if (mode == "never") {
    out.health = Health::note;
    out.hint = "a few per cent faster with: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return out;
}

Finding disk() {
  std::error_code ignored;
  const fs::path folder = fs::current_path(ignored);
  const auto free = free_bytes(folder);
  Finding out{.name = "disk"};
  out.text = free ? fmt::format("{} free in {}", size_text(*free), folder.string()) : "unknown";
  out.details = {{"folder", folder.string()}};
  out.details["free"] = free ? OrderedJson(*free) : OrderedJson(nullptr);
  if (free && *free < 2 * kGiB) {
    out.health = Health::note;
    out.hint = "a run that trains a BERT of base size keeps 2.5 GiB: its model and two checkpoints";
  }
  return out;
}

Finding trainer(const fs::path& program) {
  Finding out{.name = "training"};
  out.details = {{"program", program.string()}};
  if (program.empty()) {
    out.health = Health::missing;
    out.text = "exeunt-train is not installed beside the command: 'exeunt train' cannot run";
    out.hint = "install libtorch-dev and build again: cmake --preset release -DEXEUNT_TRAIN=ON";
    return out;
  }
  const auto answer = output_of({program.string(), "about"}, 60);
  const OrderedJson about =
      OrderedJson::parse(answer.value_or(""), nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/false);
  if (!about.is_object() || !about.contains("torch")) {
    out.health = Health::missing;
    out.text = fmt::format("{} does not start", program.string());
    out.hint = fmt::format("run '{} about' to see why; often LibTorch's libraries are gone", program.string());
    return out;
  }
  out.details.update(about);
  const int gpus = about.value("gpus", 0);
  out.text = fmt::format("LibTorch {}, {}", about.value("torch", ""), gpus > 0 ? fmt::format("{} GPUs", gpus) : "CPU");
  std::vector<std::string> ways;
  if (about.value("gloo", false)) ways.emplace_back("Gloo");
  if (about.value("nccl", false)) ways.emplace_back("NCCL");
  out.text += ways.empty() ? "; one process alone (built without Gloo and NCCL)"
                           : fmt::format("; several processes over {}", fmt::join(ways, " and "));
  if (gpus == 0) {
    out.health = Health::note;
    out.hint = "training a BERT of base size on a CPU takes hours; small ones take minutes";
  }
  return out;
}

Finding cuda() {
  const CudaDevices found = cuda_devices();
  Finding out{.name = "GPU"};
  out.details = {{"built", cuda_built()}, {"runtime", found.runtime}, {"driver", found.driver}};
  out.details["devices"] = OrderedJson::array();
  std::vector<std::string> texts;
  for (const CudaDevice& device : found.devices) {
    out.details["devices"].push_back(device.name);
    texts.push_back(fmt::format("cuda:{} {} (sm_{}{}, {})", device.index, device.name, device.major, device.minor,
                                size_text(device.bytes)));
  }
  if (!texts.empty()) {
    out.text =
        fmt::format("{}; driver for CUDA {}, built with {}", fmt::join(texts, ", "), found.driver, found.runtime);
    return out;
  }
  const std::string_view how = cuda_built() ? "" : ": build with -DEXEUNT_CUDA=ON where nvcc is";
  out.text = fmt::format("none ({}{}); models run on the processor", found.reason, how);
  return out;
}

// Only those who develop Exeunt need node: it runs the judges of tokenizers and of ONNX graphs.
Finding node() {
  Finding out{.name = "node and npm"};
  std::vector<std::string> parts, gone;
  for (const char* name : {"node", "npm"}) {
    const fs::path program = program_on_path(name);
    auto text = program.empty() ? std::nullopt : output_of({program.string(), "--version"}, 20);
    if (text) text->erase(std::min(text->find('\n'), text->size()));
    out.details[name] = text ? OrderedJson(*text) : OrderedJson(nullptr);
    text ? (void)parts.emplace_back(fmt::format("{} {}", name, *text)) : (void)gone.emplace_back(name);
  }
  out.text = gone.empty()
                 ? fmt::format("{}", fmt::join(parts, ", "))
                 : fmt::format("no {}: only 'make parity' and some comparisons need it", fmt::join(gone, ", no "));
  if (!gone.empty()) {
    out.health = Health::note;
    out.hint = "scripts/setup node";
  }
  return out;
}

Finding model_cache() {
  const fs::path folder = hub_cache_folder();
  Finding out{.name = "model cache"};
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "models--";
    if (!name.starts_with(kPrefix)) continue;
    name.erase(0, kPrefix.size());
    if (const size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  out.details = {{"folder", folder.string()}, {"models", names}};
  constexpr size_t kShown = 5;
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + static_cast<ptrdiff_t>(std::min(kShown, names.size())));
  out.text = names.empty() ? fmt::format("no models in {}; folders work everywhere", folder.string())
                           : fmt::format("{} in {}: {}{}", names.size(), folder.string(), fmt::join(shown, ", "),
                                         names.size() > kShown ? " …" : "");
  return out;
}

}  // namespace

std::string_view name_of(Health health) noexcept {
  constexpr std::array<std::string_view, 4> names = {"ok", "note", "missing", "broken"};
  return names[static_cast<size_t>(health)];
}

std::vector<Finding> examine_machine(const fs::path& trainer_program) {
  return {processor(), kernels(), memory_finding(), huge_page_finding(), disk(), trainer(trainer_program),
          cuda(),      node(),    model_cache()};
}

bool any_of(const std::vector<Finding>& findings, Health health) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& finding) { return finding.health == health; });
}

std::string verdict(const std::vector<Finding>& findings) {
  if (any_of(findings, Health::broken)) return "models cannot run here";
  std::vector<std::string> gone;
  for (const Finding& finding : findings) {
    if (finding.health == Health::missing) gone.push_back(finding.name);
  }
  return gone.empty() ? "everything works: training, evaluation, inference, serving"
                      : fmt::format("everything works except {}", fmt::join(gone, " and "));
}

}  // namespace exeunt
