// SPDX-License-Identifier: Apache-2.0
// `exeunt doctor`: what this machine can do, what is missing, and what to do about it.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <unistd.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/environment.h"
#include "apps/exeunt/machine.h"
#include "apps/exeunt/option_table.h"
#include "apps/exeunt/output.h"
#include "apps/exeunt/serve.h"
#include "apps/exeunt/trainer.h"
#include "exeunt/base/version.h"
#include "exeunt/flows/self_check.h"
#include "exeunt/model/hub_cache.h"
#include "exeunt/runtime/cpu/features.h"
#include "exeunt/runtime/cpu/kernels.h"
#include "exeunt/runtime/cuda/cuda.h"

namespace exeunt::apps {
namespace fs = std::filesystem;
namespace {

enum class State {
  good,
  note,     // works, and could work better
  missing,  // one thing cannot be done
  broken,   // models cannot run, or would answer wrongly
};
constexpr std::array<std::string_view, 4> kStates = {"ok", "note", "missing", "broken"};

struct Finding {
  std::string name;
  State state = State::good;
  std::string text = {};
  std::string hint = {};
  OrderedJson details = {};
};

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
    out.state = State::note;
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
        out.state = State::broken;
        out.hint = "answers would be wrong: use EXEUNT_ISA=generic, and please report it";
      }
    }
    out.text =
        fmt::format("{} of {}; {}: a small model {} what the reference computes", chosen.name, fmt::join(here, " "),
                    fmt::join(precisions, ", "), out.state == State::good ? "computes" : "does NOT compute");
    out.details["chosen"] = std::string(chosen.name);
    out.details["precisions"] = precisions;
    if (!chosen.bf16 && out.state == State::good) {
      out.state = State::note;
      out.text += "; no bf16 here, so fp32 is the default";
    }
  } catch (const Error& error) {
    out.state = State::broken;
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
    out.state = State::note;
    out.hint = "a BERT of base size takes about 0.5 GiB to run and 4 GiB to train";
  }
  return out;
}

Finding huge_page_finding() {
  const std::string mode = huge_pages();
  Finding out{.name = "huge pages", .text = mode.empty() ? "this system does not say" : mode, .details = mode};
  if (mode == "always" || mode == "madvise") out.text += ": weights lie in them";
  if (mode == "never") {
    out.state = State::note;
    out.hint = "a few per cent faster with: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return out;
}

Finding disk() {
  std::error_code ignored;
  const fs::path folder = fs::current_path(ignored);
  const auto free = free_bytes(folder);
  Finding out{.name = "disk"};
  out.text = free ? fmt::format("{} free in {}", size_text(*free), folder.string()) : "this system does not say";
  out.details = {{"folder", folder.string()}};
  out.details["free"] = free ? OrderedJson(*free) : OrderedJson(nullptr);
  if (free && *free < 2 * kGiB) {
    out.state = State::note;
    out.hint = "a run that trains a BERT of base size keeps 2.5 GiB: its model and two checkpoints";
  }
  return out;
}

Finding trainer() {
  Finding out{.name = "training"};
  const fs::path program = find_trainer();
  out.details = {{"program", program.string()}};
  if (program.empty()) {
    out.state = State::missing;
    out.text = "exeunt-train is not installed beside the command: 'exeunt train' cannot run";
    out.hint = "install libtorch-dev and build again: cmake --preset release -DEXEUNT_TRAIN=ON";
    return out;
  }
  const auto answer = output_of({program.string(), "about"}, 60);
  const OrderedJson about =
      OrderedJson::parse(answer.value_or(""), nullptr, /*allow_exceptions=*/false, /*ignore_comments=*/false);
  if (!about.is_object() || !about.contains("torch")) {
    out.state = State::missing;
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
    out.state = State::note;
    out.hint = "training a BERT of base size on a CPU takes hours; small ones take minutes";
  }
  return out;
}

Finding cuda() {
  const CudaDevices found = cuda_devices();
  Finding out{.name = "GPU"};
  std::vector<std::string> names;
  for (const CudaDevice& device : found.devices) names.push_back(device.name);
  out.details = {{"built", cuda_built()}, {"devices", names}};
  out.text = names.empty()
                 ? fmt::format("none ({}); models run on the processor, only training uses GPUs", found.reason)
                 : fmt::format("{}", fmt::join(names, ", "));
  return out;
}

Finding server() {
  if (has_server()) return {.name = "serving", .text = "built in", .details = true};
  return {.name = "serving",
          .state = State::missing,
          .text = "not in this build: 'exeunt serve' cannot run",
          .hint = "install libboost1.81-dev and libssl-dev, and build again",
          .details = false};
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
    out.state = State::note;
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

// A value that must not be shown.
bool is_secret(std::string_view name) {
  return name.find("KEY") != std::string_view::npos || name.find("TOKEN") != std::string_view::npos;
}

void add_variable(std::string_view name, std::string_view effect, std::vector<Finding>& out) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return;
  const std::string shown = is_secret(name) ? "…" : value;
  out.push_back({.name = std::string(name),
                 .text = fmt::format("{}: {}", shown, effect),
                 .details = {{"value", shown}, {"effect", std::string(effect)}}});
}

void add_flag_variables(const VerbTable& verb, std::vector<Finding>& out) {
  for (const OptionRow& option : verb.options) {
    if (option.variable.empty()) continue;
    add_variable(option.variable, fmt::format("{} of '{}': {}", option.names.back(), verb.name, option.text), out);
  }
  for (const VerbTable& inner : verb.verbs) add_flag_variables(inner, out);
}

// Every variable that is set and heeded, and those that look like ours and are not.
std::vector<Finding> environment(const VerbTable& command) {
  std::vector<Finding> out;
  for (const Variable& variable : variables()) add_variable(variable.name, variable.effect, out);
  add_flag_variables(command, out);
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with("EXEUNT_")) continue;
    if (std::any_of(out.begin(), out.end(), [&](const Finding& finding) { return finding.name == name; })) continue;
    out.push_back({.name = name,
                   .state = State::note,
                   .text = "set, but nothing reads it",
                   .hint = "known: EXEUNT_ISA, EXEUNT_MODEL",
                   .details = {{"effect", nullptr}}});
  }
  return out;
}

