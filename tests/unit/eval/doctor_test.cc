// SPDX-License-Identifier: Apache-2.0
#include "exeunt/eval/doctor.h"

#include <cstdlib>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "exeunt/engine/cpu/cpu_features.h"
#include "exeunt/engine/cpu/cpu_kernels.h"
#include "exeunt/engine/cuda/cuda.h"
#include "tests/fixtures/scratch.h"
#include "tests/reference/reference.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

// A machine's files, and programs that the examination starts.
class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    for (const char* name : {"PATH", "HF_HUB_CACHE"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? "" : value);
    }
    fs::create_directories(place("bin"));
    ::setenv("PATH", place("bin").c_str(), 1);
    ::setenv("HF_HUB_CACHE", place("cache").c_str(), 1);
  }
  ~DoctorTest() override {
    for (const auto& [name, value] : before_) value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
  }

  [[nodiscard]] fs::path place(const std::string& name) const { return scratch_.path() / name; }

  void write(const std::string& name, std::string_view content) const {
    fs::create_directories(place(name).parent_path());
    scratch_.write(name, content);
  }
  [[nodiscard]] fs::path program(const std::string& name, const std::string& output) const {
    write(name, "#!/bin/sh\necho '" + output + "'\n");
    fs::permissions(place(name), fs::perms::owner_all);
    return place(name);
  }

  [[nodiscard]] Finding finding(const std::string& name, const fs::path& trainer = {}) const {
    for (Finding& one : examine_machine(trainer, place("root")))
      if (one.name == name) return std::move(one);
    ADD_FAILURE() << "nothing is said about " << name;
    return {};
  }

  const Scratch scratch_;

 private:
  std::vector<std::pair<const char*, std::string>> before_;
};

void expect_finding(const Finding& got, Health health, const std::string& text, const std::string& hint) {
  EXPECT_EQ(name_of(got.health), name_of(health)) << got.name;
  EXPECT_EQ(got.text, text) << got.name;
  EXPECT_EQ(got.hint, hint) << got.name;
}

TEST_F(DoctorTest, NamesAllFindingsInOrder) {
  std::vector<std::string> names;
  for (const Finding& one : examine_machine({}, place("root"))) names.push_back(one.name);
  EXPECT_THAT(names, testing::ElementsAre("processor", "kernels", "memory", "huge pages", "disk", "training", "GPU",
                                          "node and npm", "model cache"));
}

TEST_F(DoctorTest, CountsCoresAndProcessorsOfTheContainer) {
  const CpuFeatures cpu = cpu_features();
  const std::string usual = fmt::format("{}, {}, {} threads for this process", cpu.name, cpu.architecture, cpu.threads);
  Finding found = finding("processor");
  expect_finding(found, Health::good, usual, "");
  EXPECT_EQ(found.details.at("cores"), 0);
  EXPECT_TRUE(found.details.at("limit").is_null());
  EXPECT_EQ(found.details.at("threads"), cpu.threads);
  EXPECT_EQ(found.details.at("features").size(), flag_names(cpu).size());
  // Two cores of two threads each.
  for (const auto& [thread, core] : {std::pair(0, "0,2"), {1, "1,3"}, {2, "0,2"}, {3, "1,3"}})
    write(fmt::format("root/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", thread), core);
  for (const char* unlimited : {"max 100000\n", "100000 0\n", "100000\n", "100000000 1\n"}) {
    write("root/sys/fs/cgroup/cpu.max", unlimited);
    expect_finding(finding("processor"), Health::good, usual + " on 2 cores", "");
  }
  write("root/sys/fs/cgroup/cpu.max", "50000 100000\n");
  found = finding("processor");
  expect_finding(found, Health::note, usual + " on 2 cores, of which this container may keep 0.5 busy",
                 "give --threads 1 to verbs that run models");
  EXPECT_EQ(found.details.at("cores"), 2);
  EXPECT_EQ(found.details.at("limit"), 0.5);
}

TEST_F(DoctorTest, ReadsMemoryOfMachineAndContainer) {
  Finding found = finding("memory");
  expect_finding(found, Health::good, "0.0 GiB, 0.0 GiB free", "");
  write("root/proc/meminfo",
        "MemTotal:       33554432 kB\nMemFree:  1 kB\nMemAvailable:    4194304 kB\nCached: 7 kB\n");
  write("root/sys/fs/cgroup/memory.max", "max\n");
  found = finding("memory");
  expect_finding(found, Health::good, "32 GiB, 4.0 GiB free", "");
  EXPECT_EQ(found.details,
            (OrderedJson{{"total", uint64_t{32} << 30}, {"available", uint64_t{4} << 30}, {"limit", nullptr}}));
  write("root/sys/fs/cgroup/memory.max", "1073741824\n");
  expect_finding(finding("memory"), Health::good, "32 GiB, 1.0 GiB free, at most 1.0 GiB for this container", "");
  write("root/sys/fs/cgroup/memory.max", "1073741823\n");
  found = finding("memory");
  expect_finding(found, Health::note, "32 GiB, 1.0 GiB free, at most 1.0 GiB for this container",
                 "a BERT of base size takes about 0.5 GiB to run and 4 GiB to train");
  EXPECT_EQ(found.details.at("limit"), 1073741823);
}

