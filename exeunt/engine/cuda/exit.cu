// SPDX-License-Identifier: Apache-2.0
// An exit of a batch in one kernel: poolers by slices of their outputs; then, by the block that finishes a group of
// texts last, classifiers and decisions; then, by the block that finishes the batch last, the list of the texts that
// stay.
//
// Decisions are made by policy/policy.h, the code that decides on the host and in replay. This source is compiled
// without contraction (-fmad=false), so that both get the same bits; sums of products say fmaf where they mean it.
#include <type_traits>

#include "exeunt/engine/cuda/numbers.cuh"

namespace exeunt::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kWarpOutputs = 4, kSlice = kWarps * kWarpOutputs;  // outputs of a pooler per warp and per block

// What the pooler reads of a text, or the classifier if there is no pooler.
template <class T>
struct Input {
  const T* row;
  const float* pooled;

  Input() = default;
  __device__ Input(const ExitJob& job, int text)
      : row(static_cast<const T*>(job.rows) +
            static_cast<size_t>(job.before.begin[text]) * static_cast<size_t>(job.row_columns)),
        pooled(job.pooled == nullptr ? nullptr
                                     : job.pooled + static_cast<size_t>(text) * static_cast<size_t>(job.inputs)) {}
  __device__ float at(int c) const { return pooled != nullptr ? pooled[c] : wide(row[c]); }
  __device__ Eight eight(int c) const { return pooled != nullptr ? load_eight(pooled + c) : load_eight(row + c); }
};

// tanh(pooler x) for the texts from `first` on and this block's slice of outputs. kEights: inputs are a multiple of 8.
template <class T, bool kEights>
__device__ void pool_slice(const ExitJob& job, int first, int texts) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int first_output = static_cast<int>(blockIdx.y) * kSlice + warp * kWarpOutputs;
  if (first_output >= job.width) return;
  const T* weights[kWarpOutputs];
#pragma unroll
  for (int o = 0; o < kWarpOutputs; ++o) {
    const int output = min(first_output + o, job.width - 1);
    weights[o] = static_cast<const T*>(job.pooler) + static_cast<size_t>(output) * static_cast<size_t>(job.inputs);
  }
  // Those beyond the last text read the last one's: loads need no branches then, and go out together.
  Input<T> inputs[kExitTexts];
#pragma unroll
  for (int t = 0; t < kExitTexts; ++t) inputs[t] = Input<T>(job, first + min(t, texts - 1));
  float sum[kWarpOutputs][kExitTexts] = {};
  constexpr int kStep = kEights ? 8 : 1;
  // Sums for kTexts texts, so that a single one does not pay for eight.
  const auto add_up = [&]<int kTexts>(std::integral_constant<int, kTexts>) {
    // One text leaves registers for the loads of the next turns, and has nothing else to hide their latency.
    constexpr int kTurns = kTexts == 1 ? 3 : 1;
#pragma unroll kTurns
    for (int c = lane * kStep; c < job.inputs; c += 32 * kStep) {
      Eight w[kWarpOutputs], x[kTexts];
#pragma unroll
      for (int o = 0; o < kWarpOutputs; ++o) {
        if constexpr (kEights) {
          w[o] = load_eight(weights[o] + c);
        } else {
          w[o].v[0] = wide(weights[o][c]);
        }
      }
#pragma unroll
      for (int t = 0; t < kTexts; ++t) {
        if constexpr (kEights) {
          x[t] = inputs[t].eight(c);
        } else {
          x[t].v[0] = inputs[t].at(c);
        }
      }
#pragma unroll
      for (int o = 0; o < kWarpOutputs; ++o) {
#pragma unroll
        for (int t = 0; t < kTexts; ++t) {
#pragma unroll
          for (int i = 0; i < kStep; ++i) sum[o][t] = fmaf(w[o].v[i], x[t].v[i], sum[o][t]);
        }
      }
    }
  };
  if (texts == 1) {
    add_up(std::integral_constant<int, 1>{});
  } else {
    add_up(std::integral_constant<int, kExitTexts>{});
  }
  // One of the 32 sums for each lane.
  float mine = 0;
