// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/doctor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>

#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/number.h"
#include "exeunt/base/process.h"
#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/eval/bench.h"
#include "exeunt/model/locate.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string size_text(uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / static_cast<double>(kGiB);
  return fmt::format("{:.{}f} GiB", gib, gib < 10 ? 1 : 0);
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The word `nth` of a line, if it is a number.
std::optional<uint64_t> number_in(std::string_view line, int nth = 0) {
  for (;; --nth) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view word = line.substr(0, line.find(' '));
    if (nth == 0) return number_of<uint64_t>(word);
    line.remove_prefix(word.size());
  }
}

// Cores of the machine, not counting their second threads; 0 = unavailable.
size_t cores(const fs::path& root) {
  std::set<std::string> siblings;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/cpu", ignored)) {
    const std::string line = first_line(entry.path() / "topology" / "thread_siblings_list");
    if (!line.empty()) siblings.insert(line);
  }
  return siblings.size();
}

// The processors that this process's group (a container) may keep busy, if it has a limit.
std::optional<double> processor_limit(const fs::path& root) {
  const std::string line = first_line(root / "sys/fs/cgroup/cpu.max");  // "200000 100000", or "max 100000"
  const auto quota = number_in(line), period = number_in(line, 1);
  if (!quota || period.value_or(0) == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

Finding processor(const fs::path& root) {
  const CpuFeatures cpu = cpu_features();
  Finding out{.name = "processor"};
  out.text = fmt::format("{}, {}, {} threads for this process", cpu.name, cpu.architecture, cpu.threads);
  const size_t found = cores(root);
  if (found > 0) out.text += fmt::format(" on {} cores", found);
  out.details = {{"name", cpu.name}, {"architecture", cpu.architecture}, {"threads", cpu.threads}, {"cores", found}};
  out.details["features"] = OrderedJson::array();
  for (const std::string_view flag : flag_names(cpu)) out.details["features"].push_back(std::string(flag));
  const auto limit = processor_limit(root);
  out.details["limit"] = field_json(limit);
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

Finding memory(const fs::path& root) {
  uint64_t total = 0, available = 0;  // bytes; 0 = unavailable
  std::ifstream file(root / "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    const uint64_t bytes = 1024 * number_in(line, 1).value_or(0);
    if (line.starts_with("MemTotal:")) total = bytes;
    if (line.starts_with("MemAvailable:")) available = bytes;
  }
  // Of this process's group (a container).
  const uint64_t limit =
      number_in(first_line(root / "sys/fs/cgroup/memory.max")).value_or(total);  // "max" is no number
  const uint64_t free = std::min(limit, available);
  Finding out{.name = "memory", .text = fmt::format("{}, {} free", size_text(total), size_text(free))};
  if (limit < total) out.text += fmt::format(", at most {} for this container", size_text(limit));
  out.details = {{"total", total}, {"available", free}};
  out.details["limit"] = limit < total ? OrderedJson(limit) : OrderedJson(nullptr);
  if (free < kGiB && total > 0) {
    out.health = Health::note;
    out.hint = "a BERT of base size takes about 0.5 GiB to run and 4 GiB to train";
  }
  return out;
}

Finding huge_pages(const fs::path& root) {
  const std::string line = first_line(root / "sys/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  const size_t open = std::min(line.find('['), line.size()), close = line.find(']', open);
  const std::string mode = close == std::string::npos ? "" : line.substr(open + 1, close - open - 1);
  Finding out{.name = "huge pages", .text = mode.empty() ? "unknown" : mode, .details = mode};
  if (mode == "always" || mode == "madvise") out.text += ": weights use them";
  if (mode == "never") {
    out.health = Health::note;
    out.hint = "a few per cent faster with: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return out;
}

Finding disk() {
  std::error_code ignored, failure;
  const fs::path folder = fs::current_path(ignored);
  const uint64_t free = fs::space(folder, failure).available;
  Finding out{.name = "disk"};
  out.text = failure ? "unknown" : fmt::format("{} free in {}", size_text(free), folder.string());
  out.details = {{"folder", folder.string()}};
  out.details["free"] = failure ? OrderedJson(nullptr) : OrderedJson(free);
  if (!failure && free < 2 * kGiB) {
    out.health = Health::note;
    out.hint = "a run that trains a BERT of base size keeps 2.5 GiB: its model and two checkpoints";
  }
  return out;
}

// What a program prints on standard output, if it ends with status 0 within `seconds`.
std::optional<std::string> output_of(const std::vector<std::string>& words, int seconds) {
  std::optional<ChildEnd> end = run_child(words, {.keep_output = true, .alone = true, .seconds = seconds});
  if (!end || end->status != 0) return std::nullopt;
  return std::move(end->output);
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

// Only those who develop Exeunt need node: it runs the references for tokenizers and ONNX graphs.
Finding node() {
  Finding out{.name = "node and npm"};
  std::vector<std::string> parts, gone;
  for (const char* name : {"node", "npm"}) {
    auto text = output_of({name, "--version"}, 20);
    if (text) text->erase(std::min(text->find('\n'), text->size()));
    out.details[name] = field_json(text);
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

// Of the self-check's model: small, but with more than one panel, block of rows and head.
constexpr int kCheckedTokens = 37;
constexpr ModelSpec kSmall{
    .layers = 2, .hidden = 96, .heads = 3, .inner = 200, .vocab = 500, .positions = 64, .embedding = 96};

// Shares of the largest logit that rounding may cost; a wrong kernel is off by about 1.
double tolerance(Precision precision) {
  return precision == Precision::fp32 ? 1e-4 : precision == Precision::bf16 ? 0.1 : 0.15;
}

// Of the reference in tests/reference, which a test compares them with.
constexpr float kWanted[] = {0.0561873801F, 0.0890745521F, 0.0183846448F, -0.0442734882F};

}  // namespace

SelfCheckCase self_check_case() {
  return {random_model(kSmall, BenchHeads::reader), random_texts(kSmall, std::array{kCheckedTokens}).front(), kWanted};
}

std::vector<SelfCheck> check_engine(const Kernels& kernels) {
  const auto [model, text, wanted] = self_check_case();
  float largest = 0;
  for (const float value : wanted) largest = std::max(largest, std::abs(value));
  std::vector<SelfCheck> out;
  for (const Precision precision : kPrecisions) {
    if (precision == Precision::bf16 && !kernels.bf16) continue;
    Engine engine(model, {.precision = precision, .threads = 1, .kernels = &kernels});
    const std::vector<float> got = engine.full_pass(text).logits;
    double worst = got.size() == wanted.size() ? 0 : INFINITY;
    for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
      const double off = std::abs(static_cast<double>(got[i]) - wanted[i]);
      worst = std::isfinite(off) ? std::max(worst, off) : INFINITY;
    }
    const double share = worst / largest;
    out.push_back({precision, share, share <= tolerance(precision)});
  }
  return out;
}

std::string_view name_of(Health health) noexcept {
  constexpr std::array<std::string_view, 4> names = {"ok", "note", "missing", "broken"};
  return names[static_cast<size_t>(health)];
}

std::vector<Finding> examine_machine(const fs::path& trainer_program, const fs::path& root) {
  return {processor(root),          kernels(), memory(root), huge_pages(root), disk(),
          trainer(trainer_program), cuda(),    node(),       model_cache()};
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