void print_findings(const std::vector<Finding>& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, width_of(finding.name));
  for (const Finding& finding : findings) {
    const std::string_view state = kStates[static_cast<size_t>(finding.state)];
    fmt::print("{:<8} {:<{}}  {}\n", state, finding.name, width, finding.text);
    if (!finding.hint.empty()) fmt::print("{:<8} {:<{}}  → {}\n", "", "", width, finding.hint);
  }
}

OrderedJson as_json(const std::vector<Finding>& findings) {
  OrderedJson out = OrderedJson::object();
  for (const Finding& finding : findings) {
    out[finding.name] = {{"state", std::string(kStates[static_cast<size_t>(finding.state)])},
                         {"text", finding.text},
                         {"hint", finding.hint.empty() ? OrderedJson(nullptr) : OrderedJson(finding.hint)},
                         {"details", finding.details}};
  }
  return out;
}

bool any(const std::vector<Finding>& findings, State state) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) { return finding.state == state; });
}

std::string verdict(const std::vector<Finding>& findings) {
  if (any(findings, State::broken)) return "models cannot run here";
  std::vector<std::string> gone;
  for (const Finding& finding : findings) {
    if (finding.state == State::missing) gone.push_back(finding.name);
  }
  return gone.empty() ? "everything works here: training, measuring, answering, serving"
                      : fmt::format("everything works here but {}", fmt::join(gone, " and "));
}

void run(const Common& common, const CLI::App& app) {
  const std::vector<Finding> findings{processor(), kernels(), memory_finding(), huge_page_finding(), disk(), trainer(),
                                      cuda(),      server(),  node(),           model_cache()};
  const std::vector<Finding> set = environment(describe(app));
  const bool usable = !any(findings, State::broken);
  if (common.json) {
    OrderedJson out{{"version", std::string(version())}, {"commit", std::string(commit())}, {"usable", usable}};
    out["verdict"] = verdict(findings);
    out["findings"] = as_json(findings);
    out["environment"] = as_json(set);
    print_json(out);
  } else {
    fmt::print("exeunt {}{}\n\n", version(), commit().empty() ? "" : fmt::format(" ({})", commit()));
    print_findings(findings);
    if (!set.empty()) fmt::print("\nVariables that are set:\n");
    print_findings(set);
    fmt::print("\n{}\n", verdict(findings));
  }
  finish_output();
  if (!usable) throw Error(Code::resources, "models cannot run on this machine", "the line marked 'broken' says why");
}

}  // namespace

void add_doctor(CommandLine& line) {
  (void)add_verb(line, "doctor", "What this machine can do, what is missing, and what to do about it",
                 {"exeunt doctor", "exeunt doctor --json"},
                 [&common = line.common, &app = line.app] { run(common, app); });
}

}  // namespace exeunt::apps
