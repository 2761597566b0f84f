// SPDX-License-Identifier: Apache-2.0
// Hopper's instructions that CUDA C++ has no names for: matrix products by a warpgroup of four warps (wgmma), the
// tensor copy engine, and the barriers in shared memory that both wait for. See the PTX manual, "Asynchronous Warpgroup
// Level Matrix Instructions" and "cp.async.bulk.tensor".
#pragma once

#include <cstdint>

#include <cuda.h>

namespace exeunt::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A tile in shared memory: rows of 64 bf16 (128 bytes), eight rows per swizzled kilobyte, as the copy engine writes
// them.
__device__ inline uint64_t tile_descriptor(const void* tile) {
  constexpr uint64_t kSwizzle128 = 1ULL << 62, kEightRows = (1024ULL >> 4) << 32, kUnused = 1ULL << 16;
  return kSwizzle128 | kEightRows | kUnused | ((shared_address(tile) & 0x3ffffU) >> 4);
}

__device__ inline void barrier_init(uint64_t* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count));
}
__device__ inline void barrier_expect(uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Waits until the phase of this parity is over.
__device__ inline void barrier_wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni DONE;\nbra.uni AGAIN;\nDONE:\n}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Copies the box at column `x` and row `y` to shared memory; `barrier` then gets its bytes.
__device__ inline void copy_box(void* to, const CUtensorMap* map, int x, int y, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          shared_address(to)),
      "l"(reinterpret_cast<uint64_t>(map)), "r"(shared_address(barrier)), "r"(x), "r"(y)
      : "memory");
}
// Blocks of a cluster: a barrier of all their threads, and what lies in another one's shared memory at the address of
// `here`.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}
__device__ inline uint32_t address_in(unsigned block, const void* here) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(here)), "r"(block));
  return address;
}
__device__ inline float load_from(unsigned block, const float* here) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address_in(block, here)) : "memory");
  return value;
}
__device__ inline int load_from(unsigned block, const int* here) {
  int value;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(address_in(block, here)) : "memory");
  return value;
}
// How many registers each thread of this warpgroup has from here on: fewer, or more that others gave.
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending of the committed groups are still running.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// d = (add ? d : 0) + a bᵀ for 64 rows of a, kColumns rows of b and 32 bytes of inputs: 16 of bf16, summed in float, or
// 32 of int8, summed in int.
template <int kColumns>
__device__ void wgmma(float (&d)[kColumns / 2], uint64_t a, uint64_t b, int add);
template <int kColumns>
__device__ void wgmma(int (&d)[kColumns / 2], uint64_t a, uint64_t b, int add);

// Macros, since the text and the operands of an instruction cannot be computed. EXEUNT_NAMES_n: the n registers of d in
// the text; EXEUNT_SUMS_n: d[i] … d[i + n - 1] as operands of constraint C.
#define EXEUNT_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define EXEUNT_NAMES_32 \
  EXEUNT_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define EXEUNT_NAMES_64                                                              \
  EXEUNT_NAMES_32                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define EXEUNT_NAMES_128                                                                         \
  EXEUNT_NAMES_64                                                                                \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"             \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define EXEUNT_SUMS_4(C, i) C(d[i]), C(d[(i) + 1]), C(d[(i) + 2]), C(d[(i) + 3])
#define EXEUNT_SUMS_8(C, i) EXEUNT_SUMS_4(C, i), EXEUNT_SUMS_4(C, (i) + 4)
#define EXEUNT_SUMS_16(C, i) EXEUNT_SUMS_8(C, i), EXEUNT_SUMS_8(C, (i) + 8)
#define EXEUNT_SUMS_32(C, i) EXEUNT_SUMS_16(C, i), EXEUNT_SUMS_16(C, (i) + 16)
#define EXEUNT_SUMS_64(C, i) EXEUNT_SUMS_32(C, i), EXEUNT_SUMS_32(C, (i) + 32)
#define EXEUNT_SUMS_128(C, i) EXEUNT_SUMS_64(C, i), EXEUNT_SUMS_64(C, (i) + 64)
// N columns in n registers of type T; A, B and ADD number the operands behind them.
#define EXEUNT_WGMMA(T, C, N, n, A, B, ADD, KIND, END)                                                       \
  template <>                                                                                                \
  __device__ inline void wgmma<N>(T(&d)[n], uint64_t a, uint64_t b, int add) {                               \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N KIND \
                 " {" EXEUNT_NAMES_##n "}, %" #A ", %" #B ", p" END ";\n}\n"                                 \
                 : EXEUNT_SUMS_##n(C, 0)                                                                     \
                 : "l"(a), "l"(b), "r"(add));                                                                \
  }
#define EXEUNT_WGMMA_OF(T, C, KIND, END)             \
  EXEUNT_WGMMA(T, C, 32, 16, 16, 17, 18, KIND, END)  \
  EXEUNT_WGMMA(T, C, 64, 32, 32, 33, 34, KIND, END)  \
  EXEUNT_WGMMA(T, C, 128, 64, 64, 65, 66, KIND, END) \
  EXEUNT_WGMMA(T, C, 256, 128, 128, 129, 130, KIND, END)
EXEUNT_WGMMA_OF(float, "+f", "k16.f32.bf16.bf16", ", 1, 1, 0, 0")
EXEUNT_WGMMA_OF(int, "+r", "k32.s32.s8.s8", "")

}  // namespace exeunt::cuda