#pragma unroll
  for (int o = 0; o < kWarpOutputs; ++o) {
#pragma unroll
    for (int t = 0; t < kExitTexts; ++t) {
      if (t >= texts) continue;
      const float total = warp_sum(sum[o][t]);
      if (lane == o * kExitTexts + t) mine = total;
    }
  }
  const int output = first_output + lane / kExitTexts, text = lane % kExitTexts;
  if (output >= job.width || text >= texts) return;
  job.vectors[static_cast<size_t>(first + text) * static_cast<size_t>(job.width) + output] =
      tanhf(mine + job.pooler_bias[output]);
}

// Up to four outputs of y = W x + b by a warp, from `first` on; the same in every lane. As many loads as there can be
// are under way at once: this is one of the few places where nothing else hides their latency.
struct Four {
  float v[4];
};
template <class Read>
__device__ Four affine(const Affine& layer, int first, Read read) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kAhead = 8;
  const float* weight[4];
#pragma unroll
  for (int o = 0; o < 4; ++o)
    weight[o] =
        layer.weight + static_cast<size_t>(min(first + o, layer.outputs - 1)) * static_cast<size_t>(layer.inputs);
  Four sum = {};
  for (int c = lane; c < layer.inputs; c += 32 * kAhead) {
    float w[4][kAhead], x[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool inside = c + 32 * i < layer.inputs;
      x[i] = inside ? read(c + 32 * i) : 0.0F;
#pragma unroll
      for (int o = 0; o < 4; ++o) w[o][i] = inside && first + o < layer.outputs ? weight[o][c + 32 * i] : 0.0F;
    }
#pragma unroll
    for (int o = 0; o < 4; ++o) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sum.v[o] = fmaf(w[o][i], x[i], sum.v[o]);
    }
  }
#pragma unroll
  for (int o = 0; o < 4; ++o) sum.v[o] = warp_sum(sum.v[o]) + layer.bias[min(first + o, layer.outputs - 1)];
  return sum;
}
// All outputs, handed to `put` by lane 0.
template <class Read, class Put>
__device__ void affine_all(const Affine& layer, Read read, Put put) {
  for (int first = 0; first < layer.outputs; first += 4) {
    const Four some = affine(layer, first, read);
    if (threadIdx.x % 32 != 0) continue;
#pragma unroll
    for (int o = 0; o < 4; ++o)
      if (first + o < layer.outputs) put(first + o, some.v[o]);
  }
}

__device__ float sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return x >= 0 ? 1.0F / (1.0F + e) : e / (1.0F + e);
}

// Whether a text leaves at this exit, given its logits.
__device__ bool leaves_here(const ExitJob& job, int slot, const float* logits, float lte) {
  const SlotAsk ask = job.asks[slot];
  if (job.site == ask.stop) return true;
  if (ask.policy < 0) return false;
  const Policy& policy = job.policies[ask.policy];
  const int nth = policy.nth[job.site];
  if (nth < 0) return false;
  float* state = job.state + static_cast<size_t>(slot) * static_cast<size_t>(job.state_floats);
  const Evidence evidence = compute_evidence(policy, nth, {logits, lte}, state);
  // Its last exit is where it stops, so that the ramp of the last layer is not asked here.
  return step(policy, nth, evidence, nullptr, state) == Step::leave;
}

