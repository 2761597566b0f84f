// SPDX-License-Identifier: Apache-2.0
// One batch at a time through a model on a GPU: its memory, planned at the start and never grown; its stream; and its
// graphs, one for each size of batch and set of exits. An engine has several lanes, so that the host can prepare one
// batch and read another while a third runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exeunt/engine/cuda/batch_input.h"
#include "exeunt/engine/cuda/layer_pass.h"
#include "exeunt/engine/cuda/results.h"

namespace exeunt::cuda {

// What happens at one exit of a batch.
enum class SiteUse : char { none = 'n', look = 'l', leave = 'x' };  // looked at; and texts may leave

class Lane final : public Results {
 public:
  // Room for `rows` rows; a text has at most the model's.
  Lane(const DeviceModel& model, int rows);
  ~Lane() override;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] Room most() const noexcept { return rooms_.back(); }
  [[nodiscard]] size_t bytes() const noexcept { return memory_.size(); }

  // Filling a batch.
  void clear();
  [[nodiscard]] int texts() const noexcept { return texts_; }
  [[nodiscard]] int rows() const noexcept { return rows_; }
  // False: there is no room; an empty lane takes any text.
  [[nodiscard]] bool add(const Encoding& text, const Wish& wish);

  // Starts the batch on the device, and returns.
  void start();
  // The same without a graph, for those who look at rows, and `depth` layers deep: `after` is called when layer `layer`
  // (from 1; 0: the embeddings) is enqueued, with its rows on the device.
  using AfterLayer = std::function<void(int layer, const void* rows, const TextList& list)>;
  void run_by_layer(int depth, const AfterLayer& after);
  // Waits for the batch. Throws what failed.
  void wait();

  // Results, in the order of `add`.
  [[nodiscard]] int left(int text) const override;
  [[nodiscard]] const float* logits(int text, int site) const override;
  [[nodiscard]] float lte(int text, int site) const override;
  [[nodiscard]] const float* ramp(int text) const override;  // only where the last exit was looked at

  [[nodiscard]] Stream stream() const noexcept { return stream_.get(); }
  [[nodiscard]] const Room& room() const noexcept { return *room_; }  // of the batch that was started

 private:
  // Where the parts of a batch lie, for one size: in pinned memory and on the device alike.
  struct Layout {
    Layout() = default;
    Layout(const DeviceModel& model, const Room& room);
    InputLayout input = {};
    size_t state = 0, left = 0, logits = 0, lte = 0, ramp = 0, decided = 0;  // from `left` on they are copied back
    size_t result_bytes = 0;
  };
  struct Buffers {
    std::byte* rows[2] = {};
    std::byte *input = nullptr, *results = nullptr, *firsts = nullptr;
    Live* first_live = nullptr;  // how many rows `firsts` has
    TextList spare = {};         // the second of the two lists that take turns
    float *pooled = nullptr, *vectors = nullptr, *hidden = nullptr;
    int *leaves = nullptr, *from = nullptr;
    unsigned* arrived = nullptr;
  };
  void plan_memory();
  void choose_room();
  [[nodiscard]] std::string uses() const;  // a SiteUse for every site, and 'r' if the ramp is asked
  // Where a batch stands while it is enqueued.
  struct Passage {
    const Room& room;
    const std::string& uses;
    bool followed = false;  // the host follows it
    bool beside = false;    // its exits are decided while the next layer runs, as if all stayed
    const AfterLayer& after;
    int layers = 0, layer = 0;
    size_t next = 0;  // site
    std::byte *rows = nullptr, *spare = nullptr;
    TextList list = {}, other = {};
    bool quantized = false;  // the rows are there in int8, too
    int undecided = -1;      // the site that is decided beside the next layer
    [[nodiscard]] bool over() const noexcept { return layer == layers; }
  };
  [[nodiscard]] Passage begin_passage(const Room& room, const std::string& uses, int depth, const AfterLayer& after);
  void enqueue_start(const Passage& passage);
  void enqueue_part(Passage& passage);  // up to the next exit where texts leave
  void enqueue_results(const Room& room);
  // A text alone that may leave early is one graph for each part. Two of them are in the stream at any time, and the
  // host adds the next when it sees that one was passed; so little is launched for nothing, and nobody waits for a
  // copy.
  void follow();
  void enqueue_layer(Passage& at, bool norm);  // false: without the last norm
  // The same for row 0 of each text alone, from attention on, into `spare`; `other` becomes the list of them.
  void enqueue_first_rows(const Passage& at);
  // An exit, with the ramp of the last layer. `before_norm`: the last norm of its layer is not made yet.
  void enqueue_exits(const Passage& at, int site, bool before_norm, Stream stream);
  void enqueue_exit(const ExitSite& site, int index, bool ramp, const Passage& at, bool before_norm, Stream stream);

  const DeviceModel& model_;
  std::vector<Room> rooms_ = {};
  int state_floats_;
  LayerPass layers_;
  DeviceMemory memory_ = {};
  PinnedMemory host_input_ = {}, host_results_ = {};
  Buffers at_ = {};
  OwnStream stream_ = {}, side_ = {};
  using Parts = std::vector<std::unique_ptr<Graph>>;
  std::map<std::pair<const Room*, std::string>, Parts> graphs_ = {};
  const Parts* started_ = nullptr;  // of the batch
  size_t launched_ = 0;             // of its parts
  bool followed_ = false;           // the host follows it

  // The batch.
  int texts_ = 0, rows_ = 0;
  std::vector<const Encoding*> encodings_ = {};
  std::vector<SlotAsk> asks_ = {};
  std::vector<const Policy*> policies_ = {};
  const Room* room_ = nullptr;
  Layout layout_ = {};  // for that room
};

}  // namespace exeunt::cuda
