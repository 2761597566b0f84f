// SPDX-License-Identifier: Apache-2.0
// One batch at a time through a model on a GPU: its memory, planned at the start and never grown; its stream; and its
// graphs, one for each size of batch and set of exits of late. An engine has several runners, so that the host can
// prepare one batch and read another while a third runs.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exeunt/base/lru_map.h"
#include "exeunt/engine/cuda/layer_pass.h"

namespace exeunt::cuda {

// What happens at one exit of a batch.
enum class SiteUse : char { none = 'n', evaluate = 'l', leave = 'x' };  // evaluated; and texts may leave

class BatchRunner {
 public:
  // For batches of up to `rows` rows; a text has at most the model's.
  BatchRunner(const DeviceModel& model, int rows);
  ~BatchRunner();
  BatchRunner(const BatchRunner&) = delete;
  BatchRunner& operator=(const BatchRunner&) = delete;

  [[nodiscard]] Capacity max_capacity() const noexcept { return capacities_.back(); }

  // Filling a batch.
  void clear();
  [[nodiscard]] int texts() const noexcept { return static_cast<int>(input_.slots.size()); }
  [[nodiscard]] int rows() const noexcept { return rows_; }
  // False: the batch is full; an empty runner takes any text.
  [[nodiscard]] bool add(const Encoding& text, const SlotOptions& options);

  // Starts the batch on the device, and returns.
  void start();
  // The same without a graph, for callers that read rows, and `depth` layers deep: `after` is called when layer `layer`
  // (from 1; 0: the embeddings) is enqueued, with its rows on the device.
  using AfterLayer = std::function<void(int layer, const void* rows, const TextList& list)>;
  void run_by_layer(int depth, const AfterLayer& after);
  // Waits for the batch. Throws what failed.
  void wait();

  // In the order of `add`; the ramp's only where the last exit was evaluated.
  [[nodiscard]] const BatchResults& results() const noexcept { return results_; }
  [[nodiscard]] Stream stream() const noexcept { return stream_.get(); }

 private:
  struct Buffers {
    std::byte* rows[2] = {};
    std::byte *input = nullptr, *results = nullptr, *first_rows = nullptr;
    Live* first_live = nullptr;  // how many rows `first_rows` has
    TextList spare = {};         // the second of the two lists that take turns
    float* pooled = nullptr;
    ExitMemory exits = {};
  };
  void place(MemoryParts& parts);
  void choose_capacity();
  [[nodiscard]] std::string uses() const;  // a SiteUse for every site, and 'r' if the ramp is asked
  // How far a batch has been enqueued.
  struct BatchCursor {
    const Capacity& capacity;
    const std::string& uses;
    bool host_polls = false;     // the host polls its exits and launches the next part
    bool overlap_exits = false;  // exits are decided while the next layer runs as if no text left
    const AfterLayer& after;
    int layers = 0, layer = 0;
    size_t next = 0;  // site
    std::byte *rows = nullptr, *spare = nullptr;
    BatchInput input = {};  // on the device
    TextList list = {}, other = {};
    bool quantized = false;  // the rows are there in int8, too
    int undecided = -1;      // the site that is decided during the next layer
    [[nodiscard]] bool over() const noexcept { return layer == layers; }
  };
  [[nodiscard]] BatchCursor begin_cursor(const Capacity& capacity, const std::string& uses, int depth,
                                         const AfterLayer& after);
  void enqueue_start(const BatchCursor& cursor);
  void enqueue_part(BatchCursor& cursor);  // up to the next exit where texts leave
  void enqueue_results(const Capacity& capacity);
  // A single text that may leave early is one graph per part. Two parts are in the stream at any time; the host
  // launches the next one when it sees that one has passed, so that little runs in vain and nothing waits for a copy.
  void poll_and_launch();
  void enqueue_layer(BatchCursor& at, bool norm);  // false: without the last norm
  // The same for row 0 of each text alone, from attention on, into `spare`; `other` becomes the list of them.
  void enqueue_first_rows(const BatchCursor& at);
  // An exit, with the ramp of the last layer. `before_norm`: the last norm of its layer is not made yet.
  void enqueue_exits(const BatchCursor& at, int site, bool before_norm, Stream stream);
  void enqueue_pooling(const ExitSite& site, const BatchCursor& at, bool before_norm, Stream stream);
  void enqueue_exit(const ExitSite& site, int index, bool ramp, const BatchCursor& at, bool before_norm, Stream stream);

  const DeviceModel& model_;
  std::vector<Capacity> capacities_ = {};
  LayerPass layers_;
  DeviceMemory memory_ = {};
  PinnedMemory host_input_ = {}, host_results_ = {};
  Buffers at_ = {};
  OwnStream stream_ = {}, side_ = {};
  using Parts = std::vector<std::unique_ptr<Graph>>;
  // Clients choose by their requests which exits a batch has, in ever new sets; those in use are far fewer.
  static constexpr size_t kMaxRecorded = 64;
  LruMap<std::pair<const Capacity*, std::string>, Parts> graphs_{kMaxRecorded};
  const Parts* started_ = nullptr;  // of the batch
  size_t launched_ = 0;             // of its parts
  bool host_polls_ = false;         // see BatchCursor

  // The batch.
  InputTexts input_ = {};
  int rows_ = 0;
  const Capacity* capacity_ = nullptr;
  BatchResults results_ = {};  // in pinned memory, for `capacity_`
};

}  // namespace exeunt::cuda