TEST_F(DoctorTest, ReadsModeOfHugePages) {
  const std::string file = "root/sys/kernel/mm/transparent_hugepage/enabled";
  expect_finding(finding("huge pages"), Health::good, "unknown", "");
  write(file, "always [madvise] never\n");
  expect_finding(finding("huge pages"), Health::good, "madvise: weights use them", "");
  EXPECT_EQ(finding("huge pages").details, "madvise");
  write(file, "[always] madvise never\n");
  expect_finding(finding("huge pages"), Health::good, "always: weights use them", "");
  write(file, "always madvise [never]\n");
  expect_finding(finding("huge pages"), Health::note, "never",
                 "a few per cent faster with: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
}

TEST_F(DoctorTest, NamesFreeDiskSpaceOfTheWorkingFolder) {
  const Finding found = finding("disk");
  EXPECT_THAT(found.text, testing::EndsWith(" GiB free in " + fs::current_path().string()));
  EXPECT_EQ(found.details.at("folder"), fs::current_path().string());
  const auto free = found.details.at("free").get<uint64_t>();
  EXPECT_EQ(found.health, free < uint64_t{2} << 30 ? Health::note : Health::good);
  EXPECT_EQ(found.hint.empty(), found.health == Health::good);
}

TEST_F(DoctorTest, AsksTheTrainerWhatItWasBuiltWith) {
  expect_finding(finding("training"), Health::missing,
                 "exeunt-train is not installed beside the command: 'exeunt train' cannot run",
                 "install libtorch-dev and build again: cmake --preset release -DEXEUNT_TRAIN=ON");
  for (const char* wrong : {"LibTorch", R"({"gpus": 1})", "[]"}) {
    const fs::path broken = program("broken", wrong);
    expect_finding(finding("training", broken), Health::missing, broken.string() + " does not start",
                   fmt::format("run '{} about' to see why; often LibTorch's libraries are gone", broken.string()));
  }
  write("failing", "#!/bin/sh\necho '{\"torch\": \"2.9\"}'\nexit 1\n");
  fs::permissions(place("failing"), fs::perms::owner_all);
  EXPECT_EQ(finding("training", place("failing")).health, Health::missing);
  const Finding alone = finding("training", program("alone", R"({"torch": "1.13"})"));
  expect_finding(alone, Health::note, "LibTorch 1.13, CPU; one process alone (built without Gloo and NCCL)",
                 "training a BERT of base size on a CPU takes hours; small ones take minutes");
  EXPECT_EQ(alone.details, (OrderedJson{{"program", place("alone").string()}, {"torch", "1.13"}}));
  expect_finding(finding("training", program("gloo", R"({"torch": "2.9", "gpus": 1, "gloo": true})")), Health::good,
                 "LibTorch 2.9, 1 GPUs; several processes over Gloo", "");
  expect_finding(finding("training", program("all", R"({"torch": "2.9", "gpus": 2, "gloo": true, "nccl": true})")),
                 Health::good, "LibTorch 2.9, 2 GPUs; several processes over Gloo and NCCL", "");
}

TEST_F(DoctorTest, NamesProgramsForDevelopmentThatAreMissing) {
  expect_finding(finding("node and npm"), Health::note,
                 "no node, no npm: only 'make parity' and some comparisons need it", "scripts/setup node");
  (void)program("bin/node", "v20.1");
  const Finding half = finding("node and npm");
  expect_finding(half, Health::note, "no npm: only 'make parity' and some comparisons need it", "scripts/setup node");
  EXPECT_EQ(half.details, (OrderedJson{{"node", "v20.1"}, {"npm", nullptr}}));
  (void)program("bin/npm", "9.2\nmore");
  expect_finding(finding("node and npm"), Health::good, "node v20.1, npm 9.2", "");
}

TEST_F(DoctorTest, ListsTheFirstModelsOfTheCache) {
  expect_finding(finding("model cache"), Health::good,
                 fmt::format("no models in {}; folders work everywhere", place("cache").string()), "");
  for (const char* name : {"models--org--e-1", "models--d", "models--c", "models--b", "models--a--x", "datasets--z"})
    fs::create_directories(place("cache") / name);
  expect_finding(finding("model cache"), Health::good,
                 fmt::format("5 in {}: a/x, b, c, d, org/e-1", place("cache").string()), "");
  fs::create_directories(place("cache") / "models--z");
  const Finding six = finding("model cache");
  expect_finding(six, Health::good, fmt::format("6 in {}: a/x, b, c, d, org/e-1 …", place("cache").string()), "");
  EXPECT_EQ(six.details,
            (OrderedJson{{"folder", place("cache").string()}, {"models", {"a/x", "b", "c", "d", "org/e-1", "z"}}}));
}

TEST_F(DoctorTest, ChecksTheKernelsThatAreUsed) {
  const Finding found = finding("kernels");
  const Kernels& chosen = choose_kernels();
  EXPECT_EQ(found.health, chosen.bf16 ? Health::good : Health::note);
  std::vector<std::string> here;
  for (const Kernels* table : all_kernels())
    if (table->runs_on(cpu_features()) && table->prepare()) here.emplace_back(table->name);
  EXPECT_EQ(found.text, fmt::format("{} of {}; {}: a small model matches the reference{}", chosen.name,
                                    fmt::join(here, " "), chosen.bf16 ? "fp32, bf16, int8" : "fp32, int8",
                                    chosen.bf16 ? "" : "; no bf16 here, so fp32 is the default"));
  EXPECT_EQ(found.details.at("here"), here);
  EXPECT_EQ(here.size() + found.details.at("elsewhere").size(), all_kernels().size());
  EXPECT_EQ(found.details.at("chosen"), std::string(chosen.name));
  EXPECT_EQ(found.details.at("precisions").size(), chosen.bf16 ? 3U : 2U);
  const OrderedJson& fp32 = found.details.at("self_check").at("fp32");
  EXPECT_EQ(fp32.at("good"), true);
  EXPECT_GT(fp32.at("difference"), 0);
  EXPECT_LE(fp32.at("difference"), 1e-4);
}

TEST_F(DoctorTest, SaysWhetherGpusCanBeUsed) {
  const Finding found = finding("GPU");
  EXPECT_EQ(found.health, Health::good);
  EXPECT_EQ(found.details.at("built"), cuda_built());
  EXPECT_EQ(found.details.at("devices").size(), cuda_devices().devices.size());
  if (!cuda_built()) {
    EXPECT_EQ(found.text,
              fmt::format("none ({}: build with -DEXEUNT_CUDA=ON where nvcc is); models run on the processor",
                          cuda_devices().reason));
  }
}

TEST(Verdict, NamesWhatCannotBeDone) {
  const Finding good{.name = "disk"}, note{.name = "memory", .health = Health::note};
  const Finding training{.name = "training", .health = Health::missing}, gpu{.name = "GPU", .health = Health::missing};
  const Finding broken{.name = "kernels", .health = Health::broken};
  EXPECT_EQ(verdict({good, note}), "everything works: training, evaluation, inference, serving");
  EXPECT_EQ(verdict({good, training, gpu}), "everything works except training and GPU");
  EXPECT_EQ(verdict({training, broken}), "models cannot run here");
  EXPECT_TRUE(any_of({good, broken}, Health::broken));
  EXPECT_FALSE(any_of({good, note}, Health::broken));
  EXPECT_EQ(name_of(Health::good), "ok");
  EXPECT_EQ(name_of(Health::broken), "broken");
}

TEST(SelfCheck, PassesInEveryPrecisionOfEveryTableThatRunsHere) {
  for (const Kernels* kernels : all_kernels()) {
    if (!kernels->runs_on(cpu_features()) || !kernels->prepare()) continue;
    const std::vector<SelfCheck> rows = check_engine(*kernels);
    EXPECT_EQ(rows.size(), kernels->bf16 ? 3U : 2U) << kernels->name;
    for (const SelfCheck& row : rows) {
      EXPECT_TRUE(row.good) << kernels->name << ' ' << name_of(row.precision) << ' ' << row.difference;
      EXPECT_GT(row.difference, 0) << "a comparison of something with itself";
    }
  }
}

TEST(SelfCheck, ExpectsLogitsOfTheReference) {
  const SelfCheckCase given = self_check_case();
  EXPECT_THAT(Reference(given.model).trace(given.text).logits,
              testing::Pointwise(testing::FloatNear(1e-6F), given.logits));
}

TEST(SelfCheck, DetectsWrongKernels) {
  Kernels wrong = choose_kernels();
  wrong.tanh = [](float* values, int n) { std::fill(values, values + n, 0.25F); };
  for (const SelfCheck& row : check_engine(wrong)) EXPECT_FALSE(row.good) << name_of(row.precision);
}

}  // namespace
}  // namespace exeunt
