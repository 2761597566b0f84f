// SPDX-License-Identifier: Apache-2.0
#include "exeunt/engine/cpu/kernel_profile.h"

#include <array>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "exeunt/base/error.h"

namespace exeunt {
namespace {

using Time = std::chrono::steady_clock::time_point;

enum class What : uint8_t { multiply, normalize, attend, rotate, add_distances, pack_rows, read };
constexpr std::array<std::string_view, 7> kNames = {"multiply",      "normalize", "attend", "rotate",
                                                    "add_distances", "pack_rows", "read"};

struct Event {
  What what = {};
  Precision precision = Precision::fp32;
  int rows = 0, inputs = 0, outputs = 0;  // what it worked on; 0 = there is no such side
  Time begin = {}, end = {};
};

// One thread's recording. Each thread has its own list, so recording needs no lock.
struct Notes {
  int thread = 0;
  std::vector<Event> events = {};
};

// More calls than this are not recorded: the file would be too large to view.
constexpr size_t kMostEvents = size_t{1} << 20;

struct Shared {
  const Kernels* inner = nullptr;  // of the one profile there is
  std::mutex mutex;
  std::vector<std::shared_ptr<Notes>> threads;
  Time start = {};
  int round = 0;  // changes with every profile, so that a thread can tell a stale list
};
Shared shared;

Notes& own_notes() {
  thread_local std::shared_ptr<Notes> notes;
  thread_local int round = -1;
  if (round != shared.round) {
    const std::scoped_lock lock(shared.mutex);
    notes = std::make_shared<Notes>();
    notes->thread = static_cast<int>(shared.threads.size());
    shared.threads.push_back(notes);
    round = shared.round;
  }
  return *notes;
}

Event about(const Product& call) {
  const int width = shared.inner->panel_outputs(call.weight->precision);
  return {.precision = call.weight->precision,
          .rows = call.rows,
          .inputs = call.weight->inputs,
          .outputs = call.panels * width};
}
Event about(const Attention& call) {
  return {
      .precision = call.precision, .rows = call.rows, .inputs = call.tokens, .outputs = call.heads * call.head_width};
}
Event about(const float*, size_t, const Operand& out, int, int rows) {  // pack_rows
  return {.precision = out.precision, .rows = rows, .inputs = out.columns};
}
Event about(const Normalization& call) {
  return {.rows = call.rows, .inputs = call.columns};
}
Event about(const RotaryCall& call) {
  return {.precision = call.precision, .rows = 1, .inputs = call.columns};
}
Event about(const DistanceCall& call) {
  return {.rows = call.rows, .inputs = call.tokens};
}
Event about(const ReaderCall& call) {
  return {.rows = call.tokens, .inputs = call.columns};
}

// The `function` of the inner table, recorded.
template <What what, auto function, class... Call>
void recorded(Call... call) {
  Event event = about(call...);
  event.what = what;
  event.begin = std::chrono::steady_clock::now();
  (shared.inner->*function)(call...);
  event.end = std::chrono::steady_clock::now();
  Notes& notes = own_notes();
  if (notes.events.size() < kMostEvents) notes.events.push_back(event);
}

double microseconds(Time time) {
  return std::chrono::duration<double, std::micro>(time - shared.start).count();
}

}  // namespace

KernelProfile::KernelProfile(const Kernels& inner) : table_(inner) {
  check(shared.inner == nullptr, "one profile at a time");
  shared.inner = &inner;
  table_.multiply = recorded<What::multiply, &Kernels::multiply>;
  table_.normalize = recorded<What::normalize, &Kernels::normalize>;
  table_.attend = recorded<What::attend, &Kernels::attend>;
  table_.rotate = recorded<What::rotate, &Kernels::rotate>;
  table_.add_distances = recorded<What::add_distances, &Kernels::add_distances>;
  table_.pack_rows = recorded<What::pack_rows, &Kernels::pack_rows>;
  table_.read = recorded<What::read, &Kernels::read>;
  clear();
}

KernelProfile::~KernelProfile() {
  shared.inner = nullptr;
}

void KernelProfile::clear() {
  const std::scoped_lock lock(shared.mutex);
  shared.threads.clear();
  shared.start = std::chrono::steady_clock::now();
  ++shared.round;
}

std::string KernelProfile::chrome_trace() const {
  const std::scoped_lock lock(shared.mutex);
  std::string out = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char* separator = "\n";
  for (const auto& notes : shared.threads) {
    for (const Event& event : notes->events) {
      fmt::format_to(std::back_inserter(out),
                     "{}{{\"name\": \"{}\", \"cat\": \"{}\", \"ph\": \"X\", \"pid\": 1, \"tid\": {}, \"ts\": {:.3f}, "
                     "\"dur\": {:.3f}, \"args\": {{\"rows\": {}, \"inputs\": {}, \"outputs\": {}}}}}",
                     separator, kNames[static_cast<size_t>(event.what)], name_of(event.precision), notes->thread,
                     microseconds(event.begin), microseconds(event.end) - microseconds(event.begin), event.rows,
                     event.inputs, event.outputs);
      separator = ",\n";
    }
  }
  return out + "\n]}\n";
}

}  // namespace exeunt
