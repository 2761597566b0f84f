// SPDX-License-Identifier: Apache-2.0
// Want of memory in the middle of a run, with an allocator that has none left once a checkpoint is there.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "exeunt/base/error.h"
#include "exeunt/train/torch.h"
#include "tests/unit/train/small_run.h"

namespace exeunt {
namespace {

class Tight : public c10::Allocator {
 public:
  explicit Tight(std::filesystem::path until) : real_(c10::GetCPUAllocator()), until_(std::move(until)) {
    c10::SetCPUAllocator(this, 100);
  }
  ~Tight() override { c10::SetCPUAllocator(real_, 100); }

  c10::DataPtr allocate(size_t bytes) const override {
    TORCH_CHECK(bytes < 1024 || !std::filesystem::exists(until_),
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes, " bytes");
    return real_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return real_->raw_deleter(); }

 private:
  c10::Allocator* real_;
  std::filesystem::path until_;
};

TEST(Memory, OutOfMemoryNamesSettingToLowerAndKeepsCheckpoint) {
  const Scratch scratch(quick_parent());
  const SmallRun run("pabee");
  TrainOptions options = run.options(scratch.path() / "out");
  options.max_steps = 3;
  options.save_every = 1;
  const auto error = [&] {
    const Tight allocator(options.out / "checkpoint-1");
    return error_of([&] { (void)train(run.base, run.data, options); });
  }();
  EXPECT_EQ(error.code(), Code::resources);
  EXPECT_STREQ(error.what(), "out of memory on cpu at step 2: 32 texts in a batch");
  EXPECT_THAT(error.hint(), testing::HasSubstr("lower --batch"));
  EXPECT_NO_THROW((void)Checkpoint::open((options.out / "checkpoint-1").string(), {.verify = true}));
}

}  // namespace
}  // namespace exeunt