// Classifier and decision of one text, by a warp.
template <class T>
__device__ void classify(const ExitJob& job, int text) {
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = job.before.slot[text];
  const Input<T> input(job, text);
  const float* vector = job.vectors + static_cast<size_t>(text) * static_cast<size_t>(job.width);
  const bool pooled = job.pooler != nullptr;
  // Other blocks wrote the vectors: past the first-level cache.
  const auto read = [&](int c) { return pooled ? __ldcg(vector + c) : input.at(c); };
  const size_t place = static_cast<size_t>(slot) * static_cast<size_t>(job.sites) + static_cast<size_t>(job.site);
  float* logits = job.ramp ? job.ramp_logits + static_cast<size_t>(slot) * static_cast<size_t>(job.outputs)
                           : job.logits + place * static_cast<size_t>(job.outputs);
  float* hidden = job.hidden + static_cast<size_t>(text) * static_cast<size_t>(job.classifier.outputs);
  const bool inner = job.inner.weight != nullptr;
  if (inner) {
    affine_all(job.classifier, read, [&](int o, float value) { hidden[o] = tanhf(value); });
    __syncwarp();
    affine_all(
        job.inner, [&](int c) { return hidden[c]; }, [&](int o, float value) { logits[o] = value; });
  } else {
    affine_all(job.classifier, read, [&](int o, float value) { logits[o] = value; });
  }
  const bool mirrored = job.mirror.decided != nullptr && lane == 0;
  if (job.ramp) {
    for (int o = 0; mirrored && o < job.outputs; ++o) job.mirror.ramp_logits[o] = logits[o];
    return;
  }
  const float lte = job.lte.weight == nullptr ? 0.0F : sigmoid(affine(job.lte, 0, read).v[0]);
  if (lane != 0) return;
  job.lte_scores[place] = lte;
  const bool leaves = leaves_here(job, slot, logits, lte);
  job.leaves[text] = leaves ? 1 : 0;
  if (leaves) job.exit_site[slot] = job.site;
  if (!mirrored) return;
  for (int o = 0; o < job.outputs; ++o) job.mirror.logits[job.site * job.outputs + o] = logits[o];
  job.mirror.lte_scores[job.site] = lte;
  __threadfence_system();  // what follows tells the host that it is there
  if (leaves) *job.mirror.exit_site = job.site;
  *job.mirror.decided = job.site + 1;
}

// The list of those that stay, in their order: every thread counts a run of texts, then knows where its own begin.
__device__ void list_remaining(const ExitJob& job, int texts) {
  if (texts == 1) {
    if (threadIdx.x != 0) return;
    const bool stays = __ldcg(job.leaves) == 0;
    const int rows = stays ? job.before.begin[1] : 0, tiles = stays ? job.before.live->tiles : 0;
    *job.after.live = {stays ? 1 : 0, rows, tiles};
    job.from[0] = 0;
    job.after.slot[0] = job.before.slot[0];
    job.after.begin[0] = 0;
    job.after.begin[1] = rows;
    for (int tile = 0; tile < tiles; ++tile) job.after.tiles[tile] = {0, tile * kTileRows};
    return;
  }
  struct Counts {
    int texts, rows, tiles;
  };
  __shared__ Counts counts[kThreads];
  const int thread = static_cast<int>(threadIdx.x), run = (texts + kThreads - 1) / kThreads;
  const int begin = min(thread * run, texts), end = min(begin + run, texts);
  const auto tokens_of = [&](int text) { return job.before.begin[text + 1] - job.before.begin[text]; };
  const auto tiles_of = [](int tokens) { return (tokens + kTileRows - 1) / kTileRows; };
  Counts own{};
  for (int text = begin; text < end; ++text) {
    if (__ldcg(job.leaves + text) != 0) continue;
    ++own.texts;
    own.rows += tokens_of(text);
    own.tiles += tiles_of(tokens_of(text));
  }
  counts[thread] = own;
  __syncthreads();
  for (int step = 1; step < kThreads; step *= 2) {
    Counts other{};
    if (thread >= step) other = counts[thread - step];
    __syncthreads();
    counts[thread].texts += other.texts;
    counts[thread].rows += other.rows;
    counts[thread].tiles += other.tiles;
    __syncthreads();
  }
  Counts at = counts[thread];
  at.texts -= own.texts;
  at.rows -= own.rows;
  at.tiles -= own.tiles;
  for (int text = begin; text < end; ++text) {
    if (__ldcg(job.leaves + text) != 0) continue;
    const int tokens = tokens_of(text);
    job.from[at.texts] = text;
    job.after.slot[at.texts] = job.before.slot[text];
    job.after.begin[at.texts] = at.rows;
    for (int first = 0; first < tokens; first += kTileRows) job.after.tiles[at.tiles++] = {at.texts, first};
    at.rows += tokens;
    ++at.texts;
  }
  if (thread == kThreads - 1) {
    *job.after.live = {counts[thread].texts, counts[thread].rows, counts[thread].tiles};
    job.after.begin[counts[thread].texts] = counts[thread].rows;
  }
}

