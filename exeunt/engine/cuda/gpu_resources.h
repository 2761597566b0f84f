// SPDX-License-Identifier: Apache-2.0
// Memory, streams, events and graphs of a GPU, released by their destructors; every failure is an Error (resources).
// The sources that decide what runs include this and no header of CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace exeunt::cuda {

// Both throw Error, Code::resources. Separate from the .cu files, so that nvcc need not parse the formatting library.
[[noreturn]] void throw_cuda_failure(std::string_view what, std::string_view reason);
[[noreturn]] void throw_cuda_memory(std::string_view what, size_t bytes, std::string_view reason);

using Stream = CUstream_st*;

// What kernels need to know of a GPU.
struct Chip {
  int index = 0;
  int major = 0, minor = 0;
  int processors = 1;
  [[nodiscard]] bool hopper() const noexcept { return major == 9; }  // has wgmma and the tensor copy engine
};
[[nodiscard]] Chip chip_of(int index);
// Makes `index` the GPU of the calling thread.
void use_gpu(int index);
[[nodiscard]] size_t free_bytes();

// Owns one pointer to memory. `Free` is one of the functions below.
void free_device(void* data) noexcept;
void free_pinned(void* data) noexcept;
template <void (*Free)(void*) noexcept>
class Memory {
 public:
  Memory() = default;
  Memory(void* data, size_t bytes) : data_(data), bytes_(bytes) {}

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_.get()); }
  [[nodiscard]] size_t size() const noexcept { return bytes_; }

 private:
  struct Release {
    void operator()(void* data) const noexcept { Free(data); }
  };
  std::unique_ptr<void, Release> data_;
  size_t bytes_ = 0;
};
using DeviceMemory = Memory<free_device>;
using PinnedMemory = Memory<free_pinned>;  // of the host, reachable by the GPU's copy engines
[[nodiscard]] DeviceMemory device_memory(size_t bytes, std::string_view what);
[[nodiscard]] PinnedMemory pinned_memory(size_t bytes, std::string_view what);

class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  [[nodiscard]] Stream get() const noexcept { return stream_; }
  void wait() const;                // until all that was enqueued is done; throws what failed
  [[nodiscard]] bool idle() const;  // whether it is; throws what failed

 private:
  Stream stream_ = nullptr;
};

// A point in a stream.
class OwnEvent {
 public:
  OwnEvent();
  ~OwnEvent();
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  void record(Stream stream) const;  // what is enqueued by now
  void wait() const;                 // until that is done; throws what failed

 private:
  CUevent_st* event_ = nullptr;
};

// A recorded sequence of kernels that is launched as one.
class Graph {
 public:
  // Records what `enqueue` puts into `stream`; nothing of it runs.
  Graph(Stream stream, const std::function<void()>& enqueue);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(Stream stream) const;

 private:
  CUgraphExec_st* graph_ = nullptr;
};

// Whether what is launched into `stream` next may begin before the kernel that is there last has ended: while a graph
// is recorded, and only one kernel is before it.
[[nodiscard]] bool may_begin_early(Stream stream);
// Lets all that is enqueued into `later` from now on wait for all that is in `earlier`.
void let_wait(Stream later, Stream earlier);

void copy_to_device(void* to, const void* from, size_t bytes, Stream stream);
void copy_to_host(void* to, const void* from, size_t bytes, Stream stream);
void fill_zero(void* to, size_t bytes, Stream stream);
// Throws if the last kernel did not start.
void check_launch(std::string_view what);

}  // namespace exeunt::cuda
