// SPDX-License-Identifier: Apache-2.0
// Only this folder includes CUDA's headers; the runtime is linked statically and finds the driver at first use, so the
// program starts on machines without one.
#include <cuda_runtime.h>

#include "exeunt/engine/cuda/cuda.h"
#include "exeunt/engine/cuda/gpu_resources.h"

namespace exeunt {
namespace cuda {
namespace {

void must(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) throw_cuda_failure(what, cudaGetErrorString(status));
}

// 13000 → "13.0"
std::string version_text(int version) {
  return version <= 0 ? std::string() : std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// What `allocate` allocated, or the error that it did not.
template <class M, class Allocate>
M allocated(Allocate allocate, size_t bytes, std::string_view what) {
  void* data = nullptr;
  const cudaError_t status = allocate(&data, bytes > 0 ? bytes : 1);
  if (status != cudaSuccess) cudaGetLastError();  // not sticky: the next call starts afresh
  if (status != cudaSuccess) throw_cuda_memory(what, bytes, cudaGetErrorString(status));
  return {data, bytes};
}

}  // namespace

Chip chip_of(int index) {
  Chip chip{.index = index};
  must(cudaDeviceGetAttribute(&chip.major, cudaDevAttrComputeCapabilityMajor, index), "asking for the GPU's version");
  must(cudaDeviceGetAttribute(&chip.minor, cudaDevAttrComputeCapabilityMinor, index), "asking for the GPU's version");
  must(cudaDeviceGetAttribute(&chip.processors, cudaDevAttrMultiProcessorCount, index), "asking for the GPU's size");
  return chip;
}

void use_gpu(int index) {
  must(cudaSetDevice(index), "selecting the GPU");
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  must(cudaMemGetInfo(&free, &total), "asking for free GPU memory");
  return free;
}

void free_device(void* data) noexcept {
  cudaFree(data);
}
void free_pinned(void* data) noexcept {
  cudaFreeHost(data);
}

DeviceMemory device_memory(size_t bytes, std::string_view what) {
  return allocated<DeviceMemory>([](void** data, size_t size) { return cudaMalloc(data, size); }, bytes, what);
}
PinnedMemory pinned_memory(size_t bytes, std::string_view what) {
  return allocated<PinnedMemory>([](void** data, size_t size) { return cudaMallocHost(data, size); }, bytes, what);
}

OwnStream::OwnStream() {
  must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}
OwnStream::~OwnStream() {
  cudaStreamDestroy(stream_);
}
void OwnStream::wait() const {
  must(cudaStreamSynchronize(stream_), "running on the GPU");
}

bool OwnStream::idle() const {
  const cudaError_t status = cudaStreamQuery(stream_);
  if (status == cudaErrorNotReady) return false;
  must(status, "running on the GPU");
  return true;
}

OwnEvent::OwnEvent() {
  must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
}
OwnEvent::~OwnEvent() {
  cudaEventDestroy(event_);
}
void OwnEvent::record(Stream stream) const {
  must(cudaEventRecord(event_, stream), "recording an event");
}
void OwnEvent::wait() const {
  must(cudaEventSynchronize(event_), "running on the GPU");
}

Graph::Graph(Stream stream, const std::function<void()>& enqueue) {
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a graph");
  cudaGraph_t recorded = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &recorded);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    throw;
  }
  must(cudaStreamEndCapture(stream, &recorded), "recording a graph");
  const cudaError_t status = cudaGraphInstantiate(&graph_, recorded, 0);
  cudaGraphDestroy(recorded);
  must(status, "preparing a graph");
}
Graph::~Graph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}
void Graph::launch(Stream stream) const {
  must(cudaGraphLaunch(graph_, stream), "starting a graph");
}

bool may_begin_early(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* before = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  must(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &before, &edges, &count), "recording a graph");
  if (status != cudaStreamCaptureStatusActive || count != 1) return false;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  must(cudaGraphNodeGetType(before[0], &type), "recording a graph");
  return type == cudaGraphNodeTypeKernel;
}

void let_wait(Stream later, Stream earlier) {
  cudaEvent_t event = nullptr;
  must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  cudaError_t status = cudaEventRecord(event, earlier);
  if (status == cudaSuccess) status = cudaStreamWaitEvent(later, event, 0);
  cudaEventDestroy(event);  // when both are done
  must(status, "waiting for an event");
}

void copy_to_device(void* to, const void* from, size_t bytes, Stream stream) {
  if (bytes > 0) must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the GPU");
}
void copy_to_host(void* to, const void* from, size_t bytes, Stream stream) {
  if (bytes > 0) must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "copying from the GPU");
}
void fill_zero(void* to, size_t bytes, Stream stream) {
  if (bytes > 0) must(cudaMemsetAsync(to, 0, bytes, stream), "clearing GPU memory");
}
void check_launch(std::string_view what) {
  must(cudaGetLastError(), what);
}

}  // namespace cuda

bool cuda_built() noexcept {
  return true;
}

CudaDevices cuda_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  CudaDevices found;
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess) found.driver = cuda::version_text(driver);
  if (cudaRuntimeGetVersion(&runtime) == cudaSuccess) found.runtime = cuda::version_text(runtime);
  if (status != cudaSuccess || count == 0) {
    found.reason = status == cudaSuccess ? "no GPU was found" : cudaGetErrorString(status);
    if (status == cudaErrorInsufficientDriver && driver > 0) {
      found.reason += " (the driver supports " + found.driver + ", this build has " + found.runtime + ")";
    }
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    cuda::must(cudaGetDeviceProperties(&properties, i), "asking for the GPU's properties");
    found.devices.push_back({.index = i,
                             .name = properties.name,
                             .major = properties.major,
                             .minor = properties.minor,
                             .processors = properties.multiProcessorCount,
                             .bytes = properties.totalGlobalMem});
  }
  return found;
}

}  // namespace exeunt