// Whether this block is the last of `blocks` to come here; what the others wrote is then visible.
__device__ bool last_to_arrive(unsigned* arrived, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1U) == blocks - 1;
    if (last) *arrived = 0;  // for the next exit
  }
  __syncthreads();
  const bool out = last;
  if (out) __threadfence();
  __syncthreads();  // `last` may be written again
  return out;
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2) exit_texts(ExitJob job) {
  const int texts = job.before.live->texts, first = static_cast<int>(blockIdx.x) * kExitTexts;
  if (texts == 0 && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && !job.ramp) *job.after.live = Live{};
  if (first >= texts) return;
  const int here = min(kExitTexts, texts - first);
  if (job.pooler != nullptr) {
    if (job.inputs % 8 == 0) {
      pool_slice<T, true>(job, first, here);
    } else {
      pool_slice<T, false>(job, first, here);
    }
    if (!last_to_arrive(job.arrived + 1 + blockIdx.x, gridDim.y)) return;
  }
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < here) classify<T>(job, first + warp);
  if (job.ramp) return;
  if (!last_to_arrive(job.arrived, static_cast<unsigned>((texts + kExitTexts - 1) / kExitTexts))) return;
  list_remaining(job, texts);
}

// The same where every text is at an exit of its own, or looks at none, and its vector is made.
template <class T>
__global__ void __launch_bounds__(kThreads, 2) exit_grouped(GroupedExitJob job) {
  const int texts = job.exit.before.live->texts, first = static_cast<int>(blockIdx.x) * kExitTexts;
  if (texts == 0 && blockIdx.x == 0 && threadIdx.x == 0) *job.exit.after.live = Live{};
  if (first >= texts) return;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, text = first + warp;
  if (warp < kExitTexts && text < texts) {
    const int place = job.place[text];
    if (place >= 0) {
      ExitJob own = job.exit;
      own.site = job.site[text];
      own.classifier = job.exits[own.site].outer;
      own.inner = job.exits[own.site].inner;
      own.pooled += (static_cast<ptrdiff_t>(place) - text) * own.inputs;  // so that this text's are at `place`
      classify<T>(own, text);
    } else if (lane == 0) {
      job.exit.leaves[text] = 0;
    }
  }
  if (!last_to_arrive(job.exit.arrived, static_cast<unsigned>((texts + kExitTexts - 1) / kExitTexts))) return;
  list_remaining(job.exit, texts);
}

static_assert(kWarpOutputs * kExitTexts == 32 && kExitTexts <= kWarps);

}  // namespace

void run_exit(const ExitJob& job, Stream stream) {
  const dim3 blocks(blocks_of(static_cast<size_t>(job.max_texts), kExitTexts),
                    job.pooler == nullptr ? 1U : blocks_of(static_cast<size_t>(job.width), kSlice));
  with_type(job.number, [&]<class T>(T*) { exit_texts<T><<<blocks, kThreads, 0, stream>>>(job); });
  check_launch("starting an exit");
}

void run_grouped_exit(const GroupedExitJob& job, Stream stream) {
  const unsigned blocks = blocks_of(static_cast<size_t>(job.exit.max_texts), kExitTexts);
  with_type(job.exit.number, [&]<class T>(T*) { exit_grouped<T><<<blocks, kThreads, 0, stream>>>(job); });
  check_launch("starting exits");
}

}  // namespace exeunt::cuda
