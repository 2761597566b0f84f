// SPDX-License-Identifier: Apache-2.0
// Texts that join a batch between layers, and their places at exits of different depths; see continuous_batch.h.
#include <algorithm>

#include "exeunt/engine/cuda/numbers.cuh"

namespace exeunt::cuda {
namespace {

constexpr int kThreads = 512;

// One block.
__global__ void __launch_bounds__(kThreads) join_texts(JoinJob job) {
  const Live before = *job.list.live, fresh = *job.fresh.live;
  __syncthreads();  // all have read how many there were
  const int thread = static_cast<int>(threadIdx.x);
  for (int text = thread; text < fresh.texts; text += kThreads) {
    const int slot = job.fresh.slot[text];
    job.list.slot[before.texts + text] = slot;
    job.list.begin[before.texts + text] = before.rows + job.fresh.begin[text];
    job.asks[slot] = job.fresh_asks[text];
    job.depth[slot] = 0;
    job.exit_site[slot] = -1;
  }
  for (int tile = thread; tile < fresh.tiles; tile += kThreads) {
    const Tile from = job.fresh.tiles[tile];
    job.list.tiles[before.tiles + tile] = {before.texts + from.text, from.first};
  }
  for (int i = thread; i < fresh.texts * job.state_floats; i += kThreads) {
    const int slot = job.fresh.slot[i / job.state_floats];
    job.state[static_cast<size_t>(slot) * static_cast<size_t>(job.state_floats) + i % job.state_floats] =
        job.fresh_states == nullptr ? 0.0F : job.fresh_states[i];
  }
  if (thread != 0) return;
  *job.first_row = before.rows;
  *job.list.live = {before.texts + fresh.texts, before.rows + fresh.rows, before.tiles + fresh.tiles};
  job.list.begin[before.texts + fresh.texts] = before.rows + fresh.rows;
}

__global__ void __launch_bounds__(256) append_rows(AppendJob job) {
  const size_t units = job.row_bytes / sizeof(uint4);
  const size_t all = static_cast<size_t>(job.live->rows) * units;
  const auto* from = static_cast<const uint4*>(job.from);
  uint4* to = static_cast<uint4*>(job.rows) + static_cast<size_t>(*job.first_row) * units;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < all;
       i += static_cast<size_t>(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

// One block. Which of a site's places a text gets does not matter: rows of a product know nothing of each other.
__global__ void __launch_bounds__(kThreads) group_texts(GroupJob job) {
  __shared__ int taken[kMaxGroupedSites];
  const int thread = static_cast<int>(threadIdx.x), texts = job.list.live->texts;
  for (int site = thread; site < job.sites; site += kThreads) taken[site] = 0;
  __syncthreads();
  for (int text = thread; text < texts; text += kThreads) {
    const int slot = job.list.slot[text], depth = job.depth[slot] + 1, site = job.site_after[depth];
    job.depth[slot] = depth;
    const SlotAsk ask = job.asks[slot];
    const bool looks = site >= 0 && (site == ask.stop || ask.all_exits != 0 ||
                                     (ask.policy >= 0 && job.policies[ask.policy].nth[site] >= 0));
    job.site[text] = site;
    job.place[text] = looks ? site * job.stride + atomicAdd(&taken[site], 1) : -1;
  }
  __syncthreads();
  for (int site = thread; site < job.sites; site += kThreads) job.live[site] = {taken[site], taken[site], 0};
}

}  // namespace

void join(const JoinJob& job, Stream stream) {
  join_texts<<<1, kThreads, 0, stream>>>(job);
  check_launch("starting to let texts join");
}

void append(const AppendJob& job, Stream stream) {
  const size_t units = static_cast<size_t>(job.max_rows) * job.row_bytes / sizeof(uint4);
  append_rows<<<std::min(kMostBlocks, blocks_of(units, 256)), 256, 0, stream>>>(job);
  check_launch("starting to append rows");
}

void group_by_site(const GroupJob& job, Stream stream) {
  group_texts<<<1, kThreads, 0, stream>>>(job);
  check_launch("starting to place texts at their exits");
}

}  // namespace exeunt::cuda
