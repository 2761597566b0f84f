// SPDX-License-Identifier: Apache-2.0
// The layer loop allocates nothing: a text that runs one layer and one that runs them all ask for memory equally often.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "exeunt/engine/engine.h"
#include "exeunt/policy/policy_text.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/engine/random_model.h"
#include "tests/unit/engine/tables.h"

namespace {
std::atomic<int64_t> allocations{0};

void* counted(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
}  // namespace

// Not inlined, or the compiler sees malloc on one side and delete on the other, and warns.
[[gnu::noinline]] void* operator new(size_t size) {
  return counted(size);
}
[[gnu::noinline]] void* operator new[](size_t size) {
  return counted(size);
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete[](void* data) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete[](void* data, size_t) noexcept {
  std::free(data);
}

namespace exeunt {
namespace {

// The least of several runs: now and then a queue needs another block, or a thread looks for texts anew.
int64_t allocations_of(Engine& engine, const std::vector<Encoding>& texts, const Ask& ask) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 20; ++i) {
    const int64_t before = allocations;
    (void)engine.answer(texts, ask);
    least = std::min(least, allocations - before);
  }
  return least;
}

TEST(EngineAllocations, AreIndependentOfLayers) {
  ModelSpec spec = small_spec();
  spec.layers = 20;
  const Checkpoint checkpoint = make_model(spec, own_exits(spec));
  for (const Way& way : ways_here()) {
    for (const ClsFirst cls_first : {ClsFirst::never, ClsFirst::always}) {
      Engine engine(checkpoint,
                    {.precision = way.precision, .threads = 2, .cls_first = cls_first, .kernels = way.kernels});
      const std::vector<Encoding> texts = {random_text(spec, 17)};
      const int64_t one = allocations_of(engine, texts, {.policy = engine.bind(parse_policy("layer:1"))});
      EXPECT_GT(one, 0);
      EXPECT_EQ(allocations_of(engine, texts, {.policy = engine.bind(parse_policy("layer:20"))}), one) << way.name();
      // Every exit is looked at, and none is taken before the last.
      const Ask patient{.policy = engine.bind(parse_policy("patience:19"))};
      const Ask cut{.policy = patient.policy, .max_layers = 1};
      EXPECT_EQ(allocations_of(engine, texts, patient), allocations_of(engine, texts, cut)) << way.name();
    }
  }
}

// Before the first layer, too: what is asked for is the answer.
TEST(EngineAllocations, AreNoneForExit0) {
  const ModelSpec spec = small_spec();
  Engine engine(make_model(spec, with_exit_0(spec, own_exits(spec, 9), 6, 2)), {.threads = 2});
  const std::vector<Encoding> texts = {random_text(spec, 17)};
  const int64_t at_0 = allocations_of(engine, texts, {.policy = engine.bind(parse_policy("layer:0"))});
  EXPECT_GT(at_0, 0);
  EXPECT_EQ(allocations_of(engine, texts, {.policy = engine.bind(parse_policy("layer:1"))}), at_0);
}

}  // namespace
}  // namespace exeunt
