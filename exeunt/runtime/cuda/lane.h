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

#include "exeunt/runtime/cuda/device_model.h"
#include "exeunt/text/tokenizer.h"

namespace exeunt::cuda {

inline constexpr int kMostPolicies = 16;  // different ones in one batch

// What happens at one exit of a batch.
enum class SiteUse : char { none = 'n', look = 'l', leave = 'x' };  // looked at; and texts may leave

class Lane {
 public:
  // Room for `rows` rows; a text has at most the model's.
  Lane(const DeviceModel& model, int rows);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] Room most() const noexcept { return rooms_.back(); }
  [[nodiscard]] size_t bytes() const noexcept { return memory_.size(); }

  // Filling a batch.
  void clear();
  [[nodiscard]] int texts() const noexcept { return texts_; }
  [[nodiscard]] int rows() const noexcept { return rows_; }
  struct Wish {
    const Policy* policy = nullptr;  // stays alive until the batch has run; the same address is the same policy
    int stop = 0;                    // the site where the text leaves at the latest
    bool every = false;              // sees every exit
  };
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
  [[nodiscard]] int left(int text) const;  // the site
  [[nodiscard]] const float* logits(int text, int site) const;
  [[nodiscard]] float lte(int text, int site) const;
  [[nodiscard]] const float* ramp(int text) const;  // only where the last exit was looked at

  [[nodiscard]] Stream stream() const noexcept { return stream_.get(); }
  [[nodiscard]] const Room& room() const noexcept { return *room_; }  // of the batch that was started

 private:
  // Where the parts of a batch lie, for one size: in pinned memory and on the device alike.
  struct Layout {
    Layout() = default;
    Layout(const DeviceModel& model, const Room& room);
    size_t live, slot, begin, tiles, asks, policies, ids, types, positions, input_bytes;
    size_t state, left, logits, lte, ramp, decided, result_bytes;  // from `left` on they are copied back
  };
  struct Buffers {
    std::byte *rows[2] = {}, *middle = nullptr, *product = nullptr, *wide = nullptr;
    std::byte *input = nullptr, *results = nullptr;
    TextList spare = {};          // the second of the two lists that take turns
    int8_t* quantized = nullptr;  // the input of a product in int8, and its scales
    float* scales = nullptr;
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
    const AfterLayer& after;
    int layers = 0, layer = 0;
    size_t next = 0;  // site
    std::byte *rows = nullptr, *spare = nullptr;
    TextList list = {}, other = {};
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
  void enqueue_layer(const Passage& at);
  // The same for row 0 of each text alone, from attention on, into `spare`; `other` becomes the list of them.
  void enqueue_first_rows(const Passage& at);
  void enqueue_attention(const Passage& at, bool first_only);
  void enqueue_rest(int layer, const Live* live, int max_rows, const std::byte* context, const std::byte* residual,
                    std::byte* out);
  void enqueue_product(const Matrix& matrix, const std::byte* from, std::byte* to, Finish finish, const Live* live,
                       int max_rows);
  [[nodiscard]] std::byte* context() const;
  void enqueue_exit(const ExitSite& site, int index, bool ramp, const Room& room, const TextList& before,
                    const TextList& after, const std::byte* rows, bool followed);
  [[nodiscard]] TextList list_of(const Room& room) const;
  [[nodiscard]] bool reads_all_rows(const ExitSite& site) const;

  const DeviceModel& model_;
  std::vector<Room> rooms_ = {};
  int state_floats_;
  DeviceMemory memory_ = {};
  PinnedMemory host_input_ = {}, host_results_ = {};
  Buffers at_ = {};
  OwnStream stream_ = {};
  using Parts = std::vector<std::unique_ptr<Graph>>;
  std::map<std::pair<const Room*, std::string>, Parts> graphs_ = {};
  const Parts* started_ = nullptr;  // of the batch
  size_t launched_ = 0;             // of its parts

  // The batch.
  int texts_ = 0, rows_ = 0;
  std::vector<const Encoding*> encodings_ = {};
  std::vector<SlotAsk> asks_ = {};
  std::vector<const Policy*> policies_ = {};
  const Room* room_ = nullptr;
  Layout layout_ = {};  // for that room
};

}  // namespace exeunt::cuda
