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
  What what;
  Precision precision;
  int rows, inputs, outputs;  // what it worked on; 0 = there is no such side
  Time begin, end;
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

template <class Call>
void note(What what, Event event, Call call) {
  event.what = what;
  event.begin = std::chrono::steady_clock::now();
  call();
  event.end = std::chrono::steady_clock::now();
  Notes& notes = own_notes();
  if (notes.events.size() < kMostEvents) notes.events.push_back(event);
}

Event about(Precision precision, int rows, int inputs = 0, int outputs = 0) {
  return {
      .what = {}, .precision = precision, .rows = rows, .inputs = inputs, .outputs = outputs, .begin = {}, .end = {}};
}

void multiply(const Product& product) {
  const int width = shared.inner->panel_outputs(product.weight->precision);
  note(What::multiply, about(product.weight->precision, product.rows, product.weight->inputs, product.panels * width),
       [&] { shared.inner->multiply(product); });
}

void normalize(const Normalization& call) {
  note(What::normalize, about(Precision::fp32, call.rows, call.columns), [&] { shared.inner->normalize(call); });
}

void attend(const Attention& call) {
  note(What::attend, about(call.precision, call.rows, call.tokens, call.heads * call.head_width),
       [&] { shared.inner->attend(call); });
}

void rotate(const RotaryCall& call) {
  note(What::rotate, about(call.precision, 1, call.columns), [&] { shared.inner->rotate(call); });
}

void add_distances(const DistanceCall& call) {
  note(What::add_distances, about(Precision::fp32, call.rows, call.tokens), [&] { shared.inner->add_distances(call); });
}

void pack_rows(const float* data, size_t stride, const Operand& out, int row, int rows) {
  note(What::pack_rows, about(out.precision, rows, out.columns),
       [&] { shared.inner->pack_rows(data, stride, out, row, rows); });
}

void read(const ReaderCall& call) {
  note(What::read, about(Precision::fp32, call.tokens, call.columns), [&] { shared.inner->read(call); });
}

double microseconds(Time time) {
  return std::chrono::duration<double, std::micro>(time - shared.start).count();
}

}  // namespace

KernelProfile::KernelProfile(const Kernels& inner) : table_(inner) {
  check(shared.inner == nullptr, "one profile at a time");
  shared.inner = &inner;
  table_.multiply = multiply;
  table_.normalize = normalize;
  table_.attend = attend;
  table_.rotate = rotate;
  table_.add_distances = add_distances;
  table_.pack_rows = pack_rows;
  table_.read = read;
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
